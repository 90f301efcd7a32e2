"""Published tables: the arithmetic that their own figures must obey.

Who knows a kind of table states it as rules (`share_of`, `follows`, or a `Rule` of its own); one code checks them all.
Figures stand for all that rounds to them. Known errors of a suite's paper are in its ``errata.csv``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from demur.core.store import Problems
from demur.corpora.formats import csv_rows

PublishedRow = tuple[str, dict[str, str]]
"""(file and line, column -> cell)."""
LARGEST = 1e9
"""No figure of a table is larger."""
EPS = 1e-9


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
    """sum, total, n, disagree, count, kappa ...; number where a cell holds none that is possible."""
    severity: Literal["defect", "note"]
    where: str
    message: str


class Printed(NamedTuple):
    """What tables print of one system under one condition.

    Attributes:
        who: what it is about, in words.
        texts: column -> text.
        value: column -> number.
        half: column -> half a unit of the last digit printed; 0 of counts, and of what was filled in.
    """

    who: str
    texts: Mapping[str, str]
    value: dict[str, float]
    half: dict[str, float]

    def ends(self, column: str) -> tuple[float, float]:
        """The least and the greatest number that a figure stands for."""
        return self.value[column] - self.half[column], self.value[column] + self.half[column]


class Rule(NamedTuple):
    """What figures of one line must obey.

    Attributes:
        kind: of the finding.
        columns: a line without one of them is not checked.
        fault: what is wrong with a line; "" where nothing is.
        unless: a line with this column is not checked.
        severity: of the finding.
    """

    kind: str
    columns: tuple[str, ...]
    fault: Callable[[Printed], str]
    unless: str = ""
    severity: Literal["defect", "note"] = "defect"


def share_of(
    column: str,
    n: str | int,
    *,
    unit: float = 1.0,
    percent: bool = True,
    off: tuple[float, float] = (0.0, math.inf),
) -> Rule:
    """A share must be so many of n items.

    Args:
        column: the share.
        n: a column, or a number.
        unit: steps of a count: half an item.
        percent: whether it is in per cent.
        off: found is a share that is further off than its rounding, and by more than the first and at most the second.
    """
    scale = 100 if percent else 1

    def fault(line: Printed) -> str:
        items = line.value[n] if isinstance(n, str) else n
        value, half = line.value[column], line.half[column]
        count = unit * round(value * items / scale / unit)
        gap = abs(scale * count / items - value) if items else math.inf
        if gap <= half + EPS or not off[0] + EPS < gap <= off[1] + EPS:
            return ""
        nearest = f": {count:g} of {items:g} is {scale * count / items:.4g}" if items else ""
        return f"{column} {value:g} is no share of {items:g}{nearest}"

    return Rule("count", (column, n) if isinstance(n, str) else (column,), fault)


def follows(
    column: str,
    of: Sequence[str],
    formula: Callable[..., float | None],
    *,
    kind: str = "total",
    slack: float = 0.0,
    unless: str = "",
) -> Rule:
    """A figure must follow from others of its line, wherever their rounding lies.

    Args:
        column: the figure.
        of: the others, in the order of the formula's arguments.
        formula: None where it is undefined.
        kind: of the finding.
        slack: what other rounding, not printed, may add.
        unless: a line with this column is not checked.
    """

    def fault(line: Printed) -> str:
        results = [formula(*corner) for corner in product(*(line.ends(c) for c in of))]
        defined = [r for r in results if r is not None]
        value, room = line.value[column], line.half[column] + slack + EPS
        if not defined:
            return f"{column} {value:g} is printed where it is undefined"
        low, high = min(defined), max(defined)
        if low - room <= value <= high + room:
            return ""
        shown = f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"
        return f"{column} {value:g} is printed, {shown} follows from {', '.join(of)}"

    return Rule(kind, (column, *of), fault, unless)


class PublishedTables(NamedTuple):
    """How a kind of published table looks, and what it must obey.

    Attributes:
        columns: in lower case; a table whose columns are among them is of this kind.
        rules: of each line.
        texts: columns that hold text; those that are filled say what a row is about.
        counts: columns that hold whole numbers.
        bounds: column -> the least and the greatest number that it can hold.
        fill: numbers that a row leaves unsaid (the sizes that the paper states).
        across: what several lines must obey together.
    """

    columns: frozenset[str]
    rules: tuple[Rule, ...]
    texts: tuple[str, ...] = ("model",)
    counts: frozenset[str] = frozenset()
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({})
    fill: Callable[[Mapping[str, str]], Mapping[str, float]] = lambda row: {}
    across: Callable[[Sequence[Printed]], Iterable[Finding]] = lambda lines: ()

    def audit(self, rows: Iterable[PublishedRow]) -> list[Finding]:
        """What is impossible in rows; what several tables print of one system is checked together.

        Empty cells, dashes and the stars of significance are no numbers and no findings.
        """
        findings: list[Finding] = []
        lines: dict[str, Printed] = {}
        for place, row in rows:
            texts = {c: row[c].strip() for c in self.texts if row.get(c, "").strip()}
            who = ", ".join(texts.values()) or place
            line = lines.setdefault(who, Printed(who, texts, {}, {}))
            for column in sorted(set(row) - set(self.texts)):
                text = row[column].strip().rstrip("*% ").replace("\u2212", "-")
                if text in ("", "-", "\u2013", "\u2014"):
                    continue
                value = self._number(column, text)
                if value is None:
                    message = f"{column} is {row[column]!r}, which is not a possible value"
                    findings.append(Finding("number", "defect", f"{place}, {who}", message))
                elif line.value.setdefault(column, value) != value:
                    message = f"{column} is {line.value[column]:g} and, in {place}, {value:g}"
                    findings.append(Finding("disagree", "defect", who, message))
                else:
                    digits = len(text.replace(",", ".").partition(".")[2])
                    line.half[column] = 0.0 if column in self.counts else 0.5 * 10.0**-digits
            for column, value in self.fill(row).items():
                if line.value.setdefault(column, value) == value:
                    line.half.setdefault(column, 0.0)
        for line in lines.values():
            for rule in self.rules:
                checked = set(rule.columns) <= set(line.value) and rule.unless not in line.value
                if checked and (fault := rule.fault(line)):
                    findings.append(Finding(rule.kind, rule.severity, line.who, fault))
        return [*findings, *self.across([*lines.values()])]

    def _number(self, column: str, text: str) -> float | None:
        """A number that a column can hold, as spreadsheets of any country write it; None for other text."""
        whole = column in self.counts
        try:
            value = float(text.replace(",", "" if whole else "."))
        except ValueError:
            return None
        low, high = self.bounds.get(column, (0.0 if whole else -LARGEST, LARGEST))
        return value if low <= value <= high and not (whole and value % 1) else None
