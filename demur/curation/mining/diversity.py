"""Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): near the question, and not all the same.

    MMR = argmax over d in R without S of   weight * Sim1(d, q) - (1 - weight) * max over s in S of Sim2(d, s)

R are the candidates, S those already picked; the maximum over an empty S is 0, so that the first pick is the most
relevant. Sim2 is the cosine of two documents' vectors. Sim1 is the score of the hit divided by the best of the sample's
candidates: cosines, dot products, BM25 and reciprocal ranks are then all 1 at their best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Similarity = Callable[[Sequence[str]], NDArray[np.float64]]
"""Document ids to the (n, n) cosines of their vectors."""


class Pick(NamedTuple):
    """One choice."""

    place: int
    """Among the candidates."""
    value: float
    """Its marginal relevance when it was picked, the highest of those left."""


def marginal_relevance(
    relevance: Sequence[float], similarity: NDArray[np.float64], weight: float, count: int
) -> list[Pick]:
    """The first ``count`` candidates by maximal marginal relevance, in the order they are picked.

    Args:
        relevance: Sim1 of n candidates, best first or not.
        similarity: (n, n) Sim2.
        weight: lambda, 0 to 1; 1 is the order of relevance alone.
        count: wanted; all n when there are fewer.

    Ties go to the earlier candidate.

    >>> [p.place for p in marginal_relevance([1.0, 0.9, 0.5], np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1.0]]), 0.5, 2)]
    [0, 2]
    """
    gain = weight * np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(gain))
    free = np.ones(len(gain), dtype=bool)
    picks: list[Pick] = []
    for _ in range(min(count, len(gain))):
        values = np.where(free, gain - (1 - weight) * nearest, -np.inf)
        place = int(np.argmax(values))
        nearest = similarity[place].astype(np.float64) if not picks else np.maximum(nearest, similarity[place])
        free[place] = False
        picks.append(Pick(place, float(values[place])))
    return picks


def pick_various(scores: Sequence[float], similarity: NDArray[np.float64], weight: float, count: int) -> list[int]:
    """Places of the picks among hits with these scores, of any scale, in the order they are picked.

    Args:
        scores: of n hits.
        similarity: (n, n) Sim2.
        weight: lambda, 0 to 1.
        count: wanted; all n when there are fewer.
    """
    best = abs(max(scores, default=0.0)) or 1.0
    return [pick.place for pick in marginal_relevance([score / best for score in scores], similarity, weight, count)]
