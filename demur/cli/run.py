"""`demur run`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, conditions_of, go, named_recipes, scenarios


def configure(parser: argparse.ArgumentParser) -> None:
    arguments(parser)
    scenarios(parser)


def run(args: argparse.Namespace) -> int:
    return go(args, named_recipes(args), conditions_of(args))
