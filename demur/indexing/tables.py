"""Documents and their pages as tables on the disk, before anything is indexed; what `demur.indexing.build` begins with.

SQLite sorts (`demur.core.docstore`); rows are mapped ``.npy`` files.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import Documents, DocumentsWriter
from demur.core.progress import counting
from demur.core.records import Document
from demur.core.store import storage_errors

Progress = Callable[[str, int, int], None]
"""Called with what is being done, items done, and items in all (0 when unknown)."""
BLOCK = 1 << 16
"""Rows looked at together."""


class Table(NamedTuple):
    """All documents on disk, and which rows are left out."""

    shelf: Documents
    sha256: str
    bad: list[tuple[int, str]]
    """Rows left out of every part, each with its reason."""

    def rows(self, having: str, path: Path) -> NDArray[np.int64]:
        """(n,) ascending rows that are good and have a ``text`` or an ``image``, written to a file and mapped."""
        bad = {row for row, _ in self.bad}
        found = self.shelf.select(f"SELECT row FROM documents WHERE {having} ORDER BY row")
        return numbers(path, (row for (row,) in found if row not in bad))


def read_documents(documents: Iterable[Document], folder: Path, progress: bool | Progress) -> Table:
    """Write the table of documents, read once and in order; bad ones keep their row and are named in ``bad``."""
    with DocumentsWriter(folder) as writer:
        for document in _counted(documents, progress):
            writer.add(document)
        repeated = set(writer.close())
    shelf = Documents(folder)
    bad = [(row, "the id repeats an earlier document's") for row in repeated]
    empty = shelf.select("SELECT row FROM documents WHERE NOT text AND NOT image")
    bad += [(row, "the text is empty") for (row,) in empty if row not in repeated]
    return Table(shelf, writer.sha256, sorted(bad))


def _counted(documents: Iterable[Document], progress: bool | Progress) -> Iterator[Document]:
    """The same documents, counted by a bar or told to a function: every hundredth, and the last."""
    tell = partial(progress, "documents") if callable(progress) else progress
    with counting("reading documents", progress=tell) as count:
        number = 0
        for number, document in enumerate(documents, 1):
            yield document
            if number % 100 == 0:
                count.advance(100)
        count.advance(number % 100)


def save(path: Path, values: NDArray[Any]) -> None:
    """Write an array; a full disk becomes a `StorageError` that names the file."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)


def numbers(path: Path, values: Iterable[int]) -> NDArray[np.int64]:
    """(n,) whole numbers, written to a ``.npy`` file as they come, then mapped."""
    values, count = iter(values), 0
    head = "{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}"
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(bytes(128))
            while block := array("q", islice(values, BLOCK)):
                file.write(block)
                count += len(block)
            file.seek(0)
            file.write(
                b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + head.format(count).ljust(117).encode() + b"\n"
            )
        made: NDArray[np.int64] = np.load(path, mmap_mode="r+" if count else None)  # nothing cannot be mapped
        return made


def in_blocks(rows: NDArray[np.int64]) -> Iterator[int]:
    """The numbers of a mapped array, `BLOCK` in memory at once."""
    for start in range(0, len(rows), BLOCK):
        yield from rows[start : start + BLOCK].tolist()


def without(rows: NDArray[np.int64], some: Sequence[int], path: Path) -> NDArray[np.int64]:
    """(n,) ascending rows without some of them, written to a file and mapped."""
    dropped = set(some)
    return numbers(path, (row for row in in_blocks(rows) if row not in dropped))


def write_pages(work: Path, table: Table) -> Documents:
    """Write the table of pages, in the order of their first documents, and which documents lie on each.

    Documents that are left out of every part lie on no page (-1).
    """
    ends = array("q")
    bad = json.dumps([row for row, _ in table.bad])

    with DocumentsWriter(work / "pages") as writer:

        def by_page() -> Iterator[int]:
            for _, group in groupby(table.shelf.select(_BY_PAGE, bad), itemgetter(0)):
                rows = [row for _, row in group]
                writer.add(_page(table.shelf, rows))
                ends.append((ends[-1] if ends else 0) + len(rows))
                yield from rows

        order = numbers(work / "page_documents.npy", by_page())
        writer.close()
    last = numbers(work / "page_ends.npy", ends)
    page_of = numbers(work / "page_of.npy", repeat(-1, len(table.shelf)))
    for start in range(0, len(order), BLOCK):
        rows = order[start : start + BLOCK]
        page_of[rows] = np.searchsorted(last, np.arange(start, start + len(rows)), side="right")
    return Documents(work / "pages")


_BY_PAGE = """
SELECT min(row) OVER (PARTITION BY page) AS first, row FROM documents
WHERE row NOT IN (SELECT value FROM json_each(?)) ORDER BY first, row
"""
"""(first row of its page, row) of every document that is good, page by page."""


def _page(shelf: Documents, rows: Sequence[int]) -> Document:
    id = title = summary = lead = first = ""
    for fields in shelf.raw(rows):
        attributes: Any = fields["attributes"]
        id = id or str(fields["page"] or fields["id"])
        first = first or _said(fields["title"])
        title = title or _said(attributes.get("page_title"))
        summary = summary or _said(attributes.get("summary"))
        lead = lead or _said(fields["text"])
        if title and summary:
            break
    return Document(id=id, title=title or first, text=summary or lead)


def _said(text: Any) -> str:
    """A text as it stands; "" when there is none, or a blank one."""
    return text if isinstance(text, str) and text.strip() else ""
