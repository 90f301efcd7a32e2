"""JSON of strangers: one value, bounded in depth before it is decoded.

The interpreter's decoder goes down its C stack with every bracket and counts them against Python's recursion limit, not
against the stack that there is. A few kilobytes of ``[`` then end the whole process (SIGSEGV, no exception) where that
is smaller than the limit assumes: in a thread with a small stack, under a raised recursion limit, in a process whose
memory is limited and whose stack can no longer grow. So nothing deeper than `MAX_DEPTH` ever reaches it.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 100
"""Lists and objects inside one another; records have five or six."""

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is beyond any number")
    return value


STRICT_JSON = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
"""Decodes neither NaN nor infinity, however it is written. Check the depth first."""


def parsed_json(text: str | bytes) -> Any:
    """One JSON value of a stranger's.

    >>> parsed_json('{"a": [1, 2]}')
    {'a': [1, 2]}

    Raises:
        ValueError: not JSON or not UTF-8, nests too deep, or holds ``NaN``, ``Infinity``, ``1e999`` or half a surrogate
            pair.
    """
    text = _text(text)
    check_depth(text)
    value = STRICT_JSON.decode(text)
    if "\\" in text and "\\u" in text:
        check_whole_characters(value)
    return value


def loose_json(text: str | bytes) -> Any:
    r"""One JSON value with what Python's own reader lets pass (NaN, halves of characters), for who checks every field.

    >>> loose_json('["\\ud800", NaN]')
    ['\ud800', nan]

    Raises:
        ValueError: not JSON or not UTF-8, or nested too deep.
    """
    text = _text(text)
    check_depth(text)
    return json.loads(text)


def _text(given: str | bytes) -> str:
    return given if isinstance(given, str) else given.decode().removeprefix("\ufeff")  # "utf-8-sig" is much slower


def check_depth(text: str) -> None:
    """Raise ValueError where lists and objects stand more than `MAX_DEPTH` deep in each other, counted from any place.

    In linear time, without recursion; quick where there are few brackets at all. Text that is no JSON is counted up to
    where it stops being JSON as the decoder would, which is all that it will read.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(data.translate(None, _NOT_STRUCTURE).split(b'"')[::2])
    depth = 0
    for bracket in outside:
        if bracket in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested too deep (more than {MAX_DEPTH} lists and objects in each other)")
        elif depth:
            depth -= 1


def check_whole_characters(value: Any) -> None:
    """Raise ValueError where a value of JSON holds half a character (a lone surrogate), which no file can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half a surrogate pair") from error
