"""Text on a terminal: of a corpus, a source or a release it may be anybody's, so it is shown and never obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.core.text import plain

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def words(*values: Any, style: str = "") -> Text:
    """Values as one line of text, without markup of `rich` and without control characters of a terminal."""
    from rich.text import Text

    return Text(plain(" ".join(map(str, values))), style=style)


def add_row(table: Table, *cells: Any) -> None:
    """A row of untrusted values."""
    table.add_row(*(words(cell) for cell in cells))


def harmless(text: str) -> str:
    r"""Text of any number of lines without control characters of a terminal; spaces and line ends stay.

    >>> harmless("a\x1b[31m  b\nc")
    'a[31m  b\nc'
    """
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def brief(value: Any, most: int = 60) -> str:
    """A value of a manifest on one line, cut."""
    text = plain(str(value))
    return text if len(text) <= most else text[: most - 1] + "\u2026"
