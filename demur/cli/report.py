"""``demur report``: one HTML file from runs, and the tables and figures that go into a paper."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs (demo-out)"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the HTML file (default: %(default)s)",
    )
    parser.add_argument(
        "--release",
        type=Path,
        metavar="DIR",
        help="the release that was run on (default: the one beside the first run)",
    )
    parser.add_argument(
        "--tables", type=Path, metavar="DIR", help="also write tables (.txt .md .tex .csv) and figures (.svg) there"
    )
    parser.add_argument(
        "--group", action="append", default=[], metavar="RUN=TEXT",
        help="the section of Table 4 that a run belongs in (open, closed, or words of your own; default: by its name)",
    )  # fmt: skip
    parser.add_argument(
        "--verdicts", default="", metavar="NAME",
        help="of which judge, as 'demur judge run' filed them (default: the runs' own)",
    )  # fmt: skip
    parser.add_argument(
        "--image-budget",
        type=float,
        default=12.0,
        metavar="MB",
        help="most that pictures may take in the page (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers and the files written as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 0."""
    from demur.core.errors import UsageError
    from demur.reports.data import load
    from demur.reports.html import write_report
    from demur.reports.terminal import print_data, summarised

    if bad := [text for text in args.group if not all(text.partition("=")[::2])]:
        raise UsageError(f"--group {bad[0]!r}", cure="write RUN=open, RUN=closed or RUN=TEXT")
    groups = {name: text for name, _, text in (pair.rpartition("=") for pair in args.group)}
    data = load(args.runs, args.release, verdicts=args.verdicts)
    budget = int(args.image_budget * 1_000_000)
    written = write_report(data, args.out, image_budget=budget, groups=groups, tables=args.tables)
    if args.json:
        value = summarised(data) | {"report": str(args.out), "tables": [str(p) for p in written]}
        sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
        return 0
    print_data(data)
    if written:
        sys.stdout.write(f"{len(written)} tables and figures in {args.tables}\n")
    sys.stdout.write(f"{args.out}\n")
    return 0
