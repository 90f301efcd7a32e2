"""Files: canonical JSON and hashes, atomic writes, append-only JSONL.

All files of a run are written here, so that a process killed at any moment leaves the old file or the new one, and at
worst one incomplete last line, which the next run removes.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import json
import math
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.strict_json import parsed_json as parsed_json  # for all who read files
from demur.core.system import LOCKS, lock_file

R = TypeVar("R", bound=BaseModel)


# --- identity ------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, no escapes for non-ASCII. Equal values give equal text everywhere."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any, length: int = 64) -> str:
    """SHA-256 of bytes, or of the canonical JSON of any other value; lower-case hex, the first ``length`` digits."""
    data = value if isinstance(value, bytes) else canonical(value).encode()
    return hashlib.sha256(data).hexdigest()[:length]


def unstorable(record: BaseModel) -> str:
    """Why no file can hold a record; "" if one can.

    Half a character (a lone surrogate) is not text, NaN and infinity are not JSON, and an integer beyond 64 bits fits
    no column of a table.
    """
    unchecked: list[Any] = [record]
    while unchecked:  # called for every reply: the frequent types first
        value = unchecked.pop()
        if isinstance(value, str):
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    return "it holds half a character (a lone surrogate)"
        elif value is None:
            continue
        elif isinstance(value, BaseModel):
            unchecked += value.__dict__.values()
        elif isinstance(value, float):
            if not math.isfinite(value):
                return f"it holds the number {value}"
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                return "it holds an integer beyond 64 bits"
        elif isinstance(value, dict):
            unchecked += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            unchecked += value
    return ""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seed_of(*parts: object) -> int:
    """A 63-bit seed that depends only on the parts: the same on every machine, in every order of work."""
    return (
        int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big")
        >> 1
    )


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
        }.get(errno.errorcode.get(error.errno or 0, ""), "check the path and the disk")
        why = error.strerror or str(error)
        if error.errno is None and _CUT_SHORT.fullmatch(why):
            why = f"the disk is full, or a file may not grow: {why}"
            cure = "free some disk space, or raise the limit (ulimit -f), and run the same command again"
        raise StorageError(why, item=path, cure=cure) from error


_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
"""NumPy's message when the system writes only a part of an array; its error has no number."""


@contextmanager
def locked(place: Path, busy: str, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes out during the block; the operating system ends the lock with the process.

    Args:
        place: a lock file, created now and removed at the end.
        busy: what another process with the lock is doing, for the message.
        wait: wait for the other process instead.

    Raises:
        UsageError: another process has the lock.
        StorageError: the file cannot be created.
    """
    while True:
        with storage_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = place.open("wb")
        with handle:
            try:
                lock_file(handle, wait=wait)
            except BlockingIOError as error:
                raise UsageError(
                    f"another process is {busy}",
                    item=place,
                    cure="wait for it, or choose another folder",
                ) from error
            except OSError:  # a file system without locks: the user must not start two processes
                pass
            try:
                if not os.path.samestat(place.stat(), os.fstat(handle.fileno())):
                    continue  # since it was opened, its owner removed it and another process created it again
            except FileNotFoundError:
                continue
            try:
                yield
            finally:
                with suppress(PermissionError):  # Windows does not remove open files
                    place.unlink(missing_ok=True)
            return


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file that replaces ``path`` at the end of the block; after an error it is removed.

    Its name depends only on ``path``, so that the next process overwrites what a killed one left; it gets a unique name
    only while another process is writing the same file.

    Raises:
        StorageError: the folder cannot be created or written.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        handle = _open_locked(temporary)
        if handle is None:
            temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
            handle = temporary.open("wb")
        with handle:  # locked until it is renamed or removed
            try:
                handle.truncate(0)
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
                if not LOCKS:  # Windows does not rename open files
                    handle.close()
                temporary.replace(path)
            except BaseException:
                if not LOCKS:
                    handle.close()
                temporary.unlink(missing_ok=True)
                raise


def _open_locked(place: Path) -> IO[bytes] | None:
    """A file opened for writing and locked; None if another process has it, or there are no locks."""
    for _ in range(8):
        handle = os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT, 0o666), "wb")
        try:
            lock_file(handle)
            if os.path.samestat(place.stat(), os.fstat(handle.fileno())):
                return handle
        except FileNotFoundError:
            pass  # its owner renamed it after it was opened
        except OSError:
            handle.close()
            return None
        handle.close()
    return None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace a whole file: a reader sees the old one or the new one, never a part.

    Raises:
        StorageError: the folder cannot be created or written.
    """
    with replacing(path) as handle:
        handle.write(data.encode() if isinstance(data, str) else data)


def write_json(path: Path, value: Any) -> None:
    """Write readable JSON with sorted keys and a final newline, atomically."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    write_atomic(
        path,
        json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n",
    )


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        StorageError: it cannot be read.
        DataError: it is not JSON; names the line.
    """
    with storage_errors(path):
        data = path.read_bytes()
    try:
        return parsed_json(data)
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON: {error.msg}",
            item=f"{path}:{error.lineno}",
            cure="correct or rebuild the file",
        ) from error
    except ValueError as error:  # not UTF-8, NaN, a number of a million digits, nested too deep
        raise DataError(
            f"not JSON: {error}", item=path, cure="correct or rebuild the file"
        ) from error


def why_invalid(error: ValidationError) -> str:
    """The first three problems of a validation error on one line: ``field: what is wrong``."""
    parts = []
    for complaint in error.errors()[:3]:
        field = ".".join(str(step) for step in complaint["loc"]) or "record"
        parts.append(f"{field}: {complaint['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)


PROBLEMS_KEPT = 1_000
"""Problems that are kept as text; further ones are counted: a file may have millions of bad rows."""


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
        raise UsageError(f"not UTF-8 text: {error}", item=path, cure="save it as UTF-8") from error


def parsed_yaml(text: str, item: str, cure: str = "correct the file") -> Any:
    """The values of a YAML text: plain values only, and no alias bombs.

    Raises:
        UsageError: not YAML, nested too deep, too long, or aliases that expand to too many values.
    """
    import yaml

    if len(text) > MOST_YAML:
        raise UsageError(
            f"longer than {MOST_YAML:,} characters",
            item=item,
            cure="keep data in JSON Lines or CSV",
        )
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if (
            "*" in text and _expanded_size(root, {}) > MOST_VALUES
        ):  # before merge keys (<<) expand their aliases
            raise UsageError(
                f"its aliases expand to over {MOST_VALUES:,} values",
                item=item,
                cure="avoid aliases",
            )
        return None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UsageError(f"{where}not YAML: {why}", item=item, cure=cure) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # an impossible date, a number of a million digits
        raise UsageError(f"not YAML: {error}", item=item, cure=cure) from error


MOST_YAML = 1_000_000
"""Characters of a YAML file; PyYAML reads a hundred thousand per second."""
MOST_VALUES = 1_000_000
"""Values of a YAML file, with its aliases expanded."""


def _expanded_size(node: Any, sizes: dict[int, float]) -> float:
    """Number of values that a YAML node expands to; infinite if it contains itself."""
    if isinstance(node.value, str):
        return 1.0
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        inner = [
            child
            for member in node.value
            for child in (member if isinstance(member, tuple) else (member,))
        ]
        sizes[id(node)] = 1.0 + sum(_expanded_size(child, sizes) for child in inner)
    return sizes[id(node)]


class Problem(NamedTuple):
    """What is wrong at one place of an input."""

    place: str
    """``file:line`` of a row; else a file, a field, or "" if the reason names it."""
    reason: str
    id: str = ""
    """Of the row, if it has one."""

    def __str__(self) -> str:
        """One line, as ``questions.jsonl:4 (q3): no answers``."""
        where = f"{self.place} ({self.id})" if self.id else self.place
        return f"{where}: {self.reason}" if where else self.reason

    @property
    def is_of_row(self) -> bool:
        """Whether its place is a row of a file."""
        return ":" in self.place


class Problems:
    """Collects the problems of an input, to report all of them at once; its length is their number.

    >>> problems = Problems()
    >>> problems.add("pool.jsonl:3", "answer is missing")
    >>> len(problems)
    1
    """

    def __init__(self) -> None:
        self.first: list[Problem] = []
        """The first `PROBLEMS_KEPT`."""
        self.skipped: int = 0
        self._count = 0

    def add(self, place: str, reason: str, id: str = "") -> None:
        """Add one problem: its place, what is wrong, and the id of its row."""
        self.note(Problem(place, reason, id))

    def note(self, problem: Problem) -> None:
        """Add one problem."""
        self._count += 1
        if len(self.first) < PROBLEMS_KEPT:
            self.first.append(problem)

    def count(self, more: int) -> None:
        """Add problems without their text."""
        self._count += more

    def __len__(self) -> int:
        return self._count

    @property
    def more(self) -> int:
        """Problems that are counted but not kept as text."""
        return self._count - len(self.first)

    @property
    def lines(self) -> list[str]:
        """The first problems, each as one printable line."""
        return [str(problem).encode("utf-8", "replace").decode() for problem in self.first]

    def summary(self, most: int = PROBLEMS_KEPT) -> list[str]:
        """The first lines, and one with the number of further problems."""
        first_lines = self.lines[:most]
        more = self._count - len(first_lines)
        return [*first_lines, f"... and {more:,} more"] if more else first_lines

    def settle(self, *, skip_bad: bool | None = None) -> None:
        """Raise `BadInput` with all problems; with ``skip_bad``, set ``skipped`` to their number instead.

        None: the command has no ``--skip-bad`` to recommend.
        """
        if self._count and not skip_bad:
            raise BadInput(
                self.lines,
                more=self.more,
                cure="correct them" if skip_bad is None else "correct them, or allow --skip-bad",
            )
        self.skipped = self._count


LONGEST_LINE = 1 << 28
"""Maximum bytes of one line of an untrusted file; a longer one (it compresses to almost nothing) is skipped."""


def lines_of(handle: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a file with their line ends; None for a line above `LONGEST_LINE`, which is never in memory."""
    while line := handle.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (remainder := handle.readline(1 << 20)) and not remainder.endswith(b"\n"):
                pass
            yield None
        else:
            yield line


TOO_LONG = "the line is longer than any record"


def as_utf8(handle: io.BufferedReader) -> IO[bytes]:
    """A file at its beginning; if its byte-order mark says UTF-16 (Excel, PowerShell), its text in UTF-8, in memory.

    Raises:
        DataError: the text is not UTF-16, or too long.
    """
    with storage_errors(handle.name):
        if handle.peek(2)[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return handle
        data = handle.read(LONGEST_LINE)
    try:
        if len(data) == LONGEST_LINE:
            raise ValueError(f"over {LONGEST_LINE >> 20} MB")
        return io.BytesIO(data.decode("utf-16").encode())
    except ValueError as error:
        raise DataError(
            f"UTF-16 that is not read: {error}", item=handle.name, cure="save it as UTF-8"
        ) from error


def read_jsonl(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSONL file with their place (``file:line``); unreadable lines go to ``problems``.

    Holds one line at a time. Skips blank lines.
    """
    with storage_errors(path):
        handle = path.open("rb")
    with handle:
        yield from json_objects(as_utf8(handle), path.name, problems)


def json_objects(
    handle: IO[bytes],
    name: str,
    problems: Problems,
    broken: tuple[type[Exception], ...] = (OSError,),
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of an open JSONL file with their place (``name:line``); unreadable lines go to ``problems``.

    Args:
        handle: the decompressed bytes, with or without a byte-order mark.
        name: of the file, for places.
        problems: receives every line that is not a JSON object.
        broken: errors of a truncated or damaged file; reading ends there.
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
            problems.add(place, why_invalid(error), str(row.get("id", "no id")))


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
    """An append-only JSONL file that survives kill -9: opening it removes an incomplete last line."""

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
        """Write one line, up to the operating system."""
        with storage_errors(self.path):
            self._handle.write((canonical(record) + "\n").encode())
            self._handle.flush()

    def close(self) -> None:
        """Write everything to the disk and close."""
        with storage_errors(self.path):
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._handle.close()

    def __enter__(self) -> JsonlLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
