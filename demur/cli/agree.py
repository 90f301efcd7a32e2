"""`demur agree`: agreement of labellers and judges."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_tables_or_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="labelling folders, run folders, .jsonl or .csv files of item, label, annotator; files of verdicts",
    )
    add_shared(
        parser, "--seed", "--form", "--json", seed="seed of the resampling (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    from demur.api import agreement_of

    print_tables_or_json(agreement_of(args.files, seed=args.seed), args)
    return 0
