"""What the tables and figures of suites share: columns, rows as they come, points on two axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from demur.core.records import Measure
from demur.reports import svg
from demur.reports.svg import Panel
from demur.reports.tables import Cell, Column, Table


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
    """A table; a title alone is a column of numbers."""
    return Table(
        name,
        caption,
        tuple(c if isinstance(c, Column) else Column(c) for c in columns),
        tuple(map(tuple, rows)),
        rules=frozenset(rules),
        notes=notes,
    )


def with_n(measures: Iterable[Measure | None]) -> Iterator[Cell]:
    """Each measure, and its n in the next column; 0 where there is no measure."""
    for measure in measures:
        yield measure
        yield measure.n if measure is not None else 0


def n_note(measures: Mapping[str, Iterable[Measure | None]]) -> str:
    """The n behind the measures of each column, as a note, such as ``n: GD 18, OC 15-18.``."""
    parts = []
    for name, column in measures.items():
        sizes = [measure.n for measure in column if measure is not None] or [0]
        low, high = min(sizes), max(sizes)
        parts.append(f"{name} {low}" if low == high else f"{name} {low}-{high}")
    return f"n: {', '.join(parts)}."


def pruned(tables: Iterable[Table]) -> list[Table]:
    """Tables without the columns in which nothing has a value, and without those that have no value left.

    A column titled "n", or "n of" something, goes with the rate before it.
    """
    return [table for table in map(_pruned, tables) if table is not None]


def _pruned(table: Table) -> Table | None:
    if not table.rows:
        return table
    empty = [
        all(cell is None or (isinstance(cell, Measure) and cell.value is None) for cell in cells)
        for cells in zip(*table.rows, strict=True)
    ]
    for place, column in enumerate(table.columns[1:], 1):
        is_n = column.title == "n" or column.title.startswith("n of ")
        empty[place] = empty[place] or (is_n and empty[place - 1])
    held = [place for place, out in enumerate(empty) if not out]
    rates = [c.align == "right" for c in table.columns]
    if not any(rates[place] for place in held) and any(rates):
        return None
    return replace(
        table,
        columns=tuple(table.columns[place] for place in held),
        rows=tuple(tuple(row[place] for place in held) for row in table.rows),
        bold=frozenset((row, held.index(place)) for row, place in table.bold if place in held),
    )


def scatter(title: str, points: Sequence[tuple[str, float, float, int]], x_label: str) -> Panel:
    """Points (label, x, y, style) on axes fitted to them; values are read off their tooltips."""
    left, top, wide, high = 46.0, 30.0, svg.WIDTH - 60, 190.0

    def fit(values: list[float]) -> tuple[float, float]:
        room = (max(values) - min(values)) * 0.08 or 0.05
        low = min(values) - room
        return low if min(values) < 0 else max(low, 0.0), max(values) + room

    (x0, x1), (y0, y1) = fit([p[1] for p in points]), fit([p[2] for p in points])
    out = [
        svg.title(svg.fit(title, svg.WIDTH)),
        svg.line(left, top + high, left + wide, top + high, kind="axis"),
        svg.line(left, top, left, top + high, kind="axis"),
    ]
    for share in (0.0, 0.5, 1.0):
        x, y = left + share * wide, top + (1 - share) * high
        below, beside = f"{x0 + share * (x1 - x0):.2f}", f"{y0 + share * (y1 - y0):.2f}"
        out.append(svg.text(x, top + high + 16, below, size=10.5, anchor="middle", faint=True))
        out.append(svg.text(left - 6, y + 4, beside, size=10.5, anchor="end", faint=True))
    for label, x, y, style in points:
        colour, _, kind = svg.look(style)
        place = left + (x - x0) / (x1 - x0) * wide, top + (1 - (y - y0) / (y1 - y0)) * high
        out.append(
            svg.mark(
                f"{label}: {x:.3f}, {y:.3f}", svg.marker(kind, *place, colour, f"s{style % 8}")
            )
        )
    out.append(
        svg.text(left + wide / 2, top + high + 34, x_label, size=11.5, anchor="middle", faint=True)
    )
    return Panel(title, "".join(out), top + high + 42, alt=f"{title}: {len(points)} points")
