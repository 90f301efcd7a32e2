"""Dense indexes on disk: exact and approximate nearest neighbours.

    flat      the mapped vectors themselves; exact
    ivf-...   inverted lists, see `demur.indexing.ivf`
    maxsim    a vector for each token, see `demur.indexing.maxsim`

A kind of another package is a class that it registers under ``demur.indexes``, or ``module:Class``: made of a folder
and the part's entry in the manifest, with ``count``, ``search`` and ``search_subset`` as of `Dense`, which it may
inherit; ``build`` makes its files (docs/index-plugins.md; `demur.testing.check_index`).

The first two search mapped files and return hits in the order of `demur.indexing.exact`. faiss searches the ``nprobe`` lists
whose centroids are nearest (found exactly), or more of them if these hold fewer than k vectors. What it finds is scored
again from the vectors: for ``ivf-flat`` the result is exact within the lists; of codes, ``refine`` times k candidates
are scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from demur.core import plugins
from demur.core.errors import DataError, IndexFileError, UsageError
from demur.indexing.exact import (
    MARGIN,
    Exact,
    Floats,
    Neighbours,
    Rows,
    exact_rerank,
    norms_of,
    pad_to,
    rescore,
    stack_batches,
    take_best,
)
from demur.indexing.gpu import load_faiss
from demur.indexing.ivf import (
    KINDS,
    REFINE,
    Tuned,
    build_ivf,
    centroids_of,
    faiss_errors,
    least_mean,
    lists_enough,
    nearest_lists,
    open_lists,
)
from demur.indexing.vectors import mapped_vectors

SCAN = 10
"""How many times more scanning a list costs, for each vector, than exact search of many queries."""


@cache
def _lists(nprobe: int) -> Any:
    """Tells faiss how many lists to read. The index's own nprobe is shared by threads: it may be another's."""
    lists = load_faiss().SearchParametersIVF()
    lists.nprobe = nprobe
    return lists


def kind_named(kind: str) -> Any:
    """The class of a kind of index that is made of vectors.

    Raises:
        UnknownPart: there is no such kind.
        UsageError: it is made of something else.
    """
    index, _ = plugins.find("indexes", kind)
    if not hasattr(index, "build"):
        raise UsageError(
            "this index is not made of one vector for each item",
            item=kind,
            cure=f"choose auto, {', '.join(KINDS)}, or a kind of another package",
        )
    return index


class Dense:
    """An index of vectors on disk: ``vectors.npy`` (n, d) float32 and, for all kinds but flat, ``index.faiss``.

    Args:
        part: its entry in the index folder's manifest: ``kind``, ``dims``, ``count``, ``largest_norm``.

    Raises:
        IndexFileError: a file is truncated or does not match the entry.
    """

    def __init__(self, folder: Path, part: dict[str, Any]) -> None:
        self.folder = folder
        self.kind: str = part["kind"]
        self.dims: int = part["dims"]
        self.count: int = part["count"]
        self._largest = float(part["largest_norm"])
        self.vectors: Floats = mapped_vectors(folder / "vectors.npy", self.count, self.dims)
        self._exact = Exact(self.vectors, self._largest)
        self._lists: Any = None
        if self.kind in REFINE:
            self.nprobe, self.refine = int(part["nprobe"]), int(part["refine"])
            self._lists = open_lists(folder / "index.faiss", self.kind, self.dims, self.count)
            self.nprobe = min(self.nprobe, self._lists.nlist)
            self._centroids = centroids_of(self._lists)
            coarse_norm = float(norms_of(self._centroids).max())
            self._coarse = Exact(self._centroids, coarse_norm)
            if not isfinite(coarse_norm):
                raise IndexFileError("its centroids are no numbers", item=folder / "index.faiss")

    @classmethod
    def build(cls, kind: str, vectors: Floats, folder: Path) -> dict[str, Any]:
        """Make the files that an index of this kind has beside ``vectors.npy``.

        Args:
            vectors: (n, d) float32, mapped.
            folder: that holds them.

        Returns:
            What the part's entry in the manifest says of them, for the constructor.
        """
        return build_ivf(kind, vectors, folder / "index.faiss") if kind in REFINE else {}

    def search(self, queries: Floats, k: int) -> Neighbours:
        """The first k for each query.

        Args:
            queries: (Q, d) float32.
            k: at least 1; if it is more than there are vectors, all come back, padded.

        Raises:
            UsageError: k is below 1, or the dimensions differ.
            DataError: a query is NaN, infinite or zero; names its place in the batch.
        """
        queries = self._check_queries(queries, k)
        if self._lists is None:
            return pad_to(self._exact.top(queries, k), k)
        with faiss_errors(self.folder):  # its lists may hold rows that do not exist
            return pad_to(self._search_until_full(queries, min(k, self.count)), k)

    def _search_until_full(self, queries: Floats, k: int) -> Neighbours:
        """The first k in the `nprobe` nearest lists of each query; in twice as many where these hold too few."""
        nprobe = self.nprobe
        neighbours = self._search_lists(queries, k, nprobe)
        incomplete = np.flatnonzero(neighbours.rows[:, -1] < 0)
        while len(incomplete) and nprobe < self._lists.nlist:
            nprobe = min(2 * nprobe, self._lists.nlist)
            wider = self._search_lists(queries[incomplete], k, nprobe)
            neighbours.scores[incomplete], neighbours.rows[incomplete] = wider
            incomplete = incomplete[wider.rows[:, -1] < 0]
        return neighbours

    def _search_lists(self, queries: Floats, k: int, nprobe: int) -> Neighbours:
        """The first k of the vectors in that many lists of each query, as far as the codes tell."""
        exact = self.kind == "ivf-flat"  # what codes propose may depend on the order of the lists
        coarse = self._coarse.top(queries, nprobe, ordered=not exact)
        if len(queries) == 1:
            return self._search_chosen_lists(queries, coarse, k)
        order = np.argsort(
            coarse.rows[:, 0], kind="stable"
        )  # queries that share lists find them in the cache
        neighbours = self._search_chosen_lists(
            queries[order], Neighbours(coarse.scores[order], coarse.rows[order]), k
        )
        original_order = np.argsort(order)
        return Neighbours(neighbours.scores[original_order], neighbours.rows[original_order])

    def _search_chosen_lists(self, queries: Floats, coarse: Neighbours, k: int) -> Neighbours:
        """The first k of the vectors in the given lists of each query."""
        if self.kind == "ivf-flat":

            def scan(part: Floats, places: Rows, take: int) -> Neighbours:
                return self._scan_chosen_lists(
                    part, Neighbours(coarse.scores[places], coarse.rows[places]), take
                )

            return exact_rerank(queries, self.vectors, k, scan, largest_norm=self._largest)
        rows = self._scan_chosen_lists(
            queries, coarse, min(self.count, max(k * self.refine, k + MARGIN))
        ).rows
        return take_best(rescore(queries, self.vectors, rows), rows, k)

    def _scan_chosen_lists(self, queries: Floats, coarse: Neighbours, take: int) -> Neighbours:
        """What faiss finds in the given lists of each query, (Q, take)."""
        faiss = load_faiss()
        neighbours = Neighbours(
            np.empty((len(queries), take), np.float32), np.empty((len(queries), take), np.int64)
        )
        self._lists.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            take,
            faiss.swig_ptr(coarse.rows),
            faiss.swig_ptr(coarse.scores),
            faiss.swig_ptr(neighbours.scores),
            faiss.swig_ptr(neighbours.rows),
            False,
            _lists(coarse.rows.shape[1]),
        )
        return neighbours

    def nprobe_for(
        self,
        blocks: Iterable[Floats],
        k: int,
        *,
        recall: float = 0.99,
        queries_to_come: float = inf,
    ) -> Tuned:
        """How many lists must be searched to find that share of the exact first k of the questions to come.

        Set `nprobe` to the result. The lists of the true neighbours are looked up, nothing is tried out, except for
        what codes lose. Another block is measured as long as its exact search costs less than it may save.

        Args:
            blocks: (Q, d) float32 each, some hundred of the questions that will be asked; more blocks narrow the
                interval. Fewer than 300 of many questions cannot prove a recall of 0.99: all lists are then searched.
            k: neighbours that count.
            recall: share of them, in (0, 1], that the lower end of the interval must reach. Codes may lose more than
                that; `Tuned.least` then stays below it.
            queries_to_come: number of questions that will be asked in all, including these.

        Returns:
            1 list for a flat index, which has no lists, and if no question is given.
        """
        queries: Floats = np.empty((0, self.dims), np.float32)
        right = needed = np.empty((0, min(k, self.count)), np.int64)
        tuned = Tuned(1, 1.0, 1.0, 0)
        for query_block in blocks if self._lists is not None else ():
            block = self._check_queries(query_block, k)
            true_rows = self._exact.top(block, k).rows
            queries, right = np.concatenate([queries, block]), np.concatenate([right, true_rows])
            needed = np.concatenate([needed, self._lists_to(block, true_rows)])
            tuned = lists_enough(needed, recall, self._lists.nlist, queries_to_come)
            saved = (
                tuned.nprobe
                - lists_enough(
                    needed, recall, self._lists.nlist, queries_to_come=len(needed)
                ).nprobe
            )
            if len(block) * self._lists.nlist > SCAN * saved * (queries_to_come - len(queries)):
                break
        while self.kind != "ivf-flat" and len(queries):
            rows = self._search_lists(queries, right.shape[1], tuned.nprobe).rows
            recalls = np.array([np.isin(a, b).mean() for a, b in zip(right, rows, strict=True)])
            tuned = tuned._replace(
                recall=float(recalls.mean()), least=least_mean(recalls, queries_to_come)
            )
            if tuned.least >= recall or tuned.nprobe >= needed.max():
                break
            tuned = tuned._replace(nprobe=min(2 * tuned.nprobe, int(needed.max())))
        return tuned

    def _lists_to(self, queries: Floats, true_rows: Rows) -> Rows:
        """(Q, k) how many lists of each query must be searched to find each of its rows."""
        rows, inverse = np.unique(true_rows, return_inverse=True)
        lists = nearest_lists(self.vectors[rows], self._centroids)
        # rounded float64 products differ from the exact scores in one bit of a million; equal ones count as nearer
        scores = (queries.astype(np.float64) @ self._centroids.T.astype(np.float64)).astype(
            np.float32
        )
        neighbour_scores = np.take_along_axis(
            scores, lists[inverse.reshape(true_rows.shape)], axis=1
        )
        scores.sort(axis=1)
        return np.stack(
            [
                len(line) - np.searchsorted(line, line_scores)
                for line, line_scores in zip(scores, neighbour_scores, strict=True)
            ]
        )

    def search_subset(self, queries: Floats, candidates: Sequence[Rows], k: int) -> Neighbours:
        """The first k for each query among its own candidate rows, exactly.

        Args:
            queries: (Q, d) float32.
            candidates: one int64 array of rows for each query.
            k: at least 1.
        """
        queries = self._check_queries(queries, k)
        parts = [Neighbours.nothing(0, k)]
        for query, rows in zip(queries, candidates, strict=True):
            candidate_rows = np.unique(np.asarray(rows, dtype=np.int64))[None]
            parts.append(
                pad_to(
                    take_best(
                        rescore(query[None], self.vectors, candidate_rows), candidate_rows, k
                    ),
                    k,
                )
            )
        return stack_batches(parts)

    def _check_queries(self, queries: Floats, k: int) -> Floats:
        """The queries as C-contiguous float32; raises for those that cannot be searched."""
        if k < 1:
            raise UsageError(
                f"must be at least 1, not {k}", item="k", cure="ask for one neighbour or more"
            )
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dims:
            raise UsageError(
                f"the queries have shape {queries.shape}, the index has {self.dims} dimensions",
                item=self.folder,
                cure="use the encoder that made the index",
            )
        norms = norms_of(queries)
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        if len(bad):
            raise DataError(
                "the query vector is NaN, infinite or zero",
                item=f"query {bad[0]}",
                cure="check its text or image",
            )
        return queries
