"""Which of the candidates become negatives: by rank, by score, and by their distance from the positives.

The options and their order are those of `sentence_transformers.util.mine_hard_negatives`, so that settings carry over
and rows come out equal: positives leave first, then candidates nearer to a positive than a margin allows, then those
outside [min_score, max_score]; ranks count what is left. A margin is measured from the lowest-scoring positive.
NV-Retriever's positive-aware mining (de Souza P. Moreira et al. 2024): TopK-PercPos at 95 % is
``relative_margin=0.05``, TopK-MarginPos at 0.05 is ``absolute_margin=0.05``.

>>> Selection(num_negatives=4, relative_margin=0.05).depth(most_positives=1)
42
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from demur.errors import UsageError
from demur.store import seed_of


@dataclass(frozen=True)
class Selection:
    """What may become a negative. Scores are those of the search, the higher the nearer."""

    num_negatives: int = 3
    """Wanted for each query, at least 1."""
    range_min: int = 0
    """Candidates to pass over at the top, counted after all removals."""
    range_max: int | None = None
    """Rank of the last candidate to take from; None see `last_rank`."""
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    """A negative scores at least this much less than the lowest positive."""
    relative_margin: float | None = None
    """A negative scores at least this share of |positive| less than the lowest positive."""
    sampling: Literal["top", "random"] = "top"
    seed: int = 0
    """For ``random``: what is drawn for a query depends on the seed and on the query alone."""

    def __post_init__(self) -> None:
        if self.num_negatives < 1 or self.range_min < 0:
            raise UsageError(
                f"num_negatives={self.num_negatives} and range_min={self.range_min} are out of range",
                cure="give 1 or more, and 0 or more",
            )
        if self.range_max is not None and self.range_max - self.range_min < self.num_negatives:
            raise UsageError(
                f"ranks {self.range_min} to {self.range_max} cannot hold {self.num_negatives} negatives",
                cure="raise range_max",
            )
        if self.sampling not in ("top", "random"):
            raise UsageError(f"no sampling named {self.sampling!r}; known: top, random", cure="choose one of them")

    @property
    def by_margin(self) -> bool:
        """Whether the score of gold can remove a candidate."""
        return self.absolute_margin is not None or self.relative_margin is not None

    @property
    def by_score(self) -> bool:
        """Whether any score can remove a candidate."""
        return self.by_margin or self.max_score is not None or self.min_score is not None

    def last_rank(self, most_positives: int) -> int:
        """`range_max`, or what stands for it: ten times as many as wanted where a score can remove some on top.

        Args:
            most_positives: the most positives that any query has.
        """
        if self.range_max is not None:
            return self.range_max
        times = 10 if self.by_margin or self.max_score is not None else 1
        return self.range_min + self.num_negatives * times + most_positives

    def depth(self, most_positives: int) -> int:
        """Candidates to fetch for each query when no query has more positives than that; see `last_rank`."""
        return self.last_rank(most_positives) + most_positives

    def objection(self, score: float, positive: float | None) -> str:
        """Why a candidate of this score may not be a negative; "" when it may.

        Args:
            score: of the candidate.
            positive: the lowest score of a positive; None where it is not known, and no margin holds then.
        """
        if positive is not None:
            if self.absolute_margin is not None and score + self.absolute_margin > positive:
                return "within the margin of gold"
            if self.relative_margin is not None and score > positive - abs(positive) * self.relative_margin:
                return "within the margin of gold"
        if self.max_score is not None and score > self.max_score:
            return "scores too high"
        if self.min_score is not None and score < self.min_score:
            return "scores too low"
        return ""

    def pick(self, count: int, query: str) -> list[int]:
        """Places, ascending, of those to take among ``count`` candidates in rank order (`range_min` not counted)."""
        if self.sampling == "top" or count <= self.num_negatives:
            return list(range(min(count, self.num_negatives)))
        return sorted(random.Random(seed_of(self.seed, query)).sample(range(count), self.num_negatives))
