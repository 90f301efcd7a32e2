"""The layout of BEIR: a folder with ``corpus.jsonl`` (``_id``, ``title``, ``text``), or with a prefix ``<name>-``.

``image``, in multimodal copies, is a path below the folder, or the picture itself (`demur.core.uris.picture_in`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.core.cells import cell_text
from demur.core.errors import DataError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.corpora import image_at, picture_file
from demur.corpora.formats import first_existing, json_lines
from demur.corpora.rows import records

OPTIONS = {"prefix": "what stands before -corpus.jsonl"}


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Documents in the order of the file."""
    folder = Path(path)
    name = f"{options['prefix']}-corpus.jsonl" if "prefix" in options else "corpus.jsonl"
    file = first_existing(folder, name, f"{name}.gz")
    if file is None:
        raise DataError(
            f"there is no {name} in the folder",
            item=path,
            cure="check the folder, or give ?prefix=",
        )
    yield from documents(
        json_lines(file, problems),
        problems,
        source=folder.name,
        picture=lambda cell: image_at(picture_file(cell, folder)),
    )


def documents(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    problems: Problems,
    *,
    source: str,
    picture: Callable[[Any], ImageRef],
) -> Iterator[Document]:
    """The documents of rows (place, row); ``picture`` is the image in a cell, see `document`."""
    yield from records(
        ((place, row_id(row), (row,)) for place, row in rows),
        lambda place, id_, row: document(row, source=source, picture=picture),
        problems,
        Counter(),
    )


def document(
    row: Mapping[str, Any], *, source: str, picture: Callable[[Any], ImageRef]
) -> Document:
    """The document of a row. The text of an image without a title is its caption; a document may be empty.

    Raises:
        DataError: the row has no id; or as ``picture``, where the image is missing or broken.
    """
    id_, title, text = row_id(row), *(cell_text(row.get(name), name) for name in ("title", "text"))
    if not id_:
        raise DataError("there is no _id", cure="mend the row or leave it out")
    if not row.get("image"):
        return Document(id=id_, title=title, text=text, source=source)
    caption = (text, None) if not title else (title, text or None)
    return Document(
        id=id_, title=caption[0], text=caption[1], image=picture(row["image"]), source=source
    )


def row_id(row: Mapping[str, Any]) -> str:
    """``_id`` or ``id`` as text, so that leading zeros stay; "" when there is none.

    >>> row_id({"_id": "007"}), row_id({"id": 0}), row_id({"_id": None})
    ('007', '0', '')
    """
    value = row.get("_id", row.get("id"))
    return "" if value is None else str(value)
