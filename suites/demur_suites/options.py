"""Options of suites: flags of ``demur suite``, keywords in Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.core.errors import UsageError, did_you_mean


class Option(NamedTuple):
    """One option of a suite: a flag of ``demur suite``, a keyword of `Suite.scores`, `Suite.build` or `Suite.export`.

    Attributes:
        name: of the keyword; the flag has dashes for underscores.
        help: one line.
        default: its type is the option's type (str, int, float; False: a flag).
        choices: allowed values; any when empty.
        least: lower bound of a number.
        most: upper bound of a number.
        grades: of an option of the score: it decides verdicts, so that a run under another value is graded again.
    """

    name: str
    help: str
    default: str | int | float
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    grades: bool = False

    def check(self, value: Any) -> None:
        """Raise UsageError for a value that the option does not take."""
        if self.choices and value not in self.choices:
            raise UsageError(
                f"{self.name}={value!r}", cure=f"give one of {', '.join(self.choices)}"
            )
        if isinstance(self.default, str):
            return
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise UsageError(f"{self.name} is {value!r}", cure="give True or False")
            return
        types, kind = (
            (int, "a whole number") if isinstance(self.default, int) else ((int, float), "a number")
        )
        typed = isinstance(value, types) and not isinstance(value, bool)
        if not (typed and self.least <= value <= self.most):  # NaN lies between no bounds
            lower = f" from {self.least:g}" if math.isfinite(self.least) else ""
            upper = f" to {self.most:g}" if math.isfinite(self.most) else ""
            raise UsageError(f"{self.name} is {value}", cure=f"give {kind}{lower}{upper}")


LEDGER = Option(
    "ledger",
    "file that keeps the judge's replies, each paid for once; by default calls.sqlite of the runs, where there are any",
    "judge-calls.sqlite",
)
"""Of a suite whose score asks a judge."""


def filled(
    suite: str, options: tuple[Option, ...], values: Mapping[str, Any], also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A value for each option: the one in ``values``, else its default.

    Args:
        suite: its name, for the error.
        options: those that there are.
        values: by name.
        also: further names that whoever was called would have taken, for the error.

    Raises:
        UsageError: there is no such option, or it does not take the value.
    """
    known = {option.name: option for option in options}
    for name, value in values.items():
        if name not in known:
            names = (*known, *also)
            cure = f"{did_you_mean(name, names)} it has {', '.join(names) or 'none'}".strip()
            raise UsageError(f"{suite} has no option {name!r}", cure=cure)
        known[name].check(value)
    return {name: values.get(name, option.default) for name, option in known.items()}
