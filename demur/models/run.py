"""Many requests to one model: in any number, in constant memory, none lost.

A chunk of requests is looked up in the ledger in one query, what is there is handed on at once, and the rest is
put in an order that shares prompt prefixes and given to as many workers as the model takes calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar, cast

from demur.core.errors import CallError, ItemError, PermanentError, TransientError
from demur.core.progress import counting
from demur.core.records import Request, Response
from demur.models.client import GRACE_S, Counts, Model, summary
from demur.models.identity import prefix_of

_CHUNK = 512
"""Requests looked up and ordered at a time."""

T = TypeVar("T")


class _Run:
    """The state that the workers and the consumer of one `complete_all` share."""

    def __init__(self, model: Model, hopeless_after: int) -> None:
        self.model = model
        self.pending: deque[Request] = deque()
        self.done: deque[tuple[Request, Response]] = deque()
        self.stop: BaseException | None = None
        self.ended = False
        self.busy = 0
        self.hopeless_after = hopeless_after
        self.failures_in_a_row = 0
        self.more = asyncio.Event()
        """Set when there is work, or when there will be no more."""
        self.news = asyncio.Event()
        """Set when there is a result, an end, or a worker without work."""

    async def work(self) -> None:
        """Take requests until there are no more."""
        while self.stop is None:
            if not self.pending:
                self.news.set()
                if self.ended:
                    return
                self.more.clear()
                await self.more.wait()
                continue
            request = self.pending.popleft()
            self.busy += 1
            try:
                response = await self.model.complete(request)
                self.failures_in_a_row = 0
            except (ItemError, TransientError) as error:
                response = Response(error=str(error))
                self._note_failure(error)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # a permanent refusal, the budget, the disk, or a bug: all stop the run
                self.stop = self.stop or error
                return
            finally:
                self.busy -= 1
                self.news.set()
            self.done.append((request, response))

    def _note_failure(self, error: CallError) -> None:
        self.failures_in_a_row += 1
        if self.failures_in_a_row >= self.hopeless_after and self.stop is None:
            self.stop = PermanentError(
                f"the last {self.failures_in_a_row} calls all failed; the last: {error.message}",
                cure=error.cure or "check the model and run the same command again: replies already had are kept",
            )


def _peek(model: Model, requests: Sequence[Request]) -> list[Response | None]:
    peek = getattr(model, "peek", None)
    return [None] * len(requests) if peek is None else cast("list[Response | None]", peek(requests))


async def complete_all(
    model: Model,
    requests: Iterable[Request],
    *,
    on_done: Callable[[Request, Response], None] | None = None,
    progress: str | None = None,
    total: int | None = None,
    hopeless_after: int = 100,
    grace_s: float = GRACE_S,
) -> AsyncIterator[tuple[Request, Response]]:
    """Every request with its reply, in the order in which replies come; memory does not grow with their number.

    A request that fails for good comes back with ``Response.error`` set. What no request can survive (a wrong
    key, an unknown model, a reached budget, a full disk) is raised, after the replies that were under way. Those that
    are still under way when the caller leaves, or is cancelled, are kept when the model is closed (`open_model`).

    Args:
        model: from `open_model`, or anything with ``complete``; its ``concurrency`` (default 8) calls run at once.
        requests: taken as needed, a few hundred ahead.
        on_done: called with each pair before it is yielded.
        progress: label of a progress line on standard error; None shows none.
        total: how many requests there are, for the estimate; known by itself for a list.
        hopeless_after: failed calls in a row, with not one reply between, that end the run.
        grace_s: seconds that calls under way may still take when the run ends by an error.

    Yields:
        (request, response), each request once.

    Raises:
        PermanentError: no request will be answered, or too many failed in a row.
        BudgetReached: the budget leaves no room for another call.
        StorageError: replies cannot be kept.
    """
    concurrency = int(getattr(model, "concurrency", 8))
    loop, until = asyncio.get_running_loop(), 0.0
    source = iter(requests)
    run = _Run(model, hopeless_after)
    size = total if total is not None else len(requests) if isinstance(requests, Sized) else None
    chunk = max(_CHUNK, 2 * concurrency)
    workers: list[asyncio.Task[None]] = []
    counts: Counts | None = getattr(model, "counts", None)
    with counting(progress or "", size, progress is not None, lambda: summary([counts] if counts else [])) as count:
        try:
            while True:
                if not run.ended and run.stop is None and len(run.pending) < concurrency:
                    batch = list(islice(source, chunk))
                    run.ended = len(batch) < chunk
                    missing = []
                    for request, reply in zip(batch, _peek(model, batch), strict=True):
                        if reply is None:
                            missing.append(request)
                        else:
                            run.done.append((request, reply))
                    missing.sort(key=prefix_of)
                    # two processes on one ledger begin at different places, and meet each other's replies later
                    start = os.getpid() * 2654435761 % len(missing) if missing else 0
                    run.pending.extend(missing[start:] + missing[:start])
                    while len(workers) < min(concurrency, run.busy + len(run.pending)):
                        workers.append(asyncio.create_task(run.work()))
                    run.more.set()
                    await asyncio.sleep(0)  # calls under way get their turn between chunks that were all kept
                while run.done:
                    request, response = run.done.popleft()
                    count.advance(1, 0 if counts else bool(response.error))
                    if on_done is not None:
                        on_done(request, response)
                    yield request, response
                if run.stop is not None and not run.done:
                    until = until or loop.time() + grace_s
                    if not run.busy or loop.time() >= until:
                        raise run.stop
                if run.ended and not run.pending and not run.busy and not run.done:
                    return
                if not run.done and (run.ended or run.stop is not None or len(run.pending) >= concurrency):
                    run.news.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(run.news.wait(), until - loop.time() if until else None)
        finally:
            run.ended = True
            run.more.set()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from ordinary code, also where an event loop is already running (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_quiet_at_ctrl_c(work))
    result: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            result.append(asyncio.run(work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="demur-calls")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


async def _quiet_at_ctrl_c(work: Coroutine[Any, Any, T]) -> T:
    """A second Ctrl-C is raised in whatever task happens to run, whose exception nobody asks for: no traceback then."""

    def told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(told)
    return await work


def complete_sync(model: str | Sequence[str], requests: Sequence[Request], **options: Any) -> list[Response]:
    """Replies to a list of requests, in its order, without ``await``: for scripts and notebooks.

    Args:
        model: model string or strings, as `demur.models.open_model` takes them.
        requests: what to ask.
        options: those of `demur.models.open_model`, and ``progress``.

    Returns:
        One response per request; failed ones have ``error`` set.

    Raises:
        DemurError: as `complete_all`.
    """
    from demur.models.names import open_model

    label = options.pop("progress", None)

    async def work() -> list[Response]:
        replies: list[Response | None] = [None] * len(requests)
        places: dict[int, deque[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(id(request), deque()).append(place)
        async with open_model(model, **options) as client:
            async for request, response in complete_all(client, requests, progress=label):
                replies[places[id(request)].popleft()] = response
        return cast("list[Response]", replies)

    return run_sync(work())


def by_prefix(requests: Iterable[Request], window: int = 4096) -> Iterator[Request]:
    """Requests in an order in which those that begin alike follow each other, ``window`` at a time.

    Servers with a prefix cache (vLLM, llama.cpp, the vendors) then compute a shared beginning once. `complete_all`
    does this for the requests that it has to send; use it to order work before it is cut into pieces.

    >>> from demur.core.records import Message, TextPart
    >>> def ask(*texts):
    ...     return Request(model="m", messages=(Message(role="user", parts=tuple(TextPart(text=t) for t in texts)),))
    >>> [r.messages[0].parts[0].text for r in by_prefix([ask("b", "1"), ask("a", "1"), ask("b", "2")])]
    ['a', 'b', 'b']
    """
    source = iter(requests)
    while batch := list(islice(source, window)):
        yield from sorted(batch, key=prefix_of)
