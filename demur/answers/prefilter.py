"""Can this text hold that answer at all? A first look, some hundred times faster than `demur.answers.holds`.

Mining asks of every passage that a search finds whether it holds the answer; nearly none does, and most can be seen not
to: the letters of one of the answer's words are nowhere in them. The look never denies what `holds` finds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from demur.answers.spans import _ROMAN, _SPELLINGS, _forms_of, _part
from demur.answers.text import _PLAIN, normalise
from demur.answers.yes_no import SIDES
from demur.core.records import AnswerSpec
from demur.core.text import stream_safe

SHORTEST = 4
"""Letters of a word that is looked for; shorter ones stand in most texts."""
_SPELT_OUT = re.compile(rf"(?:\. ?[^\W\d_]){{{SHORTEST - 1}}}")
"""Letters with points, which are read as one word: N.A.S.A. (From its first point on, which is found fast.)"""
_LETTERS = re.compile(f"[{''.join(chr(code) for code in _PLAIN)}]")
_OTHERS = frozenset({*_SPELLINGS.values(), *_ROMAN.values()})
"""What words are read as that are written otherwise."""


class Prefilter:
    """Whether a text may hold an answer.

    Args:
        spec: the answer.

    >>> may = Prefilter(AnswerSpec(accepted=(("Lake Victoria",), ("Nyanza",))))
    >>> may("It flows into LAKE VICTÓRIA."), may("A lake in Peru."), may("N.Y.A.N.Z.A.")
    (True, False, True)
    """

    def __init__(self, spec: AnswerSpec) -> None:
        self._forms = None if spec.kind in ("box", "choice") or spec.number is not None else _wanted(spec)
        """Of each accepted form the words that must stand there, each by several spellings; None for any text."""

    def __call__(self, text: str) -> bool:
        """False only where the text does not hold the answer."""
        if self._forms is None:
            return True
        letters = _letters(text)
        if any(all(any(key in letters for key in keys) for keys in form) for form in self._forms):
            return True
        return _SPELT_OUT.search(text) is not None


def _wanted(spec: AnswerSpec) -> list[list[frozenset[str]]] | None:
    forms = []
    for form in spec.accepted:
        words = [keys for part in form for keys in _words_of(part, spec.kind)]
        if not words:
            return None
        forms.append(words)
    return forms


@lru_cache(maxsize=4096)
def _words_of(part: str, kind: str) -> list[frozenset[str]]:
    if normalise(part) in SIDES:
        return []
    read = _part(part, kind)
    if read.date is not None or read.quantity is not None:
        return []
    found = []
    for word in read.words:
        # a word of a text may be read with the s of possession behind it, which is not written with it
        keys = {key.removesuffix("s") for key in _forms_of(word)} | set(_forms_of(word))
        if all(key.isascii() and key.isalpha() and key.islower() for key in keys) and not keys & _OTHERS:
            shortest = frozenset(key for key in keys if not any(other in key for other in keys if other != key))
            if min(map(len, shortest)) >= SHORTEST and word.raw not in _ROMAN:
                found.append(shortest)
    return found


def anchors(spec: AnswerSpec) -> list[frozenset[str]] | None:
    """Of each accepted form the longest word that must stand there, by its spellings; None where any text may hold one.

    One of the spellings is in `run_together` of every text that holds the form.
    """
    forms = Prefilter(spec)._forms
    return None if forms is None else [max(form, key=lambda keys: min(map(len, keys))) for form in forms]


def run_together(text: str) -> str:
    """The ASCII letters and digits of a text, without case and marks, and nothing between them.

    Whatever `demur.answers.text.words` reads as a word of such letters and digits stands in it.
    """
    return _BETWEEN.sub("", _letters(text.replace("&", "and")))


_BETWEEN = re.compile(r"[^a-z0-9]+")


def _letters(text: str) -> str:
    """The text's ASCII letters as words are compared by: without case and marks; what stands between may go too."""
    if text.isascii():
        return text.lower()
    text = stream_safe(text)
    for _ in range(2):  # what is made uniform may have a case again
        text = unicodedata.normalize("NFKD", text).casefold()
    if _LETTERS.search(text):
        text = text.translate(_PLAIN)
    return text.encode("ascii", "ignore").decode().lower()
