"""Encyclopedic-VQA's Wikipedia: one JSON object of about 5 GB, page URL -> title, sections, image URLs. Streamed.

One document per section with text, ``<url>#<number>`` as the questions' evidence counts them, on the page of that URL;
the page's title and the head of its first section describe the page. With ``images=MAP`` (JSON Lines or CSV with
columns ``image_url`` and ``path``, paths relative to the map) a page's pictures become documents too: the first that
is there (the paper compares query images with the first image of a page), or all with ``which=all``. The map is held in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.core.errors import DataError, StorageError
from demur.core.records import Document
from demur.core.spec import Option
from demur.core.store import Problems
from demur.corpora import image_at, make
from demur.corpora.formats import Seen, csv_rows, inside, json_items, json_lines
from demur.corpora.rows import evqa_pictures, evqa_sections, picture_id, section_id

OPTIONS = {
    "images": Option("JSON Lines or CSV that maps image_url to path"),
    "which": Option("first (image of a page) or all", ("first", "all")),
}
SUMMARY = 600
"""Characters of the first section that stand for a page's summary."""


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Sections and pictures, page by page; a page's URL that comes again is a problem."""
    which = options.get("which", "first")
    pictures = _map(Path(options["images"]), problems) if "images" in options else {}
    seen = Seen()
    for place, url, page in json_items(Path(path), problems):
        if not isinstance(page, dict):
            problems.add(f"{place} ({url})", f"expected an object, got {type(page).__name__}")
            continue
        if not seen.add(url):
            problems.add(f"{place} ({url})", "the page stands earlier in the file")
            continue
        title, sections = str(page.get("title") or ""), evqa_sections(page)
        lead = next((text for _, _, text in sections if text.strip()), "")
        for number, name, text in sections:
            if not text.strip():
                continue
            yield from make(
                problems, place, id=section_id(url, number), title=name, text=text, page=url, source="evqa",
                licence="CC-BY-SA",
                attributes={"page_title": title, "summary": lead[:SUMMARY], "section": str(number)},
            )  # fmt: skip
        yield from _pictures(place, url, title, page, pictures, which, problems)


def _pictures(
    place: str, url: str, title: str, page: Mapping[str, Any], files: Mapping[str, Path], which: str, problems: Problems
) -> Iterator[Document]:
    for number, picture, caption in evqa_pictures(page):
        if picture not in files:
            continue  # a quarter of the URLs has no pixels anywhere: the next picture of the page is tried
        try:
            image = image_at(files[picture])
        except (DataError, StorageError) as error:
            problems.add(f"{place} ({picture})", error.message)
            continue
        made = make(
            problems, place, id=picture_id(url, number), title=caption, image=image, page=url, source="evqa",
            attributes={"page_title": title},
        )  # fmt: skip
        for document in made:
            yield document
            if which == "first":
                return


def _map(path: Path, problems: Problems) -> dict[str, Path]:
    rows: Iterator[tuple[str, dict[str, Any]]]
    if path.suffix == ".csv":
        rows = csv_rows(path, problems, required=("image_url", "path"))
    else:
        rows = json_lines(path, problems)
    found: dict[str, Path] = {}
    for place, row in rows:
        try:
            found[str(row["image_url"])] = inside(path.parent, str(row["path"]))
        except (KeyError, DataError) as error:
            problems.add(place, error.message if isinstance(error, DataError) else f"there is no {error}")
    return found
