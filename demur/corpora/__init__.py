"""Corpora: knowledge bases in the formats they come in, as streams of documents.

A corpus is named by text that parses back, ``READER:PATH`` with options after a question mark:

    jsonl:kb.jsonl?id=_id&text=body          JSON Lines (or one JSON list), columns by name; .gz too
    csv:kb.csv    tsv:kb.tsv    parquet:kb.parquet      the same for tables
    wiki6m:Wiki6M_ver_1_0.jsonl.gz           InfoSeek's Wikipedia
    evqa:encyclopedic_kb_wiki.json           Encyclopedic-VQA's Wikipedia: one JSON object of many gigabytes
    cragmm:web-search-index                  CRAG-MM's web passages, or its entities and their pictures
    kilt:kilt_knowledgesource.json           KILT's Wikipedia; ViQuAE's files are of the same form
    dpr:psgs_w100.tsv.gz                     DPR's Wikipedia passages
    beir:scifact                             a folder in the layout of BEIR
    images:photos                            a folder of images
    docs:handbook                            a folder of Markdown, text, HTML, PDF, pictures, tables of chunks
    datasets:org/name?split=train&text=body  anything `datasets` opens

A bare path is read by its ending; a folder as BEIR's if it holds ``corpus.jsonl``, else as images. Every reader
streams: one record in memory at a time, besides what its module names (a map of images, the names of one folder). Bad
rows go to `demur.core.store.Problems` under file and line. Images have absolute paths, so that they are found from any
working folder.

Sources (`demur.sources`) read the published knowledge bases through the same modules.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from demur.core.errors import DataError, StorageError, UnknownPart, UsageError
from demur.core.images import image_ref
from demur.core.records import Document, ImageRef
from demur.core.spec import named
from demur.core.store import Problems, digest, storage_errors, write_atomic
from demur.core.uris import picture_in
from demur.corpora.formats.archives import inside
from demur.corpora.rows import bad_rows_noted

log = logging.getLogger("demur.indexing")

READERS = {
    "jsonl": "tables",
    "json": "tables",
    "csv": "tables",
    "tsv": "tables",
    "parquet": "tables",
    "datasets": "tables",
    "wiki6m": "wiki6m",
    "evqa": "evqa",
    "cragmm": "cragmm",
    "kilt": "kilt",
    "dpr": "dpr",
    "beir": "beir",
    "images": "folder",
    "docs": "docs",
}
"""Reader -> module of this package, with ``OPTIONS`` (see `named`) and ``read(reader, path, problems, options)``."""


def read_corpus(text: str, problems: Problems) -> Iterator[Document]:
    """The documents of the corpus that ``text`` names, streamed.

    Args:
        text: names the corpus as the module describes.
        problems: takes bad rows; settle it at the end of the stream.

    Raises:
        UnknownPart: no reader of that name.
        UsageError: an unknown option, or a path with an unknown ending.
        StorageError: the path cannot be read.
    """
    reader, colon, path_and_options = text.partition(":")
    if not colon or reader not in READERS:  # a folder may be named docs, images or beir
        bare = Path(text.partition("?")[0])
        if colon and not bare.exists():
            raise UnknownPart(
                "corpus reader", reader, list(READERS), hint="see 'demur index build --help'"
            )
        reader, path_and_options = _by_ending(bare), text
    module = import_module(f"{__name__}.{READERS[reader]}")
    path, options = named(f"corpus {reader}", path_and_options, module.OPTIONS)
    if reader != "datasets" and not Path(path).exists():
        raise _missing(path)
    documents: Iterator[Document] = module.read(reader, path, problems, options)
    return documents


def _missing(path: str | Path) -> StorageError:
    return StorageError("there is no such file or folder", item=path, cure="check the path")


def _by_ending(path: Path) -> str:
    if path.is_dir():
        return "beir" if any(path.glob("*corpus.jsonl*")) else "images"
    endings = [
        ending.lower().lstrip(".") for ending in path.suffixes if ending not in (".gz", ".zip")
    ]
    if endings and endings[-1] in READERS:
        return endings[-1]
    if not path.exists():
        raise UsageError("there is no such file or folder", item=path, cure="check the path")
    raise UsageError(
        "the ending of the path does not name a format",
        item=path,
        cure=f"write READER:PATH, one of {', '.join(READERS)}",
    )


def valid_document(problems: Problems, place: str, **fields: Any) -> Iterator[Document]:
    """One document of these fields, or none and a problem at ``place``."""
    if not fields.get("id"):
        problems.add(place, "there is no id")
        return
    document = None
    with bad_rows_noted(problems, place, fields["id"]):
        document = Document(**fields)
    if document is not None:
        yield document


def log_notes(path: str | Path, notes: Mapping[str, int]) -> None:
    """Log what a reader counted and no user needs to act on."""
    for note, count in notes.items():
        log.warning("%s: %s %s", path, f"{count:,}", note)


def log_skipped(path: str | Path, files: Counter[str]) -> None:
    """Log how many files a reader skipped, most frequent kinds first."""
    if files:
        commonest_kinds = ", ".join(f"{count:,} {kind}" for kind, count in files.most_common(5))
        log.warning("%s: skipped %d files: %s", path, files.total(), commonest_kinds)


def image_folder(options: Mapping[str, str]) -> Path | None:
    """The folder that the option ``images`` names; None without it.

    Raises:
        StorageError: there is no such folder.
    """
    if not options.get("images"):
        return None
    if not (folder := Path(options["images"])).is_dir():
        raise _missing(folder)
    return folder


CELLS = "images-from-cells"
"""Folder, beside a table, of the pictures that its cells hold and that cannot be read in place."""
NOT_DOWNLOADED = "save it in the folder, and write its path there in place of the address"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class NotDownloaded(DataError):
    """Data names a picture by its address; nothing is fetched."""

    usual_cure = NOT_DOWNLOADED


def picture_file(cell: Any, root: Path) -> Path:
    """The file of the picture in a cell (`demur.core.uris.picture_in`); content is written to `CELLS` below ``root``.

    Raises:
        DataError: the cell holds no picture, its path leads out of ``root``, or (`NotDownloaded`) it is an address.
        StorageError: content cannot be written.
    """
    content = picture_in(cell)
    if isinstance(content, bytes):
        path = root / CELLS / digest(content)
        if not path.is_file():
            write_atomic(path, content)
        return path
    if _ADDRESS.match(content):
        raise NotDownloaded("the picture is not downloaded", item=content)
    return inside(root, content)


def image_at(file: Path) -> ImageRef:
    """The image in a file, by its absolute path.

    Raises:
        DataError: it is no image, no plain file, or its path is not UTF-8 and could not be stored.
        StorageError: it cannot be read.
    """
    uri = str(file.absolute())
    try:
        uri.encode()
    except UnicodeEncodeError as error:
        escaped_uri = uri.encode(errors="backslashreplace").decode()
        raise DataError(
            "the path of the image is not UTF-8", item=escaped_uri, cure="rename it"
        ) from error
    with storage_errors(file):
        if file.exists() and not file.is_file():  # reading a pipe would wait for ever
            raise DataError("this is not a file", item=uri, cure="leave it out")
        return image_ref(file.read_bytes(), uri)


def image_or_none(
    problems: Problems, notes: Counter[str], place: str, path_of: Callable[[], Path]
) -> ImageRef | None:
    """The image in a file. None if there is no such file (counted) or it cannot be read (a problem at ``place``)."""
    try:
        path = path_of()
        if path.is_file():
            return image_at(path)
        notes["pictures that are not in the folder of images"] += 1
    except (DataError, StorageError) as error:
        problems.add(place, str(error))
    return None


def anchored(document: Document, root: Path) -> Document:
    """The document with an absolute path to its image; a relative one starts at ``root``.

    >>> image = ImageRef(sha256="0" * 64, uri="zip:a.zip!x.png", width=1, height=1)
    >>> anchored(Document(id="1", title="", image=image), Path("/kb")).image.uri
    'zip:/kb/a.zip!x.png'
    """
    if document.image is None:
        return document
    kind, path = _URI.fullmatch(document.image.uri).groups()  # type: ignore[union-attr]  # it matches any text
    image = document.image.model_copy(
        update={"uri": f"{kind}{os.path.join(root.absolute(), path)}"}
    )
    return document.model_copy(update={"image": image})


_URI = re.compile(r"((?:(?:zip|parquet|tsv|slice):)?)(.*)", re.DOTALL)
"""Kind and path of a uri, see `demur.core.uris.read_image`."""
