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
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur import __version__
from demur.documents import Documents, DocumentsWriter
from demur.errors import DataError, UsageError
from demur.indexing.bm25 import Method, build_bm25
from demur.indexing.encoders import Encoder
from demur.indexing.exact import unit, usable
from demur.records import Document, Drop
from demur.store import Problems, digest, file_digest, read_image, read_json, storage_errors, write_json, write_records

FORMAT = "demur-index"
VERSION = 1

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, items done, items in all)."""


class _Part(NamedTuple):
    name: str
    over: str
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
    lexical: Method = "lucene",
    batch: int = 64,
    skip_bad: bool = False,
    problems: Problems | None = None,
    progress: Progress | None = None,
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
        lexical: how BM25 scores, see `demur.indexing.bm25`.
        batch: items handed to the encoder at once.
        skip_bad: leave out, and list in ``skipped.jsonl``, documents whose id repeats, that are empty, or whose image
            cannot be read; else they are all named in one error before anything is embedded or right after.
        problems: bad rows that the reader of ``documents`` has put aside; settled together with those found here.
        progress: called now and then.

    Raises:
        BadInput: bad documents, unless ``skip_bad``.
        DataError: there are no documents.
        UsageError: ``out`` holds something else.
        StorageError: the disk is full or cannot be written.
    """
    tell = progress or (lambda what, done, total: None)
    if out.exists() and not (out / "manifest.json").is_file() and any(out.iterdir()):
        raise UsageError("the folder is not empty and not an index", item=str(out), cure="choose another --out")
    work = out.with_name(f".{out.name}.building")
    with storage_errors(work):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
    encoders = {space: encoder for space in encoder.dims}
    if text_encoder is not None:
        encoders["text"] = text_encoder
    options = {"lexical": lexical, "version": VERSION}
    complaints = problems if problems is not None else Problems()
    drops: list[Drop] = []

    with DocumentsWriter(work / "documents") as writer:
        pages: list[str] = []
        for document in documents:
            writer.add(document)
            pages.append(document.page or document.id)
            if len(pages) % 10_000 == 0:
                tell("reading documents", len(pages), 0)
        repeated = set(writer.close())
    if not pages:
        complaints.settle(skip_bad=skip_bad)
        raise DataError("there are no documents to index", item=str(out), cure="check the corpus")
    inputs = digest([writer.sha256, {s: [e.name, e.fingerprint()] for s, e in encoders.items()}, options])
    if _finished(out, inputs):
        shutil.rmtree(work)
        finished: dict[str, Any] = read_json(out / "manifest.json")
        return finished
    shelf = Documents(work / "documents")

    def bad(row: int, stage: str, reason: str) -> None:
        complaints.add(shelf.id(row), reason)
        drops.append(Drop(sample="", evidence=shelf.id(row), stage=stage, reason=reason))

    texts, images = array("q"), array("q")
    for row in range(len(shelf)):
        fields = shelf.raw(row)
        if row in repeated:
            bad(row, "index", "the id repeats an earlier document's")
            continue
        text = fields["text"]
        if isinstance(text, str) and not text.strip():
            if fields["image"] is None:
                bad(row, "index", "the text is empty")
        elif text is not None:
            texts.append(row)
        if fields["image"] is not None:
            images.append(row)
    complaints.settle(skip_bad=skip_bad)
    page_count = _write_pages(work, shelf, pages)
    page_shelf = Documents(work / "pages")
    tell("pages", page_count, page_count)

    rows = {"texts": _rows(texts), "images": _rows(images), "pages": np.arange(page_count, dtype=np.int64)}
    parts: dict[str, Any] = {}
    for part in DENSE_PARTS:
        serving = encoders.get(part.space)
        if serving is None or not len(rows[part.over]):
            continue
        folder = work / "parts" / part.name
        source = _embedded(part, serving, shelf, page_shelf, rows[part.over], image_root, batch)
        count = len(rows[part.over])
        parts[part.name] = _write_dense(folder, part, serving, source, count, tell, bad)
    complaints.settle(skip_bad=skip_bad)
    if len(texts):
        folder = work / "parts" / "lexical"
        tell("lexical", 0, len(texts))
        wanted = (passage_text(str(f["title"]), str(f["text"])) for f in map(shelf.raw, texts))
        parts["lexical"] = build_bm25(wanted, folder, method=lexical) | {"space": "", "over": "texts"}
        with storage_errors(folder):
            np.save(folder / "rows.npy", rows["texts"])
        tell("lexical", len(texts), len(texts))

    write_records(work / "skipped.jsonl", drops)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "inputs": inputs,
        "id": inputs[:12],
        "demur": __version__,
        "encoders": {
            space: {
                "name": e.name,
                "note": e.note,
                "fingerprint": e.fingerprint(),
                "similarity": e.similarity,
                "dims": e.dims[space],
            }
            for space, e in sorted(encoders.items())
        },
        "counts": {
            "documents": len(shelf),
            "pages": page_count,
            "texts": len(texts),
            "images": len(images),
            "skipped": len(drops),
        },
        "options": options,
        "parts": parts,
        "files": {
            str(path.relative_to(work)): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
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


def _rows(values: array[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _write_pages(work: Path, shelf: Documents, pages: Sequence[str]) -> int:
    """Write the table of pages in order of their first document; returns how many there are."""
    number: dict[str, int] = {}
    page_of = np.fromiter((number.setdefault(page, len(number)) for page in pages), np.int64, len(pages))
    order = np.argsort(page_of, kind="stable").astype(np.int64)
    ends = np.searchsorted(page_of[order], np.arange(len(number)), side="right").astype(np.int64)
    with DocumentsWriter(work / "pages") as writer:
        start = 0
        for page, end in zip(number, ends, strict=True):
            title = summary = lead = first = ""
            for row in order[start:end]:
                fields = shelf.raw(int(row))
                attributes: Any = fields["attributes"]
                first = first or str(fields["title"])
                title = title or attributes.get("page_title", "")
                summary = summary or attributes.get("summary", "")
                lead = lead or str(fields["text"] or "")
                if title and summary:
                    break
            writer.add(Document(id=page, title=title or first, text=summary or lead))
            start = int(end)
        writer.close()
    with storage_errors(work):
        np.save(work / "page_of.npy", page_of)
        np.save(work / "page_ends.npy", ends)
        np.save(work / "page_documents.npy", order)
    return len(number)


def _embedded(
    part: _Part,
    encoder: Encoder,
    shelf: Documents,
    pages: Documents,
    rows: NDArray[np.int64],
    root: Path | None,
    batch: int,
) -> Iterator[tuple[list[int], NDArray[np.float32], list[tuple[int, str]]]]:
    """Batches of (rows of the table, their vectors, (row, reason) of those that could not be read)."""
    for start in range(0, len(rows), batch):
        here = [int(row) for row in rows[start : start + batch]]
        if part.over == "images":
            good, pictures, failed = [], [], []
            for row in here:
                try:
                    pictures.append(_picture(shelf.at(row), root))
                    good.append(row)
                except DataError as error:
                    failed.append((row, f"the image cannot be used: {error.message}"))
            yield (
                good,
                encoder.images(pictures, part.space) if good else np.zeros((0, encoder.dims[part.space]), np.float32),
                failed,
            )
            continue
        table = shelf if part.over == "texts" else pages
        fields = [table.raw(row) for row in here]
        if part.name == "titles":
            shown = [str(f["title"]) for f in fields]
        else:
            join = passage_text if part.name == "passages" else page_text
            shown = [join(str(f["title"]), str(f["text"] or "")) for f in fields]
        yield here, encoder.texts(shown, part.space, role="passage"), []


def _picture(document: Document, root: Path | None) -> Any:
    import io

    from PIL import Image

    assert document.image is not None
    with Image.open(io.BytesIO(read_image(document.image, root))) as opened:
        return opened.convert("RGB")


def _write_dense(
    folder: Path,
    part: _Part,
    encoder: Encoder,
    batches: Iterator[tuple[list[int], NDArray[np.float32], list[tuple[int, str]]]],
    count: int,
    tell: Progress,
    bad: Callable[[int, str, str], None],
) -> dict[str, Any]:
    dims, kept, largest = encoder.dims[part.space], array("q"), 0.0
    with storage_errors(folder):
        folder.mkdir(parents=True)
        raw = (folder / "vectors.raw").open("wb")
    done = 0
    with raw:
        for rows, vectors, failed in batches:
            for row, reason in failed:
                bad(row, part.name, reason)
            if vectors.shape != (len(rows), dims):
                raise DataError(
                    f"the encoder gave {vectors.shape} for {len(rows)} items of {dims} dimensions",
                    item=encoder.name,
                    cure="mend the encoder",
                )
            vectors = np.ascontiguousarray(vectors, dtype=np.float32)
            good = usable(vectors)
            for place in np.flatnonzero(~good):
                bad(rows[place], part.name, "its vector is NaN, infinite or zero")
            vectors = vectors[good]
            if encoder.similarity == "cosine":
                vectors = unit(vectors)
            if len(vectors):
                largest = max(largest, float(np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1)).max()))
            kept.extend(row for row, ok in zip(rows, good, strict=True) if ok)
            with storage_errors(folder):
                raw.write(vectors.tobytes())
            done += len(rows) + len(failed)
            tell(part.name, done, count)
    with storage_errors(folder):
        np.save(folder / "rows.npy", _rows(kept))
        _raw_to_npy(folder / "vectors.raw", folder / "vectors.npy", (len(kept), dims))
    return {
        "kind": "flat",
        "space": part.space,
        "over": part.over,
        "dims": dims,
        "count": len(kept),
        "largest_norm": largest,
    }


def _raw_to_npy(raw: Path, path: Path, shape: tuple[int, int]) -> None:
    with path.open("wb") as out, raw.open("rb") as handle:
        np.lib.format.write_array_header_1_0(
            out, {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
        )
        shutil.copyfileobj(handle, out, 1 << 20)
    raw.unlink()
