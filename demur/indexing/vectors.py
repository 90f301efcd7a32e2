"""A folder of vectors: written shard by shard, each noted once the disk has it; opened without reading it.

    manifest.json   what it is: encoder, fingerprint, space, sizes and hashes of the other files; written last
    vectors.npy     (n, d) float32, row by row in the order of the items
    ids.jsonl       n lines, each the id of its row as a JSON string
    errors.jsonl    the items that have no row, and why
    shards.jsonl    one line per finished shard: hash of its input, sizes and hashes of what it appended

A shard is appended to the three data files, then noted in ``shards.jsonl``. A killed run leaves at worst one shard
that is not noted: the next run cuts it off and does it again, so that the finished folder is, byte for byte, that of a
run that was never stopped. When items were added at the end, the shards before them are kept as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from demur.core.errors import IndexFileError
from demur.core.store import canonical, digest, file_digest, read_json, storage_errors, write_atomic, write_json
from demur.core.strict_json import loose_json
from demur.indexing.encoders import Role

FORMAT = 1
"""Of the folder; another number is refused."""
HEADER = 128
"""Bytes before the rows in ``vectors.npy``; fixed, so that the row count can be written when it is known."""


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
                item=path,
                cure="run the same command again" if half else "check the path",
            )
        manifest = read_json(place)
        if (
            not isinstance(manifest, dict)
            or manifest.get("kind") != "demur embeddings"
            or manifest.get("format") != FORMAT
        ):
            raise IndexFileError("not embeddings that this demur can read", item=place, cure="embed again")
        for name, stated in manifest["files"].items():
            _check_file(path / name, stated, verify=verify)
        shape = (manifest["count"], manifest["dimensions"])
        with storage_errors(path / "vectors.npy"), (path / "vectors.npy").open("rb") as handle:
            if handle.read(HEADER) != npy_header(*shape):
                raise IndexFileError(f"its header does not say {shape}", item=path / "vectors.npy", cure="embed again")
        vectors: Any
        if shape[0]:
            vectors = np.memmap(path / "vectors.npy", np.float32, "r", offset=HEADER, shape=shape)
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
            vectors,
        )

    @property
    def ids(self) -> list[str]:
        """The id of every row, in their order."""
        with storage_errors(self.path), (self.path / "ids.jsonl").open("rb") as handle:
            return [str(loose_json(line)) for line in handle]

    def errors(self) -> Iterator[tuple[str, str]]:
        """(id, why) of every item that has no row, in the order of the items."""
        with storage_errors(self.path), (self.path / "errors.jsonl").open("rb") as handle:
            for line in handle:
                row = loose_json(line)
                yield row["id"], row["error"]


def _check_file(path: Path, stated: dict[str, Any], *, verify: bool) -> None:
    size = path.stat().st_size if path.exists() else -1
    if size != stated["bytes"]:
        found = "it is missing" if size < 0 else f"it has {size:,} bytes"
        raise IndexFileError(f"{found}, its manifest says {stated['bytes']:,}", item=path, cure="embed again")
    if verify and file_digest(path) != stated["sha256"]:
        raise IndexFileError("its content is not what its manifest says", item=path, cure="embed again")


def npy_header(rows: int, dimensions: int) -> bytes:
    """The head of a version 1.0 ``.npy`` file of a C-ordered little-endian float32 matrix, padded to a fixed size."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"


# --- the writing end --------------------------------------------------------------------------------

DATA = ("vectors.npy", "ids.jsonl", "errors.jsonl")
"""The files that a shard is appended to."""


class MadeShard(NamedTuple):
    """One finished shard."""

    input: str
    """Hash of its items."""
    items: int
    failed: int
    vectors: bytes
    ids: bytes
    errors: bytes


def lines(texts: list[str]) -> bytes:
    """Lines of a file."""
    return "".join(text + "\n" for text in texts).encode("utf-8", "backslashreplace")


class _Shard(NamedTuple):
    """A line of ``shards.jsonl``."""

    input: str
    items: int
    failed: int
    rows: int
    bytes: tuple[int, int, int]
    """What it appended to each data file."""
    sha256: tuple[str, str, str]


class ShardWriter:
    """The writing end of a folder of embeddings."""

    def __init__(self, path: Path, plan: dict[str, Any], shard: int, done: list[_Shard]) -> None:
        self._path, self._plan, self.shard, self.done = path, plan, shard, done
        self._handles: list[IO[bytes]] = []

    @classmethod
    def open(cls, path: Path, plan: dict[str, Any], shard: int) -> ShardWriter:
        """Read what is there: of the same plan, and every noted shard whole (checked by its hashes)."""
        ledger = path / "shards.jsonl"
        if not ledger.exists():
            foreign = [name for name in (*DATA, "manifest.json") if (path / name).exists()]
            if foreign:
                raise IndexFileError("the folder holds something else", item=path / foreign[0], cure="choose another")
            write_atomic(ledger, canonical({"plan": plan, "shard": shard}) + "\n")
            return cls(path, plan, shard, [])
        with storage_errors(ledger):
            noted = ledger.read_bytes().split(b"\n")[:-1]  # a torn last line has no end
        try:
            head, *rest = [loose_json(line) for line in noted]
            found = head["plan"]
            done = [_Shard(**{**row, "bytes": tuple(row["bytes"]), "sha256": tuple(row["sha256"])}) for row in rest]
            shard = int(head["shard"])
        except (ValueError, KeyError, TypeError) as error:
            raise IndexFileError(
                f"not a ledger of shards: {error}", item=ledger, cure="embed into another folder"
            ) from error
        differs = [key for key in plan if found.get(key) != plan[key]]
        if differs:
            key = next((k for k in ("encoder", "space", "role") if k in differs), differs[0])
            old, new = (str(values.get(key))[:60] for values in (found, plan))
            raise IndexFileError(
                f"its vectors are of {key} {old!r}, not {new!r}: they cannot be mixed",
                item=path,
                cure="choose another folder, or delete this one",
            )
        if not (path / "manifest.json").exists():  # stopped at some moment: trust nothing
            done = done[: _whole(path, done)]
        return cls(path, plan, shard, done)

    def __enter__(self) -> ShardWriter:
        with storage_errors(self._path):
            for name in DATA:
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
            write_atomic(self._path / "shards.jsonl", lines([head, *(canonical(s._asdict()) for s in self.done)]))
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
                ledger.write(lines([canonical(entry._asdict())]))
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
            self._handles[0].write(npy_header(count, self._plan["dimensions"]))
            for handle in self._handles:
                handle.flush()
                os.fsync(handle.fileno())
        files = [self._path / name for name in (*DATA, "shards.jsonl")]
        stated = {f.name: {"bytes": f.stat().st_size, "sha256": file_digest(f)} for f in files}
        facts = {"count": count, "failed": sum(s.failed for s in self.done), "files": stated}
        write_json(self._path / "manifest.json", self._plan | facts)


def _start(which: int) -> int:
    """Where the rows of a data file begin."""
    return HEADER if DATA[which] == "vectors.npy" else 0


def _whole(path: Path, done: list[_Shard]) -> int:
    """How many of the noted shards, from the first, are on the disk as they were noted."""
    for which, name in enumerate(DATA):
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
