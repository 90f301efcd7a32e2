"""Dense indexes on disk: exact and approximate nearest neighbours.

    flat      the mapped vectors themselves; exact
    ivf-...   inverted lists, see `demur.indexing.ivf`

All but flat search the ``nprobe`` lists whose centroids are nearest (found exactly) and propose ``refine`` times k
candidates, which are scored again from the mapped vectors: every kind answers in the order of `demur.indexing.exact`.
Their files are mapped too (``IO_FLAG_MMAP_IFC``, the flag that really maps). Where there is a GPU, faiss-gpu proposes
for flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from demur.errors import DataError, IndexFileError, UsageError
from demur.indexing.exact import (
    MARGIN,
    Floats,
    Found,
    Nearest,
    Rows,
    best,
    exact_top,
    nearest_one,
    padded,
    rescore,
    settled,
    usable,
)
from demur.indexing.ivf import list_rows, offer_lists, read_faiss
from demur.store import storage_errors

SHARED = 8
"""Queries for each list from which a matrix product over the list beats scanning it query by query (see `choose`)."""
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
        queries = self._checked(queries, k)
        if self._lists is None or not len(queries):
            return padded(exact_top(queries, self.vectors, k, largest_norm=self._largest), k)
        coarse = exact_top(queries, self._centroids, self.nprobe, largest_norm=self._coarse_norm)
        self._lists.nprobe = self.nprobe
        if self.kind == "ivf-flat":
            return padded(self._in_whole_lists(queries, min(k, self.count), coarse), k)
        take = min(self.count, max(k * self.refine, k + MARGIN))
        _, rows = self._lists.search_preassigned(queries, take, coarse.rows, coarse.scores)
        return padded(best(rescore(queries, self.vectors, rows), rows, k), k)

    def _in_whole_lists(self, queries: Floats, k: int, coarse: Found) -> Found:
        """The exact first k of the vectors in the lists of each query, by whichever way is cheaper."""
        if len(queries) * self.nprobe < SHARED * self._lists.nlist:

            def propose(some: Floats, places: Rows, take: int) -> Found:
                return Found(*self._lists.search_preassigned(some, take, coarse.rows[places], coarse.scores[places]))

            return settled(queries, self.vectors, k, self._largest, propose)
        found = Found(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
        for start in range(0, len(queries), TOGETHER):
            mine = slice(start, start + TOGETHER)
            nearest = Nearest(queries[mine], k, self._largest)
            offer_lists(self._lists, queries[mine], coarse.rows[mine], nearest)
            found.scores[mine], found.rows[mine] = nearest.settled(self.vectors)
            for line in (start + np.flatnonzero(nearest.crowded)).tolist():
                rows = np.concatenate([list_rows(self._lists, number) for number in coarse.rows[line].tolist()])[None]
                found.scores[line], found.rows[line] = best(
                    rescore(queries[line : line + 1], self.vectors, rows), rows, k
                )
        return found

    def probes_for(self, queries: Floats, k: int, *, recall: float = 0.99) -> int:
        """How many lists must be searched for a sample of queries to find that share of their exact first k.

        Set `nprobe` to it. The lists of the true neighbours are looked up: nothing is searched by trial, and the sample
        costs no more than its exact search.

        Args:
            queries: (Q, d) float32; some hundred of those that will be asked.
            k: neighbours that count.
            recall: share of them, in (0, 1].

        Returns:
            From 1 to the number of lists; 1 for a flat index, which has none.
        """
        queries = self._checked(queries, k)
        if self._lists is None or not len(queries):
            return 1
        found = exact_top(queries, self.vectors, k, largest_norm=self._largest).rows
        rows, inverse = np.unique(found, return_inverse=True)
        lists = nearest_one(self.vectors[rows], self._centroids, largest_norm=self._coarse_norm)[inverse.reshape(-1)]
        every = exact_top(queries, self._centroids, len(self._centroids), largest_norm=self._coarse_norm).rows
        rank = np.empty_like(every)
        np.put_along_axis(rank, every, np.arange(every.shape[1])[None], axis=1)
        needed = np.sort(rank[np.arange(len(queries)).repeat(found.shape[1]), lists]) + 1
        return int(needed[ceil(recall * len(needed)) - 1])

    def among(self, queries: Floats, candidates: Sequence[Rows], k: int) -> Found:
        """The first k for each query among its own candidate rows, exactly.

        Args:
            queries: (Q, d) float32.
            candidates: one int64 array of rows for each query.
            k: at least 1.
        """
        queries = self._checked(queries, k)
        found = Found(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64))
        for place, rows in enumerate(candidates):
            unique = np.unique(np.asarray(rows, dtype=np.int64))[None]
            first = best(rescore(queries[place : place + 1], self.vectors, unique), unique, k)
            found.scores[place, : first.rows.shape[1]] = first.scores[0]
            found.rows[place, : first.rows.shape[1]] = first.rows[0]
        return found

    def _checked(self, queries: Floats, k: int) -> Floats:
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}", cure="ask for one neighbour or more")
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dims:
            raise UsageError(
                f"the queries have shape {queries.shape}, the index has {self.dims} dimensions",
                item=str(self.folder),
                cure="use the encoder that made the index",
            )
        bad = np.flatnonzero(~usable(queries))
        if len(bad):
            raise DataError(
                "the query vector is NaN, infinite or zero", item=f"query {bad[0]}", cure="check its text or image"
            )
        return queries
