"""Which questions' answers a document states, of many documents and many questions, without asking each of each.

A document states the answer of a question where the answer stands in it (`demur.answers.holds`) together with a word of
the question that is not part of the answer. A word of the answer stands then in the document's letters run together, so
that only the questions with a piece of four letters in common are looked at, and the document is read for these alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from demur.answers import holds
from demur.answers.prefilter import SHORTEST, Prefilter, anchors, run_together
from demur.answers.text import words
from demur.core.records import Document, Sample


class AnswerBearing:
    """The questions, ready to be asked which of their answers a document states.

    Args:
        samples: with their answers.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = {s.id: s for s in samples}
        self._possible = {s.id: Prefilter(s.answers) for s in samples}
        self._ties = {s.id: ties(s) for s in samples}
        self._by_piece: dict[str, set[str]] = defaultdict(set)
        """Four letters -> the spellings, of words of answers, that begin with them."""
        self._by_spelling: dict[str, set[str]] = defaultdict(set)
        self._by_word: dict[str, set[str]] = defaultdict(set)
        """A word that is compared as it is (of figures, of other scripts) -> questions."""
        self._letters = {w: run_together(w) for tie in self._ties.values() for w in tie}
        self._always: set[str] = set()
        for s in samples:
            telling = anchors(s.answers)
            if telling is not None:
                for spelling in (spelling for spellings in telling for spelling in spellings):
                    self._by_piece[spelling[:SHORTEST]].add(spelling)
                    self._by_spelling[spelling].add(s.id)
            elif s.answers.kind in ("string", "choice") and s.answers.accepted:
                for form in s.answers.accepted:
                    if longest := max((w.norm for part in form for w in words(part)), key=len, default=""):
                        self._by_word[longest].add(s.id)
                        self._letters[longest] = run_together(longest)
            else:
                self._always.add(s.id)

    def of(self, document: Document) -> set[str]:
        """Ids of the questions whose answer the document states."""
        text = f"{document.title}\n{document.text or ''}"
        letters = run_together(text)
        pieces = {letters[i : i + SHORTEST] for i in range(len(letters) - SHORTEST + 1)}
        spellings = (s for piece in self._by_piece.keys() & pieces for s in self._by_piece[piece] if s in letters)
        maybe = self._always.union(*(self._by_spelling.get(s, ()) for s in spellings))
        exact = [w for w in self._by_word if self._letters[w] in letters]
        maybe = {s for s in maybe if self._tied(s, letters) and self._possible[s](text)}
        if not maybe and not any(self._tied(s, letters) for w in exact for s in self._by_word[w]):
            return set()
        here = {w.norm for w in words(text)}
        maybe |= {s for w in exact if w in here for s in self._by_word[w]}
        return {
            s for s in maybe
            if self._ties[s] & here and holds(self._samples[s].answers, text, self._samples[s].question)
        }  # fmt: skip

    def leave(self, sample: str) -> None:
        """Look for a question's answer no more."""
        self._always.discard(sample)
        for found in (self._by_spelling, self._by_word):
            for key in [key for key, samples in found.items() if sample in samples]:
                found[key].discard(sample)
                if not found[key]:
                    del found[key]

    def _tied(self, sample: str, letters: str) -> bool:
        """Whether a word of the question may stand in a text."""
        return any(self._letters[w] in letters for w in self._ties[sample])


def ties(sample: Sample) -> frozenset[str]:
    """Words of the question that tie an answer to it."""
    answer = {w.norm for form in sample.answers.accepted for part in form for w in words(part)}
    return frozenset(w.norm for w in words(sample.question) if len(w.norm) >= SHORTEST and w.norm not in answer)
