"""`demur run`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, conditions_of, go, named_recipes, scenarios


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    arguments(parser)
    scenarios(parser)


def run(args: argparse.Namespace) -> int:
    """Ask every system in every scenario under every condition."""
    return go(args, named_recipes(args), conditions_of(args))
