"""Grading answers outside a run: the ask that a judge gets, and many verdicts at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from demur.core.records import Ask, Scenario

T = TypeVar("T")


def ask_of(id: str, question: str, **more: Any) -> Ask:
    """A question without evidence; ``more`` are further fields, such as images and choices."""
    return Ask(
        id=id,
        sample=more.pop("sample", id),
        context="",
        scenario=Scenario.PARAMETRIC,
        question=question,
        **more,
    )


async def at_once(
    work: Sequence[Coroutine[Any, Any, T]],
    most: int,
    progress: Callable[[int], None] = lambda n: None,
) -> list[T]:
    """Results in the order of the work, at most ``most`` at a time; raises what ends all of it, such as a wrong key.

    Args:
        work: coroutines.
        most: how many run at a time.
        progress: called with the number of those done.
    """
    free, done = asyncio.Semaphore(most), 0

    async def one(job: Coroutine[Any, Any, T]) -> T:
        nonlocal done
        async with free:
            found = await job
        done += 1
        progress(done)
        return found

    try:
        async with asyncio.TaskGroup() as tasks:
            several = [tasks.create_task(one(job)) for job in work]
    except* Exception as errors:
        raise errors.exceptions[0] from None
    finally:
        for job in work:
            job.close()
    return [task.result() for task in several]
