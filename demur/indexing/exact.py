"""Exact nearest neighbours by inner product, in one order that nothing can change.

The bits of a float32 score depend on the kernel that made it, and faiss picks its kernel by batch size: a score is
therefore never taken from faiss. faiss proposes candidates; each is scored again as the float64 sum of products in one
fixed order, rounded to float32, and hits are ordered by (score descending, row ascending). The candidates are proven to
be enough: as long as a vector outside them could still belong to the first k, given the worst rounding error of the
proposing kernel, more are fetched. Ids and scores are then equal for any batch size, shard count, memory mapping or
machine. Cosine is the inner product of normalised rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MARGIN = 16
"""Candidates fetched beyond k before the order is settled."""
BLAS_FROM = 4
"""Least batch for which a matrix product beats faiss's per-query kernel (one thread, 256 to 1024 dimensions)."""
RESCORE_BYTES = 4 << 20
"""Working memory of the exact scoring, in bytes: what stays in a cache is scored twice as fast."""
BLOCK = 8192
"""Most queries searched at once."""
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


def unit(vectors: Floats) -> Floats:
    """Rows divided by their Euclidean norm (computed in float64); a row of zeros stays zero."""
    norms = np.sqrt(np.add.reduce(np.square(vectors, dtype=np.float64), axis=-1, keepdims=True))
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float32)


def usable(vectors: Floats) -> NDArray[np.bool_]:
    """(n,) True for rows that can be compared: finite and not all zero."""
    finite = np.isfinite(vectors).all(axis=1)
    return np.asarray(finite & (np.abs(vectors).max(axis=1, initial=0) > 0))


def rescore(queries: Floats, vectors: Floats, rows: Rows) -> Floats:
    """(Q, c) inner products of each query with its own candidates, the same bits in any batch.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32, mapped or not.
        rows: (Q, c) int64; -1 scores -inf.
    """
    scores = np.full(rows.shape, -np.inf, dtype=np.float32)
    if not rows.size:
        return scores
    width, dims = rows.shape[1], vectors.shape[1]
    columns = max(1, min(width, RESCORE_BYTES // (16 * dims)))
    step = max(1, RESCORE_BYTES // (16 * columns * dims))
    for top in range(0, len(rows), step):
        for left in range(0, width, columns):
            here = rows[top : top + step, left : left + columns]
            products = vectors[np.maximum(here, 0)].astype(np.float64)
            products *= queries[top : top + step, None, :]
            sums = np.add.reduce(products, axis=-1)  # pairwise over a contiguous axis: its order depends on d alone
            scores[top : top + step, left : left + columns] = np.where(here >= 0, sums, -np.inf)
    return scores


def best(scores: Floats, rows: Rows, k: int) -> Found:
    """The first k of each line by (score descending, row ascending); pads (row -1) come last."""
    late = np.where(rows < 0, np.iinfo(np.int64).max, rows)
    order = np.lexsort((late, -scores), axis=-1)[:, :k]
    return Found(np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1))


def merge(parts: Sequence[Found], k: int) -> Found:
    """The first k over several shards' findings; each shard's rows must already be rows of the whole."""
    return best(np.concatenate([p.scores for p in parts], 1), np.concatenate([p.rows for p in parts], 1), k)


def gpus() -> int:
    """GPUs that faiss can use: 0 with faiss-cpu, and with faiss-gpu on a machine that has none."""
    import faiss

    return int(getattr(faiss, "get_num_gpus", int)())


def _candidates(queries: Floats, vectors: Floats, k: int) -> Found:
    """Approximate float32 scores and rows of the best k, by whichever of faiss's kernels is fastest for this batch."""
    import faiss

    if k <= GPU_MOST and gpus() > 0:
        resources = faiss.StandardGpuResources()
        scores, rows = faiss.knn_gpu(
            resources, queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT, vectorsMemoryLimit=GPU_BLOCK
        )
        return Found(scores, rows)
    before = faiss.cvar.distance_compute_blas_threshold
    # The threshold acts on queries x dimensions. The choice changes speed and score bits, and never the result.
    faiss.cvar.distance_compute_blas_threshold = 0 if len(queries) >= BLAS_FROM else 1 << 30
    try:
        scores, rows = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
    return Found(scores, rows)


def exact_top(queries: Floats, vectors: Floats, k: int, *, largest_norm: float, margin: int = MARGIN) -> Found:
    """The exact first k of ``vectors`` for each query, in the order of this module.

    Args:
        queries: (Q, d) float32, finite. They are searched in equal blocks of at most `BLOCK`.
        vectors: (n, d) float32, C-contiguous, mapped or not.
        k: neighbours wanted, at least 1; at most n come back.
        largest_norm: an upper bound of the norms of ``vectors``.
        margin: candidates fetched beyond k at first; changes the speed alone.
    """
    n = len(vectors)
    k = min(k, n)
    out = Found(np.empty((len(queries), max(k, 0)), np.float32), np.empty((len(queries), max(k, 0)), np.int64))
    if k < 1 or not len(queries):
        return out
    blocks = -(-len(queries) // BLOCK)  # equal blocks: no small last one, for which faiss is slow
    for start, end in zip(
        *(np.linspace(0, len(queries), blocks + 1).astype(int)[cut] for cut in (slice(None, -1), slice(1, None))),
        strict=True,
    ):
        _settle(queries[start:end], vectors, k, largest_norm, margin, Found(out.scores[start:end], out.rows[start:end]))
    return out


def _settle(queries: Floats, vectors: Floats, k: int, largest_norm: float, margin: int, out: Found) -> None:
    """Fetch candidates until no vector outside them can belong to the first k; write the first k to ``out``."""
    n, dims = vectors.shape
    # |computed - true| <= d * 2^-24 * |q| * |x| for float32 sums in any order (Higham 2002, section 3.1)
    norms = np.sqrt(np.add.reduce(np.square(queries, dtype=np.float64), axis=1))
    error = np.nextafter((norms * largest_norm * dims * 2.0**-24).astype(np.float32), np.float32(np.inf))
    unsettled, take = np.arange(len(queries)), min(n, k + margin)
    while len(unsettled):
        near = _candidates(queries[unsettled], vectors, take)
        ordered = best(rescore(queries[unsettled], vectors, near.rows), near.rows, k)
        out.scores[unsettled], out.rows[unsettled] = ordered
        if take == n:
            break
        # a vector left out scored at most near.scores[:, -1] in the fast kernel
        unsettled = unsettled[~(ordered.scores[:, -1] > near.scores[:, -1] + 2 * error[unsettled])]
        take = min(n, 4 * take)
