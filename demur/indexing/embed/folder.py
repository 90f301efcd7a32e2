"""A finished folder of vectors, opened without reading them."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from demur.errors import IndexFileError
from demur.indexing.encoders import Role
from demur.store import file_digest, read_json, storage_errors

FORMAT = 1
"""Of the folder; another number is refused."""
HEADER = 128
"""Bytes before the rows in ``vectors.npy``; fixed, so that the row count can be written when it is known."""


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
            if handle.read(HEADER) != npy_header(*shape):
                raise IndexFileError(
                    f"its header does not say {shape}", item=str(path / "vectors.npy"), cure="embed again"
                )
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
            Ids(path / "ids.jsonl", manifest["count"]),
            vectors,
        )

    def errors(self) -> Iterator[tuple[str, str]]:
        """(id, why) of every item that has no row, in the order of the items."""
        with storage_errors(self.path), (self.path / "errors.jsonl").open("rb") as handle:
            for line in handle:
                row = json.loads(line)
                yield row["id"], row["error"]


def _check_file(path: Path, stated: dict[str, Any], *, verify: bool) -> None:
    size = path.stat().st_size if path.exists() else -1
    if size != stated["bytes"]:
        found = "it is missing" if size < 0 else f"it has {size:,} bytes"
        raise IndexFileError(f"{found}, its manifest says {stated['bytes']:,}", item=str(path), cure="embed again")
    if verify and file_digest(path) != stated["sha256"]:
        raise IndexFileError("its content is not what its manifest says", item=str(path), cure="embed again")


def npy_header(rows: int, dimensions: int) -> bytes:
    """The head of a version 1.0 ``.npy`` file of a C-ordered little-endian float32 matrix, padded to a fixed size."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"
