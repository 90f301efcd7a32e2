"""Many samples under way at once, each question bound to a gate only when that gate has a place free.

Which gate is best asked next is learnt while asking, and the more is known the better: so a question waits for a place
without a gate to its name, and is told which one at the last moment.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from demur.curation.funnel import Life, Probe, Stage
from demur.curation.gate import Label
from demur.errors import DemurError

LIVES_ALONGSIDE = 256
"""Samples under way at once: enough to keep every endpoint full."""
HURRY = 4.0
"""In a hurry a gate is good enough when an answer that settles a question is expected to cost that many times more."""

Choices = Callable[[], Sequence[str]]
"""Gates that a question may go to, the best first."""


class _Waiting(NamedTuple):
    choices: Choices
    names: Sequence[str]
    """What the choices were when the waiting began."""
    told: asyncio.Future[str]


class Slots:
    """Places at gates.

    Args:
        gates: names.
        each: places at each.
    """

    def __init__(self, gates: Iterable[str], each: int) -> None:
        self._free = dict.fromkeys(gates, each)
        self._queues: dict[str, deque[_Waiting]] = defaultdict(deque)
        """By the gate that was best; nobody waits for a gate that has a place free."""

    async def take(self, choices: Choices) -> str:
        """Wait for a place; the name of the gate that has it. It must be given back."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._place(choices, told)
        return await told

    def give_back(self, gate: str) -> None:
        """A place is free: for the one who has waited longest for this gate, else for one who can use it."""
        self._free[gate] += 1
        own = self._queues[gate]
        for _ in range(len(own)):
            if not self._free[gate]:
                return
            waiting = own.popleft()
            if not waiting.told.done():
                self._place(waiting.choices, waiting.told)
        for queue in list(self._queues.values()):
            for waiting in [w for w in queue if gate in w.names]:
                if not self._free[gate]:
                    return
                queue.remove(waiting)
                if not waiting.told.done():
                    self._place(waiting.choices, waiting.told)

    def _place(self, choices: Choices, told: asyncio.Future[str]) -> None:
        names = choices()
        for name in names:
            if self._free[name]:
                self._free[name] -= 1
                told.set_result(name)
                return
        self._queues[names[0]].append(_Waiting(choices, names if len(names) > 1 else (), told))


async def ask_lives(
    lives: Mapping[str, Life],
    tell: Callable[[str, Probe], Awaitable[Label]],
    slots: Slots,
    *,
    known: Callable[[str, Probe], Label | None] | None = None,
    stages: frozenset[Stage] = frozenset(Stage),
    hurry: bool = False,
) -> None:
    """Ask all that is still wanted in these stages; many samples are under way at once, and none waits for others.

    Args:
        lives: by sample.
        tell: asks a gate about a sample.
        slots: places at the gates.
        known: the label of a probe that need not be asked; None where it must. Such labels are used first.
        stages: that may be asked.
        hurry: keep every endpoint busy: a question whose best gate has no place free goes to another one that is good
            enough (`HURRY`), for some answers that the best one would have made unneeded.

    Raises:
        DemurError: what ended it (a budget, a wrong key, a dead gate); the calls in flight have come home first.
    """

    async def one(sample: str, probe: Probe) -> None:
        life = lives[sample]
        if known is not None:
            await asyncio.sleep(
                0
            )  # thousands of verdicts that are known: whoever waits for a reply gets a turn between
            for name in life.unasked(probe):
                label = known(sample, probe._replace(gate=name))
                if label is not None:
                    life.tell(probe._replace(gate=name), label)
                    return
        gate = await slots.take(lambda: life.choices(probe, HURRY if hurry else 1.0))
        bound = probe._replace(gate=gate)
        try:
            life.tell(bound, await tell(sample, bound))
        finally:
            slots.give_back(gate)

    async def live(sample: str) -> None:
        while wanted := [p for p in lives[sample].wanted() if p.stage in stages]:
            await together([one(sample, probe) for probe in wanted])

    await at_once([lambda i=i: live(i) for i in lives], LIVES_ALONGSIDE)  # type: ignore[misc]


async def together(work: Sequence[Awaitable[None]]) -> None:
    """Await all of them; what the first failure raised is raised when every one has ended."""
    if len(work) == 1:
        await work[0]
        return
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def at_once(work: Sequence[Callable[[], Awaitable[None]]], most: int) -> None:
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
        told = [e for e in failed if isinstance(e, DemurError)]
        raise (told or failed)[0]
