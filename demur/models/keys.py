"""API keys: read from the environment only; no repr, file, log or traceback contains them."""

from __future__ import annotations

import base64
import os
import re
from urllib.parse import urlsplit

SHORTEST = 8
"""Characters; a shorter key is a placeholder."""


class Secret:
    """A text whose repr and str are ``***``; only `reveal` gives it.

    >>> Secret("sk-123")
    ***
    >>> f"{Secret('sk-123')}"
    '***'
    """

    __slots__ = ("_patterns", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        forms = (text, encoded) if len(text) >= SHORTEST else ()
        self._patterns = tuple(_in_any_escape(form) for form in forms)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")

    def reveal(self) -> str:
        """The text itself, for the request's header."""
        return self._text

    def scrub(self, text: str) -> str:
        """``text`` with ``***`` for the secret, plain or in JSON, URL or base64 encoding: servers echo requests.

        Any of its characters may be escaped, so that it does not come back when the text is decoded. A text shorter
        than `SHORTEST` stays: it is a placeholder for a server without keys, and answers may contain it.
        """
        for pattern in self._patterns:
            text = pattern.sub("***", text)
        return text


def _in_any_escape(text: str) -> re.Pattern[str]:
    r"""Finds a text each of whose characters is plain, ``\c``, ``\u0063`` or ``%63``; in JSON within JSON too."""
    pattern = []  # every branch begins with a letter of its own: the search skips what begins with no other
    for c in text:
        units = c.encode("utf-16-be", "surrogatepass").hex()
        hexadecimal = r"\\{1,4}u".join(
            _either_case(units[i : i + 4]) for i in range(0, len(units), 4)
        )
        in_json = rf"\\{{0,3}}(?:{re.escape(c)}|u{hexadecimal})"
        in_url = "".join(
            f"%{_either_case(f'{b:02x}')}" for b in c.encode("utf-8", "surrogateescape")
        )
        pattern.append(rf"(?:{re.escape(c)}|\\{in_json}|{in_url})")
    return re.compile("".join(pattern))


def _either_case(digits: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits)


def key_names(base_url: str) -> tuple[str, ...]:
    """Environment variables for an endpoint's key; the first that is set counts.

    >>> key_names("http://gpu-3.lab:8000/v1")
    ('DEMUR_API_KEY_GPU_3_LAB_8000', 'DEMUR_API_KEY_GPU_3_LAB', 'DEMUR_API_KEY')
    """
    parts = urlsplit(base_url)
    host = re.sub(r"[^A-Z0-9]", "_", (parts.hostname or "").upper())
    with_port = (f"DEMUR_API_KEY_{host}_{parts.port}",) if parts.port else ()
    return (*with_port, f"DEMUR_API_KEY_{host}", "DEMUR_API_KEY")


def find_key(names: tuple[str, ...]) -> tuple[str, Secret | None]:
    """(the variable with the key, the key), or (the variable to set, None) if none is set."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return name, Secret(value)
    return names[0], None
