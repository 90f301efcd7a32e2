"""Untrusted Parquet files: check the decompressed size before reading.

A table of a few kilobytes may decompress to any number of gigabytes: zeros, or one value a billion times. The check
uses the sizes in the file's metadata; Arrow itself rejects a file whose metadata are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    groups = [
        file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)
    ]
    count = file.metadata.num_rows
    if (
        max(groups, default=0) <= MAX_GROUP
        and sum(groups) <= MAX_PACKED * packed
        and not (rows and count > packed)
    ):
        return ""
    return f"{packed:,} bytes that claim to unpack to {sum(groups):,} in {count:,} rows"


def rows_at_once(file: pq.ParquetFile, group: int, most_rows: int) -> int:
    """How many rows of a group to hold at once: fewer if a value, which many rows may share, can be large.

    The group's size bounds that of any value. The sizes of its columns would be a closer bound, but on a damaged file
    that call ends the process (an uncaught C++ exception in pyarrow 26).
    """
    size = file.metadata.row_group(group).total_byte_size
    return int(max(1, min(most_rows, MAX_GROUP // max(size, 1))))


@contextmanager
def table_writer(
    path: Path,
    schema: pa.Schema,
    *,
    group: int = 50_000,
    heaviest: int = 1 << 40,
    compression: str = "zstd",
) -> Iterator[Callable[..., None]]:
    """A Parquet file to fill, one row group in memory at a time; it appears whole at the end of the block.

    Args:
        path: the file.
        schema: its columns.
        group: most rows of a row group.
        heaviest: most bytes of a row group, as far as they are given with the rows.
        compression: of the columns.

    Yields:
        ``add(row, weight=0)``: adds a row, which weighs that many bytes.

    Raises:
        StorageError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch: list[dict[str, Any]] = []
    total = 0

    def flush() -> None:
        nonlocal total
        writer.write_table(pa.Table.from_pylist(batch, schema=schema))
        batch.clear()
        total = 0

    def add(row: dict[str, Any], weight: int = 0) -> None:
        nonlocal total
        batch.append(row)
        total += weight
        if len(batch) == group or total >= heaviest:
            flush()

    with (
        replacing(path) as handle,
        pq.ParquetWriter(handle, schema, compression=compression) as writer,
    ):
        yield add
        if batch:
            flush()


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
        raise DataError(
            f"not a Parquet file: {first}", item=str(path), cure="run the system again"
        ) from error
    raise DataError(why, item=str(path), cure="do not trust it: copy the run again from its source")
