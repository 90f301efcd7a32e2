"""Find files, and open them whether they are compressed or not."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from demur.core.errors import DataError
from demur.core.store import as_utf8, storage_errors
from demur.core.uris import open_member

BLOCK = 1 << 20
"""Characters or bytes read at a time."""

BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)
"""Errors of a compressed file that is cut off or damaged."""


@contextmanager
def open_bytes(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """A file as bytes; ``.gz`` and ``.zip`` are decompressed, UTF-16 with a byte-order mark becomes UTF-8.

    Args:
        member: member of the zip; if empty, the archive must hold exactly one file.

    Raises:
        StorageError: the file cannot be opened.
        DataError: the archive is broken, or the member is not in it.
    """
    with storage_errors(path):
        raw = path.open("rb")
    with raw:
        if path.suffix == ".gz":
            with (
                gzip.GzipFile(fileobj=raw) as unpacked,
                io.BufferedReader(cast(io.RawIOBase, unpacked), BLOCK) as blocks,
            ):
                yield blocks
        elif path.suffix == ".zip":
            try:
                archive = zipfile.ZipFile(raw)
            except zipfile.BadZipFile as error:
                raise DataError(
                    f"not a whole zip file: {error}", item=path, cure="fetch it again"
                ) from error
            with archive:
                files = [info.filename for info in archive.infolist() if not info.is_dir()]
                name = member or (files[0] if len(files) == 1 else "")
                if name not in files:
                    raise DataError(
                        f"no file {member!r} in the archive"
                        if member
                        else f"expected one file inside, found {len(files)}",
                        item=path,
                        cure="check the archive",
                    )
                with open_member(archive, name) as handle:
                    yield handle
        else:
            yield as_utf8(raw)


def beginning(path: Path) -> bytes:
    """The first 64 KB of a file without a byte-order mark; none of a broken file or a pipe, which is read only once."""
    if path.is_file():
        with open_bytes(path) as handle, suppress(*BROKEN):
            return handle.read(1 << 16).removeprefix(codecs.BOM_UTF8)
    return b""


def first_existing(folder: Path, *names: str) -> Path | None:
    """The first of these files that exists in the folder, or None."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def in_numeric_order(paths: Iterable[Path]) -> list[Path]:
    """Paths sorted so that ``test-00009`` comes before ``test-000010`` however the numbers are padded."""

    def key(path: Path) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", path.name)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    return sorted(paths, key=lambda path: (str(path.parent), key(path), path.name))
