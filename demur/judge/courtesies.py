"""The courtesies that follow a reply, such as "Is there anything else I can help you with?".

They say nothing about whether a reply answers or declines, and chat models close both with them. They are taken off
before a reply is read (`demur.judge.deflection`), since their words ("questions", "help", "more") are those of
declining. The patterns of eighteen languages are in ``courtesies.txt``; `tests/judge/test_around_replies.py` scores them.
What stands before a reply ("Great question!") is left to `demur.judge.wording`: patterns for it changed nothing.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from demur.judge.wording import bare, fold, plain

_SENTENCE = re.compile(r"(?<=[.!?\u061f])[\"')\u00bb*]*\s+|(?<=[\u3002\uff01\uff1f\u0964])|\n")
_LONGEST = 240
"""Characters of a courtesy at most; untrusted text must not cost more than a little."""
_MOST = 3
"""Courtesies after a reply that are taken off at most."""
_AROUND = " \t.,;:!*_\"'()[]\u00a1\u00bf\u00ab\u00bb\u201c\u201d\u3002\u3001\u0964-\u2013\u2014"


def without_courtesies(text: str) -> str:
    """A reply without the courtesies after it; all of it where it is nothing else.

    >>> without_courtesies("It opened in 1901. Is there anything else I can help you with?")
    'It opened in 1901.'
    >>> without_courtesies("How can I help you?")
    'How can I help you?'
    """
    starts = [0, *(sentence_end.end() for sentence_end in _SENTENCE.finditer(text))]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    parts_before = len(parts)
    for place in range(
        len(parts) - 1, max(0, len(parts) - 1 - 2 * _MOST), -1
    ):  # empty lines count as parts
        if _is_courtesy(parts[place]):
            parts_before = place
        elif _says_something(parts[place]):
            break
    parts_kept = parts[:parts_before]
    return (
        "".join(parts_kept).strip()
        if parts_before < len(parts) and any(map(_says_something, parts_kept))
        else text
    )


def _says_something(sentence: str) -> bool:
    return bool(bare(fold(sentence[:_LONGEST])))


def _is_courtesy(sentence: str) -> bool:
    if len(sentence) > _LONGEST or any(c.isdigit() for c in sentence):
        return False
    return bool(_pattern().fullmatch(fold(sentence).replace("\u2019", "'").strip(_AROUND)))


@cache
def _pattern() -> re.Pattern[str]:
    lines = files(__package__).joinpath("courtesies.txt").read_text(encoding="utf-8").splitlines()
    return re.compile(
        "|".join(f"(?:{plain(line)})" for line in lines if line and line[0] not in "#[")
    )
