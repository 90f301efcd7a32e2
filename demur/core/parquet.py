"""Parquet files of strangers: what they would take once they are unpacked, told before anything is.

A table of a few kilobytes may unpack to any number of gigabytes: zeros that are packed well, or one value that is
repeated a billion times. What a file says of itself is looked at first; what lies about itself is damaged to Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import DataError
from demur.core.store import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MAX_GROUP = 4 << 30
"""Bytes that a row group may take once it is unpacked; tables of images are cut after 64 MiB to a gigabyte."""
MAX_PACKED = 2_000
"""How many times larger than its file a table may be once it is unpacked; more is a bomb."""


def bomb(file: pq.ParquetFile, packed: int, *, rows: bool = False) -> str:
    """What a table would unpack to where that is too much; "" where it is not.

    Args:
        file: opened.
        packed: bytes of the file.
        rows: rows have names of their own, so that none of them takes less than a byte.
    """
    groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
    count = file.metadata.num_rows
    if max(groups, default=0) <= MAX_GROUP and sum(groups) <= MAX_PACKED * packed and not (rows and count > packed):
        return ""
    return f"{packed:,} bytes that claim to unpack to {sum(groups):,} in {count:,} rows"


def rows_at_once(file: pq.ParquetFile, group: int, most: int) -> int:
    """How many rows of a group to hold: fewer where one value, which any number of them may share, is large.

    The size of the group bounds that of any value. The sizes of its columns would be nearer, but to ask Arrow for those
    of a damaged file ends the process (an exception in C++ that nothing catches, pyarrow 26).
    """
    size = file.metadata.row_group(group).total_byte_size
    return int(max(1, min(most, MAX_GROUP // max(size, 1))))


def write_table(
    path: Path,
    schema: pa.Schema,
    rows: Iterable[dict[str, Any]],
    *,
    group: int = 50_000,
    weigh: Callable[[dict[str, Any]], int] = lambda row: 0,
    heaviest: int = 1,
    compression: str = "zstd",
) -> None:
    """Write rows to a Parquet file, atomically, one row group in memory at a time.

    Args:
        path: the file.
        schema: its columns.
        rows: their values.
        group: most rows of a row group.
        weigh: bytes of a row, such as those of its images.
        heaviest: a row group ends when its rows weigh this much.
        compression: of its columns.

    Raises:
        StorageError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path) as handle, pq.ParquetWriter(handle, schema, compression=compression) as writer:
        batch: list[dict[str, Any]] = []
        weight = 0
        for row in rows:
            batch.append(row)
            weight += weigh(row)
            if len(batch) == group or weight >= heaviest:
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch, weight = [], 0
        if batch:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def whole_table(path: Path, **options: Any) -> pa.Table:
    """A whole table, such as the rows of a run, each of which has an id of its own.

    Raises:
        OSError: it cannot be read.
        DataError: not Parquet, damaged, or a bomb.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            told = bomb(file, path.stat().st_size, rows=True)
        if not told:
            return pq.read_table(path, **options)
    except pa.ArrowException as error:
        said = str(error).partition("\n")[0]
        raise DataError(f"not a Parquet file: {said}", item=str(path), cure="run the system again") from error
    raise DataError(told, item=str(path), cure="do not trust it: take the run from where it was made")
