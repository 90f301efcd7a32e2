"""The layout of BEIR: a folder with ``corpus.jsonl`` (``_id``, ``title``, ``text``), or with a prefix ``<name>-``.

``image``, in multimodal copies, is a path below the folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from demur.core.errors import DataError, StorageError
from demur.core.records import Document
from demur.core.store import Problems
from demur.corpora import image_at, make
from demur.corpora.formats import first_that_is, inside, json_lines
from demur.corpora.rows import beir_content, beir_id

OPTIONS = {"prefix": "what stands before -corpus.jsonl"}


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Documents in the order of the file."""
    folder = Path(path)
    name = f"{options['prefix']}-corpus.jsonl" if "prefix" in options else "corpus.jsonl"
    file = first_that_is(folder, name, f"{name}.gz")
    if file is None:
        raise DataError(f"there is no {name} in the folder", item=path, cure="check the folder, or give ?prefix=")
    for place, row in json_lines(file, problems):
        id = beir_id(row)
        if not id:
            problems.add(place, "there is no _id")
            continue
        image = None
        if row.get("image"):
            try:
                image = image_at(inside(folder, str(row["image"])))
            except (DataError, StorageError) as error:
                problems.add(f"{place} ({id})", str(error))
                continue
        title, text = beir_content(row)
        if image is None and text is None:
            text = ""  # an empty passage: it keeps its row, and is named with the others when they are indexed
        yield from make(problems, place, id=id, title=title, text=text, image=image, source=folder.name)
