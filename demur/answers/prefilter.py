"""A test before `demur.answers.holds`, about a hundred times faster: can this text hold that answer at all?

Mining checks every passage that a search finds for the answer. Most passages lack the letters of one of the answer's
words, which is quick to see. The prefilter never rejects a text that `holds` accepts.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from demur.answers.spans import _ROMAN, _SPELLINGS, _compiled_part, _matching_keys
from demur.answers.text import _PLAIN, normalise
from demur.answers.yes_no import SIDES
from demur.core.records import AnswerSpec
from demur.core.text import stream_safe

SHORTEST = 4
"""Letters of the shortest words that are searched for; most texts have shorter ones."""
_SPELT_OUT = re.compile(rf"\. ?[^\W\d_](?:\. ?[^\W\d_]){{{SHORTEST - 2}}}")
"""Letters with points that are read as one word: N.A.S.A. It begins at the first point, which is found fast."""
_LETTERS = re.compile(f"[{''.join(chr(code) for code in _PLAIN)}]")
_OTHERS = frozenset({*_SPELLINGS.values(), *_ROMAN.values()})
"""Keys of words that are spelt in another way."""


class Prefilter:
    """Whether a text may hold an answer.

    Args:
        spec: the answer.

    >>> may = Prefilter(AnswerSpec(accepted=(("Lake Victoria",), ("Nyanza",))))
    >>> may("It flows into LAKE VICTÓRIA."), may("A lake in Peru."), may("N.Y.A.N.Z.A.")
    (True, False, True)
    """

    def __init__(self, spec: AnswerSpec) -> None:
        self._forms = (
            None
            if spec.kind in ("box", "choice") or spec.number is not None
            else _required_words_of_forms(spec)
        )
        """For each accepted form the required words, each in several spellings; None accepts any text."""

    def __call__(self, text: str) -> bool:
        """False only if the text does not hold the answer."""
        if self._forms is None:
            return True
        letters = plain_letters(text)
        if any(all(any(key in letters for key in keys) for keys in form) for form in self._forms):
            return True
        return _SPELT_OUT.search(text) is not None


def _required_words_of_forms(spec: AnswerSpec) -> list[list[frozenset[str]]] | None:
    forms = []
    for form in spec.accepted:
        words = [keys for part in form for keys in _required_words(part, spec.kind)]
        if not words:
            return None
        forms.append(words)
    return forms


@lru_cache(maxsize=4096)
def _required_words(part: str, kind: str) -> list[frozenset[str]]:
    if normalise(part) in SIDES:
        return []
    compiled = _compiled_part(part, kind)
    if compiled.date is not None or compiled.quantity is not None:
        return []
    required_words = []
    for word in compiled.words:
        # the possessive s counts as part of a word, although an apostrophe stands between
        keys = {key.removesuffix("s") for key in _matching_keys(word)} | set(_matching_keys(word))
        if (
            all(key.isascii() and key.isalpha() and key.islower() for key in keys)
            and not keys & _OTHERS
        ):
            shortest = frozenset(
                key for key in keys if not any(other in key for other in keys if other != key)
            )
            if min(map(len, shortest)) >= SHORTEST and word.raw not in _ROMAN:
                required_words.append(shortest)
    return required_words


def anchors(spec: AnswerSpec) -> list[frozenset[str]] | None:
    """The longest required word of each accepted form, in its spellings; None if any text may hold the answer.

    Every text that holds the form has one of the spellings in its `run_together`.
    """
    forms = Prefilter(spec)._forms
    return (
        None
        if forms is None
        else [max(form, key=lambda keys: min(map(len, keys))) for form in forms]
    )


def run_together(text: str) -> str:
    """The ASCII letters and digits of a text, without case and accents, with nothing between them.

    It contains every word that `demur.answers.text.words` finds and that consists of such characters.
    """
    return _BETWEEN.sub("", plain_letters(text.replace("&", "and")))


_BETWEEN = re.compile(r"[^a-z0-9]+")


def plain_letters(text: str) -> str:
    """The text's ASCII characters, without case and accents."""
    if text.isascii():
        return text.lower()
    text = stream_safe(text)
    for _ in range(2):  # normalisation can bring capitals back
        text = unicodedata.normalize("NFKD", text).casefold()
    if _LETTERS.search(text):
        text = text.translate(_PLAIN)
    return text.encode("ascii", "ignore").decode().lower()
