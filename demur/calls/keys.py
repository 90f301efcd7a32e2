"""API keys: from the environment only, and never in a repr, a file, a log or a traceback."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit


class Secret:
    """A text that shows itself as ``***`` everywhere but in `reveal`.

    >>> Secret("sk-123")
    ***
    >>> f"{Secret('sk-123')}"
    '***'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written anywhere")

    def reveal(self) -> str:
        """The text itself; for the header that carries it."""
        return self._text

    def scrub(self, text: str) -> str:
        """``text`` with the secret blotted out, for servers that echo what they were sent."""
        return text.replace(self._text, "***") if self._text in text else text


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
