"""`demur run`."""

from __future__ import annotations

import argparse

from demur.cli._asking import add_run_arguments, ask_and_print


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return ask_and_print(args)
