"""How many samples are needed to see a difference of x points."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

from demur.core.errors import UsageError


def unpaired(first: float, second: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Samples per side to tell two independent shares apart (two-sided normal approximation; Fleiss et al. 2003).

    n = (z_a sqrt(2 m (1-m)) + z_b sqrt(p(1-p) + q(1-q)))² / (p - q)², m the mean of p and q.

    Returns:
        The number of samples per side; None for no difference at all (no number would do).

    >>> unpaired(0.50, 0.60)
    388
    """
    _check(first, second, alpha, power)
    if first == second:
        return None
    a, b = _z(alpha, power)
    mean = (first + second) / 2
    spread = a * sqrt(2 * mean * (1 - mean)) + b * sqrt(first * (1 - first) + second * (1 - second))
    return ceil((spread / (first - second)) ** 2)


def paired(
    difference: float, discordant: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Pairs needed by McNemar's test (Connor 1987).

    n = (z_a sqrt(d) + z_b sqrt(d - x²))² / x², d the share of pairs on which the two differ.

    Args:
        difference: x, the difference of the two shares, within [-1, 1].
        discordant: d, at least ``abs(difference)``; take it from a first run (b + c) / n.
        alpha: two-sided level.
        power: chance to see the difference.

    Returns:
        The number of pairs; None for no difference at all.

    >>> paired(0.10, 0.30)
    234
    """
    _check(discordant, 0.0, alpha, power)
    if abs(difference) > discordant + 1e-12:
        raise UsageError(
            f"a difference of {difference:g} needs at least that share of discordant pairs, got {discordant:g}",
            cure="give the share of items on which the two differ",
        )
    if difference == 0:
        return None
    a, b = _z(alpha, power)
    return ceil(
        ((a * sqrt(discordant) + b * sqrt(max(0.0, discordant - difference**2))) / difference) ** 2
    )


def clustered(samples: int, size: float, correlation: float) -> int:
    """Samples needed when they come in clusters: times the design effect 1 + (size - 1) correlation (Kish 1965)."""
    if size < 1 or not -1 <= correlation <= 1:
        raise UsageError(
            "clusters hold at least one item, correlation lies in [-1, 1]",
            cure="mend the two values",
        )
    return ceil(samples * max(0.0, 1 + (size - 1) * correlation))


def _z(alpha: float, power: float) -> tuple[float, float]:
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)


def _check(first: float, second: float, alpha: float, power: float) -> None:
    if not (0 <= first <= 1 and 0 <= second <= 1 and 0 < alpha < 1 and 0 < power < 1):
        raise UsageError(
            "shares, alpha and power lie between 0 and 1", cure="write 10 points as 0.10"
        )
