"""Which kind of index: by size, memory and the number of queries, with the reason in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from demur.indexing.exact import gpus
from demur.indexing.ivf import PROBES, ROUNDS, SAMPLE, Kind, lists_for

SMALL = 50_000
"""Vectors below which `choose` looks no further than flat."""
SCAN_COST = 13
"""Multiply-adds of a matrix product in the time of one in a list of vectors (rates of both at a million x 512)."""


class Choice(NamedTuple):
    """Which kind of index, and why."""

    kind: Kind
    why: str


def choose(n: int, dims: int, *, queries: int = 10_000, memory: int | None = None) -> Choice:
    """The kind of index for n vectors, by counting multiply-adds and bytes.

    Args:
        n: vectors.
        dims: their dimensions.
        queries: how many will be asked in the index's life.
        memory: bytes that may be used; three quarters of the free memory when None.
    """
    if n < SMALL:
        return Choice("flat", f"{n:,} vectors are few: exact search needs no training")
    memory = memory if memory is not None else free_memory() * 3 // 4
    lists = lists_for(n)
    flat = queries * n
    probed = queries * (lists + SCAN_COST * n * PROBES // lists)
    ivf = n * lists + ROUNDS * SAMPLE * lists * lists + probed
    work = f"{queries:,} queries cost {flat * dims:.1e} multiply-adds exactly, {ivf * dims:.1e} with inverted lists"
    size = 4 * n * dims
    if gpus() > 0 and size <= memory:
        return Choice("flat", f"a GPU is here: exact search on it; {work}")
    if size > memory:
        room = f"{size / 1e9:.1f} GB of vectors do not fit {memory / 1e9:.1f} GB of memory"
        return Choice("ivf-rabitq", f"{room}: codes of 1 bit per dimension stay in it, vectors are read to re-rank")
    if ivf * 2 > flat:
        return Choice("flat", f"inverted lists would not pay: {work}, building included")
    if size * 5 // 4 > memory:
        return Choice("ivf-rabitq", f"{work}; codes of 8 bits beside {size / 1e9:.1f} GB of vectors do not fit")
    return Choice("ivf-sq8", f"{work}, building included; 8-bit codes are scanned faster than vectors")


def free_memory() -> int:
    """Bytes of memory that can be had without swapping, as the system sees it."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
