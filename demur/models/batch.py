"""Calls in batches, at half the price: `in_waves` runs work whose calls wait for each other's batch.

A command that sends its calls in batches (`batching`) is asked again and again what it would ask. A client whose ledger
has no reply raises `Deferred` instead of sending the call; when all work has been tried, what was deferred is one wave:
`Batches.send` sends it, waits, and keeps the replies in the ledger. Then the work that was deferred is tried again. So
the same code decides what is asked, one by one or in batches, and a killed command goes on from its ledger.
"""

from __future__ import annotations

import asyncio
import copy
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from demur.core.errors import (
    BudgetReached,
    Deferred,
    DemurError,
    ItemError,
    PermanentError,
    TransientError,
    UsageError,
)
from demur.core.in_order import map_in_order
from demur.core.progress import QUIET, Progress
from demur.core.records import Request
from demur.core.store import replacing, storage_errors
from demur.core.text import command
from demur.models import wire
from demur.models.budget import Budget
from demur.models.ledger import Entry, Ledger
from demur.models.prices import Prices, cost_if_known, price_at_most
from demur.models.sent import SentBatch, SentCall

if TYPE_CHECKING:
    from demur.models.batch_server import BatchServer
    from demur.models.client import ModelClient
    from demur.models.endpoint import Endpoint

MOST_LINES, MOST_BYTES = 50_000, 190_000_000
"""Of a file; OpenAI takes 50,000 calls and 200 MB."""
TRIES = 3
"""Batches that a call is put into before it counts as failed."""
POLL_S, POLL_MOST_S = 1.0, 60.0
"""Seconds between two questions whether a batch has ended: the first, and the longest."""
_AT_ONCE = 512
"""Lines of results that are kept in one transaction."""
_NEVER_BEGAN = ("failed", "expired", "cancelled")
"""How a batch ends whose missing calls cost nothing."""
_ENDED = ("completed", *_NEVER_BEGAN)

T = TypeVar("T")
R = TypeVar("R")


class _Wave(NamedTuple):
    """The calls of a wave to one model."""

    client: ModelClient
    calls: dict[bytes, Request]


class Batches:
    """The batches of one command.

    Args:
        file: calls are written there, for the user to send; None sends them.
        steps: told what was sent, and how far it is.
    """

    def __init__(self, file: Path | None = None, steps: Progress = QUIET) -> None:
        self.file, self.steps = file, steps
        self.waves = 0
        """Waves that were sent."""
        self.most_lines = MOST_LINES
        """Of a batch; less after a server refused a longer one."""
        self.progress: dict[str, tuple[int, int]] = {}
        """Batch -> (calls that were answered, all its calls)."""
        self._failures: dict[bytes, DemurError] = {}
        self._tries: Counter[bytes] = Counter()
        self._waiting: dict[str, _Wave] = {}

    def defer(self, client: ModelClient, key: bytes, request: Request) -> DemurError:
        """The error of a call that the ledger has no reply to: that of its last batch, or it is in the next."""
        if (failure := self._failures.get(key)) is not None:
            return copy.copy(failure)
        self._waiting.setdefault(client.id, _Wave(client, {})).calls[key] = request
        return Deferred("it waits for a batch", item=request.item, cure="run the same command")

    def fail(self, key: bytes, error: DemurError) -> None:
        """A call will not be answered."""
        self._failures[key] = error

    def try_again(self, keys: Iterable[bytes], why: str) -> None:
        """Calls without a reply are in the next wave, `TRIES` times."""
        for key in keys:
            self._tries[key] += 1
            if self._tries[key] >= TRIES:
                cure = "run the same command again, or without --batch"
                self.fail(key, TransientError(f"no reply in {TRIES} batches: {why}", cure=cure))

    def begin(self) -> None:
        """Work is tried: nothing waits yet."""
        self._waiting.clear()

    async def send(self) -> None:
        """Send what waits, and keep the replies.

        Raises:
            Deferred: it was written to a file.
            BudgetReached: no call of the wave fits into the budget.
            PermanentError: a server takes no batches, or refuses one.
            UsageError: an earlier batch was sent to another server.
            StorageError: a file or the ledger cannot be written.
        """
        models = [_ModelBatches(self, *wave) for wave in self._waiting.values()]
        if self.file is not None:
            raise await self._write(self.file, models)
        self.waves += 1
        progressed = await map_in_order(_ModelBatches.answer, models, len(models))
        if not any(progressed):
            reached = next((m.reached for m in models if m.reached is not None), None)
            if reached is not None:
                raise reached
            await asyncio.sleep(POLL_S)  # other processes are asking these calls

    async def _write(self, file: Path, models: Sequence[_ModelBatches]) -> DemurError:
        """Write the calls of each model to a file of its own; returns what ends the command."""
        parts = []
        for model in models:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.client.id)
            path = file if len(models) == 1 else file.with_name(f"{file.stem}.{name}{file.suffix}")
            with replacing(path) as handle:
                if number := await model.write(handle):
                    parts.append(f"{number:,} calls to {model.client.id} in {path}")
        reached = next((m.reached for m in models if m.reached is not None), None)
        if not parts and reached is not None:
            return reached
        done = command("calls", "batch", "import", models[0].ledger.path, "RESULTS.jsonl")
        return Deferred(
            "; ".join(parts) or "all calls are in batches that other commands sent",
            cure=f"answer them (a batch of OpenAI, vllm run-batch), then: {done}; and run the same command again",
        )

    def show(self, batch: str, answered: int, total: int) -> None:
        """Show how far the batches are."""
        self.progress[batch] = answered, total
        done, all_calls = map(sum, zip(*self.progress.values(), strict=True))
        self.steps.count("calls in batches", done, all_calls, f"wave {self.waves}")


_OF_COMMAND: ContextVar[Batches | None] = ContextVar("batches", default=None)


@contextmanager
def batching(batch: bool | Path, steps: Progress = QUIET) -> Iterator[None]:
    """Within the block, models with a batch API are asked in batches, by work that goes through `in_waves`.

    Args:
        batch: True sends batches; a path writes the calls of the next wave there, and ends the command; False does
            neither.
        steps: told what was sent.
    """
    batches = Batches(batch if isinstance(batch, Path) else None, steps) if batch else None
    token = _OF_COMMAND.set(batches)
    try:
        yield
    finally:
        _OF_COMMAND.reset(token)


def batches_of_command() -> Batches | None:
    """The batches of the command that runs; None where calls are sent one by one."""
    return _OF_COMMAND.get()


async def in_waves(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], max_in_flight: int
) -> list[R]:
    """The results of ``work`` in the order of the items; in batches, work whose calls wait is repeated after each wave.

    Args:
        work: may be repeated until none of its calls waits; then its result counts.
        items: what it works on.
        max_in_flight: items at once.

    Raises:
        Exception: the first of ``work``; the rest is cancelled. As `Batches.send`.
    """
    batches, todo = batches_of_command(), list(items)
    if batches is None:
        return await map_in_order(work, todo, max_in_flight)
    results: dict[int, R] = {}

    async def attempt(place: int) -> None:
        with suppress(Deferred):
            results[place] = await work(todo[place])

    while missing := [place for place in range(len(todo)) if place not in results]:
        batches.begin()
        await map_in_order(attempt, missing, max_in_flight)
        if len(results) < len(todo):
            await batches.send()
    return [results[place] for place in range(len(todo))]


class _ModelBatches:
    """The batches of one model in one wave.

    Args:
        batches: of the command.
        client: of the model; it has a ledger and an HTTP endpoint.
        calls: that its ledger has no reply to, by key.
    """

    def __init__(self, batches: Batches, client: ModelClient, calls: dict[bytes, Request]) -> None:
        self._batches, self.client, self._calls = batches, client, calls
        assert client.ledger is not None
        assert client.endpoint is not None
        self.ledger: Ledger = client.ledger
        self._endpoint: Endpoint = client.endpoint
        self.reached: BudgetReached | None = None
        """Set when calls did not fit into the budget."""

    async def answer(self) -> bool:
        """Wait for earlier batches of this model, send the other calls, and keep all replies; False if there was none."""
        from demur.models.batch_server import BatchServer

        async with BatchServer(self._endpoint, self.client.retry) as server:
            in_flight = [b for row in self._rows() if (b := await self._adopt(server, row))]
            sent_keys = {key for batch in in_flight for key in self.ledger.sent.calls(batch.id)}
            todo = [key for key in self._calls if key not in sent_keys]
            while todo and (batch := await self._start(server, todo, in_flight)):
                in_flight.append(batch)
            await map_in_order(lambda b: self._finish(server, b), in_flight, len(in_flight) or 1)
        return bool(in_flight)

    async def write(self, handle: IO[bytes]) -> int:
        """Write the calls for the user to send, as far as the budget goes; returns their number."""
        calls = self._reserve(list(self._calls))
        if self.client.budget is not None:  # they are counted when their replies are read
            self.client.budget.settle_batch((call.reserved, 0.0) for call in calls)
        batch, to_write = self._record("", [call._replace(reserved=0) for call in calls])
        written = await self._write_lines(handle, to_write, is_limited=False)
        self.ledger.sent.remove_calls(batch.id, [c.key for c in to_write if c.key not in written])
        return len(written)

    # --- out

    def _rows(self) -> list[SentBatch]:
        return self.ledger.sent.batches(self.client.id)

    def _reserve(self, keys: Sequence[bytes]) -> list[SentCall]:
        """The first of some calls, as far as the budget goes."""
        budget, price = self.client.budget, self.client.price
        amounts = [0] * len(keys)
        if budget is not None and price is not None and keys:
            mosts = [price_at_most(self._calls[key], price, "batch") for key in keys]
            amounts = budget.reserve_batch(mosts)
            if len(amounts) < len(keys):
                self.reached = budget.reached(mosts[len(amounts)])
        return [
            SentCall(key, self._calls[key].item, amount)
            for key, amount in zip(keys, amounts, strict=False)
        ]

    def _record(
        self, address: str, calls: Sequence[SentCall]
    ) -> tuple[SentBatch, Sequence[SentCall]]:
        """Record a batch before it is sent; returns it with those calls that nobody else is asking."""
        label = "" if self.client.budget is None else self.client.budget.label
        batch = SentBatch(uuid.uuid4().hex, "", self.client.id, address, label=label)
        keys = self.ledger.record_batch(batch, calls)
        return batch, [call for call in calls if call.key in keys]

    async def _write_lines(
        self, handle: IO[bytes], calls: Iterable[SentCall], *, is_limited: bool
    ) -> set[bytes]:
        """Write the lines of some calls, if limited as many as a server takes; returns their keys."""
        written: set[bytes] = set()
        for call in calls:
            try:
                pieces = await self._endpoint.batch_line(call.key.hex(), self._calls[call.key])
            except ItemError as error:
                self._batches.fail(call.key, error)
                continue
            is_full = handle.tell() + sum(map(len, pieces)) > MOST_BYTES
            if is_limited and is_full and written:
                break
            handle.writelines(pieces)
            written.add(call.key)
        return written

    async def _start(
        self, server: BatchServer, todo: list[bytes], in_flight: Sequence[SentBatch]
    ) -> SentBatch | None:
        """Start a batch with the first of ``todo``, which it takes from there; None if none could be started."""
        most_lines = self._batches.most_lines
        if most_lines < MOST_LINES and in_flight:  # the server wants one at a time
            return None
        reserved = self._reserve(todo[:most_lines])
        if not reserved:
            return None
        batch, calls = self._record(self._endpoint.name, reserved)
        with tempfile.TemporaryDirectory(prefix="demur-batch-") as folder:
            path = Path(folder) / f"{batch.id}.jsonl"
            with storage_errors(path), path.open("wb") as handle:
                written = await self._write_lines(handle, calls, is_limited=True)
            not_sent = [call for call in reserved if call.key not in written]
            self.ledger.sent.remove_calls(batch.id, [call.key for call in not_sent])
            self._settle((call, 0.0) for call in not_sent)
            del todo[: len(reserved)]
            todo += [call.key for call in calls if call.key not in written]
            if not written:
                self.ledger.sent.remove(batch.id)
                return None
            try:
                batch = batch._replace(file=await server.upload(path))
            except DemurError:
                self._forget(batch)
                raise
        self.ledger.sent.update(batch.id, file=batch.file)
        batch = batch._replace(name=await server.start(batch.file))
        self.ledger.sent.update(batch.id, name=batch.name)
        self.client.counts.sent += len(written)
        self._batches.show(batch.id, 0, len(written))
        return batch

    async def _adopt(self, server: BatchServer, batch: SentBatch) -> SentBatch | None:
        """A batch that an earlier command recorded, with its name; None if it never began."""
        if batch.address != self._endpoint.name:
            raise UsageError(
                f"its calls were sent in a batch to {batch.address}",
                item=self.client.id,
                cure="give the command with that address once more: the replies are there, and paid for",
            )
        while not batch.name and self.ledger.is_being_sent(batch):
            await asyncio.sleep(POLL_S)
            row = next((row for row in self._rows() if row.id == batch.id), None)
            if row is None:
                return None
            batch = row
        if not batch.name and batch.file and (name := await server.find(batch.file)):
            self.ledger.sent.update(batch.id, name=name)
            batch = batch._replace(name=name)
        if batch.name:
            return batch
        self._forget(batch)
        return None

    def _forget(self, batch: SentBatch) -> None:
        """Forget a batch whose calls cost nothing."""
        self._settle((call, 0.0) for call in self.ledger.sent.calls(batch.id).values())
        self.ledger.sent.remove(batch.id)

    # --- back

    async def _finish(self, server: BatchServer, batch: SentBatch) -> None:
        """Wait until a batch has ended, and keep its replies.

        Raises:
            PermanentError: the server refused it, or refuses all calls.
        """
        total, wait = len(self.ledger.sent.calls(batch.id)), POLL_S
        while True:
            state = await server.state(batch.name)
            status = "lost" if state is None else str(state.get("status"))
            if state is None or status in _ENDED:
                break
            with suppress(TypeError, ValueError, AttributeError):
                counted = state.get("request_counts") or {}
                self._batches.show(batch.id, int(counted.get("completed") or 0), total)
            await asyncio.sleep(wait)
            wait = min(1.5 * wait, POLL_MOST_S)
        refusals: list[PermanentError] = []
        for which in ("output_file_id", "error_file_id"):
            if state and (file := state.get(which)):
                lines: list[str] = []
                async for line in server.lines(str(file)):
                    lines.append(line)
                    if len(lines) == _AT_ONCE:
                        await self._keep(batch, lines, refusals)
                        lines.clear()
                await self._keep(batch, lines, refusals)
        unanswered = self.ledger.sent.calls(batch.id)
        if status in _NEVER_BEGAN:  # else nobody says what they cost
            self._settle((call, 0.0) for call in unanswered.values())
        self.ledger.sent.remove(batch.id)
        self._batches.show(batch.id, total - len(unanswered), total)
        if status == "failed" and not refusals:
            self._refuse(state or {}, len(unanswered))
        else:
            self._batches.try_again(unanswered, f"the batch is {status}")
        if refusals:
            raise refusals[0]

    async def _keep(
        self, batch: SentBatch, lines: Iterable[str], refusals: list[PermanentError]
    ) -> None:
        """Keep the replies in some lines of results; a line that answers nothing, or again, is left out."""
        open_calls = self.ledger.sent.calls(batch.id)
        costs: list[tuple[SentCall, float | None]] = []
        for key, read in _replies(lines, self._endpoint):
            if (call := open_calls.pop(key, None)) is None:
                continue
            cost: float | None = 0.0
            if isinstance(read, _Paid):
                cost = self.client.cost_of(read.answer, "batch")
                self.ledger.unsaved.append(
                    Entry.of(key, self.client.id, call.item, read.raw, read.answer, cost)
                )
            elif isinstance(read, ItemError):
                self._batches.fail(key, read)
            elif isinstance(read, PermanentError):
                refusals.append(read)
            else:
                cost = None if getattr(read, "paid", False) else 0.0
                self._batches.try_again([key], read.message)
            costs.append((call, cost))
        while not self.ledger.write():  # another process is writing
            await asyncio.sleep(0.02)
        removed = self.ledger.sent.remove_calls(batch.id, [call.key for call, _ in costs])
        self._settle((call, cost) for call, cost in costs if call.key in removed)

    def _settle(self, costs: Iterable[tuple[SentCall, float | None]]) -> None:
        """Count what calls cost, in US dollars; None: nobody reported it, and what was reserved stays."""
        counts, budget = self.client.counts, self.client.budget
        known: list[tuple[int, float]] = []
        for call, cost in costs:
            counts.money += cost or 0.0
            if cost is None and self.client.price is not None:
                counts.unreported += 1
                counts.money += call.reserved / 1e9
            if cost is not None:
                known.append((call.reserved, cost))
        if budget is not None:
            budget.settle_batch(known)

    def _refuse(self, state: Mapping[str, Any], calls: int) -> None:
        """A batch did not begin: the next ones are smaller, if it was too large.

        Raises:
            PermanentError: for another reason.
        """
        errors = state.get("errors")
        reasons = errors.get("data") if isinstance(errors, Mapping) else None
        reasons = [r for r in reasons or [] if isinstance(r, Mapping)]
        if calls > 1 and any(r.get("code") == "token_limit_exceeded" for r in reasons):
            self._batches.most_lines = max(1, calls // 2)
            return
        why = "; ".join(dict.fromkeys(str(r.get("message"))[:200] for r in reasons[:3]))
        raise PermanentError(
            f"the server refuses the batch: {self._endpoint.scrub(why) or 'it gives no reason'}",
            item=self.client.id,
            cure="mend what it names, and run the same command again, or without --batch",
        )


class _Paid(NamedTuple):
    """A reply that is kept."""

    raw: str
    answer: Any


def _replies(
    lines: Iterable[str], endpoint: Endpoint | None = None
) -> Iterator[tuple[bytes, _Paid | DemurError]]:
    """Key and reply, or what came instead, of each line of results."""
    from demur.models.batch_server import replies_of

    for reply in filter(None, map(replies_of, lines)):
        key, status, body = reply
        if status == 200:
            try:
                name = endpoint.name if endpoint else "batch"
                yield key, _Paid(body, wire.read_paid(body, served_by=name)[0])
            except TransientError as error:
                yield key, error
        elif status and endpoint is not None:
            yield key, endpoint.refusal_in_batch(status, body)
        else:
            yield key, TransientError(wire.error_message(body))


class ImportedReplies(NamedTuple):
    """What a file of results held."""

    replies: int
    """Replies that are in the ledger now."""
    failed: Mapping[str, int]
    """Why calls have none -> their number."""
    unknown: int
    """Lines about calls that this ledger does not wait for: answered before, or of another."""


def import_batch(file: Path, results: Path, prices: Path | None = None) -> ImportedReplies:
    """Keep the replies in a file of results of calls that ``demur calls batch export`` wrote.

    Args:
        file: the ledger.
        results: JSONL, of OpenAI's batch API or ``vllm run-batch``; in any order.
        prices: price table that overrides the shipped one.

    Raises:
        StorageError: a file cannot be read, or the ledger cannot be written.
    """
    if not file.is_file():
        raise UsageError("no such ledger", item=file, cure="name the one that the export named")
    counts, table = _Import(), Prices(prices)
    with (
        Ledger(file) as ledger,
        storage_errors(results),
        results.open(encoding="utf-8-sig", errors="replace") as lines,
    ):
        while part := list(islice(lines, _AT_ONCE)):
            _import_lines([line for line in part if line.strip()], ledger, table, counts)
    return ImportedReplies(counts.replies, dict(counts.failed.most_common(3)), counts.unknown)


@dataclass
class _Import:
    """Counts so far, as of `ImportedReplies`."""

    replies: int = 0
    unknown: int = 0
    failed: Counter[str] = field(default_factory=Counter)


def _import_lines(lines: Sequence[str], ledger: Ledger, prices: Prices, counts: _Import) -> None:
    """Keep the replies in some lines, then count their cost."""
    costs: dict[str, list[tuple[int, float]]] = {}
    replies = list(_replies(lines))
    counts.unknown += len(lines) - len(replies)
    for key, read in replies:
        sent = ledger.sent.find(key)
        if sent is None:
            counts.unknown += 1
        elif not isinstance(read, _Paid):
            counts.failed[read.message] += 1
        else:
            batch, call = sent
            cost = cost_if_known(prices.find(batch.model), read.answer.usage, "batch")
            ledger.put(Entry.of(key, batch.model, call.item, read.raw, read.answer, cost))
            ledger.sent.remove_calls(batch.id, [key])
            costs.setdefault(batch.label, []).append((call.reserved, cost or 0.0))
            counts.replies += 1
    for label, amounts in costs.items():
        budget = Budget(None, ledger.path, label)
        budget.settle_batch(amounts)
        budget.close()
