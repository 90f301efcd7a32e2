"""`demur score`: the sources' own metrics over runs, beside the judge's verdicts."""

from __future__ import annotations

import argparse

from demur.cli._arguments import add_shared
from demur.cli._output import print_json, print_tables


def configure(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "runs", "--release")
    parser.add_argument(
        "--metric",
        default="",
        help="infoseek, evqa, webqa, mmdocrag, mragbench, viquae-em, viquae-f1 (default: each source's own)",
    )
    add_shared(parser, "--form", "--json", json="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table; exit code 0."""
    from demur.api import load, score_records, scores_of

    table = scores_of(load(args.runs, args.release), args.metric)
    if args.json:
        print_json(score_records(table), 1)
    else:
        print_tables([table], args.form)
    return 0
