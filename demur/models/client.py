"""One request to a model: a call that is paid for once.

`ModelClient` looks in the ledger, joins an equal call that is already in progress, claims the key, sends, retries,
writes the reply to the ledger and returns it.

A call that was sent is paid for, whether or not anybody still waits for it. When all callers have left (the run failed,
the budget is reached, Ctrl-C), the client does not retry, but waits for the reply when it closes, up to a limit, and
keeps it. A call that was not sent yet is cancelled at once.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol, cast

from demur.core.errors import (
    CallError,
    ItemError,
    PermanentError,
    StorageError,
    TransientError,
    UsageError,
)
from demur.core.records import ImageRef, Request, Response
from demur.models import wire
from demur.models.batch import batches_of_command
from demur.models.budget import Budget
from demur.models.claims import BEAT_S
from demur.models.fleet import EndpointSlot, Fleet, too_long
from demur.models.identity import request_key
from demur.models.images import UnreadableImage
from demur.models.ledger import WAIT_S, Entry, Kept, Ledger
from demur.models.prices import Price, cost_if_known, price_at_most
from demur.models.wire import Fault

if TYPE_CHECKING:
    from demur.models.endpoint import Endpoint

log = logging.getLogger("demur.models")

FLEX_S = 900.0
"""Seconds before a call in the service tier ``flex`` times out, as OpenAI recommends."""
GRACE_S = 30.0
"""Seconds that a closing client waits for replies to calls that were sent."""


class Model(Protocol):
    """Anything that answers requests."""

    id: str
    """The model's identity, without its address."""

    async def complete(self, request: Request) -> Response:
        """One reply, with text or reasoning.

        Raises:
            CallError: there will be no reply; its class says whether for this item or for all.
        """
        ...


@dataclass(frozen=True)
class Retry:
    """When an attempt times out, and when the client tries again."""

    timeout_s: float = 120.0
    """For the first attempt; doubles with each time-out, as a small server may be slow and not gone."""
    deadline_s: float = 600.0
    """For one call with all its attempts and waits, from its first attempt."""
    tries: int = 8
    """Maximum number of attempts; those answered by 429 do not count, only the deadline limits them."""
    backoff_s: float = 0.5
    """Upper bound of the first wait; doubles with each attempt. The wait is uniform below it (full jitter)."""
    backoff_most_s: float = 30.0

    def in_flex(self) -> Retry:
        """The same for the service tier ``flex``, whose calls wait until the vendor has room."""
        return replace(
            self,
            timeout_s=max(self.timeout_s, FLEX_S),
            deadline_s=max(self.deadline_s, 4 * FLEX_S),
        )

    def wait_s(self, attempt: int, draw: float) -> float:
        """Seconds to wait after the ``attempt``-th failure (1 is the first); ``draw`` in [0, 1)."""
        return float(min(self.backoff_s * 2.0 ** min(attempt - 1, 30), self.backoff_most_s)) * draw


@dataclass(frozen=True)
class ModelOptions:
    """What `demur.models.open_model` may be told beside the model."""

    ledger: Path | None = None
    """SQLite file that keeps every reply, so that no call is paid twice; None keeps nothing."""
    concurrency: int | None = None
    """Maximum calls in flight at each endpoint; reached by slow start, halved on 429 and time-outs. None: 8; for a plain
    Python function 1, or its attribute ``concurrency``."""
    image_root: Path | None = None
    """Folder that relative image paths start from."""
    read_image: Callable[[ImageRef], bytes] | None = None
    """Gives the bytes of images that are not files under ``image_root``."""
    budget: Budget | None = None
    """Stops before the cost exceeds it; several models may share one."""
    prices: Path | None = None
    """Price table that overrides the shipped one."""
    retry: Retry = Retry()
    """When an attempt times out, and when to try again."""
    before_first: Callable[[], Awaitable[object]] | None = None
    """Awaited once, before the first call that is sent; an error ends all calls. `demur.models.ping` finds a server that
    was never there; without it that server is waited for like one that fails later."""

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise UsageError(f"concurrency={self.concurrency}", cure="give 1 or more")


USUAL = ModelOptions()


@dataclass
class Counts:
    """What a client did since it was opened."""

    sent: int = 0
    """Attempts sent."""
    replies: int = 0
    """Usable replies received."""
    cached: int = 0
    """Requests answered from the ledger."""
    joined: int = 0
    """Requests answered by a call that was already in progress, here or in another process."""
    failed: int = 0
    """Requests that ended in an error."""
    prompt: int = 0
    completion: int = 0
    prefix_cached: int = 0
    """Prompt tokens that were in the server's prefix cache."""
    money: float = 0.0
    """US dollars; calls without a known price count 0, those whose cost nobody reported the most that it can be."""
    unreported: int = 0
    """Attempts that were sent and whose cost nobody reported: ``money`` is then an upper bound."""
    faults: Counter[str] = field(default_factory=Counter)
    """Failed attempts by kind."""

    @property
    def retries(self) -> int:
        """Failed attempts."""
        return self.faults.total()


def summary(counts: Iterable[Counts]) -> str:
    """Totals of several clients for a progress line; "" without clients.

    >>> summary([Counts(sent=12, cached=5, money=0.25), Counts(sent=1, money=0.5)])
    '13 sent, 5 cached, 0 retries, 0 failed, $0.75'
    >>> summary([Counts(sent=2, money=0.5, unreported=1)])
    '2 sent, 0 cached, 0 retries, 0 failed, at most $0.50 (cost of 1 not reported)'
    """
    all_counts = tuple(counts)
    if not all_counts:
        return ""
    parts = [
        f"{sum(getattr(c, name) for c in all_counts)} {name}"
        for name in ("sent", "cached", "retries", "failed")
    ]
    money = sum(c.money for c in all_counts)
    unreported = sum(c.unreported for c in all_counts)
    bound = f"at most ${money:,.2f} (cost of {unreported:,} not reported)"
    parts += [bound if unreported else f"${money:,.2f}"] if money else []
    return ", ".join(parts)


@dataclass(eq=False, repr=False)
class _Flight:
    """One call with all its attempts."""

    task: asyncio.Task[Response] = field(init=False)
    waiting: int = 0
    """Callers that wait for its reply."""
    sending: bool = False
    """An attempt was sent, and its reply is not in the ledger yet."""


class ModelClient:
    """A model with its ledger, retries and limits. Created by `open_model`.

    Args:
        model: the model's id, without its address.
        fleet: its endpoints.
        options: retries, budget and what comes before the first call.
        ledger: keeps replies; None keeps none, and then equal requests do not share a call.
        revision: of the weights; part of the cache key.
        price: of the model, if known.
        names: other names that requests may give the model.
    """

    def __init__(
        self,
        model: str,
        fleet: Fleet,
        options: ModelOptions = USUAL,
        *,
        ledger: Ledger | None = None,
        revision: str = "",
        price: Price | None = None,
        names: Iterable[str] = (),
    ) -> None:
        self.budget, self.retry = options.budget, options.retry
        if self.budget is not None and self.budget.limited and price is None:
            raise UsageError(
                f"there is a budget, but no price is known for {model!r}",
                cure='add it to a price table (--prices FILE); your own server costs {"prompt": 0, "completion": 0}',
            )
        self.id = model
        self.revision = revision
        self.counts = Counts()
        self.ledger = ledger
        self.price = price
        self._fleet = fleet
        self._names = {model, "", *names}
        self._flights: dict[bytes, _Flight] = {}
        self._beating: asyncio.Task[None] | None = None
        self._batches = batches_of_command()
        self._before_first, self._starting = options.before_first, asyncio.Lock()
        self._random = random.Random()

    @property
    def concurrency(self) -> int:
        """Maximum number of calls in flight."""
        return self._fleet.concurrency

    @property
    def endpoint(self) -> Endpoint | None:
        """The server that may take its calls in batches; None of another kind of model."""
        backend = self._fleet.slots[0].backend
        return cast("Endpoint", backend) if hasattr(backend, "batch_line") else None

    def key(self, request: Request) -> bytes:
        """The request's key in the ledger.

        Raises:
            UsageError: the request names another model.
        """
        if request.model not in self._names:
            raise UsageError(
                f"the request is for model {request.model!r}, this one is {self.id!r}",
                item=request.item,
                cure="open that model",
            )
        return request_key(request, self.id, self.revision)

    # --- the ledger

    def _read_stored(self, key: bytes, stored: Kept) -> Response | None:
        """A reply from the ledger as a response; None, and it is deleted, if it does not pass today's checks."""
        try:
            return wire.read_response(
                stored.raw, served_by=stored.served_by, latency_s=stored.latency_s, cached=True
            )
        except TransientError as error:
            log.warning("a reply in the ledger is invalid and is asked for again: %s", error)
            if self.ledger is not None:
                self.ledger.drop(key)
            return None

    def peek(self, requests: Sequence[Request]) -> list[Response | None]:
        """The ledger's reply to each request, None where it has none; sends nothing.

        A reply that the content filter emptied is a response with ``error``.
        """
        if self.ledger is None:
            return [None] * len(requests)
        keys = [self.key(r) for r in requests]
        stored_of_key = self.ledger.get_many(keys)
        replies: list[Response | None] = []
        for key in keys:
            stored = stored_of_key.get(key)
            try:
                reply = None if stored is None else self._read_stored(key, stored)
            except ItemError as error:
                reply = Response(error=str(error), cached=True)
            self.counts.cached += reply is not None
            replies.append(reply)
        return replies

    # --- one call

    async def complete(self, request: Request) -> Response:
        """One reply: from the ledger, from a call in progress, or from the model.

        Raises:
            ItemError: this request will never be answered.
            PermanentError: no request will be answered.
            TransientError: no reply within the tries and the deadline.
            BudgetReached: the call may exceed the budget; it was not sent.
            Deferred: the command sends its calls in batches, and this one is in the next.
            StorageError: the reply could not be written (it is in the ledger's ``unsaved``).
            UsageError: the request names another model.
        """
        try:
            if self.ledger is None:
                if request.model not in self._names:
                    self.key(request)
                return await self._ask(request, None, _Flight(waiting=1))
            return await self._start_or_join(request, self.key(request), self.ledger)
        except CallError as error:
            self.counts.failed += 1
            if request.item and not error.item:
                error.item = request.item
            raise

    async def _start_or_join(self, request: Request, key: bytes, ledger: Ledger) -> Response:
        """Start the call, or join the one in progress with the same key."""
        while True:
            flight = self._flights.get(key)
            is_mine = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight()
                flight.task = asyncio.create_task(self._claim_and_ask(request, key, ledger, flight))
                flight.task.add_done_callback(lambda task: self._forget_flight(key, task))
                if self._beating is None:
                    self._beating = asyncio.create_task(self._renew_claims(ledger))
            flight.waiting += 1
            try:
                response = await asyncio.shield(flight.task)
            except asyncio.CancelledError:
                if is_mine or not flight.task.cancelled():
                    raise
                # all others that waited have left, so the call was cancelled: start it again
            except CallError as error:
                if is_mine:
                    raise
                other = copy.copy(error)
                other.item = request.item
                raise other from error
            else:
                self.counts.joined += not is_mine
                return response
            finally:
                flight.waiting -= 1
                if not flight.waiting and not flight.sending:
                    flight.task.cancel()

    async def _renew_claims(self, ledger: Ledger) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(StorageError):  # the next reply meets the same error
                ledger.renew()

    def _forget_flight(self, key: bytes, task: asyncio.Task[Response]) -> None:
        del self._flights[key]
        if not task.cancelled():
            task.exception()  # all callers may have left: asyncio must not warn that nobody retrieved it

    async def _claim_and_ask(
        self, request: Request, key: bytes, ledger: Ledger, flight: _Flight
    ) -> Response:
        """Claim the key, then send the call, unless the ledger has or gets the reply meanwhile."""
        wait = 0.0
        try:
            while True:
                stored = ledger.get(key)
                reply = None if stored is None else self._read_stored(key, stored)
                if reply is not None:
                    self.counts.joined += wait > 0
                    is_new = self._batches is None or self._batches.meets(key)
                    self.counts.cached += wait == 0 and is_new
                    return reply
                if self._batches is not None and self.endpoint is not None:
                    raise self._batches.defer(self, key, request)
                if address := ledger.batch_address(key):
                    raise UsageError(
                        f"it was sent in a batch to {address}, which is not answered yet",
                        item=request.item,
                        cure="give the command with --batch: it waits for that batch",
                    )
                ledger.wanted.add(key)
                await asyncio.sleep(
                    0
                )  # claims and replies of the same turn of the loop share a transaction
                if ledger.claim(key):
                    return await self._ask(request, key, flight)
                wait = min(wait * 1.5, 0.5) or 0.02
                await asyncio.sleep(wait)
        finally:
            ledger.release(key)

    async def _ask(self, request: Request, key: bytes | None, flight: _Flight) -> Response:
        """Send until a reply comes, and keep it; do not retry when nobody waits for it any more."""
        if self._before_first is not None:
            await self._started()
        flex = request.service_tier == "flex"
        fleet, retry = self._fleet, self.retry.in_flex() if flex else self.retry
        clock = asyncio.get_running_loop().time
        faults: dict[str, int] = {}
        counted = attempts = 0
        deadline = first = 0.0
        last: EndpointSlot | None = None
        while True:
            most = (
                price_at_most(request, self.price)
                if self.budget is not None and self.price is not None
                else 0.0
            )
            slot = await self._take_slot(last)
            started = clock()
            first = first or monotonic()
            deadline = deadline or started + retry.deadline_s
            cost: float | None = 0.0  # None: nobody reported it
            reserved: float | None = None
            try:
                if self.budget is not None:
                    reserved = await self.budget.reserve(most)
                attempts += 1
                self.counts.sent += 1
                flight.sending = True
                patience = retry.timeout_s * 2.0 ** faults.get("timeout", 0)
                seconds_left = max(
                    deadline - started, retry.timeout_s
                )  # a retry that waited for its slot past the deadline
                raw = await slot.backend.send(request, min(patience, seconds_left))
                latency = clock() - started
                answer, withheld = wire.read_paid(
                    raw, served_by=slot.backend.name, latency_s=latency
                )
                cost = await self._keep(key, request, raw, answer, faults)
                if withheld is not None:
                    raise withheld
                slot.worked()
                fleet.breaker.heard()
                return answer
            except TransientError as error:
                fault = (
                    error
                    if isinstance(error, Fault)
                    else Fault(error.message, retry_after=error.retry_after, paid=error.paid)
                )
                if fault.kind != "connect":
                    fleet.breaker.heard()
                late = fault.kind in ("timeout", "504")  # of a call that flex did not find room for
                cost = None if fault.paid and not (flex and late) else 0.0
                slot.failed(fault, started, clock())
                last = slot
                faults[fault.kind] = faults.get(fault.kind, 0) + 1
                self.counts.faults[fault.kind] += 1
                counted += fault.kind != "429"
                wait = max(
                    retry.wait_s(max(counted, 1), self._random.random()), fault.retry_after or 0.0
                )
                if counted >= retry.tries or clock() + wait > deadline or not flight.waiting:
                    if fault.kind == "connect" and flight.waiting:
                        fleet.breaker.gave_up(first)
                    raise _given_up(fault, attempts, faults, retry) from error
            except ItemError as error:
                cost = None if error.paid else cost
                if not isinstance(error, UnreadableImage):
                    fleet.breaker.heard()
                raise
            except (
                asyncio.CancelledError,
                StorageError,
            ):  # sent, or received but not written: it was paid for
                cost = None if flight.sending else 0.0
                raise
            except PermanentError as error:
                if not fleet.close_slot(slot, error):
                    raise
                wait = 0.0
            finally:
                flight.sending = False
                self._count_cost(request, cost, reserved or 0.0)
                if reserved is not None and self.budget is not None:
                    self.budget.settle(reserved, cost, most)
                fleet.give_back(slot)
            if wait:
                await asyncio.sleep(wait)

    def _count_cost(self, request: Request, cost: float | None, reserved: float) -> None:
        """Count what an attempt cost; None: nobody reported it."""
        if cost is None and self.price is not None:
            cost = max(price_at_most(request, self.price), reserved)
            self.counts.unreported += cost > 0
        self.counts.money += cost or 0.0

    async def _started(self) -> None:
        async with self._starting:  # many calls begin at once
            if self._before_first is not None:
                await self._before_first()
                self._before_first = None

    async def _take_slot(self, last: EndpointSlot | None) -> EndpointSlot:
        """Wait for a free endpoint; raises at once if the breaker says that all are down."""
        breaker = self._fleet.breaker
        if (refusal := breaker.refusal()) is not None:
            raise refusal
        probing = bool(breaker.down_since)
        slot = await self._fleet.take(last)
        if (
            not probing and (refusal := breaker.refusal()) is not None
        ):  # they went down during the wait
            self._fleet.give_back(slot)
            raise refusal
        return slot

    async def _keep(
        self,
        key: bytes | None,
        request: Request,
        raw: str,
        answer: Response,
        faults: dict[str, int],
    ) -> float | None:
        """Commit a reply to the ledger and count it; returns its price in US dollars, None if unknown."""
        self.count(answer)
        tier = wire.tier_of(raw) if request.service_tier else ""
        cost = cost_if_known(self.price, answer.usage, tier)
        if key is not None and self.ledger is not None:
            until = monotonic() + WAIT_S
            entry = Entry.of(key, self.id, request.item, raw, answer, cost, faults)
            self.ledger.unsaved.append(entry)
            await asyncio.sleep(0)  # see `_claim_and_ask`
            while not self.ledger.write(last=monotonic() > until):  # another process is writing
                await asyncio.sleep(0.02)
        return cost

    def count(self, answer: Response) -> None:
        """Count a usable reply."""
        usage, counts = answer.usage, self.counts
        counts.replies += 1
        counts.prompt += usage.prompt
        counts.completion += usage.completion
        counts.prefix_cached += usage.cached

    async def close(self) -> None:
        """Wait for the replies to calls that were sent, then close the connections and the ledger.

        Waits `GRACE_S` seconds at most, and says so; if it is cancelled meanwhile, it closes at once.

        Raises:
            StorageError: paid replies could not be written; it names the file that holds them.
        """
        try:
            await self._drain()
        finally:
            if self._beating is not None:
                self._beating.cancel()
            await self._fleet.close()
            if self.budget is not None:
                self.budget.close()
            if self.ledger is not None:
                self.ledger.close()

    async def _drain(self) -> None:
        paid = [f.task for f in self._flights.values() if f.sending]
        tasks = [f.task for f in self._flights.values()]
        for flight in self._flights.values():
            if not flight.sending:
                flight.task.cancel()
        if paid:
            calls = "1 call" if len(paid) == 1 else f"{len(paid)} calls"
            _say(
                f"{self.id}: waiting up to {GRACE_S:.0f} s for {calls} in progress, which must be paid for; "
                "Ctrl-C stops at once"
            )
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=GRACE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if paid:
                received = sum(not t.cancelled() and t.exception() is None for t in paid)
                lost = f", {len(paid) - received} given up" if received < len(paid) else ""
                _say(f"{self.id}: {received} of {len(paid)} replies received and kept{lost}")


def _say(line: str) -> None:
    sys.stderr.write(f"demur: {line}\n")
    sys.stderr.flush()


def _given_up(error: Fault, attempts: int, faults: dict[str, int], retry: Retry) -> TransientError:
    seen = ", ".join(f"{n}x {kind}" for kind, n in sorted(faults.items()))
    if error.retry_after and error.retry_after >= retry.deadline_s:
        return too_long(error.retry_after, retry.deadline_s, error.kind)
    slow = "the server is slow or down: send it fewer calls at once (--concurrency 1), and " * (
        error.kind == "timeout"
    )
    return Fault(
        f"no reply after {attempts} attempts ({seen}); the last: {error.message}",
        kind=error.kind,
        cure=f"{slow}run the same command again: the replies received so far are kept",
    )
