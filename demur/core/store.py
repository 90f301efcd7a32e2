"""Files: canonical JSON and hashes, atomic writes, append-only JSONL.

Everything a run leaves behind goes through here, so that a process killed at any moment leaves either the
old file or the new one, and at worst one torn last line that the next run drops.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError

from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.strict_json import parsed_json as parsed_json  # where files are read, so is JSON
from demur.core.system import LOCKS, hold

R = TypeVar("R", bound=BaseModel)


# --- identity ------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, UTF-8 as is. Equal values give equal text on every machine."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 64) -> str:
    """SHA-256 of the canonical JSON of ``value`` (of the bytes, when bytes are given), lower-case hex."""
    data = value if isinstance(value, bytes) else canonical(value).encode()
    return hashlib.sha256(data).hexdigest()[:length]


def unstorable(record: BaseModel) -> str:
    """Why a record can be kept in no file; "" when it can.

    Half a character (a lone surrogate) is no text, NaN and infinity are not JSON, and a whole number beyond 64 bits
    fits no column of a table.
    """
    left: list[Any] = [record]
    while left:  # every reply passes here: the plain cases first
        value = left.pop()
        if isinstance(value, str):
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    return "it holds half a character (a lone surrogate)"
        elif value is None:
            continue
        elif isinstance(value, BaseModel):
            left += value.__dict__.values()
        elif isinstance(value, float):
            if not math.isfinite(value):
                return f"it holds the number {value}"
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                return "it holds a whole number beyond 64 bits"
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            left += value
    return ""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seed_of(*parts: object) -> int:
    """A 63-bit seed that depends on the parts alone: the same on every machine, in every order of work."""
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big") >> 1


# --- files ---------------------------------------------------------------------------------------


@contextmanager
def storage_errors(path: Path | str) -> Iterator[None]:
    """Turn an operating-system error into a one-line `StorageError` that names the path."""
    try:
        yield
    except OSError as error:
        cure = {
            "ENOSPC": "free some disk space and run the same command again",
            "EDQUOT": "free some of your quota and run the same command again",
            "EFBIG": "raise the limit on the size of files (ulimit -f) and run the same command again",
            "EACCES": "choose a folder you can write to",
            "EROFS": "choose a folder you can write to",
            "ENOENT": "check the path",
        }.get(__import__("errno").errorcode.get(error.errno or 0, ""), "check the path and the disk")
        why = error.strerror or str(error)
        if error.errno is None and _CUT_SHORT.fullmatch(why):
            why = f"the disk is full, or a file may not grow: {why}"
            cure = "free some disk space, or raise the limit (ulimit -f), and run the same command again"
        raise StorageError(why, item=path, cure=cure) from error


_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
"""What NumPy says when the system takes only a part of an array; it keeps no number of the error."""


@contextmanager
def locked(place: Path, busy: str, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes out while this one works; the operating system lets go of it however the process ends.

    Args:
        place: a file made for it, and removed at the end.
        busy: what another process that holds it is doing, said when it does.
        wait: wait for the other instead.

    Raises:
        UsageError: another process holds it.
        StorageError: the file cannot be made.
    """
    while True:
        with storage_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = place.open("wb")
        with handle:
            try:
                hold(handle, wait=wait)
            except BlockingIOError as error:
                raise UsageError(
                    f"another process is {busy}", item=place, cure="wait for it, or choose another folder"
                ) from error
            except OSError:  # a file system without locks: two processes are then the user's to avoid
                pass
            try:
                if not os.path.samestat(place.stat(), os.fstat(handle.fileno())):
                    continue  # removed by its last holder and made anew by another since it was opened
            except FileNotFoundError:
                continue
            try:
                yield
            finally:
                with suppress(PermissionError):  # Windows removes no open file
                    place.unlink(missing_ok=True)
            return


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` at the end of the block, whole; nothing of it stays otherwise.

    Its name is always the same, so that what a killed process left is what the next one overwrites; only while another
    process is writing the same file does it get a name of its own.

    Raises:
        StorageError: the folder cannot be made or written.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        handle = _alone(temporary)
        if handle is None:
            temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
            handle = temporary.open("wb")
        with handle:  # held until it is in its place, or gone
            try:
                handle.truncate(0)
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
                if not LOCKS:  # Windows renames no open file
                    handle.close()
                temporary.replace(path)
            except BaseException:
                if not LOCKS:
                    handle.close()
                temporary.unlink(missing_ok=True)
                raise


def _alone(place: Path) -> IO[bytes] | None:
    """A file opened for writing and held against others; None where another holds it, or files cannot be held."""
    for _ in range(8):
        handle = os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT, 0o666), "wb")
        try:
            hold(handle)
            if os.path.samestat(place.stat(), os.fstat(handle.fileno())):
                return handle
        except FileNotFoundError:
            pass  # renamed by the one that held it, between opening and holding: there is no such file any more
        except OSError:
            handle.close()
            return None
        handle.close()
    return None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a whole file so that a reader sees the old one or the new one, never a part.

    Raises:
        StorageError: the folder cannot be made or written.
    """
    with replacing(path) as handle:
        handle.write(data.encode() if isinstance(data, str) else data)


def write_json(path: Path, value: Any) -> None:
    """Write readable JSON with sorted keys and a final newline, atomically."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        StorageError: it cannot be read.
        DataError: it is not JSON; names the line.
    """
    with storage_errors(path):
        data = path.read_bytes()
    try:
        return parsed_json(data.decode())
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON: {error.msg}", item=f"{path}:{error.lineno}", cure="mend or rebuild the file"
        ) from error
    except ValueError as error:  # not UTF-8, NaN, a number of a million digits, nested too deep
        raise DataError(f"not JSON: {error}", item=path, cure="mend or rebuild the file") from error


def why_invalid(error: ValidationError) -> str:
    """The first complaints of a validation error on one line: ``field: what is wrong``."""
    parts = []
    for complaint in error.errors()[:3]:
        field = ".".join(str(step) for step in complaint["loc"]) or "record"
        parts.append(f"{field}: {complaint['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)


PROBLEMS_KEPT = 1_000
"""Lines of problems that are held; those behind them are counted: a file may hold millions of bad rows."""


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without a byte-order mark.

    Raises:
        StorageError: it cannot be read.
        UsageError: it is not UTF-8.
    """
    with storage_errors(path):
        data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except ValueError as error:
        raise UsageError(f"not a text in UTF-8: {error}", item=path, cure="save it as UTF-8") from error


def parsed_yaml(text: str, item: str, cure: str = "mend the file") -> Any:
    """The plain values of a YAML text: no objects, whatever it says, and no more of them than it has room for.

    Raises:
        UsageError: not YAML, nested too deep, or repeating itself by aliases until it would fill the memory.
    """
    import yaml

    if len(text) > MOST_YAML:
        raise UsageError(f"longer than {MOST_YAML:,} characters", item=item, cure="keep data in JSON Lines or CSV")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if "*" in text and _size(root, {}) > MOST_VALUES:  # before merge keys (<<) write their aliases out
            raise UsageError("its aliases repeat themselves without end", item=item, cure="write it without aliases")
        return None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        said = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UsageError(f"{where}not YAML: {said}", item=item, cure=cure) from error
    except (ValueError, RecursionError) as error:  # a date that is none, a number of a million digits
        raise UsageError(f"not YAML: {error}", item=item, cure=cure) from error


MOST_YAML = 1_000_000
"""Characters of a YAML file; it is read at a hundred thousand a second."""
MOST_VALUES = 1_000_000
"""Values that a YAML file may stand for, aliases written out."""


def _size(node: Any, known: dict[int, float]) -> float:
    """How many values a YAML node stands for; without end where it holds itself."""
    if isinstance(node.value, str):
        return 1.0
    if id(node) not in known:
        known[id(node)] = math.inf
        inner = [one for each in node.value for one in (each if isinstance(each, tuple) else (each,))]
        known[id(node)] = 1.0 + sum(_size(one, known) for one in inner)
    return known[id(node)]


class Problems:
    """Gathers what is wrong with an input, so that all of it is told at once; its length is the number of problems.

    >>> problems = Problems()
    >>> problems.add("pool.jsonl:3", "answer is missing")
    >>> len(problems)
    1
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        """The first `PROBLEMS_KEPT`."""
        self.skipped: int = 0
        self._count = 0

    def add(self, item: str, message: str) -> None:
        """Note one problem: where it is, and what is wrong."""
        self.note(f"{item}: {message}")

    def note(self, line: str) -> None:
        """Note one problem whose line says where it is."""
        self._count += 1
        if len(self.lines) < PROBLEMS_KEPT:
            self.lines.append(line.encode("utf-8", "replace").decode())

    def count(self, more: int) -> None:
        """Count problems whose lines nobody holds any more."""
        self._count += more

    def __len__(self) -> int:
        return self._count

    @property
    def more(self) -> int:
        """Problems that are counted and stand in no line."""
        return self._count - len(self.lines)

    def summary(self, most: int = PROBLEMS_KEPT) -> list[str]:
        """At most so many of the lines, and one that says how many more there were."""
        shown = self.lines[:most]
        more = self._count - len(shown)
        return [*shown, f"... and {more:,} more"] if more else shown

    def settle(self, *, skip_bad: bool = False) -> None:
        """Raise `BadInput` with all of them, unless the user allowed bad records to be skipped (then count)."""
        if self._count and not skip_bad:
            raise BadInput(self.lines, more=self.more)
        self.skipped = self._count


LONGEST_LINE = 1 << 28
"""Bytes of one line of a stranger's file. A longer one (packed, it costs its maker nothing) is left out."""


def lines_of(handle: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a file, each with its end; None in place of one above `LONGEST_LINE`, which is never held whole."""
    while line := handle.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := handle.readline(1 << 20)) and not rest.endswith(b"\n"):
                pass
            yield None
        else:
            yield line


TOO_LONG = "the line is longer than any record"


def read_jsonl(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSONL file with their place (``file:line``); unreadable lines go to ``problems``.

    Memory: one line at a time. Blank lines are passed over.
    """
    with storage_errors(path):
        handle = path.open("rb")
    with handle:
        yield from json_objects(handle, path.name, problems)


def json_objects(
    handle: IO[bytes], name: str, problems: Problems, broken: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of an opened JSONL file with their place (``name:line``); unreadable lines go to ``problems``.

    Args:
        handle: the bytes, unpacked; a byte-order mark at their start is passed over.
        name: of the file, for places.
        problems: takes every line that is no JSON object.
        broken: what reading raises where the file is cut off or damaged; nothing behind it is read.
    """
    lines = enumerate(lines_of(handle), start=1)
    number = 0
    while True:
        try:
            number, line = next(lines, (number, b""))
        except broken as error:
            problems.add(f"{name}:{number + 1}", f"the file is cut off or damaged here: {error}")
            return
        if line == b"":
            return
        place = f"{name}:{number}"
        if line is None:
            problems.add(place, TOO_LONG)
            continue
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        try:
            row = parsed_json(line)
        except ValueError as error:
            problems.add(place, f"not a JSON object: {error}")
            continue
        if isinstance(row, dict):
            yield place, row
        else:
            problems.add(place, f"expected a JSON object, got {type(row).__name__}")


def read_records(path: Path, kind: type[R], problems: Problems) -> Iterator[R]:
    """Records of one kind from a JSONL file; invalid rows go to ``problems`` with file, line and id."""
    for place, row in read_jsonl(path, problems):
        try:
            yield kind.model_validate(row)
        except ValidationError as error:
            problems.add(f"{place} ({row.get('id', 'no id')})", why_invalid(error))


def write_records(path: Path, records: Iterable[BaseModel]) -> str:
    """Write records as JSONL with canonical lines, atomically; returns the file's SHA-256."""
    sha = hashlib.sha256()
    with replacing(path) as handle:
        for record in records:
            line = (canonical(record) + "\n").encode()
            sha.update(line)
            handle.write(line)
    return sha.hexdigest()


class JsonlLog:
    """An append-only JSONL file that survives kill -9: a torn last line is cut off when it is opened again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle: IO[bytes] = path.open("ab+")
            self._cut_torn_tail()

    def _cut_torn_tail(self) -> None:
        size = self._handle.seek(0, os.SEEK_END)
        position = size
        while position > 0:
            step = min(65536, position)
            self._handle.seek(position - step)
            newline = self._handle.read(step).rfind(b"\n")
            if newline >= 0:
                position = position - step + newline + 1
                break
            position -= step
        if position != size:
            self._handle.truncate(position)
        self._handle.seek(0, os.SEEK_END)

    def append(self, record: BaseModel | dict[str, Any]) -> None:
        """Add one line and hand it to the operating system."""
        with storage_errors(self.path):
            self._handle.write((canonical(record) + "\n").encode())
            self._handle.flush()

    def close(self) -> None:
        """Flush to the disk and close."""
        with storage_errors(self.path):
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._handle.close()

    def __enter__(self) -> JsonlLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
