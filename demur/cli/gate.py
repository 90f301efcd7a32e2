"""`demur gate`: pass or fail a run in CI."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

from demur.cli._arguments import share
from demur.cli._output import print_json, say

LIMITS: tuple[tuple[Literal["max", "min"], str], ...] = (
    ("max", "hallucination"),
    ("min", "accuracy"),
    ("min", "deflection"),
    ("max", "deflection"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  $ demur gate runs/mine --max-hallucination gold-removed=0.15 --min-accuracy full=0.6 --strict\n\n"
        "exit code: 0 pass (or advisory), 1 fail, 2 usage, 4 cannot tell (too few questions or grades), "
        "5 the system is down"
    )
    parser.add_argument("run", type=Path, help="run folder")
    for side, rate in LIMITS:
        parser.add_argument(
            f"--{side}-{rate}",
            nargs="+",
            default=[],
            metavar="SCENARIO=SHARE",
            help=f"{'highest' if side == 'max' else 'lowest'} {rate} allowed of graded answers, as in full=60%% or 0.6",
        )
    parser.add_argument(
        "--baseline", type=Path, metavar="RUN", help="fail when significantly worse than this run"
    )
    share(parser, "--release", release="release of the run (default: the one beside it)")
    parser.add_argument(
        "--max-failed",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of failed answers above which the system counts as down (default: %(default)s)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="decide even if no person has labelled answers of the run ('demur annotate'); else the gate only advises",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write Markdown for a pull request"
    )
    share(parser, "--json")


def run(args: argparse.Namespace) -> int:
    from demur.reports.gate import gate, limits

    asked = [
        limit
        for side, rate in LIMITS
        for limit in limits(getattr(args, f"{side}_{rate}"), side, rate)
    ]
    found = gate(
        args.run,
        asked,
        baseline=args.baseline,
        release=args.release,
        most_failed=args.max_failed,
        strict=args.strict,
    )
    found.write(junit=args.junit, markdown=args.markdown)
    if args.json:
        state = {
            "state": found.state,
            "exit": found.exit_code,
            "advisory": found.advisory,
            "down": found.down,
        }
        print_json(state | {"checks": [c._asdict() for c in found.checks]})
    else:
        say(found.text().removesuffix("\n"))
    return found.exit_code
