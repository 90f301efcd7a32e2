"""Documents on disk: written once in order, then read by row or by id, mapped from the disk.

Indexing writes them, retrieval reads ids, mining reads texts and images: all three share this file. What is
kept in memory per document is 24 bytes while writing and nothing while reading, so they may be all of Wikipedia.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from demur.errors import IndexFileError
from demur.records import Document
from demur.store import storage_errors

FILES = ("documents.jsonl", "ends.npy", "ids.bin", "id_ends.npy", "keys.npy", "key_rows.npy")
"""JSON lines and where each ends, ids and where each ends, sorted id hashes and their rows."""


def key_of(id: str) -> int:
    """64 bits of BLAKE2b of an id."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")


class DocumentsWriter:
    """Writes documents to a new folder, one at a time.

    Ids that repeat are found when the folder is closed, by sorting 8-byte hashes and then comparing the ids
    themselves: no set of strings is ever held.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sha = hashlib.sha256()
        self._ends, self._id_ends, self._keys = array("q"), array("q"), array("Q")
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lines: IO[bytes] = (folder / "documents.jsonl").open("wb")
            self._ids: IO[bytes] = (folder / "ids.bin").open("wb")
        self._at = self._id_at = 0

    def add(self, document: Document) -> int:
        """Put one document at the end; returns its row (0 is the first)."""
        line = document.model_dump_json().encode() + b"\n"
        id = document.id.encode()
        with storage_errors(self.folder):
            self._lines.write(line)
            self._ids.write(id)
        self._sha.update(line)
        self._at += len(line)
        self._id_at += len(id)
        self._ends.append(self._at)
        self._id_ends.append(self._id_at)
        self._keys.append(key_of(document.id))
        return len(self._ends) - 1

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def sha256(self) -> str:
        """Hash of all lines written so far."""
        return self._sha.hexdigest()

    def close(self) -> list[int]:
        """Finish the files; returns the rows, ascending, whose id an earlier row already has."""
        keys = np.frombuffer(self._keys, dtype=np.uint64) if self._keys else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.int64)  # stable: the first of equal ids comes first
        with storage_errors(self.folder):
            self._lines.close()
            self._ids.close()
            np.save(self.folder / "ends.npy", np.array(self._ends, dtype=np.int64))
            np.save(self.folder / "id_ends.npy", np.array(self._id_ends, dtype=np.int64))
            np.save(self.folder / "keys.npy", keys[order])
            np.save(self.folder / "key_rows.npy", order)
        return self._repeated(keys[order], order)

    def _repeated(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> list[int]:
        same = np.flatnonzero(keys[1:] == keys[:-1])
        if not len(same):
            return []
        written, found = Documents(self.folder), []
        groups: dict[int, dict[str, int]] = {}
        for at in same:
            group = groups.setdefault(int(keys[at]), {})
            for row in (int(rows[at]), int(rows[at + 1])):
                if group.setdefault(written.id(row), row) != row:
                    found.append(row)
        return sorted(set(found))

    def __enter__(self) -> DocumentsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with storage_errors(self.folder), ExitStack() as closing:  # a full disk refuses what is still in a buffer
            closing.callback(self._lines.close)
            closing.callback(self._ids.close)


class Documents(Mapping[str, Document]):
    """A finished folder of documents: ``d[id]``, ``d.at(row)``, ``d.id(row)``, ``d.row(id)``.

    Where an id repeats, the first document of that id is the one found by id.

    Raises:
        IndexFileError: a file of the folder is missing or cut short.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ends = self._load("ends.npy")
        self._id_ends = self._load("id_ends.npy")
        self._keys = self._load("keys.npy")
        self._key_rows = self._load("key_rows.npy")
        self._lines = self._map("documents.jsonl", int(self._ends[-1]) if len(self._ends) else 0)
        self._ids = self._map("ids.bin", int(self._id_ends[-1]) if len(self._id_ends) else 0)

    def _load(self, name: str) -> NDArray[np.int64]:
        with storage_errors(self.folder / name):
            try:
                return np.load(self.folder / name, mmap_mode="r")  # type: ignore[no-any-return]
            except ValueError as error:
                raise self._broken(name) from error

    def _map(self, name: str, size: int) -> mmap.mmap | bytes:
        path = self.folder / name
        with storage_errors(path), path.open("rb") as handle:
            if path.stat().st_size != size:
                raise self._broken(name)
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    def _broken(self, name: str) -> IndexFileError:
        return IndexFileError(
            "the file is cut short or not a part of this folder",
            item=str(self.folder / name),
            cure="build the index again",
        )

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return (self.id(row) for row in range(len(self)))

    def at(self, row: int) -> Document:
        """The document in a row."""
        start = int(self._ends[row - 1]) if row else 0
        return Document.model_validate_json(self._lines[start : int(self._ends[row])])

    def raw(self, row: int) -> dict[str, object]:
        """The fields of the document in a row, without checking them again: several times faster than `at`."""
        start = int(self._ends[row - 1]) if row else 0
        fields: dict[str, object] = json.loads(self._lines[start : int(self._ends[row])])
        return fields

    def id(self, row: int) -> str:
        """The id of the document in a row."""
        start = int(self._id_ends[row - 1]) if row else 0
        return self._ids[start : int(self._id_ends[row])].decode()

    def row(self, id: str) -> int | None:
        """The row of a document, None when there is none of that id."""
        key = np.uint64(key_of(id))
        at = int(np.searchsorted(self._keys, key))
        while at < len(self._keys) and self._keys[at] == key:
            row = int(self._key_rows[at])
            if self.id(row) == id:
                return row
            at += 1
        return None

    def rows(self, ids: Sequence[str]) -> list[int | None]:
        """`row` of many."""
        return [self.row(id) for id in ids]

    def __getitem__(self, id: str) -> Document:
        row = self.row(id)
        if row is None:
            raise KeyError(id)
        return self.at(row)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.row(id) is not None
