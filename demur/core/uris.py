"""Read the bytes of an image reference: a file, a member of an archive, a cell of a table, or a part of a file."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from demur.core.errors import DataError
from demur.core.parquet import bomb
from demur.core.records import ImageRef
from demur.core.store import digest, storage_errors


def read_image(ref: ImageRef, root: Path | None = None) -> bytes:
    """The bytes of a reference, checked against its SHA-256.

    Args:
        ref: ``uri`` is a path, ``zip:ARCHIVE!MEMBER``, ``parquet:FILE#ROW/COLUMN`` (or ``.../COLUMN/INDEX`` in a list),
            ``tsv:FILE#OFFSET`` (a line ``id<TAB>base64``) or ``slice:FILE#OFFSET+LENGTH``;
            relative paths start at ``root``.
        root: folder that relative paths start from; the current one when None.

    Raises:
        StorageError: it cannot be read.
        DataError: the bytes have another SHA-256.
    """
    data = read_uri(ref.uri, root)
    if digest(data) != ref.sha256:
        raise DataError(
            f"the image changed: expected sha256 {ref.sha256[:12]}, found {digest(data, 12)}",
            item=ref.uri,
            cure="restore the file, or build again from the new one",
        )
    return data


MOST_BYTES = 1 << 29
"""Maximum bytes of an encoded image: `images.MAX_PIXELS` need no more in any supported format."""


def read_uri(uri: str, root: Path | None = None) -> bytes:
    """The bytes of a uri, unchecked, to describe a new image; see `read_image`.

    Raises:
        StorageError: it cannot be read.
        DataError: the uri points to nothing, into a broken archive, or to more than `MOST_BYTES`.
    """
    with storage_errors(uri):
        try:
            return _bytes_at(uri, root or Path())
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
        ) as error:  # RuntimeError: it is encrypted
            raise DataError(
                f"the archive is broken: {error}", item=uri, cure="fetch it again"
            ) from error
        except OSError:
            raise
        except (
            ValueError,
            LookupError,
            TypeError,
        ) as error:  # NUL in a path, no such row, Arrow's errors
            raise DataError(
                f"the reference points to nothing: {error}",
                item=uri,
                cure="build the references again",
            ) from error


def _bytes_at(uri: str, base: Path) -> bytes:
    if uri.startswith("zip:"):
        archive, _, member = uri[4:].partition("!")
        path = base / archive
        state = _regular_file_state(path, uri)
        opened = _opened_zip(str(path), state.st_mtime_ns, state.st_size)
        try:
            return _unpacked(opened, member, uri)
        except KeyError as error:
            raise DataError(
                "no such member in the archive", item=uri, cure="check the archive"
            ) from error
    if uri.startswith("parquet:"):
        file, _, place = uri[8:].rpartition("#")
        row, column, *index = place.split("/")
        _regular_file_state(base / file, uri)
        value = _parquet_cell(base / file, int(row), column)
        for step in index:
            value = value[int(step)]
        content = picture_in(value)
        if isinstance(content, str):
            raise TypeError("the cell does not hold bytes")
        return content
    if uri.startswith("tsv:"):
        file, _, place = uri[4:].rpartition("#")
        _regular_file_state(base / file, uri)
        with (base / file).open("rb") as handle:
            handle.seek(int(place))
            line = handle.readline(MOST_BYTES)
            try:
                return base64.b64decode(line.rstrip(b"\r\n").partition(b"\t")[2], validate=True)
            except ValueError as error:
                raise DataError(
                    f"the image is not base64: {error}", item=uri, cure="fetch the file again"
                ) from error
    if uri.startswith("slice:"):
        file, _, place = uri[6:].rpartition("#")
        offset, _, length = place.partition("+")
        _regular_file_state(base / file, uri)
        with (base / file).open("rb") as handle:
            handle.seek(int(offset))
            _check_size(int(length), uri)
            return handle.read(int(length))
    path = base / uri
    _check_size(_regular_file_state(path, uri).st_size, uri)
    return path.read_bytes()


def open_member(archive: zipfile.ZipFile, member: str) -> IO[bytes]:
    """A member of a zip, of which ``read(n)`` unpacks no more than it returns, whatever size the directory gives.

    Raises:
        DataError: it is packed in another way than usual: ``zipfile`` unpacks bz2 and lzma without any limit.
        KeyError: there is no such member.
    """
    if archive.getinfo(member).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{member!r} is packed neither plainly nor by deflate",
            item=archive.filename or "",
            cure="unpack the archive, or pack it again by 'zip'",
        )
    return archive.open(member)


def _unpacked(archive: zipfile.ZipFile, member: str, uri: str) -> bytes:
    """A member, of which no more than `MOST_BYTES` are read."""
    pieces, size = [], 0
    with open_member(archive, member) as handle:
        while piece := handle.read(1 << 20):
            pieces.append(piece)
            size += len(piece)
            _check_size(size, uri)
    return b"".join(pieces)


_BASE64 = re.compile(r"(?:/9j/|iVBOR|R0lGOD|UklGR|SUkqA|TU0AK|Qk[0-3]|AAAA)[^.]{60,}", re.DOTALL)
"""Matches base64 of JPEG, PNG, GIF, WebP, TIFF, BMP and AVIF by their first bytes; a path so long has a dot."""


def picture_in(cell: Any) -> bytes | str:
    """The bytes of the picture that a cell of a table holds, or the path or address that it gives in their place.

    Read are bytes, a data URI, base64, a path, and an object that has one of these under ``bytes``, ``path`` or ``url``.

    Raises:
        DataError: the cell holds something else, or damaged base64.
    """
    content = cell
    if isinstance(cell, dict):
        content = cell.get("bytes") or cell.get("path") or cell.get("url")
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        raise DataError(
            f"expected a picture, found {type(content).__name__}",
            cure="give its bytes, base64 of them, or a path",
        )
    head, _, text = content.partition(",")
    if head[:5].lower() == "data:":
        if not head.lower().endswith(";base64"):
            return unquote_to_bytes(text)
    elif (isinstance(cell, dict) and cell.get("bytes")) or _BASE64.fullmatch(content):
        text = content
    else:
        return content
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(
            f"the picture is not base64: {error}", cure="encode the file again"
        ) from error


def _regular_file_state(path: Path, uri: str) -> os.stat_result:
    """The state of a regular file; reading a pipe or a device might never end."""
    state = path.stat()
    if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(
        state.st_mode
    ):  # reading a folder is an error that says so
        return state
    raise DataError("this is not a regular file", item=uri, cure="give the image as a file")


def _check_size(size: int, uri: str) -> None:
    if not 0 <= size <= MOST_BYTES:
        raise DataError(
            f"{size:,} bytes, but an image may have {MOST_BYTES:,}",
            item=uri,
            cure="scale it down, or leave it out",
        )


@lru_cache(maxsize=8)
def _opened_zip(path: str, changed_ns: int, size: int) -> zipfile.ZipFile:
    """An archive, kept open: listing a large one costs more than reading a member."""
    return zipfile.ZipFile(path)


def _parquet_cell(path: Path, row: int, column: str) -> Any:
    """One cell; reads only its row group."""
    import pyarrow.parquet as pq

    state = path.stat()
    with pq.ParquetFile(path) as table:
        if why := bomb(table, state.st_size):
            raise DataError(why, item=str(path), cure="do not trust it: fetch the file again")
        for group in range(table.num_row_groups):
            rows = table.metadata.row_group(group).num_rows
            if row < rows:
                return _parquet_column(str(path), state.st_mtime_ns, state.st_size, group, column)[
                    row
                ].as_py()
            row -= rows
    raise DataError(
        "the file has fewer rows than the reference says",
        item=path,
        cure="build the references again",
    )


@lru_cache(maxsize=4)
def _parquet_column(path: str, changed_ns: int, size: int, group: int, column: str) -> Any:
    """One column of one row group, cached for requests of neighbouring rows."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        return table.read_row_group(group, columns=[column]).column(0)
