"""Many requests to one model: any number, in constant memory, each answered once.

`complete_all` looks up a chunk of requests in the ledger with one query and yields the replies that are there. It sorts
the rest so that requests with a common prompt prefix follow each other, and gives them to as many workers as the model
takes calls.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import Any, TypeVar

from demur.core.errors import ItemError, PermanentError, TransientError
from demur.core.progress import counting
from demur.core.records import Request, Response
from demur.models.client import GRACE_S, USUAL, Counts, Model, ModelOptions, summary
from demur.models.identity import prefix_of

_CHUNK = 512
"""Requests looked up and sorted at a time."""

T = TypeVar("T")


class _Run:
    """The state that the workers and the consumer of one `complete_all` share."""

    def __init__(self, model: Model, hopeless_after: int) -> None:
        self.model, self.hopeless_after = model, hopeless_after
        self.pending: asyncio.Queue[Request] = asyncio.Queue()
        self.done: asyncio.Queue[tuple[Request, Response] | None] = asyncio.Queue()
        """Results; None for a request whose error ended the run."""
        self.unfinished = 0
        """Requests that are pending or in progress."""
        self.stop: BaseException | None = None
        self.failures_in_a_row = 0

    async def work(self) -> None:
        """Take requests until cancelled."""
        while True:
            request = await self.pending.get()
            result = None
            try:
                result = request, await self.model.complete(request)
                self.failures_in_a_row = 0
            except (ItemError, TransientError) as error:
                result = request, Response(error=str(error))
                self.failures_in_a_row += 1
                if self.failures_in_a_row >= self.hopeless_after:
                    self._end(
                        PermanentError(
                            f"the last {self.failures_in_a_row} calls all failed; the last: {error.message}",
                            cure=error.cure
                            or "check the model and run the same command again: replies are kept",
                        )
                    )
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # a permanent refusal, the budget, the disk, or a bug
                self._end(error)
            self.unfinished -= 1
            self.done.put_nowait(result)

    def _end(self, error: BaseException) -> None:
        """Start no further calls; the first error counts."""
        self.stop = self.stop or error
        while not self.pending.empty():
            self.pending.get_nowait()
            self.unfinished -= 1


async def complete_all(
    model: Model,
    requests: Iterable[Request],
    *,
    progress: str | None = None,
    hopeless_after: int = 100,
) -> AsyncIterator[tuple[Request, Response]]:
    """Every request with its reply, in the order in which replies arrive; memory does not grow with their number.

    A request that fails for good has a response with ``error``. An error that concerns all requests (a wrong key, an
    unknown model, an exhausted budget, a full disk) is raised after the replies in progress. If the caller leaves or is
    cancelled, `open_model` keeps the replies in progress when it closes the model.

    Args:
        model: from `open_model`, or anything with ``complete``; its ``concurrency`` (default 8) calls run at once.
        requests: taken as needed, a few hundred ahead.
        progress: label of a progress line on standard error; None shows none.
        hopeless_after: consecutive failed calls that end the run.

    Yields:
        (request, response), each request once.

    Raises:
        PermanentError: no request will be answered, or too many failed in a row.
        BudgetReached: the budget leaves no room for another call.
        StorageError: replies cannot be written.
    """
    concurrency = int(getattr(model, "concurrency", 8))
    peek: Callable[[Sequence[Request]], list[Response | None]] = getattr(
        model, "peek", lambda requests: [None] * len(requests)
    )
    clock, deadline = asyncio.get_running_loop().time, 0.0
    source, ended = iter(requests), False
    run = _Run(model, hopeless_after)
    size = len(requests) if isinstance(requests, Sized) else None
    chunk = max(_CHUNK, 2 * concurrency)
    workers: list[asyncio.Task[None]] = []
    counts: Counts | None = getattr(model, "counts", None)
    with counting(
        progress or "", size, progress is not None, lambda: summary([counts] if counts else [])
    ) as count:
        try:
            while True:
                ready: list[tuple[Request, Response]] = []
                if not ended and run.stop is None and run.pending.qsize() < concurrency:
                    batch = list(islice(source, chunk))
                    ended = len(batch) < chunk
                    missing = []
                    for request, reply in zip(batch, peek(batch), strict=True):
                        if reply is None:
                            missing.append(request)
                        else:
                            ready.append((request, reply))
                    missing.sort(key=prefix_of)
                    # two processes on one ledger start at different places, and meet each other's replies later
                    start = os.getpid() * 2654435761 % len(missing) if missing else 0
                    for request in missing[start:] + missing[:start]:
                        run.pending.put_nowait(request)
                    run.unfinished += len(missing)
                    while len(workers) < min(concurrency, run.unfinished):
                        workers.append(asyncio.create_task(run.work()))
                    await asyncio.sleep(
                        0
                    )  # calls in progress get their turn between chunks of kept replies
                elif run.unfinished or not run.done.empty():
                    if run.stop is not None:
                        deadline = deadline or clock() + GRACE_S
                    try:
                        async with asyncio.timeout_at(deadline or None):
                            result = await run.done.get()
                    except TimeoutError:
                        break
                    ready = [] if result is None else [result]
                else:
                    break
                for request, response in ready:
                    count.advance(1, 0 if counts else bool(response.error))
                    yield request, response
            if run.stop is not None:
                raise run.stop
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from ordinary code, also where an event loop is already running (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_quiet_at_ctrl_c(work))
    thread = ThreadPoolExecutor(1, thread_name_prefix="demur-calls")
    try:
        return thread.submit(copy_context().run, asyncio.run, work).result()
    finally:
        thread.shutdown(wait=False)


async def _quiet_at_ctrl_c(work: Coroutine[Any, Any, T]) -> T:
    """A second Ctrl-C may be raised in a task whose exception nobody retrieves: print no traceback for it."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
    return await work


def complete_sync(
    model: str | Sequence[str],
    requests: Sequence[Request],
    options: ModelOptions = USUAL,
    *,
    progress: str | None = None,
) -> list[Response]:
    """Replies to a list of requests, in its order, without ``await``: for scripts and notebooks.

    Args:
        model: model string or strings, as for `demur.models.open_model`.
        requests: what to ask.
        options: as for `demur.models.open_model`.
        progress: as for `complete_all`.

    Returns:
        One response per request; failed ones have ``error`` set.

    Raises:
        DemurError: as `complete_all`.
    """
    from demur.models.names import open_model

    async def work() -> list[Response]:
        replies: dict[int, Response] = {}
        copies = [
            request.model_copy() for request in requests
        ]  # a request may be in the list twice
        async with open_model(model, options) as client:
            async for request, response in complete_all(client, copies, progress=progress):
                replies[id(request)] = response
        return [replies[id(request)] for request in copies]

    return run_sync(work())
