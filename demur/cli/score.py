"""``demur score``: the sources' own metrics over runs, beside the judge's verdicts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs")
    parser.add_argument(
        "--release", type=Path, metavar="DIR", help="the release (default: the one beside the first run)"
    )
    parser.add_argument(
        "--metric",
        default="",
        help="infoseek, evqa, webqa, mmdocrag, mragbench, viquae-em, viquae-f1 (default: each source's)",
    )
    parser.add_argument(
        "--form", choices=("terminal", "markdown", "latex", "csv"), default="terminal", help="of the table"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table; exit code 0."""
    from demur.reports.data import load
    from demur.reports.official import labels_table, official_table
    from demur.reports.tables import Count

    data = load(args.runs, args.release)
    table = labels_table(data) if not args.metric else official_table(data, args.metric)
    table = table if table.rows else official_table(data, args.metric)
    if args.json:
        names = [c.title.lower() for c in table.columns]
        found = [dict(zip(names, row, strict=True)) for row in table.rows]
        for row in found:
            if isinstance(n := row["n"], Count):
                row |= {"n": n.items, "repeats": n.repeats}
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        sys.stdout.write(table.render(args.form))
    return 0
