"""Rows of tables. `table_rows` reads every kind of file; `dataset_rows` reads sets of `datasets`."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demur.core.errors import DataError, StorageError, UsageError, importing
from demur.core.parquet import bomb, rows_at_once
from demur.core.store import Problems, storage_errors
from demur.corpora.formats.files import BROKEN, beginning, open_bytes
from demur.corpora.formats.json_streams import json_rows

TABLES = ("jsonl", "json", "csv", "tsv", "parquet")
"""Kinds of tables that `table_rows` reads; also the endings of their files."""


def table_rows(
    path: Path, problems: Problems, kind: str = "", *, mend: bool = False
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Rows of a table of any kind as (place, row number from 0, row).

    Args:
        path: the file (``.gz`` too, but for Parquet).
        problems: takes rows that cannot be read, by their places.
        kind: one of `TABLES`; the file's ending when empty.
        mend: as of `csv_rows`.

    Raises:
        UsageError: the ending says no such kind, and the file does not begin as JSON does.
    """
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    kind = kind or (
        "jsonl"
        if ending not in TABLES and beginning(path).lstrip()[:1] in (b"{", b"[", b"")
        else ending
    )
    if kind == "parquet":
        yield from parquet_rows(path, problems)
        return
    if kind not in TABLES:
        known = ", ".join(TABLES)
        raise UsageError(
            f"there is no reader for {kind!r} files",
            item=path,
            cure=f"convert it to one of {known}",
        )
    rows: Iterator[tuple[str, dict[str, Any]]] = json_rows(path, problems)
    if kind in ("csv", "tsv"):
        rows = csv_rows(path, problems, delimiter="\t" if kind == "tsv" else "", mend=mend)
    for number, (place, row) in enumerate(rows):
        yield place, number, dict(row)


def csv_rows(
    path: Path,
    problems: Problems,
    *,
    delimiter: str = "",
    columns: Sequence[str] | None = None,
    required: Collection[str] = (),
    mend: bool = False,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a CSV or TSV file addressed by column name, with quoted newlines and fields of any length.

    Args:
        path: the file (``.gz`` too).
        delimiter: comma, semicolon or tab, whichever is most frequent in the first line, when empty.
        problems: takes rows of the wrong width, with bad quoting or bad UTF-8, by the line they start on.
        columns: names of the columns of a file without a header; None reads them from the first row.
        required: columns that must be in the header.
        mend: keep a row with bad UTF-8, each bad byte replaced by U+FFFD, where one cell must not cost its row.

    Raises:
        DataError: the header lacks a required column, names a column twice, is not UTF-8, or cannot be read.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    delimiter = delimiter or separator(beginning(path).decode("utf-8", "replace"))
    with (
        open_bytes(path) as handle,
        io.TextIOWrapper(handle, "utf-8-sig", "surrogateescape", newline="") as text,
    ):
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        names = list(columns) if columns is not None else None
        while True:
            place = f"{path.name}:{reader.line_num + 1}"
            try:
                fields = next(reader, None)
            except csv.Error as error:
                if names is None:
                    cure = "close each quote that it opens, or save the sheet again as CSV UTF-8"
                    raise DataError(
                        f"the header is not a CSV row: {error}", item=place, cure=cure
                    ) from error
                problems.add(place, f"not a CSV row: {error}")
                continue
            except BROKEN as error:
                problems.add(place, f"the file is cut off or damaged here: {error}")
                return
            if fields is None:
                break
            if not any(fields):  # a blank line, also of a sheet that has one: ;;;
                continue
            if names is None:
                names = [name.strip() for name in fields]
                if not all(map(_is_utf8, names)) or "\0" in "".join(names):
                    raise DataError(
                        "the header is not UTF-8", item=place, cure="save the file as UTF-8"
                    )
                no_column_twice(names, place)
                missing = sorted(set(required) - set(names))
                if missing:
                    raise DataError(
                        f"column(s) {', '.join(missing)} missing; the header has {', '.join(names)}",
                        item=place,
                        cure="check that this is the right file",
                    )
                continue
            if len(fields) != len(names):
                problems.add(place, f"expected {len(names)} fields, found {len(fields)}")
                continue
            if mend:
                fields = [
                    field.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                    for field in fields
                ]
            elif not all(map(_is_utf8, fields)):
                problems.add(place, "not UTF-8: save the file as UTF-8")
                continue
            yield place, dict(zip(names, fields, strict=True))
        if names is None and required:
            raise DataError("the file is empty", item=path, cure="fetch it again")


def no_column_twice(names: Iterable[str], item: Path | str) -> None:
    """Raise `DataError` for a name that two columns have; columns without a name are nobody's."""
    if twice := [name for name, n in Counter(names).items() if name and n > 1]:
        raise DataError(
            f"column(s) {', '.join(twice)} named more than once",
            item=item,
            cure="rename or remove all but one of them",
        )


def separator(text: str) -> str:
    """Comma, semicolon or tab: whichever is most frequent in a sheet's first line, outside quotes."""
    head = text.lstrip("\r\n").partition("\n")[0]
    return max(",;\t", key="".join(head.split('"')[::2]).count)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parquet_rows(
    path: Path, problems: Problems, *, batch: int = 64
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Rows of a Parquet file as (place, row number from 0, row), ``batch`` rows in memory at a time.

    Args:
        problems: takes rows that do not decode; where a page of a row group is damaged, the rest of that group (what
            follows a damaged page cannot be found), and reading goes on with the next.

    Raises:
        DataError: two columns have one name.
        StorageError: the file or its disk cannot be read.
    """
    import pyarrow.parquet as pq

    try:
        with storage_errors(path), _damage():
            table = pq.ParquetFile(path)
    except _Damaged as error:
        problems.add(path.name, f"not readable as Parquet: {error}")
        return
    if reason := bomb(table, path.stat().st_size):
        problems.add(path.name, f"not read: {reason}")
        table.close()
        return
    number = 0
    with table:
        no_column_twice(table.schema_arrow.names, path)
        for group in range(table.num_row_groups):
            end = number + table.metadata.row_group(group).num_rows
            batches = table.iter_batches(
                batch_size=rows_at_once(table, group, batch), row_groups=[group]
            )
            while number < end:
                try:
                    with storage_errors(path), _damage():
                        rows = next(batches, None)
                except _Damaged as error:
                    problems.add(
                        f"{path.name}:{number}",
                        f"rows {number} to {end - 1} cannot be read: {error}",
                    )
                    break
                if rows is None:
                    problems.add(f"{path.name}:{number}", f"rows {number} to {end - 1} are missing")
                    break
                for row in _decoded(rows):
                    if isinstance(row, dict):
                        yield f"{path.name}:{number}", number, row
                    else:
                        problems.add(f"{path.name}:{number}", f"the row cannot be read: {row}")
                    number += 1
            number = end


def _decoded(rows: Any) -> Iterator[dict[str, Any] | Exception]:
    """The rows of a record batch, or why one cannot be had (a text that is not UTF-8)."""
    try:
        yield from rows.to_pylist()
    except ValueError as error:
        if rows.num_rows == 1:
            yield error
            return
        for at in range(rows.num_rows):
            yield from _decoded(rows.slice(at, 1))


class _Damaged(Exception):
    """Bytes that are not what the format says."""


@contextmanager
def _damage() -> Iterator[None]:
    """Separate damaged bytes, for which Arrow may raise an `OSError` without a number, from a failing disk."""
    import pyarrow

    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise _Damaged(str(error).partition("\n")[0]) from error
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise _Damaged(str(error).partition("\n")[0]) from error


def dataset_rows(
    path: str, *, name: str | None = None, split: str = "train"
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Rows of anything that `datasets` opens as (place, row number from 0, row); images stay encoded.

    Args:
        path: what ``save_to_disk`` wrote, another folder, or a repository on the hub, which is streamed.
        name: configuration of the set.

    Raises:
        MissingExtra: `datasets` is not installed.
        StorageError: the set cannot be opened or read.
    """
    with importing("a set of `datasets`", extra="hub", module="datasets", broken=True):
        import datasets
    try:
        if Path(path, "dataset_dict.json").is_file():
            rows: Any = datasets.load_from_disk(str(Path(path, split)))
        elif Path(path, "state.json").is_file():
            rows = datasets.load_from_disk(path)
        else:
            rows = datasets.load_dataset(path, name, split=split, streaming=True)
        for column, feature in (rows.features or {}).items():
            inner = getattr(feature, "feature", feature)
            if isinstance(inner, datasets.Image):
                encoded = datasets.Image(decode=False)
                rows = rows.cast_column(column, encoded if inner is feature else [encoded])
        for number, row in enumerate(rows):  # opens the files, which may be broken
            yield f"{path}[{split}]:{number}", number, dict(row)
    except (OSError, ValueError, TypeError, datasets.exceptions.DatasetsError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise StorageError(
            why,
            item=f"datasets:{path}",
            cure="check its name and split, its files, and the network",
        ) from error
