"""`demur report`: one HTML file from runs, and tables and figures for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, say, show_data
from demur.core.errors import UsageError


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
    parser.add_argument(
        "--every-eval-ever",
        type=Path,
        metavar="DIR",
        help="also write the results there in the schema of Every Eval Ever, with every answer",
    )
    parser.add_argument(
        "--hub-results",
        type=Path,
        metavar="DIR",
        help="also write .eval_results files there, for the models' repositories on the Hugging Face hub",
    )
    parser.add_argument(
        "--dataset",
        default="",
        metavar="OWNER/NAME",
        help="the benchmark's dataset on the hub, which these results name",
    )
    add_shared(parser, "--json", json="print the numbers and the written files as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the report; exit code 0."""
    from demur.api import report, write_every_eval_ever, write_hub_results

    if bad := [text for text in args.group if not all(text.partition("=")[::2])]:
        raise UsageError(f"--group {bad[0]!r}", cure="write RUN=TEXT, such as RUN=open")
    written = report(
        args.runs,
        args.out,
        release=args.release,
        tables=args.tables,
        groups={name: text for name, _, text in (pair.rpartition("=") for pair in args.group)},
        verdicts=args.verdicts,
        image_budget=args.image_budget,
    )
    published: list[Path] = []
    if args.every_eval_ever:
        published += write_every_eval_ever(written.data, args.every_eval_ever, args.dataset)
    if args.hub_results:
        published += write_hub_results(written.data, args.hub_results, args.dataset)
    if args.json:
        print_json(written.as_json() | {"published": list(map(str, published))}, 1)
        return 0
    show_data(written.data)
    if written.tables:
        say(f"{len(written.tables)} tables and figures in {args.tables}")
    say(*published, args.out)
    return 0
