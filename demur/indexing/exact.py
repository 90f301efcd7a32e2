"""Exact nearest neighbours by inner product, in one order that nothing can change.

The bits of a float32 score depend on the kernel that made it, and kernels differ by batch size and machine: a score
that is handed out is therefore never theirs. A fast kernel (faiss's, or numpy's matrix product where that is faster)
proposes candidates; each is scored again as the float64 sum of products in one fixed order, rounded to float32, and
hits are ordered by (score descending, row ascending). The candidates are proven to be enough: every vector that could
belong to the first k, given the worst rounding error of the proposing kernel, is among them. Ids and scores are then
equal for any batch size, shard count, memory mapping or machine. Cosine is the inner product of normalised rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from math import inf, sqrt
from time import process_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

MARGIN = 16
"""Candidates fetched from faiss beyond k before the order is settled."""
BLAS_FROM = 4
"""Least batch for which a matrix product beats faiss's per-query kernel (one thread, 256 to 1024 dimensions)."""
PRODUCT_FROM = 12
"""Least batch for which numpy's matrix product may beat faiss."""
RESCORE_BYTES = 1 << 20
"""Working memory of the exact scoring, in bytes: what stays in a cache is scored twice as fast."""
BLOCK = 1024
"""Most queries searched at once by one thread."""
SCORES = 1 << 21
"""Scores of one matrix product: what stays in the last cache is looked through at little cost."""
HANDFUL = 64
"""Candidates that are scored exactly sooner than looked through."""
CROWD = 1024
"""Candidates of one query, beyond k, that cannot be told apart by the fast kernel before it is searched alone."""
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


def norms_of(vectors: Floats) -> NDArray[np.float64]:
    """(n,) their Euclidean norms."""
    squares = vectors.astype(np.float64)
    squares *= squares
    return np.asarray(np.sqrt(np.add.reduce(squares, axis=1)))


def rescore(queries: Floats, vectors: Floats, rows: Rows) -> Floats:
    """(Q, c) inner products of each query with its own candidates, the same bits in any batch.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32, mapped or not.
        rows: (Q, c) int64; -1 scores -inf.
    """
    width, dims = rows.shape[1], vectors.shape[1]
    vectors = np.asarray(vectors)  # a memmap makes a memmap of every block
    if 0 < 16 * rows.size * dims <= RESCORE_BYTES and rows.min() >= 0:  # the few steps of one query: see `_candidates`
        few = vectors[rows].astype(np.float64)
        few *= queries[:, None, :]
        return np.asarray(np.add.reduce(few, axis=-1), dtype=np.float32)
    scores = np.full(rows.shape, -np.inf, dtype=np.float32)
    if not rows.size:
        return scores
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
    order = np.lexsort((rows.view(np.uint64), -scores), axis=-1)[:, :k]  # as unsigned numbers, pads are the largest
    lines = np.arange(len(rows))[:, None]
    return Found(scores[lines, order], rows[lines, order])


def padded(found: Found, k: int) -> Found:
    """The same with k columns, the missing ones empty."""
    missing = k - found.rows.shape[1]
    if missing <= 0:
        return found
    fill = ((0, 0), (0, missing))
    return Found(np.pad(found.scores, fill, constant_values=-np.inf), np.pad(found.rows, fill, constant_values=-1))


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
    found = Found(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
    try:
        # Not through faiss.knn: a pass through memory leaves nothing in the caches, and each line of Python after it is
        # fetched anew. What surrounds one query's pass was seen to take 7 % of it, a third of that in faiss.knn.
        faiss.knn_inner_product(
            faiss.swig_ptr(queries), faiss.swig_ptr(vectors), vectors.shape[1], len(queries), len(vectors), k,
            faiss.swig_ptr(found.scores), faiss.swig_ptr(found.rows),
        )  # fmt: skip
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
    return found


def exact_top(queries: Floats, vectors: Floats, k: int, *, largest_norm: float) -> Found:
    """The exact first k of ``vectors`` for each query, in the order of this module.

    Args:
        queries: (Q, d) float32, finite. They are searched in equal blocks of at most `BLOCK`.
        vectors: (n, d) float32, C-contiguous, mapped or not.
        k: neighbours wanted, at least 1; at most n come back.
        largest_norm: an upper bound of the norms of ``vectors``.

    Raises:
        ValueError: queries and vectors have other dimensions than each other.
    """
    if queries.shape[1] != vectors.shape[1]:  # faiss is handed pointers, and would read past the end
        raise ValueError(f"queries of {queries.shape[1]} dimensions, vectors of {vectors.shape[1]}")
    n = len(vectors)
    k = min(k, n)
    if k < 1 or not len(queries):
        return Found(np.empty((len(queries), max(k, 0)), np.float32), np.empty((len(queries), max(k, 0)), np.int64))
    on_gpu = k <= GPU_MOST and gpus() > 0
    if len(queries) == 1 and not on_gpu and k < n and (found := _one(queries, vectors, k, largest_norm)) is not None:
        return found
    slack = slack_of(norms_of(queries), vectors.shape[1], largest_norm)
    if len(queries) < PRODUCT_FROM or on_gpu or not numpy_ahead():
        step = 16 * BLOCK if on_gpu else BLOCK  # the vectors go to the GPU once for each block
        parts = [
            settled(
                queries[i : i + step], vectors, k, slack[i : i + step], lambda q, _, take: _candidates(q, vectors, take)
            )
            for i in range(0, len(queries), step)
        ]
        return parts[0] if len(parts) == 1 else Found(*map(np.concatenate, zip(*parts, strict=True)))
    out = Found(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
    blocks = -(-len(queries) // BLOCK)  # equal blocks: no small last one, whose product is slow
    cuts = [len(queries) * i // blocks for i in range(blocks + 1)]

    def search(start: int, end: int) -> None:
        out.scores[start:end], out.rows[start:end] = _products(queries[start:end], vectors, k, slack[start:end])

    _in_threads(search, list(pairwise(cuts)))
    return out


def _one(query: Floats, vectors: Floats, k: int, largest_norm: float) -> Found | None:
    """What `settled` makes of one query, where the first candidates settle it; else None.

    With plain numbers: after a pass through memory each function of numpy's is fetched anew, and those that `settled`
    calls were seen to take 1 to 2 % of it more than these few.
    """
    near = _candidates(query, vectors, min(len(vectors), k + MARGIN))
    exact = query[0].astype(np.float64)
    slack = sqrt(exact.dot(exact)) * largest_norm * vectors.shape[1] * 2.0**-22  # see `slack_of`
    kth, next_ = near.scores[0, k - 1 : k + 1].tolist()
    if not next_ < kth - slack:
        return None
    rows = near.rows[0, :k]
    products = np.asarray(vectors)[rows].astype(np.float64)
    products *= exact
    scores = np.add.reduce(products, axis=-1).astype(np.float32).tolist()  # the bits of `rescore`
    order = sorted(zip([-score for score in scores], rows.tolist(), strict=True))
    return Found(
        np.array([[-score for score, _ in order]], np.float32), np.array([[row for _, row in order]], np.int64)
    )


def exact_set(queries: Floats, vectors: Floats, k: int, slack: Floats) -> Found:
    """As `exact_top`, for a few queries, in any order and with approximate scores: nothing is scored again."""
    near = _candidates(queries, vectors, min(k + 1, len(vectors)))
    if k < len(vectors) and (near.scores[:, k] >= near.scores[:, k - 1] - slack).any():
        return settled(queries, vectors, k, slack, lambda some, _, take: _candidates(some, vectors, take))
    return Found(np.ascontiguousarray(near.scores[:, :k]), np.ascontiguousarray(near.rows[:, :k]))


@cache
def numpy_ahead() -> bool:
    """Whether numpy's matrix product is faster than faiss here, measured once for a process in some 80 ms.

    Each brings a BLAS of its own, which may lack kernels for the processor: on the same machine faiss was seen at a
    quarter of numpy's rate, and ahead of it after an environment variable. What is chosen changes the speed alone.
    """
    import faiss

    vectors = np.random.default_rng(0).random((16384, 256), dtype=np.float32)
    queries = vectors[:64]
    times: dict[str, float] = {}
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 0
    try:
        for _ in range(6):  # in turns: what disturbs one disturbs the other
            for name, work in (
                ("numpy", lambda: np.flatnonzero(queries @ vectors.T > 1e9)),
                ("faiss", lambda: faiss.knn(queries, vectors, 10, metric=faiss.METRIC_INNER_PRODUCT)),
            ):
                start = process_time()  # a busy machine disturbs it less than the clock
                work()
                times[name] = min(times.get(name, inf), process_time() - start)
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
    return times["numpy"] * 1.2 < times["faiss"]


def _in_threads(work: Callable[[int, int], None], cuts: Sequence[tuple[int, int]]) -> None:
    """Work on every run; the matrix product of one goes on while the scores of another are looked through."""
    import faiss

    threads = min(len(cuts), faiss.omp_get_max_threads(), 8)
    if threads < 2:
        for start, end in cuts:
            work(start, end)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, *zip(*cuts, strict=True)))


def slack_of(norms: NDArray[np.float64], dims: int, largest_norm: float) -> Floats:
    """(Q,) how far a float32 score may lie below another, and its vector still come before the other's.

    Twice the error of each, |computed - true| <= d * 2^-24 * |q| * |x| for float32 sums in any order (Higham 2002,
    section 3.1), and as much again, which covers the rounding of the exact score.

    Args:
        norms: (Q,) of the queries.
        dims: d.
        largest_norm: an upper bound of the norms of the vectors.
    """
    slack = (norms * (4 * largest_norm * dims * 2.0**-24)).astype(np.float32)
    return np.asarray(np.nextafter(slack, np.float32(np.inf)))


class Nearest:
    """The candidates of Q queries while blocks of approximate scores go by.

    Kept are all that lie at most the slack (`slack_of`) below the k-th best so far: whatever comes later, the exact
    first k of all that was offered are among them.
    """

    def __init__(self, queries: Floats, k: int, slack: Floats) -> None:
        self._queries, self._k, self._slack = queries, k, slack
        self.floor = np.full(len(queries), -np.inf, np.float32)
        """(Q,) approximate scores below it are of no use."""
        self.crowded = np.zeros(len(queries), bool)
        """(Q,) too many candidates could not be told apart: nothing is kept of these."""
        self._held = Found(np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
        self._waiting: list[tuple[Rows, Floats, Rows]] = []
        self._many = 0
        self._mask = np.empty(0, bool)
        self._rare = False  # whether most lines of the last block held nothing of use

    def offer(self, scores: Floats, rows: Rows, queries: Rows | None = None) -> None:
        """Look through a (q, b) block of approximate scores.

        Args:
            scores: C-contiguous.
            rows: (b,) the row of each column.
            queries: (q,) the query of each line; all of them when None.
        """
        asked = np.arange(len(self.floor)) if queries is None else queries
        lines = len(scores)
        if self._rare:  # the largest of each line is found in a third of the time that comparing all of them takes
            some = np.flatnonzero(scores.max(axis=1) >= self.floor[asked])
            if len(some) < lines // 4:
                scores, asked = scores[some], asked[some]
        if scores.size > len(self._mask):
            self._mask = np.empty(scores.size, bool)
        mask = self._mask[: scores.size].reshape(scores.shape)
        at = np.zeros(0, np.int64)
        rising = bool(np.isneginf(self.floor[asked]).any())  # nothing was offered yet
        for _ in range(2):
            if rising:
                higher = _kth_at_least(scores[:, : 512 * self._k], self._k) - self._slack[asked]
                self.floor[asked] = np.maximum(self.floor[asked], higher)
            np.greater_equal(scores, self.floor[asked, None], out=mask)
            at = np.flatnonzero(mask)
            if rising or len(at) <= 32 * self._k * len(scores):
                break
            rising = True  # scores that grow with the row
        self._rare = len(at) < lines // 4
        if not len(at):
            return
        line = at // scores.shape[1]
        column = at - line * scores.shape[1]
        self._waiting.append((asked[line], scores.reshape(-1)[at], rows[column]))
        self._many += len(at)
        if self._many > 2 * self._k * len(self.floor):
            self.raise_floors()

    def raise_floors(self) -> None:
        """Take what waits among the candidates, and leave out those that it shows to be of no use."""
        if not self._waiting:
            return
        line, score, row = (np.concatenate([w[i] for w in self._waiting]) for i in range(3))
        self._waiting, self._many = [], 0
        order = np.argsort(line, kind="stable")
        line, score, row = line[order], score[order], row[order]
        counts = np.bincount(line, minlength=len(self.floor))
        place = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
        old = self._held.rows.shape[1]
        shape = (len(self.floor), old + int(counts.max()))
        scores, rows = np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int64)
        scores[:, :old], rows[:, :old] = self._held
        scores[line, old + place], rows[line, old + place] = score, row
        order = np.argsort(-scores, axis=1)
        scores = np.take_along_axis(scores, order, 1)
        if shape[1] >= self._k:
            self.floor = np.maximum(self.floor, scores[:, self._k - 1] - self._slack)
        useful = (scores >= self.floor[:, None]) & (scores > -np.inf)
        counts = useful.sum(axis=1)
        over = counts > self._k + CROWD
        if over.any():
            self.crowded |= over
            self.floor[over], useful[over], counts[over] = np.inf, False, 0
        width = int(counts.max())
        rows = np.take_along_axis(rows, order[:, :width], 1)
        self._held = Found(
            np.where(useful[:, :width], scores[:, :width], -np.inf), np.where(useful[:, :width], rows, -1)
        )

    def settled(self, vectors: Floats) -> Found:
        """The exact first k of all that was offered, (Q, k); the lines of crowded queries are empty."""
        self.raise_floors()
        rows = self._held.rows
        scores = np.full(rows.shape, -np.inf, np.float32)
        counts = (rows >= 0).sum(axis=1)
        left, right = 0, min(self._k + 1, rows.shape[1])
        while left < rows.shape[1]:  # few queries have many more candidates than k
            more = slice(None) if left == 0 else np.flatnonzero(counts > left)
            scores[more, left:right] = rescore(self._queries[more], vectors, rows[more, left:right])
            left, right = right, min(2 * right, rows.shape[1])
        return padded(best(scores, rows, self._k), self._k)


def _kth_at_least(scores: Floats, k: int) -> Floats:
    """(q,) a lower bound of the k-th largest of each line: of the largest of groups, if there are enough of those."""
    width = scores.shape[1]
    if width < k:
        return np.full(len(scores), -np.inf, np.float32)
    groups = min(width, max(256, 8 * k))
    largest = scores[:, : width // groups * groups].reshape(len(scores), -1, groups).max(axis=1)
    kth: Floats = np.partition(largest, groups - k, axis=1)[:, groups - k]
    return kth


def _products(queries: Floats, vectors: Floats, k: int, slack: Floats) -> Found:
    """The exact first k by matrix products over blocks of the vectors."""
    n = len(vectors)
    width = min(n, SCORES // len(queries), 16384)
    nearest = Nearest(queries, k, slack)
    room = np.empty(len(queries) * width, np.float32)
    for start in range(0, n, width):
        block = vectors[start : start + width]
        scores = room[: len(queries) * len(block)].reshape(len(queries), len(block))
        np.matmul(queries, block.T, out=scores)
        nearest.offer(scores, np.arange(start, start + len(block)))
    found = nearest.settled(vectors)
    for line in np.flatnonzero(nearest.crowded):
        found.scores[line], found.rows[line] = _alone(queries[line : line + 1], vectors, k)
    return found


def _alone(query: Floats, vectors: Floats, k: int) -> Found:
    """The exact first k of one query, every vector scored exactly."""
    held = Found(np.empty((1, 0), np.float32), np.empty((1, 0), np.int64))
    for start in range(0, len(vectors), SCORES):
        rows = np.arange(start, min(start + SCORES, len(vectors)))[None]
        held = merge([held, Found(rescore(query, vectors, rows), rows)], k)
    return held


def settled(
    queries: Floats, vectors: Floats, k: int, slack: Floats, propose: Callable[[Floats, Rows, int], Found]
) -> Found:
    """The exact first k of what another index finds, asked until nothing that it left out can belong to them.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32 that the proposed rows are rows of.
        k: at most n.
        slack: (Q,) of the queries and vectors, see `slack_of`.
        propose: called with some of the queries, their places in ``queries`` and how many candidates to give; answers
            with float32 scores, whose error is that of a float32 sum, best first, and row -1 where there are no more.
    """
    take = min(len(vectors), k + MARGIN)
    near = propose(queries, np.arange(len(queries)), take)
    out, left = _scored_again(queries, vectors, k, slack, near, last=take == len(vectors))
    while len(left):
        take = min(len(vectors), 4 * take)
        near = propose(queries[left], left, take)
        some, open_ = _scored_again(queries[left], vectors, k, slack[left], near, last=take == len(vectors))
        out.scores[left], out.rows[left] = some
        left = left[open_]
    return out


def first_of(queries: Floats, vectors: Floats, rows: Rows, k: int, slack: Floats) -> Found:
    """The exact first k of each query's own candidates; scored exactly are those alone that can be among them.

    Args:
        queries: (Q, d) float32.
        vectors: (n, d) float32, C-contiguous, mapped or not.
        rows: (Q, c) int64, each at most once in a line; -1 for none.
        k: at least 1; at most c come back.
        slack: (Q,) see `slack_of`.
    """
    import faiss

    if rows.size <= HANDFUL:
        return best(rescore(queries, vectors, rows), rows, k)
    scores = np.empty(rows.shape, np.float32)
    faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # its stub lacks it
        faiss.swig_ptr(scores), faiss.swig_ptr(queries), faiss.swig_ptr(vectors), faiss.swig_ptr(rows),
        vectors.shape[1], *rows.shape,
    )  # fmt: skip
    order = np.argsort(-scores, axis=1)
    lines = np.arange(len(rows))[:, None]
    near = Found(scores[lines, order], rows[lines, order])
    return _scored_again(queries, vectors, min(k, rows.shape[1]), slack, near, last=True)[0]


def _scored_again(
    queries: Floats, vectors: Floats, k: int, slack: Floats, near: Found, *, last: bool
) -> tuple[Found, Rows]:
    """The exact first k of candidates, and which queries need more of them; only what can be among the k is scored."""
    if near.rows.shape[1] > k and (near.scores[:, k] < near.scores[:, k - 1] - slack).all():  # as nearly always
        rows = near.rows[:, :k]
        return best(rescore(queries, vectors, rows), rows, k), np.zeros(0, np.int64)
    useful = near.scores >= (near.scores[:, k - 1] - slack)[:, None]
    if near.rows[:, -1].min() < 0:
        useful &= near.rows >= 0
    open_ = np.flatnonzero(useful[:, -1]) if not last else np.zeros(0, np.int64)
    counts = useful.sum(axis=1)
    counts[open_] = k
    width = int(counts.max(initial=k))
    rows = np.ascontiguousarray(near.rows[:, :width])
    if len(queries) > 64 and width > k + 4:  # few queries need more than the others
        usual = k + 2
        scores = np.full(rows.shape, -np.inf, np.float32)
        scores[:, :usual] = rescore(queries, vectors, rows[:, :usual])
        more = np.flatnonzero(counts > usual)
        scores[more, usual:] = rescore(queries[more], vectors, rows[more, usual:])
    else:
        scores = rescore(queries, vectors, rows)
    return best(scores, rows, k), open_


def nearest_one(queries: Floats, vectors: Floats, *, largest_norm: float) -> Rows:
    """(Q,) the row of the nearest of a few vectors: `exact_top` with k = 1, at little more than the matrix product."""
    rows = np.empty(len(queries), np.int64)
    step = max(1, SCORES // len(vectors))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        scores = block @ vectors.T
        rows[start : start + step] = scores.argmax(axis=1)
        floor = scores.max(axis=1) - slack_of(norms_of(block), vectors.shape[1], largest_norm)
        unclear = np.flatnonzero((scores >= floor[:, None]).sum(axis=1) > 1)
        rows[start + unclear] = exact_top(block[unclear], vectors, 1, largest_norm=largest_norm).rows[:, 0]
    return rows
