"""Inverted-list indexes of faiss: trained, filled in shards, merged on disk, mapped.

    ivf-flat   lists of whole vectors
    ivf-sq8    lists of 8 bits a dimension, for vectors that do not fit in memory

``index.faiss`` holds the centroids, ``lists.bin`` the lists (`faiss.OnDiskInvertedLists`). A vector goes to the list of
its nearest centroid, found exactly, so the files do not depend on how many are added at once, or by which process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, sqrt
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import IndexFileError, StorageError, UsageError
from demur.core.store import storage_errors
from demur.indexing.exact import Floats, Rows, exact_top, norms_of
from demur.indexing.gpu import load_faiss

KINDS = ("flat", "ivf-flat", "ivf-sq8")
"""Those that `demur.indexing.choose` chooses from; other packages may bring more."""

SAMPLE = 20
"""Training vectors per list."""
ROUNDS = 6
"""Rounds of k-means; more rounds or training vectors raise the recall little and cost as much as the search."""
NPROBE = 16
"""Inverted lists searched for each query, unless tuned."""
FILL_BYTES = 1 << 26
"""Bytes of vectors that are added at once."""
REFINE = {"ivf-flat": 1, "ivf-sq8": 3}
"""Candidates that are scored again, as a multiple of k."""
_READING = Lock()
"""faiss has one limit of what it may read, for all threads."""
LISTS = "lists.bin"
"""The file of the lists, beside ``index.faiss``."""


def lists_for(n: int) -> int:
    """Number of inverted lists for n vectors: 2 sqrt(n). Filling them costs as much as 2 sqrt(n) exact queries."""
    return max(1, min(int(2 * sqrt(n)), n // SAMPLE))


def build_ivf(
    kind: str, vectors: Floats, path: Path, *, lists: int | None = None
) -> dict[str, Any]:
    """Train an inverted-list index on ``vectors``, fill it and write it to ``path``; returns its manifest entries.

    Memory: the training sample and a few times `FILL_BYTES`. Disk: temporarily twice the lists.
    """
    rows = max(1, FILL_BYTES // (4 * vectors.shape[1]))
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        trained = Path(name) / "trained.faiss"
        entry = train(kind, vectors, trained, lists=lists)
        cuts = [(first, min(first + rows, len(vectors))) for first in range(0, len(vectors), rows)]
        merge_lists(trained, [fill(trained, vectors, *cut) for cut in cuts], path)
    return entry


def train(kind: str, vectors: Floats, path: Path, *, lists: int | None = None) -> dict[str, Any]:
    """Write an index with trained centroids and empty lists; returns its manifest entries.

    Raises:
        UsageError: no such kind.
    """
    faiss = load_faiss()

    if kind not in REFINE:
        raise UsageError(
            f"no index kind named {kind!r}; known: {', '.join(KINDS)}",
            cure="choose one of them, or auto",
        )
    dims, lists = vectors.shape[1], lists or lists_for(len(vectors))
    rows = np.unique(
        np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLE * lists)).astype(np.int64)
    )
    sample = np.ascontiguousarray(vectors[rows])  # at equal steps
    means = faiss.Clustering(dims, lists)
    means.seed, means.niter, means.verbose = 1234, ROUNDS, False
    means.min_points_per_centroid, means.max_points_per_centroid = 1, SAMPLE
    means.train(sample, faiss.IndexFlatIP(dims))
    coarse = faiss.IndexFlatIP(dims)
    coarse.add(faiss.vector_to_array(means.centroids).reshape(lists, dims))
    inner = faiss.METRIC_INNER_PRODUCT
    if kind == "ivf-flat":
        index: Any = faiss.IndexIVFFlat(coarse, dims, lists, inner)
    else:
        index = faiss.IndexIVFScalarQuantizer(
            coarse, dims, lists, faiss.ScalarQuantizer.QT_8bit, inner
        )
    index.train(sample)
    write_faiss(index, path)
    return {"kind": kind, "lists": lists, "nprobe": min(lists, NPROBE), "refine": REFINE[kind]}


def fill(trained: Path, vectors: Floats, first: int, stop: int) -> Path:
    """Put rows ``first`` to ``stop`` of ``vectors`` into lists; returns their file, beside ``trained``."""
    faiss = load_faiss()

    index: Any = faiss.read_index(str(trained))
    block = np.ascontiguousarray(vectors[first:stop])
    home = nearest_lists(block, centroids_of(index))
    ids = np.arange(first, stop, dtype=np.int64)
    index.add_core(len(block), faiss.swig_ptr(block), faiss.swig_ptr(ids), faiss.swig_ptr(home))
    path = trained.with_name(f"{first}.faiss")
    write_faiss(index, path)
    return path


def centroids_of(index: Any) -> Floats:
    """(lists, d) the centroids of an index."""
    faiss = load_faiss()

    coarse = faiss.downcast_index(index.quantizer)
    centroids: Floats = coarse.reconstruct_n(0, coarse.ntotal)
    return centroids


def nearest_lists(vectors: Floats, centroids: Floats) -> Rows:
    """(n,) the list of each vector, that of its nearest centroid."""
    norm = float(norms_of(centroids).max(initial=0))
    return np.ascontiguousarray(
        exact_top(vectors, centroids, 1, largest_norm=norm, ordered=False).rows[:, 0]
    )


def merge_lists(trained: Path, shards: Sequence[Path], path: Path) -> None:
    """Write one index that holds the lists of several, all of one training; lists are copied from disk to disk.

    Raises:
        StorageError: they do not fit on the disk.
    """
    faiss = load_faiss()
    from faiss.contrib.ondisk import merge_ondisk

    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        needed, free = (
            sum(shard.stat().st_size for shard in shards),
            shutil.disk_usage(path.parent).free,
        )
        if needed > free:  # faiss writes to a mapped file: a full disk would kill the process
            raise StorageError(
                f"the lists need {needed:,} bytes, the disk has {free:,}",
                item=path,
                cure="free some space, run again",
            )
        index: Any = faiss.read_index(str(trained))
        with _silence_stdout():
            merge_ondisk(index, list(map(str, shards)), str(path.with_name(LISTS)))
        joined: Any = faiss.downcast_InvertedLists(index.invlists)
        joined.filename = LISTS  # the same bytes wherever the folder lies
        write_faiss(index, path)


@contextmanager
def _silence_stdout() -> Iterator[None]:
    """Discard what C code writes to standard output: faiss prints a line there for each file that it makes."""
    flush = getattr(ctypes.CDLL(None) if os.name == "posix" else None, "fflush", lambda _: 0)
    flush(None)
    saved_stdout, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
        flush(None)
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
        os.close(null)


def write_faiss(index: Any, path: Path) -> None:
    """Write a faiss index; a full disk becomes a `StorageError` that names the file.

    Written through Python's own file: faiss 1.15 reports a failed close on standard error and goes on.
    """
    faiss = load_faiss()

    with storage_errors(path), path.open("wb") as handle:
        faiss.write_index(index, faiss.PyCallbackIOWriter(handle.write))


_HEADER = struct.Struct("<4siqqq?iQQ4s")
"""What the file of an index of lists begins with: its kind, dimensions, number of vectors, two fillers, whether it is
trained, the metric, the number of lists, how many are searched, the kind of the index of its centroids."""
_KINDS = {"ivf-flat": b"IwFl", "ivf-sq8": b"IwSq"}
_CENTROIDS = b"IxFI"


def open_lists(path: Path, kind: str, dims: int, count: int) -> Any:
    """Open what `merge_lists` wrote; the lists are mapped.

    faiss trusts what it reads, and reads beyond it where sizes lie: everything that it will use is checked here.

    Args:
        path: of the index; its lists lie beside it.
        kind: ``ivf-flat`` or ``ivf-sq8``.
        dims: dimensions of its vectors.
        count: number of its vectors.

    Raises:
        IndexFileError: it is not such an index, or the file of its lists is missing or truncated.
    """
    faiss = load_faiss()

    file = path.with_name(LISTS)
    with storage_errors(path), path.open("rb") as handle:
        begin = handle.read(_HEADER.size).ljust(_HEADER.size, b"\0")
    code, d, total, _, _, _, metric, number, _, centroids = _HEADER.unpack(begin)
    inner = faiss.METRIC_INNER_PRODUCT
    if (code, metric, centroids) != (_KINDS[kind], inner, _CENTROIDS) or number < 1:
        raise IndexFileError(f"this is no {kind} index of demur", item=path)
    if (d, total) != (dims, count):
        raise IndexFileError(f"expected {count} vectors of {dims}, found {total} of {d}", item=path)
    with faiss_errors(path):
        # Mapped by hand: if faiss itself looks for the lists beside the index, it prints so on standard output.
        with _bound_memory(path):
            index: Any = faiss.read_index(
                str(path), faiss.IO_FLAG_SKIP_IVF_DATA | faiss.IO_FLAG_READ_ONLY
            )
        lists: Any = faiss.downcast_InvertedLists(index.invlists)
        lists.filename = str(file)
        size = file.stat().st_size if file.is_file() else -1
        if size != lists.totsize:
            raise IndexFileError(f"expected {lists.totsize} bytes, found {size}", item=file)
        coarse: Any = faiss.downcast_index(index.quantizer)
        each = dims
        if kind == "ivf-flat":
            each *= 4
        elif (index.sq.qtype, index.sq.d, index.sq.trained.size()) != (
            faiss.ScalarQuantizer.QT_8bit,
            dims,
            2 * dims,
        ):
            raise IndexFileError("its codes are of another kind", item=path)
        sizes = (index.code_size, lists.code_size, lists.nlist, lists.lists.size(), index.nlist)
        of_centroids = (coarse.d, coarse.ntotal, coarse.codes.size())
        if sizes != (each, each, number, number, number) or of_centroids != (
            dims,
            number,
            4 * dims * number,
        ):
            raise IndexFileError("its sizes contradict each other", item=path)
        ends = [
            (entry.size, entry.capacity, entry.offset)
            for entry in map(lists.lists.at, range(number))
        ]
        width = each + 8
        if sum(size for size, _, _ in ends) != count or any(
            size > room or (room and at + room * width > lists.totsize) for size, room, at in ends
        ):
            raise IndexFileError("its lists reach past the end of their file", item=file)
        lists.do_mmap()
    return index


@contextmanager
def faiss_errors(item: Path) -> Iterator[None]:
    """Whatever faiss and its wrapper raise about a file, as an `IndexFileError` that names it."""
    try:
        yield
    except (RuntimeError, MemoryError, AttributeError, TypeError, ValueError, IndexError) as error:
        why = (str(error).splitlines() or ["it asks for too much memory"])[0].split("Error: ")[-1]
        raise IndexFileError(f"faiss cannot read it: {why}", item=item) from error


@contextmanager
def _bound_memory(path: Path) -> Iterator[None]:
    """While a file is read, faiss allocates little more for anything in it than the file is large."""
    faiss = load_faiss()

    with storage_errors(path):
        size = path.stat().st_size
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):  # before 1.14
        yield
        return
    with _READING:
        before = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(4 * size + (1 << 20))
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before)


# --- how many lists a recall needs -----------------------------------------------------------------


class Tuned(NamedTuple):
    """How many inverted lists must be searched for a recall, and what was measured with that many."""

    nprobe: int
    recall: float
    """Mean over the questions measured."""
    least: float
    """Lower end of the 95 % interval of the mean over all questions (`least_mean`)."""
    questions: int
    """Number of questions measured."""


def least_mean(values: NDArray[np.float64], queries_to_come: float = inf) -> float:
    """Lower end of the 95 % interval of the mean over the population that the values are a sample of.

    The normal approximation, with one more value of 0: if none of n questions missed anything, the plain interval
    would begin at 1, and this one begins at 1 - 2.96 / (n + 1), nearly the rule of three (Hanley and Lippman-Hand
    1983).

    Args:
        values: (n,) each in [0, 1], independent: one for each question (its neighbours are not independent).
        queries_to_come: size of the population, including these; what was measured needs no interval.
    """
    n, measured_share = len(values), min(1.0, len(values) / queries_to_come)
    mean = float(values.sum()) / (n + 1)
    spread = (float(np.square(values - mean).sum()) + mean * mean) / n
    return measured_share * float(values.mean()) + (1 - measured_share) * (
        mean - 1.96 * sqrt(spread / (n + 1))
    )


def lists_enough(needed: Rows, recall: float, lists: int, queries_to_come: float = inf) -> Tuned:
    """The fewest lists whose interval of recall begins at ``recall`` or above: all lists, if few were measured.

    Args:
        needed: (Q, k) how many lists must be searched to find each neighbour of each question.
        recall: wanted, in (0, 1].
        lists: number of lists in all.
        queries_to_come: number of questions that will be asked, including these.
    """

    def recalls_with(nprobe: int) -> NDArray[np.float64]:
        return np.asarray((needed <= nprobe).mean(axis=1))

    nprobe = (
        bisect_left(
            range(1, lists),
            recall,
            key=lambda nprobe: least_mean(recalls_with(nprobe), queries_to_come),
        )
        + 1
    )
    least = least_mean(recalls_with(nprobe), queries_to_come) if nprobe < lists else 1.0
    return Tuned(nprobe, float(recalls_with(nprobe).mean()), least, len(needed))
