"""How many pairs are needed to see a difference of x points."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

from demur.core.errors import UsageError


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


def _z(alpha: float, power: float) -> tuple[float, float]:
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)


def _check(first: float, second: float, alpha: float, power: float) -> None:
    if not (0 <= first <= 1 and 0 <= second <= 1 and 0 < alpha < 1 and 0 < power < 1):
        raise UsageError(
            "shares, alpha and power lie between 0 and 1", cure="write 10 points as 0.10"
        )
