"""Propose passages that answer a question: by the question's words (BM25), and by the answer they hold.

A passage with the answer's words need not answer the question, and without an answer there are only the question's
words. So a person says yes or no to each proposal (`demur.curation.from_docs.review`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from demur.answers import holds
from demur.answers.prefilter import Prefilter
from demur.answers.spans import spans
from demur.answers.text import readable, words
from demur.core.records import AnswerSpec, Document, Hit
from demur.corpora.near_duplicates import ImageHashes
from demur.curation.from_docs.questions import Question
from demur.curation.mining.objections import Stock
from demur.indexing.bm25 import BM25, build_bm25

DEEP = 200
"""Hits of a search that are checked for the answer."""
_SHORTEST = 4
"""A passage must share a word of the question with at least so many letters."""


class Proposal(NamedTuple):
    """A passage that may answer a question."""

    document: Document
    states: bool
    """Whether it holds an accepted answer."""
    answers: tuple[str, ...] = ()
    """Where it does, as it writes them."""


class Finder:
    """Searches passages by words.

    Args:
        documents: the passages and pictures; a picture is searched by its caption.
        folder: of the index, which is built anew.
    """

    def __init__(self, documents: Sequence[Document], folder: Path) -> None:
        self.documents = {d.id: d for d in documents}
        self._rows = [d.id for d in documents]
        self.index_id = "bm25"
        shutil.rmtree(folder, ignore_errors=True)
        part = build_bm25((f"{d.title}\n{d.text or ''}" for d in documents), folder)
        self._engine = BM25(folder, part)
        self.stock = Stock(self.documents, image_hashes=ImageHashes())

    def is_picture(self, id: str) -> bool:
        """Whether a document of that id is a picture."""
        return self.documents[id].text is None

    def hits(self, query: str, k: int = DEEP) -> list[Hit]:
        """The first k passages for a text, best first."""
        ranked = self._engine.search([query], min(k, len(self._rows)))
        return [
            Hit(
                document=self._rows[row],
                score=float(score),
                rank=rank,
                index_id=self.index_id,
                mode="lexical",
            )
            for rank, (row, score) in enumerate(
                zip(ranked.rows[0], ranked.scores[0], strict=True), 1
            )
            if row >= 0
        ]

    def proposals(self, question: Question, spec: AnswerSpec, most: int = 3) -> list[Proposal]:
        """Passages that may answer it, likeliest first: those that hold the answer, or else the best by its words."""
        by_words = [self.documents[hit.document] for hit in self.hits(question.question_with_turns)]
        if not question.answers:
            return [Proposal(d, False) for d in by_words[:most]]
        with_answer = self.hits(f"{question.question_with_turns} {' '.join(question.answers)}")
        likely = {
            d.id: d for d in (*(self.documents[hit.document] for hit in with_answer), *by_words)
        }
        may, about = Prefilter(spec), _content_words(question)
        answering = []
        # what a caption says, a text says to systems without eyes too
        for document in sorted(likely.values(), key=lambda d: d.text is None):
            text = f"{document.title}\n{document.text or ''}"
            if (
                may(text)
                and about & {w.norm for w in words(text)}
                and holds(spec, text, question.text)
            ):
                answering.append(Proposal(document, True, _answers_as_written(spec, text)))
                if len(answering) == most:
                    break
        return answering or [Proposal(d, False) for d in list(likely.values())[:most]]


def _answers_as_written(spec: AnswerSpec, text: str) -> tuple[str, ...]:
    """The accepted answers in a passage, in its own words; not those that it writes in uncommon characters."""
    places = [
        text_of
        for form in spec.accepted
        for part in form
        for start, end in spans(spec, part, text, bare=False)
        if (text_of := readable(text)[start:end]) in text
    ]
    return tuple(dict.fromkeys(places))


def _content_words(question: Question) -> frozenset[str]:
    """Words of the question, without those of its answers."""
    answer_words = {w.norm for a in question.answers for w in words(a)}
    question_words = [w.norm for w in words(question.text)]
    return frozenset(
        w for w in question_words if len(w) >= _SHORTEST and w not in answer_words
    ) or frozenset(question_words)
