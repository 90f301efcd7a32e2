"""Untrusted JSON: one value, whose depth is checked before it is decoded.

Python's decoder uses its C stack for every bracket, and checks only the recursion limit. Where the stack is smaller
than that limit assumes (a thread with a small stack, a raised recursion limit, limited memory), a few kilobytes of
``[`` end the whole process (SIGSEGV, no exception). So nothing deeper than `MAX_DEPTH` reaches the decoder.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 100
"""Nested lists and objects; records have five or six."""

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is beyond any number")
    return value


STRICT_JSON = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
"""Rejects NaN and infinity, however they are written. Check the depth first."""


def parsed_json(text: str | bytes) -> Any:
    """One untrusted JSON value.

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
    r"""One JSON value with all that Python's reader accepts (NaN, half characters); the caller checks every field.

    >>> loose_json('["\\ud800", NaN]')
    ['\ud800', nan]

    Raises:
        ValueError: not JSON or not UTF-8, or nested too deep.
    """
    text = _text(text)
    check_depth(text)
    return json.loads(text)


def _text(json_text: str | bytes) -> str:
    text = (
        json_text if isinstance(json_text, str) else json_text.decode()
    )  # "utf-8-sig" is much slower
    return text.removeprefix("\ufeff")


def check_depth(text: str) -> None:
    """Raise ValueError if lists and objects are nested deeper than `MAX_DEPTH`.

    Takes linear time without recursion, and returns at once if there are few brackets. In text that is not JSON, it
    counts at least what the decoder would read.
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
                raise ValueError(
                    f"nested too deep (more than {MAX_DEPTH} lists and objects in each other)"
                )
        elif depth:
            depth -= 1


def check_whole_characters(value: Any) -> None:
    """Raise ValueError if a JSON value contains half a character (a lone surrogate), which no file can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("contains half a surrogate pair") from error
