"""Chooses the kind of index by the number of vectors and queries and by memory, and says why."""

from __future__ import annotations

import os
from math import sqrt
from pathlib import Path
from typing import NamedTuple

from demur.indexing.gpu import cards

SMALL = 50_000
"""Vectors below which exact search is fast enough for anything."""
BUILD = 5
"""Building lists costs as much as about ``BUILD * sqrt(n)`` exact queries (measured: 1,600 for 100,000 vectors, 3,500
for a million)."""


class Choice(NamedTuple):
    """Which kind of index, and why."""

    kind: str
    why: str


def choose(n: int, dims: int, *, queries: int = 10_000, memory: int | None = None) -> Choice:
    """The kind of index for n vectors.

    Args:
        queries: how many will be asked in the index's life.
        memory: bytes that may be used; None for three quarters of the free memory.
    """
    if n < SMALL:
        return Choice("flat", f"{n:,} vectors are few: exact search needs no training")
    if queries < (worth := int(BUILD * sqrt(n))):
        return Choice(
            "flat",
            f"{queries:,} queries are few: building lists costs as much as {worth:,} exact ones",
        )
    memory = memory if memory is not None else free_memory() * 3 // 4
    size = 4 * n * dims
    room = f"{size / 1e9:.1f} GB of vectors, {memory / 1e9:.1f} GB of memory"
    if size > memory:
        return Choice(
            "ivf-sq8",
            f"{room}: codes of 8 bits a dimension are searched, vectors are read to score again",
        )
    if cards():
        return Choice("flat", f"{room}: exact search on the GPU")
    return Choice("ivf-flat", f"{room}, {queries:,} queries: lists of whole vectors lose least")


def free_memory() -> int:
    """Bytes of memory that the system can give without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # Windows
        return 4 << 30
