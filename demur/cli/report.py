"""``demur report``: one HTML file from runs, and the tables and figures that go into a paper."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders that hold runs (demo-out)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the HTML file")
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
        "--image-budget", type=float, default=12.0, metavar="MB", help="most that pictures may take in the page"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers and the files written as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 0."""
    from demur.errors import UsageError
    from demur.report.data import load
    from demur.report.groups import stated
    from demur.report.html import page
    from demur.report.paper import write_tables
    from demur.report.terminal import print_data, summarised
    from demur.store import write_atomic

    if args.image_budget < 0:
        raise UsageError(f"--image-budget {args.image_budget:g}", cure="give megabytes, 0 for no pictures")
    if args.out.is_dir():
        raise UsageError("is a folder", item=str(args.out), cure="name the file, such as report.html")
    data = load(args.runs, args.release)
    if bad := [text for text in args.group if not all(text.partition("=")[::2])]:
        raise UsageError(f"--group {bad[0]!r}", cure="write RUN=open, RUN=closed or RUN=TEXT")
    said = {name: text for name, _, text in (pair.rpartition("=") for pair in args.group)}
    data = replace(data, groups=stated(said, data.runs))
    write_atomic(args.out, page(data, image_budget=int(args.image_budget * 1_000_000)))
    written = write_tables(data, args.tables) if args.tables else []
    if args.json:
        value = summarised(data) | {"report": str(args.out), "tables": [str(p) for p in written]}
        sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
        return 0
    print_data(data)
    if written:
        sys.stdout.write(f"{len(written)} tables and figures in {args.tables}\n")
    sys.stdout.write(f"{args.out}\n")
    return 0
