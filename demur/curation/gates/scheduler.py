"""The gate scheduler: many samples in progress at once, none of which waits for another; or all of them in waves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.core.errors import DemurError
from demur.core.store import canonical, read_text, write_atomic
from demur.core.strict_json import parsed_json
from demur.curation.gates.funnel import GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label
from demur.models.batch import in_waves

MAX_IN_FLIGHT = 64
"""Samples in progress at once: enough to keep endpoints busy, few enough that most are asked in a learnt order."""
GOOD_ENOUGH = 4.0
"""With ``--hurry``, a question may go to a gate whose expected cost per settled question is up to this many times the
least."""


async def ask_states(
    states: Mapping[str, SampleState],
    ask: Callable[[str, GateQuery], Awaitable[Label]],
    *,
    known_label: Callable[[str, GateQuery], Label | None] | None = None,
    stages: frozenset[Stage] = frozenset(Stage),
    is_busy: Callable[[str], bool] | None = None,
    max_in_flight: int = MAX_IN_FLIGHT,
) -> None:
    """Ask everything that is still wanted in these stages.

    Args:
        ask: asks a gate about a sample, when the gate has a free slot.
        known_label: returns the label of a query that need not be asked, else None. These labels are used first.
        is_busy: whether a gate has no free slot. When given, a question whose best gate is busy goes to another one
            that is free and within `GOOD_ENOUGH`: every endpoint stays busy, for a few more calls.

    Raises:
        DemurError: what ended the work (a budget, a wrong key, a dead gate), after the calls in flight have returned.
    """

    def bind(state: SampleState, query: GateQuery) -> GateQuery:
        names = state.choices(query, GOOD_ENOUGH if is_busy else 1.0)
        return query._replace(gate=next((n for n in names if is_busy and not is_busy(n)), names[0]))

    async def ask_one(sample: str, query: GateQuery) -> None:
        state = states[sample]
        if known_label is not None:
            await asyncio.sleep(
                0
            )  # let waiting replies be handled between thousands of known verdicts
            for name in state.choices(query, within=math.inf):
                if (label := known_label(sample, query._replace(gate=name))) is not None:
                    state.tell(query._replace(gate=name), label)
                    return
        bound = bind(state, query)
        state.tell(bound, await ask(sample, bound))

    async def finish_sample(sample: str) -> None:
        while wanted_queries := [q for q in states[sample].wanted() if q.stage in stages]:
            for result in await asyncio.gather(
                *(ask_one(sample, q) for q in wanted_queries), return_exceptions=True
            ):
                if isinstance(result, BaseException):
                    raise result

    await at_once([lambda i=i: finish_sample(i) for i in states], max_in_flight)  # type: ignore[misc]


async def ask_in_waves(
    states: Mapping[str, SampleState],
    ask: Callable[[str, GateQuery], Coroutine[Any, Any, Label]],
    plan: Path,
    *,
    known_label: Callable[[str, GateQuery], Label | None],
    stages: frozenset[Stage] = frozenset(Stage),
) -> int:
    """As `ask_states`, in few waves of many questions (`SampleState.wave`): for calls that go in batches.

    Args:
        plan: file of the wave that is being asked; a killed build asks the same wave to its end, as it is paid for.

    Returns:
        The number of waves.
    """
    waves = 0

    def tell_known(sample: str, state: SampleState) -> None:
        options = [
            query._replace(gate=name)
            for query in state.wanted()
            if query.stage in stages
            for name in state.choices(query, within=math.inf)
        ]
        known = {query: known_label(sample, query) for query in options}
        for query, label in known.items():
            if label is not None:
                state.tell(query, label)
        if any(label is not None for label in known.values()):
            tell_known(sample, state)

    for sample, state in states.items():
        tell_known(sample, state)
    begun = [(s, q) for s, q in _read_wave(plan) if s in states and q.stage in stages]
    wave = [(s, q) for s, q in begun if q in states[s].all_queries() and q not in states[s].labels]
    while wave := wave or [(s, q) for s in states for q in states[s].wave() if q.stage in stages]:
        waves += 1
        _write_wave(plan, wave)
        labels = await in_waves(lambda query: ask(*query), wave, MAX_IN_FLIGHT)
        for (sample, query), label in zip(wave, labels, strict=True):
            states[sample].tell(query, label)
        wave = []
    return waves


def _write_wave(plan: Path, wave: Iterable[tuple[str, GateQuery]]) -> None:
    write_atomic(plan, "".join(canonical([sample, *query]) + "\n" for sample, query in wave))


def _read_wave(plan: Path) -> Iterator[tuple[str, GateQuery]]:
    for line in read_text(plan).splitlines() if plan.exists() else ():
        sample, gate, stage, distractor = parsed_json(line)
        yield sample, GateQuery(gate, Stage(stage), distractor)


async def at_once(work: Sequence[Callable[[], Awaitable[None]]], most: int = MAX_IN_FLIGHT) -> None:
    """Run jobs, ``most`` at a time. After a failure no job starts; it is raised when the running ones have ended."""
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
