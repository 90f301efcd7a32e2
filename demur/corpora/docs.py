"""A folder of documents as people write them: Markdown, text, HTML, PDF, pictures; and tables of chunks of a store.

A document's id is its path below the folder; a page of a PDF is ``guide.pdf#page-3``, on the page ``guide.pdf``. The
title comes from the document (front matter, first heading, ``<title>``), else it is the file name. Rows of tables
(JSONL, JSON, CSV, TSV, Parquet) are read by `demur.corpora.tables` and keep their ids. Text is UTF-8, unless a byte
order mark or an HTML ``charset`` names another encoding; a file without text is a problem.

Pictures follow the texts, each once: its caption is what the first page that shows it says of it (else the file name),
and it lies on that page. ``pages=FOLDER`` renders pages of PDFs that show pictures (lines count where there is no text)
into that folder: then ``guide.pdf#page-3`` is that picture, and its words are the passage ``guide.pdf#page-3#text`` of
it, so that who must not see the one does not see the other. Pictures that cannot be used are named on the log, and
files with other endings are counted there. One document, and the names of all files, are in memory.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.core.errors import DataError, DemurError, StorageError, UsageError, importing
from demur.core.records import Document
from demur.core.store import Problems, digest, parsed_yaml, storage_errors
from demur.core.text import brief
from demur.core.untrusted import Choice, check
from demur.corpora import image_at, log_skipped, tables, valid_document
from demur.corpora.folder import image_endings, title_of
from demur.corpora.formats.tables import TABLES
from demur.corpora.mentions import Mention, file_of, pictures_in
from demur.corpora.pdf_pages import Rendered

log = logging.getLogger("demur.indexing")

OPTIONS = {
    "licence": "licence of all documents",
    "pages": "folder that pages of PDFs with pictures are rendered into",
}


class Part(NamedTuple):
    """A part of a file: all of it, or a page."""

    suffix: str
    """End of its id after the path."""
    title: str
    text: str
    mentions: tuple[Mention, ...] = ()
    picture: Path | None = None
    """Of the page, rendered."""
    unseen: bool = False
    """Whether the page shows pictures and was not rendered."""


MOST = 64 << 20
"""Most bytes of a text file; nobody writes a longer document."""
NAMED = 10
"""Unusable pictures that the log names."""
_HEADING = re.compile(r"^#{1,3}[ \t]+(\S.{0,200}?)[ \t#]*$", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.{0,20000}?)\r?\n---[ \t]*\r?\n", re.DOTALL)
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
)
"""Python's own codecs, some of which take quadratic time."""


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Documents below a folder by path, or of one file."""
    pages = Path(options["pages"]) if "pages" in options else None
    return documents(Path(path), problems, licence=options.get("licence", ""), pages=pages)


def documents(
    root: Path,
    problems: Problems,
    unused: dict[str, str] | None = None,
    *,
    licence: str = "",
    without: Collection[Path] = (),
    pages: Path | None = None,
) -> Iterator[Document]:
    """Documents below a folder by path, or of one file.

    Args:
        root: the folder, or the file.
        problems: takes unreadable files and rows.
        unused: gets each picture that cannot be used, and why; None: the log does.
        licence: of all documents.
        without: files to skip.
        pages: folder that pages of PDFs with pictures are rendered into; None renders none.

    Yields:
        Documents; those of text files, PDFs and pictures have their ending in the attribute ``format``.

    Raises:
        UsageError: there is no document.
        UntrustedFile: links lead out of the folder, and the user did not agree to read there.
    """
    files = (
        [root]
        if root.is_file()
        else sorted(p for p in root.rglob("*") if p.is_file() and not _is_hidden(p, root))
    )
    skipped = {path.resolve() for path in without}
    files = [file for file in files if file.resolve() not in skipped]
    skipped_endings: Counter[str] = Counter()
    endings = image_endings()
    image_files = {file: ("", "") for file in files if file.suffix.lower() in endings}
    known = {*PARTS, *TABLES}
    links = (
        file
        for file in files
        if file.is_symlink() and (_ending(file.name.lower()) in known or file in image_files)
    )
    check(root, [Choice("folder", str(link)) for link in links], folder=root)
    reading = _Reading(
        root, problems, {} if unused is None else unused, licence, pages, image_files
    )
    for file in files:
        ending = _ending(file.name.lower())
        if ending in TABLES:
            try:
                yield from reading.rows_of(file, ending)
            except (DataError, UsageError) as error:  # a folder may hold tables of other things
                problems.add(reading.name_of(file), f"{error.message}; leave it out")
        elif ending in PARTS:
            yield from reading.parts_of(file, ending)
        elif file not in image_files:
            skipped_endings[f".{ending} files" if ending else "without an ending"] += 1
    for file in image_files:
        yield from reading.picture(file)
    if skipped_endings.total() == len(files):
        known_endings = ", ".join(sorted(known))
        raise UsageError(
            f"no document among {len(files):,} files",
            item=str(root),
            cure=f"demur reads {known_endings} and pictures",
        )
    log_skipped(root, skipped_endings)
    if unused is None and reading.unused:
        named = "; ".join(f"{name}: {why}" for name, why in list(reading.unused.items())[:NAMED])
        count = f"{len(reading.unused):,}"
        log.warning("%s: %s pictures cannot be used, among them %s", root, count, named)


@dataclass
class _Reading:
    """One reading of a folder: what its pages show, and what of it cannot be used."""

    root: Path
    problems: Problems
    unused: dict[str, str]
    licence: str
    pages: Path | None
    pictures: dict[Path, tuple[str, str]]
    """File -> its caption, and the page that shows it; "" where none does."""
    in_rows: set[Path] = field(default_factory=set)
    """Pictures that rows of tables hold, by their absolute paths."""

    def name_of(self, file: Path) -> str:
        """The path of a file below the folder."""
        return file.relative_to(self.root if file != self.root else self.root.parent).as_posix()

    def rows_of(self, file: Path, ending: str) -> Iterator[Document]:
        """The documents of a table."""
        options = {"licence": self.licence} if self.licence else {}
        for document in tables.read(ending, str(file), self.problems, options):
            if document.image is not None:
                self.in_rows.add(Path(document.image.uri))
            yield document

    def parts_of(self, file: Path, ending: str) -> Iterator[Document]:
        """The documents of a text file or a PDF."""
        name = self.name_of(file)
        try:
            parts = list(_pdf(file, self.pages) if ending == "pdf" else PARTS[ending](file))
        except DataError as error:
            self.problems.add(name, str(error))
            return
        for part in parts:
            if part.unseen:
                self.unused[f"{name}{part.suffix}"] = "the page shows pictures and is not rendered"
            for mention in part.mentions:
                self._note(mention, file)
        useful = [part for part in parts if part.text.strip() or part.picture]
        if not useful and not any(part.mentions for part in parts):
            why = "holds no text (scanned pages need text recognition, or rendering: ?pages=FOLDER)"
            self.problems.add(name, f"{why}; leave it out")
        elif 0 < len(useful) < len(parts):
            skipped = len(parts) - len(useful)
            log.warning("%s: skipped %d of %d pages, which hold no text", name, skipped, len(parts))
        for part in useful:
            id, page = f"{name}{part.suffix}", name if part.suffix else ""
            title = part.title or file.stem
            if part.picture is not None:
                caption = f"{title}, page {part.suffix.rpartition('-')[2]}"
                image = image_at(part.picture)
                yield from self._document(name, id=id, title=caption, image=image, page=page)
            if part.text.strip():
                of_page = {"id": f"{id}#text", "document": id} if part.picture else {"id": id}
                yield from self._document(
                    name, title=title, text=part.text, page=page, ending=ending, **of_page
                )

    def picture(self, file: Path) -> Iterator[Document]:
        """The document of a picture; none where a row of a table is it, or it cannot be read."""
        if file.absolute() in self.in_rows:
            return
        name = self.name_of(file)
        caption, page = self.pictures[file]
        try:
            image = image_at(file)
        except (DataError, StorageError) as error:
            self.unused[name] = error.message
            return
        yield from self._document(
            name, id=name, title=caption or title_of(file), image=image, page=page
        )

    def _note(self, mention: Mention, document: Path) -> None:
        folder = self.root if self.root.is_dir() else self.root.parent
        try:
            file = file_of(mention, document, folder)
            if file not in self.pictures:
                raise DataError("there is no such picture", cure="put it there, or take it out")
        except DataError as error:
            self.unused[f"{self.name_of(document)}: {brief(mention.place, 80)}"] = str(error)
            return
        if not self.pictures[file][1]:
            self.pictures[file] = (mention.caption.strip(), self.name_of(document))

    def _document(self, name: str, *, ending: str = "", **fields: Any) -> Iterator[Document]:
        yield from valid_document(
            self.problems,
            name,
            source=self.root.name,
            licence=self.licence,
            attributes={"format": ending or name.rpartition(".")[2].lower()},
            **fields,
        )


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _ending(name: str) -> str:
    """The ending of a name; that before ``.gz`` for a table, which may be packed."""
    packed = name.removesuffix(".gz").rpartition(".")[2]
    return packed if packed in TABLES else name.rpartition(".")[2] if "." in name else ""


# --- one format each -----------------------------------------------------------------------------


def _decoded(file: Path, *, html: bool = False) -> str:
    with storage_errors(file):
        if file.stat().st_size > MOST:
            raise DataError(
                f"has more than {MOST >> 20} MB", cure="cut it into documents, or leave it out"
            )
        data = file.read_bytes()
    stated = _CHARSET.search(data[:4096]) if html else None
    name = next(
        (name for mark, name in _MARKS if data.startswith(mark)),
        stated[1].decode() if stated else "utf-8",
    )
    try:
        if codecs.lookup(name).name in _NO_CHARSETS:
            raise LookupError(f"{name} is not an encoding of web pages")
        text = data.decode(name)
    except (UnicodeError, LookupError) as error:
        raise DataError(f"not {name}: {error}", cure="save it as UTF-8") from error
    if "\0" in text:
        raise DataError("not text: it holds zero bytes", cure="leave it out")
    return text.replace("\r\n", "\n")


def _markdown(file: Path) -> Iterator[Part]:
    text, title = _decoded(file), ""
    if front := _FRONT.match(text):
        try:
            fields = parsed_yaml(front[1], file.name)
        except DemurError:  # not front matter, just lines between dashes
            fields = None
        if isinstance(fields, dict):
            title, text = str(fields.get("title") or ""), text[front.end() :]
    heading = _HEADING.search(text)
    mentions = tuple(pictures_in(text, markdown=True))
    yield Part("", title or (heading[1] if heading else ""), text, mentions)


def _plain(file: Path) -> Iterator[Part]:
    yield Part("", "", _decoded(file))


_SILENT = frozenset({"noscript", "template", "svg", "nav", "footer", "form"})
_BLOCKS = frozenset(
    {
        "p",
        "div",
        "li",
        "tr",
        "br",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "section",
        "article",
        "table",
        "pre",
        "blockquote",
        "ul",
        "ol",
        "dl",
        "dt",
        "dd",
        "main",
        "header",
        "td",
        "th",
    }
)
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_QUOTE_OR_END = re.compile("[\"'>]")
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
"""Element with plain content -> its end."""


def _end_of_tag(page: str, start: int) -> int:
    """The end of a tag that begins before ``start``; -1 if it has none."""
    while quote_or_end := _QUOTE_OR_END.search(page, start):
        if quote_or_end[0] == ">":
            return quote_or_end.start()
        start = page.find(quote_or_end[0], quote_or_end.end()) + 1
        if not start:
            return -1
    return -1


def _tokens(page: str) -> Iterator[tuple[Literal["text", "start", "end"], str]]:
    """Texts and tag names in order, as browsers find them; an unclosed tag swallows the rest.

    Takes linear time for any page. `html.parser` takes quadratic time for some unclosed tags and raises for others.
    """
    at = 0
    while (mark := page.find("<", at)) >= 0:
        if mark > at:
            yield "text", page[at:mark]
        after = mark + 1 + page.startswith("/", mark + 1)
        name = _NAME.match(page, after)
        if name is None and after == mark + 1 and not page.startswith(("!", "?"), after):
            yield "text", "<"
            at = after
            continue
        if page.startswith("<!--", mark):
            end = page.find("-->", mark + 2) + 2
            at = end + 1 if end > 1 else 0
        else:
            end = page.find(">", after) if name is None else _end_of_tag(page, name.end())
            at = end + 1
        if not at:
            return
        if name is None or page.startswith("<!--", mark):
            continue
        tag = name[0].lower()
        if after > mark + 1:
            yield "end", tag
        elif tag in _RAW:
            closed = _RAW[tag].search(page, at)
            if closed is None:
                return
            at = closed.start()
        elif not (tag in _SILENT and page.startswith("/", end - 1)):  # <svg/> is empty
            yield "start", tag
    yield "text", page[at:]


def html_text(page: str) -> tuple[str, str]:
    """A page's title and its visible text, one line per block."""
    title: list[str] = []
    lines: list[list[str]] = [[]]
    silent, depth, in_title = "", 0, False
    for kind, token in _tokens(page):
        if kind == "text":
            if not silent:
                (title if in_title else lines[-1]).append(token)
        elif silent:
            depth += (1 if kind == "start" else -1) * (token == silent)
            silent = silent if depth else ""
        elif token == "title":
            in_title = kind == "start"
        elif token in _BLOCKS:
            lines.append([])
        elif token in _SILENT and kind == "start":
            silent, depth = token, 1
    blocks = (" ".join(unescape("".join(line)).split()) for line in lines)
    return " ".join(unescape("".join(title)).split()), "\n".join(filter(None, blocks))


def _html(file: Path) -> Iterator[Part]:
    page = _decoded(file, html=True)
    yield Part("", *html_text(page), tuple(pictures_in(page, markdown=False)))


def _pdf(file: Path, pages: Path | None = None) -> Iterator[Part]:
    with importing(f"reading {file.name}", extra="pdf", module="pypdfium2", broken=True):
        import pypdfium2
        from pypdfium2 import raw
    with storage_errors(file):
        data = file.read_bytes()
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise DataError(
            f"not a PDF that can be opened: {error}", cure="remove its password, or leave it out"
        ) from error
    try:
        title = str(pdf.get_metadata_dict().get("Title") or "")
        rendered = Rendered(pages / digest(data, 16)) if pages else None  # of this content
        for number in range(1, len(pdf) + 1):
            page = pdf[number - 1]
            words = page.get_textpage()
            text = words.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "-")
            kinds = [raw.FPDF_PAGEOBJ_IMAGE]
            if not text.strip():  # a scan, or a drawing
                kinds += [raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_SHADING]
            # forms within forms could be endless
            pictured = any(True for _ in page.get_objects(filter=kinds, max_depth=2))
            words.close()
            page.close()
            picture = rendered.page(file, number) if rendered and pictured else None
            unseen = pictured and picture is None
            yield Part(f"#page-{number}", title, text, picture=picture, unseen=unseen)
    except pypdfium2.PdfiumError as error:
        raise DataError(f"a page cannot be read: {error}", cure="leave it out") from error
    finally:
        pdf.close()


PARTS: Mapping[str, Callable[[Path], Iterator[Part]]] = {
    "md": _markdown,
    "markdown": _markdown,
    "mdx": _markdown,
    "txt": _plain,
    "text": _plain,
    "rst": _plain,
    "html": _html,
    "htm": _html,
    "pdf": _pdf,
}
"""Ending -> reader of the parts of such a file."""
