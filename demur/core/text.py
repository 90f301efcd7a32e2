"""Sanitise untrusted text: for one line of a terminal or page, and for normalisation."""

from __future__ import annotations

import re
import shlex
import unicodedata


def plain(text: str) -> str:
    r"""Untrusted text on one line, without control, format or bidirectional-override characters.

    >>> plain("a\x1b[31mb\nc\u202e")
    'a[31mb c'
    """
    spaced = " ".join(
        text.split()
    )  # first, as a line feed is a control character and separates words
    return " ".join(
        "".join(
            c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co")
        ).split()
    )


def brief(value: object, longest: int = 60) -> str:
    """A value as text on one line of at most that many characters."""
    text = plain(str(value))
    return text if len(text) <= longest else text[: longest - 1] + "\u2026"


def command(*words: object, program: str = "demur") -> str:
    """A command line for the reader to paste; each word is quoted for a shell where it needs it.

    >>> command("report", "my runs/a", "-o", "report.html")
    "demur report 'my runs/a' -o report.html"
    """
    return shlex.join([program, *map(str, words)])


def file_name(text: str, otherwise: str) -> str:
    """A text as the name of a file or folder: letters, digits, dots, dashes, underscores; never one that leads elsewhere.

    >>> file_name("Qwen 2.5 (7B)", "model"), file_name("..", "model")
    ('Qwen-2.5-7B', 'model')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or otherwise


def whole_number(text: str) -> int | None:
    r"""The number of one to nine ASCII digits; None for anything else.

    `str.isdigit` is true for digits that `int` cannot read (``\u00b2``), and for thousands of digits, which it refuses.

    >>> whole_number("012"), whole_number("-1"), whole_number("\u00b2"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def stream_safe(text: str) -> str:
    """Keep at most thirty combining marks in a row (Unicode, UAX 15, section 13): normalising takes quadratic time.

    >>> len(stream_safe("e" + 1000 * "\u0301\u0327"))
    31
    """
    return text if text.isascii() else _MANY_MARKS.sub(_at_most_thirty_marks, text)


_MANY_MARKS = re.compile(r"[^\w\s\x00-\x7f]{31,}+")  # marks are among these


def _at_most_thirty_marks(marks: re.Match[str]) -> str:
    characters_kept, marks_in_a_row = [], 0
    for character in marks.group():
        marks_in_a_row = marks_in_a_row + 1 if unicodedata.combining(character) else 0
        if marks_in_a_row <= 30:
            characters_kept.append(character)
    return "".join(characters_kept)


def duration(seconds: float) -> str:
    """A time in s, min or h.

    >>> [duration(s) for s in (59, 3600, 36000)]
    ['59 s', '60 min', '10.0 h']
    """
    minutes = round(seconds / 60)
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{minutes} min"
        if minutes < 120
        else f"{minutes / 60:.1f} h"
    )
