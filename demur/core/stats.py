"""Confidence intervals of rates: Wilson's for independent items, the cluster bootstrap for items in clusters."""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@cache
def z_of(level: float = 0.95) -> float:
    """Standard deviations on either side of the mean that contain a share ``level`` of a normal distribution.

    >>> round(z_of(), 6)
    1.959964
    """
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(successes: float, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Wilson's interval: centre (p + z²/2n) / (1 + z²/n), half width z·sqrt(p(1-p)/n + z²/4n²) / (1 + z²/n).

    Returns:
        (low, high) in [0, 1]; low is exactly 0 without successes, high exactly 1 without failures; None if n is 0.

    >>> tuple(round(v, 4) for v in wilson(20, 21))
    (0.7733, 0.9915)
    """
    if n == 0:
        return None
    z = z_of(level)
    p = successes / n
    middle, width = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    low = (
        0.0 if successes <= 0 else max(0.0, (middle - width) / scale)
    )  # rounding would leave 6e-18
    return low, 1.0 if successes >= n else min(1.0, (middle + width) / scale)


def cluster_sums(cluster: Codes, *values: Floats) -> Floats:
    """float64 [clusters, values]: each value summed within its cluster; omits clusters without items.

    Sums are rounded to 1e-9, so that the order of the items does not change them.
    """
    used, dense = np.unique(cluster, return_inverse=True)
    sums: Floats = np.stack(
        [np.bincount(dense, weights=v, minlength=len(used)) for v in values], axis=1
    )
    return sums.round(9)


def resampled(sums: Floats, draws: int, seed: int) -> Floats:
    """float64 [draws, values]: totals of ``draws`` resamples of the clusters, with replacement.

    Clusters with equal sums are interchangeable, so a resample is one multinomial draw over the *distinct* rows of
    ``sums``: exactly the cluster bootstrap, and fast for a million clusters of one item.
    """
    if not len(sums):
        return np.zeros((draws, sums.shape[1]))
    distinct, counts = _distinct(sums)
    rng = np.random.Generator(np.random.PCG64(seed))
    total = np.zeros((draws, sums.shape[1]))
    block = max(1, 4_000_000 // len(distinct))  # 32 MB of counts at a time
    shares = counts / counts.sum()
    for start in range(0, draws, block):
        picked = rng.multinomial(int(counts.sum()), shares, size=min(block, draws - start))
        total[start : start + block] = picked @ distinct
    return total


def _distinct(sums: Floats) -> tuple[Floats, Codes]:
    """Distinct rows and their counts (`numpy.unique` by rows compares records, which is slow)."""
    joint = np.zeros(len(sums), dtype=np.int64)
    for column in sums.T:
        values, codes = np.unique(column, return_inverse=True)
        joint = np.unique(joint * len(values) + codes, return_inverse=True)[1]  # dense: no overflow
    _, first, counts = np.unique(joint, return_index=True, return_counts=True)
    return sums[first], counts.astype(np.int64)


def percentile(values: Floats, level: float) -> tuple[float, float] | None:
    """The middle ``level`` of resampled values without NaN (an empty resample); None if none remain."""
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def is_point(low: float, high: float) -> bool:
    """Whether an interval has no width except for rounding: all resamples are equal."""
    return high - low < 1e-9
