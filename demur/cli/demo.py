"""`demur demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import add_shared, positive
from demur.cli._output import note, print_json, say, show_data, show_plan


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-out"),
        help="folder to write to (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="the same seed gives the same bytes (default: %(default)s)",
    )
    parser.add_argument(
        "--per-topic", type=positive, metavar="N", help="questions per topic (fewer: faster)"
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="first delete the files of an earlier demo in the folder",
    )
    parser.add_argument(
        "--no-model", action="store_true", help="leave out the small language model"
    )
    parser.add_argument(
        "--plan", action="store_true", help="print the calls to the small language model; make none"
    )
    add_shared(parser, "--per-second", "--json", json="print the contents of summary.json")


def run(args: argparse.Namespace) -> int:
    """Curate, evaluate, report; the last line is the report's path."""
    from demur.core.progress import TerminalProgress
    from demur.demo import demo, plan_demo

    if args.plan:
        plan = plan_demo(
            args.out,
            seed=args.seed,
            per_topic=args.per_topic,
            model=not args.no_model,
            per_second=args.per_second,
        )
        if args.json:
            say(plan.model_dump_json())
        else:
            show_plan(plan)
        return 0
    with TerminalProgress() as steps:
        data, summary = demo(
            args.out,
            seed=args.seed,
            per_topic=args.per_topic,
            fresh=args.fresh,
            model=not args.no_model,
            steps=steps,
        )
    if args.json:
        print_json(summary, 1)
    else:
        show_data(data, steps.times)
    note(*(f"\nLEFT OUT: {line}" for line in summary["left_out"]))
    if not args.json:
        say(args.out / "report.html")
    return 0
