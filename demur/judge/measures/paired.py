"""Two systems (or conditions) on the same items: is the difference more than chance?"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from demur.core.stats import Codes, Floats, cluster_sums, is_point, percentile, resampled, z_of
from demur.judge.measures.intervals import ClusterBootstrap
from demur.judge.measures.table import Flags

SIGNS = 9_999
"""Random patterns of signs behind a p-value."""


class Paired(NamedTuple):
    """The difference ``second - first`` of one rate over the items that both have a verdict for."""

    measure: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    interval: str
    """The method: ``cluster-bootstrap(...)``, or ``tango(0.95)`` where its resamples did not spread."""
    n: int
    """Pairs with two verdicts."""
    only_first: int
    """Pairs that count for the first alone (McNemar's b)."""
    only_second: int
    """Pairs that count for the second alone (McNemar's c)."""
    p_exact: float | None
    """McNemar, exact: a two-sided binomial test of the discordant pairs."""


def of_means(
    first: Flags | Floats,
    second: Flags | Floats,
    cluster: Codes,
    *,
    measure: str = "accuracy",
) -> Paired:
    """The comparison from flags, or, where an item was asked several times, from the shares of its repeats.

    A pair is one item however many repeats it had. With one each the p-values are McNemar's; with more they come
    from `sign_flip`, and ``only_first`` and ``only_second`` count the pairs where one side is ahead.

    Two systems that never differ, or always by as much, leave the bootstrap nothing to spread: its interval would be a
    point, as if no other item could turn out otherwise. The difference then gets `tango`'s interval, with the clusters
    as its pairs.

    Args:
        first: bool, or float64 in [0, 1]; [pairs].
        second: the same of the other side.
        cluster: int64 [pairs].
        measure: its name.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    n = len(first)
    bootstrap = ClusterBootstrap()
    b, c = int((first > second).sum()), int((second > first).sum())
    if not n:
        return Paired(measure, None, None, None, None, None, "", 0, 0, 0, None)
    gap: Floats = second - first
    direction = -1.0 if gap.sum() < 0 else 1.0  # both orders of two systems draw the same resamples
    totals = resampled(
        cluster_sums(cluster, direction * gap, np.ones(n)), bootstrap.draws, bootstrap.seed
    )
    ends = percentile(direction * totals[:, 0] / totals[:, 1], bootstrap.level)
    interval_name = str(bootstrap)
    if ends is None or is_point(*ends):
        pairs = len(np.unique(cluster))
        pairs_ahead = [pairs * float(np.maximum(side, 0.0).mean()) for side in (-gap, gap)]
        ends, interval_name = (
            tango(pairs_ahead[0], pairs_ahead[1], pairs, bootstrap.level),
            f"tango({bootstrap.level:g})",
        )
    low, high = ends
    shares = float(first.mean()), float(second.mean()), float(gap.mean())
    p = mcnemar(b, c) if np.isin(gap, (-1.0, 0.0, 1.0)).all() else sign_flip(gap)
    return Paired(measure, *shares, low, high, interval_name, n, b, c, p)


def tango(b: float, c: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Score interval of the difference of two paired shares, (c - b) / n (Tango, Statistics in Medicine 17, 1998).

    Those differences that a score test of the paired table does not reject. It is never a point: with no discordant
    pair it is -z²/(n + z²) to z²/(n + z²), with z the normal quantile of the level.

    Args:
        b: pairs that count for the first alone; a sum of parts of pairs where they were asked several times.
        c: pairs that count for the second alone.
        n: all pairs, at least 1.
        level: between 0 and 1.

    Returns:
        Lower and upper end, within [-1, 1].

    >>> [round(end, 4) for end in tango(0, 0, 100)]
    [-0.037, 0.037]
    """
    z = z_of(level)

    def inside(delta: float) -> bool:
        """Whether the test does not reject ``delta``: the share of b is its most likely one under that hypothesis."""
        slope = b + c + (c - b - 2 * n) * delta
        only_first = (slope + sqrt(max(0.0, slope * slope + 8 * n * b * delta * (1 - delta)))) / (
            4 * n
        )
        spread = n * max(0.0, 2 * only_first + delta * (1 - delta))
        return abs(c - b - n * delta) <= z * sqrt(spread)

    def end(side: float) -> float:
        near, far = (c - b) / n, side
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if inside(middle) else (near, middle)
        return near

    return end(-1.0), end(1.0)


def sign_flip(gap: Floats) -> float | None:
    """Two-sided p of the sign-flip test of paired differences: how often chance signs sum to as much.

    Under the hypothesis that neither side is better each difference might as well have the other sign. With
    differences of -1, 0 and 1 alone this is McNemar's exact test; here they are shares of several repeats. Monte Carlo,
    with the data themselves as one of the draws, so that p is never 0 (Phipson and Smyth 2010).

    Args:
        gap: float64 [pairs], second minus first.

    Returns:
        The p-value in (0, 1]; None when no pair differs.

    >>> round(sign_flip(np.array([0.5, 0.5, 0.5, 0.5])), 1)  # 2 of 16 patterns are as far from zero: 0.125
    0.1
    """
    differs = np.sort(np.abs(gap[gap != 0]))  # the same p in any order of pairs and of sides
    if not len(differs):
        return None
    rng = np.random.Generator(np.random.PCG64(0))
    seen = abs(float(gap.sum())) - 1e-9
    block = max(1, 4_000_000 // len(differs))
    far = 0
    for start in range(0, SIGNS, block):
        signs = (
            rng.integers(0, 2, size=(min(block, SIGNS - start), len(differs)), dtype=np.int8) * 2
            - 1
        )
        far += int((np.abs(signs @ differs) >= seen).sum())
    return (far + 1) / (SIGNS + 1)


def mcnemar(b: int, c: int) -> float | None:
    """Two-sided p of McNemar's test from the two discordant counts.

    Exact: 2 P(X <= min(b, c)), X binomial(b + c, 1/2), at most 1.

    Returns:
        The p-value; None when no pair is discordant (nothing was tested).

    >>> round(mcnemar(1, 9), 5), mcnemar(0, 0)
    (0.02148, None)
    """
    n, least = b + c, min(b, c)
    if n == 0:
        return None
    k = np.arange(least)
    # log of the binomial probabilities 0..least, each from the one before: no overflow for millions of pairs
    log_mass = np.concatenate([[0.0], np.cumsum(np.log(n - k) - np.log(k + 1))]) - n * np.log(2.0)
    mass = np.exp(log_mass)
    return min(1.0, 2.0 * float(mass.sum()))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: p-values adjusted for being many, in the order given (Holm 1979).

    None (no test was possible) stays None and is not counted.

    >>> [round(v, 3) for v in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, v in enumerate(p) if v is not None), key=lambda i: p[i] or 0.0)
    out: list[float | None] = [None] * len(p)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * (p[i] or 0.0)))
        out[i] = highest
    return out
