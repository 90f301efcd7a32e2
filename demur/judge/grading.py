"""A judge behind a door: whatever it is and does, each item ends with a verdict that can be kept.

A stranger's judge may raise anything, return anything, or never return: that is one item that is *unjudged*, with the
reason, and never a grade or the end of a run. What raises a `demur.core.errors.DemurError` ends it: an endpoint that is
gone, a budget that is spent.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

from demur.core.errors import DemurError
from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Status, Verdict
from demur.core.store import unstorable
from demur.judge.base import Judge

LIMIT_S = 120.0
"""Seconds of one item, after which a plain judge is given up. The local judge takes time that grows
with the reply, and milliseconds. An async judge has the limits of what it awaits.

Python cannot end a thread: the one that is given up goes on in the background until its call returns, and does not
keep the process alive. A call that holds the interpreter (a regular expression that never ends) cannot be watched from
within its process at all.
"""


class Grading:
    """Verdicts of one judge, from one thread: a judge need not know of threads.

    Args:
        judge: who grades.
        limit_s: seconds for one item.
    """

    def __init__(self, judge: Judge, limit_s: float = LIMIT_S) -> None:
        self._judge, self._limit_s = judge, limit_s
        self._turn = asyncio.Semaphore(1)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] | None = None

    async def verdict(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; unjudged where the judge gave none.

        Raises:
            DemurError: as the judge raises it.
        """
        if response.abstained and not response.error:
            reason = "the system itself says that it gives no answer"
            return Verdict(
                id=ask.id,
                status=Status.GRADED,
                outcome=Outcome.DEFLECTED,
                method=Method.DECLINED,
                reason=reason,
                judge=self._judge.id,
            )
        try:
            async with self._turn:
                ended, result = await self._call(ask, response, answers)
            if not ended:
                return self._unjudged(ask, f"the judge took longer than {self._limit_s:g} s")
            if isinstance(result, BaseException):
                raise result
            if inspect.isawaitable(result):
                result = await result
        except DemurError:
            raise
        except Exception as error:
            return self._unjudged(ask, f"the judge raised {type(error).__name__}: {error}")
        if not isinstance(result, Verdict):
            return self._unjudged(ask, f"the judge returned {type(result).__name__}, not a verdict")
        if why := unstorable(result):
            return self._unjudged(ask, f"the judge's verdict cannot be kept, {why}")
        return result

    def _unjudged(self, ask: Ask, why: str) -> Verdict:
        reason = " ".join(why.encode("utf-8", "replace").decode().split())[:300]
        return Verdict(id=ask.id, status=Status.UNJUDGED, reason=reason, judge=self._judge.id)

    async def _call(self, ask: Ask, response: Response, answers: AnswerSpec) -> tuple[bool, Any]:
        """Whether it ended in time, and what it returned, or raised."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any) -> None:
            if not outcome.done():
                outcome.set_result(result)
            else:
                _close_unawaited(result)

        def job() -> None:
            try:
                result: Any = self._judge.grade(ask, response, answers)
            except BaseException as error:
                result = (
                    error
                    if isinstance(error, Exception)
                    else RuntimeError(f"it raised {type(error).__name__}")
                )
            try:
                loop.call_soon_threadsafe(settle, result)
            except RuntimeError:  # the loop is gone: nobody waits any more
                _close_unawaited(result)

        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._jobs,), name="demur judge", daemon=True
            ).start()
        self._jobs.put(job)
        try:
            return True, await asyncio.wait_for(outcome, self._limit_s)
        except TimeoutError:
            self.close()  # its thread ends when the call does; the next item gets another
            return False, None
        except asyncio.CancelledError:
            if outcome.done() and not outcome.cancelled():
                _close_unawaited(outcome.result())
            raise

    def close(self) -> None:
        """Let the thread end, when its call has returned."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _close_unawaited(result: Any) -> None:
    """Close a verdict that would have been awaited, and is not wanted any more."""
    if inspect.iscoroutine(result):
        result.close()


def _serve(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
