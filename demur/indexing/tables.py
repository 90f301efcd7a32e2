"""Documents and their pages as tables on the disk, before anything is indexed; what `demur.indexing.build` begins with.

Columns are mapped files; only what is being sorted is held.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.documents import Column, Documents, DocumentsWriter, by_key, key_of
from demur.indexing.embed.progress import Lines
from demur.records import Document
from demur.store import storage_errors

T = TypeVar("T")

Progress = Callable[[str, int, int], None]
"""Called with what is being done, items done, and items in all (0 when unknown)."""
BLOCK = 1 << 16
"""Rows looked at together."""


class Table(NamedTuple):
    """All documents on disk, and what each row is good for."""

    shelf: Documents
    sha256: str
    texts: NDArray[np.int64]
    """Rows with text to find."""
    images: NDArray[np.int64]
    """Rows with an image."""
    page_keys: NDArray[np.uint64]
    """Hash of the page of every row."""
    bad: list[tuple[int, str]]
    """Rows left out of every part, each with its reason."""


def read_documents(documents: Iterable[Document], folder: Path, progress: bool | Progress) -> Table:
    """Write the table of documents, read once and in order; bad ones keep their row and are named in ``bad``."""
    empty = array("q")
    with (
        _counted(documents, "documents", progress) as counted,
        DocumentsWriter(folder) as writer,
        closing(Column(folder)) as texts,
        closing(Column(folder)) as images,
        closing(Column(folder, "Q")) as keys,
    ):
        for document in counted:
            row = writer.add(document)
            keys.append(key_of(document.page or document.id))
            if document.text is not None and document.text.strip():
                texts.append(row)
            elif document.image is None:
                empty.append(row)
            if document.image is not None:
                images.append(row)
        repeated = writer.close()
        with_text, with_image, page_keys = texts.values(), images.values(), keys.values()
    bad = [(row, "the id repeats an earlier document's") for row in repeated]
    bad += [(row, "the text is empty") for row in empty if row not in repeated]
    with_text, with_image = (without(rows, repeated, folder) for rows in (with_text, with_image))
    return Table(Documents(folder), writer.sha256, with_text, with_image, page_keys, sorted(bad))


def without(rows: NDArray[np.int64], some: Sequence[int], folder: Path) -> NDArray[np.int64]:
    """(n,) ascending rows without some of them, mapped."""
    if not some:
        return rows
    dropped = np.array(sorted(some), np.int64)
    with closing(Column(folder)) as kept:
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            kept.extend(block[~np.isin(block, dropped)])
        return kept.values()


@contextmanager
def _counted(documents: Iterable[Document], what: str, progress: bool | Progress) -> Iterator[Iterable[Document]]:
    """The same documents, counted by a bar or told to a function."""
    if not progress:
        yield documents
        return
    if callable(progress):
        yield _told(documents, what, 0, progress)
        return
    if not sys.stderr.isatty():
        with Lines(f"reading {what}", None) as lines:

            def log() -> Iterator[Document]:
                for document in documents:
                    yield document
                    lines.advance(1, 0)

            yield log()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("reading {task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)

        def count() -> Iterator[Document]:
            number = 0
            for number, document in enumerate(documents, 1):  # told once more after the last
                yield document
                if number % 1000 == 0:
                    bar.update(task, completed=number)
            bar.update(task, completed=number)

        yield count()


def _told(items: Iterable[T], what: str, total: int, tell: Progress) -> Iterator[T]:
    """The same items; every hundredth is told, and the last."""
    number = 0
    for number, item in enumerate(items, 1):  # told once more after the last
        yield item
        if number % 100 == 0:
            tell(what, number, total)
    tell(what, number, total)


def save(path: Path, values: NDArray[Any]) -> None:
    """Write an array; a full disk becomes a `StorageError` that names the file."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)


def write_pages(work: Path, table: Table) -> Documents:
    """Write the table of pages, in the order of their first documents, and which documents lie on each.

    Documents that are left out of every part lie on no page (-1).
    """
    folder = work / "documents"
    every = counting(len(table.page_keys), folder)
    kept = without(every, [row for row, _ in table.bad], folder)
    page_of, ends = pages_of(_taken(table.page_keys, kept, folder), folder)
    order = _taken(kept, by_page(page_of, ends, folder), folder)
    whole = _filled(len(every), -1, folder)
    for start in range(0, len(kept), BLOCK):
        whole[kept[start : start + BLOCK]] = page_of[start : start + BLOCK]
    start = 0
    with DocumentsWriter(work / "pages") as writer:
        for at in range(0, len(ends), BLOCK):
            for end in ends[at : at + BLOCK].tolist():
                writer.add(_page(table.shelf, order[start:end]))
                start = end
        writer.close()
    save(work / "page_of.npy", whole)
    save(work / "page_ends.npy", ends)
    save(work / "page_documents.npy", order)
    return Documents(work / "pages")


def pages_of(keys: NDArray[np.uint64], folder: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) the page of each row, and (pages,) where each page ends when rows lie page by page; both mapped.

    Pages are numbered in the order of their first rows.
    """
    page_of = _filled(len(keys), 0, folder)
    for rows in by_key(keys):  # first: the first row of the same page
        new = np.flatnonzero(np.append(True, keys[rows[1:]] != keys[rows[:-1]])) if len(rows) else rows
        page_of[rows] = np.repeat(rows[new], np.diff(np.append(new, len(rows))))
    pages = 0
    with closing(Column(folder)) as number:
        for start in range(0, len(keys), BLOCK):
            block = page_of[start : start + BLOCK]
            new = block == np.arange(start, start + len(block))
            number.extend(pages + np.cumsum(new) - 1)
            pages += int(new.sum())
        numbers = number.values()
    ends = _filled(pages, 0, folder)
    for start in range(0, len(keys), BLOCK):
        block = numbers[page_of[start : start + BLOCK]]
        page_of[start : start + BLOCK] = block
        np.add.at(ends, block, 1)
    total = 0
    for start in range(0, pages, BLOCK):
        ends[start : start + BLOCK] = total + np.cumsum(ends[start : start + BLOCK])
        total = int(ends[min(start + BLOCK, pages) - 1])
    return page_of, ends


def by_page(page_of: NDArray[np.int64], ends: NDArray[np.int64], folder: Path) -> NDArray[np.int64]:
    """(n,) all rows, page by page, ascending within one; mapped."""
    order, free = _filled(len(page_of), 0, folder), _filled(len(ends), 0, folder)
    for start in range(1, len(ends), BLOCK):
        free[start : start + BLOCK] = ends[start - 1 : start - 1 + len(free[start : start + BLOCK])]
    for start in range(0, len(page_of), BLOCK):
        pages = page_of[start : start + BLOCK]
        rows = np.argsort(pages, kind="stable")
        found, first, count = np.unique(pages[rows], return_index=True, return_counts=True)
        place = np.arange(len(rows)) - np.repeat(first, count)  # the how-manyth of its page in this block
        order[np.repeat(free[found], count) + place] = start + rows
        free[found] += count
    return order


def counting(count: int, folder: Path) -> NDArray[np.int64]:
    """(n,) 0, 1, 2 ..., mapped."""
    with closing(Column(folder)) as column:
        for start in range(0, count, BLOCK):
            column.extend(np.arange(start, min(start + BLOCK, count)))
        return column.values()


def _filled(count: int, number: int, folder: Path) -> NDArray[np.int64]:
    """(n,) the same number, mapped."""
    with closing(Column(folder)) as column:
        for start in range(0, count, BLOCK):
            column.extend(np.full(min(BLOCK, count - start), number, np.int64))
        return column.values()


def _taken(values: NDArray[Any], rows: NDArray[np.int64], folder: Path) -> NDArray[Any]:
    """(n,) the values in these rows, mapped; 64-bit integers."""
    with closing(Column(folder, "Q" if values.dtype == np.uint64 else "q")) as column:
        for start in range(0, len(rows), BLOCK):
            column.extend(values[rows[start : start + BLOCK]])
        return column.values()


def _page(shelf: Documents, rows: NDArray[np.int64]) -> Document:
    id = title = summary = lead = first = ""
    for row in rows.tolist():
        fields = shelf.raw(row)
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
