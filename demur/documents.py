"""Documents on disk: written once in order, then read by row or by id, mapped from the disk.

Indexing writes them, retrieval reads ids, mining reads texts and images: all three share this file. Nothing is
kept in memory per document, neither while writing nor while reading, so they may be all of Wikipedia.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.errors import DataError, IndexFileError
from demur.records import Document
from demur.store import storage_errors


def key_of(id: str) -> int:
    """64 bits of BLAKE2b of an id."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")


_BLOCK = 1 << 16
"""Numbers in memory at a time."""
_SORTED = 1 << 17
"""About how many hashes are sorted at a time, for up to 256 times as many; above that, a 256th of them."""


class Column:
    """Numbers in a file without a name, appended one by one or in blocks, then mapped: they cost disk, not memory.

    Args:
        folder: where the file lies; the disk space is given back with the last mapping.
        kind: ``q`` for int64, ``Q`` for uint64.
    """

    def __init__(self, folder: Path, kind: Literal["q", "Q"] = "q") -> None:
        self._folder, self._dtype = folder, np.dtype(np.int64 if kind == "q" else np.uint64)
        self._buffer = array(kind)
        with storage_errors(folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 closed by close()
        self._written = 0

    def __len__(self) -> int:
        return self._written + len(self._buffer)

    def append(self, number: int) -> None:
        """One more."""
        self._buffer.append(number)
        if len(self._buffer) >= _BLOCK:
            self._flush()

    def extend(self, numbers: NDArray[Any]) -> None:
        """Many more."""
        self._flush()
        with storage_errors(self._folder):
            self._file.write(np.ascontiguousarray(numbers, self._dtype).data)
        self._written += len(numbers)

    def _flush(self) -> None:
        with storage_errors(self._folder):
            self._file.write(self._buffer)
        self._written += len(self._buffer)
        del self._buffer[:]

    def values(self) -> NDArray[Any]:
        """(n,) all of them so far, mapped; they may be changed in place."""
        self._flush()
        with storage_errors(self._folder):
            self._file.flush()
            if not self._written:
                return np.zeros(0, self._dtype)
            return np.memmap(self._file, self._dtype, "r+", shape=(self._written,))

    def save(self, path: Path) -> None:
        """Write them as a ``.npy`` file."""
        self._flush()
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (len(self),)}
        with storage_errors(path), path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            self._file.seek(0)
            shutil.copyfileobj(self._file, file, 1 << 20)

    def close(self) -> None:
        """Give the file back, unless it is mapped still."""
        del self._buffer[:]
        with storage_errors(self._folder):  # a full disk refuses what the file has not written yet
            self._file.close()


def by_key(keys: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """Rows in the order of their keys, the rows of equal keys ascending and in one array; a part of all at a time."""
    bits = min(max(len(keys) - 1, 0) // _SORTED, 255).bit_length()
    for part in range(1 << bits):
        found = [np.zeros(0, np.int64)]
        for start in range(0, len(keys), _BLOCK):
            block = keys[start : start + _BLOCK]
            mine = block >> np.uint64(64 - bits) == part if bits else np.ones(len(block), bool)
            found.append(np.flatnonzero(mine) + start)
        rows = np.concatenate(found)
        yield rows[np.argsort(keys[rows], kind="stable")]  # stable: the first of equal keys comes first


class DocumentsWriter:
    """Writes documents to a new folder, one at a time.

    Ids that repeat are found when the folder is closed, by sorting 8-byte hashes and then comparing the ids
    themselves: no set of strings is ever held.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sha = hashlib.sha256()
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lines: IO[bytes] = (folder / "documents.jsonl").open("wb")
            self._ids: IO[bytes] = (folder / "ids.bin").open("wb")
        self._ends, self._id_ends, self._keys = Column(folder), Column(folder), Column(folder, "Q")
        self._at = self._id_at = 0

    def add(self, document: Document) -> int:
        """Put one document at the end; returns its row (0 is the first).

        Raises:
            DataError: it holds half a character, which a file name that is not UTF-8 is read as.
            StorageError: the disk is full or cannot be written.
        """
        try:
            line = document.model_dump_json().encode() + b"\n"
        except ValueError as error:
            raise DataError(
                "the document holds what is not UTF-8",
                item=ascii(document.id),
                cure="rename the file, or mend the text",
            ) from error
        id = document.id.encode()
        with storage_errors(self.folder):
            self._lines.write(line)
            self._ids.write(id)
        placeless = line if document.image is None else document.model_dump_json(exclude={"image": {"uri"}}).encode()
        self._sha.update(placeless)
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
        """Hash of all documents written so far, wherever their images lie (an image's own hash is in it)."""
        return self._sha.hexdigest()

    def close(self) -> list[int]:
        """Finish the files; returns the rows, ascending, whose id an earlier row already has."""
        with storage_errors(self.folder):
            self._lines.close()
            self._ids.close()
        keys, repeated = self._keys.values(), []
        with closing(Column(self.folder, "Q")) as in_order, closing(Column(self.folder)) as its_rows:
            for rows in by_key(keys):
                in_order.extend(keys[rows])
                its_rows.extend(rows)
                same = np.flatnonzero(keys[rows[1:]] == keys[rows[:-1]])
                repeated += [(int(keys[rows[at]]), int(rows[at]), int(rows[at + 1])) for at in same]
            columns = {"ends": self._ends, "id_ends": self._id_ends, "keys": in_order, "key_rows": its_rows}
            for name, column in columns.items():
                column.save(self.folder / f"{name}.npy")
        return self._repeated(repeated)

    def _repeated(self, pairs: Sequence[tuple[int, int, int]]) -> list[int]:
        """The rows with an earlier row's id, of (hash, row, next row of the same hash)."""
        if not pairs:
            return []
        written, found = Documents(self.folder), []
        groups: dict[int, dict[str, int]] = {}
        for key, *rows in pairs:
            group = groups.setdefault(key, {})
            for row in rows:
                if group.setdefault(written.id(row), row) != row:
                    found.append(row)
        return sorted(set(found))

    def __enter__(self) -> DocumentsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with storage_errors(self.folder), ExitStack() as ending:  # a full disk refuses what is still in a buffer
            for each in (self._lines, self._ids, self._ends, self._id_ends, self._keys):
                ending.callback(each.close)


class Documents(Mapping[str, Document]):
    """A finished folder of documents: ``d[id]``, ``d.at(row)``, ``d.id(row)``, ``d.row(id)``.

    Where an id repeats, the first document of that id is the one found by id.

    Args:
        folder: written by `DocumentsWriter`.
        prefix: goes before every id, page and document told, and is taken off every id asked for: where samples of
            several sources are joined their ids begin with the source's name, in the index of one source they do not.
        stored: what ids in the folder begin with themselves; ``prefix`` takes its place.

    Raises:
        IndexFileError: a file of the folder is missing or cut short.
    """

    def __init__(self, folder: Path, *, prefix: str = "", stored: str = "") -> None:
        self.folder = folder
        self._prefix, self._stored = prefix, stored
        self._ends = self._load("ends.npy")
        self._id_ends = self._load("id_ends.npy")
        self._keys = self._load("keys.npy")
        self._key_rows = self._load("key_rows.npy")
        self._lines = self._map("documents.jsonl", int(self._ends[-1]) if len(self._ends) else 0)
        self._ids = self._map("ids.bin", int(self._id_ends[-1]) if len(self._id_ends) else 0)

    def _load(self, name: str) -> NDArray[np.int64]:
        with storage_errors(self.folder / name):
            try:
                mapped: NDArray[np.int64] = np.load(self.folder / name, mmap_mode="r")
                return mapped.view(np.ndarray)  # mapped still; a number is read in a third of the time
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
        document = Document.model_validate_json(self._lines[start : int(self._ends[row])])
        if self._prefix == self._stored:
            return document
        ids = {"id": document.id, "document": document.document, "page": document.page}
        return document.model_copy(update={name: self._told(id) for name, id in ids.items() if id})

    def _told(self, id: str) -> str:
        return id if self._prefix == self._stored else self._prefix + id.removeprefix(self._stored)

    def raw(self, row: int) -> dict[str, object]:
        """The fields of the document in a row, without checking them again: several times faster than `at`."""
        start = int(self._ends[row - 1]) if row else 0
        fields: dict[str, object] = json.loads(self._lines[start : int(self._ends[row])])
        return fields

    def id(self, row: int) -> str:
        """The id of the document in a row."""
        start = int(self._id_ends[row - 1]) if row else 0
        return self._told(self._ids[start : int(self._id_ends[row])].decode())

    def row(self, id: str) -> int | None:
        """The row of a document, None when there is none of that id."""
        if not id.startswith(self._prefix):
            return None
        stored = self._stored + id.removeprefix(self._prefix)
        key = np.uint64(key_of(stored))
        at = int(self._keys.searchsorted(key))
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
