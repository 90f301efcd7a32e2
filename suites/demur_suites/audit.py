"""Published tables: which suite owns a table, and what it says of it; all others are tables of the four scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from demur.core.store import Problems
from demur_suites.base import suite, suites
from demur_suites.published import Finding, PublishedRow, csv_lower
from demur_suites.scenario_tables import audit, read_lines


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
    tables_of = {name: suite(name).published_tables for name in suites()}
    rows: dict[str, list[PublishedRow]] = {}
    lines = []
    for path in paths:
        held = csv_lower(path, Problems())
        columns = set(held[0][1]) if held else set()
        told = columns - {"model", "n"}
        owner = next((n for n, t in tables_of.items() if t and told and columns <= t.columns), None)
        if owner is None:
            lines += read_lines(path, problems)
        else:
            rows.setdefault(owner, []).extend(csv_lower(path, problems))
    findings = [f for name, t in tables_of.items() if t for f in t.audit(rows.get(name, ()))]
    return Audit([*findings, *audit(lines)], len(lines) + sum(map(len, rows.values())))
