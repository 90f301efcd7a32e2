"""Where a text states a part of an accepted form: as words, as an equal quantity, or as the same date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from demur.answers import numbers
from demur.answers.dates import Date, dates, whole_date
from demur.answers.numbers import Quantity, in_unit, quantities, unit_named, whole_quantity
from demur.answers.text import ARTICLES, Places, Word, fold, readable, remembered, words
from demur.core.records import AnswerSpec

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
def _compiled_part(text: str, kind: str) -> _Part:
    """Read a part of a form as words, a quantity with its noun, or a date; ``kind`` is the kind of the answer."""
    date = whole_date(text)
    quantity_and_noun = whole_quantity(text)
    if date and kind != "date" and not date.month and quantity_and_noun:
        date = None  # a bare number may be a year; it is compared as both below
    quantity, noun = (
        quantity_and_noun
        if quantity_and_noun and (date is None or kind == "number")
        else (None, "")
    )
    ends_of_owners = {match.start() for match in _OWNING.finditer(readable(text))}
    part_words = (
        w._replace(raw=f"{w.raw}'s") if w.end in ends_of_owners else w for w in content(text)
    )
    return _Part(text, tuple(part_words), quantity, noun, None if kind == "number" else date)


_OWNING = re.compile(r"(?<=[^\W_])'s(?![^\W_])", re.IGNORECASE)


@remembered
def content(text: str) -> tuple[Word, ...]:
    """The words without articles and possessive endings; a capital A inside the text is a letter, not an article."""
    all_words = words(text)
    ends_of_possessives = {match.end() for match in _OWNING.finditer(readable(text))}
    content_words = tuple(
        w
        for i, w in enumerate(all_words)
        if w.norm not in ARTICLES
        and not (w.norm == "a" and (w.raw == "a" or i == 0))
        and not (w.norm == "s" and w.end in ends_of_possessives)
    )
    return content_words or all_words


def spans(spec: AnswerSpec, form: str, text: str, *, bare: bool, kind: str = "") -> Iterator[Span]:
    """Everywhere that ``text`` states one part of an accepted form.

    Args:
        spec: the answer.
        form: the part to find.
        text: untrusted.
        bare: the text is a short answer, in which a number needs no unit and "us" may be the country.
        kind: how to read the part; as the kind of the answer if empty.
    """
    part = _compiled_part(form, kind or spec.kind)
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
    text_words, places = _words_by_key(text)
    key_sets = [_matching_keys(w) for w in part.words]
    if len(key_sets) > 1:  # a numeral by itself may be anything
        key_sets = [f | _numeral_keys(w) for f, w in zip(key_sets, part.words, strict=True)]
    only = part.words[0] if len(part.words) == 1 else None
    acronym = only is not None and only.norm in _LOOKALIKES and only.raw.isupper()
    name = only is not None and only.norm in _LOOKALIKES and only.raw[:1].isupper() and not bare
    if not key_sets:
        return
    for i in sorted({place for key in key_sets[0] for place in places.get(key, ())}):
        if not all(
            any(i + j in places.get(key, ()) for key in keys)
            for j, keys in enumerate(key_sets)
            if j
        ):
            continue
        word = text_words[i]
        if acronym and not word.raw.isupper() and not (bare and len(text_words) == 1):
            continue  # the country US is not the pronoun
        if only is not None and only.raw[:1].isupper() and is_verb(text, word):
            continue  # "you may"
        if name and (
            not word.raw[:1].isupper()
            or (word.norm in _OPENERS and _opens_sentence(text, word.start))
        ):
            continue  # nor is the pronoun a film that is called It
        yield word.start, text_words[i + len(key_sets) - 1].end


@remembered
def _words_by_key(text: str) -> tuple[tuple[Word, ...], dict[str, set[int]]]:
    """The words of a text, and the positions of each key.

    A word may have more keys: without a Korean particle, with the possessive s, and the value of a Roman numeral.
    """
    content_words = content(text)
    ends_of_owners = {match.start() for match in _OWNING.finditer(readable(text))}
    places: dict[str, set[int]] = {}
    for i, word in enumerate(content_words):
        key = _key(word)
        places.setdefault(key, set()).add(i)
        if word.raw in _ROMAN:
            places.setdefault(_ROMAN[word.raw], set()).add(i)
        elif word.norm in numbers.ORDINALS:  # Henry the Eighth
            places.setdefault(f"#{numbers.ORDINALS[word.norm]}", set()).add(i)
        elif word.end in ends_of_owners:
            places.setdefault(f"{key}s", set()).add(i)
        elif "\uac00" <= key[-1] <= "\ud7a3" and (stem := _PARTICLE.match(key)):
            places.setdefault(stem[1], set()).add(i)
    return content_words, places


_VERBS_TOO = frozenset({"may", "march", "will", "mark"})
_AS_NAME = re.compile(
    r"(?:^|\d|[-/:\"']|\b(?:in|of|by|on|since|until|till|from|to|between|through|during|before|after|around|about|for|"
    r"early|late|mid|last|next|every|is|was|be|it's|(?P<joint>or|and)))\W{0,2}$",
    re.IGNORECASE,
)
_AS_VERB = re.compile(r"\s+(?:be|have|also|not|well|I|you|we|they|he|she|it)\b", re.IGNORECASE)


def is_verb(text: str, word: Word) -> bool:
    """Whether a word that is also a month or a first name is none here: "you may", "May I ask?"."""
    plain = readable(text)
    if word.norm not in _VERBS_TOO:
        return False
    acts = _AS_VERB.match(plain, word.end) is not None
    if not word.raw.islower():
        return acts and _opens_sentence(text, word.start)
    lead_in = _AS_NAME.search(plain[max(0, word.start - 12) : word.start])
    return lead_in is None or (acts and lead_in["joint"] is not None)


def _opens_sentence(text: str, start: int) -> bool:
    """Whether a sentence begins at a place of ``readable(text)``."""
    before = readable(text)[max(0, start - 40) : start].rstrip(" \t\"'()[]")
    return not before or before[-1] in ".!?:;\n"


_OPENERS = frozenset(
    """
it he she they we you who what when where how why this that these there here in as at on by if no so to and or
but for all are can is be do my then now once one new
""".split()
)
"""Words that often begin a sentence, so that a capital means nothing."""
_LOOKALIKES = _OPENERS | set(
    """
us am pm go me up may march august will him her them his its our your was were has had not of off out over
aids led
""".split()
)
"""Words that are a name only if they are written as one."""
_NUMERALS = "II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX".split()
_ROMAN = {name: str(value) for value, name in enumerate(_NUMERALS, start=2)}


def _numeral_keys(word: Word) -> set[str]:
    """Keys of a Roman numeral: its value, and as in "the Eighth"."""
    return {value, f"#{value}"} if (value := _ROMAN.get(word.raw)) else {_key(word)}


_PARTICLE = re.compile(
    "(.+?)(?:은|는|이|가|을|를|의|에|에서|에게|와|과|로|으로|도|만|까지|부터|보다|이나|이며|이고|이다|입니다|였다|이었다|"
    "라고|이라고|라는|이라는|인|에는|에도|에서는|에서의|으로는|로는)$"
)
"""Korean writes noun and particle as one word."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa"})
_SPELLINGS = (
    dict(
        pair.split(":")
        for pair in """
grey:gray colour:color colours:colors centre:center harbour:harbor theatre:theater metre:meter metres:meters
kilometre:kilometer kilometres:kilometers litre:liter saint:st mount:mt doctor:dr favourite:favorite
aluminium:aluminum sulphur:sulfur vs:versus okay:ok
""".split()
    )
    | numbers.SMALL
)


def _key(word: Word) -> str:
    return _SPELLINGS.get(word.norm, word.norm)


@lru_cache(maxsize=16384)
def _matching_keys(word: Word) -> frozenset[str]:
    """Keys that count as this word. A lower-case noun also matches its singular or plural; a name does not."""
    key = _key(word)
    if word.raw.endswith("'s"):  # Queen's, Queens
        return frozenset({key, f"{key}s"})
    if not word.raw.isascii() and word.raw.casefold() != (
        spelt := word.raw.casefold().translate(_UMLAUTS)
    ):
        return frozenset({key, fold(spelt)})
    if not (word.raw.islower() and word.raw.isalpha() and len(key) >= 3):
        return frozenset({key})
    forms = {key, key + "s", key + "es"}
    if key.endswith("y"):
        forms.add(key[:-1] + "ies")
    if key.endswith("ies"):
        forms.add(key[:-3] + "y")
    if re.search(r"(?:s|x|z|ch|sh|o)es$", key):
        forms.add(key[:-2])
    if key.endswith(("f", "fe")):
        forms.add(key.removesuffix("e")[:-1] + "ves")
    if key.endswith("ves"):
        forms |= {key[:-3] + "f", key[:-3] + "fe"}
    if key.endswith("s") and not key.endswith(("ss", "us", "is")) and len(key) > 3:
        forms.add(key[:-1])
    return frozenset(forms)


def _unit_of(spec: AnswerSpec, part: _Part) -> str:
    """The unit of the answer: its own, the specification's, or that of another form with the same value."""
    if part.quantity is None or part.quantity.unit or part.quantity.ordinal:
        return part.quantity.unit if part.quantity else ""
    if spec.unit:
        return unit_named(spec.unit) or ""
    for form in spec.accepted:
        form_quantity = whole_quantity(form[0]) if len(form) == 1 else None
        if form_quantity and form_quantity[0].unit and form_quantity[0].low == part.quantity.low:
            return form_quantity[0].unit
    return ""


def _quantity_spans(spec: AnswerSpec, part: _Part, text: str, *, bare: bool) -> Iterator[Span]:
    gold = part.quantity
    assert gold is not None
    unit, gold_has_unit = _unit_of(spec, part), bool(gold.unit)
    days, plain = _places_of_dates(text), readable(text)
    whole = whole_quantity(text) is not None
    plain_year = gold.plain and not unit and 1000 <= gold.low < 2200 and not part.noun
    if plain_year:
        yield from ((d.start, d.end) for d in dates(text) if d.year == gold.low)
    for quantity in quantities(text):
        if days.meet(quantity.start, quantity.end):
            continue
        if gold.ordinal != quantity.ordinal and not whole:
            continue  # "the 5th" does not state that there are 5
        if (
            gold_has_unit
            and not quantity.unit
            and (not bare or _OF_ANOTHER_UNIT.match(plain, quantity.end))
        ):
            continue  # "12 leagues" for 12 km
        if part.noun and (not whole or (quantity.unit and not gold_has_unit)):
            noun = _matching_keys(words(part.noun)[-1])
            if not any(_key(w) in noun for w in words(plain[quantity.end : quantity.end + 60])[:3]):
                continue
        low, high = (
            (quantity.low, quantity.high)
            if not unit or not quantity.unit
            else (
                in_unit(quantity.low, quantity.unit, unit),
                in_unit(quantity.high, quantity.unit, unit),
            )
        )
        if low is None or high is None:
            continue
        if {unit, quantity.unit} == {"%", ""} and whole and bare:  # 46 % = 0.46
            factor = (
                100.0
                if not quantity.unit and quantity.high <= 1
                else 0.01
                if not unit and gold.high <= 1
                else 1.0
            )
            low, high = low * factor, high * factor
        slack = _slack(
            spec, gold, bool(unit), converted=bool(quantity.unit) and quantity.unit != unit
        )
        if abs(low - gold.low) <= slack and abs(high - gold.high) <= slack:
            yield quantity.start, quantity.end


_OF_ANOTHER_UNIT = re.compile(
    r" (?!(?:long|tall|high|wide|deep|old|away|thick|apart|total|ago|each|now)\b)[a-z]{3,}(?=[.,;!?]|$)"
    r"| ?[SE](?![^\W_])"  # 40.7 S for 40.7 N
)


def _places_of_dates(text: str) -> Places:
    """The places of dates, except years in four plain figures."""
    plain = readable(text)
    days = Places(plain)
    for d in dates(text):
        if d.month or not plain[d.start : d.end].isdigit():
            days.add(d.start, d.end)
    return days


def _slack(spec: AnswerSpec, gold: Quantity, has_unit: bool, *, converted: bool) -> float:
    """How far a right number may differ from the accepted one: half its last digit; a bare count not at all."""
    exact = 1e-14 * max(1.0, abs(gold.low))
    if spec.tolerance is not None and spec.kind == "number":
        return max(exact, spec.tolerance * abs(gold.low))
    if gold.decimals > 0 or (has_unit and converted):
        return 0.5 * 10.0 ** -max(gold.decimals, 0) * (1 + 1e-9)
    return exact


def range_spans(spec: AnswerSpec, text: str, *, bare: bool) -> Iterator[Span]:
    """The numbers and ranges of a text that lie within the accepted range."""
    if spec.number is None:
        return
    low, high = spec.number
    unit = unit_named(spec.unit)
    slack = 1e-14 * max(1.0, abs(low), abs(high))
    if low == high and spec.tolerance is not None:
        slack = max(slack, spec.tolerance * abs(low))
    days = _places_of_dates(text)
    whole = whole_quantity(text) is not None
    for quantity in quantities(text):
        if days.meet(quantity.start, quantity.end) or (quantity.ordinal and not whole):
            continue
        if unit and not quantity.unit and not bare:
            continue
        ends = [
            in_unit(v, quantity.unit, unit) if unit and quantity.unit else v
            for v in (quantity.low, quantity.high)
        ]
        if all(e is not None and low - slack <= e <= high + slack for e in ends):
            yield quantity.start, quantity.end
