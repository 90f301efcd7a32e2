"""Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Sequence

RRF_K = 60
"""The constant of the paper; it damps the first ranks."""


def reciprocal_ranks(lists: Sequence[Sequence[str]], k: int = RRF_K) -> list[tuple[str, float]]:
    """Score each id by the sum of 1 / (k + rank) over the lists that hold it; ties go by id.

    Args:
        lists: ids by rank, best first, each once per list.
        k: see `RRF_K`.

    >>> [id for id, _ in reciprocal_ranks([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    scores: dict[str, float] = {}
    for ids in lists:
        for rank, id in enumerate(ids, 1):
            scores[id] = scores.get(id, 0.0) + 1.0 / (k + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
