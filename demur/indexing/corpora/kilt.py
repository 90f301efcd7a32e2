"""KILT's Wikipedia (JSON Lines, whatever its name says) and ViQuAE's, which is of the same form with an image a page.

``text`` is a list of paragraphs, or holds one under ``paragraph``; the first is the title, headings begin with
``Section::::``, list items with ``BULLET::::``. With ``images=FOLDER`` a page's ``image`` is read from there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from demur.errors import DataError
from demur.formats import inside, json_lines
from demur.indexing.corpora import make
from demur.records import Document, ImageRef
from demur.store import Problems, image_ref, storage_errors

OPTIONS = {"images": "folder of the pages' images, by file name"}


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Pages in the order of the file: headings stand on a line of their own, the first paragraph is the summary."""
    for place, row in json_lines(Path(path), problems):
        id = str(row.get("wikipedia_id") or row.get("_id") or "")
        title = str(row.get("wikipedia_title") or "")
        kept, lead = _paragraphs(row.get("text"), title)
        if not id or not kept:
            problems.add(f"{place} ({id or 'no wikipedia_id'})", "the page has no " + ("text" if id else "id"))
            continue
        info = row.get("wikidata_info")
        qid = str(info.get("wikidata_id") or "") if isinstance(info, Mapping) else ""
        image = None
        if options.get("images") and row.get("image"):
            try:
                image = _image(Path(options["images"]), str(row["image"]))
            except DataError as error:
                problems.add(f"{place} ({id})", str(error))
        attributes = {"summary": lead, "wikidata_id": qid}
        document = make(
            problems, place, id=id, title=title or id, text="\n".join(kept), page=id, image=image, source="kilt",
            licence="CC-BY-SA", attributes={key: value for key, value in attributes.items() if value},
        )  # fmt: skip
        if document is not None:
            yield document


def _paragraphs(text: Any, title: str) -> tuple[list[str], str]:
    """The paragraphs as they read, and the first that is running text."""
    if isinstance(text, Mapping):
        text = text.get("paragraph")
    kept: list[str] = []
    lead = ""
    for number, paragraph in enumerate(text if isinstance(text, list) else []):
        line = str(paragraph).strip()
        if not line or (number == 0 and line == title):
            continue
        if line.startswith("Section::::"):
            kept.append(line.removeprefix("Section::::").strip())
        elif line.startswith("BULLET::::"):
            kept.append(line.removeprefix("BULLET::::").strip())
        else:
            kept.append(line)
            lead = lead or line
    return kept, lead


def _image(folder: Path, name: str) -> ImageRef | None:
    """The image of that name; Commons names come percent-escaped or not, composed or not."""
    for form in (name, unquote(name), unicodedata.normalize("NFC", unquote(name))):
        file = inside(folder, form)
        if file.is_file():
            with storage_errors(file):
                return image_ref(file.read_bytes(), str(file))
    return None
