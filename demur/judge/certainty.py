"""What proves that an answer is wrong: a rival of the same kind, put in the place of the right answer.

That the accepted form is missing proves nothing: of such answers of real QA systems people call four in ten right. A
rival is another option, the opposite of yes or no, another date or time, another number in the same unit, another thing
of a listed kind (``things_of_a_kind.txt``), another person where the question asks who. `docs/judging-figures.md` has
how often each is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from demur.answers import normalise
from demur.answers.aliases import with_aliases
from demur.answers.choices import right_labels, stated_options
from demur.answers.contrast import common
from demur.answers.dates import Date, dates, whole_date
from demur.answers.in_english import ENGLISH, asks_who, language_of
from demur.answers.languages import listed
from demur.answers.match import holds
from demur.answers.numbers import Quantity, in_unit, quantities, whole_quantity
from demur.answers.rephrased import CLOCK, times, whole_time
from demur.answers.spans import is_verb
from demur.answers.text import Word, readable, words
from demur.answers.yes_no import polarity, side_of
from demur.core.records import AnswerSpec

SHORT = 60
"""Words of an answer in which a rival is looked for: longer ones hold many numbers that answer something else."""
CLOSE = 0.1
"""Relative difference within which another number may be the right one, rounded: no proof."""

_UNSURE = re.compile(
    r"\b(?:circa|c\.|around|about|approximately|roughly|nearly|almost|over|under|than|least|most|up to|early|mid|late|"
    r"before|after|since|until|by)[\s-]{1,3}(?:the\s)?\D{0,3}\d"  # no exact figure
    r"|\b(?:once|twice|thrice|none|hal(?:f|ves)|(?:thir|quarter|four|fif|six|seven|eigh|nin|ten)(?:th|d)?s|third|quarter|fifth|dozens?)\b"
    r"|\b(?:pairs?|paia|pares|parells|paires|paare?|pary|пары?|çift)\b"
    r"|\b(?:1\d|20)\d\ds\b|\d\s?[-\u2013]\s?\d|\bcentur"
    r"|\b(?:1[5-9]|20)\d\d\d{1,2}(?!\d)(?=[\s.,;)]|$)|[A-Za-z]\d|(?<![\d.,])0\d"  # a footnote, or words run together
    r"|\d (?-i:M)\b",  # millions, or metres in capitals
    re.IGNORECASE,
)
"""What makes another figure no proof: it is not exact, or not read as it was meant."""
_PARTS = re.compile(
    r"\b(?:and|plus|with) (?:an?|another|some|several|his|her|their|the)\b|\ban? \w+(?: \w+)?(?:,| and| plus)\s",
    re.IGNORECASE,
)
"""What is counted besides a number: "two cats and a dog"."""
_HOW_MANY = re.compile(r"\b(?:how many|(?:number|count|total) of)\b", re.IGNORECASE)
_SIBLINGS = re.compile(r"\b(?:siblings?|brothers?|sisters?)\b", re.IGNORECASE)
_FAMILY = re.compile(r"\b(?:of|child\w*|kids|sons|daughters)\b", re.IGNORECASE)
"""Who is one of ten children has nine siblings."""
_FRACTION = re.compile(r"\d ?/ ?\d")
_WHO = re.compile(r"\b(?:who|whose|whom)\b", re.IGNORECASE)
_NO_NAME = frozenset(listed("en", "no_person"))


def rival(question: str, text: str, answers: AnswerSpec) -> tuple[str, str]:
    """(kind, what) of a rival of the right answer that is stated in its place; empty texts without such a proof.

    >>> rival("Who painted it?", "It was painted by Claude Monet.", AnswerSpec(accepted=(("Edgar Degas",),)))
    ('other person', "says 'Claude Monet'")
    """
    if answers.kind == "choice" and answers.choices:
        stated = stated_options(answers, text)
        right = right_labels(answers)
        wrong = set(stated) - right
        proven = right and len(stated) == 1 and wrong
        return ("other option", f"option {sorted(wrong)[0]}") if proven else ("", "")
    side = polarity(answers)
    if side:
        said = side_of(text, question)
        return ("opposite", f"says {said}") if said and said != side else ("", "")
    if answers.kind == "box" or len(text.split()) > SHORT or holds(answers, text):
        return "", ""
    forms = [form[0] for form in answers.accepted if len(form) == 1]
    if not forms or len(forms) != len(answers.accepted):
        return "", ""
    for kind, found in (
        ("other date", _other_date(question, text, forms)),
        ("other number", _other_number(question, text, forms)),
        ("other time of day", _other_time(text, forms)),
        ("other of a kind", _other_of_kind(question, text, forms)),
        ("other person", _other_person(question, text, forms)),
    ):
        if found:
            return kind, f"says {found}"
    return "", ""


def _other_date(question: str, text: str, forms: list[str]) -> str:
    right = [d for form in forms if (d := whole_date(form)) is not None]
    if _UNSURE.search(text) or not right or len(right) != len(forms):
        return ""
    asked = {d[:3] for d in dates(question)}
    found = [d for d in dates(text) if d[:3] not in asked]
    years = {d.year for d in found}
    if not found or len(years) > 1 or any(_near(d, r) for d in found for r in right):
        return ""
    return readable(text)[found[0].start : found[0].end].strip(" .,")


def _near(said: Date, right: Date) -> bool:
    if not said.year or not right.year:  # nothing but a day or a month was written
        both = ((said.month, right.month), (said.day, right.day))
        return all(not one or not other or one == other for one, other in both)
    if said.day and right.day:
        if {said.month, said.day} == {right.month, right.day}:  # 7/12 may be 12 July
            return said.year == right.year
        apart = (31 * (said.month - right.month) + said.day - right.day) % 372
        apart = min(apart, 372 - apart)
        julian = right.year < 1930 and 9 <= apart <= 14
        return abs(said.year - right.year) < 2 and (
            apart == 1 or julian
        )  # another time zone, another calendar
    return (
        abs(said.year - right.year) < 2
    )  # one year apart may be a season, a fiscal year, or another calendar


def _other_number(question: str, text: str, forms: list[str]) -> str:
    right = [n for form in forms if (n := whole_quantity(form)) is not None]
    plain = readable(text)
    if _UNSURE.search(text) or not right or len(right) != len(forms):
        return ""
    if _FRACTION.search(plain) and not any("/" in form for form in forms):  # 8/10 for 8
        return ""
    if (_HOW_MANY.search(question) and _PARTS.search(plain)) or (
        _SIBLINGS.search(question) and _FAMILY.search(plain)
    ):
        return ""
    asked = {q.low for q in quantities(question)}
    found = [q for q in quantities(text) if q.low not in asked]
    if len(found) != 1 or any(_may_be(found[0], *gold) for gold in right):
        return ""
    return f"{found[0].low:g} {found[0].unit}".strip()


def _other_time(text: str, forms: list[str]) -> str:
    """Another time of day, if both say which half of the day, or differ in either."""
    right, said = [whole_time(form) for form in forms], times(text)
    if (
        len(said) != 1
        or None in right
        or _UNSURE.search(CLOCK.sub("1", text))
        or _ZONE.search(text)
    ):
        return ""
    minutes, which, (start, end) = said[0]
    if any(not start <= q.start < end for q in quantities(text)):
        return ""
    same = [(minutes - own[0]) % (1440 if which and own[1] else 720) == 0 for own in right if own]
    return "" if any(same) else readable(text)[start:end].strip(" .")


_ZONE = re.compile(
    r"\b(?:[A-Z]{1,4}T|UTC|Z)\b|(?i:\b(?:time(?! (?:is|was)\b)|eastern|pacific|central|local)\b)"
)
"""Another zone's time may be the same."""


def _may_be(said: Quantity, gold: Quantity, noun: str = "") -> bool:
    if (
        noun.startswith("centur")
        and not said.unit
        and 100 * gold.low - 100 <= said.low <= 100 * gold.low
    ):
        return True  # a year of that century
    if (
        said.unit == gold.unit in ("weeks", "days", "h", "yrs", "ft")
        and not gold.decimals
        and int(said.low) == gold.low
    ):
        return True  # "2 hours 15 minutes" for 2 hours
    value = in_unit(said.low, said.unit, gold.unit) if said.unit != gold.unit else said.low
    if value is None or (
        not said.unit and 1000 < gold.low < 2100 and gold.low % 100 == value
    ):  # "'92"
        return True
    # 1.234 may be 1,234; a word that is not read may be a million
    sizes = (1, 1e6, 1e-6) if 3 not in (said.decimals, gold.decimals) else (1, 1e3, 1e-3, 1e6, 1e-6)
    if (
        said.unit == gold.unit
        and not gold.is_range
        and 0 <= gold.low <= 100
        and said.decimals == gold.decimals == 0
    ):
        return value == gold.low  # "43%" is no rounded 46 %
    return any(
        abs(value * size - gold.low) <= CLOSE * max(abs(gold.low), abs(gold.high), 1e-12)
        for size in sizes
    )


# --- things of a kind, persons --------------------------------------------------------------------


@cache
def _kinds() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    """Of each kind a pattern of its names, and normalised name -> the thing."""
    tables: dict[str, dict[str, str]] = {}
    for line in (
        files(__package__).joinpath("things_of_a_kind.txt").read_text(encoding="utf-8").splitlines()
    ):
        kind, mark, things = line.partition(":")
        for thing in things.split(",") if mark and not line.startswith("#") else ():
            names = [normalise(name) for name in thing.split("=")]
            tables.setdefault(kind, {}).update(dict.fromkeys(names, names[0]))
    either = (
        "|".join(re.escape(name) for name in sorted(t, key=len, reverse=True))
        for t in tables.values()
    )
    patterns = [re.compile(rf"(?<!\w)(?:{names})(?!\w)") for names in either]
    return list(zip(patterns, tables.values(), strict=True))


def _other_of_kind(question: str, text: str, forms: list[str]) -> str:
    """Another thing of the listed kind that the right answer is of; it is the only one of its kind in the answer."""
    names, said = {normalise(form) for form in forms}, text
    text = " ".join(w.norm for w in words(text) if not is_verb(text, w))
    for pattern, table in _kinds():
        known = names & table.keys()
        same = (with_aliases(AnswerSpec(accepted=((name,),)), "", said).accepted for name in known)
        if not known or not names <= known | {
            normalise(form[0]) for forms in same for form in forms
        }:
            continue
        told, asked = (
            {table[name] for name in pattern.findall(normalise(t))} for t in (text, question)
        )
        other = told - asked
        if len(other) == 1 and not told & {table[name] for name in known}:
            return repr(other.pop())
    return ""


def _other_person(question: str, text: str, forms: list[str]) -> str:
    """Another person's full name, where the question asks who and the right answer is a name."""
    code = language_of(question, text)
    opening = " ".join(question.split()[:2])  # "qui" and "wie" mean something else further on
    who = _WHO.search(question) or asks_who(opening, code)
    if not who or not all(_is_name(form) for form in forms) or len(text.split()) > PERSON_WORDS:
        return ""
    asked = {w.norm for w in words(question)}
    right = {w.norm for form in forms for w in words(form) if len(w.norm) > 2}
    said = words(text)
    if any(
        w.norm in right or any(_alike(w.norm, r) for r in right)
        for w in said
        if w.norm not in asked
    ):
        return ""
    if code != ENGLISH:
        asked |= common((code,))  # "Der Autor" is no name
    named = [name for name in _full_names(text) if not {w.norm for w in name} & asked]
    if len({name[-1].norm for name in named}) != 1:
        return ""
    return repr(" ".join(w.raw for w in named[0]))


PERSON_WORDS = 40
"""Words of an answer in which another person is a rival."""


def _is_name(form: str) -> bool:
    said = words(form)
    return (
        2 <= len(said) <= 4
        and all(w.raw[:1].isupper() and not any(c.isdigit() for c in w.raw) for w in said)
        and not any(w.norm in _NO_NAME for w in said)
    )


def _alike(a: str, b: str) -> bool:
    """Whether two words may be spellings of one name: one begins like the other."""
    return len(a) >= 4 and len(b) >= 4 and (a[:4] == b[:4] or a[-4:] == b[-4:])


def _full_names(text: str) -> Iterator[tuple[Word, ...]]:
    """Runs of two to four capitalised words with nothing but blanks between them."""
    plain, run = readable(text), []  # type: tuple[str, list[Word]]
    for word in (*words(text), None):
        if (
            word is not None
            and word.raw[:1].isupper()
            and word.raw.isalpha()
            and word.norm not in _NO_NAME
            and (not run or not plain[run[-1].end : word.start].strip(" ."))
        ):
            run.append(word)
            continue
        if 2 <= len(run) <= 4:
            yield tuple(run)
        run = [word] if word is not None and word.raw[:1].isupper() and word.raw.isalpha() else []
