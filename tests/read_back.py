"""Reads the cells of a table back from what a terminal shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.cells import cell_len

from demur.reports.tables import DASH, Table, cell_text, plain

WIDTHS = (60, 80, 100, 160)


def check_words(table: Table) -> None:
    """The caption is one sentence; the notes name the methods of intervals only where some are shown."""
    caption = plain(table.caption)
    assert not re.search(r"[.!?] +[A-Z(]", caption), (table.name, caption)
    latex = table.render("latex")
    if table.missing:
        return
    [printed] = re.findall(r"\\caption\{(.*)\}$", latex, re.MULTILINE)
    assert printed.endswith("."), (table.name, printed)
    if any(note.startswith("Intervals: ") for note in table.notes) and table.rows:
        shows = any(c.interval or c.title.casefold() == "from" for c in table.columns)
        assert shows, (table.name, table.notes)


def check_terminal(table: Table, width: int) -> None:
    """No line is too long; every number is there as often as in the table, every name at least once, all whole."""
    text = table.render("terminal", width=width)
    assert max(map(cell_len, text.splitlines()), default=0) <= width, (table.name, text)
    numbers, names = Counter[str](), set[str]()
    for row in table.rows:
        for place, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            word = cell_text(cell, column)
            if not word or word == DASH or (column.wraps and place):
                continue
            if column.align == "right":
                numbers[word] += 1
            elif cell_len(plain(word)) <= width - 20:
                names.add(" ".join(word.split()))
    for number, times in numbers.items():
        pattern = rf"(?<![\w.,\[+-]){re.escape(number)}(?![\w\]]|[.,]\d)"
        assert len(re.findall(pattern, text)) >= times, (table.name, width, number, text)
    for name in names:
        assert name in re.sub(" +", " ", text), (table.name, width, name, text)


@contextmanager
def tables_made(monkeypatch: Callable[..., None]) -> Iterator[dict[str, Table]]:
    """Every table that is made meanwhile, the last of each name."""
    made: dict[str, Table] = {}
    whole = Table.__post_init__

    def record(table: Table) -> None:
        whole(table)
        made[table.name] = table

    monkeypatch(Table, "__post_init__", record)
    yield made
