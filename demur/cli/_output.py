"""Printing on a terminal: text of a corpus, a source or a release is untrusted, so it is shown and never obeyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from demur.core.text import plain

if TYPE_CHECKING:
    from rich.text import Text

    from demur.release import FunnelStep
    from demur.reports.tables import Form, Table


def say(*lines: object) -> None:
    """Print lines on standard output, without control characters."""
    sys.stdout.write(harmless("".join(f"{line}\n" for line in lines)))


def note(*lines: object) -> None:
    """Print lines on standard error: hints, warnings, what was left out."""
    sys.stderr.write(harmless("".join(f"{line}\n" for line in lines)))


def print_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON, in ASCII where standard output cannot show its characters."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    sys.stdout.write(text + "\n")


def print_tables(tables: Iterable[Table], form: Form) -> None:
    """Print tables in one form, with an empty line between them."""
    sys.stdout.write("\n".join(table.render(form) for table in tables))


def words(*values: Any, style: str = "") -> Text:
    """Values as one line of text, without markup of `rich` and without control characters of a terminal."""
    from rich.text import Text

    return Text(plain(" ".join(map(str, values))), style=style)


def show_table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, left: Collection[str] = ()
) -> None:
    """Print a table of untrusted values; the columns named in ``left`` are aligned left, the others right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=words(title, style="table.title") if title else None, title_justify="left")
    for head in heads:
        table.add_column(words(head), justify="left" if head in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(words, row))
    Console().print(table)


def print_funnel(steps: Iterable[FunnelStep]) -> None:
    """Print the funnel of a build or release."""
    rows = [
        (
            s.stage,
            f"{s.entered:,}",
            f"{s.kept:,}",
            "; ".join(f"{why} ({n:,})" for why, n in sorted(s.dropped.items())),
        )
        for s in steps
    ]
    show_table(
        "Funnel",
        ("stage", "entered", "kept", "dropped because"),
        rows,
        left=("stage", "dropped because"),
    )


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = ()) -> list[str]:
    """Rows of text as lines, each column as wide as its widest cell; columns in ``left`` are aligned left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def harmless(text: str) -> str:
    r"""Text without control characters of a terminal; spaces and line ends stay.

    >>> harmless("a\x1b[31m  b\nc")
    'a[31m  b\nc'
    """
    return "".join(c for c in text if c.isprintable() or c in "\n\t")
