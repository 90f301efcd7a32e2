"""`demur compare`: test whether the second run is better or worse than the first, and where."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared
from demur.cli._output import print_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A", help="run to compare with")
    parser.add_argument("second", type=Path, metavar="B", help="run that may be better or worse")
    add_shared(parser, "--release")
    parser.add_argument(
        "--every",
        action="store_true",
        help="compare every shared question, including sweeps and other prompts",
    )
    parser.add_argument(
        "--items",
        type=int,
        default=10,
        metavar="N",
        help="changed items to list, each way (default: %(default)s)",
    )
    parser.add_argument(
        "--fail-if-worse",
        action="store_true",
        help="exit 1 when B is significantly worse in some scenario, or nothing could be compared (for CI)",
    )
    parser.add_argument(
        "--see",
        type=float,
        default=5.0,
        metavar="POINTS",
        help="say how many pairs it takes to detect a difference of this many points (default: 5)",
    )
    add_shared(parser, "--json", json="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare two runs; exit code 1 under --fail-if-worse when the second is worse, else 0."""
    from demur.api import compare
    from demur.core.errors import UsageError

    if not 0 < args.see <= 100:
        raise UsageError(f"--see {args.see:g}", cure="give points between 0 and 100")
    items = None if args.json else max(args.items, 0)
    comparison = compare(
        args.first, args.second, every=args.every, release=args.release, items=items
    )
    if args.json:
        print_json(comparison.as_json(args.see), 1)
    else:
        comparison.print(items=max(args.items, 0), points=args.see)
    nothing_compared = not comparison.result.differences
    return 1 if args.fail_if_worse and (comparison.worse or nothing_compared) else 0
