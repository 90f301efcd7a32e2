"""The tables of documents and pages that `demur.indexing.build` writes before anything is indexed.

SQLite finds and sorts documents (`demur.core.docstore`); row numbers are mapped ``.npy`` files.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
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
"""Called with the name of the stage, items done, and items in all (0 if unknown)."""
BLOCK = 1 << 16
"""Rows in memory at once."""


class Table(NamedTuple):
    """All documents on disk, and the rows that are left out."""

    documents: Documents
    sha256: str
    bad: list[tuple[int, str]]
    """Rows left out of every part, each with its reason."""

    def rows(self, having: str, path: Path) -> NDArray[np.int64]:
        """(n,) ascending rows that are good and have a ``text`` or an ``image``, in a mapped file."""
        bad = {row for row, _ in self.bad}
        candidates = self.documents.select(f"SELECT row FROM documents WHERE {having} ORDER BY row")
        return save_rows(path, (row for (row,) in candidates if row not in bad))


def read_documents(documents: Iterable[Document], folder: Path, progress: bool | Progress) -> Table:
    """Write the table of documents, read once; bad ones keep their row and are named in ``bad``."""
    with DocumentsWriter(folder) as writer:
        for document in _show_progress(documents, progress):
            writer.add(document)
        repeated = set(writer.close())
    written = Documents(folder)
    bad = [(row, "the id repeats an earlier document's") for row in repeated]
    empty = written.select("SELECT row FROM documents WHERE NOT text AND NOT image")
    bad += [(row, "the text is empty") for (row,) in empty if row not in repeated]
    return Table(written, writer.sha256, sorted(bad))


def _show_progress(documents: Iterable[Document], progress: bool | Progress) -> Iterator[Document]:
    """The same documents; progress is shown at every hundredth and at the last."""
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


def save_rows(path: Path, rows: Iterable[int]) -> NDArray[np.int64]:
    """(n,) whole numbers, written to a ``.npy`` file and mapped, so that they take no memory."""
    numbers = np.fromiter(rows, np.int64)
    save(path, numbers)
    return (
        np.load(path, mmap_mode="r") if len(numbers) else numbers
    )  # an empty file cannot be mapped


def in_blocks(rows: NDArray[np.int64]) -> Iterator[int]:
    """The numbers of a mapped array, `BLOCK` in memory at once."""
    for start in range(0, len(rows), BLOCK):
        yield from rows[start : start + BLOCK].tolist()


def write_pages(work: Path, table: Table, lead_of: Callable[[str], str] = str) -> Documents:
    """Write the table of pages, in the order of their first documents, and which documents belong to each.

    Documents that are left out of every part belong to no page (-1).

    Args:
        work: folder of the index.
        table: the documents.
        lead_of: text -> what stands for the summary of a page that has none: of an article its first passage.
    """
    ends = array("q")
    bad = json.dumps([row for row, _ in table.bad])
    with DocumentsWriter(work / "pages") as writer:

        def by_page() -> Iterator[int]:
            for _, group in groupby(table.documents.select(_BY_PAGE, bad), itemgetter(0)):
                rows = [row for _, row in group]
                writer.add(_make_page(table.documents, rows, lead_of))
                ends.append((ends[-1] if ends else 0) + len(rows))
                yield from rows

        order = save_rows(work / "page_documents.npy", by_page())
        writer.close()
    save(work / "page_ends.npy", np.frombuffer(ends, np.int64))
    page_of = np.full(len(table.documents), -1, np.int64)
    page_of[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    save(work / "page_of.npy", page_of)
    return Documents(work / "pages")


_BY_PAGE = """
SELECT min(row) OVER (PARTITION BY page) AS first, row FROM documents
WHERE row NOT IN (SELECT value FROM json_each(?)) ORDER BY first, row
"""
"""(first row of its page, row) of every good document, page by page."""


def _make_page(
    documents: Documents, rows: Sequence[int], lead_of: Callable[[str], str]
) -> Document:
    id = title = summary = lead = first = ""
    for fields in documents.raw(rows):
        attributes: Any = fields["attributes"]
        id = id or str(fields["page"] or fields["id"])
        first = first or _text_or_empty(fields["title"])
        title = title or _text_or_empty(attributes.get("page_title"))
        summary = summary or _text_or_empty(attributes.get("summary"))
        if not (summary or lead):
            lead = lead_of(_text_or_empty(fields["text"]))
        if title and summary:
            break
    return Document(id=id, title=title or first, text=summary or lead)


def _text_or_empty(value: Any) -> str:
    """A text as it is; "" for a blank one and for anything else."""
    return value if isinstance(value, str) and value.strip() else ""
