"""Texts that are formulas or mere symbols: their operators, brackets and order count, which words leave out."""

from __future__ import annotations

import re
import unicodedata

from demur.answers.notation import plain_notation
from demur.answers.text import readable

_SAME = str.maketrans(
    {
        "×": "*",
        "·": "*",
        "⋅": "*",
        "÷": "/",
        ":": "/",
        "≤": "≤",
        "−": "-",
        "–": "-",
        "[": "(",
        "]": ")",
    }
)
_WRITTEN = (
    ("<=", "≤"),
    (">=", "≥"),
    ("=<", "≤"),
    ("=>", "≥"),
    ("!=", "≠"),
    ("->", "→"),
    ("**", "^"),
    ("+-", "±"),
)
_NAMES = "log ln lg exp sin cos tan cot sec csc arcsin arccos arctan sqrt mod max min lim det gcd lcm pi".split()
_PIECE = re.compile(
    rf"(?:{'|'.join(_NAMES)})(?![^\W\d_])|[A-Za-z\u0391-\u03c9](?![^\W\d_])|\d+(?:\.\d+)?|[^\w\s]",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"[-+*/:^=<>≤≥≠±√∞→←∘∫∑∏!|(,]|(?i:log|ln|sin|cos|tan|exp|mod|sqrt)")
LONGEST = 80
"""Characters of the longest text that is read as a formula."""


def formula(text: str) -> str:
    """A formula in one way of writing it; "" for a text with words, or without any operator.

    >>> formula("f(x) = x + 1"), formula("x²"), formula("O(n log n)"), formula("(2,1)"), formula("Paris"), formula("B")
    ('1+x', 'x^2', 'nlogn', '2,1', '', '')
    """
    pieces = _pieces(text)
    if not any(_OPERATOR.fullmatch(piece) for piece in pieces):
        return ""
    text = _joined(pieces)
    text = re.sub(r"^(?:[a-z]\([a-z]\)|[a-z])=(?=.)", "", text)  # y =, f(x) =
    text = re.sub(r"^o\((.*)\)$", r"\1", text)
    while re.fullmatch(r"\([^()]*\)", text):
        text = text[1:-1]
    if re.fullmatch(r"[^-(),=<>≤≥≠±→]+(?:[-+][^-+(),=<>≤≥≠±→]+)+", text):
        terms = sorted(re.findall(r"[-+]?[^-+]+", text if text[0] in "+-" else f"+{text}"))
        text = "".join(terms).removeprefix("+")
    return text


def bare(text: str) -> str:
    """A text of the pieces that a formula is of, an operator or not: "x", "42", "x + 1"; else ""."""
    return formula(text) or _joined(_pieces(text))


def _pieces(text: str) -> list[str]:
    if not text or len(text) > LONGEST:
        return []
    text = readable(plain_notation(text)).strip(" .")
    for spelling, sign in _WRITTEN:
        text = text.replace(spelling, sign)
    pieces = _PIECE.findall(text)
    return pieces if "".join(pieces) == "".join(text.split()) else []


def _joined(pieces: list[str]) -> str:
    return "".join(pieces).translate(_SAME).casefold()


def symbols(text: str) -> str:
    """The text, where it is nothing but signs: "+", "€", "★"; "" for one with letters or digits.

    >>> symbols(" ★ "), symbols("C#")
    ('★', '')
    """
    text = unicodedata.normalize("NFC", "".join(text.split())).replace("\ufe0f", "")
    return "" if any(c.isalnum() for c in text) else text


_RARE = frozenset("#%&@\u2020\u2021\u00a7\u00b6")
"""Punctuation that no sentence needs."""


def signs_in(text: str) -> list[str]:
    """The signs that a text shows: those that no sentence needs, and what stands in brackets, quotes or behind a colon."""
    special = [c for c in text if c in _RARE or (unicodedata.category(c)[0] == "S" and c != "`")]
    set_apart = re.findall(
        r"[(\"'\u201c\u2018`]([^\w\s])[)\"'\u201d\u2019`]|: ?([^\w\s])\.?$", text
    )
    return list(dict.fromkeys([*special, *(a or b for a, b in set_apart)]))
