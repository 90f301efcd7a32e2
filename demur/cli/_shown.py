"""Text on a terminal: of a corpus, a source or a release it may be anybody's, so it is shown and never obeyed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from demur.core.text import plain

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from demur.release import FunnelStep


def words(*values: Any, style: str = "") -> Text:
    """Values as one line of text, without markup of `rich` and without control characters of a terminal."""
    from rich.text import Text

    return Text(plain(" ".join(map(str, values))), style=style)


def add_row(table: Table, *cells: Any) -> None:
    """A row of untrusted values."""
    table.add_row(*(words(cell) for cell in cells))


def show_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, left: Collection[str] = ()) -> None:
    """A table of untrusted values on the terminal; columns stand on the right but for those of ``left``."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=words(title, style="table.title") if title else None, title_justify="left")
    for head in heads:
        table.add_column(words(head), justify="left" if head in left else "right", overflow="fold")
    for row in rows:
        add_row(table, *row)
    Console().print(table)


def print_funnel(steps: Iterable[FunnelStep]) -> None:
    """The funnel of a build or release."""
    rows = [
        (s.stage, f"{s.entered:,}", f"{s.kept:,}", "; ".join(f"{why} ({n:,})" for why, n in sorted(s.dropped.items())))
        for s in steps
    ]
    show_table("Funnel", ("stage", "entered", "kept", "left because"), rows, left=("stage", "left because"))


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = ()) -> list[str]:
    """Rows of text as lines, each column as wide as its widest cell; ``left``: columns that are not of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def harmless(text: str) -> str:
    r"""Text of any number of lines without control characters of a terminal; spaces and line ends stay.

    >>> harmless("a\x1b[31m  b\nc")
    'a[31m  b\nc'
    """
    return "".join(c for c in text if c.isprintable() or c in "\n\t")
