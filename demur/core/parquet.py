"""Untrusted Parquet files: check the decompressed size before reading.

A table of a few kilobytes may decompress to any number of gigabytes: zeros, or one value a billion times. The check
uses the sizes in the file's metadata; Arrow itself rejects a file whose metadata are wrong.
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
"""Maximum decompressed bytes of a row group; writers cut tables of images at 64 MiB to a gigabyte."""
MAX_PACKED = 2_000
"""Maximum ratio of decompressed size to file size."""


def bomb(file: pq.ParquetFile, packed: int, *, rows: bool = False) -> str:
    """Why a table is a decompression bomb; "" if it is not.

    Args:
        file: opened.
        packed: bytes of the file.
        rows: each row has its own id, so that it takes at least a byte.
    """
    groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
    count = file.metadata.num_rows
    if max(groups, default=0) <= MAX_GROUP and sum(groups) <= MAX_PACKED * packed and not (rows and count > packed):
        return ""
    return f"{packed:,} bytes that claim to unpack to {sum(groups):,} in {count:,} rows"


def rows_at_once(file: pq.ParquetFile, group: int, most: int) -> int:
    """How many rows of a group to hold at once: fewer if a value, which many rows may share, can be large.

    The group's size bounds that of any value. The sizes of its columns would be a closer bound, but on a damaged file
    that call ends the process (an uncaught C++ exception in pyarrow 26).
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
    """A whole table whose rows have ids, such as the rows of a run.

    Raises:
        OSError: it cannot be read.
        DataError: not Parquet, damaged, or a bomb.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            why = bomb(file, path.stat().st_size, rows=True)
        if not why:
            return pq.read_table(path, **options)
    except pa.ArrowException as error:
        first = str(error).partition("\n")[0]
        raise DataError(f"not a Parquet file: {first}", item=str(path), cure="run the system again") from error
    raise DataError(why, item=str(path), cure="do not trust it: copy the run again from its source")
