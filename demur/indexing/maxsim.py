"""Late interaction on disk: the vectors of every token of every document, and exact MaxSim scores.

    vectors.npy    (tokens, d) float32, document after document, mapped
    lengths.i32    how many of them each document has

The score of a document is the sum, over the tokens of the query, of the largest inner product with one of its tokens
(Khattab and Zaharia 2020, equation 3). As in `demur.indexing.exact` no score of a fast kernel is returned: a float32
matrix product scores all documents, those that could be among the first k given its worst rounding error are scored
again in float64 in one fixed order, and hits are ordered by (score descending, row ascending). So ids and scores do not
depend on the batch, on k, or on the machine. Memory holds `PRODUCTS` products and `SCORES` scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from demur.core.errors import DataError, IndexFileError, UsageError
from demur.core.store import storage_errors
from demur.indexing.exact import (
    Floats,
    Neighbours,
    Rows,
    norms_of,
    pad_to,
    stack_batches,
    take_best,
)
from demur.indexing.vectors import LENGTHS, mapped_vectors

PRODUCTS = 1 << 24
"""Inner products held at once, in float32."""
SCORES = 1 << 24
"""Scores of documents held at once, in float32: of one query at least."""
RESCORED = 1 << 20
"""Float64 products held at once."""
TOKENS = 1024
"""Tokens of queries that are searched at once, of one query at least."""


class MaxSim:
    """An index of documents with a vector for each token.

    Args:
        part: its entry in the index folder's manifest: ``dims``, ``count``, ``tokens``, ``largest_norm``.

    Raises:
        IndexFileError: a file is truncated or does not match the entry.
    """

    kind = "maxsim"

    def __init__(self, folder: Path, part: dict[str, Any]) -> None:
        self.folder = folder
        self.dims, self.count = int(part["dims"]), int(part["count"])
        self._largest = float(part["largest_norm"])
        self._tokens: Floats = mapped_vectors(
            folder / "vectors.npy", int(part["tokens"]), self.dims
        )
        with storage_errors(folder / LENGTHS):
            lengths = np.fromfile(folder / LENGTHS, "<i4").astype(np.int64)
        if (len(lengths), lengths.sum()) != (self.count, len(self._tokens)) or (lengths < 1).any():
            raise IndexFileError(
                f"its lengths are not those of {self.count} documents", item=folder / LENGTHS
            )
        self._starts: Rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])

    @cached_property
    def vectors(self) -> Floats:
        """(n, d) float32: the mean of each document's vectors, by which documents are compared with each other."""
        if not self.count:
            return np.empty((0, self.dims), np.float32)
        sums = np.add.reduceat(self._tokens, self._starts[:-1], axis=0)
        return np.asarray(sums / np.diff(self._starts)[:, None], np.float32)

    def search(self, queries: Sequence[Floats], k: int) -> Neighbours:
        """The first k for each query.

        Args:
            queries: Q of them, each (tokens, d) float32.
            k: at least 1; if it is more than there are documents, all come back, padded.

        Raises:
            UsageError: k is below 1, or the dimensions differ.
            DataError: a query is NaN, infinite or zero; names its place in the batch.
        """
        queries = self._check_queries(queries, k)
        parts = [Neighbours.nothing(0, k)]
        for block in self._blocks_of(queries):
            parts += [
                pad_to(self._best(query, line, k), k)
                for query, line in zip(block, self._near_scores(block), strict=True)
            ]
        return stack_batches(parts)

    def search_subset(
        self, queries: Sequence[Floats], candidates: Sequence[Rows], k: int
    ) -> Neighbours:
        """The first k for each query among its own candidate rows, exactly."""
        queries = self._check_queries(queries, k)
        parts = [Neighbours.nothing(0, k)]
        for query, rows in zip(queries, candidates, strict=True):
            parts.append(pad_to(self._ranked(query, np.unique(np.asarray(rows, np.int64)), k), k))
        return stack_batches(parts)

    def _best(self, query: Floats, near: Floats, k: int) -> Neighbours:
        """The exact first k, given float32 scores of all documents.

        A float32 sum of n products errs by at most n 2^-24 times the sum of their sizes (Higham 2002, section 3.1), here
        of d products for each token and of one number for each token. Of two scores, and as much again for the rounding
        of the exact ones, that makes four times.
        """
        if not self.count:
            return Neighbours.nothing(1, k)
        sizes = float(norms_of(query).sum()) * self._largest
        slack = 4 * (self.dims + len(query)) * 2.0**-24 * sizes
        last = max(0, self.count - k)
        bar = float(np.partition(near, last)[last]) - slack
        return self._ranked(query, np.flatnonzero(near.astype(np.float64) >= bar), k)

    def _ranked(self, query: Floats, rows: Rows, k: int) -> Neighbours:
        scores = np.array([self._score(query, row) for row in rows.tolist()], np.float32)
        return take_best(scores[None], rows[None], k)

    def _score(self, query: Floats, row: int) -> float:
        """MaxSim of a query with a document, as float64 sums in one order; see `demur.indexing.exact.rescore`."""
        tokens = self._tokens[self._starts[row] : self._starts[row + 1]].astype(np.float64)
        step = max(1, RESCORED // tokens.size)
        largest = [
            np.add.reduce(tokens * query[first : first + step, None], axis=-1).max(axis=-1)
            for first in range(0, len(query), step)
        ]
        return float(np.add.reduce(np.concatenate(largest)))

    def _near_scores(self, queries: Sequence[Floats]) -> Floats:
        """(Q, n) float32 scores of all documents, by matrix products."""
        tokens = np.concatenate(queries)
        first_tokens = np.cumsum([0, *map(len, queries[:-1])])
        scores = np.empty((len(queries), self.count), np.float32)
        for first, stop in self._runs(max(1, PRODUCTS // len(tokens))):
            starts = self._starts[first : stop + 1]
            products = np.asarray(self._tokens[starts[0] : starts[-1]]) @ tokens.T
            largest = np.maximum.reduceat(products, starts[:-1] - starts[0], axis=0)
            scores[:, first:stop] = np.add.reduceat(largest, first_tokens, axis=1).T
        return scores

    def _runs(self, most: int) -> Iterator[tuple[int, int]]:
        """Runs of documents, first to before stop, of at most that many tokens, or of one document."""
        first = 0
        while first < self.count:
            stop = int(np.searchsorted(self._starts, self._starts[first] + most, "right")) - 1
            yield first, (stop := max(first + 1, stop))
            first = stop

    def _blocks_of(self, queries: Sequence[Floats]) -> Iterator[Sequence[Floats]]:
        """Queries that are searched at once."""
        block: list[Floats] = []
        for query in queries:
            tokens = sum(map(len, block)) + len(query)
            if block and (tokens > TOKENS or (len(block) + 1) * self.count > SCORES):
                yield block
                block = []
            block.append(query)
        if block:
            yield block

    def _check_queries(self, queries: Sequence[Floats], k: int) -> list[Floats]:
        if k < 1:
            raise UsageError(
                f"must be at least 1, not {k}", item="k", cure="ask for one neighbour or more"
            )
        checked = [np.ascontiguousarray(query, np.float32) for query in queries]
        for number, query in enumerate(checked):
            if query.ndim != 2 or query.shape[1] != self.dims:
                raise UsageError(
                    f"query {number} has shape {query.shape}, the index has {self.dims} dimensions",
                    item=self.folder,
                    cure="use the encoder that made the index",
                )
            if not (np.isfinite(query).all() and query.any()):
                raise DataError(
                    "the query's vectors are NaN, infinite or zero",
                    item=f"query {number}",
                    cure="check its text or image",
                )
        return checked
