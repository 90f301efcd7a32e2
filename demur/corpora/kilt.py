"""KILT's Wikipedia (JSON Lines, whatever its name says) and ViQuAE's, which is of the same form with an image a page.

``text`` is a list of paragraphs, or holds one under ``paragraph``; the first is the title, headings begin with
``Section::::``, list items with ``BULLET::::``. With ``images=FOLDER`` a page's ``image`` is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from demur.core.errors import DataError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.corpora import image_at, make
from demur.corpora.formats import json_lines
from demur.corpora.rows import CommonsFiles, kilt_id, kilt_paragraphs, kilt_qid

OPTIONS = {"images": "folder of the pages' images, by file name"}


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Pages in the order of the file: headings stand on a line of their own, the first paragraph is the summary."""
    pictures = CommonsFiles(Path(options["images"])) if options.get("images") else None
    for place, row in json_lines(Path(path), problems):
        id, title = kilt_id(row), str(row.get("wikipedia_title") or "")
        paragraphs = kilt_paragraphs(row)
        if not id or not paragraphs:
            problems.add(f"{place} ({id or 'no wikipedia_id'})", "the page has no " + ("text" if id else "id"))
            continue
        image = None
        if pictures is not None and row.get("image"):
            try:
                image = _image(pictures, str(row["image"]))
            except DataError as error:
                problems.add(f"{place} ({id})", str(error))
        lead = next((text for kind, text in paragraphs if kind == "prose"), "")
        text = "\n".join(text for _, text in paragraphs)
        attributes = {"summary": lead, "wikidata_id": kilt_qid(row)}
        yield from make(
            problems, place, id=id, title=title or id, text=text, page=id, image=image, source="kilt",
            licence="CC-BY-SA", attributes={key: value for key, value in attributes.items() if value},
        )  # fmt: skip


def _image(pictures: CommonsFiles, name: str) -> ImageRef | None:
    found = pictures.find(name)
    return image_at(pictures.folder / found) if found is not None else None
