"""A folder of documents as people write them: Markdown, text, HTML, PDF; and tables of chunks as a store has them.

A document's id is its path below the folder; a page of a PDF is ``guide.pdf#page-3``, on the page ``guide.pdf``. A
title is what the document says of itself (front matter, first heading, ``<title>``), else its file name. Rows of tables
(JSONL, JSON, CSV, TSV, Parquet) keep the ids they have, and are read as `demur.corpora.tables` reads them. Text is
UTF-8, or what its byte order mark or an HTML ``charset`` says; a file that is neither, or holds no text, is a problem.
One document is in memory at a time, and beside it the names of the files; what no ending here reads is passed over and
counted on the log.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

from demur.core.errors import DataError, DemurError, MissingExtra, UsageError
from demur.core.records import Document
from demur.core.store import Problems, parsed_yaml, storage_errors
from demur.corpora import make, tables
from demur.corpora.formats.tables import TABLES

log = logging.getLogger("demur.indexing")

OPTIONS = {"licence": "licence of all documents"}
Part = tuple[str, str, str]
"""(what its id has behind the path, title, text)."""
MOST = 64 << 20
"""Bytes of one file of text; a longer one is no document that somebody wrote."""
_HEADING = re.compile(r"^#{1,3}[ \t]+(\S.{0,200}?)[ \t#]*$", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.{0,20000}?)\r?\n---[ \t]*\r?\n", re.DOTALL)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Documents below a folder by path, or of one file."""
    return documents(Path(path), problems, licence=options.get("licence", ""))


def documents(
    root: Path, problems: Problems, *, licence: str = "", without: Collection[Path] = ()
) -> Iterator[Document]:
    """Documents below a folder by path, or of one file.

    Args:
        root: the folder, or the file.
        problems: takes files and rows that cannot be read.
        licence: of all of them.
        without: files that are something else.

    Yields:
        Documents; those of files say their ending in the attribute ``format``, rows of tables do not.

    Raises:
        UsageError: no file is a document.
    """
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file() and not _hidden(p, root))
    skipped = {path.resolve() for path in without}
    files = [file for file in files if file.resolve() not in skipped]
    passed: Counter[str] = Counter()
    for file in files:
        ending = _ending(file)
        if ending in TABLES:
            yield from tables.read(ending, str(file), problems, {"licence": licence} if licence else {})
            continue
        parts = PARTS.get(ending)
        if parts is None:
            passed[f".{ending} files" if ending else "without an ending"] += 1
            continue
        below = (file.relative_to(root) if file != root else Path(file.name)).as_posix()
        try:
            found = [part for part in parts(file) if part[2].strip()]
        except DataError as error:
            problems.add(below, str(error))
            continue
        if not found:
            problems.add(below, "holds no text (pictures of pages need their text recognised); leave it out")
        for behind, title, text in found:
            yield from make(
                problems, below, id=f"{below}{behind}", title=title or file.stem, text=text,
                page=below if behind else "", source=root.name, licence=licence, attributes={"format": ending},
            )  # fmt: skip
    if passed.total() == len(files):
        endings = ", ".join(sorted({*PARTS, *TABLES}))
        raise UsageError(f"no document among {len(files):,} files", item=str(root), cure=f"what is read: {endings}")
    if passed:
        most = ", ".join(f"{count:,} {what}" for what, count in passed.most_common(5))
        log.warning("%s: %d files were passed over: %s", root, passed.total(), most)


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _ending(file: Path) -> str:
    return file.name.lower().removesuffix(".gz").rpartition(".")[2] if "." in file.name else ""


# --- one format each -----------------------------------------------------------------------------


def _decoded(file: Path, *, html: bool = False) -> str:
    with storage_errors(file):
        if file.stat().st_size > MOST:
            raise DataError(f"has more than {MOST >> 20} MB", cure="cut it into documents, or leave it out")
        data = file.read_bytes()
    stated = _CHARSET.search(data[:4096]) if html else None
    name = next((name for mark, name in _MARKS if data.startswith(mark)), stated[1].decode() if stated else "utf-8")
    try:
        text = data.decode(name)
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(f"not {name}: {error}", cure="save it as UTF-8") from error
    if "\0" in text:
        raise DataError("not text: it holds zero bytes", cure="leave it out")
    return text.replace("\r\n", "\n")


def _markdown(file: Path) -> Iterator[Part]:
    text, title = _decoded(file), ""
    if front := _FRONT.match(text):
        try:
            said = parsed_yaml(front[1], file.name)
        except DemurError:  # lines between dashes that are no front matter
            said = None
        if isinstance(said, dict):
            title, text = str(said.get("title") or ""), text[front.end() :]
    heading = _HEADING.search(text)
    yield "", title or (heading[1] if heading else ""), text


def _plain(file: Path) -> Iterator[Part]:
    yield "", "", _decoded(file)


class _Text(HTMLParser):
    """The text that a page shows, a line for each block, and its title."""

    SILENT = frozenset({"script", "style", "noscript", "template", "svg", "nav", "footer", "form"})
    BLOCKS = frozenset({"p", "div", "li", "tr", "br", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "table",
                        "pre", "blockquote", "ul", "ol", "dl", "dt", "dd", "main", "header", "td", "th"})  # fmt: skip

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self._lines, self._silent, self._in_title = "", [""], "", False
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._silent:
            self._depth += tag == self._silent
        elif tag in self.SILENT:
            self._silent, self._depth = tag, 1
        elif tag == "title":
            self._in_title = True
        elif tag in self.BLOCKS:
            self._lines.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            self._depth -= tag == self._silent
            self._silent = self._silent if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in self.BLOCKS:
            self._lines.append("")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._silent:
            self._lines[-1] += data

    @property
    def text(self) -> str:
        return "\n".join(line for line in (" ".join(raw.split()) for raw in self._lines) if line)


def _html(file: Path) -> Iterator[Part]:
    reader = _Text()
    reader.feed(_decoded(file, html=True))
    reader.close()
    yield "", " ".join(reader.title.split()), reader.text


def _pdf(file: Path) -> Iterator[Part]:
    try:
        import pypdfium2
    except ImportError as error:
        raise MissingExtra(f"reading {file.name}", extra="pdf", module="pypdfium2") from error
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
        for number in range(len(pdf)):
            page = pdf[number]
            words = page.get_textpage()
            yield f"#page-{number + 1}", title, words.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "-")
            words.close()
            page.close()
    except pypdfium2.PdfiumError as error:
        raise DataError(f"a page cannot be read: {error}", cure="leave it out") from error
    finally:
        pdf.close()


PARTS: Mapping[str, Callable[[Path], Iterator[Part]]] = {
    "md": _markdown, "markdown": _markdown, "mdx": _markdown, "txt": _plain, "text": _plain, "rst": _plain,
    "html": _html, "htm": _html, "pdf": _pdf,
}  # fmt: skip
"""Ending -> what reads the parts of such a file."""
