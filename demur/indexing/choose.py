"""Which kind of index: by size, memory and the number of queries, with the reason in words.

Costs are counted in multiply-adds of a large matrix product, for one dimension. The constants are ratios of CPU time
in one run, one thread, at 100,000 x 384 and 300,000 x 256 vectors, to that of exact search by 1024 queries at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from demur.indexing.exact import BLOCK, gpus
from demur.indexing.ivf import PROBES, ROUNDS, SAMPLE, Kind, lists_for

SMALL = 50_000
"""Vectors below which `choose` looks no further than flat."""
BATCH = 4096
"""Queries asked at once, about as many as `demur mine` asks."""
ALONE = 7
"""What a query asked alone costs more than one of many, for each vector looked at."""
ASSIGN = 1.3
"""For each vector and list when the nearest list is found."""
FILL = 400
"""For each vector when it is put into its list."""
SCAN = 10
"""For each vector of a list that is scanned query by query."""
CODES = 6
"""For each vector of a list of 8-bit codes, which are scanned so whatever the number of queries."""
PRODUCT, FETCH = 3, 50
"""For each vector of a list and query that asks it, and for each vector of a list, when lists are taken one by one."""
NEAR = 1.1
"""How much more an exact kind may cost than one with codes, which lose a little and must be re-ranked."""


class Choice(NamedTuple):
    """Which kind of index, and why."""

    kind: Kind
    why: str


def choose(n: int, dims: int, *, queries: int = 10_000, batch: int = BATCH, memory: int | None = None) -> Choice:
    """The kind of index for n vectors, by counting multiply-adds and bytes.

    Args:
        n: vectors.
        dims: their dimensions.
        queries: how many will be asked in the index's life.
        batch: how many of them at once.
        memory: bytes that may be used; three quarters of the free memory when None.
    """
    if n < SMALL:
        return Choice("flat", f"{n:,} vectors are few: exact search needs no training")
    memory = memory if memory is not None else free_memory() * 3 // 4
    size = 4 * n * dims
    room = f"{size / 1e9:.1f} GB of vectors do not fit {memory / 1e9:.1f} GB of memory"
    costs = costs_of(n, queries=queries, batch=batch)
    told = ", ".join(f"{cost * dims:.1e} by {kind}" for kind, cost in costs.items())
    work = f"{queries:,} queries, up to {batch:,} at once, cost multiply-adds: {told}, building included"
    if size > memory and queries <= 2 * min(batch, BLOCK) and costs["flat"] < min(costs["ivf-flat"], costs["ivf-sq8"]):
        return Choice("flat", f"{room}, but exact search reads them no more often than building lists would; {work}")
    if size // 4 > memory:
        return Choice(
            "ivf-rabitq", f"{room}, nor do 8 bits a dimension: codes of 1 bit do, vectors are read to re-rank"
        )
    if size > memory:
        return Choice("ivf-sq8", f"{room}: codes of 8 bits a dimension do, vectors are read to re-rank")
    if gpus() > 0:
        return Choice("flat", f"a GPU is here: exact search on it; {work}")
    least = min(costs.values())
    kind = next(kind for kind, cost in costs.items() if cost <= NEAR * least)
    return Choice(kind, work)


def costs_of(n: int, *, queries: int, batch: int = BATCH) -> dict[Kind, float]:
    """Multiply-adds for one dimension, building included, by kind; those that lose least come first."""
    batch = max(1, min(batch, queries))
    lists = lists_for(n)
    build = ROUNDS * SAMPLE * lists * lists + n * (ASSIGN * lists + FILL)
    probed = n * PROBES / lists
    alone = ALONE / batch
    whole = min(SCAN, PRODUCT + FETCH * lists / (batch * PROBES))
    return {
        "flat": queries * n * (1 + alone),
        "ivf-flat": build + queries * (lists + probed * (whole + alone)),
        "ivf-sq8": build + queries * (lists + probed * (CODES + alone)),
    }


def free_memory() -> int:
    """Bytes of memory that can be had without swapping, as the system sees it."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
