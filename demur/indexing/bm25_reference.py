"""BM25 by rank-bm25 itself, for small corpora: the engine whose scores papers report.

`demur.indexing.bm25` has the same scores in its ``okapi`` method, hundreds of times faster and with a memory that does
not grow with the texts. This engine is for those who want the very package: it holds every word of every passage in
memory, and goes through all of them for every query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import IndexFileError, UsageError
from demur.core.store import storage_errors
from demur.core.strict_json import loose_json
from demur.indexing.exact import Found
from demur.indexing.lexical import first_among, words

MOST = 200_000
"""Passages beyond which a query takes the better part of a second, and memory runs to gigabytes."""
FILE = "words.jsonl"


def build_rank_bm25(texts: Iterable[str], folder: Path, *, k1: float = 1.5, b: float = 0.75) -> dict[str, Any]:
    """Write the words of every passage, one JSON list a line; returns the entry for the manifest.

    Raises:
        UsageError: there are more passages than `MOST`.
        StorageError: the disk is full or cannot be written.
    """
    count = postings = 0
    vocabulary: set[str] = set()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / FILE).open("w", encoding="utf-8") as handle:
            for text in texts:
                found = words(text)
                handle.write(json.dumps(found, ensure_ascii=False) + "\n")
                own = set(found)
                vocabulary |= own
                postings += len(own)
                count += 1
                if count > MOST:
                    raise UsageError(
                        f"rank-bm25 is for corpora of up to {MOST:,} passages",
                        cure="--lexical okapi has its scores at any size",
                    )
    return {
        "kind": "bm25", "method": "rank-bm25", "k1": k1, "b": b, "count": count, "words": len(vocabulary),
        "postings": postings,
    }  # fmt: skip


class RankBM25:
    """The words of an index folder, opened by ``rank_bm25.BM25Okapi``; answers as `demur.indexing.bm25.BM25` does.

    Raises:
        IndexFileError: the file is missing, cut short or not of this index.
    """

    def __init__(self, folder: Path, part: dict[str, Any]) -> None:
        from rank_bm25 import BM25Okapi

        path = folder / FILE
        self.count = int(part["count"])
        with storage_errors(path), path.open(encoding="utf-8") as handle:
            try:
                passages = [loose_json(line) for line in handle]
            except ValueError as error:
                raise IndexFileError(f"not lists of words: {error}", item=path) from error
        if len(passages) != self.count:
            raise IndexFileError(f"expected {self.count} passages, found {len(passages)}", item=path)
        self._engine = BM25Okapi(passages, k1=part["k1"], b=part["b"]) if any(passages) else None

    def scores(self, text: str) -> NDArray[np.float64]:
        """(n,) scores of all passages for one query; a word of more than half of them may score below 0."""
        if self._engine is None:
            return np.zeros(self.count)
        return np.asarray(self._engine.get_scores(words(text)))

    def search(self, texts: Sequence[str], k: int) -> Found:
        """The first k passages that score above 0; places past them hold row -1 and score -inf.

        Raises:
            UsageError: k is below 1.
        """
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}", cure="ask for one neighbour or more")
        every = np.arange(self.count, dtype=np.int64)
        return self.search_subset(texts, [every] * len(texts), k)

    def search_subset(self, texts: Sequence[str], candidates: Sequence[NDArray[np.int64]], k: int) -> Found:
        """The first k for each query among its own candidate rows; those that share no word with it stay out."""
        return first_among(self.scores, texts, candidates, k)
