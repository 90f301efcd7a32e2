"""Printing on a terminal: text of a corpus, a source or a release is untrusted, so it is shown and never obeyed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from demur.core.text import plain

if TYPE_CHECKING:
    from rich.text import Text

    from demur.models import Estimate
    from demur.release import Release
    from demur.reports.data import ReportData
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
    if form == "terminal":
        show(*tables)
    else:
        sys.stdout.write("\n".join(table.render(form) for table in tables))


def print_tables_or_json(tables: Iterable[Table], args: argparse.Namespace) -> None:
    """Print tables in the form of ``--form``, or with ``--json`` their rows by the names of the tables."""
    from demur.reports.tables import to_records

    if args.json:
        print_json({table.name: to_records(table) for table in tables}, 1)
    else:
        print_tables(tables, args.form)


def show_data(data: ReportData, times: Mapping[str, float] | None = None) -> None:
    """Print the results of runs, the funnel, and the seconds of each stage."""
    from demur.reports.terminal import print_data

    print_data(data, times=times)


def show(*tables: Table) -> None:
    """Print tables as wide as the terminal."""
    from demur.reports.tables import console_for, print_table

    console = console_for()
    for table in tables:
        print_table(console, table)


def show_plan(plan: Estimate, *notes: str) -> None:
    """Print calls, tokens and money of a plan as wide as the terminal, its notes, and others."""
    from textwrap import fill

    from demur.reports.tables import Table, numbers, texts

    head, *rows = plan.cells()
    columns = (*texts(*head[:2]), *numbers(*head[2:]))
    cells = tuple(map(tuple, rows))
    show(
        Table(
            "plan",
            "What would be asked: calls, tokens and money",
            columns,
            cells,
            frozenset({len(cells) - 1}),
        )
    )
    say(*(fill(f"note: {line}", 80, break_on_hyphens=False) for line in (*plan.notes, *notes)))


def words(*values: Any, style: str = "") -> Text:
    """Values as one line of text, without markup of `rich` and without control characters of a terminal."""
    from rich.text import Text

    return Text(plain(" ".join(map(str, values))), style=style)


def show_funnel(release: Release) -> None:
    """Print the funnel of a release."""
    from demur.reports.data import ReportData
    from demur.reports.release import funnel_table

    show(funnel_table(ReportData((), release)))


def show_recall(release: Release) -> None:
    """Print the recall of the search for its distractors."""
    from demur.reports.data import ReportData
    from demur.reports.release import recall_table

    show(recall_table(ReportData((), release)))


def harmless(text: str) -> str:
    r"""Text without control characters of a terminal; spaces and line ends stay.

    >>> harmless("a\x1b[31m  b\nc")
    'a[31m  b\nc'
    """
    return "".join(c for c in text if c.isprintable() or c in "\n\t")
