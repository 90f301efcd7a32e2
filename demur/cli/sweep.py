"""`demur sweep`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, conditions_of, go, named_recipes, scenarios, sweeps, swept_recipes


def configure(parser: argparse.ArgumentParser) -> None:
    arguments(parser)
    scenarios(parser)
    sweeps(parser)


def run(args: argparse.Namespace) -> int:
    recipes = list(dict.fromkeys((*named_recipes(args), *swept_recipes(args))))
    return go(args, recipes, conditions_of(args), sweeps=True)
