"""Embed any number of texts or images into a folder that a killed run can go on from.

    items -> [threads: read, decode, resize] -> encoder -> vectors.npy + ids.jsonl + errors.jsonl, shard by shard

The folder holds:

    manifest.json   what it is: encoder, fingerprint, space, sizes and hashes of the other files; written last
    vectors.npy     (n, d) float32, row by row in the order of the items
    ids.jsonl       n lines, each the id of its row as a JSON string
    errors.jsonl    the items that have no row, and why
    shards.jsonl    one line per finished shard: hash of its input, sizes and hashes of what it appended

A shard is appended to the three data files, then noted in ``shards.jsonl``. A killed run leaves at worst one shard
that is not noted: the next run cuts it off and does it again, so that the finished folder is, byte for byte, that of a
run that was never stopped. When items were added at the end, the shards before them are kept as well. Memory holds one
shard, the images on their way, and eight bytes per id (to notice ids that repeat).
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from demur.errors import CallError, DataError, IndexFileError, StorageError, UsageError
from demur.indexing.encoders import Preparing, Role
from demur.indexing.pixels import rgb
from demur.records import ImageRef
from demur.store import canonical, digest, file_digest, read_image, read_json, storage_errors, write_atomic, write_json

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder

FORMAT = 1
"""Of the folder; another number is refused."""
_DATA = ("vectors.npy", "ids.jsonl", "errors.jsonl")
_HEADER = 128
"""Bytes before the rows in ``vectors.npy``; fixed, so that the row count can be written when it is known."""


class Item(NamedTuple):
    """One thing to embed: a text or an image."""

    id: str
    text: str | None = None
    image: bytes | Path | Callable[[], bytes] | None = None
    """Encoded bytes, a file, or a function that fetches the bytes (called in a worker thread)."""
    key: str = ""
    """Hash of the content, where it is known: lets a later run notice that a file changed behind the same id."""

    @classmethod
    def of_image(cls, id: str, ref: ImageRef, root: Path | None = None) -> Item:
        """An item for a referenced image; its bytes are read, and checked against their hash, when it is its turn."""
        return cls(id, image=partial(read_image, ref, root), key=ref.sha256)


# --- the finished folder ---------------------------------------------------------------------------


class Ids(Sequence[str]):
    """The ids of a folder in row order, read from the mapped file on demand (8 bytes of memory per id)."""

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._count = path, count

    @cached_property
    def _lines(self) -> tuple[bytes | mmap.mmap, NDArray[np.int64]]:
        with storage_errors(self._path), self._path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        ends = [np.zeros(1, np.int64)]
        for start in range(0, len(data), 1 << 24):
            block = np.frombuffer(data[start : start + (1 << 24)], np.uint8)
            ends.append(np.flatnonzero(block == ord("\n")) + start + 1)
        offsets = np.concatenate(ends)
        if len(offsets) != self._count + 1:
            raise IndexFileError(
                f"it has {len(offsets) - 1} ids, its manifest says {self._count}",
                item=str(self._path),
                cure="embed again",
            )
        return data, offsets

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        row = range(self._count)[index]
        data, offsets = self._lines
        return str(json.loads(data[offsets[row] : offsets[row + 1]]))

    def __iter__(self) -> Iterator[str]:
        with storage_errors(self._path), self._path.open("rb") as handle:
            for line in handle:
                yield str(json.loads(line))


@dataclass(frozen=True)
class Embedded:
    """A finished folder of vectors, opened without reading them."""

    path: Path
    encoder: str
    """Canonical name of the encoder."""
    note: str
    fingerprint: str
    similarity: Literal["cosine", "dot"]
    space: str
    role: Role
    failed: int
    """Items without a row; `errors` tells each."""
    ids: Ids
    vectors: np.memmap[Any, np.dtype[np.float32]] = field(repr=False)
    """(n, d) float32, mapped read-only."""

    @classmethod
    def open(cls, path: Path, *, verify: bool = False) -> Embedded:
        """Open a finished folder; sizes are checked always, content hashes when ``verify`` is set (reads everything).

        Raises:
            IndexFileError: unfinished, foreign, truncated or altered; names the file.
        """
        place = path / "manifest.json"
        if not place.exists():
            half = (path / "shards.jsonl").exists()
            raise IndexFileError(
                "the embedding was not finished" if half else "not a folder of embeddings: it has no manifest.json",
                item=str(path),
                cure="run the same command again" if half else "check the path",
            )
        manifest = read_json(place)
        if (
            not isinstance(manifest, dict)
            or manifest.get("kind") != "demur embeddings"
            or manifest.get("format") != FORMAT
        ):
            raise IndexFileError("not embeddings that this demur can read", item=str(place), cure="embed again")
        for name, stated in manifest["files"].items():
            _check_file(path / name, stated, verify=verify)
        shape = (manifest["count"], manifest["dimensions"])
        with storage_errors(path / "vectors.npy"), (path / "vectors.npy").open("rb") as handle:
            if handle.read(_HEADER) != _npy_header(*shape):
                raise IndexFileError(
                    f"its header does not say {shape}", item=str(path / "vectors.npy"), cure="embed again"
                )
        vectors: Any
        if shape[0]:
            vectors = np.memmap(path / "vectors.npy", np.float32, "r", offset=_HEADER, shape=shape)
        else:
            vectors = np.empty(shape, np.float32)  # nothing cannot be mapped
        return cls(
            path,
            manifest["encoder"],
            manifest["note"],
            manifest["fingerprint"],
            manifest["similarity"],
            manifest["space"],
            manifest["role"],
            manifest["failed"],
            Ids(path / "ids.jsonl", manifest["count"]),
            vectors,
        )

    def errors(self) -> Iterator[tuple[str, str]]:
        """(id, why) of every item that has no row, in the order of the items."""
        with storage_errors(self.path), (self.path / "errors.jsonl").open("rb") as handle:
            for line in handle:
                row = json.loads(line)
                yield row["id"], row["error"]

    def expect(self, fingerprint: str, space: str) -> None:
        """Check that vectors of that encoder and space may be compared with these.

        Raises:
            IndexFileError: they may not; names both.
        """
        if (self.fingerprint, self.space) != (fingerprint, space):
            raise IndexFileError(
                f"these vectors are of {self.encoder} ({self.fingerprint[:12]}) in space {self.space!r}, "
                f"not of {fingerprint[:12]} in {space!r}: they cannot be compared",
                item=str(self.path),
                cure="use the encoder that made them, or embed again",
            )


def _check_file(path: Path, stated: dict[str, Any], *, verify: bool) -> None:
    size = path.stat().st_size if path.exists() else -1
    if size != stated["bytes"]:
        found = "it is missing" if size < 0 else f"it has {size:,} bytes"
        raise IndexFileError(f"{found}, its manifest says {stated['bytes']:,}", item=str(path), cure="embed again")
    if verify and file_digest(path) != stated["sha256"]:
        raise IndexFileError("its content is not what its manifest says", item=str(path), cure="embed again")


def _npy_header(rows: int, dimensions: int) -> bytes:
    """The head of a version 1.0 ``.npy`` file of a C-ordered little-endian float32 matrix, padded to a fixed size."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11).encode() + b"\n"


# --- making it -------------------------------------------------------------------------------------


def embed(
    items: Iterable[Item],
    encoder: Encoder,
    space: str,
    out: Path,
    *,
    role: Role = "passage",
    shard: int = 8192,
    workers: int = 2,
    progress: bool | Callable[[int, int], None] = True,
    elsewhere: Elsewhere | None = None,
    distinct: bool = False,
) -> Embedded:
    """Embed ``items`` into the folder ``out``, going on where an earlier run was stopped.

    Items that cannot be embedded (an unreadable image, an empty text, an id that repeats, a vector of length zero or
    with NaN) are recorded in ``errors.jsonl`` and counted; they never end the run.

    Args:
        items: streamed once, in an order that a second run repeats. Where there are many images, give functions or
            paths rather than bytes: a run that goes on holds the items of one shard while it compares them.
        encoder: what embeds.
        space: one of the encoder's spaces.
        out: the folder; made when missing. Shards already there are kept where their input is the same.
        role: what the texts are for.
        shard: items per shard, for a new folder; a folder goes on with its own.
        workers: threads that read, decode and resize images.
        progress: show a bar with rate and remaining time on standard error; or a function told (items done, items in
            all, 0 when unknown) after every batch.
        elsewhere: makes the shards in other processes; ``items`` must have a length then, and ids must not repeat.
        distinct: ids are known not to repeat: they are not looked at, which saves some 20 bytes of memory each.

    Raises:
        IndexFileError: ``out`` holds vectors of another encoder, space or role, or something else altogether.
        UsageError: the encoder does not serve ``space``, or another process is writing ``out``.
        StorageError: ``out`` cannot be written; what is done is kept.
    """
    if shard < 1 or workers < 1:
        raise UsageError(f"shard={shard} and workers={workers} must be 1 or more", cure="leave them out")
    if space not in encoder.dims:
        raise UsageError(
            f"it has no space named {space!r}", item=encoder.name, cure=f"choose from {', '.join(sorted(encoder.dims))}"
        )
    plan = {
        "kind": "demur embeddings",
        "format": FORMAT,
        "encoder": encoder.name,
        "note": encoder.note,
        "fingerprint": encoder.fingerprint(),
        "similarity": encoder.similarity,
        "space": space,
        "role": role,
        "dimensions": encoder.dims[space],
    }
    total = len(items) if isinstance(items, Sized) else None
    with (
        _locked(out),
        _Folder.open(out, plan, shard) as folder,
        _Work(encoder, space, role, workers, distinct=distinct) as work,
        _shown(f"{encoder.name} {space}", total, progress) as bar,
    ):
        stream = _past_finished(iter(items), folder, work, bar)
        if elsewhere is not None:
            if total is None:
                raise UsageError("items of unknown number cannot be embedded elsewhere", cure="give a sequence")
            first = sum(shard.items for shard in folder.done)
            runs = [(start, min(start + folder.shard, total)) for start in range(first, total, folder.shard)]
            for made, run in zip(elsewhere(runs), runs, strict=True):
                if made.items != run[1] - run[0]:
                    raise StorageError(
                        f"items {run[0]} to {run[1]} came back as {made.items}", item=str(out), cure="run it again"
                    )
                folder.append(made)
                if bar:
                    bar.advance(made.items, made.failed)
        else:
            tasks = _read_ahead(stream, work)
            while here := work.shard(tasks, folder.shard, bar):
                folder.append(here)
        folder.finish()
    return Embedded.open(out)


def make_shard(items: Sequence[Item], encoder: Encoder, space: str, *, role: Role, workers: int = 2) -> MadeShard:
    """Embed the items of one shard, for a folder that another process writes (see `embed`, ``elsewhere``)."""
    with _Work(encoder, space, role, workers) as work:
        made = work.shard(_read_ahead(iter(items), work), len(items), None)
    if made is None:
        raise UsageError("a shard without items", cure="give one or more")
    return made


class MadeShard(NamedTuple):
    """One finished shard."""

    input: str
    """Hash of its items."""
    items: int
    failed: int
    vectors: bytes
    ids: bytes
    errors: bytes


Elsewhere = Callable[[Sequence[tuple[int, int]]], Iterator[MadeShard]]
"""Runs of items (first, stop) to their shards by `make_shard`, in the order of the runs."""


class _Task(NamedTuple):
    """One item on its way to the model."""

    item: Item
    why: str
    """Why it cannot be embedded; "" while nothing is wrong."""
    image: Future[Any] | None


def _mark(item: Item) -> bytes:
    """32 bytes that change with the item's id or content (with its place, where the content is not known before)."""
    if item.text is not None:
        content = item.text.encode("utf-8", "surrogatepass")
    elif item.key:
        content = item.key.encode()
    elif isinstance(item.image, bytes):
        content = item.image
    else:
        content = str(item.image).encode("utf-8", "surrogatepass") if isinstance(item.image, Path) else b""
    name = item.id.encode("utf-8", "surrogatepass")
    kind = b"t" if item.text is not None else b"i"
    return hashlib.sha256(b"%d:%b%b%b" % (len(name), name, kind, content)).digest()


def _input_digest(items: Iterable[Item]) -> str:
    return hashlib.sha256(b"".join(_mark(item) for item in items)).hexdigest()


def _past_finished(items: Iterator[Item], folder: _Folder, work: _Work, bar: _Watching | None) -> Iterator[Item]:
    """Pass over the shards that are already there; what remains of ``items`` from the first that is not."""
    for number, done in enumerate(tuple(folder.done)):
        chunk = list(islice(items, folder.shard))
        if len(chunk) != done.items or _input_digest(chunk) != done.input:
            folder.cut(number)
            return chain(chunk, items)
        for item in chunk:
            work.is_new(item.id)
        if bar:
            bar.skip(done.items, done.failed)
    return items


def _read_ahead(items: Iterable[Item], work: _Work) -> Iterator[_Task]:
    """Tasks in the order of the items, with the images of the next ones being decoded meanwhile."""
    waiting: deque[_Task] = deque()
    for item in items:
        waiting.append(work.begin(item))
        if len(waiting) > work.ahead:
            yield waiting.popleft()
    yield from waiting


class _Seen:
    """Which ids there were: 64 bits of hash each, in sorted runs that are merged as they grow.

    Two different ids share 64 bits once in 2^64 pairs: among a hundred million ids the odds are one in 3,700 that one
    of them is taken for a repetition, and then it is named in ``errors.jsonl``.
    """

    def __init__(self) -> None:
        self._fresh: set[int] = set()
        self._runs: list[NDArray[np.uint64]] = []

    def is_new(self, id: str) -> bool:
        """Whether this id is met for the first time; notes it."""
        hashed = int.from_bytes(hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        key = np.uint64(hashed)
        if hashed in self._fresh or any(_holds(run, key) for run in self._runs):
            return False
        self._fresh.add(hashed)
        if len(self._fresh) == 65536:
            run = np.sort(np.fromiter(self._fresh, np.uint64, len(self._fresh)))
            while self._runs and len(self._runs[-1]) <= len(run):
                run = np.sort(np.concatenate([self._runs.pop(), run]))
            self._runs.append(run)
            self._fresh = set()
        return True


def _holds(run: NDArray[np.uint64], key: np.uint64) -> bool:
    place = int(np.searchsorted(run, key))
    return place < len(run) and bool(run[place] == key)


class _Work:
    """From items to rows: the decoding threads, the model, and what can be wrong with an item."""

    def __init__(self, encoder: Encoder, space: str, role: Role, workers: int, *, distinct: bool = False) -> None:
        self._encoder, self._space, self._role = encoder, space, role
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self._step = int(getattr(encoder, "batch", 64))
        # one batch ready while the next fills: the model need not wait when the processors are wanted elsewhere
        self.ahead = 2 * self._step + 4 * workers
        self.is_new: Callable[[str], bool] = (lambda id: True) if distinct else _Seen().is_new

    def __enter__(self) -> _Work:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, item: Item) -> _Task:
        """Check an item and, when it is an image, have it decoded."""
        why = self._wrong(item)
        image = self._pool.submit(self._decoded, item) if not why and item.text is None else None
        return _Task(item, why, image)

    def _wrong(self, item: Item) -> str:
        if not item.id:
            return "its id is empty"
        if not self.is_new(item.id):
            return "its id repeats that of an earlier item"
        if (item.text is None) == (item.image is None):
            return "it must have either a text or an image"
        if item.text is not None and not item.text.strip():
            return "its text is empty"
        try:
            (item.text or "").encode()
        except UnicodeEncodeError:
            return "its text is not valid Unicode"
        return ""

    def _decoded(self, item: Item) -> Any:
        """In a decoding thread: the image as the encoder takes it."""
        source = item.image
        if isinstance(source, Path):
            with storage_errors(source):
                data = source.read_bytes()
        else:
            data = source if isinstance(source, bytes) else source() if source else b""
        picture = rgb(data, item.id)
        return self._encoder.prepared(picture, self._space) if isinstance(self._encoder, Preparing) else picture

    def shard(self, tasks: Iterator[_Task], size: int, bar: _Watching | None) -> MadeShard | None:
        """Embed the next ``size`` tasks, in batches that start anew with each shard; None when there are none left."""
        marks: list[bytes] = []
        rows: list[NDArray[np.float32]] = []
        ids: list[str] = []
        errors: list[str] = []
        while batch := list(islice(tasks, min(self._step, size - len(marks)))):
            marks += [_mark(task.item) for task in batch]
            before = len(errors)
            for task, row, why in self._embedded(batch):
                if row is None:
                    errors.append(canonical({"id": task.item.id, "error": why}))
                else:
                    rows.append(row)
                    ids.append(json.dumps(task.item.id))
            if bar:
                bar.advance(len(batch), len(errors) - before)
        if not marks:
            return None
        vectors = np.stack(rows).astype("<f4").tobytes() if rows else b""
        return MadeShard(
            hashlib.sha256(b"".join(marks)).hexdigest(), len(marks), len(errors), vectors, _lines(ids), _lines(errors)
        )

    def _embedded(self, batch: list[_Task]) -> Iterator[tuple[_Task, NDArray[np.float32] | None, str]]:
        """Each task of a batch with its row, or with the reason why it has none."""
        whys = [task.why for task in batch]
        found: dict[int, NDArray[np.float32]] = {}
        images: dict[int, Any] = {}
        for place, task in enumerate(batch):
            if task.image is not None:
                try:
                    images[place] = task.image.result()
                except (DataError, StorageError, CallError) as error:
                    whys[place] = error.message
                except OSError as error:  # of the function that fetches it
                    whys[place] = f"the image cannot be had: {error}"
        texts = {i: t.item.text for i, t in enumerate(batch) if not t.why and t.item.text is not None}
        if texts:
            found |= zip(
                texts,
                self._checked(self._encoder.texts(list(texts.values()), self._space, role=self._role), len(texts)),
                strict=True,
            )
        if images:
            encode = self._encoder.images_prepared if isinstance(self._encoder, Preparing) else self._encoder.images
            found |= zip(images, self._checked(encode(list(images.values()), self._space), len(images)), strict=True)
        for place, task in enumerate(batch):
            row = found.get(place)
            if row is None:
                yield task, None, whys[place]
            elif not np.isfinite(row).all():
                yield task, None, "its vector holds NaN or infinity"
            elif not row.any():
                yield task, None, "its vector has length zero"
            else:
                yield task, row, ""

    def _checked(self, rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        shape = (count, self._encoder.dims[self._space])
        if rows.shape != shape:
            raise UsageError(
                f"it gave rows of shape {rows.shape} where {shape} was due",
                item=self._encoder.name,
                cure="mend the encoder",
            )
        return rows


def _lines(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")


class _Shard(NamedTuple):
    """A line of ``shards.jsonl``."""

    input: str
    items: int
    failed: int
    rows: int
    bytes: tuple[int, int, int]
    """What it appended to each data file."""
    sha256: tuple[str, str, str]


class _Folder:
    """The writing end of a folder of embeddings."""

    def __init__(self, path: Path, plan: dict[str, Any], shard: int, done: list[_Shard]) -> None:
        self._path, self._plan, self.shard, self.done = path, plan, shard, done
        self._handles: list[IO[bytes]] = []

    @classmethod
    def open(cls, path: Path, plan: dict[str, Any], shard: int) -> _Folder:
        """Read what is there: of the same plan, and every noted shard whole (checked by its hashes)."""
        ledger = path / "shards.jsonl"
        if not ledger.exists():
            foreign = [name for name in (*_DATA, "manifest.json") if (path / name).exists()]
            if foreign:
                raise IndexFileError(
                    "the folder holds something else", item=str(path / foreign[0]), cure="choose another"
                )
            write_atomic(ledger, canonical({"plan": plan, "shard": shard}) + "\n")
            return cls(path, plan, shard, [])
        with storage_errors(ledger):
            lines = ledger.read_bytes().split(b"\n")[:-1]  # a torn last line has no end
        try:
            head, *rest = [json.loads(line) for line in lines]
            found = head["plan"]
            done = [_Shard(**{**row, "bytes": tuple(row["bytes"]), "sha256": tuple(row["sha256"])}) for row in rest]
            shard = int(head["shard"])
        except (ValueError, KeyError, TypeError) as error:
            raise IndexFileError(
                f"not a ledger of shards: {error}", item=str(ledger), cure="embed into another folder"
            ) from error
        differs = [key for key in plan if found.get(key) != plan[key]]
        if differs:
            key = next((k for k in ("encoder", "space", "role") if k in differs), differs[0])
            old, new = (str(values.get(key))[:60] for values in (found, plan))
            raise IndexFileError(
                f"its vectors are of {key} {old!r}, not {new!r}: they cannot be mixed",
                item=str(path),
                cure="choose another folder, or delete this one",
            )
        if not (path / "manifest.json").exists():  # stopped at some moment: trust nothing
            done = done[: _whole(path, done)]
        return cls(path, plan, shard, done)

    def __enter__(self) -> _Folder:
        with storage_errors(self._path):
            for name in _DATA:
                place = self._path / name
                self._handles.append(place.open("r+b" if place.exists() else "w+b"))
        if not (self._path / "manifest.json").exists():
            self.cut(len(self.done))
        return self

    def __exit__(self, *_: object) -> None:
        with storage_errors(self._path), ExitStack() as closing:  # a full disk refuses what is still in a buffer
            for handle in self._handles:
                closing.callback(handle.close)

    def cut(self, number: int) -> None:
        """Forget shard ``number`` and all after it: the folder is unfinished from here on."""
        self.done = self.done[:number]
        with storage_errors(self._path):
            (self._path / "manifest.json").unlink(missing_ok=True)
            head = canonical({"plan": self._plan, "shard": self.shard})
            write_atomic(self._path / "shards.jsonl", _lines([head, *(canonical(s._asdict()) for s in self.done)]))
            for which, handle in enumerate(self._handles):
                handle.truncate(_start(which) + sum(s.bytes[which] for s in self.done))  # also leaves room for the head
                handle.seek(0, os.SEEK_END)

    def append(self, made: MadeShard) -> None:
        """Add a shard's rows, have the disk keep them, and only then note the shard."""
        if (self._path / "manifest.json").exists():
            self.cut(len(self.done))
        blobs = (made.vectors, made.ids, made.errors)
        with storage_errors(self._path):
            for handle, blob in zip(self._handles, blobs, strict=True):
                handle.write(blob)
                handle.flush()
                os.fsync(handle.fileno())
            sizes, hashes = [len(b) for b in blobs], [digest(b) for b in blobs]
            rows = made.items - made.failed
            entry = _Shard(
                made.input,
                made.items,
                made.failed,
                rows,
                (sizes[0], sizes[1], sizes[2]),
                (hashes[0], hashes[1], hashes[2]),
            )
            with (self._path / "shards.jsonl").open("ab") as ledger:
                ledger.write(_lines([canonical(entry._asdict())]))
                ledger.flush()
                os.fsync(ledger.fileno())
        self.done.append(entry)

    def finish(self) -> None:
        """Write the row count and the manifest; nothing is touched when the folder was finished as it is."""
        if (self._path / "manifest.json").exists():
            return
        count = sum(s.rows for s in self.done)
        with storage_errors(self._path):
            self._handles[0].seek(0)
            self._handles[0].write(_npy_header(count, self._plan["dimensions"]))
            for handle in self._handles:
                handle.flush()
                os.fsync(handle.fileno())
        files = [self._path / name for name in (*_DATA, "shards.jsonl")]
        stated = {f.name: {"bytes": f.stat().st_size, "sha256": file_digest(f)} for f in files}
        facts = {"count": count, "failed": sum(s.failed for s in self.done), "files": stated}
        write_json(self._path / "manifest.json", self._plan | facts)


def _start(which: int) -> int:
    """Where the rows of a data file begin."""
    return _HEADER if _DATA[which] == "vectors.npy" else 0


def _whole(path: Path, done: list[_Shard]) -> int:
    """How many of the noted shards, from the first, are on the disk as they were noted."""
    for which, name in enumerate(_DATA):
        place = path / name
        if not place.exists():
            return 0
        with storage_errors(place), place.open("rb") as handle:
            handle.seek(_start(which))
            for number, noted in enumerate(done):
                if digest(handle.read(noted.bytes[which])) != noted.sha256[which]:
                    done = done[:number]
                    break
    return len(done)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing the folder; the lock goes with this process, however it ends."""
    import fcntl

    with storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        place = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                "another process is writing this folder", item=str(path), cure="wait for it, or choose another"
            ) from error
        except OSError:  # a file system without locks: two writers are then the user's to avoid
            pass
        yield
    finally:
        os.close(place)


class _Watching(Protocol):
    """Who is told how far the embedding is."""

    def skip(self, items: int, failed: int) -> None: ...
    def advance(self, items: int, failed: int) -> None: ...


@contextmanager
def _shown(what: str, total: int | None, progress: bool | Callable[[int, int], None]) -> Iterator[_Watching | None]:
    if callable(progress):
        yield _Told(total or 0, progress)
    elif progress:
        with _Bar(what, total) as bar:
            yield bar
    else:
        yield None


class _Told:
    """Tells a function."""

    def __init__(self, total: int, tell: Callable[[int, int], None]) -> None:
        self._done, self._total, self._tell = 0, total, tell

    def skip(self, items: int, failed: int) -> None:
        self.advance(items, failed)

    def advance(self, items: int, failed: int) -> None:
        self._done += items
        self._tell(self._done, self._total)


class _Bar:
    """A progress bar on standard error: done, rate, remaining time, failures."""

    def __init__(self, what: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(what, total=total, rate="", failed="")
        self._total, self._done, self._fresh, self._failed = total, 0, 0, 0
        self._since = time.monotonic()

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def skip(self, items: int, failed: int) -> None:
        """Items that an earlier run did: they count as done, not for the rate."""
        self._done += items
        self._failed += failed
        self._progress.reset(self._task, total=self._total, completed=self._done, rate="", failed="")
        self._since = time.monotonic()

    def advance(self, items: int, failed: int) -> None:
        """Items done now."""
        self._done += items
        self._fresh += items
        self._failed += failed
        rate = self._fresh / max(time.monotonic() - self._since, 1e-9)
        self._progress.update(
            self._task,
            completed=self._done,
            rate=f"{rate:,.0f}/s",
            failed=f"{self._failed} failed" if self._failed else "",
        )
