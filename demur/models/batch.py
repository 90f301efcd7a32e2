"""Calls in batches, at half the price: `in_waves` runs work whose calls wait for each other's batch.

A command that sends its calls in batches (`batching`) is asked again and again what it would ask. A client whose ledger
has no reply raises `Deferred` instead of sending the call; when all work has been tried, what was deferred is one wave:
`Batches.send` sends it, waits, and keeps the replies in the ledger. Then the work that was deferred is tried again. So
the same code decides what is asked, one by one or in batches, and a killed command goes on from its ledger.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import uuid
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
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
from demur.core.records import Request, Response
from demur.core.store import replacing, storage_errors
from demur.core.strict_json import loose_json
from demur.core.text import command
from demur.models import wire
from demur.models.budget import Budget
from demur.models.ledger import Entry, Ledger
from demur.models.prices import Price, Prices, cost_if_known, price_at_most
from demur.models.sent import SentBatch, SentCall

if TYPE_CHECKING:
    from demur.models.batch_server import BatchServer
    from demur.models.client import ModelClient
    from demur.models.endpoint import Endpoint

MOST_LINES, MOST_BYTES = 50_000, 100_000_000
"""Of a file, in memory; OpenAI takes 50,000 calls and 200 MB."""
TRIES = 3
"""Batches that a call is put into before it counts as failed."""
POLL_S, POLL_MOST_S = 1.0, 60.0
"""Seconds between two questions whether a batch has ended: the first, and the longest."""
_AT_ONCE = 512
"""Lines of a file of results that are kept in one transaction."""
_NEVER_BEGAN = ("failed", "expired", "cancelled")
"""How a batch ends whose missing calls cost nothing."""
_ENDED = ("completed", "lost", *_NEVER_BEGAN)

T = TypeVar("T")
R = TypeVar("R")


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
        self._waiting: dict[ModelClient, dict[bytes, Request]] = {}
        self._met: set[bytes] = set()

    def meets(self, key: bytes) -> bool:
        """Whether this is the first time that the command meets the reply to a call: work is repeated."""
        is_new = key not in self._met
        self._met.add(key)
        return is_new

    def defer(self, client: ModelClient, key: bytes, request: Request) -> DemurError:
        """The error of a call that the ledger has no reply to: that of its last batch, or it is in the next."""
        if (failure := self._failures.get(key)) is not None:
            return copy.copy(failure)
        self._waiting.setdefault(client, {})[key] = request
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
        models = [_ModelBatches(self, *wave) for wave in self._waiting.items()]
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
        for number, model in enumerate(models, 1):
            name = f"{file.stem}.{number}-{re.sub('[^A-Za-z0-9.]+', '-', model.client.id)}"
            path = file if len(models) == 1 else file.with_name(name + file.suffix)
            with replacing(path) as handle:
                if calls := await model.write(handle):
                    parts.append(f"{calls:,} calls to {model.client.id} in {path}")
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
def batching(batch: bool | Path, steps: Progress = QUIET, *, fresh: bool = False) -> Iterator[None]:
    """Within the block, models with a batch API are asked in batches, by work that goes through `in_waves`.

    Args:
        batch: True sends batches; a path writes the calls of the next wave there, and ends the command; False does
            neither.
        steps: told what was sent.
        fresh: whether the command forgets what earlier ones asked.

    Raises:
        UsageError: ``fresh`` with batches, whose every wave continues the one before.
    """
    if batch and fresh:
        raise UsageError(
            "a batch goes on where the last command was, which --fresh forgets",
            cure="leave out --fresh, or name another --out",
        )
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
    """The batches of one client in one wave.

    Args:
        batches: of the command.
        client: has a ledger and an HTTP endpoint.
        calls: that its ledger has no reply to, by key.
    """

    def __init__(self, batches: Batches, client: ModelClient, calls: dict[bytes, Request]) -> None:
        self._batches, self.client, self._calls = batches, client, calls
        assert client.ledger is not None
        assert client.endpoint is not None
        self.ledger, self._endpoint = client.ledger, client.endpoint
        self.reached: BudgetReached | None = None
        """Set when calls did not fit into the budget."""

    async def answer(self) -> bool:
        """Wait for earlier batches of this model, send the other calls, and keep all replies; False if there was none."""
        from demur.models.batch_server import BatchServer

        async with BatchServer(self._endpoint, self.client.retry) as server:
            rows = self.ledger.sent.batches(self.client.id)
            in_flight = [batch for row in rows if (batch := await self._adopt(server, row))]
            sent_keys = {key for batch in in_flight for key in self.ledger.sent.calls(batch.id)}
            todo = deque(key for key in self._calls if key not in sent_keys)
            is_one_by_one = self._batches.most_lines < MOST_LINES
            while todo and not (is_one_by_one and in_flight):
                batch, lines = await self._next_part(todo, self._endpoint.name)
                if not lines:
                    break
                in_flight.append(await self._send(server, batch, lines))
            await map_in_order(lambda b: self._finish(server, b), in_flight, len(in_flight) or 1)
        return bool(in_flight)

    async def write(self, handle: IO[bytes]) -> int:
        """Write the calls for the user to send, as far as the budget goes; returns their number."""
        todo, count = deque(self._calls), 0
        while todo:
            _, lines = await self._next_part(todo, "")
            handle.writelines(lines)
            count += len(lines)
        return count

    # --- out

    async def _next_part(
        self, todo: deque[bytes], address: str
    ) -> tuple[SentBatch, Sequence[bytes]]:
        """Take as many calls as a file may hold, and record those that the budget allows and nobody else is asking.

        Returns:
            The batch, and its lines.
        """
        lines: dict[bytes, bytes] = {}
        size = 0
        while todo and len(lines) < self._batches.most_lines and size < MOST_BYTES:
            key = todo.popleft()
            try:
                lines[key] = await self._endpoint.batch_line(key.hex(), self._calls[key])
                size += len(lines[key])
            except ItemError as error:
                self._batches.fail(key, error)
        calls = self._reserve(list(lines))
        label = "" if self.client.budget is None else self.client.budget.label
        batch = SentBatch(uuid.uuid4().hex, "", self.client.id, address, label=label)
        if not address:  # the calls count when their replies are read
            self._settle((call, 0.0) for call in calls)
            calls = [call._replace(reserved=0) for call in calls]
        keys = self.ledger.record_batch(batch, calls)
        self._settle((call, 0.0) for call in calls if call.key not in keys)
        return batch, [lines[call.key] for call in calls if call.key in keys]

    def _reserve(self, keys: Sequence[bytes]) -> list[SentCall]:
        """The first of some calls, as far as the budget goes."""
        budget, price = self.client.budget, self.client.price
        amounts = [0] * len(keys)
        if budget is not None and price is not None and keys:
            mosts = [price_at_most(self._calls[key], price, "batch") for key in keys]
            amounts = budget.reserve_batch(mosts)
            if len(amounts) < len(keys):
                self.reached = budget.reached(mosts[len(amounts)])
        return [SentCall(k, self._calls[k].item, a) for k, a in zip(keys, amounts, strict=False)]

    async def _send(
        self, server: BatchServer, batch: SentBatch, lines: Sequence[bytes]
    ) -> SentBatch:
        try:
            file = await server.upload(batch.id, b"".join(lines))
        except DemurError:
            self._forget(batch)
            raise
        self.ledger.sent.update(batch.id, file=file)
        name = await server.start(file)
        self.ledger.sent.update(batch.id, name=name)
        self.client.counts.sent += len(lines)
        return batch._replace(file=file, name=name)

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
            batches = {row.id: row for row in self.ledger.sent.batches(self.client.id)}
            if batch.id not in batches:
                return None
            batch = batches[batch.id]
        name = batch.name or (await server.find(batch.file) if batch.file else "")
        if not name:
            self._forget(batch)
            return None
        self.ledger.sent.update(batch.id, name=name)
        return batch._replace(name=name)

    def _forget(self, batch: SentBatch) -> None:
        """Forget a batch, whose calls without a reply cost nothing."""
        self._settle((call, 0.0) for call in self.ledger.sent.calls(batch.id).values())
        self.ledger.sent.remove(batch.id)

    # --- back

    async def _finish(self, server: BatchServer, batch: SentBatch) -> None:
        """Wait until a batch has ended, and keep its replies.

        Raises:
            PermanentError: the server refused it, or refuses all calls.
        """
        total = len(self.ledger.sent.calls(batch.id))
        state = await self._ended(server, batch, total)
        status = str(state.get("status"))
        refusals: list[DemurError] = []
        for file in filter(None, map(state.get, ("output_file_id", "error_file_id"))):
            async for lines in server.lines(str(file)):
                refusals += self._keep(lines)
        unanswered = self.ledger.sent.calls(batch.id)
        cost = 0.0 if status in _NEVER_BEGAN else None  # else nobody says what they cost
        self._settle((call, cost) for call in unanswered.values())
        self.ledger.sent.remove(batch.id)
        self._batches.show(batch.id, total - len(unanswered), total)
        if refusals:
            raise refusals[0]
        if status == "failed":
            self._refuse(state, len(unanswered))
        else:
            self._batches.try_again(unanswered, f"the batch is {status}")

    async def _ended(self, server: BatchServer, batch: SentBatch, total: int) -> dict[str, Any]:
        """Wait until a batch has ended; its state."""
        wait = POLL_S
        while (state := await server.state(batch.name)).get("status") not in _ENDED:
            counts = state.get("request_counts")
            answered = counts.get("completed") if isinstance(counts, Mapping) else 0
            self._batches.show(batch.id, answered if isinstance(answered, int) else 0, total)
            await asyncio.sleep(wait)
            wait = min(1.5 * wait, POLL_MOST_S)
        return state

    def _keep(self, lines: Iterable[str]) -> list[DemurError]:
        """Keep the replies in some lines of results; returns the refusals of all calls among them."""
        refusals: list[DemurError] = []
        costs: list[tuple[SentCall, float | None]] = []
        for reply in keep_replies(self.ledger, lines, lambda _: self.client.price, self._endpoint):
            key, error = reply.call.key, reply.error
            if error is None:
                self._batches.meets(key)
                self.client.count(reply.answer)
            elif isinstance(error, ItemError):
                self._batches.fail(key, error)
            elif isinstance(error, PermanentError):
                refusals.append(error)
            else:
                self._batches.try_again([key], error.message)
            costs.append((reply.call, reply.cost))
        self._settle(costs)
        return refusals

    def _settle(self, costs: Iterable[tuple[SentCall, float | None]]) -> None:
        """Count what calls cost, in US dollars; None: nobody reported it, and what was reserved stays."""
        counts, known = self.client.counts, []
        for call, cost in costs:
            if cost is not None:
                known.append((call.reserved, cost))
            elif self.client.price is not None:
                counts.unreported += 1
            counts.money += call.reserved / 1e9 if cost is None else cost
        if self.client.budget is not None:
            self.client.budget.settle_batch(known)

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


class BatchReply(NamedTuple):
    """What a line of results says of a call."""

    batch: SentBatch
    call: SentCall
    answer: Response
    cost: float | None
    """US dollars; None if nobody reported it."""
    error: DemurError | None
    """Why there is no reply in the ledger."""


def keep_replies(
    ledger: Ledger,
    lines: Iterable[str],
    price_of: Callable[[str], Price | None],
    endpoint: Endpoint | None = None,
) -> list[BatchReply]:
    """Keep the replies in some lines of results; a line that answers nothing that was sent, or again, is left out.

    Args:
        lines: JSONL of OpenAI's batch API, or of ``vllm run-batch``.
        price_of: model id -> its price.
        endpoint: that was asked; reads refusals.
    """
    replies: dict[bytes, BatchReply] = {}
    entries: list[Entry] = []
    for line in lines:
        try:
            value = loose_json(line)
            key, response = bytes.fromhex(value["custom_id"]), value.get("response") or {}
            status, body = response.get("status_code"), response.get("body") or value.get("error")
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if key in replies or (sent := ledger.sent.find(key)) is None:
            continue
        raw, answer = json.dumps(body, ensure_ascii=False), Response()
        cost: float | None = 0.0
        error: DemurError | None = None
        if status == 200:
            try:
                answer, _ = wire.read_paid(raw, served_by=endpoint.name if endpoint else "batch")
                cost = cost_if_known(price_of(sent[0].model), answer.usage, "batch")
                entries.append(Entry.of(key, sent[0].model, sent[1].item, raw, answer, cost))
            except TransientError as fault:  # a broken reply was paid for
                cost, error = None, fault
        elif status and endpoint is not None:
            error = endpoint.refusal_in_batch(status, raw)
        else:
            error = TransientError(wire.error_message(raw))
        replies[key] = BatchReply(*sent, answer, cost, error)
    ledger.put(*entries)
    removed = {key for key, r in replies.items() if ledger.sent.remove_calls(r.batch.id, [key])}
    return [reply for key, reply in replies.items() if key in removed]


class ImportedReplies(NamedTuple):
    """What a file of results held."""

    replies: int
    """Replies that are in the ledger now."""
    failed: Mapping[str, int]
    """The most frequent reasons why calls have none -> their number."""
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
    price_of, failed, counts = Prices(prices).find, Counter[str](), Counter[str]()
    with (
        Ledger(file) as ledger,
        storage_errors(results),
        results.open(encoding="utf-8-sig", errors="replace") as lines,
    ):
        while part := [line for line in islice(lines, _AT_ONCE)]:
            replies = keep_replies(ledger, part, price_of)
            counts["unknown"] += sum(map(bool, map(str.strip, part))) - len(replies)
            failed.update(reply.error.message for reply in replies if reply.error)
            counts["replies"] += sum(reply.error is None for reply in replies)
            for label in {reply.batch.label for reply in replies}:
                budget = Budget(None, file, label)
                budget.settle_batch(
                    (reply.call.reserved, reply.cost or 0.0)
                    for reply in replies
                    if reply.batch.label == label
                )
                budget.close()
    return ImportedReplies(counts["replies"], dict(failed.most_common(3)), counts["unknown"])
