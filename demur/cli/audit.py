"""`demur audit`: check published tables for arithmetic."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._shown import harmless


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; the layout of the table stands below them."""
    from demur.judge.audit import LAYOUT

    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE.csv", help="tables, audited together")
    parser.add_argument("--skip-bad", action="store_true", help="leave out lines that cannot be read, and count them")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    suites = "tables of suites are known by their columns (docs/suites.md)"
    parser.epilog = f"{LAYOUT}\n{suites}\nexit 1 when there is a defect\n\n{parser.epilog or ''}"


def run(args: argparse.Namespace) -> int:
    from demur.core.store import Problems
    from demur.judge.audit import audit, read_lines
    from demur.suites import audit_tables

    problems = Problems()
    of_suites = audit_tables(args.tables, problems)  # their tables have columns of their own
    lines = [line for path in of_suites.rest for line in read_lines(path, problems)]
    problems.settle(skip_bad=args.skip_bad)
    findings = [*of_suites.findings, *audit(lines)]
    n_lines = of_suites.lines + len(lines)
    defects = sum(f.severity == "defect" for f in findings)
    if args.json:
        report = {
            "lines": n_lines,
            "skipped": problems.skipped,
            "defects": defects,
            "findings": [f._asdict() for f in findings],
        }
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
        return int(defects > 0)
    for finding in sorted(findings, key=lambda f: f.severity != "defect"):
        line = f"{finding.severity:<6}  {finding.kind:<8}  {finding.where}: {finding.message}"
        sys.stdout.write(harmless(line) + "\n")
    skipped = f", {problems.skipped} skipped" if problems.skipped else ""
    sys.stdout.write(f"{n_lines} lines{skipped}: {defects} defects, {len(findings) - defects} notes\n")
    return int(defects > 0)
