"""Files in other people's formats, read in bounded memory: giant JSON, JSON Lines, CSV, Parquet, archives.

Every reader yields ``(place, value)`` pairs. The place is ``file:line`` (``file:row`` for Parquet) of the first
line of the record; what cannot be read goes to `demur.store.Problems` under its place and is left out. A file
that ends before its time (a broken download) is such a problem too, never a silent end.

Nothing here trusts what it reads: constants that JSON does not have (``NaN``) and half characters are refused
because they could not be written again, archive members and paths found in data stay inside their folder.
"""

from __future__ import annotations

import array
import bisect
import codecs
import csv
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self, cast

from demur.errors import DataError
from demur.store import Problems, storage_errors

BLOCK = 1 << 20
"""Characters read at a time from a giant JSON file."""

MAX_VALUE = 1 << 28
"""Characters after which one JSON value is called broken instead of unfinished; no knowledge base comes near."""

_BROKEN_STREAM = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def parse_json(text: str) -> Any:
    """One JSON value.

    Raises:
        ValueError: not JSON, holds ``NaN`` or ``Infinity``, half a surrogate pair, or nests too deep.
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if "\\" in text and "\\u" in text:
        _check_whole_characters(value)
    return value


def _check_whole_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half a surrogate pair") from error


# --- opening -------------------------------------------------------------------------------------


@contextmanager
def open_bytes(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """A file as bytes: ``.gz`` is unpacked on the way, a ``.zip`` is read in place.

    Args:
        path: the file.
        member: member of the zip; when empty the archive must hold exactly one file.

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
                raise DataError(f"not a whole zip file: {error}", item=str(path), cure="fetch it again") from error
            with archive:
                files = [info.filename for info in archive.infolist() if not info.is_dir()]
                name = member or (files[0] if len(files) == 1 else "")
                if name not in files:
                    raise DataError(
                        f"no file {member!r} in the archive"
                        if member
                        else f"expected one file inside, found {len(files)}",
                        item=str(path),
                        cure="check the archive",
                    )
                with archive.open(name) as handle:
                    yield handle
        else:
            yield raw


def first_that_is(folder: Path, *names: str) -> Path | None:
    """The first of these files that exists in the folder, or None."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


# --- JSON ----------------------------------------------------------------------------------------


def json_lines(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON Lines file (``.gz`` and ``.zip`` too), one line in memory at a time."""
    with open_bytes(path) as handle:
        number = 0
        lines = iter(handle)
        while True:
            number += 1
            place = f"{path.name}:{number}"
            try:
                line = next(lines, None)
            except _BROKEN_STREAM as error:
                problems.add(place, f"the file is cut off or damaged here: {error}")
                return
            if line is None:
                return
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                continue
            try:
                row = parse_json(line.decode())
            except ValueError as error:
                problems.add(place, f"not a JSON object: {error}")
                continue
            if isinstance(row, dict):
                yield place, row
            else:
                problems.add(place, f"expected a JSON object, got {type(row).__name__}")


class _Window:
    """A window that slides over the text of a file and knows its line number and byte offset."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text = ""
        self.at = 0
        self.ended = False
        self.line = 1
        self._counted = 0
        self._escapes = False
        """Whether ``\\u`` stands anywhere in the window."""

    def more(self) -> None:
        """Drop what was consumed and read at least as much as is left, so that a long value costs linear time."""
        self.here()
        self.text = self.text[self.at :]
        self.at = self._counted = 0
        block = self._handle.read(max(BLOCK, len(self.text)))
        self.ended = not block
        self.text += self._decoder.decode(block, final=self.ended)
        self._escapes = "\\" in self.text and "\\u" in self.text

    def here(self) -> int:
        """Line number (1-based) of the current position."""
        first = self.text.find("\n", self._counted, self.at)
        if first >= 0:  # counting is ten times slower than not finding
            self.line += self.text.count("\n", first, self.at)
        self._counted = self.at
        return self.line

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if self.ended:
                return ""
            self.more()

    def take(self, character: str) -> None:
        """Step over one expected character."""
        found = self.peek()
        if found != character:
            raise ValueError(f"expected {character!r}, found {found!r}" if found else "the file ends too early")
        self.at += 1

    def value(self) -> Any:
        """Decode the next value, reading on while it is unfinished."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except RecursionError as error:
                raise ValueError("nested too deep") from error
            except json.JSONDecodeError as error:
                # A value cut by the window fails at the window's edge, or as a string that never ends.
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self.text) - 8
                if self.ended or not cut or len(self.text) - self.at > MAX_VALUE:
                    raise ValueError("the file ends too early" if self.ended and cut else error.msg) from error
                self.more()
                continue
            if len(self.text) - end < 4 and not self.ended:  # a number may go on: 1 | 1. | 1.5e+
                self.more()
                continue
            if self._escapes and self.text.find("\\u", self.at, end) >= 0:
                _check_whole_characters(value)
            self.at = end
            return value


def json_items(path: Path, problems: Problems, member: str = "") -> Iterator[tuple[str, str, Any]]:
    """Entries of one giant JSON object as (place, key, value), one value in memory at a time.

    A key that occurs twice is yielded twice. Where the text stops being JSON nothing after it can be trusted:
    reading ends there, with a problem that names the line and the last key read.
    """
    with open_bytes(path, member) as handle:
        window = _Window(handle)
        key = ""
        try:
            window.take("{")
            while window.peek() != "}":
                place = f"{path.name}:{window.here()}"
                key = window.value()
                if not isinstance(key, str):
                    raise ValueError("a key is not a string")
                window.take(":")
                yield place, key, window.value()
                if window.peek() != "}":
                    window.take(",")
        except (ValueError, *_BROKEN_STREAM) as error:
            problems.add(f"{path.name}:{window.here()}", f"not JSON from here on (last key {key!r}): {error}")


def json_elements(path: Path, problems: Problems, member: str = "", under: str = "") -> Iterator[tuple[str, Any]]:
    """Elements of one giant JSON list as (place, value); ends with a problem where the text stops being JSON.

    Args:
        path: the file.
        problems: takes the break.
        member: member of a zip, see `open_bytes`.
        under: the list is the value of this key of the outermost object (``images`` of a COCO file).
    """
    with open_bytes(path, member) as handle:
        window = _Window(handle)
        number = 0

        def elements() -> Iterator[tuple[str, Any]]:
            window.take("[")
            while window.peek() != "]":
                yield f"{path.name}:{window.here()}", window.value()
                if window.peek() != "]":
                    window.take(",")
            window.take("]")

        def lists() -> Iterator[tuple[str, Any]]:
            window.take("{")
            while window.peek() != "}":
                key = window.value()
                window.take(":")
                if window.peek() != "[":
                    window.value()
                elif key == under:
                    yield from elements()
                else:
                    deque(elements(), maxlen=0)
                if window.peek() != "}":
                    window.take(",")

        try:
            for element in lists() if under else elements():
                number += 1
                yield element
        except (ValueError, *_BROKEN_STREAM) as error:
            problems.add(f"{path.name}:{window.here()}", f"not JSON from here on (after element {number}): {error}")


def json_rows(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a file that is either one JSON list or JSON Lines, told apart by its first character."""
    with open_bytes(path) as handle:
        try:
            start = handle.read(4096).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        except _BROKEN_STREAM:
            start = b""
    if start != b"[":
        yield from json_lines(path, problems)
        return
    for place, row in json_elements(path, problems):
        if isinstance(row, dict):
            yield place, row
        else:
            problems.add(place, f"expected a JSON object, got {type(row).__name__}")


# --- tables --------------------------------------------------------------------------------------


def csv_rows(
    path: Path,
    problems: Problems,
    *,
    delimiter: str = ",",
    columns: Sequence[str] | None = None,
    required: Collection[str] = (),
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a CSV or TSV file addressed by column name, with quoted newlines and fields of any length.

    Args:
        path: the file (``.gz`` too).
        problems: takes rows of the wrong width, with bad quoting or bad UTF-8, by the line they start on.
        delimiter: one character.
        columns: names of the columns of a file without a header; None reads them from the first row.
        required: columns that must be in the header.

    Raises:
        DataError: the header lacks a required column.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with open_bytes(path) as handle, io.TextIOWrapper(handle, "utf-8-sig", "surrogateescape", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        names = list(columns) if columns is not None else None
        while True:
            place = f"{path.name}:{reader.line_num + 1}"
            try:
                fields = next(reader, None)
            except csv.Error as error:
                problems.add(place, f"not a CSV row: {error}")
                continue
            except _BROKEN_STREAM as error:
                problems.add(place, f"the file is cut off or damaged here: {error}")
                return
            if fields is None:
                break
            if not fields:
                continue
            if names is None:
                names = [name.strip() for name in fields]
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
            if any(not _is_utf8(field) for field in fields):
                problems.add(place, "not UTF-8")
                continue
            yield place, dict(zip(names, fields, strict=True))
        if names is None and required:
            raise DataError("the file is empty", item=str(path), cure="fetch it again")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parquet_rows(
    path: Path, problems: Problems, *, columns: Sequence[str] | None = None, batch: int = 64
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Rows of a Parquet file as (place, row number from 0, row), ``batch`` rows in memory at a time."""
    import pyarrow
    import pyarrow.parquet as pq

    number = 0
    try:
        with storage_errors(path), pq.ParquetFile(path) as table:
            wanted = None if columns is None else [name for name in table.schema_arrow.names if name in columns]
            for rows in table.iter_batches(batch_size=batch, columns=wanted):
                for row in rows.to_pylist():
                    yield f"{path.name}:{number}", number, row
                    number += 1
    except pyarrow.ArrowException as error:
        problems.add(f"{path.name}:{number}", f"not readable as Parquet from here on: {error}")


def parquet_columns(path: Path) -> list[str]:
    """Names of the columns of a Parquet file; reads its schema alone."""
    import pyarrow.parquet as pq

    with storage_errors(path):
        return [str(name) for name in pq.read_schema(path).names]


def in_numeric_order(paths: Iterable[Path]) -> list[Path]:
    """Paths sorted so that ``test-00009`` comes before ``test-000010`` however the numbers are padded."""

    def key(path: Path) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", path.name)
        return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]

    return sorted(paths, key=lambda path: (str(path.parent), key(path), path.name))


# --- paths and archives --------------------------------------------------------------------------


def inside(folder: Path, name: str) -> Path:
    """``folder / name``, provided that it stays in the folder.

    Raises:
        DataError: the name is absolute, climbs out with ``..``, or leads out through a link.
    """
    pure = PurePosixPath(name.replace("\\", "/"))
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts or re.match(r"^[A-Za-z]:", name):
        raise DataError(f"the path {name!r} leads out of its folder", item=str(folder), cure="mend the data file")
    path = folder / pure
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"the path {name!r} leads out of its folder", item=str(folder), cure="mend the data file")
    return path


def archive_uris(archive: Path, shown: str) -> dict[str, str]:
    """Member name -> image uri of every file in an archive that can be read in place.

    Args:
        archive: a ``.zip``, or an uncompressed ``.tar`` (its members are then byte ranges of it).
        shown: path of the archive as it stands in the uris.

    Returns:
        uris that `demur.store.read_image` reads; members whose names lead out of the archive are left out.

    Raises:
        DataError: broken, or compressed as a whole (a ``.tar.gz`` has no random access).
    """
    found: dict[str, str] = {}
    with storage_errors(archive):
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as opened:
                    for info in opened.infolist():
                        if not info.is_dir() and _stays_inside(info.filename):
                            found[info.filename] = f"zip:{shown}!{info.filename}"
            else:
                with tarfile.open(archive, "r:") as tar:
                    for member in tar:
                        cast(Any, tar).members = []  # keeps memory flat over millions of members
                        if member.isreg() and _stays_inside(member.name):
                            found[member.name] = f"slice:{shown}#{member.offset_data}+{member.size}"
        except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise DataError(
                f"cannot be read in place: {error}",
                item=str(archive),
                cure="unpack it with 'demur sources unpack', or fetch it again",
            ) from error
    return found


def _stays_inside(name: str) -> bool:
    pure = PurePosixPath(name.replace("\\", "/"))
    return not (pure.is_absolute() or ".." in pure.parts or re.match(r"^[A-Za-z]:", name))


def unpack(archive: Path, folder: Path, problems: Problems) -> int:
    """Unpack the regular files of a zip or tar (compressed or not) into a folder; returns how many.

    A member that would land outside the folder, a link or a device goes to ``problems`` and is not written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0

    def put(name: str, source: IO[bytes]) -> None:
        target = inside(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            while block := source.read(BLOCK):
                out.write(block)

    with storage_errors(archive):
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as opened:
                    for info in opened.infolist():
                        if info.is_dir():
                            continue
                        if not _stays_inside(info.filename):
                            problems.add(archive.name, f"member {info.filename!r} leads out of the folder")
                            continue
                        with opened.open(info) as source:
                            put(info.filename, source)
                        written += 1
            else:
                with tarfile.open(archive, "r|*") as tar:
                    for member in tar:
                        if member.isdir():
                            continue
                        if not member.isreg() or not _stays_inside(member.name):
                            problems.add(archive.name, f"member {member.name!r} is a link or leads out of the folder")
                            continue
                        data = tar.extractfile(member)
                        if data is not None:
                            put(member.name, data)
                            written += 1
        except (tarfile.TarError, *_BROKEN_STREAM) as error:
            raise DataError(
                f"broken after {written} files: {error}", item=str(archive), cure="fetch it again"
            ) from error
    return written


# --- random access -------------------------------------------------------------------------------


class LineIndex:
    """Byte offset of every line of a file too large to read: the ``.lineidx`` beside it, or one pass over it.

    Memory: 8 bytes per line.

    Args:
        path: the file.
        index: text file with one offset per line; read when it exists.

    Raises:
        DataError: the index is not a list of growing integers within the file.
    """

    def __init__(self, path: Path, index: Path | None = None) -> None:
        self.path = path
        with storage_errors(path):
            size = path.stat().st_size
        self.offsets = array.array("q")
        if index is not None and index.is_file():
            with storage_errors(index), index.open("rb") as handle:
                for number, line in enumerate(handle, start=1):
                    try:
                        offset = int(line)
                    except ValueError:
                        offset = -1
                    before = self.offsets[-1] if self.offsets else -1
                    if not before < offset < size:
                        raise DataError(
                            f"expected an offset between {before + 1} and {size}, found {line[:40]!r}",
                            item=f"{index}:{number}",
                            cure="fetch the index again, or delete it to have it built",
                        )
                    self.offsets.append(offset)
        else:
            offset = 0
            with storage_errors(path), path.open("rb") as handle:
                for line in handle:
                    self.offsets.append(offset)
                    offset += len(line)

    def __len__(self) -> int:
        return len(self.offsets)

    def line(self, number: int, most: int = -1) -> bytes:
        """Line ``number`` (from 0) without its end, or its first ``most`` bytes; IndexError when there is none."""
        if number < 0:
            raise IndexError(number)
        with storage_errors(self.path), self.path.open("rb") as handle:
            handle.seek(self.offsets[number])
            return handle.readline(most).rstrip(b"\r\n")

    def number_at(self, offset: int) -> int:
        """Number of the line that holds this byte."""
        return bisect.bisect_right(self.offsets, offset) - 1


class Lookup:
    """The few wanted values of a huge keyed file, put aside on disk in one pass and read by offset.

    Memory: the keys that were wanted and found, 16 bytes each beside their text; the values lie in a temporary file.
    A key met again keeps its first value and is counted in ``repeated``.

    Args:
        entries: (key, value) of the whole file, streamed.
        wanted: keys to keep; None keeps all.
        better: tells whether a later value under the same key should replace the first.
    """

    def __init__(
        self,
        entries: Iterable[tuple[str, Any]],
        wanted: Collection[str] | None,
        better: Callable[[Any, Any], bool] | None = None,
    ) -> None:
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close(), or with the process
        self._places: dict[str, tuple[int, int]] = {}
        self.repeated = 0
        self.seen = 0
        end = 0
        for key, value in entries:
            self.seen += 1
            if wanted is not None and key not in wanted:
                continue
            if key in self._places:
                self.repeated += 1
                if better is None or not better(self[key], value):
                    continue
            line = json.dumps(value, ensure_ascii=False).encode()
            with storage_errors(tempfile.gettempdir()):
                self._spool.seek(end)
                self._spool.write(line)
            self._places[key] = (end, len(line))
            end += len(line)
        with storage_errors(tempfile.gettempdir()):
            self._spool.flush()

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: str) -> Any:
        offset, length = self._places[key]
        with storage_errors(tempfile.gettempdir()):
            self._spool.seek(offset)
            return json.loads(self._spool.read(length))

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self[key] if key in self._places else None

    def close(self) -> None:
        """Give the disk space back."""
        self._spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Seen:
    """Which of many millions of keys were met before, in 11 to 22 bytes each where a `set` takes a hundred.

    Keys are known by 64 bits of BLAKE2b in an open-addressed table that is at most three quarters full. Two of six
    million keys share their 64 bits with a probability of one in a million.

    >>> seen = Seen()
    >>> seen.add("Q1"), seen.add("Q1"), "Q1" in seen, "Q2" in seen, len(seen)
    (True, False, True, False, 1)
    """

    def __init__(self) -> None:
        self._slots = array.array("Q", bytes(8 * 1024))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, key: str) -> bool:
        mark = _mark(key)
        return self._slots[self._place(mark)] == mark

    def add(self, key: str) -> bool:
        """Remember a key; True when it is new."""
        mark = _mark(key)
        place = self._place(mark)
        if self._slots[place] == mark:
            return False
        self._slots[place] = mark
        self._used += 1
        if 4 * self._used > 3 * len(self._slots):
            old, self._slots = self._slots, array.array("Q", bytes(16 * len(self._slots)))
            for each in old:
                if each:
                    self._slots[self._place(each)] = each
        return True

    def _place(self, mark: int) -> int:
        """The slot that holds the mark, or the free one where it belongs."""
        last = len(self._slots) - 1
        place = mark & last
        while self._slots[place] not in (0, mark):
            place = (place + 1) & last
        return place


def _mark(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") or 1
