"""`demur sweep`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, go
from demur.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    arguments(parser)
    parser.add_argument(
        "--distractors",
        metavar="LOW:HIGH",
        help="Realistic with LOW to HIGH distractors (0:10 is Figure 3 of VLM-DeflectionBench)",
    )
    parser.add_argument(
        "--strictness", nargs="+", default=["moderate"], metavar="CONDITION",
        help="all, or conditions as in 'demur run': everything is asked under each (all: its Tables 6 and 9; default: "
        "moderate)",
    )  # fmt: skip
    parser.add_argument("--modality", choices=("grid",), help="gold x distractor modality, Realistic (its Table 5)")
    parser.add_argument("--positions", metavar="LOW:HIGH", help="gold at each of these positions among the distractors")
    parser.add_argument("--k", type=int, default=2, metavar="N", help="distractors elsewhere (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """One resumable plan of everything asked for, with shared answers."""
    from demur.scenarios.conditions import STRICTNESS, condition
    from demur.scenarios.contexts import Recipe, grid, recipe, standard, sweep

    recipes: list[Recipe] = list(standard(args.k))
    if args.distractors:
        recipes += sweep(*_span(args.distractors, "--distractors"))
    if args.modality:
        recipes += grid(args.k)
    if args.positions:
        low, high = _span(args.positions, "--positions")
        recipes += [recipe(f"realistic(k={max(high, args.k)},order=gold@{at})") for at in range(low, high + 1)]
    levels = list(STRICTNESS) if args.strictness == ["all"] else args.strictness
    return go(args, list(dict.fromkeys(recipes)), [condition(text) for text in levels], sweeps=True)


def _span(text: str, option: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    if not colon or not low.isdigit() or not high.isdigit():
        raise UsageError(f"{option} {text!r}", cure="write LOW:HIGH, as in 0:10")
    return int(low), int(high)
