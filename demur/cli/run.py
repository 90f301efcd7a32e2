"""`demur run`."""

from __future__ import annotations

import argparse

from demur.cli._asking import arguments, go


def configure(parser: argparse.ArgumentParser) -> None:
    arguments(parser)


def run(args: argparse.Namespace) -> int:
    return go(args)
