"""Documents on disk: written once in order, then read by row or by id.

Indexing writes them, retrieval reads ids, mining reads texts and images. A folder holds ``documents.jsonl``, one
document per line, and ``documents.sqlite``, which finds a line by row or id. Neither writing nor reading keeps anything
in memory per document, so the documents may be all of Wikipedia.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError, IndexFileError, StorageError
from demur.core.records import Document, with_ids
from demur.core.store import storage_errors
from demur.core.strict_json import loose_json

LINES, TABLE = "documents.jsonl", "documents.sqlite"
_BLOCK = 512
"""Rows per statement of SQLite."""
_NEW = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE documents (row INTEGER PRIMARY KEY, start INTEGER, stop INTEGER, id TEXT, page TEXT, text INT, image INT);
"""


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """As `demur.core.store.storage_errors`, and for SQLite's errors."""
    with storage_errors(folder):
        try:
            yield
        except sqlite3.Error as error:
            cure = (
                "free some disk space (also in the temporary folder) and run the same command again"
            )
            raise StorageError(f"SQLite: {error}", item=folder / TABLE, cure=cure) from error


class DocumentsWriter:
    """Writes documents to a new folder, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sha = hashlib.sha256()
        with _storage_errors(folder), ExitStack() as open_files:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / TABLE).unlink(missing_ok=True)
            self._table = open_files.enter_context(
                closing(sqlite3.connect(folder / TABLE, isolation_level=None))
            )
            self._lines: IO[bytes] = open_files.enter_context((folder / LINES).open("wb"))
            self._table.executescript(_NEW)
            self._table.execute("BEGIN")
            self._opened = open_files.pop_all()  # after an error above, both are closed at once
        self._at = self._count = 0
        self._waiting: list[tuple[int, int, int, str, str, bool, bool]] = []
        self._unwritten: list[bytes] = []

    def add(self, document: Document) -> int:
        """Append one document; returns its row (0 is the first).

        Raises:
            DataError: it contains half a character, as Python reads file names that are not UTF-8.
            StorageError: the disk is full or cannot be written.
        """
        try:
            line = document.model_dump_json().encode() + b"\n"
        except ValueError as error:
            raise DataError(
                "the document contains text that is not UTF-8",
                item=ascii(document.id),
                cure="rename the file, or correct the text",
            ) from error
        self._unwritten.append(line)
        placeless = (
            line
            if document.image is None
            else document.model_dump_json(exclude={"image": {"uri"}}).encode()
        )
        self._sha.update(placeless)
        start, self._at = self._at, self._at + len(line)
        text, image = bool(document.text and document.text.strip()), document.image is not None
        self._waiting.append(
            (self._count, start, self._at, document.id, document.page or document.id, text, image)
        )
        if len(self._waiting) >= _BLOCK:
            self._flush()
        self._count += 1
        return self._count - 1

    def _flush(self) -> None:
        with _storage_errors(self.folder):
            self._lines.writelines(self._unwritten)
            self._table.executemany(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting
            )
        self._waiting.clear()
        self._unwritten.clear()

    def __len__(self) -> int:
        return self._count

    @property
    def sha256(self) -> str:
        """Hash of all documents written so far; it covers the images' hashes, not where their files are."""
        return self._sha.hexdigest()

    def close(self) -> list[int]:
        """Finish the files; returns the rows, ascending, that repeat the id of an earlier row."""
        self._flush()
        with _storage_errors(self.folder):
            self._lines.close()
            self._table.execute(_BY_ID)
            self._table.execute("COMMIT")
            again = "SELECT row, id = lag(id) OVER (ORDER BY id, row) AS again FROM documents"
            repeated = [
                row
                for (row,) in self._table.execute(
                    f"SELECT row FROM ({again}) WHERE again ORDER BY row"
                )
            ]
            self._table.close()
        return repeated

    def __enter__(self) -> DocumentsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _storage_errors(self.folder):  # writing the last buffer fails on a full disk
            self._opened.close()


_BY_ID = "CREATE INDEX by_id ON documents (id)"
_ID = "SELECT id, (SELECT min(d.row) FROM documents AS d WHERE d.id = documents.id) FROM documents WHERE row = ?"
"""Looked up by itself, too: a stranger's index may not know the id, and of documents with one id the first counts."""
_NAMED = 1 << 16
"""Ids whose rows are remembered once they were named: whoever is told of a hit looks it up next."""
_PLACES = "SELECT start, stop FROM json_each(?) AS asked CROSS JOIN documents ON row = asked.value ORDER BY asked.key"

BLOCK = 1 << 20
"""Numbers of a table that are looked at together when it is opened: all of them, at a gigabyte in half a second."""


def map_integers(
    path: Path, below: int | None = None, least: int = 0, dtype: type = np.int64
) -> NDArray[Any]:
    """(n,) whole numbers of a ``.npy`` file, memory-mapped.

    Args:
        path: the file.
        below: upper bound (exclusive) of the numbers, as rows of another table; None: no bounds.
        least: lower bound.
        dtype: of the numbers.

    Raises:
        StorageError: it cannot be read.
        IndexFileError: not such a file, or a number is out of bounds.
    """
    with storage_errors(path):
        try:
            numbers: NDArray[Any] = np.load(path, mmap_mode="r")
        except OSError:
            raise
        except (
            Exception
        ) as error:  # NumPy evaluates the header as a Python literal, which fails in many ways
            raise _broken(path) from error
    if numbers.ndim != 1 or numbers.dtype != dtype:
        raise _broken(path)
    for at in range(0, len(numbers) if below is not None else 0, BLOCK):
        block = numbers[at : at + BLOCK]
        if not least <= block.min() <= block.max() < (below or 0):
            raise _broken(path)
    return numbers


def _broken(path: Path) -> IndexFileError:
    return IndexFileError("the file is truncated or does not belong to this folder", item=path)


class Documents(Mapping[str, Document]):
    """A finished folder of documents: ``d[id]``, ``d.at(row)``, ``d.id(row)``, ``d.row(id)``.

    If an id repeats, its first document counts. Several threads may use it.

    Args:
        folder: written by `DocumentsWriter`.
        prefix: put before every id, page and document that it returns, and removed from every id that it takes: in a
            pool of several sources ids begin with the source's name, in the index of one source they do not.
        stored: prefix of the ids in the folder, which ``prefix`` replaces.

    Raises:
        IndexFileError: a file of the folder is missing or truncated.
    """

    def __init__(self, folder: Path, *, prefix: str = "", stored: str = "") -> None:
        self.folder = folder
        self._prefix, self._stored = prefix, stored
        self._row_of_named: dict[str, int] = {}
        table, lines = folder / TABLE, folder / LINES
        with storage_errors(table):
            table.open("rb").close()
        # immutable: nobody writes the file any more, so SQLite needs no locks
        address = f"file:{quote(str(table.absolute()))}?mode=ro&immutable=1"
        try:
            self._table = sqlite3.connect(
                address, uri=True, check_same_thread=False, isolation_level=None
            )
            weakref.finalize(self, self._table.close)  # closes it with the last reference
            self._table.execute("PRAGMA trusted_schema = OFF")
            kinds = self._table.execute(
                "SELECT type FROM sqlite_master WHERE name = 'documents'"
            ).fetchall()
            by_id = self._table.execute(
                "SELECT sql FROM sqlite_master WHERE name = 'by_id'"
            ).fetchall()
        except sqlite3.Error as error:
            raise self._broken(TABLE) from error
        if kinds != [("table",)] or by_id != [
            (_BY_ID,)
        ]:  # in an untrusted file, a view or a missing index could make queries endless
            raise self._broken(TABLE)
        self._count, size = self._single_row(
            "SELECT count(*), coalesce(max(stop), 0) FROM documents"
        )
        with storage_errors(lines), lines.open("rb") as handle:
            if lines.stat().st_size != size:
                raise self._broken(LINES)
            self._lines = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    def select(self, query: str, *values: object) -> Iterator[tuple[int, ...]]:
        """Rows of an SQL query on the table ``documents`` (row, page; text, image: whether the document has one)."""
        with _storage_errors(self.folder):
            yield from self._table.execute(query, values)

    def _single_row(self, query: str, *values: object) -> tuple[Any, ...]:
        try:
            first_row: tuple[Any, ...] | None = self._table.execute(query, values).fetchone()
        except (sqlite3.Error, OverflowError) as error:
            raise self._broken(TABLE) from error
        if first_row is None:
            raise self._broken(TABLE)
        return first_row

    def _between(self, start: int, stop: int) -> bytes:
        try:
            return self._lines[start:stop]
        except TypeError as error:
            raise self._broken(TABLE) from error

    def _broken(self, name: str) -> IndexFileError:
        return _broken(self.folder / name)

    def __len__(self) -> int:
        return int(self._count)

    def __iter__(self) -> Iterator[str]:
        return (self.id(row) for row in range(len(self)))

    def at(self, row: int) -> Document:
        """The document in a row.

        Raises:
            IndexFileError: there is none, or its id is not that of the table.
        """
        id, start, stop = self._single_row(
            "SELECT id, start, stop FROM documents WHERE row = ?", int(row)
        )
        try:
            document = Document.model_validate_json(self._between(start, stop))
        except ValueError as error:
            raise self._broken(LINES) from error
        if document.id != id:
            raise self._broken(LINES)
        if self._prefix == self._stored:
            return document
        return with_ids(document, self._public)

    def _public(self, id: str) -> str:
        return id if self._prefix == self._stored else self._prefix + id.removeprefix(self._stored)

    def raw(self, rows: Iterable[int]) -> Iterator[dict[str, object]]:
        """The fields of the documents in these rows, in their order, unchecked: several times faster than `at`.

        Raises:
            IndexFileError: there is no such row, or its line is not JSON.
        """
        rows = iter(rows)
        while block := list(islice(rows, _BLOCK)):
            try:
                places = self._table.execute(_PLACES, [json.dumps(block)]).fetchall()
                for start, stop in places:
                    yield loose_json(self._lines[start:stop])
            except (sqlite3.Error, TypeError) as error:
                raise self._broken(TABLE) from error
            except ValueError as error:
                raise self._broken(LINES) from error
            if len(places) != len(block):
                raise self._broken(TABLE)

    def id(self, row: int) -> str:
        """The id of the document in a row.

        Raises:
            IndexFileError: there is no such row, or no document is found by its id.
        """
        id, first_row = self._single_row(_ID, int(row))
        if not isinstance(id, str) or first_row is None or not id.startswith(self._stored):
            raise self._broken(TABLE)
        public_id = self._public(id)
        if len(self._row_of_named) >= _NAMED:
            self._row_of_named.clear()
        self._row_of_named[public_id] = int(first_row)
        return public_id

    def row(self, id: str) -> int | None:
        """The row of a document; None if no document has that id."""
        if (named_row := self._row_of_named.get(id)) is not None:
            return named_row
        if not id.startswith(self._prefix):
            return None
        stored_id = self._stored + id.removeprefix(self._prefix)
        try:
            stored_id.encode()
        except UnicodeEncodeError:  # no stored id contains half a character
            return None
        (row,) = self._single_row("SELECT min(row) FROM documents WHERE id = ?", stored_id)
        return None if row is None else int(row)

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
