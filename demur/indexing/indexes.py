"""Dense indexes on disk: exact and approximate nearest neighbours.

    flat      the mapped vectors themselves; exact
    ivf-...   inverted lists, see `demur.indexing.ivf`

All but flat search the ``nprobe`` lists whose centroids are nearest (found exactly), or more of them where these hold
less than k vectors, and propose ``refine`` times k candidates, which are scored again from the mapped vectors: every
kind answers in the order of `demur.indexing.exact`. Their files are mapped too (``IO_FLAG_MMAP_IFC``, the flag that
really maps). Where there is a GPU, faiss-gpu proposes for flat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.errors import DataError, IndexFileError, UsageError
from demur.indexing.choose import PRODUCT
from demur.indexing.exact import (
    MARGIN,
    Floats,
    Found,
    Nearest,
    Rows,
    best,
    exact_set,
    exact_top,
    first_of,
    nearest_one,
    norms_of,
    padded,
    rescore,
    settled,
    slack_of,
)
from demur.indexing.ivf import Tuned, least_mean, list_rows, lists_enough, offer_lists, read_faiss
from demur.store import storage_errors

SHARED = 8
"""Queries for each list from which a matrix product over the list beats scanning it query by query (see `choose`)."""
FEW = 12
"""Queries below which a line of Python costs as much as what it could save."""
TOGETHER = 1 << 15
"""Queries searched list by list at once."""


class Dense:
    """An index of vectors on disk: ``vectors.npy`` (n, d) float32 and, for all kinds but flat, ``index.faiss``.

    Args:
        folder: where the files are.
        part: its entry in the index folder's manifest: ``kind``, ``dims``, ``count``, ``largest_norm``.

    Raises:
        IndexFileError: a file is cut short or does not fit the entry.
    """

    def __init__(self, folder: Path, part: dict[str, Any]) -> None:
        self.folder = folder
        self.kind: str = part["kind"]
        self.dims: int = part["dims"]
        self.count: int = part["count"]
        self._largest = float(part["largest_norm"])
        path = folder / "vectors.npy"
        with storage_errors(path):
            try:
                empty = not self.count  # nothing cannot be mapped
                self.vectors: Floats = np.load(path, mmap_mode=None if empty else "r")
            except ValueError as error:
                raise IndexFileError(
                    f"the vectors cannot be mapped: {error}", item=str(path), cure="build the index again"
                ) from error
        if self.vectors.shape != (self.count, self.dims) or self.vectors.dtype != np.float32:
            raise IndexFileError(
                f"expected {self.count}x{self.dims} float32, found {self.vectors.shape} {self.vectors.dtype}",
                item=str(path),
                cure="build the index again",
            )

        self._lists: Any = None
        if self.kind != "flat":
            self.nprobe, self.refine = int(part["nprobe"]), int(part["refine"])
            self._open_lists(folder / "index.faiss")

    def _open_lists(self, path: Path) -> None:
        import faiss

        self._lists = read_faiss(path)
        if self._lists.d != self.dims or self._lists.ntotal != self.count:
            raise IndexFileError(
                f"expected {self.count} vectors of {self.dims}, found {self._lists.ntotal} of {self._lists.d}",
                item=str(path),
                cure="build the index again",
            )
        coarse = faiss.downcast_index(self._lists.quantizer)
        self._centroids: Floats = coarse.reconstruct_n(0, coarse.ntotal)
        self._coarse_norm = float(np.sqrt(np.square(self._centroids, dtype=np.float64).sum(axis=1)).max())

    @classmethod
    def open(cls, folder: Path, part: dict[str, Any]) -> Dense:
        """The door that `demur.plugins` finds."""
        return cls(folder, part)

    def search(self, queries: Floats, k: int) -> Found:
        """The first k for each query.

        Args:
            queries: (Q, d) float32.
            k: at least 1; more than there are vectors gives them all, padded.

        Raises:
            UsageError: k is below 1, or the dimensions differ.
            DataError: a query is NaN, infinite or zero; names its place in the batch.
        """
        queries, norms = self._checked(queries, k)
        if self._lists is None or not len(queries):
            return padded(exact_top(queries, self.vectors, k, largest_norm=self._largest), k)
        return padded(self._enough(queries, norms, k), k)

    def _enough(self, queries: Floats, norms: NDArray[np.float64], k: int) -> Found:
        """The first k in the nearest lists of each query: `nprobe`, and twice as many for whom they hold too few."""
        k, probes = min(k, self.count), self.nprobe
        found = padded(self._found(queries, norms, k, probes), k)
        short = np.flatnonzero(found.rows[:, -1] < 0)
        while len(short) and probes < self._lists.nlist:
            probes = min(2 * probes, self._lists.nlist)
            more = padded(self._found(queries[short], norms[short], k, probes), k)
            found.scores[short], found.rows[short] = more
            short = short[more.rows[:, -1] < 0]
        if len(short):  # fast scan leaves out what has the lowest score that its codes can tell
            found.scores[short], found.rows[short] = exact_top(
                queries[short], self.vectors, k, largest_norm=self._largest
            )
        return found

    def _found(self, queries: Floats, norms: NDArray[np.float64], k: int, probes: int) -> Found:
        """The first k of the vectors in that many lists of each query, as far as codes let them be found."""
        slack, k = slack_of(norms, self.dims, self._largest), min(k, self.count)
        if len(queries) < FEW and self.kind == "ivf-flat":  # what is in the lists is scored, not how near they are
            near = slack_of(norms, self.dims, self._coarse_norm)
            return self._within(queries, exact_set(queries, self._centroids, probes, near), k, slack)
        coarse = exact_top(queries, self._centroids, probes, largest_norm=self._coarse_norm)
        if len(queries) < FEW:
            return self._within(queries, coarse, k, slack)
        order = np.argsort(coarse.rows[:, 0], kind="stable")  # those that share lists find them in the cache
        back = np.argsort(order)
        found = self._within(queries[order], Found(coarse.scores[order], coarse.rows[order]), k, slack[order])
        return Found(found.scores[back], found.rows[back])

    def _within(self, queries: Floats, coarse: Found, k: int, slack: Floats) -> Found:
        """The first k of the vectors in those lists of each query."""
        if self.kind != "ivf-flat":
            take = min(self.count, max(k * self.refine, k + MARGIN))
            return first_of(queries, self.vectors, self._scan(queries, coarse, take).rows, k, slack)
        if coarse.rows.size >= SHARED * self._lists.nlist:
            return self._in_whole_lists(queries, k, coarse, slack)

        def propose(some: Floats, places: Rows, take: int) -> Found:
            here = coarse if len(places) == len(queries) else Found(coarse.scores[places], coarse.rows[places])
            return self._scan(some, here, take)

        return settled(queries, self.vectors, k, slack, propose)

    def _scan(self, queries: Floats, coarse: Found, take: int) -> Found:
        """What faiss finds in the lists of each query, one query after the other."""
        import faiss

        found = Found(np.empty((len(queries), take), np.float32), np.empty((len(queries), take), np.int64))
        self._lists.nprobe = coarse.rows.shape[1]
        self._lists.search_preassigned_c(
            len(queries), faiss.swig_ptr(queries), take, faiss.swig_ptr(coarse.rows), faiss.swig_ptr(coarse.scores),
            faiss.swig_ptr(found.scores), faiss.swig_ptr(found.rows), False,
        )  # fmt: skip
        return found

    def _in_whole_lists(self, queries: Floats, k: int, coarse: Found, slack: Floats) -> Found:
        """The exact first k of the vectors in the lists of each query, by matrix products list by list."""
        found = Found(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
        for start in range(0, len(queries), TOGETHER):
            mine = slice(start, start + TOGETHER)
            nearest = Nearest(queries[mine], k, slack[mine])
            offer_lists(self._lists, queries[mine], coarse.rows[mine], nearest)
            found.scores[mine], found.rows[mine] = nearest.settled(self.vectors)
            for line in (start + np.flatnonzero(nearest.crowded)).tolist():
                rows = np.concatenate([list_rows(self._lists, number) for number in coarse.rows[line].tolist()])[None]
                one = slice(line, line + 1)
                found.scores[one], found.rows[one] = padded(best(rescore(queries[one], self.vectors, rows), rows, k), k)
        return found

    def probes_for(self, blocks: Iterable[Floats], k: int, *, recall: float = 0.99, asked: float = inf) -> Tuned:
        """How many lists must be searched to find that share of the exact first k of the questions to come.

        Set `nprobe` to it. The lists of the true neighbours are looked up: nothing is searched by trial, but for what
        kinds with codes lose. Another block is measured while its exact search costs less than what it may save.

        Args:
            blocks: (Q, d) float32 each, some hundred of the questions that will be asked; more blocks narrow the
                interval. With less than 300 questions of many no recall of 0.99 can be proven: all lists are searched.
            k: neighbours that count.
            recall: share of them, in (0, 1], that the lower end of the interval must reach. Codes may lose more than
                that: the `Tuned` says so.
            asked: questions that will be asked in all, these among them.

        Returns:
            1 list of 1 for a flat index, which has none, and where no question is given.
        """
        queries: Floats = np.empty((0, self.dims), np.float32)
        right = needed = np.empty((0, min(k, self.count)), np.int64)
        tuned = Tuned(1, 1.0, 1.0, 0)
        for more in blocks if self._lists is not None else ():
            block, _ = self._checked(more, k)
            found = exact_top(block, self.vectors, k, largest_norm=self._largest).rows
            queries, right = np.concatenate([queries, block]), np.concatenate([right, found])
            needed = np.concatenate([needed, self._lists_to(block, found)])
            tuned = lists_enough(needed, recall, self._lists.nlist, asked)
            saved = tuned.probes - lists_enough(needed, recall, self._lists.nlist, asked=len(needed)).probes
            if len(block) * self._lists.nlist > PRODUCT * saved * (asked - len(queries)):
                break
        while self.kind != "ivf-flat" and len(queries):
            rows = self._found(queries, norms_of(queries), k, tuned.probes).rows
            held = np.array([np.isin(a, b).mean() for a, b in zip(right, rows, strict=True)])
            tuned = tuned._replace(recall=float(held.mean()), least=least_mean(held, asked))
            if tuned.least >= recall or tuned.probes >= needed.max():
                break
            tuned = tuned._replace(probes=min(2 * tuned.probes, int(needed.max())))
        return tuned

    def _lists_to(self, queries: Floats, found: Rows) -> Rows:
        """(Q, k) how many lists of each query must be searched to come upon each row found for it."""
        rows, inverse = np.unique(found, return_inverse=True)
        lists = nearest_one(self.vectors[rows], self._centroids, largest_norm=self._coarse_norm)
        # float64 products, rounded, are the exact scores but for a bit in a million; equal ones count as before
        scores = (queries.astype(np.float64) @ self._centroids.T.astype(np.float64)).astype(np.float32)
        own = np.take_along_axis(scores, lists[inverse.reshape(found.shape)], axis=1)
        scores.sort(axis=1)
        return np.stack([len(line) - np.searchsorted(line, mine) for line, mine in zip(scores, own, strict=True)])

    def among(self, queries: Floats, candidates: Sequence[Rows], k: int) -> Found:
        """The first k for each query among its own candidate rows, exactly.

        Args:
            queries: (Q, d) float32.
            candidates: one int64 array of rows for each query.
            k: at least 1.
        """
        queries, norms = self._checked(queries, k)
        slack = slack_of(norms, self.dims, self._largest)
        found = Found(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64))
        for place, rows in enumerate(candidates):
            unique = np.unique(np.asarray(rows, dtype=np.int64))[None]
            one = slice(place, place + 1)
            first = first_of(queries[one], self.vectors, unique, k, slack[one])
            found.scores[place, : first.rows.shape[1]] = first.scores[0]
            found.rows[place, : first.rows.shape[1]] = first.rows[0]
        return found

    def _checked(self, queries: Floats, k: int) -> tuple[Floats, NDArray[np.float64]]:
        """The queries as they can be searched, and their norms."""
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}", cure="ask for one neighbour or more")
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dims:
            raise UsageError(
                f"the queries have shape {queries.shape}, the index has {self.dims} dimensions",
                item=str(self.folder),
                cure="use the encoder that made the index",
            )
        norms = norms_of(queries)
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        if len(bad):
            raise DataError(
                "the query vector is NaN, infinite or zero", item=f"query {bad[0]}", cure="check its text or image"
            )
        return queries, norms
