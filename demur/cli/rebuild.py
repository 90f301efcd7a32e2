"""`demur rebuild`."""

from __future__ import annotations

import argparse
from pathlib import Path

from demur.cli._arguments import options_of
from demur.cli.build import add_common_arguments, print_built, print_plan


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=Path, help="release folder, with its build folder beside it")
    parser.add_argument(
        "--add-gate",
        action="append",
        required=True,
        metavar="GATE",
        help="gating model to add: a system by name, or '{system: model:openai/gpt-4o, name: gpt-4o, cost: 10, "
        "options: {temperature: 0}}'; "
        "may be given several times",
    )
    parser.add_argument(
        "--version", help="version of the new release (default: the next minor version)"
    )
    add_common_arguments(parser, "NAME-VERSION of the new release, beside the old one")


def run(args: argparse.Namespace) -> int:
    from demur.api import BuildOptions, enlarge, estimate_rebuild, rebuild

    new = enlarge(args.old, args.add_gate, args.out, version=args.version, skip_bad=args.skip_bad)
    if args.plan:
        print_plan(estimate_rebuild(new, args.prices, batch=bool(args.batch)), args)
        return 0
    return print_built(rebuild(new, options_of(args, BuildOptions)), as_json=args.json)
