"""A reply or a form that is a date or a time of day as a whole, with month names of other languages."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from demur.answers import cldr
from demur.answers.dates import Date, dates
from demur.answers.notation import plain_notation
from demur.answers.text import readable, remembered

_SMALL = frozenset(
    "on in the of circa c. year de del d' do da la le el den der am um im en em no a el г года г. року r r. roku lo dia día dag o "
    "jour jaar al yılı yil ad".split()
)
_KOREAN = re.compile(r"(\d{4})\s?년(?:\s?(\d{1,2})\s?월(?:\s?(\d{1,2})\s?일)?)?")
_WORD = re.compile(r"\d+|(?:[^\W\d]|[\u0900-\u0963])+(?:['’][^\W\d]+)?\.?|\s+|.")
LONGEST = 60
"""Characters of the longest text that is read as one date."""


@remembered
def whole_dates(text: str) -> tuple[Date, ...]:
    """The readings of a text that is one date as a whole; () for any other text.

    >>> [d[:3] for d in whole_dates("sábado, 12 de julio de 1975")], whole_dates("the 1975 war")
    ([(1975, 7, 12)], ())
    """
    text = plain_notation(text) if len(text) <= LONGEST else ""
    if not any(c.isdigit() for c in text):
        return ()
    text = re.sub(r"^\+?(\d{4}-\d\d-\d\d)T00:00:00(?:\.0+)?Z?$", r"\1", readable(text).strip())
    text = _KOREAN.sub(lambda m: "-".join(g for g in m.groups() if g), text)
    if any(c.isalpha() for c in text) and not re.search("[\u3040-\u30ff\u4e00-\u9fff]", text):
        text = _in_english(text)
    text = " ".join(text.split()).strip(" .,;()")
    text = re.sub(r"(\d)(?:\.|º|er|e|an|a|eko|ko)(?= [A-Z])", r"\1", text)
    readings = dates(text)
    return (
        readings if readings and all((d.start, d.end) == (0, len(text)) for d in readings) else ()
    )


def _in_english(text: str) -> str:
    """Months in English, without weekdays and small words; other words stay, and make it no date."""
    words = []
    if era := next(
        (e for e in _eras_by_length() if text.casefold().rstrip(" .").endswith(f" {e}")), ""
    ):
        text = f"{text.rstrip(' .')[: -len(era)]}{cldr.eras()[era]}"
    for word in _WORD.findall(text):
        plain = word.casefold().strip(".").removeprefix("d'")
        if not plain[:1].isalpha() or re.fullmatch(r"(?i)bce?|b\.c\.?|ad|ce|st|nd|rd|th", word):
            words.append(word)
        elif plain in ("may", "march") or (month := cldr.months().get(plain)) is None:
            is_filler = plain in _SMALL or plain in cldr.weekdays()
            words.append(" " if is_filler else word)
        else:
            words.append(month)
    return re.sub(r"^[\s,]+|(?<=\s)[\s,]+", "", "".join(words))


def date_agrees(gold: Date, reply: Date) -> bool | None:
    """Whether a date agrees with gold in all that gold says; None where it says less, and that agrees."""
    if reply.holds(gold):
        return True
    return None if gold.holds(reply) else False


@cache
def _eras_by_length() -> list[str]:
    return sorted(cldr.eras(), key=len, reverse=True)


# --- times of day --------------------------------------------------------------------------------


class Time(NamedTuple):
    """A time of day."""

    minutes: int
    """Since midnight."""
    sure: bool
    """Whether the half of the day is told."""


_TIME = re.compile(
    r"(?:at |um |à |a las |alle |às |om |kl\.? )?(?:(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d\d))?(?::\d\d)?\s?"
    r"(?P<half>a\.?m\.?|p\.?m\.?|in the (?:morning|afternoon|evening)|at night|o'?clock|uhr|h|hrs)?|(?P<word>noon|midday|midnight))",
    re.IGNORECASE,
)


def whole_time(text: str) -> Time | None:
    """The time of day that a whole text is; None for any other text, and for a number without a mark of time.

    >>> whole_time("5 pm"), whole_time("17:00"), whole_time("5:00"), whole_time("5")
    (Time(minutes=1020, sure=True), Time(minutes=1020, sure=True), Time(minutes=300, sure=False), None)
    """
    match = _TIME.fullmatch(readable(text).strip(" .")) if len(text) <= LONGEST else None
    if match is None:
        return None
    if match["word"]:
        return Time(0 if match["word"].lower() == "midnight" else 720, True)
    hour, minute, half = (
        int(match["hour"]),
        int(match["minute"] or 0),
        (match["half"] or "").lower(),
    )
    if hour > 24 or minute > 59 or not (half or ":" in text):
        return None
    if (half[:1] in "ap" and half) or half.startswith(("in", "at")):
        late = half.startswith("p") or "noon" in half or "evening" in half or "night" in half
        return Time((hour % 12 + 12 * late) * 60 + minute, True) if hour <= 12 else None
    return Time(hour % 24 * 60 + minute, hour > 12 or hour == 0 or half in ("uhr", "h", "hrs"))


def times_agree(gold: Time, reply: Time) -> bool:
    """Whether two times agree, in the half of the day too where both tell it."""
    apart = abs(gold.minutes - reply.minutes)
    return apart == 0 or (apart == 720 and not (gold.sure and reply.sure))
