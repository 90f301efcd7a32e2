"""Dense indexes: exact and approximate nearest neighbours, with one order that nothing can change.

**The order.** The bits of a float32 score depend on the kernel that made it, and faiss picks its kernel by batch
size: a score is therefore never taken from faiss. faiss proposes candidates; each is scored again as the float64
sum of products in one fixed order, rounded to float32, and hits are ordered by (score descending, row ascending).
For exact search the candidates are proven to be enough: as long as a vector outside them could still belong to
the first k, given the worst rounding error of the proposing kernel, more are fetched. Ids and scores are then equal
for any batch size, shard count, memory mapping or machine.

**The kinds** (all inner product; cosine is the inner product of normalised rows):

    flat          the mapped vectors themselves; exact
    ivf-flat      inverted lists of whole vectors
    ivf-sq8       inverted lists, 8 bits per dimension
    ivf-sqfp16    inverted lists, half precision
    ivf-rabitq    inverted lists, 1 bit per dimension (Gao and Long 2024)
    ivf-pq        inverted lists, 4-bit product quantisation, fast-scan (Andre et al. 2017)

All but flat propose ``refine`` times k candidates, which are scored again from the mapped vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.errors import DataError, IndexFileError, UsageError
from demur.store import storage_errors

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MARGIN = 32
"""Candidates fetched beyond k before the order is settled."""
BLAS_FROM = 48
"""Least batch for which a matrix product beats faiss's per-query kernel (at d=512: 0.9 of it at 32, 1.8 at 64)."""
RESCORE_BYTES = 64 << 20
"""Working memory of the exact scoring, in bytes."""


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


def _padded(found: Found, k: int) -> Found:
    missing = k - found.rows.shape[1]
    if missing <= 0:
        return found
    fill = ((0, 0), (0, missing))
    return Found(np.pad(found.scores, fill, constant_values=-np.inf), np.pad(found.rows, fill, constant_values=-1))


def _candidates(queries: Floats, vectors: Floats, k: int) -> Found:
    """Approximate float32 scores and rows of the best k, by whichever of faiss's kernels is faster for this batch."""
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    # The threshold acts on queries x dimensions. The choice changes speed and score bits, and never the result.
    faiss.cvar.distance_compute_blas_threshold = 0 if len(queries) >= BLAS_FROM else 1 << 30
    try:
        scores, rows = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
    return Found(scores, rows)


def exact_top(queries: Floats, vectors: Floats, k: int, *, largest_norm: float) -> Found:
    """The exact first k of ``vectors`` for each query, in the order of this module.

    Args:
        queries: (Q, d) float32, finite.
        vectors: (n, d) float32, C-contiguous, mapped or not.
        k: neighbours wanted, at least 1; at most n come back.
        largest_norm: an upper bound of the norms of ``vectors``.
    """
    n, dims = vectors.shape
    k = min(k, n)
    if k < 1 or not len(queries):
        return Found(np.zeros((len(queries), max(k, 0)), np.float32), np.zeros((len(queries), max(k, 0)), np.int64))
    # |computed - true| <= d * 2^-24 * |q| * |x| for float32 sums in any order (Higham 2002, section 3.1)
    norms = np.sqrt(np.add.reduce(np.square(queries, dtype=np.float64), axis=1))
    error = np.nextafter((norms * largest_norm * dims * 2.0**-24).astype(np.float32), np.float32(np.inf))
    out = Found(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
    open_, take = np.arange(len(queries)), min(n, k + MARGIN)
    while len(open_):
        near = _candidates(queries[open_], vectors, take)
        ordered = best(rescore(queries[open_], vectors, near.rows), near.rows, k)
        out.scores[open_], out.rows[open_] = ordered
        if take == n:
            break
        # a vector left out scored at most near.scores[:, -1] in the fast kernel
        open_ = open_[~(ordered.scores[:, -1] > near.scores[:, -1] + 2 * error[open_])]
        take = min(n, 4 * take)
    return out


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
                self.vectors: Floats = np.load(path, mmap_mode="r")
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
        return _padded(exact_top(queries, self.vectors, k, largest_norm=self._largest), k)

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
