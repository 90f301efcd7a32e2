"""Exact nearest neighbours by inner product, with the same ids and score bits in any batch.

The bits of a float32 score depend on the kernel that computed it, and kernels differ by batch size and by machine. So
no score of faiss is returned. faiss proposes candidates. Every candidate that could be among the first k, given the
worst rounding error of a float32 sum, is scored again: as a float64 sum of products in one fixed order, rounded to
float32. Hits are ordered by (score descending, row ascending). If a vector that was not proposed could still be among
the first k, faiss is asked for more. Ids and scores are therefore equal for every batch size, number of shards and
machine, for mapped and loaded vectors, and where GPUs propose (`demur.indexing.gpu`). Cosine similarity is the inner
product of normalised rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.indexing import gpu

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MARGIN = 16
"""Most candidates that are fetched beyond k at first; for a smaller k, as many again as k."""
BLAS_FROM = 4
"""Smallest batch for which faiss's matrix product beats its per-query kernel (one thread, 256 to 1024 dimensions)."""
BLOCK = 1024
"""Most queries searched at once."""
CANDIDATES = 1 << 22
"""Most candidates, of all queries together, that are held at once."""
RESCORE_BYTES = 1 << 20
"""Working memory of the exact scoring: products that stay in the cache are summed twice as fast."""
SCORERS = min(8, os.cpu_count() or 1)
"""Blocks of queries at once where GPUs propose: they search one while processors score the others again."""


class Neighbours(NamedTuple):
    """Neighbours of Q queries, best first; places past the last neighbour hold row -1 and score -inf."""

    scores: Floats
    """(Q, k) float32."""
    rows: Rows
    """(Q, k) int64 rows of the index."""

    @classmethod
    def nothing(cls, queries: int, k: int) -> Neighbours:
        """Only empty places."""
        return cls(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64))


def unit(vectors: Floats) -> Floats:
    """Rows divided by their Euclidean norm (computed in float64); a row of norm 0, infinity or NaN stays as it is."""
    norms = norms_of(vectors)[..., None]
    return np.asarray(
        vectors / np.where((norms > 0) & np.isfinite(norms), norms, 1.0), dtype=np.float32
    )


def norms_of(vectors: Floats) -> NDArray[np.float64]:
    """(n,) Euclidean norms."""
    return np.asarray(np.sqrt(np.add.reduce(np.square(vectors, dtype=np.float64), axis=-1)))


def rescore(queries: Floats, vectors: Floats, rows: Rows) -> Floats:
    """(Q, c) inner products of each query with its own candidates, the same bits in any batch.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32, mapped or not.
        rows: (Q, c) int64; -1 scores -inf.
    """
    vectors = np.asarray(vectors)  # a memmap would make every block a memmap
    scores = np.empty(rows.shape, np.float32)
    most = max(1, RESCORE_BYTES // (16 * vectors.shape[1]))  # products at once
    lines, columns = max(1, most // max(1, rows.shape[1])), min(most, max(1, rows.shape[1]))
    for first_line in range(0, rows.shape[0], lines):
        for first_column in range(0, rows.shape[1], columns):
            block = (
                slice(first_line, first_line + lines),
                slice(first_column, first_column + columns),
            )
            products = vectors[rows[block]].astype(
                np.float64
            )  # row -1 reads the last vector: its score is replaced
            products *= queries[block[0], None]
            scores[block] = np.add.reduce(
                products, axis=-1
            )  # pairwise over a contiguous axis: the order depends on d
    scores[rows < 0] = -np.inf
    return scores


def take_best(scores: Floats, rows: Rows, k: int) -> Neighbours:
    """The first k of each line by (score descending, row ascending); empty places (row -1) come last."""
    order = np.lexsort((rows.view(np.uint64), -scores), axis=-1)[
        :, :k
    ]  # as an unsigned number -1 is the largest
    lines = np.arange(len(order))[:, None]
    return Neighbours(scores[lines, order], rows[lines, order])


def pad_to(neighbours: Neighbours, k: int) -> Neighbours:
    """The same with k columns, the missing ones empty."""
    if (missing := k - neighbours.rows.shape[1]) <= 0:
        return neighbours
    none = Neighbours.nothing(len(neighbours.rows), missing)
    return Neighbours(
        np.hstack([neighbours.scores, none.scores]), np.hstack([neighbours.rows, none.rows])
    )


def stack_batches(parts: Sequence[Neighbours]) -> Neighbours:
    """The neighbours of several batches of queries as those of one."""
    return Neighbours(
        np.concatenate([p.scores for p in parts]), np.concatenate([p.rows for p in parts])
    )


def merge_shards(parts: Sequence[Neighbours], k: int) -> Neighbours:
    """The first k over the results of several shards, whose rows must already be rows of the whole index."""
    if len(parts) == 1 and parts[0].rows.shape[1] <= k:
        return parts[0]
    return take_best(
        np.concatenate([p.scores for p in parts], 1), np.concatenate([p.rows for p in parts], 1), k
    )


class Exact:
    """Vectors that are searched exactly; where they fit on the GPUs, they stay there from the first search on.

    Args:
        vectors: (n, d) float32, C-contiguous, mapped or not.
        largest_norm: an upper bound of their norms.
    """

    def __init__(self, vectors: Floats, largest_norm: float) -> None:
        self._vectors, self._largest_norm = vectors, largest_norm
        self._held: gpu.Held | None = None

    def top(self, queries: Floats, k: int, *, ordered: bool = True) -> Neighbours:
        """The exact first k for each query, in the order of this module.

        Args:
            queries: (Q, d) float32, finite.
            k: neighbours wanted, at least 1; at most n come back.
            ordered: False if only the set of the first k must be exact: their order and scores may then be faiss's.

        Raises:
            ValueError: queries and vectors differ in their dimensions.
            StorageError: a GPU refuses vectors.
        """
        count, dims = self._vectors.shape
        if queries.shape[1] != dims:
            raise ValueError(f"queries of {queries.shape[1]} dimensions, vectors of {dims}")
        if self._held is not None:
            return self._by_cards(self._held, self._vectors, queries, k, ordered=ordered)
        rooms = [(card, card.room()) for card in gpu.cards()]
        rows = sum(room for _, room in rooms) // (4 * dims)
        if not (rows and count):
            return self._by_processors(queries, k, ordered=ordered)
        if rows >= count:
            self._held = gpu.Held(self._vectors, rooms)
            return self._by_cards(self._held, self._vectors, queries, k, ordered=ordered)

        def in_round(first: int) -> Neighbours:
            part = self._vectors[first : first + rows]
            near = self._by_cards(gpu.Held(part, rooms), part, queries, k, ordered=True)
            return near._replace(rows=near.rows + first)

        return merge_shards([in_round(first) for first in range(0, count, rows)], min(k, count))

    def _by_processors(self, queries: Floats, k: int, *, ordered: bool) -> Neighbours:
        def propose(part: Floats, _: Rows, take: int) -> Neighbours:
            return _nearest(part, self._vectors, take)

        norm = self._largest_norm
        return exact_rerank(queries, self._vectors, k, propose, largest_norm=norm, ordered=ordered)

    def _by_cards(
        self, held: gpu.Held, vectors: Floats, queries: Floats, k: int, *, ordered: bool
    ) -> Neighbours:
        """The first k of vectors that cards hold; processors find what is more than a card can give."""

        def propose(part: Floats, _: Rows, take: int) -> Neighbours:
            if take > gpu.MOST:
                return _nearest(part, vectors, take)
            return merge_shards([Neighbours(*near) for near in held.nearest(part, take)], take)

        return exact_rerank(
            queries,
            vectors,
            k,
            propose,
            largest_norm=self._largest_norm,
            ordered=ordered,
            at_once=SCORERS,
        )


def exact_top(
    queries: Floats, vectors: Floats, k: int, *, largest_norm: float, ordered: bool = True
) -> Neighbours:
    """As `Exact.top`, of vectors that are searched once."""
    return Exact(vectors, largest_norm).top(queries, k, ordered=ordered)


def _nearest(queries: Floats, vectors: Floats, k: int) -> Neighbours:
    """Approximate float32 scores and rows of the best k, by whichever of faiss's kernels is fastest for this batch."""
    faiss = gpu.load_faiss()
    before = faiss.cvar.distance_compute_blas_threshold
    # faiss compares queries x dimensions with the threshold. The kernel changes the speed and the bits of the scores,
    # never the result.
    faiss.cvar.distance_compute_blas_threshold = 0 if len(queries) >= BLAS_FROM else 1 << 30
    try:
        return Neighbours(*faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT))
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def exact_rerank(
    queries: Floats,
    vectors: Floats,
    k: int,
    propose: Callable[[Floats, Rows, int], Neighbours],
    *,
    largest_norm: float,
    ordered: bool = True,
    at_once: int = 1,
) -> Neighbours:
    """The exact first k of what ``propose`` finds; it is asked for more until nothing left out can be among them.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32 that the proposed rows are rows of.
        k: at least 1; at most n come back.
        propose: called with some of the queries, their places in ``queries`` and the number of candidates to return;
            gives float32 scores, whose error is that of a float32 sum, best first, and row -1 where there are no more.
        largest_norm: an upper bound of the norms of ``vectors``.
        ordered: as of `Exact.top`.
        at_once: blocks of queries that are proposed for and scored at once.
    """
    n, dims = vectors.shape
    k = min(k, n)
    # A score that lies further than this, times the norm of the query, below another comes after it. It is twice the
    # error of each, |computed - true| <= d * 2^-24 * |q| * |x| for float32 sums in any order (Higham 2002, section
    # 3.1), and as much again, which covers the rounding of the exact score.
    error = 4 * largest_norm * dims * 2.0**-24

    def first(places: Rows, take: int) -> Neighbours:
        step = min(BLOCK, max(1, CANDIDATES // take))
        if len(places) > step:  # equal blocks: the product of a small one is slow
            return stack_batches(
                [first(part, take) for part in np.array_split(places, -(-len(places) // step))]
            )
        part = queries[places]
        near = propose(part, places, take)
        slack = np.nextafter((norms_of(part) * error).astype(np.float32), np.float32(np.inf))
        useful = near.scores >= (near.scores[:, k - 1] - slack)[:, None]
        counts = np.add.reduce(useful, axis=1)
        rows = np.ascontiguousarray(near.rows[:, : counts.max()])
        if ordered:
            neighbours = take_best(rescore(part, vectors, rows), rows, k)
        else:  # only queries with a tie at rank k
            neighbours = Neighbours(
                np.ascontiguousarray(near.scores[:, :k]), np.ascontiguousarray(near.rows[:, :k])
            )
            tied = np.flatnonzero(counts > k)
            neighbours.scores[tied], neighbours.rows[tied] = take_best(
                rescore(part[tied], vectors, rows[tied]), rows[tied], k
            )
        if rows.shape[1] == take < n:
            undecided = np.flatnonzero(useful[:, -1] & (near.rows[:, -1] >= 0))
            if len(undecided):
                neighbours.scores[undecided], neighbours.rows[undecided] = first(
                    places[undecided], min(4 * take, n)
                )
        return neighbours

    if not (k and len(queries)):
        return Neighbours.nothing(len(queries), k)
    places, take = np.arange(len(queries)), min(k + min(k, MARGIN), n)
    if at_once == 1 or len(places) <= BLOCK:
        return first(places, take)
    with ThreadPoolExecutor(at_once) as pool:
        blocks = np.array_split(places, -(-len(places) // BLOCK))
        return stack_batches(list(pool.map(partial(first, take=take), blocks)))
