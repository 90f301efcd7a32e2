"""Lines of a file too large to read, by their number."""

from __future__ import annotations

import array
from pathlib import Path

from demur.core.errors import DataError
from demur.core.store import storage_errors


class LineIndex:
    """Byte offset of every line of a file too large to read: the ``.lineidx`` beside it, or one pass over it.

    Memory: 8 bytes per line.

    Args:
        index: text file with one offset per line; read when it exists.

    Raises:
        DataError: the index is not a list of ascending offsets within the file.
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
        """Line ``number`` (from 0) without its line end, or its first ``most`` bytes; IndexError if there is none.

        Raises:
            DataError: no line begins there, so the index belongs to another file.
        """
        if number < 0:
            raise IndexError(number)
        offset = self.offsets[number]
        with storage_errors(self.path), self.path.open("rb") as handle:
            handle.seek(max(offset - 1, 0))
            if offset and handle.read(1) != b"\n":
                raise DataError(
                    f"line {number} does not begin at byte {offset}, as its index has it",
                    item=self.path,
                    cure="fetch file and index together, or delete the index to have it built",
                )
            return handle.readline(most).rstrip(b"\r\n")
