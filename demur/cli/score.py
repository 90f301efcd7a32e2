"""`demur score`: the sources' own metrics over runs, beside the judge's verdicts."""

from __future__ import annotations

import argparse

from demur.cli._arguments import add_shared
from demur.cli._output import print_tabulated


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
    from demur.api import load, scores_of

    print_tabulated(scores_of(load(args.runs, args.release), args.metric), args)
    return 0
