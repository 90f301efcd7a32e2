"""A folder of images: a document each, its title from ``metadata.jsonl`` (``file_name``, ``text``) or its file name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from demur.errors import DataError, StorageError
from demur.formats import json_lines
from demur.indexing.corpora import make
from demur.records import Document
from demur.store import Problems, image_ref, storage_errors

OPTIONS = {"licence": "licence of all images"}
ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Images below the folder, by path; an image that cannot be read is a problem. Captions are held in memory.

    Links to files are followed wherever they lead (collections are often put together of links), links to folders not.
    """
    root = Path(path)
    captions: dict[str, str] = {}
    if (root / "metadata.jsonl").is_file():
        for _, row in json_lines(root / "metadata.jsonl", problems):
            captions[str(row.get("file_name"))] = str(row.get("text") or row.get("caption") or "")
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() not in ENDINGS or file.is_dir():
            continue
        id = file.relative_to(root).as_posix()
        if file.exists() and not file.is_file():  # a pipe would be waited on for ever
            problems.add(id, "this is not a file")
            continue
        try:
            with storage_errors(file):
                image = image_ref(file.read_bytes(), str(file))
        except (DataError, StorageError) as error:
            problems.add(id, error.message)
            continue
        title = captions.get(id) or file.stem.replace("_", " ").replace("-", " ")
        document = make(
            problems, id, id=id, title=title, image=image, source=root.name, licence=options.get("licence", "")
        )
        if document is not None:
            yield document
