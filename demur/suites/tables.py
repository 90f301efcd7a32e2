"""What the tables and cards of suites share: columns by their titles, rows as they come, replies on cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from demur.core.records import Measure
from demur.reports.tables import Cell, Column, Table, titled


def number(title: str, group: str = "", decimals: int = 3, *, interval: bool = False) -> Column:
    """A column of values that are no shares."""
    return Column(title, group, percent=False, decimals=decimals, interval=interval)


def table(
    name: str,
    caption: str,
    columns: Iterable[str | Column],
    rows: Iterable[Iterable[Any]],
    *notes: str,
    rules: Iterable[int] = (),
) -> Table:
    """A table; columns by their titles as `demur.reports.tables.titled` takes them."""
    return Table(name, caption, titled(*columns), tuple(map(tuple, rows)), rules=frozenset(rules), notes=notes)


def with_n(measures: Iterable[Measure | None]) -> Iterator[Cell]:
    """Each measure, and its n in the next column; 0 where there is no measure."""
    for measure in measures:
        yield measure
        yield measure.n if measure is not None else 0
