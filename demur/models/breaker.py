"""When a server that is gone is no longer tried for every question anew.

A server that dies in the middle of a run would cost each question that is left its whole patience: minutes of attempts
and waits, a thousand times. So the patience of `ENOUGH` questions is spent on it, which may wait together; from then on
the others fail at once, but for one in `PROBE_S` that looks whether it is back. Nothing is lost by it: what was not
asked is asked by the same command again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import localtime, monotonic, strftime

from demur.models.wire import Fault

ENOUGH = 3
"""Questions in a row whose every try found nobody."""
PROBE_S = 30.0
"""Seconds between looks whether a server that is gone is back."""


class Breaker:
    """Whether a server is to be tried at all.

    Args:
        name: the server, as it may be shown.
        clock: seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._name, self._clock = name, clock
        self._heard = clock()
        self._given_up = 0
        self._gone = ""
        """Since when, as told; "" while it is not known to be gone."""
        self._next = 0.0

    @property
    def gone(self) -> bool:
        """Whether nobody was there the last times."""
        return bool(self._gone)

    def heard(self) -> None:
        """It said something, be it an error."""
        self._heard = self._clock()
        self._given_up = 0
        self._gone = ""

    def gave_up(self, started: float) -> None:
        """A question that it was first asked at ``started`` (of the clock) could not be put to it in all its tries."""
        if self._heard > started:
            return  # it was there meanwhile
        self._given_up += 1
        if self._given_up >= ENOUGH:
            self._gone = self._gone or strftime("%H:%M", localtime())
            self._next = self._clock() + PROBE_S

    def refusal(self) -> Fault | None:
        """Why a question is not to be asked; None where it is."""
        if not self._gone:
            return None
        if (now := self._clock()) >= self._next:
            self._next = now + PROBE_S  # this one looks
            return None
        return Fault(
            f"not asked: {self._name} answers no more since {self._gone}",
            kind="connect",
            cure="start it again, and run the same command: what was not asked is asked then",
        )
