"""Wiki6M, InfoSeek's Wikipedia: ``wikidata_id``, ``wikipedia_title``, ``wikipedia_content``, ``wikipedia_summary``.

One document per article. The file holds several rows for some entities; the first counts, and the log says how many
were skipped. With ``images=FOLDER`` an article's picture is ``<first 4 characters of the id>/<id>.jpg``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.core.errors import DataError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.corpora import image_folder, image_or_none, log_notes
from demur.corpora.formats import inside, json_lines
from demur.corpora.rows import records

OPTIONS = {"images": "folder of the articles' pictures, <first 4 characters of the id>/<id>.jpg"}
REPEATED = "later rows of an entity already read"


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Articles in the order of the file."""
    folder, notes = image_folder(options), Counter[str]()

    def picture(place: str, id_: str) -> ImageRef | None:
        if folder is None:
            return None
        return image_or_none(
            problems, notes, f"{place} ({id_})", lambda: inside(folder, f"{id_[:4]}/{id_}.jpg")
        )

    yield from documents(json_lines(Path(path), problems), problems, notes, picture=picture)
    log_notes(path, notes)


def documents(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    problems: Problems,
    notes: Counter[str],
    *,
    source: str = "wiki6m",
    picture: Callable[[str, str], ImageRef | None] = lambda place, id_: None,
) -> Iterator[Document]:
    """The articles of rows (place, row); later rows of an entity are counted in ``notes``."""
    yield from records(
        ((place, entity_id(row), (row,)) for place, row in rows),
        lambda place, id_, row: document(row, source=source, image=picture(place, id_)),
        problems,
        notes,
        repeated=REPEATED,
    )


def entity_id(row: Mapping[str, Any]) -> str:
    """Wikidata id of a row's entity; "" when it has none."""
    return str(row.get("wikidata_id") or "")


def document(
    row: Mapping[str, Any], *, source: str = "wiki6m", image: ImageRef | None = None
) -> Document:
    """The article of a row; its text is the content, or the summary where that is empty.

    Raises:
        DataError: the row has no id, or neither content nor summary.
    """
    id_ = entity_id(row)
    if not id_:
        raise DataError("no wikidata_id", cure="mend the row or leave it out")
    summary = str(row.get("wikipedia_summary") or "")
    text = str(row.get("wikipedia_content") or "") or summary
    if not text:
        raise DataError("the article has no text", cure="leave it out")
    attributes = {"summary": summary, "image_url": str(row.get("wikipedia_image_url") or "")}
    return Document(
        id=id_,
        title=str(row.get("wikipedia_title") or id_),
        text=text,
        image=image,
        page=id_,
        source=source,
        licence="CC-BY-SA",
        attributes={key: value for key, value in attributes.items() if value},
    )
