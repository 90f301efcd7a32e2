"""API keys: from the environment only, and never in a repr, a file, a log or a traceback."""

from __future__ import annotations

import base64
import json
import os
import re
from urllib.parse import quote, urlsplit

SHORTEST = 8
"""Characters below which a key keeps nobody out."""


class Secret:
    """A text that shows itself as ``***`` everywhere but in `reveal`.

    >>> Secret("sk-123")
    ***
    >>> f"{Secret('sk-123')}"
    '***'
    """

    __slots__ = ("_forms", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        forms = (text, json.dumps(text)[1:-1], text.replace("/", "\\/"), quote(text, safe=""), quote(text))
        encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        self._forms = tuple(dict.fromkeys((*forms, encoded))) if len(text) >= SHORTEST else ()

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written anywhere")

    def reveal(self) -> str:
        """The text itself; for the header that carries it."""
        return self._text

    def scrub(self, text: str) -> str:
        """``text`` with the secret blotted out, as it is and as JSON, addresses and base64 write it.

        For servers that echo what they were sent. What is shorter than `SHORTEST` is a word that a server without keys
        was given as one, and stays: answers may hold it.
        """
        for form in self._forms:
            if form in text:
                text = text.replace(form, "***")
        return text


def key_names(base_url: str) -> tuple[str, ...]:
    """Environment variables looked at for an endpoint's key, the first that is set wins.

    >>> key_names("http://gpu-3.lab:8000/v1")
    ('DEMUR_API_KEY_GPU_3_LAB_8000', 'DEMUR_API_KEY_GPU_3_LAB', 'DEMUR_API_KEY')
    """
    parts = urlsplit(base_url)
    host = re.sub(r"[^A-Z0-9]", "_", (parts.hostname or "").upper())
    with_port = (f"DEMUR_API_KEY_{host}_{parts.port}",) if parts.port else ()
    return (*with_port, f"DEMUR_API_KEY_{host}", "DEMUR_API_KEY")


def find_key(names: tuple[str, ...]) -> tuple[str, Secret | None]:
    """(the variable that holds the key, the key), or (the variable to set, None) when none is set."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return name, Secret(value)
    return names[0], None
