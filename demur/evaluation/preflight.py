"""Before anything is computed or paid: can everybody who will be asked be asked?"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Mapping, Sequence

from demur.core.errors import CallError, DemurError
from demur.core.records import Ask
from demur.judge.base import Judge
from demur.models.run import run_sync
from demur.scenarios.systems import System


async def preflight(
    systems: Mapping[str, System | Judge], asks: Sequence[Ask] = (), *, perhaps: Collection[str] = ()
) -> list[str]:
    """Ask every system whether it is ready: endpoints are connected to, files of answers compared with the questions.

    Args:
        systems: by what they are called.
        asks: all that they will be asked; empty where that is not known yet.
        perhaps: those that may have nothing left to be asked, as their answers were kept: that nobody answers for one
            of these is a warning. (The server of an old gate need not run for a rebuild.)

    Returns:
        Warnings, each beginning with the system's name.

    Raises:
        DemurError: some cannot be asked; the first one's error, the others in its message.
    """

    async def one(name: str, system: System | Judge) -> list[str] | DemurError:
        ready = getattr(system, "ready", None)
        if ready is None:
            return []
        try:
            return [f"{name}: {line}" for line in await ready(asks)]
        except CallError as error:
            return [f"{name}: {error.message}; what it answered before is used"] if name in perhaps else error
        except DemurError as error:
            return error

    found = await asyncio.gather(*(one(name, system) for name, system in systems.items()))
    wrong = {name: e for name, e in zip(systems, found, strict=True) if isinstance(e, DemurError)}
    if wrong:
        (name, first), *others = wrong.items()
        raised = copy.copy(first)
        raised.message += "".join(f"; and {other}: {error}" for other, error in others)
        raised.item = f"{name}: {first.item}" if first.item and first.item not in name else name
        raise raised
    return [line for lines in found if not isinstance(lines, DemurError) for line in lines]


def require_ready(
    systems: Mapping[str, System], asks: Sequence[Ask], judges: Mapping[str, Judge] | None = None
) -> list[str]:
    """`preflight` from ordinary code, of those who grade too; where somebody cannot be asked, everybody is closed."""

    async def work() -> list[str]:
        try:
            return await preflight({**systems, **(judges or {})}, asks)
        except BaseException:
            for system in systems.values():
                await system.close()
            raise

    return run_sync(work())
