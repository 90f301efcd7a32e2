"""A reply or a form that is one amount as a whole, with sign, unit, currency and bound; and whether two are equal."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from demur.answers import cldr
from demur.answers.counts import counted_thing
from demur.answers.notation import plain_notation
from demur.answers.numbers import UNITS, Quantity, in_unit, quantities, unit_named
from demur.answers.text import readable, words
from demur.core.records import AnswerSpec


class Amount(NamedTuple):
    """A number or a range with all that stands beside it."""

    low: float
    high: float
    decimals: int
    """As in `numbers.Quantity`."""
    bound: str
    """"<", "<=", ">", ">=" where the number only limits the amount; "~" where it is rough; else ""."""
    unit: str
    """Key of `numbers.UNITS`, or the unit as written where it is not among them ("m^4"); "" without one."""
    currencies: frozenset[str]
    """ISO codes that the money may be of; empty for anything but money."""
    noun: str
    """Further words behind the number: what is counted."""


_HEADS = {
    "<": r"<|less than|fewer than|lower than|smaller than|under|below|nearly|almost|just under|not quite",
    "<=": r"≤|<=|=<|at most|up to|(?:no|not) more than|a? ?maximum(?: of)?|max\.?",
    ">": r">|(?<!no )(?<!not )more than|greater than|larger than|higher than|over|above|well over|just over|exceeding|upwards of",
    ">=": r"≥|>=|=>|at least|(?:no|not) (?:less|fewer) than|a? ?minimum(?: of)?|min\.?",
    "~": r"~|≈|≃|≅|about|approximately|approx\.?|around|roughly|circa|c(?:a\.?|\.)|some|an estimated",
    "": r"(?-i:[a-zA-Z]) ?=|=|exactly|precisely|a total of|only|just",
}
_TAILS = {
    "<": r"(?:and|or) (?:below|under)",
    "<=": r"or (?:less|fewer|lower|below|under)|at (?:the )?most|maximum",
    ">=": r"\+|(?:or|and) (?:more|greater|higher|above|over|up|upwards?|older)|plus|at least|minimum",
    "~": r"or so|approximately|approx\.?|roughly|±.*",
    "": r"in total|in all|altogether|exactly|in size|long|tall|high|wide|deep|old",
}
_HEAD = re.compile(
    rf"(?:{'|'.join(f'(?P<h{i}>{p})' for i, p in enumerate(_HEADS.values()))})(?:(?<=\W)|(?!\w))\s*",
    re.IGNORECASE,
)
_TAIL = re.compile(
    rf"(?<!\s)\s*+(?:(?<=\d)|(?<!\w))(?:{'|'.join(f'(?P<t{i}>{p})' for i, p in enumerate(_TAILS.values()))})$",
    re.IGNORECASE,
)
_WITH_MARKS = re.compile(r"\S*[\^/·*²³]\S*.*|[^\W\d_]+\d.*")
_POWER_OF_A_UNIT = re.compile(r"(?<=[^\W\d_])\^(?=[23](?!\d))")
_EUROPEAN = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d+)(?![\d.,])")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(?:(0),(\d+)|(\d+),(\d{1,2}|\d{4,}))(?![\d.,])")
_CODE = re.compile(r"(?<![\d.,])0\d|(?<!\d)'\d\d(?!\d)")
"""Figures that are no quantity: 070, 007, '50."""
_SCALED = re.compile(
    r"(?<![\d.,])(?P<figures>\d++(?:,\d{3})*+(?:\.\d++)?) ?"
    r"(?P<word>(?:[^\W\d_]|[\u0900-\u0963])++\.?(?: [^\W\d_]++)?)"
)
_COPULA = re.compile("(?:です|でした|である|だ|입니다|이다|예요|이에요)$")
_POINT = re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?![\d.,])")
LONGEST = 120
"""Characters of the longest text that is read as one amount."""


@lru_cache(maxsize=4096)
def amount(text: str) -> Amount | None:
    """The amount that a whole text is; None for any other text.

    >>> amount("NZ$5")[0], sorted(amount("NZ$5").currencies), amount("at least 5 km")[3:5], amount("Apollo 11")
    (5.0, ['NZD'], ('>=', 'km'), None)
    """
    if len(text) > LONGEST:
        return None
    text = readable(plain_notation(text)).strip()
    if _CODE.search(text):
        return None
    text = text.strip("\"'").strip().rstrip(".;,")
    text = _EUROPEAN.sub(lambda m: f"{m[1].replace('.', ',')}.{m[2]}", text)
    text = _DECIMAL_COMMA.sub(lambda m: f"{m[1] or m[3]}.{m[2] or m[4]}", text)
    text = _SCALED.sub(_write_out_scale, _COPULA.sub("", text), count=1)
    text, bound = _split_bound(_POWER_OF_A_UNIT.sub("", text))
    text = re.sub(r"^- (?=\d)", "", text)  # a bullet
    numbers = quantities(text)
    if len(numbers) != 1:
        return None
    number = numbers[0]
    head, tail = text[: number.start].strip(), text[number.end :].strip(" .()")
    negative = False
    if re.search(r"[-+]$|^[-+]", head):
        negative = "-" in head and number.low > 0  # of fractions, and before a currency
        head = head.strip("+-").strip()
    if head.lower() in ("a", "an") or (head.lower() == "between" and number.is_range):
        head = ""
    currencies = _currencies_stated(head, number.unit, tail, text)
    if head and not currencies:
        return None
    pounds = number.unit == "lb" and "pound" in text.lower()  # of either kind
    unit, noun = ("", "") if currencies and not pounds else _split_unit(number, tail)
    factor = 0.01 if number.unit == "cents" else 1.0
    low, high = number.low * factor, number.high * factor
    if negative:
        low, high = -high, -low
    return Amount(low, high, number.decimals, bound, unit, currencies, noun)


def _write_out_scale(match: re.Match[str]) -> str:
    """Figures with a word of size in another language, written out: 1,5 Mio., 15 lakh."""
    word = match["word"]
    for scale_word in dict.fromkeys((word, word.split()[0], *_word_beginnings(word))):
        factor = cldr.scales().get(scale_word.casefold().rstrip("."))
        if factor and unit_named(scale_word) == "":
            value = float(match["figures"].replace(",", "")) * factor
            return (
                f"{value:.6f}".rstrip("0").rstrip(".") + f" {word[len(scale_word) :].lstrip('.')}"
            )
    return match.group()


def _word_beginnings(word: str) -> list[str]:
    """Beginnings of a word in a script that sets no blanks: \u4e07 of \u4e07\u4eba."""
    return [] if word.isascii() else [word[:2], word[:1]]


def _split_bound(text: str) -> tuple[str, str]:
    bound = ""
    for _ in range(2):  # "just over about 5"
        if not (head := _HEAD.match(text)):
            break
        bound = list(_HEADS)[int(str(head.lastgroup)[1:])] or bound
        text = text[head.end() :]
    if tail := _TAIL.search(text):
        bound = list(_TAILS)[int(str(tail.lastgroup)[1:])] or bound
        text = text[: tail.start()]
    return text.strip(), bound


_MONEY = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "yen", "cents": "$"}


def _currencies_stated(head: str, unit: str, tail: str, text: str) -> frozenset[str]:
    """The codes that all of sign, unit and words allow; none if one of them is not money."""
    if unit == "lb" and not head and "pound" in text.lower():
        return _currencies_named("pounds")
    if unit and unit not in _MONEY:
        return frozenset()
    names_of_money = [part for part in (head, _MONEY.get(unit, ""), tail) if part]
    if unit in _MONEY and head[-1:] in "$€£¥" and head:
        names_of_money = [head, *([tail] if tail else [])]
    codes = [_currencies_named(part) for part in names_of_money]
    if unit in _MONEY and tail and not codes[-1]:
        codes.pop()  # "$5 per person"
    return frozenset.intersection(*codes) if codes else frozenset()


def _currencies_named(name: str) -> frozenset[str]:
    if not re.search(r"[^\W\d_]|[^\w\s]", name) or len(name) > 40:
        return frozenset()
    codes_of_name = cldr.currencies()
    name = name.rstrip(".")
    return codes_of_name.get(name) or codes_of_name.get(name.casefold(), frozenset())


def _split_unit(number: Quantity, tail: str) -> tuple[str, str]:
    """The unit behind a number, and the words behind that."""
    if not tail:
        return number.unit, ""
    if _WITH_MARKS.fullmatch(tail) or not any(c.isalnum() for c in tail):
        return f"{number.unit}{tail}".replace(" ", ""), ""
    if number.unit:
        return number.unit, tail
    unit_of_name, names = cldr.units(), tail.split()
    for n in range(min(3, len(names)), 0, -1):  # "pies de altitud"
        name = " ".join(names[:n])
        if unit := unit_named(name) or unit_of_name.get(name.casefold().rstrip("."), ""):
            return unit, " ".join(names[n:])
    return "", tail


# --- equal or not --------------------------------------------------------------------------------


def gold_amounts(spec: AnswerSpec, question: str) -> tuple[list[Amount], bool]:
    """The accepted forms that are amounts, and whether all are.

    A bare number takes the unit of the form beside it with the same value, of the specification, or of the question.
    """
    forms = [form[0] for form in spec.accepted if len(form) == 1]
    amounts = [a for form in forms if (a := amount(form)) is not None]
    complete = len(amounts) == len(spec.accepted)
    with_unit = {a.low: a for a in amounts if a.unit or a.currencies}
    fallback = unit_named(spec.unit) or _unit_asked(question)
    for i, a in enumerate(amounts):
        if a.unit or a.currencies or a.noun:
            continue
        if same_value := with_unit.get(a.low):
            amounts[i] = a._replace(unit=same_value.unit, currencies=same_value.currencies)
        elif fallback:
            amounts[i] = a._replace(unit=fallback)
    return amounts, complete


_ASKED = re.compile(r"\b(?:how many|in|number of) ((?:square |cubic )?[a-z°/%]+)", re.IGNORECASE)
_NO_UNIT = ("in", "a", "m", "second", "h", "t", "s", "l", "g", "k", "n", "w")


def _unit_asked(question: str) -> str:
    """The unit that a question asks for: "How many kilometres", "in metres"."""
    units = {
        unit
        for match in _ASKED.finditer(readable(question))
        if match[1].lower() not in _NO_UNIT and (unit := unit_named(match[1]))
    } - {*_MONEY, "lb"}
    return units.pop() if len(units) == 1 else ""


CLOSE = 0.01
"""Relative difference below which another amount may be a rounding; whole counts up to 100 are not rounded."""


def amounts_agree(
    gold: Amount, reply: Amount, question: str, tolerance: float | None = None
) -> bool | None:
    """Whether a reply's amount is the accepted one; None where that is not to be decided by comparing.

    Args:
        gold: the accepted amount.
        reply: the amount that a reply states.
        question: decides whether another noun than gold's is what was asked for.
        tolerance: relative; None for the accepted form's own last digit.
    """
    if gold.bound.strip("~") != reply.bound.strip("~"):
        value = amounts_agree(
            gold._replace(bound=""), reply._replace(bound=""), question, tolerance
        )
        return None if gold.bound.strip("~") and not reply.bound.strip("~") and value else False
    if gold.currencies and reply.currencies:
        money_agrees = _same_money(gold.currencies, reply.currencies)
        if not money_agrees:
            return money_agrees
        gold, reply = gold._replace(unit=""), reply._replace(unit="")
    elif (gold.currencies and not gold.unit and reply.unit) or (
        reply.currencies and not reply.unit and gold.unit
    ):
        return False
    low, high = reply.low, reply.high
    converted = False
    if gold.unit != reply.unit and gold.unit and reply.unit:
        if {gold.unit, reply.unit} & _LOOSE:
            return None
        ends = in_unit(low, reply.unit, gold.unit), in_unit(high, reply.unit, gold.unit)
        if ends[0] is None or ends[1] is None:
            return None if _loosely_convertible(gold.unit, reply.unit) else False
        low, high, converted = ends[0], ends[1], True
    elif {gold.unit, reply.unit} == {"%", ""}:
        share, other_amount = (reply, gold) if not reply.unit else (gold, reply)
        if share.high <= 1 < other_amount.high or (share.decimals > 0 and share.high <= 1):
            factor = 100.0 if share is reply else 0.01
            low, high = low * factor, high * factor
    if any(
        a.noun and not a.unit and b.unit and not b.noun for a, b in ((gold, reply), (reply, gold))
    ):
        return None  # a unit that is not read
    if (gold.noun or reply.noun) and not _counts_same_thing(gold.noun, reply.noun, question):
        symbols = _SYMBOL.fullmatch(gold.noun) and _SYMBOL.fullmatch(reply.noun)
        return False if symbols and low == gold.low else None
    slack = 1e-12 * max(abs(gold.low), abs(gold.high))
    if tolerance is not None:
        slack = max(slack, tolerance * abs(gold.low))
    elif gold.decimals > 0 or converted:
        slack = max(slack, 0.5 * 10.0 ** -max(gold.decimals, 0) * (1 + 1e-9))
    if abs(low - gold.low) <= slack and abs(high - gold.high) <= slack:
        return True
    if (gold.low != gold.high) != (low != high):
        season = 1000 < low < 2200 and low <= gold.low <= high  # 1946-47
        return None if season or (gold.low <= low and high <= gold.high) else False
    size = max(abs(gold.low), abs(gold.high))
    rough = 0.1 if "~" in (gold.bound, reply.bound) else CLOSE
    counted = gold.decimals == reply.decimals == 0 and not converted and size <= 100
    if (
        not counted
        and abs(low - gold.low) <= rough * size
        and abs(high - gold.high) <= rough * size
    ):
        return None
    return None if not converted and _lacks_scale(gold, reply) else False


_LOOSE = frozenset({"tons", "kb", "Mb", "Gb", "Tb", "cal"})
"""Units that people write for others: tons for tonnes, Gb for gigabytes, calories for kilocalories."""


def _loosely_convertible(unit: str, other_unit: str) -> bool:
    """Whether a month or a day may be meant roughly: 12 weeks, 3 months."""
    dimensions = {UNITS[u].dimension if u in UNITS else u for u in (unit, other_unit)}
    return dimensions <= {"time", "months"} or dimensions <= {"data", "bits or bytes"}


def _lacks_scale(gold: Amount, reply: Amount) -> bool:
    """Whether a reply leaves out gold's millions, which the question may have said."""
    return gold.decimals < 0 <= reply.decimals and any(
        abs(reply.low * size - gold.low) <= 1e-9 * abs(gold.low) for size in (1e3, 1e6, 1e9)
    )


def _same_money(gold: frozenset[str], reply: frozenset[str]) -> bool | None:
    if not gold & reply:
        return False
    usual = next((code for code in ("USD", "GBP", "EUR", "JPY", "CNY", "INR") if code in gold), "")
    if len(reply) == 1 and len(gold) > 1:
        return usual in reply if usual else None
    if len(gold) == 1 and len(reply) > 1:
        return True if usual else None
    return True


def _counts_same_thing(gold: str, reply: str, question: str) -> bool:
    """Whether what a reply counts is what gold or the question names."""
    named_words = {_singular(w.norm) for text in (gold, question) for w in words(text)}
    counted_words = [_singular(w.norm) for w in words(reply)]
    if not counted_words or set(counted_words) <= named_words | _DIMENSIONS:
        return (
            not gold
            or not counted_words
            or {_singular(w.norm) for w in words(gold)} - _DIMENSIONS <= set(counted_words)
        )
    if not reply.isascii() and len(reply) <= 2:
        return not gold  # 人, 명: a counter
    return not gold and counted_words[-1] == counted_thing(question).head


_SYMBOL = re.compile(r"(?=.*[A-Z\u00b5\u03bc\u03a9])[A-Za-z\u00b5\u03bc\u03a9]{1,3}")
"""A unit that is not read: mA, k\u03a9."""


_DIMENSIONS = frozenset(
    [
        "long",
        "tall",
        "high",
        "wide",
        "deep",
        "old",
        "height",
        "length",
        "of",
        "in",
        "the",
        "a",
        "total",
        "all",
        "them",
    ]
)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def ambiguous(text: str) -> str:
    """The text with a point before three digits taken for a separator ("12.000": 12,000); "" without one."""
    changed = _POINT.sub(r"\1,\2", text)
    return changed if changed != text else ""
