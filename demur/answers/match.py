"""Whether a text holds an answer, and whether a candidate answer is right."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from demur.answers import counts
from demur.answers.assertion import denied, final_part, rival, withdrawn
from demur.answers.boxes import boxes, iou
from demur.answers.choices import right_labels, stated_options
from demur.answers.dates import whole_date
from demur.answers.doubt import negated, says_again, unclear
from demur.answers.in_english import (
    in_english,
    language_of,
    languages_of,
    side_in_english,
    spec_in_english,
)
from demur.answers.languages import evidence, listed
from demur.answers.lists import further_item, is_list
from demur.answers.numbers import whole_quantity
from demur.answers.spans import Span, content, range_spans, spans
from demur.answers.text import both_ends, normalise, readable, unformatted, words
from demur.answers.yes_no import SIDES, polarities, polarity, side_of
from demur.core.records import AnswerSpec


class Match(NamedTuple):
    """The reading of one candidate answer."""

    correct: bool
    form: str
    """The accepted form that was found; "" when none was."""
    why: str
    sure: bool = True
    """False if rules cannot decide (part of a name, a paraphrase of a sentence) and another judge should."""


# --- the two questions ---------------------------------------------------------------------------


def holds(spec: AnswerSpec, text: str, question: str = "") -> bool:
    """Whether ``text`` (a passage, of any length) contains the answer.

    Args:
        spec: the answer; one accepted form is enough, with all its parts.
        text: untrusted.
        question: if given, a small bare number must count what it asks for, see `demur.answers.counts`.

    Returns:
        True if the text has the answer as words, as an equal quantity or as the same date. For a choice, the text of a
        right option counts, never its letter; for a box, only the same box in figures. No passage holds a mere yes or
        no.

    >>> uk = AnswerSpec(accepted=(("UK",),))
    >>> holds(uk, "It is made in the U.K. today."), holds(uk, "Ukraine")
    (True, False)
    >>> holds(AnswerSpec(accepted=(("2",),)), "It is a 2-methoxyphenol.", "How many rings does it have?")
    False
    """
    if spec.kind == "box":
        return any(iou(box, spec.box or (0.0, 0.0, 0.0, 0.0)) >= 1 - 1e-6 for box in boxes(text))
    long = len(words(text)) > 4
    if spec.kind == "choice" and spec.choices:
        right = [t for label, t in spec.choices if label in right_labels(spec)]
        return any(_stands(spec, t, text, bare=not long, kind="string") for t in right)
    if spec.number is not None:
        within = range_spans(spec, text, bare=not long)
        if any(not _is_count(spec, "") or _counts(question, text, place) for place in within):
            return True
    return any(
        all(
            _stands(spec, part, text, bare=not long, question=question * (len(form) == 1))
            for part in form
        )
        for form in spec.accepted
    )


def _stands(
    spec: AnswerSpec, part: str, text: str, *, bare: bool, kind: str = "", question: str = ""
) -> bool:
    said = normalise(part)
    if said in SIDES:  # a passage that has the word "no" does not answer no
        return normalise(text) == said
    found = spans(spec, part, text, bare=bare, kind=kind)
    if _is_count(spec, part):
        return any(_counts(question, text, place) for place in found)
    return next(found, None) is not None


def _is_count(spec: AnswerSpec, part: str) -> bool:
    """Whether a part of a form (for "": the right range) is a small bare number, which any text may hold by chance."""
    if spec.unit:
        return False
    if not part:
        return (
            spec.number is not None
            and spec.number[0] == spec.number[1]
            and 0 <= spec.number[0] < counts.LARGE
        )
    read = whole_quantity(part)
    return read is not None and not read[1] and counts.is_small(read[0])


def _counts(question: str, text: str, place: Span) -> bool:
    """Whether the small number at a place counts what the question asks for; a number alone always does."""
    return (
        not question
        or whole_quantity(text) is not None
        or counts.counts(counts.asked(question), text, *place)
    )


def matches(spec: AnswerSpec, answer: str, question: str = "") -> Match:
    """Whether ``answer``, a system's reply to the question, is right.

    It is right if it states an accepted form with all its parts, does not deny it ("not Paris") and offers no rival
    beside it ("Paris or Lyon"). Added detail is not judged. If the text names its final answer, only that is judged.
    Numbers must be right to the last digit of the accepted form. If the question is given, a small number must count
    what it asks for, as far as the text says what it counts (`demur.answers.counts`).

    >>> matches(AnswerSpec(accepted=(("5,730 m",),)), "It is 5.73 kilometres long.").correct
    True
    >>> matches(AnswerSpec(accepted=(("Paris",),)), "Paris or Lyon").why
    "offers 'Lyon' beside 'Paris'"
    """
    answer = unformatted(both_ends(answer))
    if not normalise(answer):
        return Match(False, "", "no words in the answer")
    text = final_part(answer)
    if spec.kind == "box":
        return _match_box(spec, text)
    if spec.kind == "choice" and spec.choices:
        return _match_choice(spec, text)
    about = evidence(question, spec)
    code, others = language_of(about, text), languages_of(about, text)
    spec, text = spec_in_english(spec, code), in_english(text, code)
    stands = polarity(spec)
    if stands:
        return _match_polarity(spec, stands, side_in_english(text, code, question), question)
    first: Match | None = None
    for form in ((), *spec.accepted) if spec.number is not None else spec.accepted:
        found = _match_form(spec, form, text, question, others)
        if found.correct:
            return found
        if (
            first is None
            or (found.form and not first.form)
            or (not found.sure and first.sure and not first.form)
        ):
            first = found
    return first or Match(False, "", "no accepted form is stated")


_MENTIONS = 50
"""Mentions of a form whose context is read."""


# --- one accepted form ---------------------------------------------------------------------------


def _match_form(
    spec: AnswerSpec, form: tuple[str, ...], text: str, question: str, others: tuple[str, ...] = ()
) -> Match:
    name = "; ".join(form) or _shown_range(spec)
    taken: list[Span] = []
    firsts: list[Span] = []
    for part in form or ("",):
        places = list(
            spans(spec, part, text, bare=True) if part else range_spans(spec, text, bare=True)
        )
        if question and places and len(form) <= 1 and _is_count(spec, part):
            places = counts.answering(question, text, places)
        if not places:
            if len(form) > 1:
                return Match(False, "", f"lacks {part!r}")
            return _nearly(part, text) if part else Match(False, "", "no number in the right range")
        stated = [
            s
            for s in places[:_MENTIONS]
            if not denied(text, s) or says_again(text, s, question, others)
        ]
        if not stated:
            return Match(
                False, name, f"{'may deny' if negated(question, others) else 'denies'} {part!r}"
            )
        other = next((r for r in (rival(text, s, partial(holds, spec)) for s in stated) if r), "")
        if other and len(form) == 1:
            return Match(False, name, f"offers {other!r} beside {name!r}")
        doubtful = ""
        for span in stated:
            doubtful = unclear(text, span, question, part, others, partial(holds, spec))
            if not doubtful:
                break
        if doubtful:
            return Match(False, name, doubtful)
        taken += stated
        firsts.append(stated[0])
    if (len(form) > 1 or (part and is_list(part, others))) and (
        more := further_item(text, firsts, question, others)
    ):
        return Match(False, name, f"offers {more!r} beside {name!r}")
    surplus = _surplus(spec, form, text)
    if surplus:
        return Match(False, name, surplus)
    retraction = withdrawn(text, max(taken))
    if retraction:
        return Match(False, name, f"takes it back: {retraction!r}")
    return Match(True, name, f"states {name!r}")


def _nearly(part: str, text: str) -> Match:
    """Wrong, or undecided: a part of the name, a misspelt name, a paraphrased sentence."""
    gold, said = [w.norm for w in content(part)], [w.norm for w in content(text)]
    if whole_quantity(part) or whole_date(part) or not said:
        return Match(False, "", f"does not state {part!r}")
    telling = {w for w in gold if len(w) > 2 and w not in _FUNCTION}
    if (
        0 < len(said) < len(gold)
        and len(gold) > 1
        and telling & set(said)
        and f" {' '.join(said)} " in f" {' '.join(gold)} "
    ):
        return Match(False, "", f"states a part of {part!r}", sure=False)
    if len(gold) <= 4 and any(
        _one_slip(" ".join(gold), " ".join(said[i : i + len(gold)])) for i in range(len(said))
    ):
        return Match(False, "", f"is one letter from {part!r}", sure=False)
    if len(gold) >= 6 and len(telling) >= 3:
        shared = len(telling & set(said)) / len(telling)
        if shared >= 0.5:
            return Match(False, "", f"shares {shared:.0%} of the words of {part!r}", sure=False)
    return Match(False, "", f"does not state {part!r}")


def _one_slip(a: str, b: str) -> bool:
    """Whether two different strings of seven letters or more are one insertion, deletion, change or swap apart."""
    if (
        a == b
        or abs(len(a) - len(b)) > 1
        or min(len(a), len(b)) < 7
        or any(c.isdigit() for c in a + b)
    ):
        return False
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    x, y = a[head:], b[head:]
    return x[1:] == y or x == y[1:] or x[1:] == y[1:] or (x[:2] == y[1::-1] and x[2:] == y[2:])


_FUNCTION = frozenset(listed("en", "function"))


def _shown_range(spec: AnswerSpec) -> str:
    low, high = spec.number or (0.0, 0.0)
    return (
        f"{low:g} to {high:g} {spec.unit}".strip()
        if low != high
        else f"{low:g} {spec.unit}".strip()
    )


def _surplus(spec: AnswerSpec, form: tuple[str, ...], text: str) -> str:
    """Why a bare list is no answer: it adds parts that were not asked for, or lists many candidates."""
    lines = (f" {' '.join(line.split())} " for line in readable(text).split("\n"))
    items = [i.strip() for line in lines for i in re.split("[,;]| and ", line) if normalise(i)]
    if len(items) < 2 or any(len(words(i)) > 4 for i in items) or not form:
        return ""
    every = {p for f in spec.accepted for p in f}
    foreign = [i for i in items if not any(next(spans(spec, p, i, bare=True), None) for p in every)]
    if len(form) > 1 and foreign:
        return f"adds {foreign[0]!r}"
    if whole_quantity(form[0]) and not any(any(c.isdigit() for c in i) for i in foreign):
        return ""  # "3: Jupiter, Saturn, Mars"
    alone = len(form) == 1 and "," not in form[0] and " and " not in form[0]
    if alone and len(foreign) >= 3 and len(foreign) == len(items) - 1:
        return f"lists {len(items)} candidates"
    return ""


# --- yes or no, a choice, a box ------------------------------------------------------------------


def _match_polarity(spec: AnswerSpec, side: str, text: str, question: str) -> Match:
    said, form = side_of(text, question), spec.accepted[0][0]
    if said:
        return Match(said == side, form if said == side else "", f"says {said}")
    if len(polarities(text)) == 2:
        return Match(False, form, "says yes and no")
    return Match(False, "", "says neither yes nor no", sure=False)


def _match_choice(spec: AnswerSpec, text: str) -> Match:
    """Judge a letter, an option's text, or both; an answer with several options is wrong."""
    right, said = right_labels(spec), stated_options(spec, text)
    if not right:
        return Match(False, "", "the accepted answer is none of the options", sure=False)
    if not said:
        return Match(False, "", "states no option")
    if len(said) > 1:
        return Match(False, "", f"states options {', '.join(sorted(said))}")
    label, how = next(iter(said.items()))
    return Match(
        label in right, label if label in right else "", f"states option {label} by its {how}"
    )


def _match_box(spec: AnswerSpec, text: str) -> Match:
    found, least = boxes(text), 0.5 if spec.tolerance is None else spec.tolerance
    if spec.box is None or len(found) != 1:
        return Match(False, "", f"states {len(found)} boxes instead of one")
    overlap = iou(found[0], spec.box)
    return Match(
        overlap >= least,
        str(spec.box) if overlap >= least else "",
        f"overlap {overlap:.2f}, {least:g} needed",
    )
