"""`demur run`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, go


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    arguments(parser)
    parser.add_argument(
        "--scenarios", nargs="+", default=["all"], metavar="RECIPE",
        help="all, or recipes: parametric, oracle, 'realistic(k=3,pick=random)', 'adversarial(k=5,order=gold-last)' "
        "(default: the four with --k distractors)",
    )  # fmt: skip
    parser.add_argument(
        "--k", type=int, default=2, metavar="N", help="distractors where a recipe does not say (default: %(default)s)"
    )
    parser.add_argument(
        "--strictness", nargs="+", default=["moderate"], metavar="CONDITION",
        help="none, soft, moderate, severe; add +strict, +confidence or +reasoning (default: moderate)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Ask every system in every scenario under every condition."""
    from demur.scenarios.conditions import condition
    from demur.scenarios.contexts import recipe, standard

    recipes = standard(args.k) if args.scenarios == ["all"] else [recipe(text, k=args.k) for text in args.scenarios]
    return go(args, recipes, [condition(text) for text in args.strictness])
