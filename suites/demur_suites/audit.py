"""Published tables: which suite owns a table, and what it says of it; all others are tables of the four scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from demur.core.store import Problems
from demur_suites.base import suite, suites
from demur_suites.published import Finding, PublishedRow, csv_lower
from demur_suites.scenario_tables import SCENARIOS


class Audit(NamedTuple):
    """What was found in published tables."""

    findings: list[Finding]
    lines: int
    """How many were read."""


def audit_tables(paths: Sequence[Path], problems: Problems) -> Audit:
    """Audit published tables, each by the suite whose columns it has; tables of one suite are audited together.

    Args:
        paths: CSV files.
        problems: collects lines that cannot be read.

    Raises:
        DataError: two columns of a table have one name.
        StorageError: a file cannot be read.
    """
    kinds = [kind for name in suites() if (kind := suite(name).published_tables)] + [SCENARIOS]
    rows: list[list[PublishedRow]] = [[] for _ in kinds]
    for path in paths:
        read = csv_lower(path, problems)
        columns = set(read[0][1]) if read else set()
        named_columns = columns - {"model", "n"}
        place = next(
            (k for k, kind in enumerate(kinds) if named_columns and columns <= kind.columns), None
        )
        if place is None:
            unknown = ", ".join(sorted(columns - SCENARIOS.columns)) or "no line of figures"
            known = ", ".join(sorted(SCENARIOS.columns))
            problems.add(path.name, f"no kind of table has its columns ({unknown}); known: {known}")
            continue
        for where, row in read:
            if kinds[place] is SCENARIOS:
                row["table"] = f"table {row.get('table', '').strip() or path.stem}"
            rows[place].append((where, row))
    findings = [
        f
        for kind, named_columns in zip(kinds, rows, strict=True)
        for f in kind.audit(named_columns)
    ]
    return Audit(findings, sum(map(len, rows)))
