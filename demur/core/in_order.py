"""Work on many items at once, with the results in the order of the items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def map_in_order(
    work: Callable[[T], Coroutine[Any, Any, R]],
    items: Iterable[T],
    max_in_flight: int,
) -> list[R]:
    """The results of ``work`` in the order of the items; the first exception cancels the rest and is raised."""
    free = asyncio.Semaphore(max_in_flight)
    running: list[asyncio.Task[R]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                await free.acquire()
                running.append(group.create_task(work(item)))
                running[-1].add_done_callback(lambda _: free.release())
    except* Exception as errors:  # the group wraps the exception
        raise errors.exceptions[0] from None
    return [task.result() for task in running]
