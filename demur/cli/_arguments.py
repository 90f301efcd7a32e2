"""Arguments that several verbs take, and the values they hold."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from demur.core.text import whole_number

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.models import Budget


class Parser(argparse.ArgumentParser):
    """The parser of the command, of a verb, and of what a verb reads by itself."""

    def error(self, message: str) -> NoReturn:
        """One line that says what to do, on standard error, exit 2."""
        self.exit(2, f"{self.prog}: {message} - see '{self.prog} --help'\n")


def job(jobs: Any, name: str, does: str, **rest: Any) -> argparse.ArgumentParser:
    """The parser of one job of a verb: ``does`` stands in the verb's list and, as a sentence, on the job's own page."""
    made: argparse.ArgumentParser = jobs.add_parser(
        name, help=does, description=does[0].upper() + does[1:] + ".", **rest
    )
    return made


def money(parser: argparse.ArgumentParser, plan: str = "print calls, kept replies, tokens, money, time") -> None:
    """What every verb takes that may call a model: ``--plan`` and what it may cost."""
    group = parser.add_argument_group("money")
    group.add_argument("--plan", action="store_true", help=f"{plan}; call no model")
    group.add_argument("--per-second", type=float, metavar="R", help="with --plan: replies a second, for the time")
    group.add_argument("--budget", type=float, metavar="USD", help="stop before this is passed; run again to go on")
    group.add_argument("--prices", type=Path, metavar="FILE", help="price table that overlays the shipped one")


def budget_of(args: argparse.Namespace) -> Budget | None:
    """What ``--budget`` allows; None where it was not given."""
    from demur.models import Budget

    return None if args.budget is None else Budget(args.budget)


def in_flight(parser: argparse.ArgumentParser) -> None:
    """``--concurrency``."""
    parser.add_argument(
        "--concurrency", type=positive, metavar="N",
        help="calls at once, of each endpoint and each function (default: 8; of a plain Python function 1)",
    )  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where to work; the files and hits that come out do not depend on it."""
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="this process, or a Ray cluster (default: local)"
    )
    parser.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        help="address of the Ray cluster; auto: the one on this machine (default: $RAY_ADDRESS, or a new one)",
    )


def open_engine(args: argparse.Namespace) -> RayEngine | None:
    """The engine that was asked for; None is this process."""
    from demur.core.errors import UsageError

    if args.engine == "local":
        if args.ray_address:
            raise UsageError("--ray-address without --engine ray", cure="add --engine ray")
        return None
    from demur.indexing.ray import RayEngine

    return RayEngine(args.ray_address)


def positive(text: str) -> int:
    """A whole number above 0."""
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text[:40]!r}")
    return number


def settings(pairs: list[str]) -> dict[str, str]:
    """KEY=VALUE pairs as a dict.

    Raises:
        UsageError: a pair without ``=``.
    """
    from demur.core.errors import UsageError

    found = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark or not key:
            raise UsageError(f"expected KEY=VALUE, got {pair!r}", cure="write for example --set split=val")
        found[key] = value
    return found
