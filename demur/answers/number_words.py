"""Whole numbers in words, in other languages than English: "deux cent six" becomes "206", "neunzehnhundert" "1900".

A word is read with all that stands beside it, or not at all: the "cent" of "deux cent six" is no 100. What is no number
as a language builds them ("cien y doscientos", a number word before an ordinal) stays in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from demur.answers.languages import LETTER, listed, look_up, spellings, table, word_lists

_AND = {"es": "y", "ca": "i", "gl": "e", "pt": "e", "fr": "et", "eu": "eta"}
_GLUED = {"de": "(?:und)?", "nl": "(?:en|ën)?", "it": "[ -]?"}
"""Languages that write a number as one word -> what may stand between its parts."""
_AND_AFTER_HUNDREDS = ("gl", "pt", "eu", "de", "nl")
_HANGS = {
    "ko": r"(?= ?(?:명|개|번|마리|권|대|살|시간|곳|가지|잔|장|년|월|일|세|층|회|위|\W|$))",
    "tr": rf"(?:s?[ıiuü]|[dt][ae])?(?!{LETTER})",
}
"""What may, or must, stand behind a number."""
_ORDINAL = (
    r"(?:prim|segund|secon|terce|terz|trois|cuart|quart|quint|cinqu|sext|sest|siss|s[ée]ptim|settim|oct|ottav|noven|neuv|"
    r"non[oa]|d[ée]cim|\w+[éèe]sim|perv|pierw|drug|trze|czwart|piąt|sz[óo]st|siódm|ósm|dziewiąt|dziesiąt|\w+nast|\w+dziest|"
    r"\w+dziesiąt|перв|втор|трет|четв|пят|шест|седьм|восьм|девят|десят|сороков|\w+дцат|\w+десят|medi|mezz|demi|pół|полов)"
)
"""How words begin that make something else of the number before them: an ordinal, a half."""
_AND_A_HALF = re.compile(r"(?:डेढ़|डेढ|ढाई|साढ़े|साढे|सवा|पौने)\s$")
_PER_CENT = re.compile(r"\b(?:por|pour|per) $", re.IGNORECASE)
_HUNDRED = re.compile(
    r"[\s-](?:(?:y|e|i|et|en|und|és)[\s-])?(?!pro[cz]ent)\w*(?:cent|cient|quinient|zent|hent|hund|honderd|sto\b|set\b|сто\b|"
    r"сот|yüz|ehun|مئ|مائ|सौ|백)",
    re.IGNORECASE,
)
_HUNDREDS = re.compile(
    r"(?:cent|cient|quinient|zent|hent|hund|honderd|sto|ście|sta|set|сто|сти|ста|сот|yüz|ehun|مئ|مائ|सौ|백|mil|mille|mila|"
    r"tausend|duizend|tysi|тысяч|ألف|हज़ार|हजार|천|\bbin)\w{0,12}[\s-](?:(?:y|e|i|et|en|und|eta)[\s-])?$",
    re.IGNORECASE,
)
"""Beside a number below 100: words of a larger one."""


def _numbers(code: str, name: str) -> dict[str, int]:
    pairs = (
        entry.split(maxsplit=1)
        for entry in word_lists()[code].get(name, "").split(",")
        if entry.strip()
    )
    return table((form, int(value)) for value, forms in pairs for form in forms.split("/"))


def number_words(code: str) -> Callable[[str], str]:
    """A function that writes the numbers of a text in figures.

    >>> change = number_words("fr")
    >>> change("mille neuf cent quatre-vingt-dix"), change("vingt pour cent"), change("deux cent sixième")
    ('1990', '20 pour cent', 'deux cent sixième')
    """
    small, large = _numbers(code, "numbers"), _numbers(code, "hundreds")
    if not small:
        return lambda text: text
    sizes = table(
        (word, 10 ** int(power))
        for word, _, power in (s.partition(":") for s in listed(code, "scales"))
    )
    words = {**small, **sizes, **large} if large else small
    either = spellings(words).replace(r"\ ", "[ -]")
    joint = rf" (?:{_AND[code]} )?|-(?:{_AND[code]}-)?" if code in _AND else "[ -]"
    joint = _GLUED.get(code, f"(?:{joint})") if large else r"(?!)"
    ends = (
        "" if code in _GLUED else rf"(?!{LETTER})"
    )  # possessive: else "einundzwanzig..." has 2^n readings
    found = re.compile(
        rf"(?<!{LETTER})({either})((?:{joint}(?:{either}){ends})*+){_HANGS.get(code, rf'(?!{LETTER})')}",
        re.I,
    )
    token = re.compile(
        rf"(?P<between>{joint})(?P<word>{either})" if large else r"(?!)", re.IGNORECASE
    )
    goes_on = re.compile(rf"[ -](?:{_AND.get(code, 'e')} )?(?:{either}|{_ORDINAL})", re.IGNORECASE)

    def kind(word: str, value: int) -> str:
        """The part that a word has in a number; see `_built`."""
        if look_up(large, word) is not None:
            return "h" if value == 100 else "o" if value == 1 else "H"
        if value >= 1000:
            return "m"
        if value == 100:
            return "c" if 100 in large.values() else "h"
        return (
            "o"
            if 0 < value < 10
            else "t"
            if 10 <= value < 20
            else "z"
            if value and value % 10 == 0
            else "s"
        )

    def change(match: re.Match[str]) -> str:
        before, behind = match.string[: match.start()][-20:], match.string[match.end() :][:20]
        if _AND_A_HALF.search(before) or _HUNDREDS.search(before) or _HUNDRED.match(behind):
            return match.group()
        more = list(token.finditer(match[2]))
        said = [match[1], *(m["word"] for m in more)]
        values = [look_up(words, word.replace("-", " ")) or 0 for word in said]
        kinds = [
            kind(word.replace("-", " "), value) for word, value in zip(said, values, strict=True)
        ]
        shape = kinds[0] + "".join(
            "&" * (len(m["between"]) > 1) + k for m, k in zip(more, kinds[1:], strict=True)
        )
        if set(kinds) <= set("otzs") and shape not in ("zo", "z&o"):  # each is a number of its own
            if code in _GLUED and more:
                return match.group()
            read = [w if look_up(large, w) else str(v) for v, w in zip(values, said, strict=True)]
            return read[0] + "".join(
                m["between"] + one for m, one in zip(more, read[1:], strict=True)
            )
        if len(said) == 1 and (
            kinds == ["m"] or (look_up(small, said[0]) is None and values == [100])
        ):
            return match.group()
        if (
            goes_on.match(behind)
            or before[-2:-1].isdigit()
            or (values == [100] and _PER_CENT.search(before))
        ):
            return match.group()
        value = values[0] if len(said) == 1 else _value(shape, values, code in _AND_AFTER_HUNDREDS)
        return match.group() if value is None else str(value)

    return lambda text: found.sub(change, text)


@cache
def _built(joined: bool) -> re.Pattern[str]:
    """How a number is built of words: o 1-9, t 10-19, z tens, s others below 100, h 100, H 200 ..., m 1,000 ...

    c is a word for 100 that no smaller number follows.

    Args:
        joined: whether an "and" (&) may stand behind hundreds and sizes.
    """
    and_ = "&?" if joined else ""
    below = "(?:z&?o|[otzs])"
    hundreds = rf"(?:[ot]?h|H)(?:{and_}{below})?"
    group = rf"(?:{hundreds}|{below}|c)"
    return re.compile(rf"z&?o|{hundreds}|{group}?m(?:{and_}{group}?m)*(?:{and_}{group})?")


def _value(shape: str, values: list[int], joined: bool) -> int | None:
    """The number of several words; None where they are no single one."""
    if not _built(joined).fullmatch(shape) or re.search("[hH]&[^m]*m", shape):
        return None
    total = part = 0
    last = 0
    for value, kind in zip(values, shape.replace("&", ""), strict=True):
        if kind == "h":
            part = (part or 1) * 100
        elif kind != "m":
            part += value
        elif not last or value < last:
            total, part, last = total + (part or 1) * value, 0, value
        elif value > last and total < value:
            total, part, last = (total + part) * value, 0, value
        else:
            return None
    return total + part
