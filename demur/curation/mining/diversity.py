"""Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): near the question, and not all the same.

    MMR = argmax over d in R without S of   weight * Sim1(d, q) - (1 - weight) * max over s in S of Sim2(d, s)

R are the candidates, S those already picked; the maximum over an empty S is 0, so that the first pick is the most
relevant. Sim2 is the cosine of two documents' vectors. Sim1 is the score of the hit divided by the best of the sample's
candidates: cosines, dot products, BM25 and reciprocal ranks are then all 1 at their best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Similarity = Callable[[Sequence[str]], NDArray[np.float64]]
"""Document ids to the (n, n) cosines of their vectors."""


def marginal_relevance(
    scores: Sequence[float], similarity: NDArray[np.float64], weight: float, count: int
) -> list[int]:
    """Indices of the first ``count`` candidates by maximal marginal relevance, in the order they are picked.

    Args:
        scores: of n hits, on any scale.
        similarity: (n, n) Sim2.
        weight: lambda, 0 to 1; 1 is the order of scores alone.
        count: wanted; all n when there are fewer.

    Ties go to the earlier candidate.

    >>> marginal_relevance([1.0, 0.9, 0.5], np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1.0]]), 0.5, 2)
    [0, 2]
    """
    best = abs(max(scores, default=0.0)) or 1.0
    gain = weight * np.asarray(scores, dtype=np.float64) / best
    nearest = np.zeros(len(gain))
    free = np.ones(len(gain), dtype=bool)
    picks: list[int] = []
    for _ in range(min(count, len(gain))):
        place = int(np.argmax(np.where(free, gain - (1 - weight) * nearest, -np.inf)))
        nearest = (
            similarity[place].astype(np.float64)
            if not picks
            else np.maximum(nearest, similarity[place])
        )
        free[place] = False
        picks.append(place)
    return picks
