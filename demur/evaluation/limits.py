"""Caps of a run: minutes, and the dollars that a service reports for its answers.

`demur.models.Budget` bounds what models cost, which it knows before a call. A service reports its cost afterwards: one
question is in flight until the first report, then as many as fit if none costs more than the dearest so far. Stored
answers count too.
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
        minutes: until the last new question; None for no limit.
        dollars: of reported cost; None for no limit.
        clock: monotonic, in seconds.

    Raises:
        UsageError: minutes are not positive.
    """

    def __init__(
        self,
        minutes: float | None = None,
        dollars: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if minutes is not None and not 0 < minutes < 1e6:
            raise UsageError(f"--minutes {minutes:g}", cure="give minutes, above 0")
        self._minutes, self._dollars, self._clock = minutes, dollars, clock
        self._began: float | None = None
        self._in_flight = 0
        self._most: float | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self.spent = 0.0
        """Dollars that answers reported."""

    def count(self, response: Response) -> None:
        """Count an answer, new or stored."""
        self.spent += response.cost or 0.0
        self._most = max(self._most or 0.0, response.cost or 0.0)

    def check(self) -> None:
        """Check the caps before a question.

        Raises:
            BudgetReached: a cap is reached.
        """
        now = self._clock()
        began = self._began = now if self._began is None else self._began
        cure = "run the same command again to go on"
        if self._minutes is not None and now - began >= 60 * self._minutes:
            raise BudgetReached(
                f"{self._minutes:g} minutes are over, and questions are left", cure=cure
            )
        if (
            self._dollars is not None
            and self._most
            and self.spent + self._most > self._dollars + 1e-9
        ):
            spent = f"the service reports ${self.spent:.4f} of ${self._dollars:g} spent, and questions are left"
            raise BudgetReached(spent, cure=f"{cure}, with a larger --budget")

    async def begin(self) -> None:
        """Wait until another question may be in flight; `end` must follow.

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
        return (
            self._most is not None
            and self.spent + (self._in_flight + 1) * self._most <= dollars + 1e-9
        )

    def end(self, response: Response | None) -> None:
        """End a question: with its answer, or None after an error that ends the run."""
        self._in_flight -= 1
        if response is not None:
            self.count(response)
        for ended in self._waiting:
            if not ended.done():
                ended.set_result(None)
        self._waiting.clear()
