"""What a run may take: minutes, and the dollars that a service says its answers cost. The same command goes on.

What models cost is bounded by `demur.models.Budget`, which knows it before a call is sent. A service tells it
afterwards: until the first has told its price one question is in flight, and then as many as fit if none costs more
than the dearest so far. Answers that are there already count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from demur.core.errors import BudgetReached, UsageError
from demur.core.records import Response


class Caps:
    """Caps of one command, over all its systems.

    Args:
        minutes: after which no new question is asked; None for no end.
        dollars: of what answers say they cost; None for no end.
        clock: seconds, ever growing.

    Raises:
        UsageError: minutes are no positive number.
    """

    def __init__(
        self, minutes: float | None = None, dollars: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if minutes is not None and not 0 < minutes < 1e6:
            raise UsageError(f"--minutes {minutes:g}", cure="give minutes, above 0")
        self._minutes, self._dollars, self._clock = minutes, dollars, clock
        self._began: float | None = None
        self._in_flight = 0
        self._most: float | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self.spent = 0.0
        """Dollars that answers said."""

    def count(self, response: Response) -> None:
        """An answer that came, or that was there."""
        self.spent += response.cost or 0.0
        self._most = max(self._most or 0.0, response.cost or 0.0)

    def check(self) -> None:
        """Before a question is asked.

        Raises:
            BudgetReached: a cap is reached.
        """
        now = self._clock()
        began = self._began = now if self._began is None else self._began
        cure = "run the same command again to go on with what was answered"
        if self._minutes is not None and now - began >= 60 * self._minutes:
            raise BudgetReached(f"{self._minutes:g} minutes are over, and questions are left", cure=cure)
        if self._dollars is not None and self._most and self.spent + self._most > self._dollars + 1e-9:
            told = f"answers cost ${self.spent:.4f} of ${self._dollars:g}, as the service says, and questions are left"
            raise BudgetReached(told, cure=f"{cure}, with a larger --budget")

    async def begin(self) -> None:
        """Wait until one more question may be in flight; `end` must follow.

        Raises:
            BudgetReached: a cap is reached.
        """
        self.check()
        while self._dollars is not None and self._in_flight and not self._fits(self._dollars):
            ended = asyncio.get_running_loop().create_future()
            self._waiting.append(ended)
            await ended
            self.check()
        self._in_flight += 1

    def _fits(self, dollars: float) -> bool:
        return self._most is not None and self.spent + (self._in_flight + 1) * self._most <= dollars + 1e-9

    def end(self, response: Response | None) -> None:
        """A question came back, with an answer or with an error that ends the run (None)."""
        self._in_flight -= 1
        if response is not None:
            self.count(response)
        for ended in self._waiting:
            if not ended.done():
                ended.set_result(None)
        self._waiting.clear()
