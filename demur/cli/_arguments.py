"""Arguments that several verbs take, and the values they hold."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from demur.core.text import whole_number

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.models import Budget

Options = TypeVar("Options")

RAW = argparse.RawDescriptionHelpFormatter
"""Keeps the lines of the examples below the arguments."""


class Several(argparse.Action):
    """Values of an option that takes several; a repeated option adds its own to them."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Add the values, the first time in place of the default."""
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*([] if before is self.default else before), *values])


def _store_action(**settings: Any) -> argparse.Action:
    """The action of an argument that names none."""
    several = settings.get("nargs") in ("+", "*") and settings.get("option_strings")
    return (Several if several else argparse._StoreAction)(**settings)


class Parser(argparse.ArgumentParser):
    """The parser of the command, of a verb, and of what a verb reads by itself."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.register("action", None, _store_action)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse; but what a job does not know is told by the job, whose help page lists what it knows."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print one line that says what to do on standard error; exit 2."""
        self.exit(2, f"{self.prog}: {message} - see '{self.prog} --help'\n")


def job(jobs: Any, name: str, does: str, **settings: Any) -> argparse.ArgumentParser:
    """The parser of one job of a verb; ``does`` is its line in the verb's list and the description on its own page."""
    parser: argparse.ArgumentParser = jobs.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        formatter_class=RAW,
        **settings,
    )
    return parser


def positive(text: str) -> int:
    """A whole number above 0."""
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text[:40]!r}")
    return number


def low_and_high(text: str) -> tuple[int, int]:
    """``LOW:HIGH``, two whole numbers."""
    low, high = map(whole_number, text.partition(":")[::2])
    if low is None or high is None:
        raise argparse.ArgumentTypeError(f"expected LOW:HIGH, as in 0:10, got {text[:40]!r}")
    return low, high


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    from demur.core.strict_json import parsed_json

    try:
        value = parsed_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(
            f"""expected a JSON object such as '{{"top_k": 20}}', got {text[:40]!r}"""
        )
    return value


_SHARED: dict[str, dict[str, Any]] = {
    "runs": {
        "nargs": "+",
        "type": Path,
        "metavar": "RUN",
        "help": "run folders, or folders that hold runs",
    },
    "--release": {
        "type": Path,
        "metavar": "DIR",
        "help": "release of the runs (default: the one beside the first)",
    },
    "--form": {
        "choices": ("terminal", "markdown", "latex", "csv"),
        "default": "terminal",
        "help": "format of the tables (default: %(default)s)",
    },
    "--json": {"action": "store_true", "help": "print JSON"},
    "--skip-bad": {"action": "store_true", "help": "leave out bad records, and count them"},
    "--seed": {
        "type": int,
        "default": 0,
        "help": "seed of every random draw and order (default: %(default)s)",
    },
    "--fresh": {
        "action": "store_true",
        "help": "ask everything again, and pay again; the earlier verdicts move to build/.earlier",
    },
    "--concurrency": {
        "type": positive,
        "metavar": "N",
        "help": "calls at once per endpoint and per function (default: 8; 1 for a plain Python function)",
    },
    "--ledger": {
        "type": Path,
        "metavar": "FILE",
        "help": "where to keep the model's replies (default: judge-calls.sqlite)",
    },
    "--budget": {
        "type": float,
        "metavar": "USD",
        "help": "stop before this is exceeded; run again to continue",
    },
    "--prices": {
        "type": Path,
        "metavar": "FILE",
        "help": "price table that overrides entries of the shipped one",
    },
    "--per-second": {
        "type": float,
        "metavar": "R",
        "help": "with --plan: replies per second, to estimate the time",
    },
    "--trust-code": {
        "action": "store_true",
        "help": "run code, and read files elsewhere, that the folders here name; without it they are refused and listed",
    },
    "--trust-hosts": {
        "action": "store_true",
        "help": "call hosts, and send them environment variables, that the files here name",
    },
    "--engine": {
        "choices": ("local", "ray"),
        "default": "local",
        "help": "this process, or a Ray cluster (default: local)",
    },
    "--ray-address": {
        "metavar": "HOST:PORT",
        "help": "address of the Ray cluster; auto: the one on this machine (default: $RAY_ADDRESS, or a new one)",
    },
}


TRUST = ("--trust-code", "--trust-hosts")
"""Consent to what files name (`demur.core.untrusted`), of every verb that opens what a folder names."""


def add_shared(parser: Any, *names: str, **helps: str) -> None:
    """Add arguments that several verbs take.

    Args:
        parser: a parser or an argument group.
        names: keys of the table above.
        helps: other help texts, by the argument's name in Python.
    """
    for name in names:
        helped = helps.get(name.removeprefix("--").replace("-", "_"))
        parser.add_argument(name, **_SHARED[name] | ({"help": helped} if helped else {}))


def add_money_arguments(
    parser: argparse.ArgumentParser, plan: str = "print calls, kept replies, tokens, cost and time"
) -> None:
    """Arguments of every verb that may call a model: ``--plan`` and what it may cost."""
    group = parser.add_argument_group("money")
    group.add_argument("--plan", action="store_true", help=f"{plan}; call no model")
    add_shared(group, "--per-second", "--budget", "--prices")


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of every verb whose calls may go in batches."""
    group = parser.add_argument_group("batches")
    group.add_argument(
        "--batch",
        action="store_true",
        default=False,
        help="send calls through the server's batch API (OpenAI's: half the price, within a day), a few batches one after "
        "the other; stop at any time, and run again to go on",
    )
    group.add_argument(
        "--batch-file",
        type=Path,
        dest="batch",
        metavar="FILE",
        help="send nothing: write the calls of the next batch there (exit 3), as 'demur calls batch export' does",
    )


def options_of(args: argparse.Namespace, record: Callable[..., Options]) -> Options:
    """The options record of a job, with progress, from the arguments of the same names."""
    names = signature(record).parameters
    stated = {name: value for name, value in vars(args).items() if name in names}
    if "engine" in stated:
        stated["engine"] = open_engine(args)
    return record(**stated, progress=True)


def budget_of(args: argparse.Namespace) -> Budget | None:
    """The budget of ``--budget``; None where it was not given."""
    from demur.models import Budget

    return None if args.budget is None else Budget(args.budget)


def open_engine(args: argparse.Namespace) -> RayEngine | None:
    """The engine of ``--engine``, on which results do not depend; None is this process."""
    from demur.core.errors import UsageError

    if args.engine == "local":
        if args.ray_address:
            raise UsageError("--ray-address without --engine ray", cure="add --engine ray")
        return None
    from demur.indexing.ray import RayEngine

    return RayEngine(args.ray_address)


def values_of_pairs(pairs: list[str], example: str) -> dict[str, str]:
    """KEY=VALUE pairs as a dict.

    Raises:
        UsageError: a pair without ``=``.
    """
    from demur.core.errors import UsageError

    values_of_keys = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(
                f"expected KEY=VALUE, got {pair!r}", cure=f"write for example {example}"
            )
        values_of_keys[key] = value
    return values_of_keys
