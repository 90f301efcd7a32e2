"""Published tables of suites: their rows, and their numbers with what rounding leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from demur.core.store import Problems
from demur.corpora.formats import csv_rows

PublishedRow = tuple[str, dict[str, str]]
"""(file and line, column -> cell)."""


def csv_lower(path: Path, problems: Problems) -> list[PublishedRow]:
    """Rows of a CSV file by plain names of its columns: ``Cov (%)`` is ``cov``, ``MEFR d`` is ``mefr_d``."""

    def plain(name: str) -> str:
        return "_".join(name.partition("(")[0].lower().split())

    return [
        (place, {plain(k): v for k, v in row.items()})
        for place, row in csv_rows(path, problems, mend=True)
    ]


class Finding(NamedTuple):
    """One impossibility."""

    kind: str
    """sum, total, n, disagree, count, kappa; number where a suite's table holds none."""
    severity: Literal["defect", "note"]
    where: str
    message: str


class Printed(NamedTuple):
    """One line of a published table.

    Attributes:
        who: what the line is about.
        place: file and line.
        row: its cells as printed.
        values: column -> number.
        half: column -> half a unit of the last digit printed.
    """

    who: str
    place: str
    row: Mapping[str, str]
    values: Mapping[str, float]
    half: Mapping[str, float]


def printed_lines(
    rows: Iterable[PublishedRow],
    texts: Collection[str] = ("model",),
    fits: Callable[[str, float], bool] = lambda column, value: math.isfinite(value),
) -> tuple[list[Printed], list[Finding]]:
    """The numbers of published lines, and a finding for each cell that is no number that ``fits`` its column.

    Empty cells, dashes and the stars of significance are no numbers and no findings.

    Args:
        rows: of the tables.
        texts: columns that hold text; those that are filled say what a line is about.
        fits: (column, value; NaN for other text) -> whether the column can hold the value.
    """
    lines: list[Printed] = []
    findings: list[Finding] = []
    for place, row in rows:
        who = ", ".join(row[c].strip() for c in texts if row.get(c, "").strip()) or place
        values: dict[str, float] = {}
        half: dict[str, float] = {}
        for column in sorted(set(row) - set(texts)):
            text = row[column].strip().rstrip("*").strip().replace("\u2212", "-")
            if text in ("", "-", "\u2013", "\u2014"):
                continue
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if fits(column, value):
                values[column], half[column] = value, 0.5 * 10.0 ** -len(text.partition(".")[2])
            else:
                message = f"{column} is {row[column]!r}, which is not a possible value"
                findings.append(Finding("number", "defect", f"{place}, {who}", message))
        lines.append(Printed(who, place, row, values, half))
    return lines, findings
