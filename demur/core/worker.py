"""An event loop on a thread of its own, for what computes: whoever computes on the main loop holds up every reply,
time-out and connection of everybody else.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

ASYNC = 8
"""Calls of an async function at once, where nobody says otherwise."""


class Worker:
    """Runs coroutines, all on one thread; the thread begins with the first and does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and await its end, from any thread; cancelled here, it is cancelled there."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self.name, daemon=True)
                self._thread.start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def close(self) -> None:
        """End the thread, when what runs on it has come to its next await."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        while thread.is_alive():  # a join would hold up the loop that this is called from
            await asyncio.sleep(0.005)


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
    """Whether calling it gives something to await: an async function, or an instance with an async ``__call__``."""
    inner = getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner)


class Calls:
    """Calls of a user's function, plain or async: never on the loop that asks, and never more at once than agreed.

    A plain function runs on one thread, one call after another, unless more were agreed: code that was not written for
    threads (a cache filled as it goes, a client that is shared) then answers the same every time. An async one runs on
    one thread too, and its calls alternate wherever it awaits.

    Args:
        function: called with one argument.
        most: calls at once; None for what the function says in its attribute ``concurrency``, else 1 for a plain
            function and 8 for an async one.
        name: of its threads.
    """

    def __init__(self, function: Callable[[Any], Any], most: int | None, name: str) -> None:
        self.awaits = is_async(function)
        said = most if most is not None else getattr(function, "concurrency", None)
        self.most = said if isinstance(said, int) and said > 0 else ASYNC if self.awaits else 1
        self._function, self._name = function, name
        self._slots = asyncio.Semaphore(self.most)
        self._worker = Worker(name)
        self._threads: ThreadPoolExecutor | None = None

    async def call(self, argument: Any) -> Any:
        """What the function returns; it may raise anything."""
        async with self._slots:
            if self.awaits:
                return await self._worker.run(self._function(argument))
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.most, thread_name_prefix=self._name)
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._function, argument)
            return await self._worker.run(answer) if inspect.iscoroutine(answer) else answer

    async def close(self) -> None:
        """Let its threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        await self._worker.close()
