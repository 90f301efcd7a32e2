"""Inverted-list indexes of faiss: trained, filled, merged, written and mapped.

ivf-flat      inverted lists of whole vectors
ivf-sq8       inverted lists, 8 bits per dimension
ivf-sqfp16    inverted lists, half precision
ivf-rabitq    inverted lists, 1 bit per dimension (Gao and Long 2024)
ivf-pq        inverted lists, 4-bit product quantisation, fast-scan (Andre et al. 2017)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from demur.errors import IndexFileError, UsageError
from demur.indexing.exact import SCORES, Floats, Nearest, Rows, nearest_one
from demur.store import storage_errors

Kind = Literal["flat", "ivf-flat", "ivf-sq8", "ivf-sqfp16", "ivf-rabitq", "ivf-pq"]
KINDS: tuple[Kind, ...] = get_args(Kind)

ADD_BLOCK = 1 << 16
"""Vectors added to an index at once."""
SAMPLE = 20
"""Training vectors per list."""
ROUNDS = 6
"""Rounds of k-means; more of either move the recall little and cost as much as the search."""
PROBES = 16
"""Inverted lists searched for each query."""
FILL_BYTES = 1 << 26
"""Bytes of vectors whose codes are held at once while lists are filled on the disk."""
REFINE: dict[Kind, int] = {"flat": 1, "ivf-flat": 1, "ivf-sq8": 3, "ivf-sqfp16": 2, "ivf-rabitq": 20, "ivf-pq": 30}
"""Candidates re-ranked, as a multiple of k."""
_NO_LISTS = b"sprs" + bytes(8)
"""How faiss ends the file of an index without vectors: a table of the lists that hold some, of length 0."""


def lists_for(n: int) -> int:
    """Number of inverted lists for n vectors: 2 sqrt(n); filling them then costs as much as 2 sqrt(n) exact queries."""
    return max(1, min(int(2 * sqrt(n)), n // SAMPLE))


def train_centroids(vectors: Floats, lists: int, *, seed: int = 1234) -> Floats:
    """(lists, d) centroids by k-means on at most `SAMPLE` vectors per list, taken at equal steps."""
    import faiss

    rows = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLE * lists)).astype(np.int64))
    sample = np.ascontiguousarray(vectors[rows])
    clustering = faiss.Clustering(sample.shape[1], lists)
    clustering.seed, clustering.verbose = seed, False
    clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, SAMPLE
    clustering.niter = ROUNDS
    clustering.train(sample, faiss.IndexFlatIP(sample.shape[1]))
    centroids: Floats = faiss.vector_to_array(clustering.centroids).reshape(lists, -1).copy()
    return centroids


def empty_ivf(kind: Kind, vectors: Floats, centroids: Floats) -> Any:
    """A trained faiss IVF index of that kind without vectors; ``vectors`` train its quantiser."""
    import faiss

    dims, lists = vectors.shape[1], len(centroids)
    coarse = faiss.IndexFlatIP(dims)
    coarse.add(centroids)
    inner = faiss.METRIC_INNER_PRODUCT
    scalar = faiss.ScalarQuantizer
    makers: dict[str, Callable[[], Any]] = {
        "ivf-flat": lambda: faiss.IndexIVFFlat(coarse, dims, lists, inner),
        "ivf-sq8": lambda: faiss.IndexIVFScalarQuantizer(coarse, dims, lists, scalar.QT_8bit, inner),
        "ivf-sqfp16": lambda: faiss.IndexIVFScalarQuantizer(coarse, dims, lists, scalar.QT_fp16, inner),
        "ivf-rabitq": lambda: faiss.IndexIVFRaBitQ(coarse, dims, lists, inner),
        "ivf-pq": lambda: faiss.IndexIVFPQFastScan(coarse, dims, lists, _subspaces(dims), 4, inner),
    }
    if kind not in makers:
        raise UsageError(f"no index kind named {kind!r}; known: {', '.join(KINDS)}", cure="choose one of them, or auto")
    index = makers[kind]()
    index.own_fields = False
    index.referenced_objects = [coarse]
    rows = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLE * lists, 1 << 18)).astype(np.int64))
    index.train(np.ascontiguousarray(vectors[rows]))
    return index


def _subspaces(dims: int) -> int:
    """Parts of a product quantiser: of four dimensions where that divides, else of two or one."""
    return next(dims // size for size in (4, 2, 1) if dims % size == 0)


def add(index: Any, vectors: Floats, centroids: Floats, first: int, stop: int) -> None:
    """Add rows ``first`` to ``stop`` of ``vectors`` under their row numbers, in memory.

    Each goes to the list of its nearest centroid, found exactly: where a vector goes does not depend on how many are
    added at once. (Fast-scan lists take no assignment from outside: they are filled in blocks that start at multiples
    of `ADD_BLOCK`, wherever a shard begins.)
    """
    while first < stop:
        end = min(stop, (first // ADD_BLOCK + 1) * ADD_BLOCK)
        if _packed(index):
            block = np.ascontiguousarray(vectors[first:end])
            index.add_with_ids(block, np.arange(first, end, dtype=np.int64))
        else:
            _add_to(index, vectors, first, nearest_lists(vectors, centroids, first, end))
        first = end


def nearest_lists(vectors: Floats, centroids: Floats, first: int, stop: int) -> Rows:
    """(stop - first,) the list of each of those rows: that of its nearest centroid."""
    norm = float(np.sqrt(np.square(centroids, dtype=np.float64).sum(axis=1)).max(initial=0))
    return nearest_one(np.ascontiguousarray(vectors[first:stop]), centroids, largest_norm=norm)


def _add_to(index: Any, vectors: Floats, first: int, lists: Rows) -> None:
    """Add the rows from ``first`` on, one to each of ``lists``."""
    import faiss

    block = np.ascontiguousarray(vectors[first : first + len(lists)])
    ids = np.arange(first, first + len(lists), dtype=np.int64)
    index.add_core(len(block), faiss.swig_ptr(block), faiss.swig_ptr(ids), faiss.swig_ptr(lists))


def _packed(index: Any) -> bool:
    """Whether the codes of a list lie interleaved (fast-scan): then lists cannot be joined end to end."""
    import faiss

    return isinstance(index, faiss.IndexIVFPQFastScan)


def build_ivf(kind: Kind, vectors: Floats, path: Path, *, lists: int | None = None) -> dict[str, Any]:
    """Train an inverted-list index on ``vectors``, fill it and write it to ``path``; returns its manifest entries.

    Memory: the training sample, then some `FILL_BYTES` twice and 4 bytes for each vector: lists are filled on the disk.
    ``ivf-pq`` is held whole, an eighth of a byte for each dimension of a vector: its codes lie interleaved by 32
    vectors, so a part of a list has no place of its own in the file.
    """
    centroids = train_centroids(vectors, lists or lists_for(len(vectors)))
    index = empty_ivf(kind, vectors, centroids)
    if _packed(index):
        add(index, vectors, centroids, 0, len(vectors))
        write_faiss(index, path)
        return ivf_entry(kind, len(centroids))
    step = max(1, FILL_BYTES // (4 * vectors.shape[1]))
    starts = range(0, len(vectors), step)
    home = np.empty(len(vectors), np.int32)
    for start in starts:
        home[start : start + step] = nearest_lists(vectors, centroids, start, min(start + step, len(vectors)))

    def blocks() -> Iterator[Any]:
        for start in starts:
            _add_to(index, vectors, start, home[start : start + step].astype(np.int64))
            yield index
            index.reset()

    _write_lists(index, np.bincount(home, minlength=len(centroids)), blocks(), path)
    return ivf_entry(kind, len(centroids))


def ivf_entry(kind: Kind, lists: int) -> dict[str, Any]:
    """What the manifest says of an IVF index: how many lists, how many are searched, how many candidates re-ranked."""
    return {"kind": kind, "lists": lists, "nprobe": min(lists, PROBES), "refine": REFINE[kind]}


class Tuned(NamedTuple):
    """How many inverted lists are to be searched for a recall, and what was measured with as many."""

    probes: int
    recall: float
    """Mean over the questions measured."""
    least: float
    """Lower end of the 95 % interval of the mean over all that will be asked (`least_mean`)."""
    questions: int
    """That were measured."""


def least_mean(values: NDArray[np.float64], asked: float = inf) -> float:
    """Lower end of the 95 % interval of the mean over everything that the values were drawn from.

    That of Student's normal theory, with one more value of 0: where none of n questions missed anything the plain
    interval says 1, and this 1 - 2.96 / (n + 1), nearly the rule of three (Hanley and Lippman-Hand 1983).

    Args:
        values: (n,) each in [0, 1], independent: one for a question, whose neighbours are not.
        asked: how many there are in all, these among them; what was measured needs no interval.
    """
    n, known = len(values), min(1.0, len(values) / asked)
    mean = float(values.sum()) / (n + 1)
    spread = (float(np.square(values - mean).sum()) + mean * mean) / n
    return known * float(values.mean()) + (1 - known) * (mean - 1.96 * sqrt(spread / (n + 1)))


def lists_enough(needed: Rows, recall: float, lists: int, asked: float = inf) -> Tuned:
    """The fewest lists with which the recall of all questions is most likely enough: all, if few were measured.

    Args:
        needed: (Q, k) how many lists must be searched to come upon each neighbour of each question.
        recall: wanted, in (0, 1].
        lists: in all.
        asked: questions that will be asked, these among them.
    """

    def found(probes: int) -> NDArray[np.float64]:
        return np.asarray((needed <= probes).mean(axis=1))

    probes = bisect_left(range(1, lists), recall, key=lambda probes: least_mean(found(probes), asked)) + 1
    least = least_mean(found(probes), asked) if probes < lists else 1.0
    return Tuned(probes, float(found(probes).mean()), least, len(needed))


def offer_lists(index: Any, queries: Floats, probes: Rows, nearest: Nearest) -> None:
    """Score queries against the lists of an ``ivf-flat`` index, list by list: one matrix product for each list.

    Many queries that share lists cost a fraction of what scanning the lists query by query does.

    Args:
        index: a faiss ``IndexIVFFlat``, mapped or read.
        queries: (Q, d) float32.
        probes: (Q, p) the lists of each query, nearest first.
        nearest: of those queries; takes the scores.
    """
    import faiss

    lists, dims = index.invlists, queries.shape[1]
    room = np.empty(0, np.float32)
    for ranks in (probes[:, :1], probes[:, 1:]):  # the nearest lists first: what they hold shuts most others out
        order = np.argsort(ranks, axis=None, kind="stable")
        ends = np.cumsum(np.bincount(ranks.ravel(), minlength=index.nlist))
        for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            size = lists.list_size(number)
            if not size:
                continue
            asked = order[ends[number - 1] if number else 0 : ends[number]] // ranks.shape[1]
            if size * dims > len(room):
                room = np.empty(size * dims, np.float32)
            vectors = room[: size * dims]  # in the file they begin at any byte, from where a product is slow
            vectors.view(np.uint8)[:] = faiss.rev_swig_ptr(lists.get_codes(number), size * 4 * dims)
            ids = list_rows(index, number)
            step = max(1, SCORES // size)
            for start in range(0, len(asked), step):
                some = asked[start : start + step]
                nearest.offer(queries[some] @ vectors.reshape(size, dims).T, ids, some)


def list_rows(index: Any, number: int) -> Rows:
    """The rows in one list of an index; valid as long as the index is."""
    import faiss

    size = index.invlists.list_size(number)
    rows: Rows = faiss.rev_swig_ptr(index.invlists.get_ids(number), size) if size else np.zeros(0, np.int64)
    return rows


def merge_ivf(paths: Sequence[Path], path: Path) -> None:
    """Write one index that holds the lists of several, made from one `empty_ivf` over consecutive rows.

    All are mapped, and lists are copied from disk to disk (those of ``ivf-pq``, which are small, through memory).
    """
    import faiss

    trained = read_faiss(paths[0])
    if _packed(trained):
        whole = read_faiss(paths[0], mapped=False)
        for other in paths[1:]:
            faiss.merge_into(whole, read_faiss(other, mapped=False), False)
        write_faiss(whole, path)
        return
    sizes = np.zeros(trained.nlist, np.int64)
    for one in paths:
        sizes += list_sizes(read_faiss(one))
    none = faiss.ArrayInvertedLists(trained.nlist, trained.code_size)
    trained.replace_invlists(none, False)
    _write_lists(trained, sizes, map(read_faiss, paths), path)


def list_sizes(index: Any) -> Rows:
    """(lists,) how many vectors each list of an index holds."""
    lists = index.invlists
    return np.fromiter(map(lists.list_size, range(index.nlist)), np.int64, index.nlist)


def _write_lists(trained: Any, sizes: Rows, parts: Iterable[Any], path: Path) -> None:
    """Write an index whose lists are those of its parts end to end, without holding more than one part.

    The file is faiss's own: what it writes of a trained index without vectors, which ends with a table of list sizes;
    then for each list the codes and the ids, whose places are known from the sizes. A part goes to its places at once.

    Args:
        trained: an index without vectors.
        sizes: (lists,) vectors in each list in all.
        parts: indexes of the same training; each is written before the next is asked for.
        path: of the file.
    """
    import faiss

    width = trained.code_size
    trained.ntotal = int(sizes.sum())
    head = faiss.serialize_index(trained).tobytes()
    trained.ntotal = 0
    head = head[: -len(_NO_LISTS)] + b"full" + np.array([len(sizes), *sizes], np.uint64).tobytes()
    ends = len(head) + np.cumsum(sizes * (width + 8))
    codes_at = ends - sizes * (width + 8)
    ids_at = ends - sizes * 8
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as handle:
            handle.write(head)
            for part in parts:
                many, lists = list_sizes(part), part.invlists
                for number in np.flatnonzero(many).tolist():
                    size = int(many[number])
                    handle.seek(codes_at[number])
                    handle.write(faiss.rev_swig_ptr(lists.get_codes(number), size * width).data)
                    handle.seek(ids_at[number])
                    handle.write(list_rows(part, number).data)
                codes_at += many * width
                ids_at += many * 8


def write_faiss(index: Any, path: Path) -> None:
    """Write a faiss index; a full disk becomes a `StorageError` that names the file.

    Written through Python's own file: faiss 1.15 reports a failed close on standard error and goes on.
    """
    import faiss

    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as handle:
            faiss.write_index(index, faiss.PyCallbackIOWriter(handle.write))  # type: ignore[attr-defined]  # its stub lacks it


def read_faiss(path: Path, *, mapped: bool = True) -> Any:
    """Open a faiss index, mapped from the disk or read into memory.

    Raises:
        IndexFileError: faiss cannot read it.
    """
    import faiss

    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
    except RuntimeError as error:
        why = str(error).splitlines()[0].split("Error: ")[-1]
        raise IndexFileError(f"faiss cannot read it: {why}", item=str(path), cure="build the index again") from error
