"""The gate scheduler: many samples under way at once, none of which waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from demur.core.errors import DemurError
from demur.curation.gates.funnel import GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label

MAX_IN_FLIGHT = 64
"""Samples under way at once: enough to keep endpoints full, few enough that most are asked in a learnt order."""
GOOD_ENOUGH = 4.0
"""In a hurry, another gate does whose settling answer is expected to cost at most that many times more."""


async def ask_states(
    states: Mapping[str, SampleState],
    ask: Callable[[str, GateQuery], Awaitable[Label]],
    *,
    known: Callable[[str, GateQuery], Label | None] | None = None,
    stages: frozenset[Stage] = frozenset(Stage),
    is_busy: Callable[[str], bool] | None = None,
    max_in_flight: int = MAX_IN_FLIGHT,
) -> None:
    """Ask all that is still wanted in these stages.

    Args:
        ask: asks a gate about a sample, once the gate has a place free.
        known: the label of a query that need not be asked; None where it must. Such labels are used first.
        is_busy: whether a gate has no place free. Given, a question whose best gate is busy goes to another that is
            free and good enough (`GOOD_ENOUGH`): every endpoint stays busy, for some more answers.

    Raises:
        DemurError: what ended it (a budget, a wrong key, a dead gate); the calls in flight have come home first.
    """

    def bind(state: SampleState, query: GateQuery) -> GateQuery:
        names = state.choices(query, GOOD_ENOUGH if is_busy else 1.0)
        return query._replace(gate=next((n for n in names if is_busy and not is_busy(n)), names[0]))

    async def one(sample: str, query: GateQuery) -> None:
        state = states[sample]
        if known is not None:
            await asyncio.sleep(0)  # thousands of known verdicts: whoever waits for a reply gets a turn between
            for name in state.unasked(query):
                if (label := known(sample, query._replace(gate=name))) is not None:
                    state.tell(query._replace(gate=name), label)
                    return
        bound = bind(state, query)
        state.tell(bound, await ask(sample, bound))

    async def whole(sample: str) -> None:
        while wanted := [q for q in states[sample].wanted() if q.stage in stages]:
            for result in await asyncio.gather(*(one(sample, q) for q in wanted), return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

    await at_once([lambda i=i: whole(i) for i in states], max_in_flight)  # type: ignore[misc]


async def at_once(work: Sequence[Callable[[], Awaitable[None]]], most: int = MAX_IN_FLIGHT) -> None:
    """Run jobs, ``most`` at a time; after a failure no new one begins, and it is raised when those begun have ended."""
    todo = iter(work)
    failed: list[Exception] = []

    async def worker() -> None:
        for job in todo:
            if failed:
                return
            try:
                await job()
            except Exception as error:
                failed.append(error)

    await asyncio.gather(*(worker() for _ in range(min(most, len(work)))))
    if failed:
        raise next((e for e in failed if isinstance(e, DemurError)), failed[0])
