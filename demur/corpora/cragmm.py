"""CRAG-MM's retrieval contents: the two Chroma stores of the challenge, read from ``chroma.sqlite3`` alone.

The web corpus holds passages of pages (``page_name``, ``page_snippet``, ``page_url``): a document each, on the page of
its URL. The image corpus holds addresses of pictures (``image_url``) with the entities that they show (``entities``, a
JSON list) and what is known of them (``info``, a JSON object): a text document for each entity and, with
``images=MAP`` (JSON Lines or CSV with the columns ``image_url`` and ``path``, paths relative to the map), a picture on
the page of its first entity. The stored vectors are not read. Chroma itself rewrites a store that it opens; here the
file is only read, one entry at a time.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

from demur.core.errors import DataError, StorageError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.core.strict_json import parsed_json
from demur.corpora import image_at, log_notes
from demur.corpora.evqa import PICTURE_LICENCE, read_picture_map
from demur.corpora.formats import Seen, inside
from demur.corpora.rows import records

OPTIONS = {"images": "JSON Lines or CSV that maps image_url to path"}
STORE = "chroma.sqlite3"
LICENCE = "CC-BY-NC-4.0 (CRAG-MM); web pages keep their own licences"
_TABLES = """SELECT count(*) FROM sqlite_master
WHERE type = 'table' AND name IN ('embeddings', 'embedding_metadata')"""
_ENTRIES = """SELECT e.id, e.embedding_id, m.key, COALESCE(m.string_value, m.int_value, m.float_value, m.bool_value)
FROM embeddings AS e JOIN embedding_metadata AS m ON m.id = e.id ORDER BY e.id"""


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Passages or entities with their pictures, in the order of the store."""
    file = Path(path) / STORE if Path(path).is_dir() else Path(path)
    map_file = Path(options["images"]) if "images" in options else None
    notes: Counter[str] = Counter()
    yield from documents(
        entries(file),
        problems,
        notes,
        files=read_picture_map(map_file, problems) if map_file else {},
        picture=lambda relative: image_at(
            inside(map_file.parent if map_file else Path(), relative)
        ),
    )
    log_notes(path, notes)


def entries(file: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(place, id, fields) of every entry of a store.

    Raises:
        StorageError: there is no such file.
        DataError: it is no store of Chroma, or damaged.
    """
    if not file.is_file():
        raise StorageError(
            f"there is no {STORE}", item=file, cure="download the whole retrieval contents"
        )
    try:
        uri = f"{file.resolve().as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as store:
            if store.execute(_TABLES).fetchone() != (2,):  # a view may compute without end
                raise sqlite3.DatabaseError("it lacks the tables of entries")
            rows = store.execute(_ENTRIES)
            for (number, id_), fields in groupby(rows, key=lambda row: row[:2]):
                yield f"{file.parent.name}:{number}", str(id_), {row[2]: row[3] for row in fields}
    except sqlite3.Error as error:
        raise DataError(
            f"not a store of Chroma: {error}", item=file, cure="download it anew"
        ) from error


def documents(
    rows: Iterable[tuple[str, str, Mapping[str, Any]]],
    problems: Problems,
    notes: Counter[str],
    *,
    files: Mapping[str, str],
    picture: Callable[[str], ImageRef],
) -> Iterator[Document]:
    """The documents of entries (place, id, fields) of either store.

    Args:
        files: address of a picture -> path, of those that were downloaded.
        picture: the image at such a path; raises where it is missing or broken.
    """
    known_ids = Seen()

    def of_entry(place: str, id_: str, fields: Mapping[str, Any]) -> list[Document]:
        if "image_url" not in fields:
            return [_passage(id_, fields)]
        known = parsed_json(str(fields.get("info") or "{}"))
        entry_documents = [
            _entity(name, about) for name, about in known.items() if known_ids.add(entity_id(name))
        ]
        address = str(fields["image_url"])
        if address not in files:
            notes["pictures that were not downloaded"] += bool(files)
        elif known_ids.add(address):
            names = [str(name) for name in parsed_json(str(fields.get("entities") or "[]"))]
            try:
                entry_documents.append(_picture(address, names, picture(files[address])))
            except (DataError, StorageError) as error:
                problems.add(f"{place} ({address})", str(error))
        return entry_documents

    documents_by_entry = records(
        ((place, id_, (row,)) for place, id_, row in rows), of_entry, problems, notes
    )
    for entry_documents in documents_by_entry:
        yield from entry_documents


def entity_id(name: str) -> str:
    """Document id of an entity of the image corpus."""
    return f"entity:{name}"


def _passage(id_: str, fields: Mapping[str, Any]) -> Document:
    text = str(fields.get("page_snippet") or fields.get("chroma:document") or "")
    if not text.strip():
        raise DataError("the passage has no text", cure="leave it out")
    page = str(fields.get("page_url") or id_.partition("_chunk")[0])
    title = str(fields.get("page_name") or page)
    return Document(id=id_, title=title, text=text, page=page, source="crag_mm", licence=LICENCE)


def _entity(name: str, about: Any) -> Document:
    facts = about.items() if isinstance(about, dict) else ()
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in facts if value is not None]
    return Document(
        id=entity_id(name),
        title=name,
        text="\n".join([name, *lines]),
        page=entity_id(name),
        source="crag_mm",
        licence=LICENCE,
    )


def _picture(address: str, names: list[str], image: ImageRef) -> Document:
    return Document(
        id=address,
        title=", ".join(names),
        image=image,
        page=entity_id(names[0]) if names else "",
        source="crag_mm",
        licence=PICTURE_LICENCE,
    )
