"""`demur gate`: pass or fail a run in CI."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demur.cli._shown import harmless


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  $ demur gate runs/mine --max-hallucination gold-removed=0.15 --min-accuracy full=0.6 --strict\n\n"
        "exit code: 0 pass (or advisory), 1 fail, 2 usage, 4 cannot tell with so few questions or grades, "
        "5 the system is down"
    )
    parser.add_argument("run", type=Path, help="run folder")
    for side, rate in (("max", "hallucination"), ("min", "accuracy"), ("min", "deflection"), ("max", "deflection")):
        parser.add_argument(
            f"--{side}-{rate}", nargs="+", default=[], metavar="SCENARIO=SHARE",
            help=f"{'highest' if side == 'max' else 'lowest'} {rate} allowed, of what was graded, as in full=0.6",
        )  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="RUN", help="fail when significantly worse than this run")
    parser.add_argument(
        "--release", type=Path, metavar="DIR", help="what they were asked from (default: beside the run)"
    )
    parser.add_argument(
        "--max-failed", type=float, default=0.1, metavar="SHARE",
        help="more failed answers than this and the system is down (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true",
        help="decide although nobody has labelled answers of the run ('demur annotate'); else the gate only advises",
    )  # fmt: skip
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write Markdown for a pull request")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    from demur.reports.gate import gate, limits

    asked = [
        limit
        for side, rate in (("max", "hallucination"), ("min", "accuracy"), ("min", "deflection"), ("max", "deflection"))
        for limit in limits(getattr(args, f"{side}_{rate}"), side, rate)  # type: ignore[arg-type]  # max or min
    ]
    found = gate(
        args.run, asked, baseline=args.baseline, release=args.release, most_failed=args.max_failed, strict=args.strict
    )
    found.write(junit=args.junit, markdown=args.markdown)
    if args.json:
        checks = [c._asdict() for c in found.checks]
        told = {"state": found.state, "exit": found.exit_code, "advisory": found.advisory, "down": found.down}
        sys.stdout.write(json.dumps(told | {"checks": checks}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(harmless(found.text()))
    return found.exit_code
