"""Encyclopedic-VQA's Wikipedia: one JSON object of about 5 GB, page URL -> title, sections, image URLs. Streamed.

One document per section with text, ``<url>#<number>`` as the questions' evidence counts them, on the page of that URL;
the page's title and the head of its first section describe the page. With ``images=MAP`` (JSON Lines or CSV with
columns ``image_url`` and ``path``, paths relative to the map) a page's pictures become documents too: the first that
is there (the paper compares query images with the first image of a page), or all with ``which=all``. The map is held in
memory.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from demur.core.errors import DataError, StorageError
from demur.core.records import Document, ImageRef
from demur.core.spec import Option
from demur.core.store import Problems
from demur.corpora import image_at, log_notes
from demur.corpora.formats import csv_rows, inside, json_items, json_lines
from demur.corpora.rows import records

OPTIONS = {
    "images": Option("JSON Lines or CSV that maps image_url to path"),
    "which": Option("first (image of a page) or all", ("first", "all")),
}
SUMMARY = 600
"""Characters of the first section that stand for a page's summary."""
REPEATED = "later entries of a page already read"
PICTURE_LICENCE = "that of its Wikimedia file"
"""The licence of a picture is stated on the page of its file."""


class Section(NamedTuple):
    """A section of a page; ``evidence_section_id`` of a question counts the blank ones too."""

    number: int
    title: str
    """The page's title; for a later section with its own behind it."""
    text: str


class Picture(NamedTuple):
    """A picture on a page."""

    number: int
    url: str
    caption: str
    """The page's title where the picture has none."""


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Sections and pictures, page by page."""
    map_file = Path(options["images"]) if "images" in options else None
    notes: Counter[str] = Counter()
    yield from documents(
        json_items(Path(path), problems),
        problems,
        notes,
        files=read_picture_map(map_file, problems) if map_file else {},
        picture=lambda relative: image_at(
            inside(map_file.parent if map_file else Path(), relative)
        ),
        first_only=options.get("which", "first") == "first",
    )
    log_notes(path, notes)


def documents(
    rows: Iterable[tuple[str, str, Any]],
    problems: Problems,
    notes: Counter[str],
    *,
    files: Mapping[str, str],
    picture: Callable[[str], ImageRef],
    source: str = "evqa",
    first_only: bool = False,
    optional_pictures: bool = False,
) -> Iterator[Document]:
    """The sections and pictures of pages (place, url, page); later entries of a page are counted in ``notes``.

    Args:
        files: url of a picture -> path, of those that were downloaded.
        picture: the image at such a path; raises where it is missing or broken.
        first_only: of each page, only the first picture that can be read.
        optional_pictures: a picture that is missing or broken is counted in ``notes``; it is no problem.
    """

    def pictures_of(place: str, url: str, page: Mapping[str, Any]) -> Iterator[Document]:
        for number, address, caption in pictures(page):
            if address not in files:
                if files:
                    notes["pictures that were not downloaded"] += 1
                continue  # a quarter of the URLs has no pixels anywhere: the next picture of the page is tried
            try:
                image = picture(files[address])
            except (DataError, StorageError) as error:
                if optional_pictures:
                    notes["pictures that cannot be read"] += 1
                else:
                    problems.add(place, error.message, address)
                continue
            yield Document(
                id=picture_id(url, number),
                title=caption,
                image=image,
                page=url,
                source=source,
                licence=PICTURE_LICENCE,
                attributes={"page_title": str(page.get("title") or "")},
            )
            if first_only:
                return

    def of_page(place: str, url: str, page: Any) -> list[Document]:
        if not isinstance(page, dict):
            raise DataError(f"expected an object, got {type(page).__name__}", cure="leave it out")
        page_documents = [*section_documents(url, page, source), *pictures_of(place, url, page)]
        if not page_documents:
            notes["pages with neither text nor a picture"] += 1
        return page_documents

    pages = ((place, url, (page,)) for place, url, page in rows)
    for page in records(pages, of_page, problems, notes, repeated=REPEATED):
        yield from page


def section_documents(
    url: str, page: Mapping[str, Any], source: str = "evqa"
) -> Iterator[Document]:
    """The sections of a page that have text."""
    title, page_sections = str(page.get("title") or ""), sections(page)
    lead = next((text for _, _, text in page_sections if text.strip()), "")
    for number, name, text in page_sections:
        if text.strip():
            attributes = {"page_title": title, "summary": lead[:SUMMARY], "section": str(number)}
            yield Document(
                id=section_id(url, number),
                title=name,
                text=text,
                page=url,
                source=source,
                licence="CC-BY-SA",
                attributes=attributes,
            )


def read_picture_map(path: Path, problems: Problems) -> dict[str, str]:
    """Url of a picture -> path relative to the map."""
    rows: Iterator[tuple[str, dict[str, Any]]]
    if path.suffix == ".csv":
        rows = csv_rows(path, problems, required=("image_url", "path"))
    else:
        rows = json_lines(path, problems)
    path_of_url: dict[str, str] = {}
    for place, row in rows:
        try:
            path_of_url[str(row["image_url"])] = str(row["path"])
        except KeyError as error:
            problems.add(place, f"there is no {error}")
    return path_of_url


# --- what a page holds ---------------------------------------------------------------------------


def _list_at(page: Mapping[str, Any], key: str) -> list[Any]:
    """A field that should hold a list; whatever else it holds counts as none."""
    value = page.get(key)
    return value if isinstance(value, list) else []


def sections(page: Mapping[str, Any]) -> list[Section]:
    """All sections of a page in order, the blank ones included; what is not text counts as blank.

    >>> sections({"title": "Fox", "section_titles": ["Fox", "Diet"], "section_texts": ["A fox.", None]})
    [Section(number=0, title='Fox', text='A fox.'), Section(number=1, title='Fox: Diet', text='')]
    """
    title, titles = str(page.get("title") or ""), _list_at(page, "section_titles")
    all_sections = []
    for number, text in enumerate(_list_at(page, "section_texts")):
        name = str(titles[number] or "") if number < len(titles) else ""
        full = f"{title}: {name}" if name and name != title else title
        all_sections.append(Section(number, full, text if isinstance(text, str) else ""))
    return all_sections


def page_key(url: str) -> str:
    """A URL as the key of its page: questions and knowledge base may escape it differently.

    >>> page_key("https://en.wikipedia.org/wiki/Caf%C3%A9_au%20lait")
    'https://en.wikipedia.org/wiki/Café_au_lait'
    """
    return unicodedata.normalize("NFC", unquote(url)).replace(" ", "_")


def section_id(url: str, number: int) -> str:
    """Document id of a section of a page."""
    return f"{url}#{number}"


def pictures(page: Mapping[str, Any]) -> Iterator[Picture]:
    """The pictures of a page in order; the list of captions may be shorter, or hold nothing for some."""
    captions = _list_at(page, "image_reference_descriptions")
    for number, url in enumerate(_list_at(page, "image_urls")):
        if isinstance(url, str):
            caption = str(captions[number] or "") if number < len(captions) else ""
            yield Picture(number, url, caption or str(page.get("title") or ""))


def picture_id(url: str, number: int) -> str:
    """Document id of a picture of a page."""
    return f"{url}#image{number}"
