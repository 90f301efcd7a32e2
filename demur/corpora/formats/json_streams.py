"""JSON Lines and giant JSON, one value in memory at a time."""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from demur.core.errors import DataError
from demur.core.store import Problems, json_objects
from demur.core.strict_json import STRICT_JSON, check_depth, check_whole_characters
from demur.corpora.formats.files import BLOCK, BROKEN, beginning, open_bytes

MAX_VALUE = 1 << 28
"""Most characters of one JSON value; a longer one counts as broken. No knowledge base comes near."""


def json_lines(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON Lines file (``.gz`` and ``.zip`` too), one line in memory at a time."""
    with open_bytes(path) as handle:
        yield from json_objects(handle, path.name, problems, (OSError, *BROKEN))


class _Window:
    """A window that slides over the text of a file and counts its lines."""

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
        """Drop the consumed text and read at least as much as is left, so that a long value takes linear time."""
        self.here()
        self.text = self.text[self.at :]
        self.at = self._counted = 0
        block = self._handle.read(max(BLOCK, len(self.text)))
        self.ended = not block
        self.text += self._decoder.decode(block, final=self.ended)
        check_depth(
            self.text
        )  # the window begins outside strings, since only whole values are consumed
        self._escapes = "\\" in self.text and "\\u" in self.text

    def here(self) -> int:
        """Line number (1-based) of the current position."""
        first = self.text.find("\n", self._counted, self.at)
        if first >= 0:  # find is ten times faster than count
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
        next_character = self.peek()
        if next_character != character:
            raise ValueError(
                f"expected {character!r}, found {next_character!r}"
                if next_character
                else "the file ends too early"
            )
        self.at += 1

    def members(self, brackets: str) -> Iterator[None]:
        """Stop at each member of a list or an object, which the caller takes before it goes on."""
        opening, closing = brackets[0], brackets[1]
        self.take(opening)
        while self.peek() != closing:
            yield
            if self.peek() != closing:
                self.take(",")
        self.take(closing)

    def value(self) -> Any:
        """Decode the next value, reading more while it is incomplete."""
        self.peek()
        while True:
            try:
                value, end = STRICT_JSON.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                # An incomplete value fails at the end of the window, or as an unterminated string.
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self.text) - 8
                if self.ended or not cut or len(self.text) - self.at > MAX_VALUE:
                    raise ValueError(
                        "the file ends too early" if self.ended and cut else error.msg
                    ) from error
                self.more()
                continue
            if len(self.text) - end < 4 and not self.ended:  # a number may continue: 1 | 1. | 1.5e+
                self.more()
                continue
            if self._escapes and self.text.find("\\u", self.at, end) >= 0:
                check_whole_characters(value)
            self.at = end
            return value


def json_items(path: Path, problems: Problems, member: str = "") -> Iterator[tuple[str, str, Any]]:
    """Entries of one giant JSON object as (place, key, value), one value in memory at a time.

    A key that occurs twice is yielded twice. Reading ends where the text stops being JSON, with a problem that names
    the line and the last key.
    """
    with open_bytes(path, member) as handle:
        window = _Window(handle)
        key = ""
        try:
            for _ in window.members("{}"):
                place = f"{path.name}:{window.here()}"
                key = window.value()
                if not isinstance(key, str):
                    raise ValueError("a key is not a string")
                window.take(":")
                yield place, key, window.value()
        except (ValueError, *BROKEN) as error:
            problems.add(
                f"{path.name}:{window.here()}", f"not JSON from here on (last key {key!r}): {error}"
            )


def json_elements(path: Path, problems: Problems, under: str = "") -> Iterator[tuple[str, Any]]:
    """Elements of one giant JSON list as (place, value); ends with a problem if the text stops being JSON.

    Args:
        problems: takes the place where the text stops being JSON.
        under: the list is the value of this key of the outermost object (``images`` of a COCO file).
    """
    with open_bytes(path) as handle:
        window = _Window(handle)
        number = 0

        def elements() -> Iterator[tuple[str, Any]]:
            for _ in window.members("[]"):
                yield f"{path.name}:{window.here()}", window.value()

        def lists() -> Iterator[tuple[str, Any]]:
            for _ in window.members("{}"):
                key = window.value()
                window.take(":")
                if window.peek() != "[":
                    window.value()
                elif key == under:
                    yield from elements()
                else:
                    deque(elements(), maxlen=0)

        try:
            for element in lists() if under else elements():
                number += 1
                yield element
        except (ValueError, *BROKEN) as error:
            problems.add(
                f"{path.name}:{window.here()}",
                f"not JSON from here on (after element {number}): {error}",
            )


def json_rows(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a file that is either one JSON list or JSON Lines; its first character decides."""
    start = beginning(path).lstrip()
    if start.partition(b"\n")[0].strip() == b"{":
        raise DataError(
            "is one JSON object, not rows",
            item=path,
            cure="save a list of objects (pandas: records)",
        )
    if not start.startswith(b"["):
        yield from json_lines(path, problems)
        return
    for place, row in json_elements(path, problems):
        if isinstance(row, dict):
            yield place, row
        else:
            problems.add(place, f"expected a JSON object, got {type(row).__name__}")
