"""Dates as people write them."""

from __future__ import annotations

import re
from typing import NamedTuple

from demur.answers.numbers import quantities
from demur.answers.text import Places, readable, remembered


class Date(NamedTuple):
    """A day, a month or a year in a text; 0 for what was not written."""

    year: int
    """Negative before the common era: -44 for 44 BC."""
    month: int
    day: int
    start: int
    end: int

    def holds(self, target: Date) -> bool:
        """Whether this date agrees with ``target`` in everything that ``target`` gives."""
        return all(
            not expected or expected == actual
            for expected, actual in (
                (target.year, self.year),
                (target.month, self.month),
                (target.day, self.day),
            )
        )


_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_NUMBER_OF = {form: i for i, name in enumerate(_MONTHS, 1) for form in (name, name[:3])} | {
    "sept": 9
}
_MONTH = r"(?P<month>" + "|".join(sorted(_NUMBER_OF, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{1,4})(?![\d,.]\d|\d|\s*%)(?P<era>\s*(?:BCE?|B\.C\.(?:E\.)?|CE|AD|A\.D\.)(?![^\W_]))?"
_LONG_YEAR = r"(?P<year>\d{3,4})(?![\d,.]\d|\d|\s*%|:)(?P<era>\s*(?:BCE?|B\.C\.(?:E\.)?|CE|AD|A\.D\.)(?![^\W_]))?"
_FORMS = [
    re.compile(p, re.IGNORECASE)
    for p in (
        rf"(?<!\d){_DAY}(?: day)?(?: of)?[ -]{_MONTH}(?:,? of|,)?[ -]?{_LONG_YEAR}",
        rf"\b{_MONTH}[ -](?:the )?{_DAY}(?:,? of|,)?[ -]{_LONG_YEAR}",
        r"(?<![\d.-])(?P<year>\d{4})[-/.](?P<month_number>\d{1,2})[-/.](?P<day>\d{1,2})(?![\d]|[-/.]\d)",
        r"(?<![\d.-])(?P<first>\d{1,2})(?P<sep>[-/.])(?P<second>\d{1,2})(?P=sep)(?P<year>\d{4})(?!\d)",
        r"(?<![\d/])(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<short>\d{2})(?![\d/])",
        r"(?<![\w'])'(?P<short>\d{2})(?![\d'\w])",
        r"(?P<year>\d{4})\s?年(?:\s?(?P<month_number>\d{1,2})\s?月(?:\s?(?P<day>\d{1,2})\s?[日号號])?)?",
        rf"\b{_MONTH}(?: of|,)? {_LONG_YEAR}",
        rf"(?<!\d){_DAY}(?: of)?[ -]{_MONTH}(?!\w)",
        rf"\b{_MONTH} (?:the )?{_DAY}(?![\d:,.]\d|\d|\w)",
        rf"(?<![\w,.])(?:AD|A\.D\.)\s?{_YEAR}",
        r"(?<![\w,.])(?P<year>\d{1,4})(?P<era>\s*(?:BCE?|B\.C\.(?:E\.)?|CE|AD|A\.D\.))(?![^\W_])",
    )
]


@remembered
def dates(text: str) -> tuple[Date, ...]:
    """Every date of ``readable(text)``, left to right, years that stand alone included.

    An ambiguous date gives several dates at one place: day and month in figures (``12/07/1975``) in both possible
    orders, years of two figures in both centuries. A four-digit number from 1000 to 2199 without separator, unit or
    decimals is a year.

    >>> [d[:3] for d in dates("12 July 1975, July 12th, 1975, 1975-07-12 and 2,640 m in 1889")]
    [(1975, 7, 12), (1975, 7, 12), (1975, 7, 12), (1889, 0, 0)]
    """
    text = readable(text)
    all_dates: list[Date] = []
    taken = Places(text)
    for pattern in _FORMS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if taken.meet(start, end):
                continue
            readings = _readings(match.groupdict())
            if readings:
                taken.add(start, end)
                all_dates += [Date(*d, start, end) for d in readings]
    for quantity in quantities(text):
        lonely = quantity.plain and not quantity.unit and quantity.end - quantity.start == 4
        years = [(int(quantity.low), quantity.start)] if lonely and not quantity.is_range else []
        if quantity.is_range and not quantity.unit:
            span = text[quantity.start : quantity.end]
            years = [
                (int(m.group()), quantity.start + m.start())
                for m in re.finditer(r"(?<![\d,.])\d{4}(?![\d,.])", span)
            ]
        for year, start in years:
            if 1000 <= year < 2200 and not taken.meet(start, start + 4):
                all_dates.append(Date(year, 0, 0, start, start + 4))
    return tuple(sorted(all_dates, key=lambda d: (d.start, d)))


def _readings(groups: dict[str, str | None]) -> list[tuple[int, int, int]]:
    year = int(groups.get("year") or 0)
    if (groups.get("era") or "").strip().upper().startswith("B"):
        year = -year
    if groups.get("short"):
        years = [century + int(groups["short"] or 0) for century in (1900, 2000)]
        return [
            reading
            for year in years
            for reading in _readings({**groups, "short": None, "year": str(year)})
        ]
    if groups.get("first"):
        pairs = {
            (int(groups["second"] or 0), int(groups["first"] or 0)),
            (int(groups["first"] or 0), int(groups["second"] or 0)),
        }
        return [
            (year, month, day)
            for month, day in sorted(pairs)
            if 1 <= month <= 12 and 1 <= day <= 31
        ]
    month = int(groups.get("month_number") or 0) or _NUMBER_OF.get(
        (groups.get("month") or "").lower(), 0
    )
    day = int(groups.get("day") or 0)
    return [(year, month, day)] if month <= 12 and day <= 31 else []


@remembered
def whole_date(text: str) -> Date | None:
    """The date that makes up a whole text; None for any other text, and for an ambiguous date.

    >>> whole_date("11 November 1975")[:3], whole_date("the 1975 war")
    ((1975, 11, 11), None)
    """
    text = re.sub(
        r"^(?:on|in|the|circa|c\.)\s+", "", readable(text).strip(), flags=re.IGNORECASE
    ).strip(" .,;()")
    text = re.sub(
        r"^\+?(\d{4}-\d\d-\d\d)T00:00:00(?:\.0+)?Z?$", r"\1", text
    )  # a day, as knowledge bases write it
    all_dates = dates(text)
    if len(all_dates) != 1 or (all_dates[0].start, all_dates[0].end) != (0, len(text)):
        return None
    return all_dates[0]
