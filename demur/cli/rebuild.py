"""`demur rebuild`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import budget_of
from demur.cli.build import common, print_built, print_estimate


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=Path, help="the release folder, with its build folder beside it")
    parser.add_argument(
        "--add-gate", action="append", required=True, metavar="GATE",
        help="a system by name, or '{system: model:openai/gpt-4o, name: gpt-4o, cost: 10, options: {temperature: 0}}'; "
        "may be given several times",
    )  # fmt: skip
    parser.add_argument("--version", help="of the new release (default: the next minor version)")
    common(parser)


def run(args: argparse.Namespace) -> int:
    from demur.core.progress import TerminalProgress
    from demur.curation.build import curate
    from demur.curation.estimate import estimate_build
    from demur.curation.made_by import leave_recipe
    from demur.curation.rebuild import carry_over, enlarge, gate_of

    new = enlarge(args.old, [gate_of(g) for g in args.add_gate], args.version)
    out = args.out or new.work.with_name(f"{new.recipe.name}-{new.recipe.version}")
    if args.plan:  # reckoned from the verdicts that would be carried over; nothing is written
        begun = out if (out / "build" / "carried").exists() else new.work
        skip_bad = args.skip_bad or new.skip_bad
        found = estimate_build(new.recipe, begun, base=new.base, skip_bad=skip_bad, prices=args.prices)
        print_estimate(found, per_second=args.per_second, as_json=args.json)
        return 0
    carry_over(new.work, out)
    leave_recipe(new.recipe, out, base=new.base)
    with TerminalProgress() as steps:
        built = curate(
            new.recipe, out, base=new.base, skip_bad=args.skip_bad or new.skip_bad, steps=steps,
            exhaustive=args.exhaustive, hurry=args.hurry, budget=budget_of(args),
            prices=args.prices, concurrency=args.concurrency, fresh=args.fresh,
        )  # fmt: skip
    print_built(built, out, as_json=args.json)
    return 0
