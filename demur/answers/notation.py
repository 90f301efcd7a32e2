"""Notation made plain: LaTeX, powers, scientific figures, factorials, digits of other scripts."""

from __future__ import annotations

import math
import re
import unicodedata

from demur.core.text import stream_safe

_COMMANDS = {
    "times": "×",
    "cdot": "×",
    "div": "÷",
    "pm": "±",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "lt": "<",
    "gt": ">",
    "ne": "≠",
    "neq": "≠",
    "approx": "≈",
    "sim": "~",
    "infty": "∞",
    "to": "→",
    "rightarrow": "→",
    "leftarrow": "←",
    "circ": "°",
    "degree": "°",
    "sqrt": "√",
    "euro": "€",
    "pounds": "£",
    "quad": " ",
    "left": "",
    "right": "",
    "displaystyle": "",
}
_WRAPPED = re.compile(
    r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|ensuremath)\s?\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dt]?frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}")
_MATHS = re.compile(  # a formula of an answer is short
    r"\\\((.{0,200}?)\\\)|\\\[(.{0,200}?)\\\]|\$\$([^$]+)\$\$|(?<!\w)\$([^$]*[\\^_=][^$]*)\$"
)
_ALONE = re.compile(r"\s*\$([^$]+)\$\s*\.?\s*")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("(?<=[\\w)])[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_TEN = re.compile(
    r"(?<![\w.,^])(?:(?P<factor>\d+(?:\.\d+)?)\s?[x×*·⋅]\s?)?10\s?(?:\^|\*\*)\s?\(?(?P<exponent>[-+\u2212]?\d{1,3})\)?(?![\w.])"
)
_E = re.compile(
    r"(?<![\w.,])(?P<factor>\d+(?:\.\d+)?)[eE](?P<exponent>[-+\u2212]?\d{1,3})(?![\w.])"
)
_POWER = re.compile(r"(?<![\w.,^)])(\d{1,6})\s?(?:\^|\*\*)\s?(\d{1,3})(?![\w.^])")
_FACTORIAL = re.compile(r"\s*(\d{1,3})!\s*")
_SHORT_SPAN = re.compile("(?<![\\d-])(1\\d|20)(\\d\\d)[-\u2013](1[3-9]|[2-9]\\d)(?![\\d-])")
"""Years of a span whose second is cut: 1648-51."""
_PARTS = {"half": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4}
_SHARE = re.compile(
    r"\s*(?:(an?|one|two|three)[ -])?(half|(?:(?<=[ -])thirds?)|(?:(?<=[ -])quarters?))[ .]*",
    re.IGNORECASE,
)


def plain_notation(text: str) -> str:
    r"""The text with figures as plain decimals, LaTeX as characters, and powers of letters with ``^``.

    >>> plain_notation(r"$6.02 \times 10^{23}$"), plain_notation("1.5e-3"), plain_notation(r"\frac{1}{2}")
    ('602000000000000000000000', '0.0015', '1/2')
    >>> plain_notation("10²"), plain_notation("x²")
    ('100', 'x^2')
    """
    text = unicodedata.normalize("NFC", stream_safe(text))
    if not text.isascii():
        text = "".join(_ascii_digit(c) for c in text)
        text = _SUPERSCRIPT.sub(lambda m: f"^{m.group().translate(_RAISED)}", text)
    if "$" in text or "\\" in text:
        text = _plain_latex(text)
    text = _TEN.sub(_write_out_scientific, _E.sub(_write_out_scientific, text))
    text = _POWER.sub(_write_out_power, text)
    if factorial := _FACTORIAL.fullmatch(text):
        text = str(math.factorial(min(int(factorial[1]), _LARGEST)))
    if share := _SHARE.fullmatch(text):
        top = {"two": 2, "three": 3}.get((share[1] or "").lower(), 1)
        text = f"{top}/{_PARTS[share[2].lower()]}"
    return _SHORT_SPAN.sub(
        lambda m: f"{m[1]}{m[2]}-{m[1]}{m[3]}" if m[2] < m[3] else m.group(), text
    )


def _ascii_digit(character: str) -> str:
    if character in "٫٬":
        return ".,"[character == "٬"]
    if character.isascii() or not character.isdecimal():
        return character
    return str(unicodedata.decimal(character))


def _plain_latex(text: str) -> str:
    text = _MATHS.sub(lambda m: next(g for g in m.groups() if g is not None), text)
    if alone := _ALONE.fullmatch(text):
        text = alone[1]
    if "\\" not in text and "^{" not in text:
        return text
    for _ in range(3):  # one in another
        text = _FRACTION.sub(r"\1/\2", _WRAPPED.sub(r"\1", text))
    text = re.sub(r"\^\s?\{?\s?\\(?:circ|degree)\s?\}?", "°", text)
    text = re.sub(
        r"\\([%$#&_{}])", r"\1", re.sub(r"\\[,;: ]|~", " ", re.sub(r"\\!|\{,\}", "", text))
    )
    text = _COMMAND.sub(_character_of_command, text)
    return re.sub(r"[{}]", "", re.sub(r"_\{([^{}]*)\}", r"\1", text))


def _character_of_command(match: re.Match[str]) -> str:
    name = match[1]
    if name in _COMMANDS:
        return _COMMANDS[name]
    size = "SMALL" if name.islower() else "CAPITAL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name.upper()}")
    except KeyError:
        return name  # \sin, \log


def _write_out_scientific(match: re.Match[str]) -> str:
    factor, exponent = match["factor"] or "1", int(match["exponent"].replace("\u2212", "-"))
    if abs(exponent) > _LARGEST:
        return match.group()
    whole, _, part = factor.partition(".")
    if exponent >= 0:
        part = part.ljust(exponent, "0")
        whole, part = whole + part[:exponent], part[exponent:]
    else:
        whole = whole.rjust(1 - exponent, "0")
        whole, part = whole[:exponent], whole[exponent:] + part
    return (whole.lstrip("0") or "0") + (f".{part}" if part else "")


_LARGEST = 200
"""Digits of a power that is written out."""


def _write_out_power(match: re.Match[str]) -> str:
    base, exponent = int(match[1]), int(match[2])
    small = len(match[1]) * exponent <= _LARGEST
    return str(base**exponent) if small else match.group()
