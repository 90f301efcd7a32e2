"""KILT's Wikipedia (JSON Lines, whatever its name says) and ViQuAE's, which has the same form and an image per page.

``text`` is a list of paragraphs, or an object with that list under ``paragraph``. The first paragraph is the title,
headings begin with ``Section::::``, list items with ``BULLET::::``. With ``images=FOLDER`` a page's ``image`` is read
from there.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from demur.core.errors import DataError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.core.text import stream_safe
from demur.corpora import image_folder, image_or_none, log_notes
from demur.corpora.formats import inside, json_lines
from demur.corpora.rows import records

OPTIONS = {"images": "folder of the pages' images, by file name"}
REPEATED = "later rows of an article already read"
PREFIXES: dict[str, Literal["heading", "item"]] = {"Section::::": "heading", "BULLET::::": "item"}
"""Beginnings of the paragraphs that are not running text."""


class Paragraph(NamedTuple):
    """A paragraph without its prefix."""

    kind: Literal["prose", "heading", "item"]
    text: str


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Pages in the order of the file: headings stand on a line of their own, the first paragraph is the summary."""
    folder, notes = image_folder(options), Counter[str]()
    files = CommonsFiles(folder) if folder else None

    def picture(place: str, name: str) -> ImageRef | None:
        if files is None:
            return None
        return image_or_none(
            problems, notes, place, lambda: files.folder / (files.find(name) or name)
        )

    yield from documents(json_lines(Path(path), problems), problems, notes, picture=picture)
    log_notes(path, notes)


def documents(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    problems: Problems,
    notes: Counter[str],
    *,
    picture: Callable[[str, str], ImageRef | None] = lambda place, name: None,
    **about: Any,
) -> Iterator[Document]:
    """The pages of rows (place, row); later rows of a page are counted in ``notes``.

    Args:
        picture: the image of a name, asked with the place of its row.
        about: as for `document`.
    """

    def document_of_row(place: str, id_: str, row: Mapping[str, Any]) -> Document:
        image = picture(f"{place} ({id_})", str(row["image"])) if row.get("image") else None
        return document(row, image=image, **about)

    yield from records(
        ((place, page_id(row), (row,)) for place, row in rows),
        document_of_row,
        problems,
        notes,
        repeated=REPEATED,
    )


def document(
    row: Mapping[str, Any],
    *,
    source: str = "kilt",
    licence: str = "CC-BY-SA",
    prose_only: bool = False,
    image: ImageRef | None = None,
) -> Document:
    """The page of a row, a line for each paragraph.

    Args:
        prose_only: leave headings and list items out.

    Raises:
        DataError: the row has no id, or the page has no text.
    """
    id_ = page_id(row)
    if not id_:
        raise DataError("no wikipedia_id", cure="mend the row or leave it out")
    prose = prose_paragraphs(row)
    text = "\n".join(prose if prose_only else (text for _, text in paragraphs(row)))
    if not text:
        raise DataError("the page has no text", cure="leave it out")
    attributes = {"summary": next(iter(prose), ""), "wikidata_id": entity_id(row)}
    return Document(
        id=id_,
        title=str(row.get("wikipedia_title") or id_),
        text=text,
        image=image,
        page=id_,
        source=source,
        licence=licence,
        attributes={key: value for key, value in attributes.items() if value},
    )


def page_id(row: Mapping[str, Any]) -> str:
    """Id of a page; "" when it has none."""
    return str(row.get("wikipedia_id") or row.get("_id") or "")


def entity_id(row: Mapping[str, Any]) -> str:
    """Wikidata id of what a page is about; "" when the row does not say."""
    info = row.get("wikidata_info")
    return str(info.get("wikidata_id") or "") if isinstance(info, Mapping) else ""


def paragraphs(row: Mapping[str, Any]) -> list[Paragraph]:
    r"""Paragraphs of a page in order, without blank ones and the title at the top.

    ``text`` is a plain list in KILT's own file and ``{"paragraph": [...]}`` in ViQuAE's.

    >>> paragraphs({"wikipedia_title": "Fox", "text": ["Fox\n", "A fox.\n", "Section::::Diet.\n"]})
    [Paragraph(kind='prose', text='A fox.'), Paragraph(kind='heading', text='Diet.')]
    """
    text = row.get("text")
    lines = text.get("paragraph") if isinstance(text, Mapping) else text
    title = str(row.get("wikipedia_title") or "").strip()
    all_paragraphs = []
    for number, line in enumerate(lines if isinstance(lines, list) else []):
        stripped = str(line).strip()
        if not stripped or (number == 0 and stripped == title):
            continue
        prefix = next((prefix for prefix in PREFIXES if stripped.startswith(prefix)), "")
        all_paragraphs.append(
            Paragraph(
                PREFIXES[prefix] if prefix else "prose", stripped.removeprefix(prefix).strip()
            )
        )
    return [paragraph for paragraph in all_paragraphs if paragraph.text]


def prose_paragraphs(row: Mapping[str, Any]) -> list[str]:
    """Paragraphs of a page that are running text: no title line, headings and list items."""
    return [text for kind, text in paragraphs(row) if kind == "prose"]


class CommonsFiles:
    """Files of a folder by their Wikimedia Commons names, percent-escaped or not, in either Unicode form.

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
