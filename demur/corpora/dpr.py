"""DPR's Wikipedia, ``psgs_w100.tsv``: 100-word passages in columns id, text, title; a title is a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from demur.core.records import Document
from demur.core.store import Problems
from demur.corpora import valid_document
from demur.corpora.formats import csv_rows

OPTIONS: dict[str, str] = {}


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Passages in the order of the file (``.gz`` too)."""
    for place, row in csv_rows(
        Path(path), problems, delimiter="\t", required=("id", "text", "title")
    ):
        yield from valid_document(
            problems,
            place,
            id=row["id"],
            title=row["title"],
            text=row["text"],
            page=row["title"],
            source="dpr",
            licence="CC-BY-NC-4.0",
        )
