"""How many pairs are needed to see a difference of x points."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

from demur.core.errors import UsageError
from demur.core.stats import z_of

POWER = 0.8
"""The chance to see the difference."""


def paired(difference: float, discordant: float) -> int | None:
    """Pairs needed by McNemar's test at a two-sided level of 0.05 (Connor 1987).

    n = (z_a sqrt(d) + z_b sqrt(d - x²))² / x², d the share of pairs on which the two differ.

    Args:
        difference: x, the difference of the two shares, within [-1, 1].
        discordant: d, at least ``abs(difference)``; take it from a first run (b + c) / n.

    Returns:
        The number of pairs; None for no difference at all.

    >>> paired(0.10, 0.30)
    234
    """
    if not 0 <= discordant <= 1:
        raise UsageError("shares lie between 0 and 1", cure="write 10 points as 0.10")
    if abs(difference) > discordant + 1e-12:
        raise UsageError(
            f"a difference of {difference:g} needs at least that share of discordant pairs, got {discordant:g}",
            cure="give the share of items on which the two differ",
        )
    if difference == 0:
        return None
    a, b = z_of(), NormalDist().inv_cdf(POWER)
    return ceil(
        ((a * sqrt(discordant) + b * sqrt(max(0.0, discordant - difference**2))) / difference) ** 2
    )
