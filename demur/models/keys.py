"""API keys: read from the environment only; no repr, file, log or traceback contains them."""

from __future__ import annotations

import base64
import json
import os
import re
from urllib.parse import quote, urlsplit

SHORTEST = 8
"""Characters; a shorter key is a placeholder."""


class Secret:
    """A text whose repr and str are ``***``; only `reveal` gives it.

    >>> Secret("sk-123")
    ***
    >>> f"{Secret('sk-123')}"
    '***'
    """

    __slots__ = ("_forms", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        forms = (
            text,
            json.dumps(text)[1:-1],
            text.replace("/", "\\/"),
            quote(text, safe=""),
            quote(text),
        )
        encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        self._forms = tuple(dict.fromkeys((*forms, encoded))) if len(text) >= SHORTEST else ()

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

        A text shorter than `SHORTEST` stays: it is a placeholder for a server without keys, and answers may contain it.
        """
        for form in self._forms:
            if form in text:
                text = text.replace(form, "***")
        return text


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
