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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

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

    def last_rank(self, most_positives: int, *, rescored: bool = False) -> int:
        """`range_max`, or what stands for it: ten times as many as wanted where a score can remove some on top.

        Args:
            most_positives: the most positives that any query has.
            rescored: scores are a cross-encoder's, so that `min_score` can remove some on top as well.
        """
        if self.range_max is not None:
            return self.range_max
        times = 10 if self.by_margin or self.max_score is not None or (rescored and self.min_score is not None) else 1
        return self.range_min + self.num_negatives * times + most_positives

    def depth(self, most_positives: int, *, rescored: bool = False) -> int:
        """Candidates to fetch for each query when no query has more positives than that; see `last_rank`."""
        return self.last_rank(most_positives, rescored=rescored) + most_positives

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


class Negatives(NamedTuple):
    """Negatives of Q queries by score; places without one hold row -1 and score -inf."""

    rows: NDArray[np.int64]
    """(Q, num_negatives)"""
    scores: NDArray[np.float32]
    """(Q, num_negatives)"""


def hard_negatives(
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    positives: Sequence[Sequence[int]],
    positive_scores: Sequence[Sequence[float]],
    selection: Selection,
    *,
    most_positives: int,
    queries: Sequence[str] = (),
    rescored: bool = False,
) -> Negatives:
    """Choose negatives for a block of queries from their candidates.

    Blocks may be of any size: each line is chosen alone, so that memory stays that of one block.

    Args:
        rows: (Q, C) candidates of each query; C is ``selection.depth(most_positives)``, -1 where there are fewer.
        scores: (Q, C) their scores: of the search, or of a cross-encoder.
        positives: rows that must not come out, for each query; none of them where positives may be candidates too.
        positive_scores: scores of all positives of each query, which margins are measured from.
        selection: see there.
        most_positives: the most positives that any query of the whole job has.
        queries: names of the queries, for ``random`` sampling (places in the block when empty).
        rescored: whether the scores are a cross-encoder's.
    """
    kept = np.where(rows >= 0, scores, np.float32(-np.inf)).astype(np.float32)
    for line, own in enumerate(positives):
        kept[line, np.isin(rows[line], np.asarray(own, dtype=np.int64))] = -np.inf
    lowest = np.array([min(own, default=np.inf) for own in positive_scores], dtype=np.float32)[:, None]
    if selection.absolute_margin is not None:
        kept[kept + np.float32(selection.absolute_margin) > lowest] = -np.inf
    if selection.relative_margin is not None:
        kept[kept > lowest - np.abs(lowest) * np.float32(selection.relative_margin)] = -np.inf
    if selection.max_score is not None:
        kept[kept > selection.max_score] = -np.inf
    if selection.min_score is not None:
        kept[kept < selection.min_score] = -np.inf
    order = np.argsort(-kept, axis=1, kind="stable")[:, : selection.last_rank(most_positives, rescored=rescored)]
    order = order[:, selection.range_min :]
    made = Negatives(
        np.full((len(rows), selection.num_negatives), -1, np.int64),
        np.full((len(rows), selection.num_negatives), -np.inf, np.float32),
    )
    for line in range(len(rows)):
        ranked = order[line][np.isfinite(kept[line, order[line]])]
        chosen = ranked[selection.pick(len(ranked), queries[line] if queries else str(line))]
        made.rows[line, : len(chosen)] = rows[line, chosen]
        made.scores[line, : len(chosen)] = kept[line, chosen]
    return made
