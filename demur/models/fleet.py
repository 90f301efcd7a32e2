"""Which endpoint takes a call: several endpoints of one model, each with a limit, pauses and a health check.

One endpoint is a fleet of one. The limit on calls in flight starts low and doubles per round trip (slow start), is
halved when the server answers 429 or lets a call time out, and then grows by one per round trip (additive increase,
multiplicative decrease). The next call goes to the endpoint with the smallest load. An endpoint that does not answer is
skipped for a while that doubles each time; the run goes on with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from demur.core.errors import CallError, PermanentError
from demur.core.records import Request
from demur.models.breaker import Breaker
from demur.models.wire import Fault

log = logging.getLogger("demur.models")


class Backend(Protocol):
    """An HTTP endpoint, a model in this process, or a function."""

    name: str
    """Its address without credentials; recorded as ``served_by``."""

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt: the raw reply in chat-completion form. Raises `CallError`."""
        ...

    async def close(self) -> None:
        """Release its resources."""
        ...


_START = 8
"""Calls in flight at first. Servers that cannot take eight at once answer 429, or queue them until they time out (a
local server with one slot); either way the limit halves."""
_DOWN_AFTER = 3
"""Consecutive connection failures after which an endpoint is skipped for a while."""
_DOWN_MOST_S = 30.0


def too_long(wait_s: float, deadline_s: float, kind: str = "429") -> Fault:
    """The error of a call for which the server asks to wait longer than its deadline."""
    return Fault(
        f"the server asks to wait {wait_s:.0f} s, longer than the deadline of {deadline_s:g} s",
        kind=kind,
        cure="run again later, or with fewer concurrent calls",
    )


class EndpointSlot:
    """One endpoint with its limit, in calls, and its failures."""

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
        """Whether it takes another call now."""
        return self.closed is None and self.in_flight < int(self.limit) and self.paused_until <= now

    def worked(self) -> None:
        """A reply came: grow the limit."""
        self.failures = 0
        if self.limit < self.most:
            step = 1.0 if self.limit < self.threshold else 1.0 / self.limit
            self.limit = min(self.limit + step, float(self.most))

    def failed(self, error: CallError, started: float, now: float) -> None:
        """An attempt failed: halve the limit on 429 and time-outs, pause as the server asks or if nobody answers."""
        if not isinstance(error, Fault):
            return
        if error.kind in ("429", "timeout") or (
            error.kind == "503" and error.retry_after is not None
        ):
            if (
                started >= self.cut_at
            ):  # one cut per round trip: the other calls in flight fail for the same reason
                self.limit = max(self.limit / 2, 1.0)
                self.threshold = self.limit
                self.cut_at = now
            if error.retry_after:
                self.paused_until = max(self.paused_until, now + error.retry_after)
        elif error.kind == "connect":
            self.failures += 1
            if self.failures >= _DOWN_AFTER:
                pause_s = min(2.0 ** (self.failures - _DOWN_AFTER), _DOWN_MOST_S)
                if self.paused_until <= now:
                    log.warning(
                        "%s does not answer; skipping it for %.0f s", self.backend.name, pause_s
                    )
                self.paused_until = max(self.paused_until, now + pause_s)


class Fleet:
    """The endpoints of one model.

    Args:
        backends: at least one.
        concurrency: maximum calls in flight at each.
        deadline_s: if all pause for longer (the server names a limit per day), calls fail instead of waiting.
    """

    def __init__(
        self, backends: Sequence[Backend], concurrency: int, deadline_s: float = 600.0
    ) -> None:
        self._deadline_s = deadline_s
        self.slots = [EndpointSlot(backend, concurrency) for backend in backends]
        self.breaker = Breaker(", ".join(sorted({backend.name for backend in backends})))
        self._waiting: deque[tuple[asyncio.Future[EndpointSlot], EndpointSlot | None]] = deque()
        """Calls without an endpoint, first come, first served; with the endpoint that each avoids."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the shortest pause."""

    @property
    def concurrency(self) -> int:
        """Maximum calls in flight over all endpoints."""
        return sum(slot.most for slot in self.slots)

    async def take(self, avoid: EndpointSlot | None = None) -> EndpointSlot:
        """Wait for a free endpoint and count a call on the least loaded one. First come, first served.

        Args:
            avoid: the endpoint that just failed; taken only if no other is free.

        Raises:
            Fault: all endpoints pause for longer than the deadline.
        """
        slot_future: asyncio.Future[EndpointSlot] = asyncio.get_running_loop().create_future()
        self._waiting.append((slot_future, avoid))
        self._hand_out()
        try:
            return await slot_future
        except asyncio.CancelledError:
            if (
                slot_future.done()
                and not slot_future.cancelled()
                and slot_future.exception() is None
            ):
                self.give_back(slot_future.result())
            raise

    def give_back(self, slot: EndpointSlot) -> None:
        """A call on that endpoint ended, with a reply or without."""
        slot.in_flight -= 1
        if self._waiting:
            self._hand_out()

    def _hand_out(self) -> None:
        """Give free endpoints to the calls that wait, and come again when the next pause ends."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and (free := [slot for slot in self.slots if slot.free(now)]):
            slot_future, avoid = self._waiting.popleft()
            if not slot_future.done():  # else cancelled
                slot = min(
                    free,
                    key=lambda slot: (slot is avoid, slot.in_flight / slot.most, slot.failures),
                )
                slot.in_flight += 1
                slot_future.set_result(slot)
        if self._timer is not None:
            self._timer.cancel()
        open_slots = [slot for slot in self.slots if slot.closed is None]
        pauses = [slot.paused_until for slot in open_slots if slot.paused_until > now]
        if (
            len(pauses) == len(open_slots)
            and (wait := min(pauses, default=now) - now) > self._deadline_s
        ):
            for slot_future, _ in self._waiting:
                if not slot_future.done():
                    slot_future.set_exception(too_long(wait, self._deadline_s))
            self._waiting.clear()
        self._timer = (
            loop.call_at(min(pauses), self._hand_out) if pauses and self._waiting else None
        )

    def close_slot(self, slot: EndpointSlot, error: PermanentError) -> bool:
        """Remove an endpoint that refused for good (its key, its model); False if it is the last one.

        The last one stays: the refusal may be about this request only.
        """
        if not any(other.closed is None for other in self.slots if other is not slot):
            return False
        if slot.closed is None:
            log.warning("%s left the fleet: %s", slot.backend.name, error)
            slot.closed = error
            self._hand_out()
        return True

    async def close(self) -> None:
        """Close every endpoint."""
        if self._timer is not None:
            self._timer.cancel()
        for slot in self.slots:
            await slot.backend.close()
