"""Documents to an index folder, whole or not at all.

    out/manifest.json          what is in it, by whom, and the size and hash of every file
    out/documents/  out/pages/ `demur.documents.Documents`: every document; every page (id, title, summary)
    out/page_of.npy            document row -> page row
    out/page_ends.npy  out/page_documents.npy   page row -> its document rows
    out/parts/NAME/            one index each, with ``rows.npy``: row of the index -> row of documents or pages
    out/skipped.jsonl          what could not be indexed, each with its reason

The parts, made for those spaces that the encoder serves:

    passages   documents with text, space ``text``: dense
    lexical    documents with text: BM25
    titles     pages by title, space ``joint``                    (T of VLM-DeflectionBench, appendix H)
    summaries  pages by title and summary, space ``joint``        (T+S)
    looks      documents with an image, space ``look``: image to image
    images     documents with an image, space ``joint``: text to image

A page is what documents share under `Document.page` (a document without one is a page of its own). Its title is
``attributes["page_title"]`` or else the title of its first document; its summary is ``attributes["summary"]`` or else
the text of its first document with text.

A build that was killed goes on where it stopped: documents are read again, vectors that were made are not made again
(`demur.indexing.embed`). Memory grows by some 50 bytes per document and by the vocabulary, not with texts or vectors.
"""

from __future__ import annotations

import fcntl
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from demur import __version__
from demur.documents import Column, Documents, DocumentsWriter, by_key, key_of
from demur.errors import DataError, IndexFileError, UsageError
from demur.indexing.bm25 import Method, build_bm25, give_back
from demur.indexing.bm25_reference import build_rank_bm25
from demur.indexing.choose import Choice, choose
from demur.indexing.embed import Embedded, Item, embed
from demur.indexing.encoders import Encoder
from demur.indexing.ivf import KINDS, Kind, build_ivf
from demur.records import Document, Drop
from demur.store import Problems, digest, file_digest, read_json, storage_errors, write_json, write_records

T = TypeVar("T")

FORMAT = "demur-index"
VERSION = 1
Progress = Callable[[str, int, int], None]
"""Called with what is being done, items done, and items in all (0 when unknown)."""
PQ_LEAST = 16
"""Vectors that 4-bit product quantisation needs to be trained."""
NORM_BLOCK = 1 << 16
"""Vectors whose norms are looked at together."""


class Engine(Protocol):
    """Where the heavy work is done. Every engine leaves the same files."""

    def embed(
        self,
        items: Sequence[Item],
        encoder: Encoder,
        space: str,
        out: Path,
        *,
        workers: int,
        progress: bool | Callable[[int, int], None],
    ) -> Embedded:
        """As `demur.indexing.embed.embed`."""
        ...

    def build_ivf(self, kind: Kind, vectors: NDArray[np.float32], path: Path) -> dict[str, Any]:
        """As `demur.indexing.ivf.build_ivf`; ``vectors`` lie mapped in ``vectors.npy`` beside ``path``."""
        ...


class _Here:
    """This process."""

    embed = staticmethod(partial(embed, distinct=True))  # rows of the same id were left out before
    build_ivf = staticmethod(build_ivf)


class _Part(NamedTuple):
    name: str
    over: Literal["texts", "pages", "images"]
    space: str


DENSE_PARTS = (
    _Part("passages", "texts", "text"),
    _Part("titles", "pages", "joint"),
    _Part("summaries", "pages", "joint"),
    _Part("looks", "images", "look"),
    _Part("images", "images", "joint"),
)


def passage_text(title: str, text: str) -> str:
    """What stands for a passage in dense and lexical indexes: its title on a line of its own, then its text."""
    return f"{title}\n{text}" if title else text


def page_text(title: str, summary: str) -> str:
    """What stands for a page in the T+S index."""
    return f"{title}. {summary}" if summary else title


def build_index(
    documents: Iterable[Document],
    encoder: Encoder,
    out: Path,
    *,
    text_encoder: Encoder | None = None,
    image_root: Path | None = None,
    kind: Kind | Literal["auto"] = "auto",
    queries: int = 10_000,
    lexical: Method | Literal["rank-bm25"] = "lucene",
    workers: int = 2,
    skip_bad: bool = False,
    problems: Problems | None = None,
    progress: bool | Progress = False,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Write an index folder of ``documents``; returns its manifest.

    A finished folder made of the same documents, encoders and options is left as it is. A folder is built beside
    ``out`` and moved there when it is whole.

    Args:
        documents: read once, in order.
        encoder: for the spaces that it serves; ``text_encoder`` takes ``text`` from it when given (the paper pairs
            EVA-CLIP with Contriever).
        out: the folder; refused when something else than an index stands there.
        text_encoder: encoder of passages.
        image_root: folder that relative image paths start from.
        kind: of the dense indexes, see `demur.indexing.indexes`; ``auto`` chooses for each part by size, free memory
            and ``queries``, and the manifest says why.
        queries: how many queries ``auto`` should reckon with.
        lexical: how BM25 scores, see `demur.indexing.bm25`; ``rank-bm25``: by that package itself, for small corpora.
        workers: threads that read, decode and resize images.
        skip_bad: leave out, and list in ``skipped.jsonl``, bad rows and documents whose id repeats, that are empty, or
            that cannot be embedded (an unreadable image, a NaN vector); else all that are known are named in one error,
            those of the reader and of the texts before anything is embedded.
        problems: bad rows that the reader of ``documents`` puts aside; settled together with those found here.
        progress: show bars on standard error; or a function called now and then with (what, done, in all or 0).
        engine: where embedding and indexing are done; this process when None (`demur.indexing.cluster.RayEngine`).

    Raises:
        BadInput: bad documents, unless ``skip_bad``.
        DataError: there are no documents.
        UsageError: ``out`` holds something else, or another process is building there.
        StorageError: the disk is full or cannot be written.
    """
    if kind != "auto" and kind not in KINDS:
        raise UsageError(f"no index kind named {kind!r}; known: auto, {', '.join(KINDS)}", cure="choose one of them")
    if out.exists() and not (out / "manifest.json").is_file() and any(out.iterdir()):
        raise UsageError("the folder is not empty and not an index", item=str(out), cure="choose another --out")
    encoders = {space: encoder for space in encoder.dims}
    if text_encoder is not None:
        encoders["text"] = text_encoder
    makers = {space: [maker.name, maker.fingerprint()] for space, maker in encoders.items()}
    options = {"kind": kind, "lexical": lexical} | ({"queries": queries} if kind == "auto" else {})
    complaints = problems if problems is not None else Problems()
    work = out.with_name(f".{out.name}.building")
    with _alone(work):
        _clear(work, makers)
        table = _read(documents, work / "documents", progress)
        give_back()
        if not len(table.shelf):
            complaints.settle(skip_bad=skip_bad)
            raise DataError("there are no documents to index", item=str(out), cure="check the corpus")
        inputs = digest([table.sha256, makers, options, VERSION])
        if _finished(out, inputs):
            complaints.settle(skip_bad=skip_bad)
            shutil.rmtree(work)
            finished: dict[str, Any] = read_json(out / "manifest.json")
            return finished
        drops = [Drop(sample="", stage="read", reason=line) for line in complaints.lines]
        for row, reason in table.bad:
            complaints.add(table.shelf.id(row), reason)
            drops.append(Drop(sample="", evidence=table.shelf.id(row), stage="index", reason=reason))
        complaints.settle(skip_bad=skip_bad)
        pages = _write_pages(work, table)
        table = table._replace(page_keys=table.page_keys[:0].copy())
        give_back()
        rows = {"texts": table.texts, "images": table.images, "pages": _counting(len(pages), work)}
        parts: dict[str, Any] = {}
        for part in DENSE_PARTS:
            if part.space not in encoders or not len(rows[part.over]):
                continue
            folder = work / "parts" / part.name
            shelf = pages if part.over == "pages" else table.shelf
            entry, failed = _dense(
                part,
                encoders[part.space],
                shelf,
                rows[part.over],
                folder,
                image_root,
                kind,
                queries,
                workers,
                progress,
                engine or _Here(),
            )
            give_back()
            parts[part.name] = entry
            for id, why in failed:
                drops.append(Drop(sample="", evidence=id, stage=part.name, reason=why))
                if part.over != "pages":  # a page without a title is no mistake of the corpus
                    complaints.add(id, why)
        complaints.settle(skip_bad=skip_bad)
        if len(table.texts):
            folder = work / "parts" / "lexical"
            fields = (table.shelf.raw(int(row)) for row in table.texts)
            texts = (passage_text(str(f["title"]), str(f["text"])) for f in fields)
            made = (
                build_rank_bm25(texts, folder) if lexical == "rank-bm25" else build_bm25(texts, folder, method=lexical)
            )
            parts["lexical"] = made | {"space": "", "over": "texts"}
            _save(folder / "rows.npy", table.texts)
        write_records(work / "skipped.jsonl", drops)
        (work / "makers.json").unlink()
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "inputs": inputs,
            "id": inputs[:12],
            "demur": __version__,
            "encoders": {
                space: {
                    "name": maker.name,
                    "note": maker.note,
                    "fingerprint": maker.fingerprint(),
                    "similarity": maker.similarity,
                    "dims": maker.dims[space],
                }
                for space, maker in sorted(encoders.items())
            },
            "counts": {
                "documents": len(table.shelf),
                "pages": len(pages),
                "texts": len(table.texts),
                "images": len(table.images),
                "skipped": len(drops),
            },
            "options": options,
            "parts": parts,
            "files": {
                path.relative_to(work).as_posix(): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(work.rglob("*"))
                if path.is_file()
            },
        }
        write_json(work / "manifest.json", manifest)
        with storage_errors(out):
            if out.exists():
                shutil.rmtree(out)
            work.rename(out)
    return manifest


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Keep a second build of the same folder out while this one runs."""
    place = work.with_name(work.name + ".lock")
    with storage_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = place.open("w")
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                "another process is building this index", item=str(work), cure="wait for it, or choose another --out"
            ) from error
        except OSError:  # a file system without locks: two builders are then the user's to avoid
            pass
        try:
            yield
        finally:
            place.unlink(missing_ok=True)


def _clear(work: Path, makers: dict[str, list[str]]) -> None:
    """Make ready to build in ``work``; vectors of an interrupted build by the same encoders stay."""
    with storage_errors(work):
        before = read_json(work / "makers.json") if (work / "makers.json").is_file() else None
        if before != makers:
            shutil.rmtree(work, ignore_errors=True)
        for folder in (work / "documents", work / "pages", work / "parts" / "lexical"):
            shutil.rmtree(folder, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
    write_json(work / "makers.json", makers)


def _finished(out: Path, inputs: str) -> bool:
    if not (out / "manifest.json").is_file():
        return False
    manifest = read_json(out / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UsageError("its manifest is not of an index", item=str(out), cure="choose another --out")
    return manifest.get("inputs") == inputs and all(
        (out / name).is_file() and (out / name).stat().st_size == entry["bytes"]
        for name, entry in manifest["files"].items()
    )


class _Table(NamedTuple):
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


def _read(documents: Iterable[Document], folder: Path, progress: bool | Progress) -> _Table:
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
    with_text, with_image = (_without(rows, repeated, folder) for rows in (with_text, with_image))
    return _Table(Documents(folder), writer.sha256, with_text, with_image, page_keys, sorted(bad))


def _without(rows: NDArray[np.int64], some: Sequence[int], folder: Path) -> NDArray[np.int64]:
    """(n,) ascending rows without some of them, mapped."""
    if not some:
        return rows
    dropped = np.array(sorted(some), np.int64)
    with closing(Column(folder)) as kept:
        for start in range(0, len(rows), NORM_BLOCK):
            block = rows[start : start + NORM_BLOCK]
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


def _save(path: Path, values: NDArray[Any]) -> None:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)


def _write_pages(work: Path, table: _Table) -> Documents:
    """Write the table of pages, in the order of their first documents, and which documents lie on each."""
    page_of, ends = _pages_of(table.page_keys, work / "documents")
    order = _by_page(page_of, ends, work / "documents")
    start = 0
    with DocumentsWriter(work / "pages") as writer:
        for at in range(0, len(ends), NORM_BLOCK):
            for end in ends[at : at + NORM_BLOCK].tolist():
                writer.add(_page(table.shelf, order[start:end]))
                start = end
        writer.close()
    _save(work / "page_of.npy", page_of)
    _save(work / "page_ends.npy", ends)
    _save(work / "page_documents.npy", order)
    return Documents(work / "pages")


def _pages_of(keys: NDArray[np.uint64], folder: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) the page of each row, and (pages,) where each page ends when rows lie page by page; both mapped.

    Pages are numbered in the order of their first rows.
    """
    page_of = _zeros(len(keys), folder)
    for rows in by_key(keys):  # first: the first row of the same page
        new = np.flatnonzero(np.append(True, keys[rows[1:]] != keys[rows[:-1]])) if len(rows) else rows
        page_of[rows] = np.repeat(rows[new], np.diff(np.append(new, len(rows))))
    pages = 0
    with closing(Column(folder)) as number:
        for start in range(0, len(keys), NORM_BLOCK):
            block = page_of[start : start + NORM_BLOCK]
            new = block == np.arange(start, start + len(block))
            number.extend(pages + np.cumsum(new) - 1)
            pages += int(new.sum())
        numbers = number.values()
    ends = _zeros(pages, folder)
    for start in range(0, len(keys), NORM_BLOCK):
        block = numbers[page_of[start : start + NORM_BLOCK]]
        page_of[start : start + NORM_BLOCK] = block
        np.add.at(ends, block, 1)
    total = 0
    for start in range(0, pages, NORM_BLOCK):
        ends[start : start + NORM_BLOCK] = total + np.cumsum(ends[start : start + NORM_BLOCK])
        total = int(ends[min(start + NORM_BLOCK, pages) - 1])
    return page_of, ends


def _by_page(page_of: NDArray[np.int64], ends: NDArray[np.int64], folder: Path) -> NDArray[np.int64]:
    """(n,) all rows, page by page, ascending within one; mapped."""
    order, free = _zeros(len(page_of), folder), _zeros(len(ends), folder)
    for start in range(1, len(ends), NORM_BLOCK):
        free[start : start + NORM_BLOCK] = ends[start - 1 : start - 1 + len(free[start : start + NORM_BLOCK])]
    for start in range(0, len(page_of), NORM_BLOCK):
        pages = page_of[start : start + NORM_BLOCK]
        rows = np.argsort(pages, kind="stable")
        found, first, count = np.unique(pages[rows], return_index=True, return_counts=True)
        place = np.arange(len(rows)) - np.repeat(first, count)  # the how-manyth of its page in this block
        order[np.repeat(free[found], count) + place] = start + rows
        free[found] += count
    return order


def _counting(count: int, folder: Path) -> NDArray[np.int64]:
    """(n,) 0, 1, 2 ..., mapped."""
    with closing(Column(folder)) as column:
        for start in range(0, count, NORM_BLOCK):
            column.extend(np.arange(start, min(start + NORM_BLOCK, count)))
        return column.values()


def _zeros(count: int, folder: Path) -> NDArray[np.int64]:
    with closing(Column(folder)) as column:
        for start in range(0, count, NORM_BLOCK):
            column.extend(np.zeros(min(NORM_BLOCK, count - start), np.int64))
        return column.values()


def _page(shelf: Documents, rows: NDArray[np.int64]) -> Document:
    id = title = summary = lead = first = ""
    for row in rows.tolist():
        fields = shelf.raw(row)
        attributes: Any = fields["attributes"]
        id = id or str(fields["page"] or fields["id"])
        first = first or str(fields["title"])
        title = title or str(attributes.get("page_title", ""))
        summary = summary or str(attributes.get("summary", ""))
        lead = lead or str(fields["text"] or "")
        if title and summary:
            break
    return Document(id=id, title=title or first, text=summary or lead)


class _Items(Sequence[Item]):
    """What a part embeds, read from disk item by item; pickled it is three paths, so that other machines read too."""

    def __init__(self, part: _Part, documents: Path, rows: Path, root: Path) -> None:
        self._part, self._documents, self._chosen, self._root = part, documents, rows, root

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_part", "_documents", "_chosen", "_root")}

    @cached_property
    def _shelf(self) -> Documents:
        return Documents(self._documents)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = np.load(self._chosen, mmap_mode="r")
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self._item(row) for row in self._rows[place].tolist()]
        return self._item(int(self._rows[place]))

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), NORM_BLOCK):
            yield from map(self._item, self._rows[start : start + NORM_BLOCK].tolist())

    def _item(self, row: int) -> Item:
        if self._part.over == "images":
            document = self._shelf.at(row)
            if document.image is None:  # rows of this part have one
                raise IndexFileError("the image is gone", item=document.id, cure="build the index again")
            return Item.of_image(document.id, document.image, self._root)
        fields = self._shelf.raw(row)
        title, text, name = str(fields["title"]), str(fields["text"] or ""), self._part.name
        shown = {"passages": passage_text(title, text), "titles": title, "summaries": page_text(title, text)}[name]
        return Item(str(fields["id"]), text=shown)


def _dense(
    part: _Part,
    encoder: Encoder,
    shelf: Documents,
    rows: NDArray[np.int64],
    folder: Path,
    root: Path | None,
    kind: Kind | Literal["auto"],
    queries: int,
    workers: int,
    progress: bool | Progress,
    engine: Engine,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Embed and index one part; returns its entry for the manifest, and (id, why) of what could not be embedded."""
    _save(folder / "rows.npy", rows)
    here = (folder.absolute() / "rows.npy", (root or Path()).absolute())
    made = engine.embed(
        _Items(part, shelf.folder.absolute(), *here),
        encoder,
        part.space,
        folder,
        workers=workers,
        progress=partial(progress, part.name) if callable(progress) else progress,
    )
    failed = list(made.errors())
    left_out = [row for id, _ in failed if (row := shelf.row(id)) is not None]
    if failed:
        _save(folder / "rows.npy", _without(rows, left_out, folder))
    vectors: NDArray[np.float32] = made.vectors
    count, dims = vectors.shape
    largest = 0.0
    for start in range(0, count, NORM_BLOCK):
        squares = np.square(vectors[start : start + NORM_BLOCK], dtype=np.float64).sum(axis=1)
        largest = max(largest, float(np.sqrt(squares.max())))
        if encoder.similarity == "cosine" and not np.allclose(squares, 1.0, atol=1e-3):
            raise DataError(
                "it calls itself a cosine encoder, and gives rows that are not of length 1",
                item=encoder.name,
                cure="mend the encoder, or have it say 'dot'",
            )
    entry: dict[str, Any] = {
        "space": part.space,
        "over": part.over,
        "dims": dims,
        "count": count,
        "largest_norm": largest,
    }
    chosen = choose(count, dims, queries=queries) if kind == "auto" else Choice(kind, "as asked")
    if not count:
        chosen = Choice("flat", "there is nothing to index")
    elif chosen.kind == "ivf-pq" and count < PQ_LEAST:
        chosen = Choice("flat", f"{count} vectors cannot train ivf-pq, which needs {PQ_LEAST}")
    entry |= chosen._asdict()
    if chosen.kind != "flat":
        entry |= engine.build_ivf(chosen.kind, vectors, folder / "index.faiss")
    return entry, failed
