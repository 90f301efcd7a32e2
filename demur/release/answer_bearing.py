"""Which documents are answer-bearing for which questions, without comparing every document with every question.

A document bears the answer of a question if it holds the answer (`demur.answers.holds`) and a word of the question that
is not part of the answer. An index of four-letter pieces of the answers finds the candidate questions of a document;
the document is read only for these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from demur.answers import holds
from demur.answers.prefilter import SHORTEST, Prefilter, anchors, run_together
from demur.answers.text import words
from demur.core.records import Document, Sample


class AnswerBearing:
    """An index of questions by their answers."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = {s.id: s for s in samples}
        self._possible = {s.id: Prefilter(s.answers) for s in samples}
        self._context = {s.id: context_words(s) for s in samples}
        self._by_piece: dict[str, set[str]] = defaultdict(set)
        """Four letters -> spellings of answer words that begin with them."""
        self._by_spelling: dict[str, set[str]] = defaultdict(set)
        self._by_word: dict[str, set[str]] = defaultdict(set)
        """A word compared exactly (digits, other scripts) -> questions."""
        self._letters = {
            w: run_together(w) for answer_words in self._context.values() for w in answer_words
        }
        self._always: set[str] = set()
        for s in samples:
            telling = anchors(s.answers)
            if telling is not None:
                for spelling in (spelling for spellings in telling for spelling in spellings):
                    self._by_piece[spelling[:SHORTEST]].add(spelling)
                    self._by_spelling[spelling].add(s.id)
            elif s.answers.kind in ("string", "choice") and s.answers.accepted:
                for form in s.answers.accepted:
                    if longest := max(
                        (w.norm for part in form for w in words(part)), key=len, default=""
                    ):
                        self._by_word[longest].add(s.id)
                        self._letters[longest] = run_together(longest)
            else:
                self._always.add(s.id)

    def find_samples(self, document: Document) -> set[str]:
        """Ids of the questions whose answer the document bears."""
        text = f"{document.title}\n{document.text or ''}"
        letters = run_together(text)
        pieces = {letters[i : i + SHORTEST] for i in range(len(letters) - SHORTEST + 1)}
        spellings = (
            s
            for piece in self._by_piece.keys() & pieces
            for s in self._by_piece[piece]
            if s in letters
        )
        maybe = self._always.union(*(self._by_spelling.get(s, ()) for s in spellings))
        exact = [w for w in self._by_word if self._letters[w] in letters]
        maybe = {s for s in maybe if self._may_have_context(s, letters) and self._possible[s](text)}
        if not maybe and not any(
            self._may_have_context(s, letters) for w in exact for s in self._by_word[w]
        ):
            return set()
        document_words = {w.norm for w in words(text)}
        maybe |= {s for w in exact if w in document_words for s in self._by_word[w]}
        return {
            s
            for s in maybe
            if self._context[s] & document_words
            and holds(self._samples[s].answers, text, self._samples[s].question)
        }

    def drop(self, sample: str) -> None:
        """Remove a question."""
        self._always.discard(sample)
        for questions_of in (self._by_spelling, self._by_word):
            for key in [key for key, samples in questions_of.items() if sample in samples]:
                questions_of[key].discard(sample)
                if not questions_of[key]:
                    del questions_of[key]

    def _may_have_context(self, sample: str, letters: str) -> bool:
        """Whether a text may hold a word of the question."""
        return any(self._letters[w] in letters for w in self._context[sample])


def context_words(sample: Sample) -> frozenset[str]:
    """Words of the question that are not part of its answer."""
    answer = {w.norm for form in sample.answers.accepted for part in form for w in words(part)}
    return frozenset(
        w.norm for w in words(sample.question) if len(w.norm) >= SHORTEST and w.norm not in answer
    )
