"""Rows of the published knowledge bases, taken apart: which field holds what, and which traps it sets.

Sources read these files to find the gold evidence of questions, indexing reads them as corpora. Both ask here, so that
a document has the same id, title and text whichever way it came.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from demur.core.errors import DataError
from demur.core.text import stream_safe
from demur.corpora.formats import inside


def _list(row: Mapping[str, Any], key: str) -> list[Any]:
    """A field that should hold a list; whatever else it holds counts as none."""
    value = row.get(key)
    return value if isinstance(value, list) else []


# --- Wiki6M, InfoSeek's Wikipedia ----------------------------------------------------------------


class Article(NamedTuple):
    """A row of Wiki6M; some entities have several, of which the first counts."""

    id: str
    """Wikidata id, which is also its page."""
    title: str
    """The id where the row has no title."""
    text: str
    summary: str
    image_url: str


def wiki6m_article(row: Mapping[str, Any]) -> Article:
    """The article of a row; its text is the content, or the summary where that is empty.

    Raises:
        DataError: it has no id, or neither content nor summary.
    """
    id = str(row.get("wikidata_id") or "")
    if not id:
        raise DataError("no wikidata_id", cure="mend the row or leave it out")
    summary = str(row.get("wikipedia_summary") or "")
    text = str(row.get("wikipedia_content") or "") or summary
    if not text:
        raise DataError("the article has no text", cure="leave it out")
    return Article(id, str(row.get("wikipedia_title") or id), text, summary, str(row.get("wikipedia_image_url") or ""))


# --- Encyclopedic-VQA's Wikipedia: URL -> page ---------------------------------------------------


class Section(NamedTuple):
    """A section of a page; ``evidence_section_id`` of a question counts the blank ones too."""

    number: int
    title: str
    """The page's title; for a later section with its own behind it."""
    text: str


class PagePicture(NamedTuple):
    """A picture that a page shows."""

    number: int
    url: str
    caption: str
    """The page's title where the picture has none."""


def evqa_sections(page: Mapping[str, Any]) -> list[Section]:
    """All sections of a page in order, the blank ones included; what is not text counts as blank.

    >>> evqa_sections({"title": "Fox", "section_titles": ["Fox", "Diet"], "section_texts": ["A fox.", None]})
    [Section(number=0, title='Fox', text='A fox.'), Section(number=1, title='Fox: Diet', text='')]
    """
    title, titles = str(page.get("title") or ""), _list(page, "section_titles")
    found = []
    for number, text in enumerate(_list(page, "section_texts")):
        name = str(titles[number] or "") if number < len(titles) else ""
        shown = f"{title}: {name}" if name and name != title else title
        found.append(Section(number, shown, text if isinstance(text, str) else ""))
    return found


def section_id(url: str, number: int) -> str:
    """Document id of a section of a page."""
    return f"{url}#{number}"


def evqa_pictures(page: Mapping[str, Any]) -> Iterator[PagePicture]:
    """The pictures of a page in order; the list of captions may be shorter, or hold nothing for some."""
    captions = _list(page, "image_reference_descriptions")
    for number, url in enumerate(_list(page, "image_urls")):
        if isinstance(url, str):
            caption = str(captions[number] or "") if number < len(captions) else ""
            yield PagePicture(number, url, caption or str(page.get("title") or ""))


def picture_id(url: str, number: int) -> str:
    """Document id of a picture of a page."""
    return f"{url}#image{number}"


# --- KILT's Wikipedia, and ViQuAE's of the same form ---------------------------------------------

MARKS: dict[str, Literal["heading", "item"]] = {"Section::::": "heading", "BULLET::::": "item"}
"""Beginnings of the paragraphs that are not running text."""


class Paragraph(NamedTuple):
    """A paragraph without its mark."""

    kind: Literal["prose", "heading", "item"]
    text: str


def kilt_id(row: Mapping[str, Any]) -> str:
    """Id of a page; "" when it has none."""
    return str(row.get("wikipedia_id") or row.get("_id") or "")


def kilt_qid(row: Mapping[str, Any]) -> str:
    """Wikidata id of what a page is about; "" when it is not told."""
    info = row.get("wikidata_info")
    return str(info.get("wikidata_id") or "") if isinstance(info, Mapping) else ""


def kilt_paragraphs(row: Mapping[str, Any]) -> list[Paragraph]:
    r"""Paragraphs of a page in order, without blank ones and the title that stands first.

    ``text`` is a plain list in KILT's own file and ``{"paragraph": [...]}`` in ViQuAE's.

    >>> kilt_paragraphs({"wikipedia_title": "Fox", "text": ["Fox\n", "A fox.\n", "Section::::Diet.\n"]})
    [Paragraph(kind='prose', text='A fox.'), Paragraph(kind='heading', text='Diet.')]
    """
    text = row.get("text")
    lines = text.get("paragraph") if isinstance(text, Mapping) else text
    title = str(row.get("wikipedia_title") or "").strip()
    found = []
    for number, line in enumerate(lines if isinstance(lines, list) else []):
        shown = str(line).strip()
        if not shown or (number == 0 and shown == title):
            continue
        mark = next((mark for mark in MARKS if shown.startswith(mark)), "")
        found.append(Paragraph(MARKS[mark] if mark else "prose", shown.removeprefix(mark).strip()))
    return [paragraph for paragraph in found if paragraph.text]


class CommonsFiles:
    """Files of a folder by the names of Wikimedia Commons, which come percent-escaped or not, in either Unicode form.

    The folder is listed once, when a name is not found as it is. Memory: two names per file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: dict[str, str] | None = None

    def find(self, name: str) -> str | None:
        """The name on disk of a file; None when it is not there.

        Raises:
            DataError: the name leads out of the folder.
        """
        if inside(self.folder, name).is_file():
            return name
        if self._names is None:
            try:
                with os.scandir(self.folder) as entries:
                    self._names = {_comparable(entry.name): entry.name for entry in entries}
            except OSError:
                self._names = {}
        return self._names.get(_comparable(name))


def _comparable(name: str) -> str:
    return unicodedata.normalize("NFC", stream_safe(unquote(name))).replace(" ", "_")


# --- BEIR ----------------------------------------------------------------------------------------


def beir_id(row: Mapping[str, Any]) -> str:
    """``_id`` or ``id`` as text, so that leading zeros stay; "" when there is none.

    >>> beir_id({"_id": "007"}), beir_id({"id": 0}), beir_id({"_id": None})
    ('007', '0', '')
    """
    value = row.get("_id", row.get("id"))
    return "" if value is None else str(value)


def beir_content(row: Mapping[str, Any]) -> tuple[str, str | None]:
    """Title and text of a document; the text of an image without a title is its caption.

    >>> beir_content({"title": None, "text": "A red fox.", "image": "fox.png"})
    ('A red fox.', None)
    >>> beir_content({"text": "A red fox."}), beir_content({"title": "Fox", "text": ""})
    (('', 'A red fox.'), ('Fox', None))
    """
    title, text = str(row.get("title") or ""), str(row.get("text") or "") or None
    return (text or "", None) if row.get("image") and not title else (title, text)
