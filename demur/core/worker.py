"""Run a user's code on other threads: on the main event loop it would delay all replies, time-outs and connections."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

ASYNC = 8
"""Default for the concurrent calls of an async function."""

_STOPS = (SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration)
"""Raised in a call, these would end an event loop, or be held by no future: the caller would end too, or wait for ever.
A real Ctrl-C is raised in the main thread."""


class Worker:
    """Runs coroutines on one daemon thread with its own event loop; it starts with the first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and await its result, from any thread; cancelling this cancels it there."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self.name, daemon=True
                )
                self._thread.start()
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(_contained(work), self._loop)
        )

    async def close(self) -> None:
        """End the thread at the next await of its coroutines."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        while thread.is_alive():  # a join would block the caller's event loop
            await asyncio.sleep(0.005)


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except _STOPS as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # its caller has left
        raise RuntimeError(f"it raised {error!r}") from error


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns an awaitable: an async function, or an instance with an async ``__call__``."""
    inner = getattr(function, "__call__", None)  # noqa: B004 - we need the method itself
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner)


class Calls:
    """Calls of a user's function, plain or async, outside the caller's event loop and with limited concurrency.

    By default a plain function runs on one thread, one call after another, so that code that is not thread-safe (it
    fills a cache, or shares a client) works. The calls of an async function share one thread and alternate at its
    awaits.

    Args:
        function: called with one argument.
        most: concurrent calls; None: the function's attribute ``concurrency``, else 1 for a plain function and 8 for an
            async one.
        name: of its threads.
    """

    def __init__(self, function: Callable[[Any], Any], most_at_once: int | None, name: str) -> None:
        self.awaits = is_async(function)
        concurrency = (
            most_at_once if most_at_once is not None else getattr(function, "concurrency", None)
        )
        self.most = (
            concurrency
            if isinstance(concurrency, int) and concurrency > 0
            else ASYNC
            if self.awaits
            else 1
        )
        self._function, self._name = function, name
        self._slots = asyncio.Semaphore(self.most)
        self._worker = Worker(name)
        self._threads: ThreadPoolExecutor | None = None

    async def call(self, argument: Any) -> Any:
        """The function's result; raises whatever it raises."""
        async with self._slots:
            if self.awaits:
                return await self._worker.run(self._function(argument))
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.most, thread_name_prefix=self._name)
            answer = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._answer, argument
            )
            return await self._worker.run(answer) if inspect.iscoroutine(answer) else answer

    def _answer(self, argument: Any) -> Any:
        try:
            return self._function(argument)
        except _STOPS as error:
            raise RuntimeError(f"it raised {error!r}") from error

    async def close(self) -> None:
        """End its threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        await self._worker.close()
