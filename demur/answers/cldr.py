"""Words of other languages from CLDR, by the package Babel: months and weekdays, units, currencies.

Each table is read once, where a text needs it (0.2 s for months, 1 s for all).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from demur.answers.numbers import unit_named

LANGUAGES = "en es ca gl pt it fr de nl pl tr eu ru ar hi zh ja ko".split()
"""Codes of the languages whose words are read."""
_UNITS = """
length-millimeter length-centimeter length-meter length-kilometer length-inch length-foot length-yard length-mile
length-nautical-mile length-light-year area-square-meter area-square-kilometer area-hectare area-acre
area-square-mile area-square-foot volume-milliliter volume-liter volume-cubic-meter volume-cubic-kilometer
volume-gallon mass-milligram mass-gram mass-kilogram mass-tonne mass-pound mass-ounce duration-millisecond
duration-second duration-minute duration-hour duration-day duration-week duration-month duration-year
duration-decade duration-century speed-kilometer-per-hour speed-meter-per-second speed-mile-per-hour
temperature-celsius temperature-fahrenheit temperature-kelvin concentr-percent power-watt power-kilowatt
power-megawatt power-horsepower energy-joule energy-kilojoule energy-kilocalorie energy-kilowatt-hour
frequency-hertz frequency-megahertz frequency-gigahertz digital-byte digital-kilobyte digital-megabyte
digital-gigabyte digital-terabyte pressure-bar pressure-pascal pressure-hectopascal electric-volt angle-degree
""".split()
_COUNTS = (1, 2, 5, 1.5)
"""Numbers that between them take every plural of the languages."""
_FIGURE = re.compile(
    r"[\d\u0660-\u0669\u0966-\u096f]+(?:[.,\u066b]\d+|[.,\u066b][\u0660-\u0669]+)?"
)


def _comparable(word: str) -> str:
    return " ".join(word.casefold().replace("\u200f", "").split()).strip(" .")


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Word -> value, without the words that stand for several ("listopad": October, November)."""
    values: dict[str, set[str]] = {}
    for word, value in pairs:
        values.setdefault(_comparable(word), set()).add(value)
    return {word: value.pop() for word, value in values.items() if word and len(value) == 1}


@cache
def months() -> dict[str, str]:
    """Month in any of `LANGUAGES`, in full or short, in small letters -> its English name."""
    from babel import Locale  # only replies in other languages need it

    english = Locale("en").months["format"]["wide"]
    return _unambiguous(
        (name, english[number])
        for code in LANGUAGES
        for style in ("format", "stand-alone")
        for width in ("wide", "abbreviated")
        for number, name in Locale(code).months[style][width].items()
        if not name[:1].isdigit()
    )


@cache
def weekdays() -> frozenset[str]:
    """Weekdays in any of `LANGUAGES`, in full or short, in small letters."""
    from babel import Locale

    return frozenset(
        _comparable(name)
        for code in LANGUAGES
        for width in ("wide", "abbreviated")
        for name in Locale(code).days["format"][width].values()
    )


@cache
def units() -> dict[str, str]:
    """Unit in any of `LANGUAGES`, in full or short, in small letters -> the key of `numbers.UNITS`."""
    from babel.units import format_unit

    def names() -> Iterable[tuple[str, str]]:
        for unit in _UNITS:
            english = unit_named(_FIGURE.sub("", format_unit(2, unit, "long", locale="en")).strip())
            for code in LANGUAGES:
                for count in _COUNTS:
                    for width in ("long", "short"):
                        formatted = format_unit(count, unit, width, locale=code)
                        yield _FIGURE.sub("", formatted), english

    return {word: unit for word, unit in _unambiguous(names()).items() if unit}


@cache
def scales() -> dict[str, float]:
    """Word of a number's size in any of `LANGUAGES`, in small letters -> its factor: "millionen", "lakh", "\u4e07"."""
    from babel import Locale

    def words() -> Iterable[tuple[str, str]]:
        for code in LANGUAGES:
            for width in ("long", "short"):
                for forms in Locale(code).compact_decimal_formats[width].values():
                    for size, pattern in forms.items():
                        pattern_text = pattern.pattern.replace("\u00a0", " ").replace("'", "")
                        word = pattern_text.strip("0 ")
                        factor = int(size) / 10 ** (pattern_text.count("0") - 1)
                        if len(word) > 1 or not word.isascii():
                            yield word, f"{factor:g}"

    english = {"hundred", "thousand", "million", "billion", "trillion"}  # see `numbers`
    return {w: float(factor) for w, factor in _unambiguous(words()).items() if w not in english}


@cache
def eras() -> dict[str, str]:
    """How `LANGUAGES` say that a year is before or of the common era, in small letters -> "BC" or "AD"."""
    from babel import Locale

    return _unambiguous(
        (name, ("BC", "AD")[number])
        for code in LANGUAGES
        for width in ("wide", "abbreviated")
        for number, name in Locale(code).eras[width].items()
    )


@cache
def currencies() -> dict[str, frozenset[str]]:
    """Currency as written in any of `LANGUAGES` -> the ISO codes that it may be.

    Codes and signs stand as they are (``CAD``, ``CA$``), names in small letters, with their last word alone too, which
    many currencies share: "canadian dollars" is one, "dollars" are twenty.
    """
    from babel import Locale
    from babel.numbers import get_currency_name

    codes_of: dict[str, set[str]] = {}
    english = Locale("en")
    for currency in map(str, english.currencies):
        written = {currency, english.currency_symbols.get(currency, currency)}
        for code in LANGUAGES:
            locale = Locale(code)
            if currency not in locale.currencies:
                continue
            written.add(locale.currency_symbols.get(currency, currency))
            for name in {get_currency_name(currency, n, locale=code) for n in (None, *_COUNTS)}:
                name = _comparable(re.sub(r"\s?\([^()]*\)", "", name))
                if name and not any(c.isdigit() for c in name):  # not the one of 1981-1985
                    written |= {name, name.split()[-1]}
        for word in written:
            codes_of.setdefault(word, set()).add(currency)
    for mark, codes in _SIGNS.items():
        codes_of.setdefault(mark, set()).update(codes.split())
    codes_of["$"] = codes_of["dollars"] | {"USD"}
    return {word: frozenset(codes) for word, codes in codes_of.items() if word}


_SIGNS = {
    "US$": "USD",
    "A$": "AUD",
    "AU$": "AUD",
    "C$": "CAD",
    "S$": "SGD",
    "Rs": "INR PKR LKR NPR",
    "kr": "SEK NOK DKK ISK",
    "Fr": "CHF",
    "zł": "PLN",
    "RMB": "CNY",
    "¥": "JPY CNY",
    "£": "GBP",
}
"""Signs that CLDR leaves to each country."""
