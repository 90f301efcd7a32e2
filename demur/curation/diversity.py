"""Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): near the question, and not all the same.

    MMR = argmax over d in R without S of   weight * Sim1(d, q) - (1 - weight) * max over s in S of Sim2(d, s)

R are the candidates, S those already picked; the maximum over an empty S is 0, so that the first pick is the most
relevant. Sim2 is the cosine of two documents' vectors. Sim1 is the score of the hit divided by the best of the sample's
candidates: cosines, dot products, BM25 and reciprocal ranks are then all 1 at their best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.errors import UsageError

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


@dataclass(frozen=True)
class Diversity:
    """How much the distractors of one sample should differ; its text is ``mmr(0.5)``."""

    weight: float
    """lambda of the module's formula, 0 to 1."""
    similarity: Similarity

    def __post_init__(self) -> None:
        self.check(self.weight)

    @staticmethod
    def check(weight: float) -> None:
        """See that this is a weight.

        Raises:
            UsageError: it is not between 0 and 1.
        """
        if not 0 <= weight <= 1:
            raise UsageError(f"diversity={weight} is outside 0 to 1", cure="1 keeps the plain order, 0.5 is usual")

    def __str__(self) -> str:
        return f"mmr({self.weight:g})"

    def pick(self, ids: Sequence[str], scores: Sequence[float], count: int) -> list[Pick]:
        """The picks among documents with these scores, best first."""
        if not ids:
            return []
        best = abs(max(scores)) or 1.0
        return marginal_relevance([score / best for score in scores], self.similarity(ids), self.weight, count)
