"""May a text state an answer in another shape than `demur.answers.holds` reads? Then it is no safe distractor.

Texts and answers are read once more with look-alike letters as Latin ones and words joined that a line's end divides.
Besides, one rule for names: the last word of the answer's name is a name in the text, and what is written beside it is of
that name too, in full or as initials, or a title. "A. Einstein", "Einstein, Albert" and "Einstein" may be Albert Einstein; Alfred
Einstein is another man.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from demur.answers.match import holds
from demur.answers.prefilter import SHORTEST, Prefilter, plain_letters
from demur.answers.spans import _OPENERS, content
from demur.answers.text import ARTICLES, Word, readable, remembered, words
from demur.core.records import AnswerSpec

_LOOKALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧανικορυχ",  # Cyrillic, Greek
    "ABESIJKMHOPCTYXaesijopcyxhdqwABEZHIKMNOPTYXavikopux",
)
"""Letters that look like a Latin one (the commonest of Unicode's confusables, UTS 39)."""
_DIVIDED = re.compile(r"[-\u2010\u00ad](?<=[^\W\d_].)[^\S\n]*\n\s*(?=[^\W\d_])")
_PARTICLES = frozenset("al bin da de del della den der di du el ibn la le van von zu".split())
"""Small words of personal names."""
_TITLES = frozenset(
    "emperor king lady lord madame pope president prince princess professor queen sir".split()
)
_BESIDE = re.compile(r"[ \n]|\.? ?-")
_AFTER_INITIALS = re.compile(r"\.?[ \n]?|\.? ?-")


def may_hold(spec: AnswerSpec, question: str) -> Callable[[str], bool]:
    r"""Whether a text that does not hold the answer may yet state it.

    Args:
        spec: the answer. Only strings have other shapes; of their forms the first names the answer.
        question: its words name what is asked about, not the answer.

    >>> may = may_hold(AnswerSpec(accepted=(("Albert Einstein",),)), "Who found it?")
    >>> [may(text) for text in ("Einstein, A.: Zur Elektrodynamik", "Alb\u0435rt Ein-\nstein", "Alfred Einstein")]
    [True, True, False]
    """
    if spec.kind not in ("string", "parts") or spec.number is not None or not spec.accepted:
        return lambda text: False
    plain_forms = tuple(tuple(_plain(part) for part in form) for form in spec.accepted)
    plain_spec = spec.model_copy(update={"accepted": plain_forms})
    has_letters = cache(lambda: Prefilter(plain_spec))  # most texts read the same
    name = _Name(plain_forms[0][0] if len(plain_forms[0]) == 1 else "", question)

    def may(text: str) -> bool:
        plain = _plain(text)
        reads_otherwise = plain != text or plain_forms != spec.accepted
        if reads_otherwise and has_letters()(plain) and holds(plain_spec, plain, question):
            return True
        return name.stands_in(plain)

    return may


@remembered
def _plain(text: str) -> str:
    """The text without words divided at a line's end, and with Latin letters for those that look like them."""
    joined = _DIVIDED.sub("", text)
    return joined if joined.isascii() else joined.translate(_LOOKALIKES)


class _Name:
    """The words of a name, and its last, which often stands for all."""

    def __init__(self, form: str, question: str) -> None:
        name_words = [word for word in content(form) if word.norm not in _PARTICLES]
        self._norms = {word.norm for word in name_words} | _PARTICLES | _TITLES
        self._shortened = {
            letter for word in name_words if _is_initials(word) for letter in word.norm
        }
        self._initials = {word.norm[:1] for word in name_words} | self._shortened
        self.last = name_words[-1].norm if name_words else ""
        self._letters = plain_letters(self.last)
        self.has_parts = (
            len(name_words) > 1
            and all(word.raw[:1].isupper() for word in name_words)
            and len(self.last) >= SHORTEST
            and self.last not in {word.norm for word in words(question)}
        )

    def stands_in(self, text: str) -> bool:
        """Whether the last word of the name is a name in the text, with nothing of another name beside it."""
        if not self.has_parts or self._letters not in plain_letters(text):
            return False
        return any(
            self.last in {word.norm for word in run} and all(map(self._agrees, run))
            for run in _names(text)
        )

    def _agrees(self, word: Word) -> bool:
        if _is_initials(word):
            return self._initials.issuperset(word.norm)
        return word.norm in self._norms or word.norm[:1] in self._shortened


def _is_initials(word: Word) -> bool:
    return word.raw.isupper() and len(word.norm) < SHORTEST


@remembered
def _names(text: str) -> tuple[tuple[Word, ...], ...]:
    """The runs of capitalised words of a text, without words that often begin a sentence; "of" goes on with a run."""
    plain = readable(text)
    runs: list[list[Word]] = [[]]
    for word in words(text):
        run = runs[-1]
        if run and not _beside(plain, run[-1], word):
            run = []
            runs.append(run)
        is_name = word.raw[:1].isupper() and word.norm not in _OPENERS | ARTICLES
        if is_name or (run and word.norm in _PARTICLES | {"of"}):
            run.append(word)
        elif run:
            runs.append([])
    return tuple(tuple(run[:-1] if run and run[-1].norm == "of" else run) for run in runs)


def _beside(plain: str, word: Word, other: Word) -> bool:
    """Whether nothing but a blank or a hyphen is between two words; after initials also a point."""
    joins = _AFTER_INITIALS if _is_initials(word) else _BESIDE
    return joins.fullmatch(plain[word.end : other.start]) is not None
