"""Text of a release on a terminal: it may be anybody's, so it is shown as text and never obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.answers.text import plain

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def words(*values: Any) -> Text:
    """Values as one line of text, without markup of `rich` and without control characters of a terminal."""
    from rich.text import Text

    return Text(plain(" ".join(map(str, values))))


def add_row(table: Table, *cells: Any) -> None:
    """A row of untrusted values."""
    table.add_row(*(words(cell) for cell in cells))


def brief(value: Any, most: int = 60) -> str:
    """A value of a manifest on one line, cut."""
    text = plain(str(value))
    return text if len(text) <= most else text[: most - 1] + "\u2026"
