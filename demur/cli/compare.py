"""``demur compare``: is the second run better or worse than the first, and where."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A", help="the run to compare with")
    parser.add_argument("second", type=Path, metavar="B", help="the run that may be better or worse")
    parser.add_argument(
        "--release",
        type=Path,
        metavar="DIR",
        help="the release that was run on (default: the one beside the first run)",
    )
    parser.add_argument("--every", action="store_true", help="pool every shared ask, sweeps and other prompts included")
    parser.add_argument(
        "--items",
        type=int,
        default=10,
        metavar="N",
        help="how many items that changed are shown, each way (default: 10)",
    )
    parser.add_argument(
        "--fail-if-worse",
        action="store_true",
        help="exit 1 when B behaves significantly worse in some scenario, or nothing could be compared (for CI)",
    )
    parser.add_argument(
        "--see", type=float, default=5.0, metavar="POINTS",
        help="tell how many pairs a difference of that many points would take (default: 5)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare two runs; exit code 1 under --fail-if-worse when the second is worse, else 0."""
    from demur.api import compare
    from demur.core.errors import UsageError
    from demur.reports.compare_tables import as_json, print_comparison

    if not 0 < args.see <= 100:
        raise UsageError(f"--see {args.see:g}", cure="give points between 0 and 100")
    items = None if args.json else max(args.items, 0)
    found = compare(args.first, args.second, every=args.every, release=args.release, items=items).found
    if args.json:
        sys.stdout.write(json.dumps(as_json(found, args.see / 100), indent=1, ensure_ascii=False) + "\n")
    else:
        print_comparison(found, items=max(args.items, 0), seen=args.see / 100)
    return 1 if args.fail_if_worse and (found.worse or not found.differences) else 0
