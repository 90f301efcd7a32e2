"""Where a part of an accepted form stands in a text: as words, as an equal quantity, or as the same date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from demur.answers import numbers
from demur.answers.dates import Date, dates, whole_date
from demur.answers.numbers import Quantity, in_unit, quantities, unit_named, whole_quantity
from demur.answers.text import ARTICLES, Word, readable, words
from demur.records import AnswerSpec

Span = tuple[int, int]
"""Start and end in ``readable(text)``."""


class _Part(NamedTuple):
    """One required part of an accepted form, compiled."""

    text: str
    words: tuple[Word, ...]
    quantity: Quantity | None
    noun: str
    date: Date | None


@lru_cache(maxsize=16384)
def _part(text: str, kind: str) -> _Part:
    """A part of a form as what it is: words, a quantity with its noun, a date; ``kind`` is the answer's."""
    date = whole_date(text)
    if date and kind != "date" and not date.month:
        date = None  # a bare number may be a year; it is compared as both below
    read = whole_quantity(text) if date is None or kind == "number" else None
    quantity, noun = read if read else (None, "")
    return _Part(text, tuple(content(words(text))), quantity, noun, None if kind == "number" else date)


def content(found: tuple[Word, ...]) -> list[Word]:
    """Words without articles; a capital A in the middle is a letter, not an article."""
    kept = [
        w for i, w in enumerate(found) if w.norm not in ARTICLES and not (w.norm == "a" and (w.raw == "a" or i == 0))
    ]
    return kept or list(found)


def spans(spec: AnswerSpec, form: str, text: str, *, bare: bool, kind: str = "") -> Iterator[Span]:
    """Everywhere that ``text`` states one part of an accepted form.

    Args:
        spec: the answer.
        form: the part that is looked for.
        text: untrusted text.
        bare: the text is a short answer, where a number needs no unit and "us" may be the country.
        kind: what the part is read as; the answer's own kind when empty.
    """
    part = _part(form, kind or spec.kind)
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
    said = content(words(text))
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


_LOOKALIKES = frozenset({
    "us", "it", "who", "in", "is", "as", "at", "or", "no", "am", "pm", "be", "do", "go", "he", "me", "my", "so",
    "to", "up", "we", "and", "are", "can", "for", "all", "one", "new", "may",
})  # fmt: skip
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


def range_spans(spec: AnswerSpec, text: str, *, bare: bool) -> Iterator[Span]:
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
