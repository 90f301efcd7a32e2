"""Waiting for what a test needs to have happened, so that no test counts on how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

ENDS_S = 300.0
"""Seconds that tell what ends from what hangs, also on a machine that is slow and busy with other things."""


async def until(true: Callable[[], bool]) -> None:
    """Until it is true; the loop's other work goes on meanwhile."""
    async with asyncio.timeout(ENDS_S):
        while not true():
            await asyncio.sleep(0.001)
