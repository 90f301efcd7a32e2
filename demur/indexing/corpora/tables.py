"""JSON Lines, CSV, TSV, Parquet and `datasets`: rows with columns by name.

A column that is not named is looked for under its usual names (``id``, ``_id``, ``doc_id``, ...). Rows that demur wrote
(a `demur.records.Document` that says its source) are taken as they are, unless columns are named. An image column holds
a path (relative to the table, or to ``root``), or, in Parquet, the bytes themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.errors import DataError, StorageError, UsageError
from demur.formats import csv_rows, inside, json_rows, parquet_rows
from demur.indexing.corpora import make
from demur.records import Document, ImageRef
from demur.store import Problems, image_ref, storage_errors

OPTIONS = {
    "id": "column of the ids (the row's number when there is none)",
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


def read(reader: str, path: str, problems: Problems, options: Mapping[str, str]) -> Iterator[Document]:
    """Documents of a table, in the order of its rows."""
    file = Path(path)
    root = Path(options.get("root", file.parent))
    columns: dict[str, str] | None = None
    as_written = reader in ("json", "jsonl") and not options.keys() - {"root"}
    for place, number, row in _rows(reader, path, problems, options):
        if as_written and {"id", "title", "source"} <= row.keys() <= Document.model_fields.keys():
            document = make(problems, place, **row)
        else:
            columns = columns or _columns(row, options, path)
            document = _document(reader, row, columns, file, number, root, options, place, problems)
        if document is not None:
            yield document


def _rows(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    if reader == "parquet":
        yield from parquet_rows(Path(path), problems)
    elif reader == "datasets":
        yield from _dataset_rows(path, options)
    else:
        file = Path(path)
        tab = "\t" if reader == "tsv" else ","
        rows = csv_rows(file, problems, delimiter=tab) if reader in ("csv", "tsv") else json_rows(file, problems)
        for number, (place, row) in enumerate(rows):
            yield place, number, row


def _dataset_rows(path: str, options: Mapping[str, str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    import datasets

    split = options.get("split", "train")
    saved = Path(path)
    try:
        if (saved / "dataset_dict.json").is_file():  # written by save_to_disk
            loaded = datasets.load_from_disk(str(saved / split))
        elif (saved / "state.json").is_file():
            loaded = datasets.load_from_disk(path)
        else:
            loaded = datasets.load_dataset(path, options.get("name"), split=split, streaming=True)
    except (OSError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise StorageError(why, item=f"datasets:{path}", cure="check its name and split, and the network") from error
    for number, row in enumerate(loaded):
        yield f"{path}[{split}]:{number}", number, row


def _columns(row: Mapping[str, Any], options: Mapping[str, str], path: str) -> dict[str, str]:
    """Which column holds what; those that the user named must be there."""
    found = {}
    for what, usual in USUAL.items():
        name = options.get(what) or next((name for name in usual if name in row), "")
        if name and name not in row:
            raise UsageError(
                f"there is no column {name!r}; there are {', '.join(map(str, row))}", item=path, cure=f"mend {what}=..."
            )
        if name:
            found[what] = name
    if "text" not in found and "image" not in found:
        raise UsageError(
            f"no column looks like a text or an image; there are {', '.join(map(str, row))}",
            item=path,
            cure="name it: ?text=COLUMN or ?image=COLUMN",
        )
    return found


def _document(
    reader: str,
    row: Mapping[str, Any],
    columns: Mapping[str, str],
    file: Path,
    number: int,
    root: Path,
    options: Mapping[str, str],
    place: str,
    problems: Problems,
) -> Document | None:
    def text_of(what: str) -> str:
        value = row.get(columns.get(what, ""))
        return "" if value is None else str(value)

    id = text_of("id") if "id" in columns else f"{file.stem}:{number}"
    image = None
    if "image" in columns and row.get(columns["image"]) is not None:
        try:
            image = _image(reader, row[columns["image"]], columns["image"], file, number, root)
        except (DataError, StorageError) as error:
            problems.add(f"{place} ({id})", str(error))
            return None
    return make(
        problems,
        place,
        id=id,
        title=text_of("title"),
        text=text_of("text") if row.get(columns.get("text", "")) is not None else None,
        image=image,
        page=text_of("page"),
        source=file.stem,
        licence=options.get("licence", ""),
        attributes={"summary": text_of("summary")} if text_of("summary") else {},
    )


def _image(reader: str, value: Any, column: str, file: Path, number: int, root: Path) -> ImageRef:
    if isinstance(value, Mapping):  # the struct of `datasets`: bytes, and the path they came from
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        if reader != "parquet":
            raise DataError("image bytes can only be referred to in Parquet files", cure="save the set with to_parquet")
        return image_ref(value, f"parquet:{file}#{number}/{column}")
    if not isinstance(value, str):
        raise DataError(f"expected an image path, got {type(value).__name__}", cure="save the set with to_parquet")
    picture = inside(root, value)
    with storage_errors(picture):
        return image_ref(picture.read_bytes(), str(picture))
