"""Numbers as people write them: with separators, scales, words, ordinals, ranges and units."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from demur.answers.text import Places, readable, remembered


class Quantity(NamedTuple):
    """A number, or a range of numbers, as it stands in a text."""

    low: float
    high: float
    """Equal to ``low`` unless a range was written."""
    unit: str
    """Key of `UNITS`; "" for a bare number."""
    ordinal: bool
    decimals: int
    """Power of ten of the last digit written, negated: 2 for 5.73, 0 for 26, -6 for "3 million"."""
    plain: bool
    """Whether it is digits alone, like a year: no separator, decimal point, sign, scale or word."""
    start: int
    end: int

    @property
    def is_range(self) -> bool:
        """Whether two different ends were written."""
        return self.low != self.high


class Unit(NamedTuple):
    """``value * factor + offset`` is the value in the dimension's base unit."""

    dimension: str
    factor: float
    offset: float = 0.0


_TABLE: dict[str, list[tuple[str, float]]] = {  # compounds before the units they begin with
    "speed": [
        ("m/s|met(?:er|re)s? per second", 1.0),
        ("km/h|kmh|kph|km per hour|kilomet(?:er|re)s? per hour", 1 / 3.6),
        ("mph|miles per hour", 0.44704),
        ("knots?|kn", 1852 / 3600),
    ],
    "density": [
        (
            "g/cm3|g/cm\\^3|g cm-3|g[·⋅]cm-3|g cm\\^-3|g/cc|g/ml|g ml-1|grams? per cubic centimet(?:er|re)s?|"
            "grams? per cc|grams? per millilit(?:er|re)s?",
            1e3,
        ),
        ("kg/m3|kg/m\\^3|kg m-3|kg[·⋅]m-3|kg m\\^-3|kilograms? per cubic met(?:er|re)s?", 1.0),
        ("kg/l|kg/dm3|kilograms? per lit(?:er|re)s?", 1e3),
        ("g/l|g/dm3|grams? per lit(?:er|re)s?", 1.0),
        ("mg/l|milligrams? per lit(?:er|re)s?", 1e-3),
    ],
    "molar mass": [
        ("g/mol|g mol-1|g[·⋅]mol-1|grams? per mole?", 1.0),
        ("kg/mol|kilograms? per mole?", 1e3),
        ("Da|daltons?", 1.0),
        ("kDa|kilodaltons?", 1e3),
    ],
    "molar energy": [
        ("kJ/mol|kJ mol-1|kJ[·⋅]mol-1", 1.0),
        ("kcal/mol|kcal mol-1|kcal[·⋅]mol-1", 4.184),
    ],
    "energy": [
        ("J|joules?", 1.0),
        ("kJ|kilojoules?", 1e3),
        ("MJ|megajoules?", 1e6),
        ("cal|calories?", 4.184),
        ("kcal|kilocalories?", 4184.0),
        ("Wh|watt[ -]hours?", 3600.0),
        ("kWh|kilowatt[ -]hours?", 3.6e6),
        ("eV|electron ?volts?", 1.602176634e-19),
    ],
    "pressure": [
        ("Pa|pascals?", 1.0),
        ("hPa|mbar|millibars?", 1e2),
        ("kPa|kilopascals?", 1e3),
        ("MPa|megapascals?", 1e6),
        ("bar", 1e5),
        ("atm|atmospheres?", 101325.0),
        ("mmHg|mm Hg|torr", 133.322),
        ("psi", 6894.757),
    ],
    "frequency": [
        ("Hz|hertz", 1.0),
        ("kHz|kilohertz", 1e3),
        ("MHz|megahertz", 1e6),
        ("GHz|gigahertz", 1e9),
    ],
    "sterling": [("GBP|pounds? sterling|£", 1.0)],
    "length": [
        ("mm|millimet(?:er|re)s?", 1e-3),
        ("cm|CM|centimet(?:er|re)s?", 1e-2),
        ("m|met(?:er|re)s?", 1.0),
        ("km|kms|Km|KM|kilomet(?:er|re)s?", 1e3),
        ('in\\.|inch|inches|"|in(?=[\\s]*[,.;)]|[\\s]*$)', 0.0254),
        ("ft|Ft|FT|feet|foot|'(?!s)", 0.3048),
        ("yd|yds|yards?", 0.9144),
        ("mi|miles?", 1609.344),
        ("nmi|nautical miles?", 1852.0),
        ("ly|light[ -]years?", 9.4607304725808e15),
        ("µm|μm|micromet(?:er|re)s?|microns?", 1e-6),
        ("nm|nanomet(?:er|re)s?", 1e-9),
        ("picomet(?:er|re)s?", 1e-12),
        ("Å|[aå]ngstr[oö]ms?", 1e-10),
    ],
    "area": [
        ("km2|km\\^2|sq\\.? ?km|square (?:kilomet(?:er|re)s?|km)", 1e6),
        ("m2|m\\^2|sq\\.? ?m|square (?:met(?:er|re)s?|m)", 1.0),
        ("ha|Ha|HA|hectares?", 1e4),
        ("acres?", 4046.8564224),
        ("mi2|sq\\.? ?mi|square miles?", 2589988.110336),
        ("ft2|sq\\.? ?ft|square f(?:ee|oo)t", 0.09290304),
        ("mm2|square millimet(?:er|re)s?", 1e-6),
        ("cm2|sq\\.? ?cm|square centimet(?:er|re)s?", 1e-4),
        ("in2|sq\\.? ?in|square inch(?:es)?", 0.00064516),
        ("yd2|sq\\.? ?yd|square yards?", 0.83612736),
    ],
    "volume": [
        ("ml|mL|ML|millilit(?:er|re)s?", 1e-6),
        ("cl|cL|centilit(?:er|re)s?", 1e-5),
        ("l|L|lit(?:er|re)s?", 1e-3),
        ("m3|m\\^3|cubic met(?:er|re)s?", 1.0),
        ("km3|cubic kilomet(?:er|re)s?", 1e9),
        ("mm3|cubic millimet(?:er|re)s?", 1e-9),
        ("cm3|cc|cubic centimet(?:er|re)s?", 1e-6),
        ("dm3|cubic decimet(?:er|re)s?", 1e-3),
        ("in3|cu\\.? ?in|cubic inch(?:es)?", 1.6387064e-5),
        ("ft3|cu\\.? ?ft|cubic f(?:ee|oo)t", 0.028316846592),
        ("yd3|cu\\.? ?yd|cubic yards?", 0.764554857984),
        ("gal|gallons?", 0.003785411784),
    ],
    "mass": [
        ("mg|milligrams?", 1e-6),
        ("g|grams?|grammes?", 1e-3),
        ("kg|kgs|Kg|KG|kilograms?|kilos?", 1.0),
        ("t|tonnes?|metric tons?", 1e3),
        ("lb|lbs|Lb|LB|pounds?", 0.45359237),
        ("oz|ounces?", 0.028349523125),
        ("tons?", 907.18474),
    ],
    "time": [
        ("ms|milliseconds?", 1e-3),
        ("s|secs?|seconds?", 1.0),
        ("mins?|minutes?", 60.0),
        ("h|hrs?|hours?", 3600.0),
        ("days?", 86400.0),
        ("weeks?", 604800.0),
    ],
    "months": [
        ("months?", 1.0),
        ("yrs?|years?", 12.0),
        ("decades?", 120.0),
        ("century|centuries", 1200.0),
    ],
    "power": [
        ("W|watts?", 1.0),
        ("kW|KW|kilowatts?", 1e3),
        ("MW|megawatts?", 1e6),
        ("GW|gigawatts?", 1e9),
        ("hp|horsepower", 745.69987158),
    ],
    "ratio": [("%|per ?cent|percent|percentage points?", 1.0)],
    "dollar": [("USD|US\\$|dollars?|\\$(?!\\d)", 1.0), ("cents?", 0.01)],
    "euro": [("EUR|euros?|€(?!\\d)", 1.0)],
    "yen": [("JPY|yen", 1.0)],
    "data": [  # no lone B, which is a billion
        ("bit|bits", 0.125),
        ("kbit|kbits|kilobits?", 125.0),
        ("Mbit|Mbits|megabits?", 125e3),
        ("Gbit|Gbits|gigabits?", 125e6),
        ("Tbit|Tbits|terabits?", 125e9),
        ("byte|bytes|octets?", 1.0),
        ("kB|KB|kilobytes?", 1e3),
        ("MB|megabytes?", 1e6),
        ("GB|gb|gigs?|gigabytes?", 1e9),
        ("TB|tb|terabytes?", 1e12),
        ("PB|petabytes?", 1e15),
        ("KiB|kibibytes?", 2.0**10),
        ("MiB|mebibytes?", 2.0**20),
        ("GiB|gibibytes?", 2.0**30),
        ("TiB|tebibytes?", 2.0**40),
    ],
    "bits or bytes": [
        ("kb|Kb", 1e3),
        ("Mb", 1e6),
        ("Gb", 1e9),
        ("Tb", 1e12),
    ],  # many write Gb for gigabytes
    "voltage": [
        ("V(?! ?\\d)|volts?", 1.0),
        ("mV|millivolts?", 1e-3),
        ("kV|KV|kilovolts?", 1e3),
        ("MV|megavolts?", 1e6),
    ],
    "force": [("N(?! [A-Z])|newtons?", 1.0), ("kN|kilonewtons?", 1e3)],
    "angle": [("degrees?(?! (?:celsius|fahrenheit|centigrade|C\\b|F\\b))|°(?! ?[CF]\\b)", 1.0)],
}
_AFFINE: list[tuple[str, float, float]] = [
    ("celsius|° ?C|degrees? (?:celsius|centigrade|C)", 1.0, 273.15),
    ("fahrenheit|° ?F|degrees? (?:fahrenheit|F)", 5 / 9, 459.67 * 5 / 9),
    ("K|kelvins?", 1.0, 0.0),
]
UNITS: dict[str, Unit] = {}
"""Every unit by the name that `Quantity.unit` carries."""


def _unit_pattern() -> tuple[re.Pattern[str], list[str]]:
    rows = [(p, Unit(d, f)) for d, table in _TABLE.items() for p, f in table]
    rows += [(p, Unit("temperature", f, o)) for p, f, o in _AFFINE]
    names, branches = [], []
    for pattern, unit in rows:
        names.append(re.split(r"[|(\\?]", pattern)[0])
        UNITS[names[-1]] = unit
        # symbols of one or two letters depend on case (m, M; in, In)
        forms = re.split(r"\|(?![^(]*\))", pattern)
        exact_case_forms = [f for f in forms if len(re.sub(r"\(.*?\)|\W", "", f)) <= 2]
        any_case_forms = [f for f in forms if f not in exact_case_forms]
        any_case = [f"(?i:{'|'.join(any_case_forms)})"] if any_case_forms else []
        branches.append("(" + "|".join(any_case + exact_case_forms) + ")")
    return re.compile(rf"[ ]?-?(?:{'|'.join(branches)})(?![^\W_]|\^)"), names


_WRITTEN, _NAMES = _unit_pattern()
_DEGREES = "degrees"
_BEFORE = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "millions": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "m.": 1e6,
    "M": 1e6,
    "billion": 1e9,
    "billions": 1e9,
    "bn": 1e9,
    "B": 1e9,
    "trillion": 1e12,
    "tn": 1e12,
    "lakh": 1e5,
    "crore": 1e7,
    "dozen": 12.0,
}
_SCALE = re.compile(
    r"[ -]?(hundred|thousand|millions?|billions?|trillion|bn|mn|mio|tn|lakh|crore|dozen|[kKMB](?=[\s,.;)%]|"
    r"$))(?![^\W_])"
)
_ONES = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2
    )
}
_MULTIPLES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12}
ORDINALS = {
    word: value
    for value, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split(),
        start=1,
    )
} | {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "hundredth": 100}
SMALL = {word: str(value) for word, value in (_ONES | _TENS).items()}
"""Number words that stand for digits inside longer answers ("three stars" = "3 stars")."""

_DIGITS = re.compile(
    r"(?P<skip>\d+(?:\.\d+){2,}|\d+:\d+(?::\d+)?)"
    r"|(?P<fraction>(?<![\w/.,])\d{1,3}/\d{1,3}(?![\w/]))"
    r"|(?P<num>\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)(?:\.\d+)?|"
    r"\d+,\d{1,2}(?= ?[a-z%°])(?!,)|\d+(?:\.\d+)?|(?<!\d)\.\d+)"
    r"(?P<power> ?(?:x|×|\*) ?10\^?(?P<exp>-?\d{1,2}))?"
    r"(?P<ord>(?:st|nd|rd|th)(?![^\W_]))?"
)
_NUMBER_WORD = "|".join(sorted([*_ONES, *_TENS, *_MULTIPLES, *ORDINALS], key=len, reverse=True))
_SPELT = re.compile(
    rf"(?<![^\W_])(?:a (?=hundred|thousand|million|billion|dozen))?(?:{_NUMBER_WORD})(?:(?:[ -]|"
    rf" and )(?:{_NUMBER_WORD})(?![^\W_]))*(?![^\W_])",
    re.IGNORECASE,
)
_HALF_OF = re.compile(
    r"(?<![^\W_])(?:(?<!and[ -]a[ -])half(?: an? |[ -])(?P<half>[a-z]{3,})|an? (?P<more>[a-z]{3,}) and a half)"
    r"(?![^\W_])",
    re.I,
)
"""Half of a unit or of a size, or one and a half: "half a dozen", "an hour and a half"."""
_AND_A_HALF = re.compile(r"[ -]and[ -]a[ -]half(?![^\W_])", re.IGNORECASE)
_MILLIONS = re.compile(r" ?([mb])(?![^\W_])")
"""Behind an amount of money: £1.5m."""
_PRONOUN = re.compile(
    r"[ ](?:of|another|day|who|which|that|can|could|should|must|may|might|is|was|has|would|or more|by one)\b"
)
_MINUS = re.compile(r"(?<![^\W_])(?:minus|negative) [$€£¥]?$", re.IGNORECASE)
_BELOW_ZERO = re.compile(r" below (?:zero|0)(?![^\W_]|[.,]\d)", re.IGNORECASE)
_INITIAL = re.compile(
    r" [JKMNVW]\.(?: ?[A-Z]\.)? ?(?!(?:The|It|Its|This|At|In|On|For|A|As|Its|They|He|She)\b)[A-Z]"
)
"""After a year: a name, no unit."""
_COUNTED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
"""Chinese, Japanese and Korean write what is counted right behind the number: 13人."""
_BETWEEN = re.compile(r"\bbetween\s+[$€£]?$", re.IGNORECASE)
_TO = re.compile(r"\s*(?:-|to|and|up to)\s*[$€£]?", re.IGNORECASE)


@remembered
def quantities(text: str) -> tuple[Quantity, ...]:
    """Every number of ``readable(text)``, left to right, without identifiers (A380, F-16), versions and clock times.

    >>> [(q.low, q.high, q.unit) for q in quantities("between 5 and 6 km, 5,730 metres, twenty-five; A380 at 10:30")]
    [(5.0, 6.0, 'km'), (5730.0, 5730.0, 'm'), (25.0, 25.0, '')]
    """
    text = readable(text)
    digits = _quantities_in_digits(text)
    taken = Places(text)
    for quantity in digits:
        taken.add(quantity.start, quantity.end)
    spelt = [w for w in _quantities_in_words(text) if not taken.meet(w.start, w.end)]
    return tuple(
        _join_ranges(
            _join_compound_units(sorted([*digits, *spelt], key=lambda q: q.start), text), text
        )
    )


def _quantities_in_digits(text: str) -> list[Quantity]:
    digit_quantities = []
    for match in _DIGITS.finditer(text):
        if match["skip"]:
            continue
        start, end = match.span()
        before = text[start - 1 : start]
        joined = before in "-/" and start > 1 and text[start - 2 : start - 1].isalpha()
        if (before.isalnum() and not _COUNTED.match(before)) or before == "_" or joined:
            continue  # A380, F-16, x/2
        if match["fraction"]:
            top, bottom = match["fraction"].split("/")
            if int(bottom):
                digit_quantities.append(
                    Quantity(
                        int(top) / int(bottom),
                        int(top) / int(bottom),
                        "",
                        False,
                        6,
                        False,
                        start,
                        end,
                    )
                )
            continue
        digits = match["num"].replace(" ", "")
        if re.fullmatch(r"\d+,\d{1,2}", digits):
            digits = digits.replace(",", ".")
        plain = digits.isdigit() and not match["ord"] and not match["power"]
        digits = digits.replace(",", "")
        if len(digits) > 300:
            continue  # no quantity: a float would be infinite
        value, decimals = float(digits), len(digits.partition(".")[2])
        if match["exp"]:
            value, decimals = value * 10.0 ** int(match["exp"]), decimals - int(match["exp"])
            if not math.isfinite(value):
                continue
        lead = text[max(0, start - 8) : start]
        money = next((s for s in ("US$", *_BEFORE) if lead.rstrip(" ").endswith(s)), "")
        sign = lead.rstrip(" ").removesuffix(money) if money else lead
        if sign.endswith("-") and (
            len(sign) < 2
            or not (
                sign[-2].isalnum() or (sign[-2] in " )%°" and sign[:-1].rstrip()[-1:].isdigit())
            )
        ):
            value, plain = -value, False
        quantity = _complete_quantity(
            text, start, end, value, decimals, bool(match["ord"]), plain, _BEFORE.get(money, "")
        )
        if quantity:
            digit_quantities.append(quantity)
    return digit_quantities


def _complete_quantity(
    text: str,
    start: int,
    end: int,
    value: float,
    decimals: int,
    ordinal: bool,
    plain: bool,
    unit: str,
) -> Quantity | None:
    """Add scale, unit and sign words around a number; None if the letters that follow make it an identifier."""
    if plain and end - start == 4 and _INITIAL.match(text, end):
        return Quantity(value, value, unit, ordinal, decimals, plain, start, end)
    if value < 100 and not ordinal and (and_a_half := _AND_A_HALF.match(text, end)):
        value, decimals, plain, end = value + 0.5, max(decimals, 1), False, and_a_half.end()
    scale = _SCALE.match(text, end) or (_MILLIONS.match(text, end) if unit else None)
    kelvin = (
        scale and scale[1] == "K" and not unit and (text[end] == " " or decimals > 1)
    )  # 300 K; but 50K, $300 K
    if scale and not ordinal and not kelvin:
        size = {"m": "M", "b": "B"}.get(scale[1], scale[1])
        factor = _SCALES.get(size) or _SCALES[size.lower()]
        value, decimals, plain, end = (
            value * factor,
            decimals - len(f"{factor:.0f}") + 1,
            False,
            scale.end(),
        )
    if not unit and not ordinal:
        unit_match = _WRITTEN.match(text, end)
        if (
            unit_match
            and unit_match.lastindex
            and not (unit_match.group() == "s" and value % 10 == 0)
        ):  # 1960s
            unit, end = _NAMES[unit_match.lastindex - 1], unit_match.end()
    if (
        text[end : end + 1].isalpha()
        and text[end - 1 : end].isdigit()
        and not _COUNTED.match(text, end)
    ):
        return None  # 5G, 20th-like identifiers, 1960s
    minus = _MINUS.search(text, max(0, start - 10), start)
    if (
        minus and not text[max(0, minus.start() - 2) : minus.start()].rstrip()[-1:].isdigit()
    ):  # but "5 minus 3"
        value, plain, start = -value, False, minus.start()
    elif not ordinal and (below_zero := _BELOW_ZERO.match(text, end)):
        value, plain, end = -value, False, below_zero.end()
    return Quantity(value, value, unit, ordinal, decimals, plain, start, end)


def _quantities_in_words(text: str) -> list[Quantity]:
    word_quantities: list[Quantity] = []
    halves = Places(text)
    for match in _HALF_OF.finditer(text):
        word, value = (match["half"] or match["more"]).lower(), 0.5 if match["half"] else 1.5
        unit = unit_named(word)
        if word in _MULTIPLES:
            quantity = _complete_quantity(
                text, *match.span(), value * _MULTIPLES[word], 0, False, False, ""
            )
        else:
            quantity = (
                Quantity(value, value, unit, False, 1, False, *match.span()) if unit else None
            )
        if quantity:
            word_quantities.append(quantity)
            halves.add(quantity.start, quantity.end)
    halves_read = len(word_quantities)
    for match in _SPELT.finditer(text):
        is_lone_second = match.group().lower() == "second"
        run = [
            (m.group().lower(), match.start() + m.start(), match.start() + m.end())
            for m in re.finditer(r"[A-Za-z]+", match.group())
        ]
        for value, ordinal, start, end in _spelt_values(run):
            if (
                len(word_quantities) > halves_read and start < word_quantities[-1].end
            ) or halves.meet(start, end):
                continue  # the zero of "thirty below zero"
            if value > _LARGEST:
                continue
            if (value == 1 and not ordinal and _PRONOUN.match(text, end)) or text[
                end : end + 1
            ] == "_":
                continue
            if is_lone_second and text[max(0, start - 9) : start].rstrip().endswith(
                ("per", "a", "/")
            ):
                continue  # a unit of time
            quantity = _complete_quantity(text, start, end, float(value), 0, ordinal, False, "")
            if quantity:
                word_quantities.append(quantity)
    return word_quantities


_VALUES = _ONES | _TENS | ORDINALS
_LARGEST = 10**18
"""Larger values ("hundred hundred ...") are not numbers that anybody writes in words."""


def _spelt_values(run: list[tuple[str, int, int]]) -> list[tuple[int, bool, int, int]]:
    """The numbers in a run of number words: (value, ordinal, start, end); a word that does not fit starts the next."""
    values: list[tuple[int, bool, int, int]] = []
    total = current = 0
    last_size = 10**12  # size of the last word; the next must be smaller, or multiply
    start = end = -1
    for word, at, until in run:
        if word in ("a", "and"):
            continue
        ordinal = word in ORDINALS
        value = _VALUES.get(word)
        if value is not None:
            fits = start < 0 or (last_size >= 100) or (last_size >= 20 and 0 < value < 10)
            if not fits:
                values.append((total + current, False, start, end))
                total, current, start = 0, 0, -1
            current, last_size = current + value, value if value >= 20 else 1
        else:
            size = _MULTIPLES[word]
            if start >= 0 and size == 100:
                current = min(current * 100, 10 * _LARGEST)
            elif start >= 0:
                total, current = min(total + current * size, 10 * _LARGEST), 0
            else:
                total, current = (0, size) if size == 100 else (size, 0)
            last_size = size
        start, end = (at if start < 0 else start), until
        if ordinal:
            values.append((total + current, True, start, end))
            total, current, start, last_size = 0, 0, -1, 10**12
    if start >= 0:
        values.append((total + current, False, start, end))
    return values


_PARTS_OF = {
    ("weeks", "days"),
    ("days", "h"),
    ("h", "mins"),
    ("mins", "s"),
    ("yrs", "months"),
    ("ft", "in"),
    ("lb", "oz"),
    ("USD", "cents"),
}
"""Units that people write one behind the other."""
_THEN = re.compile(r"(?P<and>,? (?:and )?)|(?P<foot>' ?)")
_SINGLE = re.compile(r"(?: in\b| tall\b|[ -]?[^\w\s'\"]|\s*$)")


def _join_compound_units(numbers: list[Quantity], text: str) -> list[Quantity]:
    """Join one quantity in two units or three, in the first of them: "1 hour 30 minutes" is 1.5 hours."""
    compounds: list[Quantity] = []
    for number in reversed(numbers):
        following = compounds[-1] if compounds else number
        joint = _THEN.fullmatch(text[number.end : following.start])
        units = (
            "ft" if joint and joint["foot"] and not number.unit else number.unit,
            following.unit,
        )
        if (
            units == ("ft", "")
            and joint
            and joint.group() in (" ", "'")
            and _SINGLE.match(text, following.end)
        ):
            units = ("ft", "in")  # 6'3, 6 ft 3
        if joint and units in _PARTS_OF and not number.ordinal and not following.ordinal:
            ratio = UNITS[units[0]].factor / UNITS[units[1]].factor
            scheduled = joint.group() == ", " and units[0] in ("days", "weeks")  # 7 days, 12 hours
            if 0 <= number.low == int(number.low) and 0 <= following.low < ratio and not scheduled:
                value = number.low + following.low / ratio
                decimals = int(math.log10(ratio) + 0.8) + max(
                    following.decimals, 0
                )  # to half the smaller unit
                compounds[-1] = Quantity(
                    value, value, units[0], False, decimals, False, number.start, following.end
                )
                continue
        compounds.append(number)
    return compounds[::-1]


def _join_ranges(numbers: list[Quantity], text: str) -> list[Quantity]:
    """Join two numbers of a range into one quantity with the unit of the second."""
    merged: list[Quantity] = []
    for number in numbers:
        if (
            merged
            and not merged[-1].is_range
            and not number.ordinal
            and merged[-1].end <= number.start
        ):
            previous, joint = merged[-1], text[merged[-1].end : number.start]
            connector = _TO.fullmatch(joint)
            joined = connector and (
                joint.strip(" $€£").lower() != "and"
                or _BETWEEN.search(text[max(0, previous.start - 12) : previous.start])
            )
            # a range shares its unit, unless both ends name the same one
            if joined and previous.unit in ("", number.unit) and previous.low < number.low:
                scaled = previous.low
                if (
                    number.decimals < previous.decimals
                    and number.decimals < 0
                    and previous.low * 10.0**-number.decimals < number.low
                ):
                    scaled = previous.low * 10.0**-number.decimals  # "2 to 3 million"
                merged[-1] = Quantity(
                    scaled,
                    number.low,
                    number.unit,
                    False,
                    max(previous.decimals, number.decimals),
                    False,
                    previous.start,
                    number.end,
                )
                continue
        merged.append(number)
    return merged


def in_unit(value: float, unit: str, unit_wanted: str) -> float | None:
    """The value in another unit of the same dimension; None when the dimensions differ.

    Plain degrees count as degrees of the wanted temperature scale.
    """
    if unit == unit_wanted:
        return value
    unit_from, unit_to = UNITS.get(unit), UNITS.get(unit_wanted)
    if (
        unit == _DEGREES
        and unit_to is not None
        and unit_to.dimension == "temperature"
        and unit_wanted != "K"
    ):
        return value
    if unit_from is None or unit_to is None or unit_from.dimension != unit_to.dimension:
        return None
    return (value * unit_from.factor + unit_from.offset - unit_to.offset) / unit_to.factor


def unit_named(text: str) -> str:
    """The key of `UNITS` for a unit as written ("metres" -> "m"); "" if it is no unit.

    >>> unit_named("metres"), unit_named("km²"), unit_named("people")
    ('m', 'km2', '')
    """
    text = readable(text).strip()
    unit_match = _WRITTEN.fullmatch(text)
    return (
        _NAMES[unit_match.lastindex - 1]
        if unit_match and unit_match.lastindex
        else _BEFORE.get(text, "")
    )


_ABOUT = re.compile(
    r"^(?:about|approximately|approx\.?|around|roughly|circa|ca?\.|nearly|almost|some|over|up to|~|≈)\s*",
    re.IGNORECASE,
)


@remembered
def whole_quantity(text: str) -> tuple[Quantity, str] | None:
    """The quantity that makes up a whole text, and the counted noun after it; None for any other text.

    >>> whole_quantity("about 2,640 m")[0].low, whole_quantity("46 stars")[1], whole_quantity("Apollo 11")
    (2640.0, 'stars', None)
    """
    text = _ABOUT.sub("", readable(text).strip()).strip(" .,;()")
    numbers = quantities(text)
    if len(numbers) != 1:
        return None
    quantity = numbers[0]
    head = text[: quantity.start].strip(" $€£-").removesuffix("US")
    if head and head.lower() != "between":
        return None
    tail = text[quantity.end :].strip(" .")
    if tail and not re.fullmatch(
        r"[a-z]{3,}(?: [a-z]{3,})?|[\u3040-\u30ff\u4e00-\u9fff]{1,3}|[\uac00-\ud7a3]{1,2}", tail
    ):
        return None
    return quantity, tail
