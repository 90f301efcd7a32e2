"""Checks every system and judge before anything is computed or paid."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence

from demur.core.errors import CallError, Deferred, DemurError
from demur.core.records import Ask
from demur.judge.base import Judge
from demur.models.batch import batches_of_command
from demur.scenarios.systems import System


async def preflight(
    systems: Mapping[str, System | Judge],
    asks: Sequence[Ask] = (),
    *,
    stored: Callable[[str], bool] = lambda name: False,
) -> list[str]:
    """Check that every system is ready: connects to endpoints, compares files of answers with the questions.

    Args:
        systems: by name.
        asks: all questions; empty if not known yet.
        stored: whether all answers of the system of this name may be stored; called if it is unreachable, which then is
            only a warning. (The server of an old gate need not run for a rebuild.)

    Returns:
        Warnings, each with the system's name first.

    Raises:
        DemurError: a system is not ready; the message also has the errors of others.
    """

    async def check(name: str, system: System | Judge) -> list[str] | DemurError:
        ready = getattr(system, "ready", None)
        if ready is None:
            return []
        try:
            return [f"{name}: {line}" for line in await ready(asks)]
        except Deferred:  # it asks in the first wave
            return []
        except CallError as error:
            batches = batches_of_command()
            if batches is not None and batches.file is not None:
                return [f"{name}: {error.message}; its calls are written"]
            return (
                [f"{name}: {error.message}; its stored answers are used"] if stored(name) else error
            )
        except DemurError as error:
            return error

    results = await asyncio.gather(*(check(name, system) for name, system in systems.items()))
    errors = {
        name: e for name, e in zip(systems, results, strict=True) if isinstance(e, DemurError)
    }
    if errors:
        (name, first_error), *further_errors = errors.items()
        joined_error = copy.copy(first_error)
        joined_error.message += "".join(
            f"; and {other_name}: {error}" for other_name, error in further_errors
        )
        joined_error.item = (
            f"{name}: {first_error.item}"
            if first_error.item and first_error.item not in name
            else name
        )
        raise joined_error
    return [line for lines in results if not isinstance(lines, DemurError) for line in lines]
