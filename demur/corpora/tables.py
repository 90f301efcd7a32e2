"""JSON Lines, CSV, TSV, Parquet and `datasets`: rows with columns by name.

Columns without an option are found by their usual names (``id``, ``_id``, ``doc_id``, ...); in JSON, row by row. Rows
that demur wrote (a `demur.core.records.Document` with its source) are read as they are, unless an option names a
column. An image column holds a path (relative to the table, or to ``root``), the bytes, base64 of them or a data URI.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.core.cells import cell_text, is_null
from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.core.uris import picture_in
from demur.corpora import anchored, image_at, picture_file, valid_document
from demur.corpora.formats import dataset_rows, table_rows

OPTIONS = {
    "id": "column of the ids (the number of a row that has none)",
    "title": "column of the titles",
    "text": "column of the texts",
    "image": "column of image paths or bytes",
    "page": "column that says what a row is a part of",
    "summary": "column of page summaries",
    "root": "folder that image paths start from (the table's own)",
    "licence": "licence of all rows",
    "split": "split of a `datasets` set (train)",
    "name": "configuration of a `datasets` set",
}
USUAL = {
    "id": ("id", "_id", "doc_id", "docid", "document_id", "pid", "wikidata_id", "url"),
    "title": ("title", "name", "caption", "heading"),
    "text": ("text", "contents", "content", "body", "passage"),
    "image": ("image", "image_path", "file", "file_name", "path"),
    "page": ("page", "page_id", "article", "article_id"),
    "summary": ("summary", "abstract"),
}


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Documents of a table, in the order of its rows."""
    file = Path(path)
    root = Path(options.get("root", file.parent))
    by_row = reader in ("json", "jsonl")
    as_written = by_row and not options.keys() - {"root"}
    first_row: dict[str, Any] = {}
    columns_seen: set[str] = set()
    if reader == "datasets":
        rows = dataset_rows(path, name=options.get("name"), split=options.get("split", "train"))
    else:
        rows = table_rows(file, problems, reader)
    for place, number, row in rows:
        if as_written and {"id", "title", "source"} <= row.keys() <= Document.model_fields.keys():
            for document in valid_document(problems, place, **row):
                yield anchored(document, root) if "root" in options else document
            continue
        columns = _columns_of_fields(row, options)
        columns_seen |= columns.keys()
        if not first_row:
            first_row = row
            if not by_row:
                _check_columns(columns_seen, first_row, options, path)
        try:
            fields = _document_fields(reader, row, columns, file, number, root, options)
        except (DataError, StorageError) as error:
            problems.add(place, str(error))
            continue
        yield from valid_document(problems, place, **fields)
    if first_row:
        _check_columns(columns_seen, first_row, options, path)


def _columns_of_fields(row: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, str]:
    """Field -> column of this row."""
    names = {
        field: options.get(field) or next((n for n in usual if n in row), "")
        for field, usual in USUAL.items()
    }
    return {field: name for field, name in names.items() if name in row}


def _check_columns(
    columns: Collection[str], row: Mapping[str, Any], options: Mapping[str, str], path: str
) -> None:
    """Check that the columns of the options exist, and one with texts or images.

    Raises:
        UsageError: they do not; names the columns of ``row``.
    """
    columns_text = f"there are {', '.join(map(str, row))}"
    for field in USUAL:
        if field in options and field not in columns:
            raise UsageError(
                f"there is no column {options[field]!r}; {columns_text}",
                item=path,
                cure=f"mend {field}=...",
            )
    if "text" not in columns and "image" not in columns:
        raise UsageError(
            f"no column looks like a text or an image; {columns_text}",
            item=path,
            cure="name it: ?text=COLUMN or ?image=COLUMN",
        )


def _document_fields(
    reader: str,
    row: Mapping[str, Any],
    columns: Mapping[str, str],
    file: Path,
    number: int,
    root: Path,
    options: Mapping[str, str],
) -> dict[str, Any]:
    """The fields of a row's document.

    Raises:
        DataError: a text column holds something else, or an image is missing or broken.
        StorageError: an image file cannot be read.
    """
    values = {field: row[name] for field, name in columns.items() if not is_null(row[name])}
    texts = {
        field: cell_text(value, columns[field])
        for field, value in values.items()
        if field != "image"
    }
    id = texts.get("id", "") if "id" in columns or "id" in options else f"{file.stem}:{number}"
    image = None
    if values.get("image"):  # a row of a corpus with pictures may have none
        try:
            image = _cell_image(reader, values["image"], columns["image"], file, number, root)
        except (DataError, StorageError) as error:
            raise DataError(str(error), item=f"({id})") from error
    summary = texts.get("summary")
    return {
        "id": id,
        "title": texts.get("title", ""),
        "text": texts.get("text"),
        "image": image,
        "page": texts.get("page", ""),
        "source": file.stem,
        "licence": options.get("licence", ""),
        "attributes": {"summary": summary} if summary else {},
    }


def _cell_image(
    reader: str, value: Any, column: str, file: Path, number: int, root: Path
) -> ImageRef:
    content = picture_in(value)
    if isinstance(content, bytes) and reader == "parquet":
        return image_ref(content, f"parquet:{file.absolute()}#{number}/{column}")
    if isinstance(content, bytes) and reader == "datasets":
        raise DataError(
            "image bytes can only be referred to in Parquet files",
            cure="save the set with to_parquet",
        )
    return image_at(picture_file(value, root))
