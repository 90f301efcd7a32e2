"""`demur demo`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes (default: %(default)s)")
    parser.add_argument("--per-topic", type=int, metavar="N", help="questions drawn of each topic (fewer: faster)")
    parser.add_argument("--fresh", action="store_true", help="delete what an earlier demo left in the folder")
    parser.add_argument("--no-model", action="store_true", help="leave the small language model out")
    parser.add_argument("--plan", action="store_true", help="print the calls to the small language model; make none")
    parser.add_argument("--per-second", type=float, metavar="R", help="with --plan: replies a second, for the time")
    parser.add_argument("--json", action="store_true", help="print what summary.json holds")


def run(args: argparse.Namespace) -> int:
    """Curate, evaluate, report; the last line is the report's path."""
    from demur.core.progress import TerminalProgress
    from demur.demo import demo_report, plan_demo
    from demur.reports.terminal import print_data

    if args.plan:
        found = plan_demo(
            args.out, seed=args.seed, per_topic=args.per_topic, model=not args.no_model, per_second=args.per_second
        )
        sys.stdout.write((found.model_dump_json() if args.json else found.text()) + "\n")
        return 0
    with TerminalProgress() as steps:
        data, summary = demo_report(
            args.out, seed=args.seed, per_topic=args.per_topic, fresh=args.fresh, model=not args.no_model, steps=steps
        )
    if args.json:
        sys.stdout.write(json.dumps(summary, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        print_data(data, times=steps.times)
    for line in summary["left_out"]:
        sys.stderr.write(f"\nLEFT OUT: {line}\n")
    if not args.json:
        sys.stdout.write(f"{args.out / 'report.html'}\n")
    return 0
