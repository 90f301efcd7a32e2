"""The few wanted lines or values of a file too large to read."""

from __future__ import annotations

import array
import json
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Self

from demur.core.errors import DataError
from demur.core.store import storage_errors


class LineIndex:
    """Byte offset of every line of a file too large to read: the ``.lineidx`` beside it, or one pass over it.

    Memory: 8 bytes per line.

    Args:
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
        """Line ``number`` (from 0) without its end, or its first ``most`` bytes; IndexError when there is none.

        Raises:
            DataError: no line begins there: the index beside the file is that of another.
        """
        if number < 0:
            raise IndexError(number)
        offset = self.offsets[number]
        with storage_errors(self.path), self.path.open("rb") as handle:
            handle.seek(max(offset - 1, 0))
            if offset and handle.read(1) != b"\n":
                raise DataError(
                    f"line {number} does not begin at byte {offset}, where its index says", item=self.path,
                    cure="fetch file and index together, or delete the index to have it built",
                )  # fmt: skip
            return handle.readline(most).rstrip(b"\r\n")


class Lookup:
    """The few wanted values of a huge keyed file, put aside on disk in one pass and read by offset.

    Memory: the keys that were wanted and found, 16 bytes each beside their text; the values lie in a temporary file.
    A key met again keeps its first value and is counted in ``repeated``.

    Args:
        entries: (key, value) of the whole file, streamed.
    """

    def __init__(self, entries: Iterable[tuple[str, Any]], wanted: Collection[str]) -> None:
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close(), or with the process
        self._places: dict[str, tuple[int, int]] = {}
        self.repeated = 0
        end = 0
        for key, value in entries:
            if key not in wanted:
                continue
            if key in self._places:
                self.repeated += 1
                continue
            line = json.dumps(value, ensure_ascii=False).encode()
            with storage_errors(tempfile.gettempdir()):
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
