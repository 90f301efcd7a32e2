"""A folder of vectors: written shard by shard, each recorded once it is on disk, and opened without being read.

    manifest.json   encoder, fingerprint, space, and the size and hash of the other files; written last
    vectors.npy     (n, d) float32, row by row in the order of the items
    ids.jsonl       n lines, each the id of its row as a JSON string
    errors.jsonl    the items without a row, each with the reason
    lengths.i32     (late interaction) how many rows each item has, where it has one for each of its tokens
    shards.jsonl    one line per finished shard: hash of its input, size and hash of what it appended

A shard is appended to the data files and then recorded in ``shards.jsonl``. If a run is killed, at most one shard
is not recorded: the next run cuts it off and makes it again, so the finished folder has the same bytes as after a run
that was never stopped. If items were added at the end, the shards before them are kept too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import IndexFileError
from demur.core.store import (
    canonical,
    digest,
    file_digest,
    read_json,
    storage_errors,
    write_atomic,
    write_json,
)
from demur.core.strict_json import loose_json

FORMAT = 1
"""Version of the folder; another is refused."""
HEADER = 128
"""Bytes before the rows in ``vectors.npy``; fixed, so that the number of rows can be written at the end."""


@dataclass(frozen=True)
class Embedded:
    """A finished folder of vectors, opened without reading them."""

    path: Path
    manifest: dict[str, Any]
    """``encoder`` (canonical name), ``note``, ``fingerprint``, ``similarity``, ``space``, ``dimensions``,
    ``count`` (items with rows), ``failed`` (items without), ``cut`` (texts whose end the encoder does not read),
    ``tokens`` (rows, where an item has several)."""
    vectors: np.memmap[Any, np.dtype[np.float32]] = field(repr=False)
    """(n, d) float32, mapped read-only; (tokens, d) for late interaction."""

    @classmethod
    def open(cls, path: Path) -> Embedded:
        """Open a finished folder.

        Raises:
            IndexFileError: the folder is unfinished or foreign, or a file is missing or truncated; names the file.
        """
        place = path / "manifest.json"
        if not place.exists():
            half = (path / "shards.jsonl").exists()
            raise IndexFileError(
                "the embedding was not finished"
                if half
                else "not a folder of embeddings: it has no manifest.json",
                item=path,
                cure="run the same command again" if half else "check the path",
            )
        manifest = read_json(place)
        head = (manifest.get("kind"), manifest.get("format")) if isinstance(manifest, dict) else ()
        if head != ("demur embeddings", FORMAT):
            raise IndexFileError(
                "not embeddings that this demur can read", item=place, cure="embed again"
            )
        for name, stated in manifest["files"].items():
            _check_file(path / name, stated)
        shape = (manifest.get("tokens", manifest["count"]), manifest["dimensions"])
        with storage_errors(path / "vectors.npy"), (path / "vectors.npy").open("rb") as handle:
            if handle.read(HEADER) != npy_header(*shape):
                raise IndexFileError(
                    f"its header does not say {shape}",
                    item=path / "vectors.npy",
                    cure="embed again",
                )
        vectors: Any
        if shape[0]:
            vectors = np.memmap(path / "vectors.npy", np.float32, "r", offset=HEADER, shape=shape)
        else:
            vectors = np.empty(shape, np.float32)  # an empty file cannot be mapped
        return cls(path, manifest, vectors)

    @property
    def ids(self) -> list[str]:
        """The id of every row, in their order."""
        with storage_errors(self.path), (self.path / "ids.jsonl").open("rb") as handle:
            return [str(loose_json(line)) for line in handle]

    def errors(self) -> Iterator[tuple[str, str]]:
        """(id, reason) of every item without a row, in the order of the items."""
        with storage_errors(self.path), (self.path / "errors.jsonl").open("rb") as handle:
            for line in handle:
                row = loose_json(line)
                yield row["id"], row["error"]


def _check_file(path: Path, stated: dict[str, Any]) -> None:
    size = path.stat().st_size if path.exists() else -1
    if size != stated["bytes"]:
        actual = "it is missing" if size < 0 else f"it has {size:,} bytes"
        raise IndexFileError(
            f"{actual}, its manifest says {stated['bytes']:,}", item=path, cure="embed again"
        )


def npy_header(rows: int, dimensions: int) -> bytes:
    """The head of a version 1.0 ``.npy`` file of a C-ordered little-endian float32 matrix, padded to a fixed size."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return (
        b"\x93NUMPY\x01\x00"
        + (HEADER - 10).to_bytes(2, "little")
        + text.ljust(HEADER - 11).encode()
        + b"\n"
    )


def mapped_vectors(path: Path, rows: int, dims: int) -> NDArray[np.float32]:
    """(rows, dims) of a ``vectors.npy``, mapped.

    Raises:
        IndexFileError: it is truncated, or of another shape or type.
    """
    with storage_errors(path):
        try:
            vectors: NDArray[np.float32] = np.load(path, mmap_mode="r" if rows else None)
        except OSError:
            raise
        except Exception as error:  # numpy parses the header as Python, which can fail in any way
            raise IndexFileError(
                f"the vectors cannot be mapped: {type(error).__name__}", item=path
            ) from error
    if vectors.shape != (rows, dims) or vectors.dtype != np.float32:
        raise IndexFileError(
            f"expected {rows}x{dims} float32, found {vectors.shape} {vectors.dtype}", item=path
        )
    return vectors


# --- writing ----------------------------------------------------------------------------------------

DATA = ("vectors.npy", "ids.jsonl", "errors.jsonl")
"""The files that a shard is appended to."""
LENGTHS = "lengths.i32"
"""Another, of late interaction: little-endian int32, in the order of the items."""


def data_files(plan: dict[str, Any]) -> tuple[str, ...]:
    """The files that a shard of such vectors is appended to."""
    return (*DATA, LENGTHS) if plan.get("similarity") == "maxsim" else DATA


class MadeShard(NamedTuple):
    """The rows of one shard."""

    input: str
    """Hash of its items."""
    items: int
    failed: int
    vectors: bytes
    ids: bytes
    errors: bytes
    lengths: bytes = b""
    cut: int = 0
    """Texts that are longer than the encoder reads."""


def join_lines(texts: list[str]) -> bytes:
    """Lines of a file."""
    return "".join(text + "\n" for text in texts).encode("utf-8", "backslashreplace")


class _Shard(NamedTuple):
    """A line of ``shards.jsonl``."""

    input: str
    items: int
    failed: int
    bytes: list[int]
    """What it appended to each data file."""
    sha256: list[str]
    cut: int


class ShardWriter:
    """Writes a folder of vectors."""

    def __init__(self, path: Path, plan: dict[str, Any], shard: int, done: list[_Shard]) -> None:
        self._path, self._plan, self.shard, self.done = path, plan, shard, done
        self._data = data_files(plan)
        self._handles: list[IO[bytes]] = []

    @classmethod
    def open(cls, path: Path, plan: dict[str, Any], shard: int) -> ShardWriter:
        """Read what is there: it must be of the same plan; recorded shards are kept if they are whole on the disk."""
        record = path / "shards.jsonl"
        if not record.exists():
            foreign = [name for name in (*DATA, "manifest.json") if (path / name).exists()]
            if foreign:
                raise IndexFileError(
                    "the folder holds something else", item=path / foreign[0], cure="choose another"
                )
            write_atomic(record, canonical({"plan": plan, "shard": shard}) + "\n")
            return cls(path, plan, shard, [])
        with storage_errors(record):
            recorded = record.read_bytes().split(b"\n")[:-1]  # a torn last line has no end
        try:
            head, *shard_lines = [loose_json(line) for line in recorded]
            recorded_plan, shard = head["plan"], int(head["shard"])
            done = [_Shard(**row) for row in shard_lines]
        except (ValueError, KeyError, TypeError) as error:
            raise IndexFileError(
                f"not a list of shards: {error}", item=record, cure="embed into another folder"
            ) from error
        differs = [key for key in plan if recorded_plan.get(key) != plan[key]]
        if differs:
            key = next((k for k in ("encoder", "space") if k in differs), differs[0])
            old, new = (str(values.get(key))[:60] for values in (recorded_plan, plan))
            raise IndexFileError(
                f"its vectors have {key} {old!r}, not {new!r}: they cannot be mixed",
                item=path,
                cure="choose another folder, or delete this one",
            )
        if not (
            path / "manifest.json"
        ).exists():  # the run was stopped at some moment: trust nothing
            done = done[: _count_whole_shards(path, done, data_files(plan))]
        return cls(path, plan, shard, done)

    def __enter__(self) -> ShardWriter:
        with storage_errors(self._path):
            for name in self._data:
                place = self._path / name
                self._handles.append(place.open("r+b" if place.exists() else "w+b"))
        if not (self._path / "manifest.json").exists():
            self.cut(len(self.done))
        return self

    def __exit__(self, *_: object) -> None:
        with (
            storage_errors(self._path),
            ExitStack() as closing,
        ):  # closing writes buffers, which a full disk refuses
            for handle in self._handles:
                closing.callback(handle.close)

    def cut(self, number: int) -> None:
        """Remove shard ``number`` and all after it: the folder is unfinished from there on."""
        self.done = self.done[:number]
        with storage_errors(self._path):
            (self._path / "manifest.json").unlink(missing_ok=True)
            head = canonical({"plan": self._plan, "shard": self.shard})
            write_atomic(
                self._path / "shards.jsonl",
                join_lines([head, *(canonical(s._asdict()) for s in self.done)]),
            )
            for file_number, handle in enumerate(self._handles):
                handle.truncate(
                    _data_start(file_number) + sum(s.bytes[file_number] for s in self.done)
                )  # leaves room for the header
                handle.seek(0, os.SEEK_END)

    def append(self, shard: MadeShard) -> None:
        """Add a shard's rows, sync them to disk, and only then record the shard."""
        if (self._path / "manifest.json").exists():
            self.cut(len(self.done))
        blobs = (shard.vectors, shard.ids, shard.errors, shard.lengths)[: len(self._data)]
        with storage_errors(self._path):
            for handle, blob in zip(self._handles, blobs, strict=True):
                handle.write(blob)
                handle.flush()
                os.fsync(handle.fileno())
            entry = _Shard(
                shard.input,
                shard.items,
                shard.failed,
                [*map(len, blobs)],
                [*map(digest, blobs)],
                shard.cut,
            )
            with (self._path / "shards.jsonl").open("ab") as record:
                record.write(join_lines([canonical(entry._asdict())]))
                record.flush()
                os.fsync(record.fileno())
        self.done.append(entry)

    def finish(self) -> None:
        """Write the number of rows and the manifest; a folder that was already finished is not touched."""
        if (self._path / "manifest.json").exists():
            return
        count = sum(s.items - s.failed for s in self.done)
        rows = sum(s.bytes[0] for s in self.done) // (4 * self._plan["dimensions"])
        with storage_errors(self._path):
            self._handles[0].seek(0)
            self._handles[0].write(npy_header(rows, self._plan["dimensions"]))
            for handle in self._handles:
                handle.flush()
                os.fsync(handle.fileno())
        files = [self._path / name for name in (*self._data, "shards.jsonl")]
        stated = {f.name: {"bytes": f.stat().st_size, "sha256": file_digest(f)} for f in files}
        facts = {
            "count": count,
            "failed": sum(s.failed for s in self.done),
            "cut": sum(s.cut for s in self.done),
            "files": stated,
        }
        facts |= {"tokens": rows} if LENGTHS in self._data else {}
        write_json(self._path / "manifest.json", self._plan | facts)


def _data_start(file_number: int) -> int:
    """Where the rows of a data file begin."""
    return 0 if file_number else HEADER  # the first are the vectors


def _count_whole_shards(path: Path, done: list[_Shard], data: tuple[str, ...]) -> int:
    """How many of the recorded shards, from the first on, are on the disk as they were recorded."""
    for file_number, name in enumerate(data):
        place = path / name
        if not place.exists():
            return 0
        with storage_errors(place), place.open("rb") as handle:
            handle.seek(_data_start(file_number))
            for number, shard in enumerate(done):
                if digest(handle.read(shard.bytes[file_number])) != shard.sha256[file_number]:
                    done = done[:number]
                    break
    return len(done)
