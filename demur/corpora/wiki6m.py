"""Wiki6M, InfoSeek's Wikipedia: ``wikidata_id``, ``wikipedia_title``, ``wikipedia_content``, ``wikipedia_summary``.

One document per article, its summary among its attributes. Later rows of an entity are passed over, and their number
is told on the log (the set is known to hold several for some); memory holds 11 to 22 bytes per entity. With
``images=FOLDER`` the picture of an article is looked for as ``<first 4 characters of the id>/<id>.jpg``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from demur.core.errors import DataError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.corpora import image_at, make
from demur.corpora.formats import Seen, inside, json_lines
from demur.corpora.rows import wiki6m_article

log = logging.getLogger("demur.indexing")

OPTIONS = {"images": "folder of the articles' pictures, <first 4 characters of the id>/<id>.jpg"}


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Articles in the order of the file."""
    seen, repeated = Seen(), 0
    for place, row in json_lines(Path(path), problems):
        try:
            article = wiki6m_article(row)
        except DataError as error:
            problems.add(f"{place} ({row.get('wikidata_id') or 'no wikidata_id'})", error.message)
            continue
        qid = article.id
        if not seen.add(qid):
            repeated += 1
            continue
        image: ImageRef | None = None
        if "images" in options:
            try:
                image = _picture(Path(options["images"]), qid)
            except DataError as error:
                problems.add(f"{place} ({qid})", str(error))
        yield from make(
            problems, place, id=qid, title=article.title, text=article.text, page=qid, image=image, source="wiki6m",
            licence="CC-BY-SA", attributes={"summary": article.summary} if article.summary else {},
        )  # fmt: skip
    if repeated:
        log.warning("%s: %d later rows of entities that came before were passed over", path, repeated)


def _picture(folder: Path, qid: str) -> ImageRef | None:
    file = inside(folder, f"{qid[:4]}/{qid}.jpg")
    if not file.is_file():
        return None
    return image_at(file)
