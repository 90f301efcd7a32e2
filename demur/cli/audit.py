"""`demur audit`: check the arithmetic of published tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; the layout of the table is explained below them."""
    from demur.judge.audit import LAYOUT

    parser.add_argument(
        "tables", nargs="+", type=Path, metavar="TABLE.csv", help="tables, audited together"
    )
    add_shared(
        parser,
        "--skip-bad",
        "--json",
        skip_bad="leave out lines that cannot be read, and count them",
    )
    others = "tables of benchmarks that are installed beside demur are recognised by their columns"
    parser.epilog = f"{LAYOUT}\n{others}\nexit 1 when a table has a defect\n\n{parser.epilog or ''}"


def run(args: argparse.Namespace) -> int:
    from demur.core.store import Problems
    from demur.judge.audit import audit_tables

    problems = Problems()
    findings, n_lines, _ = audit_tables(args.tables, problems)
    problems.settle(skip_bad=args.skip_bad)
    defects = sum(f.severity == "defect" for f in findings)
    if args.json:
        print_json(
            {
                "lines": n_lines,
                "skipped": problems.skipped,
                "defects": defects,
                "findings": [f._asdict() for f in findings],
            }
        )
        return int(defects > 0)
    for f in sorted(findings, key=lambda f: f.severity != "defect"):
        say(f"{f.severity:<6}  {f.kind:<8}  {f.where}: {f.message}")
    skipped = f", {problems.skipped} skipped" if problems.skipped else ""
    say(f"{n_lines} lines{skipped}: {defects} defects, {len(findings) - defects} notes")
    return int(defects > 0)
