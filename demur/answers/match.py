"""Whether a text holds an answer."""

from __future__ import annotations

from demur.answers import counts
from demur.answers.boxes import boxes, iou
from demur.answers.choices import right_labels
from demur.answers.numbers import whole_quantity
from demur.answers.spans import Span, range_spans, spans
from demur.answers.text import normalise, words
from demur.answers.yes_no import SIDES
from demur.core.records import AnswerSpec


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
        return any(_states_part(spec, t, text, bare=not long, kind="string") for t in right)
    if spec.number is not None:
        within = range_spans(spec, text, bare=not long)
        if any(
            not _is_count(spec, "") or _counts_what_is_asked(question, text, place)
            for place in within
        ):
            return True
    return any(
        all(
            _states_part(spec, part, text, bare=not long, question=question * (len(form) == 1))
            for part in form
        )
        for form in spec.accepted
    )


def _states_part(
    spec: AnswerSpec, part: str, text: str, *, bare: bool, kind: str = "", question: str = ""
) -> bool:
    normal_part = normalise(part)
    if normal_part in SIDES:  # a passage that has the word "no" does not answer no
        return normalise(text) == normal_part
    places = spans(spec, part, text, bare=bare, kind=kind)
    if _is_count(spec, part):
        return any(_counts_what_is_asked(question, text, place) for place in places)
    return next(places, None) is not None


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
    quantity_and_noun = whole_quantity(part)
    return (
        quantity_and_noun is not None
        and not quantity_and_noun[1]
        and counts.is_small(quantity_and_noun[0])
    )


def _counts_what_is_asked(question: str, text: str, place: Span) -> bool:
    """Whether the small number at a place counts what the question asks for; a number alone always does."""
    return (
        not question
        or whole_quantity(text) is not None
        or counts.counts(counts.counted_thing(question), text, *place)
    )
