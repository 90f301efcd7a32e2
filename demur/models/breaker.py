"""A circuit breaker: calls to a server that is down fail at once.

A server that dies in the middle of a run would cost every remaining question all its attempts and waits: minutes, a
thousand times. So only `ENOUGH` questions, which may wait together, use up their attempts. After that the others fail
at once, except for one every `PROBE_S` seconds that tests whether the server is back. Nothing is lost: the same command
asks the remaining questions later.
"""

from __future__ import annotations

from collections.abc import Callable
from time import localtime, monotonic, strftime

from demur.models.wire import Fault

ENOUGH = 3
"""Consecutive questions without any connection after which a server counts as down."""
PROBE_S = 30.0
"""Seconds between two tests whether a server is back."""


class Breaker:
    """Whether to send calls to a server.

    Args:
        name: of the server, for messages.
        clock: seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._name, self._clock = name, clock
        self._heard = clock()
        self._given_up = 0
        self.down_since = ""
        """Local time; "" while it is up."""
        self._next_probe = 0.0

    def heard(self) -> None:
        """The server answered, even if with an error."""
        self._heard = self._clock()
        self._given_up = 0
        self.down_since = ""

    def gave_up(self, started: float) -> None:
        """No attempt of a question got a connection; the first was at ``started`` (of the clock)."""
        if self._heard > started:
            return  # it answered another question since
        self._given_up += 1
        if self._given_up >= ENOUGH:
            self.down_since = self.down_since or strftime("%H:%M", localtime())
            self._next_probe = self._clock() + PROBE_S

    def refusal(self) -> Fault | None:
        """The error to raise instead of a call; None if the call may be sent."""
        if not self.down_since:
            return None
        if (now := self._clock()) >= self._next_probe:
            self._next_probe = now + PROBE_S  # this call is the test
            return None
        return Fault(
            f"not sent: {self._name} has not answered since {self.down_since}",
            kind="connect",
            cure="start the server and run the same command: it sends what is missing",
        )
