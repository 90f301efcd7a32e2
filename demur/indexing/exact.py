"""Exact nearest neighbours by inner product: faiss proposes, a float64 sum decides, in one order.

The bits of a float32 score depend on the kernel that made it, and kernels differ by batch size and machine: a score
that is handed out is therefore never theirs. faiss proposes candidates; each that can be among the first k, given the
worst rounding error of a float32 sum, is scored again as the float64 sum of products in one fixed order, rounded to
float32; hits are ordered by (score descending, row ascending). Where a vector that was left out could still be among
them, more are asked for. Ids and scores are then equal for any batch size, shard count, memory mapping or machine.
Cosine is the inner product of normalised rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MARGIN = 16
"""Candidates fetched beyond k before the order is settled."""
BLAS_FROM = 4
"""Least batch for which faiss's matrix product beats its per-query kernel (one thread, 256 to 1024 dimensions)."""
BLOCK = 1024
"""Most queries searched at once."""
CANDIDATES = 1 << 22
"""Most candidates, of all queries together, that are held at once."""
RESCORE_BYTES = 1 << 20
"""Working memory of the exact scoring, in bytes: what stays in a cache is scored twice as fast."""
SINGLY = 256
"""Candidates, of all queries together, up to which scoring is not cut into blocks."""
GPU_MOST = 2048
"""Most neighbours that faiss-gpu gives."""
GPU_BLOCK = 1 << 30
"""Bytes of vectors that lie on the GPU at once."""


class Found(NamedTuple):
    """Neighbours of Q queries, best first; places past the number of vectors hold row -1 and score -inf."""

    scores: Floats
    """(Q, k) float32."""
    rows: Rows
    """(Q, k) int64 rows of the index."""

    @classmethod
    def nothing(cls, queries: int, k: int) -> Found:
        """Empty places alone."""
        return cls(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64))


def unit(vectors: Floats) -> Floats:
    """Rows divided by their Euclidean norm (computed in float64); a row of zeros stays zero."""
    norms = norms_of(vectors)[..., None]
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def norms_of(vectors: Floats) -> NDArray[np.float64]:
    """(n,) their Euclidean norms."""
    return np.asarray(np.sqrt(np.add.reduce(np.square(vectors, dtype=np.float64), axis=-1)))


def rescore(queries: Floats, vectors: Floats, rows: Rows) -> Floats:
    """(Q, c) inner products of each query with its own candidates, the same bits in any batch.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32, mapped or not.
        rows: (Q, c) int64; -1 scores -inf.
    """
    vectors, width = np.asarray(vectors), rows.shape[1]  # a memmap makes a memmap of every block
    if rows.size <= SINGLY:  # a few queries at once: no blocks to cut
        products = vectors[rows].astype(np.float64)
        products *= queries[:, None]
        return np.where(rows >= 0, np.add.reduce(products, axis=-1).astype(np.float32), np.float32(-np.inf))
    scores = np.empty(rows.size, np.float32)
    flat, step = rows.ravel(), max(1, RESCORE_BYTES // (16 * vectors.shape[1]))
    for start in range(0, len(flat), step):
        here = np.arange(start, min(start + step, len(flat)))
        products = vectors[flat[here]].astype(np.float64)  # -1 is the last row: see below
        products *= queries[here // width]
        scores[here] = np.add.reduce(products, axis=-1)  # pairwise over a contiguous axis: its order depends on d alone
    return np.where(rows >= 0, scores.reshape(rows.shape), np.float32(-np.inf))


def best(scores: Floats, rows: Rows, k: int) -> Found:
    """The first k of each line by (score descending, row ascending); pads (row -1) come last."""
    order = np.lexsort((rows.view(np.uint64), -scores), axis=-1)[:, :k]  # as unsigned numbers, pads are the largest
    lines = np.arange(len(order))[:, None]
    return Found(scores[lines, order], rows[lines, order])


def padded(found: Found, k: int) -> Found:
    """The same with k columns, the missing ones empty."""
    if (missing := k - found.rows.shape[1]) <= 0:
        return found
    none = Found.nothing(len(found.rows), missing)
    return Found(np.hstack([found.scores, none.scores]), np.hstack([found.rows, none.rows]))


def merge(parts: Sequence[Found], k: int) -> Found:
    """The first k over several shards' findings; each shard's rows must already be rows of the whole."""
    return best(np.concatenate([p.scores for p in parts], 1), np.concatenate([p.rows for p in parts], 1), k)


def gpus() -> int:
    """GPUs that faiss can use: 0 with faiss-cpu, and with faiss-gpu on a machine that has none."""
    import faiss

    return int(getattr(faiss, "get_num_gpus", int)())


def exact_top(queries: Floats, vectors: Floats, k: int, *, largest_norm: float) -> Found:
    """The exact first k of ``vectors`` for each query, in the order of this module.

    Args:
        queries: (Q, d) float32, finite.
        vectors: (n, d) float32, C-contiguous, mapped or not.
        k: neighbours wanted, at least 1; at most n come back.
        largest_norm: an upper bound of the norms of ``vectors``.

    Raises:
        ValueError: queries and vectors have other dimensions than each other.
    """
    if queries.shape[1] != vectors.shape[1]:
        raise ValueError(f"queries of {queries.shape[1]} dimensions, vectors of {vectors.shape[1]}")
    queries = np.ascontiguousarray(queries)
    slack = slack_of(norms_of(queries), vectors.shape[1], largest_norm)
    return settled(queries, vectors, k, slack, lambda some, _, take: _nearest(some, vectors, take))


def _nearest(queries: Floats, vectors: Floats, k: int) -> Found:
    """Approximate float32 scores and rows of the best k, by whichever of faiss's kernels is fastest for this batch."""
    import faiss

    inner = faiss.METRIC_INNER_PRODUCT
    if k <= GPU_MOST and gpus() > 0:
        resources = faiss.StandardGpuResources()
        return Found(*faiss.knn_gpu(resources, queries, vectors, k, metric=inner, vectorsMemoryLimit=GPU_BLOCK))
    before = faiss.cvar.distance_compute_blas_threshold
    # The threshold acts on queries x dimensions. The choice changes speed and score bits, and never the result.
    faiss.cvar.distance_compute_blas_threshold = 0 if len(queries) >= BLAS_FROM else 1 << 30
    try:
        return Found(*faiss.knn(queries, vectors, k, metric=inner))
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def slack_of(norms: NDArray[np.float64], dims: int, largest_norm: float) -> Floats:
    """(Q,) how far a float32 score may lie below another, and its vector still come before the other's.

    Twice the error of each, |computed - true| <= d * 2^-24 * |q| * |x| for float32 sums in any order (Higham 2002,
    section 3.1), and as much again, which covers the rounding of the exact score.

    Args:
        norms: (Q,) of the queries.
        largest_norm: an upper bound of the norms of the vectors.
    """
    slack = (norms * (4 * largest_norm * dims * 2.0**-24)).astype(np.float32)
    return np.asarray(np.nextafter(slack, np.float32(np.inf)))


def settled(
    queries: Floats, vectors: Floats, k: int, slack: Floats, propose: Callable[[Floats, Rows | slice, int], Found]
) -> Found:
    """The exact first k of what is proposed, asked until nothing that was left out can belong to them.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32 that the proposed rows are rows of.
        k: at least 1; at most n come back.
        slack: (Q,) of the queries and vectors, see `slack_of`.
        propose: called with some of the queries, their places in ``queries`` (a slice for all of them) and how many
            candidates to give; answers with float32 scores, whose error is that of a float32 sum, best first, and row
            -1 where there are no more.
    """
    k = min(k, len(vectors))
    found, take, asked = Found.nothing(len(queries), k), min(k + MARGIN, len(vectors)), np.arange(len(queries))
    while k and len(asked):
        left, step = [], min(BLOCK, max(1, CANDIDATES // take))
        # equal blocks: the product of a small one is slow
        for block in [asked] if len(asked) <= step else np.array_split(asked, -(-len(asked) // step)):
            some = slice(None) if len(block) == len(queries) else block  # all of them are asked about without a copy
            near = propose(queries[some], some, take)
            useful = near.scores >= near.scores[:, k - 1 : k] - slack[some, None]
            rows = np.ascontiguousarray(near.rows[:, : useful.sum(axis=1).max()])  # those that can be among the first k
            found.scores[some], found.rows[some] = best(rescore(queries[some], vectors, rows), rows, k)
            left.append(block[useful[:, -1] & (near.rows[:, -1] >= 0) & (take < len(vectors))])
        asked, take = np.concatenate(left), min(4 * take, len(vectors))
    return found
