"""Agreement of two labellers beyond chance, and how much or little of it a raw agreement allows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from demur.core.errors import DataError
from demur.core.stats import Floats


class Agreement(NamedTuple):
    """Two labellings of the same items."""

    observed: float | None
    """Share of equal labels; None without items."""
    chance: float | None
    """Share expected from the two label distributions alone."""
    kappa: float | None
    """(observed - chance) / (1 - chance); None without items, or when both gave one same label throughout."""
    n: int
    labels: tuple[str, ...]
    table: Floats
    """float64 [labels, labels]: rows the first labeller, columns the second."""


def cohen(
    first: Sequence[str],
    second: Sequence[str],
    labels: Sequence[str] = (),
    weight: Sequence[float] = (),
) -> Agreement:
    """Cohen's kappa (1960) from two sequences of labels, item by item.

    Args:
        first: labels of one rater.
        second: labels of the other, as many.
        labels: their order; by default those that occur, sorted.
        weight: what each pair counts, as 1 / (labelled repeats) of its item where items were asked several times; ``n``
            is then their sum, the number of items. 1 each by default.

    Raises:
        DataError: different lengths, or a label that ``labels`` lacks.

    >>> round(cohen(list("aabb"), list("aaba")).kappa, 3)
    0.5
    """
    if len(first) != len(second) or len(weight) not in (0, len(first)):
        raise DataError(
            f"{len(first)} labels against {len(second)}",
            cure="give one label of each rater per item",
        )
    names = tuple(labels) or tuple(sorted({*first, *second}))
    place = {name: i for i, name in enumerate(names)}
    unknown = sorted({*first, *second} - place.keys())
    if unknown:
        raise DataError(f"unknown label {unknown[0]!r}", cure=f"the labels are: {', '.join(names)}")
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, ([place[a] for a in first], [place[b] for b in second]), weight or 1.0)
    return of_table(counts, names)


def of_table(counts: Floats, labels: Sequence[str] = ()) -> Agreement:
    """Cohen's kappa from a square table of counts."""
    n = float(counts.sum())
    names = tuple(labels) or tuple(str(i) for i in range(len(counts)))
    if not n:
        return Agreement(None, None, None, 0, names, counts)
    observed = float(np.trace(counts)) / n
    chance = float(counts.sum(axis=1) @ counts.sum(axis=0)) / n**2
    return Agreement(
        observed,
        chance,
        None if chance >= 1 else (observed - chance) / (1 - chance),
        round(n),
        names,
        counts,
    )


def highest_kappa(agreement: float, labels: int) -> float:
    """The largest kappa that any table of ``labels`` x ``labels`` with this raw agreement can have.

    With e = 1 - agreement, chance agreement is least when the agreeing items spread evenly and all disagreements stand
    in one cell: 1/k - e²/2 (minimise the product of the marginals with their diagonal given). Beyond e = 2/k the two
    labels of that cell have no agreeing items left, and the other k - 2 share them: (1 - e)²/(k - 2). A printed kappa
    above this bound is an error of arithmetic.

    >>> [round(highest_kappa(a, 3), 3) for a in (0.911, 0.924, 0.94, 0.93)]
    [0.867, 0.886, 0.91, 0.895]
    """
    if not 0 <= agreement <= 1 or labels < 2:
        raise DataError(
            f"agreement {agreement} of {labels} labels",
            cure="agreement lies in [0, 1], labels are two or more",
        )
    error = 1 - agreement
    chance = agreement**2 / (labels - 2) if error > 2 / labels else 1 / labels - error * error / 2
    return (agreement - chance) / (1 - chance)


def lowest_kappa(agreement: float) -> float:
    """The smallest kappa that any table with this raw agreement can have; its number of labels does not matter.

    With e = 1 - agreement, chance agreement is most when one label has all agreeing items and the disagreements stand
    half and half in the two cells between it and one other: 1 - e + e²/2. Kappa is then -e/(2 - e). Without
    disagreements it is 1, the only other value that it takes.

    >>> [round(lowest_kappa(a), 3) for a in (0, 0.5, 0.95, 1)]
    [-1.0, -0.333, -0.026, 1.0]
    """
    return 1.0 if agreement >= 1 else -(1 - agreement) / (1 + agreement)


def unrounded(agreement: float, slack: float, n: int | None = None) -> tuple[float, float] | None:
    """The least and the most raw agreement that a printed one stands for.

    Args:
        agreement: as printed.
        slack: half of its last figure.
        n: items, which allow whole shares only.

    Returns:
        Both; None where no share of ``n`` items is printed so.

    >>> unrounded(1.0, 0.005), unrounded(1.0, 0.005, 100), unrounded(0.911, 0.0005, 100)
    ((0.995, 1.0), (1.0, 1.0), None)
    """
    if (
        agreement in (0, 1) and slack >= 0.05
    ):  # nobody rounds to so few figures: "1" and "1.0" are meant exactly
        slack = 0.0
    lowest, highest = max(0.0, agreement - slack), min(1.0, agreement + slack)
    if not n:
        return lowest, highest
    fewest, largest = ceil((lowest - 1e-9) * n), floor((highest + 1e-9) * n)
    return (max(0, fewest) / n, min(n, largest) / n) if fewest <= largest else None
