"""Is a stated probability worth its number?

Arrays in, numbers out. ``probability`` is float64 [n] in [0, 1], the chance that an answer is right by whoever states
it; ``credit`` float64 [n] in [0, 1] is how right it was (0 and 1, or a half between). Whoever has no probability for an
item leaves it out before, and says how many. Risk against coverage (AURC) is in `demur.judge.measures.risk`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from demur.core.stats import Floats


class Bin(NamedTuple):
    """Items of a range of probability: (low, high], and 0 in the first."""

    low: float
    high: float
    n: int
    probability: float
    """Mean stated; NaN where n is 0."""
    credit: float
    """Mean had; NaN where n is 0."""


def reliability(
    probability: Floats, credit: Floats, bins: int = 10, *, adaptive: bool = False
) -> tuple[Bin, ...]:
    """What was stated beside what was had, range by range.

    Args:
        probability: see the module.
        credit: see the module.
        bins: how many.
        adaptive: bounds at quantiles, so that bins hold about equally many; equal probabilities share one bin. Else
            bounds lie evenly in [0, 1].
    """
    if adaptive and len(probability):
        edges = np.unique(
            np.concatenate([[0.0], np.quantile(probability, np.arange(1, bins) / bins), [1.0]])
        )
    else:
        edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], probability)
    n = np.bincount(place, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        stated, had = (
            np.bincount(place, weights=v, minlength=len(n)) / n for v in (probability, credit)
        )
    rows = zip(edges[:-1], edges[1:], n, stated, had, strict=True)
    return tuple(
        Bin(float(a), float(b), int(many), float(p), float(c)) for a, b, many, p, c in rows
    )


def ece(
    probability: Floats, credit: Floats, bins: int = 10, *, adaptive: bool = False
) -> float | None:
    """Expected calibration error: sum over bins of n_b/n |mean credit - mean probability| (Guo et al. 2017).

    >>> ece(np.array([0.8, 0.8, 0.8, 0.8]), np.array([1.0, 1.0, 0.0, 0.0])).__round__(3)
    0.3
    """
    if not len(probability):
        return None
    filled_bins = [b for b in reliability(probability, credit, bins, adaptive=adaptive) if b.n]
    return sum(b.n * abs(b.credit - b.probability) for b in filled_bins) / len(probability)
