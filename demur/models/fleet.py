"""Where a call goes: several endpoints of one model, each with its own limit, pause and health.

One endpoint is a fleet of one. The limit on calls in flight starts low and doubles per round trip (slow
start), is halved when the server says 429 or lets a call time out, and then grows by one per round trip: additive
increase, multiplicative decrease. The next call goes to the endpoint with the smallest load; an endpoint that does not
answer is left alone for a while that doubles, and the run goes on with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from demur.core.errors import CallError, PermanentError
from demur.core.records import Request
from demur.models.breaker import Breaker
from demur.models.wire import Fault

log = logging.getLogger("demur.models")


class Backend(Protocol):
    """What answers: an HTTP endpoint, a model in this process, a function."""

    name: str
    """Where it answers, without credentials; recorded as ``served_by``."""

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt: the raw reply in chat-completion form. Raises `CallError`."""
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


_START = 8
"""Calls in flight at first. Servers that cannot take eight at once answer 429, or let them queue until they time out
(a local server with one slot); either way the limit halves."""
_DOWN_AFTER = 3
"""Connection failures in a row after which an endpoint is left alone for a while."""
_DOWN_MOST_S = 30.0


class EndpointSlot:
    """One endpoint with its limit, in calls, and its health."""

    def __init__(self, backend: Backend, most: int) -> None:
        self.backend = backend
        self.most = most
        self.limit = float(min(most, _START))
        self.threshold = float(most)
        self.in_flight = 0
        self.paused_until = 0.0
        self.cut_at = -1.0
        self.failures = 0
        self.closed: PermanentError | None = None

    def free(self, now: float) -> bool:
        """Whether a call may go out now."""
        return self.closed is None and self.in_flight < int(self.limit) and self.paused_until <= now

    def worked(self) -> None:
        """A reply came: grow the limit."""
        self.failures = 0
        if self.limit < self.most:
            step = 1.0 if self.limit < self.threshold else 1.0 / self.limit
            self.limit = min(self.limit + step, float(self.most))

    def failed(self, error: CallError, started: float, now: float) -> None:
        """An attempt failed: shrink on 429 and time-outs, pause as told, leave alone what does not answer."""
        if not isinstance(error, Fault):
            return
        if error.kind in ("429", "timeout") or (error.kind == "503" and error.retry_after is not None):
            if started >= self.cut_at:  # one cut per round trip: the other calls in flight meet the same wall
                self.limit = max(self.limit / 2, 1.0)
                self.threshold = self.limit
                self.cut_at = now
            if error.retry_after:
                self.paused_until = max(self.paused_until, now + error.retry_after)
        elif error.kind == "connect":
            self.failures += 1
            if self.failures >= _DOWN_AFTER:
                rest = min(2.0 ** (self.failures - _DOWN_AFTER), _DOWN_MOST_S)
                if self.paused_until <= now:
                    log.warning("%s does not answer; left alone for %.0f s", self.backend.name, rest)
                self.paused_until = max(self.paused_until, now + rest)


class Fleet:
    """The endpoints of one model.

    Args:
        backends: at least one.
        concurrency: most calls in flight at each.
    """

    def __init__(self, backends: Sequence[Backend], concurrency: int) -> None:
        self.slots = [EndpointSlot(backend, concurrency) for backend in backends]
        self.breaker = Breaker(", ".join(sorted({backend.name for backend in backends})))
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """A heap: whoever came first is woken first, and who was woken in vain waits at the same place."""
        self._places = count()
        self._woken = 0
        """Who was woken and has not looked yet."""

    @property
    def concurrency(self) -> int:
        """Most calls in flight over all endpoints."""
        return sum(slot.most for slot in self.slots)

    async def take(self, avoid: EndpointSlot | None = None) -> EndpointSlot:
        """Wait for a free endpoint and count a call on it; the least loaded of those free. First come, first served.

        Args:
            avoid: the endpoint that just failed; taken only when no other is free.
        """
        loop = asyncio.get_running_loop()
        place = -1
        while True:
            now = loop.time()
            free = [slot for slot in self.slots if slot.free(now)]
            if free and (place >= 0 or not (self._waiting or self._woken)):
                slot = (
                    free[0]
                    if len(free) == 1
                    else min(free, key=lambda slot: (slot is avoid, slot.in_flight / slot.most, slot.failures))
                )
                slot.in_flight += 1
                return slot
            waiter: asyncio.Future[None] = loop.create_future()
            came, place = place < 0, next(self._places) if place < 0 else place
            heappush(self._waiting, (place, waiter))
            if came and free:  # not past those who wait
                self._wake()
            pauses = [slot.paused_until for slot in self.slots if not slot.closed and slot.paused_until > now]
            timer = loop.call_at(min(pauses), self._wake) if pauses else None
            try:
                await waiter
                self._woken -= 1
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._woken -= 1
                    self._wake()  # we were woken and leave without taking: pass it on
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                if not waiter.done():
                    waiter.cancel()

    def give_back(self, slot: EndpointSlot) -> None:
        """The call on that endpoint ended, one way or another."""
        slot.in_flight -= 1
        self._wake()

    def close_slot(self, slot: EndpointSlot, error: PermanentError) -> bool:
        """An endpoint refused for good (its key, its model). Returns whether another one is left.

        The last one stays: what it refused may be this request's doing, and the next is for it to answer.
        """
        if not any(other.closed is None for other in self.slots if other is not slot):
            return False
        if slot.closed is None:
            log.warning("%s left the fleet: %s", slot.backend.name, error)
            slot.closed = error
        for _ in range(len(self._waiting)):
            self._wake()
        return True

    def _wake(self) -> None:
        now = asyncio.get_running_loop().time()
        room = sum(int(slot.limit) - slot.in_flight for slot in self.slots if slot.free(now)) - self._woken
        if not self._woken:
            room = max(room, 1)  # a timer may fire a tick early, and whoever is woken looks again
        while self._waiting and room > 0:
            _, waiter = heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)
                self._woken += 1
                room -= 1

    async def close(self) -> None:
        """Close every endpoint."""
        for slot in self.slots:
            await slot.backend.close()
