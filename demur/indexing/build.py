"""Documents to an index folder, whole or not at all.

    out/manifest.json          what is in it, who made it, and the size and hash of every file
    out/documents/  out/pages/ `demur.core.docstore.Documents`: every document; every page (id, title, summary)
    out/page_of.npy            document row -> page row, -1 for a document that is left out of every part
    out/page_ends.npy  out/page_documents.npy   page row -> its document rows
    out/parts/NAME/            one index each, with ``rows.npy``: row of the index -> row of documents or pages
    out/skipped.jsonl          what could not be indexed, each with its reason

The parts are the dense ones of `demur.indexing.parts`, for the spaces that the encoder serves, and ``lexical``: BM25
over documents with text; of these, the ones that are asked for. A part that has the vectors of another has no folder.

A page is what documents share under `Document.page` (a document without one is a page of its own). Its title is
``attributes["page_title"]`` or else the title of its first document; its summary is ``attributes["summary"]`` or else
the text of its first document with text. Documents that are left out of every part do not describe a page.

A killed build is continued: documents are read again, finished vectors are not made again (`demur.indexing.embed`), and
nothing else that it left goes into the index. A finished folder replaces the one before by renaming, and a run that
finds this half done completes it. A finished folder whose files are not as its manifest says is made again, except for
the vectors in it that are whole. Memory grows by some 50 bytes per document and by the vocabulary, not with texts or
vectors.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.core.docstore import LINES as DOCUMENT_LINES
from demur.core.docstore import Documents
from demur.core.errors import DataError, IndexFileError, StorageError, UnknownPart, UsageError
from demur.core.records import Document, Drop
from demur.core.store import (
    Problems,
    digest,
    file_digest,
    locked,
    read_json,
    storage_errors,
    write_json,
    write_records,
)
from demur.core.system import release_memory
from demur.core.text import plain
from demur.core.version import __version__
from demur.indexing.bm25 import Method, build_bm25
from demur.indexing.encoders import Encoder, fingerprint_of, stored_names
from demur.indexing.folder import FORMAT, SMALL, VERSION, read_manifest, wrong_files
from demur.indexing.gpu import load_faiss
from demur.indexing.indexes import kind_named
from demur.indexing.options import PARTS, USUAL, IndexOptions
from demur.indexing.parts import (
    DENSE_PARTS,
    build_dense,
    copy_vectors,
    entry_of_found,
    keep_vectors,
    passage_text,
    twin_of,
)
from demur.indexing.tables import Table, in_blocks, read_documents, save, save_rows, write_pages

LINES = f"documents/{DOCUMENT_LINES}"


def build_index(
    documents: Iterable[Document],
    encoder: Encoder,
    out: Path,
    options: IndexOptions = USUAL,
) -> dict[str, Any]:
    """Write an index folder of ``documents``; returns its manifest.

    The folder is built beside ``out`` and moved there when it is whole. A finished folder of the same documents,
    encoders and options is kept if every byte of it is right. If only its images have moved, or only options differ,
    no vector is made again.

    Args:
        documents: read once, in order.
        encoder: for the spaces that it serves; ``options.text_encoder``, if given, serves ``text`` instead (the paper
            pairs EVA-CLIP with Contriever).
        out: the folder; refused if it holds something other than an index.
        options: how.

    Raises:
        BadInput: bad documents, unless ``options.skip_bad``.
        DataError: there are no documents, or none is left without the bad ones.
        UnknownPart: no such kind of index, or part.
        UsageError: the encoder embeds no images, and the documents have some; or it gives a vector for each token, and
            passages are cut later; ``out`` holds something else, or an index that may not be replaced, or another
            process is building there.
        MissingExtra: faiss is not installed.
        StorageError: the disk is full or cannot be written.
    """
    if options.kind != "auto":
        kind_named(options.kind)
    if unknown := sorted(set(options.parts) - set(PARTS)):
        raise UnknownPart("part of an index", unknown[0], PARTS, hint="or leave parts out")
    load_faiss()  # what is missing is said before anything is read
    out = out.resolve() if out.is_symlink() else out  # its target is replaced, not the link
    _check_folder(out)
    encoders = {space: encoder for space in encoder.dims}
    if options.text_encoder is not None:
        encoders["text"] = options.text_encoder
    of_texts = encoders.get("text", encoder)
    if options.cut_later is not None and of_texts.similarity == "maxsim":
        raise UsageError(
            "it gives a vector for each token, and passages of found pages have one",
            item=of_texts.name,
            cure="write 'passages: all' in the recipe's retrieval, or choose another text_encoder",
        )
    work = out.with_name(f".{out.name}.building")
    with locked(work.with_name(work.name + ".lock"), f"building {out.name}"):
        _put_in_place(work, out)
        with storage_errors(work):
            keep_vectors(work, encoders)
        table = read_documents(documents, work / "documents", options.progress)
        release_memory()
        made_of = _MadeOf(table, encoders, options)
        problems = options.problems if options.problems is not None else Problems()
        manifest = _finished_manifest(out, work, made_of, options)
        if manifest is not None:
            problems.settle(skip_bad=options.skip_bad)
            shutil.rmtree(work)
            return manifest
        manifest = _build(work, made_of, problems, options)
        _put_in_place(work, out)
    return manifest


def _build(
    work: Path, made_of: _MadeOf, problems: Problems, options: IndexOptions
) -> dict[str, Any]:
    """Build everything behind the table of documents; the manifest, which is written last, says that it is whole."""
    table = made_of.table
    drops = [Drop(sample="", stage="read", reason=line) for line in problems.summary()]
    skipped = len(problems) + len(table.bad)
    for row, reason in table.bad:
        id = table.documents.id(row)
        problems.add(id, reason)
        drops.append(Drop(sample="", evidence=id, stage="index", reason=reason))
    problems.settle(skip_bad=options.skip_bad)
    texts = table.rows("text", work / "texts.npy")
    images = table.rows("image", work / "images.npy")
    if not (len(texts) or len(images)):
        why = "; ".join(problems.summary(3))
        raise DataError(
            f"there are no documents to index{why and ': '}{why}",
            item=options.corpus,
            cure="check the corpus",
        )
    _check_images_are_served(len(images), made_of, options)
    pages = write_pages(work, table, options.cut_later.first if options.cut_later else str)
    release_memory()
    every_page = save_rows(work / "every.npy", range(len(pages)))
    rows = {"texts": texts, "images": images, "pages": every_page}
    parts, failures = _build_dense_parts(work, made_of, pages, rows, options)
    drops += failures
    # a page without a title is no fault of the corpus
    of_documents = [d for d in failures if d.stage not in ("titles", "summaries")]
    for drop in of_documents:
        problems.add(drop.evidence, drop.reason)
    problems.settle(skip_bad=options.skip_bad)
    if len(texts) and "lexical" in options.parts:
        parts["lexical"] = _build_lexical(
            table.documents, texts, work / "parts" / "lexical", options.lexical
        )
    for name in ("texts.npy", "images.npy", "every.npy"):
        (work / name).unlink()
    write_records(work / "skipped.jsonl", drops)
    counts = {
        "documents": len(table.documents),
        "pages": len(pages),
        "texts": len(texts),
        "images": len(images),
        "skipped": skipped + len({drop.evidence for drop in of_documents}),
    }
    manifest = _describe_index(work, made_of, counts, parts)
    manifest |= {"cut": options.cut, "owner": options.owner}
    write_json(work / "manifest.json", manifest)
    return manifest


def _check_images_are_served(images: int, made_of: _MadeOf, options: IndexOptions) -> None:
    """Raise UsageError where images would be left out in silence."""
    makers = made_of.encoders
    if images and {"looks", "images"} & set(options.parts) and not {"look", "joint"} & set(makers):
        raise UsageError(
            f"it embeds no images, and {images:,} of the documents have one",
            item=made_of.encoders["text"].name,
            cure="choose an --encoder of images and give this one as --text-encoder, "
            "or say that texts alone are meant: --parts passages,lexical",
        )


def _build_dense_parts(
    work: Path,
    made_of: _MadeOf,
    pages: Documents,
    rows: Mapping[str, NDArray[np.int64]],
    options: IndexOptions,
) -> tuple[dict[str, Any], list[Drop]]:
    """Part -> its entry for the manifest; and what could not be embedded."""
    parts: dict[str, Any] = {}
    drops: list[Drop] = []
    spaces = stored_names(made_of.encoders)
    for part in DENSE_PARTS:
        folder = work / "parts" / part.name
        served = part.name in options.parts and part.space in spaces and len(rows[part.over])
        twin = twin_of(part, spaces[part.space], parts) if served else ""
        later = part.over == "texts" and options.cut_later is not None
        if twin or later or not served:
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed build of another kind
        if not served:
            continue
        space = spaces[part.space]
        encoder = made_of.encoders[space]
        if twin:
            parts[part.name] = parts[twin] | {"vectors_of": twin}
            continue
        if later:
            parts[part.name] = entry_of_found(encoder, space)
            save(folder / "rows.npy", rows[part.over])
            continue
        over = pages if part.over == "pages" else made_of.table.documents
        parts[part.name], failed = build_dense(
            part, space, encoder, over, rows[part.over], folder, options
        )
        release_memory()
        drops += [Drop(sample="", evidence=id, stage=part.name, reason=why) for id, why in failed]
    return parts, drops


def _check_folder(out: Path) -> None:
    """Raise UsageError where something other than an index, whole or not, is in the way."""
    if out.exists() and not out.is_dir():
        raise UsageError("this is a file, not a folder", item=out, cure="choose another --out")
    if out.resolve() == Path.cwd():  # the finished folder takes its place by renaming
        raise UsageError(
            "the current folder cannot become an index",
            item=out,
            cure="name a folder in it: --out index",
        )
    try:
        manifest = read_json(out / "manifest.json")
        is_index = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    except (DataError, StorageError):
        is_index = (out / "page_of.npy").is_file() and (out / "page_ends.npy").is_file()
    if out.exists() and any(out.iterdir()) and not is_index:
        raise UsageError(
            "the folder is not empty and not an index", item=out, cure="choose another --out"
        )


class _MadeOf:
    """What an index is made of: documents, encoders and options."""

    def __init__(
        self, table: Table, encoders: Mapping[str, Encoder], options: IndexOptions
    ) -> None:
        self.table, self.encoders = table, encoders
        self.options: dict[str, Any] = {
            "kind": options.kind,
            "lexical": options.lexical,
            "parts": sorted(set(options.parts)),
        }
        if options.cut_later is not None:
            self.options["cut_later"] = options.cut_later.setting
        if options.kind == "auto":
            self.options["queries"] = options.queries
        makers = {space: [maker.name, fingerprint_of(maker)] for space, maker in encoders.items()}
        self.inputs = digest([table.sha256, makers, self.options, VERSION])
        self.content = digest([table.sha256, makers, VERSION])
        """Equal for indexes of the same documents by the same encoders."""

    def difference(self, manifest: Mapping[str, Any]) -> str:
        """How an index differs from one of these documents by these encoders; "" if it does not."""
        if manifest["content"] == self.content:
            return ""
        for space, maker in sorted(self.encoders.items()):
            entry, fingerprint = manifest["encoders"].get(space), fingerprint_of(maker)
            if entry is None or entry["fingerprint"] != fingerprint:
                other_encoder = (
                    f"{entry['name']} ({entry['fingerprint'][:12]})" if entry else "no encoder"
                )
                return f"its {space} vectors are by {other_encoder}, not by {maker.name} ({fingerprint[:12]})"
        indexed_count, given_count = manifest["counts"]["documents"], len(self.table.documents)
        return f"it holds other documents ({indexed_count:,}; the source gives {given_count:,}, cut as asked)"


def _finished_manifest(
    out: Path, work: Path, made_of: _MadeOf, options: IndexOptions
) -> dict[str, Any] | None:
    """The manifest of the index in ``out`` if it is as good as a new one.

    Raises:
        UsageError: it may not be replaced.
    """
    try:
        if is_of_another(out, options.owner):
            return _fitting_manifest(out, made_of)
        return _reusable_manifest(out, work, made_of, options)
    except UsageError:
        keep_vectors(
            work, made_of.encoders
        )  # of a killed build with --fresh, which may go on later
        raise


def is_of_another(out: Path, owner: str) -> bool:
    """Whether an owner finds an index, whole or not, that was made for another; the user may replace any."""
    try:
        return bool(owner) and read_json(out / "manifest.json").get("owner", "") != owner
    except (DataError, StorageError):
        return out.exists() and any(out.iterdir())


def _fitting_manifest(out: Path, made_of: _MadeOf) -> dict[str, Any]:
    """The manifest of another owner's index, which must fit."""
    try:
        manifest = read_manifest(out)
        lacking = set(made_of.options["parts"]) - set(manifest["options"]["parts"])
        without = f"it was made without {', '.join(sorted(lacking))}" if lacking else ""
        why = made_of.difference(manifest) or without
        if not why:
            why = next(
                (f"{name}: {fault}" for name, fault in wrong_files(out, manifest, hashed=SMALL)), ""
            )
    except IndexFileError as error:
        why = error.message
    if why:
        raise UsageError(
            f"the index there was not made by this build, and does not fit: {why}",
            item=out,
            cure="build it as the recipe says, name another with retrieval.index, or move it away",
        )
    return manifest


def _reusable_manifest(
    out: Path, work: Path, made_of: _MadeOf, options: IndexOptions
) -> dict[str, Any] | None:
    """The manifest of the index in ``out`` if nothing must be made anew; else the vectors that fit go to ``work``.

    Raises:
        UsageError: the user must say ``fresh`` to have it replaced.
    """
    try:
        manifest = read_manifest(out)
    except IndexFileError:
        return None
    if why := made_of.difference(manifest):
        if options.owner or options.fresh:
            return None
        raise UsageError(
            f"there is another index: {why}",
            item=out,
            cure="add --fresh to replace it, or choose another --out",
        )
    fault_of_file = dict(wrong_files(out, manifest, hashed=inf))
    if file_digest(work / LINES) != manifest["files"][LINES]["sha256"]:
        fault_of_file.setdefault(LINES, "its images have moved")
    if manifest["inputs"] == made_of.inputs and not fault_of_file:
        return manifest
    for name, why in islice(fault_of_file.items(), 1):
        sys.stderr.write(
            plain(f"{out / name}: {why}; {len(fault_of_file)} file(s) of the index are made again")
            + "\n"
        )
    copy_vectors(out, work, made_of.encoders, fault_of_file)
    return None


def _describe_index(
    work: Path, made_of: _MadeOf, counts: Mapping[str, int], parts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "inputs": made_of.inputs,
        "id": made_of.inputs[:12],
        "demur": __version__,
        "encoders": {
            space: {
                "name": maker.name,
                "note": maker.note,
                "fingerprint": fingerprint_of(maker),
                "similarity": maker.similarity,
                "dims": maker.dims[space],
            }
            for space, maker in sorted(made_of.encoders.items())
        },
        "counts": counts,
        "options": made_of.options,
        "parts": parts,
        "files": {
            path.relative_to(work).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": file_digest(path),
            }
            for path in sorted(work.rglob("*"))
            if path.is_file()
        },
        "content": made_of.content,
    }


def _build_lexical(
    documents: Documents, rows: NDArray[np.int64], folder: Path, method: Method
) -> dict[str, Any]:
    """Index the texts by their words; returns the entry for the manifest."""
    texts = (
        passage_text(str(fields["title"]), str(fields["text"]))
        for fields in documents.raw(in_blocks(rows))
    )
    entry = build_bm25(texts, folder, method=method)
    save(folder / "rows.npy", rows)
    return entry | {"space": "", "over": "texts"}


def _put_in_place(work: Path, out: Path) -> None:
    """Replace the folder by a finished one; also completes what a run left undone that was killed in here."""
    before = work.with_name(f"{work.name}.before")
    with storage_errors(out):
        if (work / "manifest.json").is_file():  # written last
            if out.exists():
                shutil.rmtree(before, ignore_errors=True)
                out.rename(before)
            work.rename(out)
        if before.exists():
            shutil.rmtree(before)
