"""A budget: stops before the money given is passed, never after.

Before an attempt is sent, the most that it can cost is reserved; when its reply is there, the reservation gives
way to what it did cost. What does not fit waits for the calls in flight to settle, and when nothing is in
flight any more, the run stops.
"""

from __future__ import annotations

import asyncio
from collections import deque

from demur.errors import BudgetReached


class Budget:
    """Money for one command, shared by all its models and stages.

    Args:
        money: US dollars.
    """

    def __init__(self, money: float) -> None:
        self.money = money
        self.spent = 0.0
        """US dollars of the replies that came, and of attempts that the server may have charged for."""
        self._reserved = 0.0
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def reserve(self, most: float) -> None:
        """Set money aside for one attempt.

        Args:
            most: US dollars that it cannot pass.

        Raises:
            BudgetReached: it does not fit, and nothing in flight could make room.
        """
        while self.spent + self._reserved + most > self.money:
            if not self._in_flight:
                raise BudgetReached(
                    f"stopped at ${self.spent:.4f} of ${self.money:.4f}: the next call may cost up to ${most:.4f}",
                    cure="run the same command with a larger budget; replies already paid for are kept",
                )
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        self._reserved += most
        self._in_flight += 1

    def settle(self, reserved: float, cost: float) -> None:
        """The attempt ended: give its reservation back and note what it cost, in US dollars."""
        self._in_flight -= 1
        self._reserved = self._reserved - reserved if self._in_flight else 0.0
        self.spent += cost
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
