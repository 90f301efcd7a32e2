"""Whether a text holds an answer, and whether a candidate answer is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from demur.answers import numbers
from demur.answers.dates import Date, dates, whole_date
from demur.answers.numbers import Quantity, in_unit, quantities, unit_named, whole_quantity
from demur.answers.text import ARTICLES, Word, normalise, readable, words
from demur.records import AnswerSpec


class Match(NamedTuple):
    """The reading of one candidate answer."""

    correct: bool
    form: str
    """The accepted form that was found; "" when none was."""
    why: str
    sure: bool = True
    """False where rules cannot tell (part of a name, a paraphrase of a sentence): ask a better judge."""


Span = tuple[int, int]
"""Start and end in ``readable(text)``."""


class _Part(NamedTuple):
    """One required part of an accepted form, compiled."""

    text: str
    words: tuple[Word, ...]
    quantity: Quantity | None
    noun: str
    date: Date | None


# --- the two questions ---------------------------------------------------------------------------


def holds(spec: AnswerSpec, text: str) -> bool:
    """Whether ``text`` (a passage, of any length) contains the answer.

    Args:
        spec: the answer; any accepted form will do, all of its parts must be there.
        text: untrusted text; read as text only.

    Returns:
        True when the answer stands in the text as words, as an equal quantity or as the same date. For a choice the
        text of a right option counts, never its letter; for a box nothing but the same box in figures does.

    >>> uk = AnswerSpec(accepted=(("UK",),))
    >>> holds(uk, "It is made in the U.K. today."), holds(uk, "Ukraine")
    (True, False)
    """
    if spec.kind == "box":
        return any(_iou(box, spec.box or (0.0, 0.0, 0.0, 0.0)) >= 1 - 1e-6 for box in _boxes(text))
    long = len(words(text)) > 4
    if spec.kind == "choice" and spec.choices:
        right = [t for label, t in spec.choices if label in _right_labels(spec)]
        return any(next(_spans(spec, _part(t, "string"), text, bare=not long), None) for t in right)
    if _in_range(spec) and any(True for _ in _range_spans(spec, text, bare=not long)):
        return True
    return any(
        all(next(_spans(spec, _part(part, spec.kind), text, bare=not long), None) for part in form)
        for form in spec.accepted
    )


def matches(spec: AnswerSpec, answer: str) -> Match:
    """Whether ``answer``, what a system replied to the question, is right.

    Right: an accepted form is stated (all its parts), it is not denied ("not Paris"), and no rival is offered beside
    it ("Paris or Lyon"). Detail that the answer adds is not judged. When the text names its final answer, that is
    what is judged. Numbers must be right to the last digit that the accepted form shows.

    >>> matches(AnswerSpec(accepted=(("5,730 m",),)), "It is 5.73 kilometres long.").correct
    True
    >>> matches(AnswerSpec(accepted=(("Paris",),)), "Paris or Lyon").why
    "offers 'Lyon' beside 'Paris'"
    """
    if len(answer) > _LONGEST:
        answer = f"{answer[: _LONGEST // 2]}\n{answer[-_LONGEST // 2 :]}"
    if not normalise(answer):
        return Match(False, "", "no words in the answer")
    text = final_part(answer)
    if spec.kind == "box":
        return _match_box(spec, text)
    if spec.kind == "choice" and spec.choices:
        return _match_choice(spec, text)
    stands = _polarity(spec)
    if stands:
        return _match_polarity(spec, stands, text)
    first: Match | None = None
    for form in ((), *spec.accepted) if _in_range(spec) else spec.accepted:
        found = _match_form(spec, form, text)
        if found.correct:
            return found
        if first is None or (found.form and not first.form) or (not found.sure and first.sure and not first.form):
            first = found
    return first or Match(False, "", "no accepted form is stated")


_LONGEST = 20_000
"""Characters of a candidate answer that are read, half from its beginning and half from its end."""
_MENTIONS = 50
"""Mentions of a form that are looked at for how they are stated."""


# --- one accepted form ---------------------------------------------------------------------------


def _match_form(spec: AnswerSpec, form: tuple[str, ...], text: str) -> Match:
    name = "; ".join(form) or _shown_range(spec)
    taken: list[Span] = []
    for part in form or ("",):
        spans = list(
            _spans(spec, _part(part, spec.kind), text, bare=True) if part else _range_spans(spec, text, bare=True)
        )
        if not spans:
            if len(form) > 1:
                return Match(False, "", f"lacks {part!r}")
            return _nearly(part, text) if part else Match(False, "", "no number in the right range")
        stated = [s for s in spans[:_MENTIONS] if not _denied(text, s)]
        if not stated:
            return Match(False, name, f"denies {part!r}")
        rival = next((r for r in (_rival(spec, text, s) for s in stated) if r), "")
        if rival and len(form) == 1:
            return Match(False, name, f"offers {rival!r} beside {name!r}")
        taken += stated
    surplus = _surplus(spec, form, text)
    if surplus:
        return Match(False, name, surplus)
    withdrawn = _withdrawn(text, max(taken))
    if withdrawn:
        return Match(False, name, f"takes it back: {withdrawn!r}")
    return Match(True, name, f"states {name!r}")


def _nearly(part: str, text: str) -> Match:
    """Wrong, or something that rules cannot tell: a piece of the name, the name misspelt, a paraphrased sentence."""
    gold, said = [w.norm for w in _content(words(part))], [w.norm for w in _content(words(text))]
    if whole_quantity(part) or whole_date(part) or not said:
        return Match(False, "", f"does not state {part!r}")
    telling = {w for w in gold if len(w) > 2 and w not in _FUNCTION}
    if 0 < len(said) < len(gold) and len(gold) > 1 and telling & set(said) and _inside(said, gold):
        return Match(False, "", f"states a part of {part!r}", sure=False)
    if len(gold) <= 4 and any(_one_slip(" ".join(gold), " ".join(said[i : i + len(gold)])) for i in range(len(said))):
        return Match(False, "", f"is one letter from {part!r}", sure=False)
    if len(gold) >= 6 and len(telling) >= 3:
        shared = len(telling & set(said)) / len(telling)
        if shared >= 0.5:
            return Match(False, "", f"shares {shared:.0%} of the words of {part!r}", sure=False)
    return Match(False, "", f"does not state {part!r}")


def _inside(some: list[str], all_: list[str]) -> bool:
    return any(all_[i : i + len(some)] == some for i in range(len(all_)))


def _one_slip(a: str, b: str) -> bool:
    """Whether two different strings of seven letters or more are one insertion, deletion, change or swap apart."""
    if a == b or abs(len(a) - len(b)) > 1 or min(len(a), len(b)) < 7 or any(c.isdigit() for c in a + b):
        return False
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    x, y = a[head:], b[head:]
    return x[1:] == y or x == y[1:] or x[1:] == y[1:] or (x[:2] == y[1::-1] and x[2:] == y[2:])


_FUNCTION = frozenset(
    [
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "and",
        "or",
        "is",
        "was",
        "are",
        "were",
        "by",
        "from",
        "with",
        "that",
        "this",
        "it",
        "its",
        "as",
        "be",
        "has",
        "have",
        "had",
        "he",
        "she",
        "they",
    ]
)


# --- finding a part in a text --------------------------------------------------------------------


@lru_cache(maxsize=16384)
def _part(text: str, kind: str) -> _Part:
    date = whole_date(text)
    if date and kind != "date" and not date.month:
        date = None  # a bare number may be a year; it is compared as both below
    read = whole_quantity(text) if date is None or kind == "number" else None
    quantity, noun = read if read else (None, "")
    return _Part(text, tuple(_content(words(text))), quantity, noun, None if kind == "number" else date)


def _content(found: tuple[Word, ...]) -> list[Word]:
    """Words without articles; a capital A in the middle is a letter, not an article."""
    kept = [
        w for i, w in enumerate(found) if w.norm not in ARTICLES and not (w.norm == "a" and (w.raw == "a" or i == 0))
    ]
    return kept or list(found)


def _spans(spec: AnswerSpec, part: _Part, text: str, *, bare: bool) -> Iterator[Span]:
    if part.date is not None:
        yield from ((d.start, d.end) for d in dates(text) if d.holds(part.date))
        if part.date.month:
            return
    if spec.kind != "date" or part.date is None:
        yield from _word_spans(part, text, bare=bare)
    if part.quantity is not None and spec.kind != "date":
        yield from _quantity_spans(spec, part, text, bare=bare)


def _word_spans(part: _Part, text: str, *, bare: bool) -> Iterator[Span]:
    if part.quantity is not None and not part.noun:
        return  # numbers are compared by value alone: "2" is not in "-2" or "2.5"
    said = _content(words(text))
    wanted = [_forms_of(w) for w in part.words]
    strict = len(part.words) == 1 and part.words[0].norm in _LOOKALIKES and part.words[0].raw.isupper()
    if not wanted:
        return
    keys = [_key(w) for w in said]
    for i in range(len(said) - len(wanted) + 1):
        if keys[i] in wanted[0] and all(keys[i + j] in wanted[j] for j in range(1, len(wanted))):
            if strict and not said[i].raw.isupper() and not (bare and len(said) == 1):
                continue  # the country US is not the pronoun
            yield said[i].start, said[i + len(wanted) - 1].end


_LOOKALIKES = frozenset(
    [
        "us",
        "it",
        "who",
        "in",
        "is",
        "as",
        "at",
        "or",
        "no",
        "am",
        "pm",
        "be",
        "do",
        "go",
        "he",
        "me",
        "my",
        "so",
        "to",
        "up",
        "we",
        "and",
        "are",
        "can",
        "for",
        "all",
        "one",
        "new",
        "may",
    ]
)
_SPELLINGS = {
    "grey": "gray", "colour": "color", "colours": "colors", "centre": "center",
    "harbour": "harbor", "theatre": "theater",
    "metre": "meter", "metres": "meters", "kilometre": "kilometer", "kilometres": "kilometers", "litre": "liter",
    "saint": "st", "mount": "mt", "doctor": "dr", "favourite": "favorite", "aluminium": "aluminum", "sulphur": "sulfur",
    "vs": "versus", "okay": "ok",
} | numbers.SMALL  # fmt: skip


def _key(word: Word) -> str:
    return _SPELLINGS.get(word.norm, word.norm)


@lru_cache(maxsize=16384)
def _forms_of(word: Word) -> frozenset[str]:
    """Keys that count as this word: a common noun (written small) also in its other number, a name never."""
    key = _key(word)
    if not (word.raw.islower() and word.raw.isalpha() and len(key) >= 3):
        return frozenset({key})
    forms = {key, key + "s", key + "es"}
    if key.endswith("y"):
        forms.add(key[:-1] + "ies")
    if key.endswith("ies"):
        forms.add(key[:-3] + "y")
    if re.search(r"(?:s|x|z|ch|sh|o)es$", key):
        forms.add(key[:-2])
    if key.endswith("s") and not key.endswith(("ss", "us", "is")) and len(key) > 3:
        forms.add(key[:-1])
    return frozenset(forms)


def _unit_of(spec: AnswerSpec, part: _Part) -> str:
    """The unit that the answer is in: its own, the specification's, or that of another form with the same value."""
    if part.quantity is None or part.quantity.unit or part.quantity.ordinal:
        return part.quantity.unit if part.quantity else ""
    if spec.unit:
        return unit_named(spec.unit) or ""
    for form in spec.accepted:
        other = whole_quantity(form[0]) if len(form) == 1 else None
        if other and other[0].unit and other[0].low == part.quantity.low:
            return other[0].unit
    return ""


def _quantity_spans(spec: AnswerSpec, part: _Part, text: str, *, bare: bool) -> Iterator[Span]:
    gold = part.quantity
    assert gold is not None
    unit, own_unit = _unit_of(spec, part), bool(gold.unit)
    days = [(d.start, d.end) for d in dates(text) if d.month]
    alone = whole_quantity(text)
    whole = alone is not None
    plain_year = gold.plain and not unit and 1000 <= gold.low < 2200 and not part.noun
    if plain_year:
        yield from ((d.start, d.end) for d in dates(text) if d.year == gold.low)
    for said in quantities(text):
        if any(a < said.end and said.start < b for a, b in days):
            continue
        if gold.ordinal != said.ordinal and not whole:
            continue  # "the 5th" does not state that there are 5
        if own_unit and not said.unit and not bare:
            continue
        if part.noun and not whole and not _noun_follows(part.noun, text, said.end):
            continue
        low, high = (said.low, said.high) if not unit or not said.unit else (
            in_unit(said.low, said.unit, unit),
            in_unit(said.high, said.unit, unit),
        )  # fmt: skip
        if low is None or high is None:
            continue
        slack = _slack(spec, gold, bool(unit), converted=bool(said.unit) and said.unit != unit)
        if abs(low - gold.low) <= slack and abs(high - gold.high) <= slack:
            yield said.start, said.end


def _slack(spec: AnswerSpec, gold: Quantity, has_unit: bool, *, converted: bool) -> float:
    """How far a right number may lie from the accepted one: half its last digit, nothing at all for a bare count."""
    exact = 1e-14 * max(1.0, abs(gold.low))
    if spec.tolerance is not None and spec.kind == "number":
        return max(exact, spec.tolerance * abs(gold.low))
    if gold.decimals > 0 or (has_unit and converted):
        return 0.5 * 10.0 ** -max(gold.decimals, 0) * (1 + 1e-9)
    return exact


def _noun_follows(noun: str, text: str, end: int) -> bool:
    after = words(readable(text)[end : end + 60])[:3]
    return any(_key(w) in _forms_of(words(noun)[-1]) for w in after)


def _in_range(spec: AnswerSpec) -> bool:
    return spec.number is not None


def _shown_range(spec: AnswerSpec) -> str:
    low, high = spec.number or (0.0, 0.0)
    return f"{low:g} to {high:g} {spec.unit}".strip() if low != high else f"{low:g} {spec.unit}".strip()


def _range_spans(spec: AnswerSpec, text: str, *, bare: bool) -> Iterator[Span]:
    """Numbers, and ranges of numbers, that lie within the right range."""
    if spec.number is None:
        return
    low, high = spec.number
    unit = unit_named(spec.unit)
    slack = 1e-14 * max(1.0, abs(low), abs(high))
    if low == high and spec.tolerance is not None:
        slack = max(slack, spec.tolerance * abs(low))
    days = [(d.start, d.end) for d in dates(text) if d.month]
    whole = whole_quantity(text) is not None
    for said in quantities(text):
        if any(a < said.end and said.start < b for a, b in days) or (said.ordinal and not whole):
            continue
        if unit and not said.unit and not bare:
            continue
        ends = [in_unit(v, said.unit, unit) if unit and said.unit else v for v in (said.low, said.high)]
        if all(e is not None and low - slack <= e <= high + slack for e in ends):
            yield said.start, said.end


# --- how it is stated ----------------------------------------------------------------------------

_FINAL = re.compile(
    r"(?:^|\n|[.!?]\s)\W*(?:final answer|short answer|answer)\s*(?:\**\s*[:=]\**|\bis\b:?)\s*", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


def final_part(answer: str) -> str:
    """What the answer itself calls its answer ("Final answer: ..."), else all of it.

    >>> final_part("Lyon is large. Final answer: **Paris**")
    'Paris**'
    """
    boxed = _BOXED.findall(answer)
    if boxed and normalise(boxed[-1]):
        return str(boxed[-1])
    marks = list(_FINAL.finditer(answer))
    while marks:
        after = answer[marks.pop().end() :].strip().lstrip("*").strip()
        if normalise(after):
            return after
    return answer


_DENIAL = re.compile(
    r"(?:\b(?:not|never|neither|nor|without|except|excluding|unlike)|n't|\b(?:rather than|instead of|"
    r"other than|no longer|apart from|as opposed to))"
    r"(?:\s+(?:in|at|on|by|from|the|a|an|really|actually|necessarily|to|be|called|located|named|it|"
    r"is))*\s*[\"'(*]*\s*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^\W*(?:is|was|are|were|would be|seems|looks)\s+(?:not\b(?! only)|n't|wrong|incorrect|false)|"
    r"^\W*(?:is|was|are|were)n't\b",
    re.IGNORECASE,
)


def _denied(text: str, span: Span) -> bool:
    text = readable(text)
    before = re.split(r"[.;!?\n]\s", text[max(0, span[0] - 80) : span[0]])[-1]
    return bool(_DENIAL.search(before)) or bool(_DENIED_AFTER.match(text[span[1] : span[1] + 40]))


_OR_AFTER = re.compile(
    r"^[\"'*)]*(?:(?:\s*,\s*(?!or\b)[^,.;\n]{1,40})*),?\s+or\s+(?:maybe|possibly|perhaps|even|else|"
    r"alternatively|it could be|it is)?\s*(?P<rival>[^,.;?!\n]{1,80})",
    re.IGNORECASE,
)
_OR_BEFORE = re.compile(
    r"(?:^|[.;:?!\n,]|\b(?:either|is|was|be|are|were|in|perhaps|maybe|possibly|likely|"
    r"probably))\s*(?P<rival>[^,.;:?!\n]{1,60}?)(?:,[^,.;\n]{1,40})*,?\s+or\s+(?:maybe|possibly|perhaps|in|"
    r"on|at|the|a|an|it is|it's)?\s*(?:the|a|an)?\s*[\"'*(]*$",
    re.IGNORECASE,
)
_OR_NOT_RIVAL = re.compile(
    r"^(?:so|more|less|thereabouts|not|even|rather|simply|just|another|other|something|similar|fewer|later|"
    r"earlier|older|above|below|both)\b",
    re.IGNORECASE,
)
_NAMED_ALSO = re.compile(
    r"\b(?:also known|also called|in other words|known as|aka|i\.e\.|called|spelled|simply|locally|"
    r"formerly|officially)\b",
    re.IGNORECASE,
)


def _rival(spec: AnswerSpec, text: str, span: Span) -> str:
    """Another candidate offered by "or" beside the one at ``span``; "" when there is none."""
    text = readable(text)
    after = _OR_AFTER.match(text[span[1] : span[1] + 240])
    before = _OR_BEFORE.search(text[max(0, span[0] - 160) : span[0]])
    for found in (after, before):
        if not found:
            continue
        rival = found["rival"].strip(" \"'*()")
        if not normalise(rival) or _OR_NOT_RIVAL.match(rival) or _NAMED_ALSO.search(rival) or holds(spec, rival):
            continue
        if _same_amount(text[span[0] : span[1]], rival):
            continue
        return " ".join(rival.split()[:6])
    return ""


def _same_amount(one: str, other: str) -> bool:
    """Two ways of writing about the same amount ("121 km or 75 miles"): equal within 5 %."""
    a, b = quantities(one), quantities(other)
    if not a or not b:
        return False
    value = in_unit(b[0].low, b[0].unit, a[0].unit)
    return value is not None and a[0].unit != b[0].unit and abs(value - a[0].low) <= 0.05 * abs(a[0].low)


_TAKEN_BACK = re.compile(
    r"(?:^|[.!?;\n-])\s*(?:(?:no|oh|hmm|sorry)[,.]\s*)?(?:wait|correction|scratch that|on second thought|"
    r"actually,? no|let me correct)\b[^\w]*(.*)",
    re.IGNORECASE | re.DOTALL,
)


def _withdrawn(text: str, last: Span) -> str:
    found = _TAKEN_BACK.search(readable(text)[last[1] :])
    return " ".join(found[0].strip(" .;-").split()[:8]) if found and normalise(found[1]) else ""


def _surplus(spec: AnswerSpec, form: tuple[str, ...], text: str) -> str:
    """Why a bare list is no answer: parts that nobody asked for, or a shot in the dark."""
    items = [i.strip() for i in re.split(r"[,;\n]|\s+and\s+|\s&\s", readable(text)) if normalise(i)]
    if len(items) < 2 or any(len(words(i)) > 4 for i in items) or not form:
        return ""
    every = {p for f in spec.accepted for p in f}
    foreign = [i for i in items if not any(next(_spans(spec, _part(p, spec.kind), i, bare=True), None) for p in every)]
    if len(form) > 1 and foreign:
        return f"adds {foreign[0]!r}"
    if (
        len(form) == 1
        and len(foreign) >= 3
        and len(foreign) == len(items) - 1
        and "," not in form[0]
        and " and " not in form[0]
    ):
        return f"lists {len(items)} candidates"
    return ""


# --- yes and no ----------------------------------------------------------------------------------

_YES_NO = re.compile(
    r"(?:^|[.!?:\n]\s*|\bis\s+)[\"'*]*(yes|no|true|false|yeah|nope)\b(?![ -](?:one|longer|data|information|"
    r"evidence|mention|other|such|more|way))",
    re.IGNORECASE,
)
_SIDE = {"yes": "yes", "yeah": "yes", "true": "yes", "no": "no", "nope": "no", "false": "no"}


def _polarity(spec: AnswerSpec) -> str:
    """What the accepted forms come to, "yes" or "no"; "" when they are something else."""
    sides = {
        _SIDE.get(normalise(form[0]).split()[0], "") if len(form) == 1 and normalise(form[0]) else ""
        for form in spec.accepted
    }
    opens = [
        re.match(r"\W*(yes|no|true|false)\b\W*(?:$|,)", form[0], re.IGNORECASE)
        for form in spec.accepted
        if len(form) == 1
    ]
    return sides.pop() if len(sides) == 1 and spec.accepted and all(opens) else ""


def _match_polarity(spec: AnswerSpec, side: str, text: str) -> Match:
    said = {_SIDE[m.group(1).lower()] for m in _YES_NO.finditer(readable(text))}
    first = _YES_NO.match(readable(text).lstrip())
    if first:
        said = {_SIDE[first.group(1).lower()]} | ({"yes", "no"} if len(said) == 2 else set())
    form = spec.accepted[0][0]
    if said == {side}:
        return Match(True, form, f"says {side}")
    if len(said) == 2:
        return Match(False, form, "says yes and no")
    if said:
        return Match(False, "", f"says {said.pop()}")
    return Match(False, "", "says neither yes nor no", sure=False)


# --- choices and boxes ---------------------------------------------------------------------------


def _right_labels(spec: AnswerSpec) -> set[str]:
    right = {normalise(p) for form in spec.accepted for p in form}
    by_text = {label for label, text in spec.choices if normalise(text) in right}
    return by_text or {label for label, _ in spec.choices if normalise(label) in right}


def _match_choice(spec: AnswerSpec, text: str) -> Match:
    """A letter, an option's text, or both; more than one option is no choice."""
    right, labels = _right_labels(spec), {normalise(label): label for label, _ in spec.choices}
    plain = readable(text).strip()
    said: dict[str, str] = {}
    alone = labels.get(normalise(plain))
    if alone:
        said[alone] = "letter"
    either = "|".join(re.escape(readable(label)) for label, _ in spec.choices)
    for pattern in (
        rf"\(({either})\)", rf"(?:^|\n)\W{{0,3}}({either})(?:[.):]|\*\*|$|\n)",
        rf"\b(?:option|choice|answer|letter)(?: is)?:?\W{{0,3}}({either})(?![^\W_])",
    ):  # fmt: skip
        for found in re.finditer(pattern, plain):
            said[labels[normalise(found.group(1))]] = "letter"
    texts: dict[str, list[Span]] = {}
    for label, option in spec.choices:
        spans = [s for s in _spans(spec, _part(option, "string"), plain, bare=True) if not _denied(plain, s)]
        if spans:
            texts[label] = spans
    for label, spans in texts.items():  # "red fox" states one option, not also "fox"
        if any(
            not any(o != label and a <= s[0] and s[1] <= b and (a, b) != s for o in texts for a, b in texts[o])
            for s in spans
        ):
            said.setdefault(label, "text")
    if not said:
        return Match(False, "", "states no option")
    if len(said) > 1:
        return Match(False, "", f"states options {', '.join(sorted(said))}")
    label, how = next(iter(said.items()))
    return Match(label in right, label if label in right else "", f"states option {label} by its {how}")


_BOX = re.compile(r"[\[(]?\s*" + r"\s*,\s*".join([r"(-?\d+(?:\.\d+)?)"] * 4) + r"\s*[\])]?")


def _boxes(text: str) -> list[tuple[float, ...]]:
    return [
        tuple(float(v) for v in m.groups())
        for m in _BOX.finditer(readable(text))
        if all(len(v) < 300 for v in m.groups())
    ]


def _iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Intersection over union of two (x1, y1, x2, y2) boxes; 0 for a box without area."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(0.0, wide) * max(0.0, high)
    union = sum(max(0.0, x2 - x1) * max(0.0, y2 - y1) for x1, y1, x2, y2 in (a, b)) - both
    return both / union if union > 0 else 0.0


def _match_box(spec: AnswerSpec, text: str) -> Match:
    found, least = _boxes(text), 0.5 if spec.tolerance is None else spec.tolerance
    if spec.box is None or len(found) != 1:
        return Match(False, "", f"states {len(found)} boxes instead of one")
    overlap = _iou(found[0], spec.box)
    return Match(
        overlap >= least, str(spec.box) if overlap >= least else "", f"overlap {overlap:.2f}, {least:g} needed"
    )
