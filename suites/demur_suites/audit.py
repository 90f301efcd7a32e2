"""Published tables of all suites: which suite owns a table, and what it says of it.

`demur audit` finds `audit_tables` by its entry point in the group ``demur.audits``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demur.core.store import Problems
from demur.judge.audit import Audit
from demur_suites.base import suite, suites
from demur_suites.published import PublishedRow, csv_lower


def audit_tables(paths: Sequence[Path], problems: Problems) -> Audit:
    """Give published tables to the suites that know their columns; tables of one suite are audited together.

    Args:
        paths: CSV files.
        problems: collects lines that cannot be read.
    """
    known = {name: suite(name) for name in suites()}
    rows: dict[str, list[PublishedRow]] = {}
    rest = []
    for path in paths:
        held = csv_lower(path, Problems())
        columns = set(held[0][1]) if held else set()
        owner = next(
            (
                n
                for n, s in known.items()
                if columns - {"model", "n"} and columns <= s.audit_columns
            ),
            None,
        )
        if owner is None:
            rest.append(path)
        else:
            rows.setdefault(owner, []).extend(csv_lower(path, problems))
    findings = [f for name, own in rows.items() for f in known[name].audit(own)]
    return Audit(findings, sum(map(len, rows.values())), rest)
