"""How far probabilities are from right, and what answering only above a threshold would have brought.

Arrays as in `demur.judge.measures.calibration`, which has the bins and their mean error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from demur.core.stats import Codes, Floats
from demur.core.store import seed_of
from demur.judge.measures.table import Flags

GRID = tuple(round(0.1 * i, 2) for i in range(1, 10)) + tuple(
    round(0.9 + 0.01 * i, 2) for i in range(1, 10)
)
"""Thresholds that are tried: .1 to .9, and .91 to .99 since models are sure of themselves."""


def brier(probability: Floats, credit: Floats) -> float | None:
    """Mean squared distance of probability and credit; 0 is the best."""
    return float(np.mean((probability - credit) ** 2)) if len(probability) else None


def pearson(x: Floats, y: Floats) -> float | None:
    """Correlation; None for fewer than two points, or where one of them does not vary."""
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return None
    return float(np.corrcoef(x, y)[0, 1])


# --- selective prediction

Value = Callable[[Flags, Flags], float | None]
"""(answered bool [n], rows bool [n]) -> a measure of those rows, higher is better; None where it is undefined."""


def best_threshold(
    probability: Floats, value: Value, rows: Flags | None = None, grid: Sequence[float] = GRID
) -> tuple[float | None, float | None]:
    """(threshold, value) that is best on these rows; the least of equals. (None, None) where none is defined.

    Items below the threshold are abstained from. Found and scored on the same items it is an *oracle*: an upper bound.
    """
    rows = np.ones(len(probability), dtype=bool) if rows is None else rows
    best: tuple[float | None, float | None] = (None, None)
    for threshold in grid:
        score = value(probability >= threshold, rows)
        if score is not None and (best[1] is None or score > best[1] + 1e-12):
            best = (threshold, score)
    return best


def cross_validated(
    probability: Floats, value: Value, fold: Codes, grid: Sequence[float] = GRID
) -> tuple[tuple[float, ...], float | None]:
    """(threshold of each fold, value): every item is answered or not by the threshold that is best on the other folds.

    A fold whose others define no threshold answers everything.
    """
    answered = np.ones(len(probability), dtype=bool)
    thresholds = []
    for held_out in np.unique(fold):
        threshold = best_threshold(probability, value, fold != held_out, grid)[0] or 0.0
        answered[fold == held_out] = probability[fold == held_out] >= threshold
        thresholds.append(threshold)
    return tuple(thresholds), value(answered, np.ones(len(probability), dtype=bool)) if len(
        probability
    ) else None


def folds(clusters: Sequence[str], k: int = 5, seed: int = 0) -> Codes:
    """int64 [n] in 0 .. k-1: what shares a cluster shares its fold; folds hold equally many clusters, to one."""
    order = sorted(set(clusters), key=lambda c: seed_of(seed, "fold", c))
    place = {c: i % k for i, c in enumerate(order)}
    return np.array([place[c] for c in clusters], dtype=np.int64)
