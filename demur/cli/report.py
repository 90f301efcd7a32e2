"""`demur report`: one HTML file from runs, and tables and figures for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "runs", runs="run folders, or folders that hold runs (demo-out)")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="HTML file (default: %(default)s)",
    )
    add_shared(parser, "--release")
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="also write tables (.txt .md .tex .csv) and figures (.svg) there",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="RUN=TEXT",
        help="section of Table 4 for a run, such as open or closed weights (default: no sections)",
    )
    parser.add_argument(
        "--verdicts",
        default="",
        metavar="NAME",
        help="use the verdicts that 'demur judge run' filed under this name (default: the runs' own)",
    )
    parser.add_argument(
        "--image-budget",
        type=float,
        default=12.0,
        metavar="MB",
        help="maximum size of all images in the page (default: %(default)s)",
    )
    add_shared(parser, "--json", json="print the numbers and the written files as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 0."""
    from demur.core.errors import UsageError
    from demur.reports.data import load
    from demur.reports.html import write_report
    from demur.reports.terminal import print_data, summarised

    if not 0 <= args.image_budget < 1e6:
        raise UsageError(
            f"image budget {args.image_budget:g} MB",
            cure="write --image-budget 12, or 0 for no pictures",
        )
    if bad := [text for text in args.group if not all(text.partition("=")[::2])]:
        raise UsageError(f"--group {bad[0]!r}", cure="write RUN=TEXT, such as RUN=open")
    groups = {name: text for name, _, text in (pair.rpartition("=") for pair in args.group)}
    data = load(args.runs, args.release, verdicts=args.verdicts)
    budget = round(args.image_budget * 1_000_000)
    written = write_report(data, args.out, image_budget=budget, groups=groups, tables=args.tables)
    if args.json:
        print_json(
            summarised(data) | {"report": str(args.out), "tables": [str(p) for p in written]}, 1
        )
        return 0
    print_data(data)
    if written:
        say(f"{len(written)} tables and figures in {args.tables}")
    say(args.out)
    return 0
