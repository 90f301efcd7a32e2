"""A folder of documents as people write them: Markdown, text, HTML, PDF; and tables of chunks as a store has them.

A document's id is its path below the folder; a page of a PDF is ``guide.pdf#page-3``, on the page ``guide.pdf``. The
title comes from the document (front matter, first heading, ``<title>``), else it is the file name. Rows of tables
(JSONL, JSON, CSV, TSV, Parquet) are read by `demur.corpora.tables` and keep their ids. Text is UTF-8, unless a byte
order mark or an HTML ``charset`` names another encoding; a file without text is a problem. One document and the names
of all files are in memory. Files with other endings are skipped and counted on the log.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Literal

from demur.core.errors import DataError, DemurError, UsageError, importing
from demur.core.records import Document
from demur.core.store import Problems, parsed_yaml, storage_errors
from demur.core.untrusted import Choice, check
from demur.corpora import log_skipped, tables, valid_document
from demur.corpora.formats.tables import TABLES

log = logging.getLogger("demur.indexing")

OPTIONS = {"licence": "licence of all documents"}
Part = tuple[str, str, str]
"""(end of its id after the path, title, text)."""
MOST = 64 << 20
"""Most bytes of a text file; nobody writes a longer document."""
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
    return documents(Path(path), problems, licence=options.get("licence", ""))


def documents(
    root: Path, problems: Problems, *, licence: str = "", without: Collection[Path] = ()
) -> Iterator[Document]:
    """Documents below a folder by path, or of one file.

    Args:
        root: the folder, or the file.
        problems: takes unreadable files and rows.
        licence: of all documents.
        without: files to skip.

    Yields:
        Documents; those of text files and PDFs have their ending in the attribute ``format``.

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
    known = {*PARTS, *TABLES}
    links = (file for file in files if file.is_symlink() and _ending(file.name.lower()) in known)
    check(root, [Choice("folder", str(link)) for link in links], folder=root)
    for file in files:
        ending, relative_path = (
            _ending(file.name.lower()),
            (file.relative_to(root) if file != root else Path(file.name)).as_posix(),
        )
        if ending in TABLES:
            try:
                yield from tables.read(
                    ending, str(file), problems, {"licence": licence} if licence else {}
                )
            except (DataError, UsageError) as error:  # a folder may hold tables of other things
                problems.add(relative_path, f"{error.message}; leave it out")
            continue
        parts = PARTS.get(ending)
        if parts is None:
            skipped_endings[f".{ending} files" if ending else "without an ending"] += 1
            continue
        try:
            parts_of_file = list(parts(file))
            parts_with_text = [part for part in parts_of_file if part[2].strip()]
        except DataError as error:
            problems.add(relative_path, str(error))
            continue
        if not parts_with_text:
            problems.add(
                relative_path, "holds no text (scanned pages need text recognition); leave it out"
            )
        elif len(parts_with_text) < len(parts_of_file):
            log.warning(
                "%s: skipped %d of %d pages, which hold no text",
                relative_path,
                len(parts_of_file) - len(parts_with_text),
                len(parts_of_file),
            )
        for suffix, title, text in parts_with_text:
            yield from valid_document(
                problems,
                relative_path,
                id=f"{relative_path}{suffix}",
                title=title or file.stem,
                text=text,
                page=relative_path if suffix else "",
                source=root.name,
                licence=licence,
                attributes={"format": ending},
            )
    if skipped_endings.total() == len(files):
        endings = ", ".join(sorted({*PARTS, *TABLES}))
        raise UsageError(
            f"no document among {len(files):,} files", item=str(root), cure=f"demur reads {endings}"
        )
    log_skipped(root, skipped_endings)


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
    yield "", title or (heading[1] if heading else ""), text


def _plain(file: Path) -> Iterator[Part]:
    yield "", "", _decoded(file)


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
    yield "", *html_text(_decoded(file, html=True))


def _pdf(file: Path) -> Iterator[Part]:
    with importing(f"reading {file.name}", extra="pdf", module="pypdfium2", broken=True):
        import pypdfium2
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
            yield (
                f"#page-{number + 1}",
                title,
                words.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "-"),
            )
            words.close()
            page.close()
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
