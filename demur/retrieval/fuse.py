"""Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009), whose result does not depend on list length."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

RRF_K = 60
"""The constant of the paper; it damps the first ranks."""
DEPTH = 100
"""Ranks of each list that count."""


def reciprocal_ranks(lists: Sequence[Sequence[str]], depth: int = DEPTH) -> list[tuple[str, float]]:
    """Order ids by the sum of 1 / (60 + rank) over the lists that have them among the first ``depth``; ties go by id.

    An id that is behind ``depth`` in every list scores by its best rank alone, and so comes after all others. The first
    n are therefore the same for all lists at least as long as ``depth`` and n.

    Args:
        lists: ids by rank, best first, each once per list.

    >>> [id for id, _ in reciprocal_ranks([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    return sorted(reciprocal_scores(lists, depth).items(), key=lambda item: (-item[1], item[0]))


def reciprocal_scores(lists: Sequence[Sequence[T]], depth: int = DEPTH) -> dict[T, float]:
    """The scores of `reciprocal_ranks`, unordered; for ids or any other keys."""
    scores: dict[T, float] = {}
    for ids in lists:
        for rank, id in enumerate(ids[:depth], 1):
            scores[id] = scores.get(id, 0.0) + 1.0 / (RRF_K + rank)
    for ids in lists:
        for rank, id in enumerate(ids[depth:], depth + 1):
            scores[id] = max(scores.get(id, 0.0), 1.0 / (RRF_K + rank))
    return scores
