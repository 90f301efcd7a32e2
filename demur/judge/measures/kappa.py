"""Agreement of two labellers beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from demur.core.errors import DataError
from demur.core.stats import Floats


class Agreement(NamedTuple):
    """Two labellings of the same items."""

    observed: float | None
    """Share of equal labels; None without items."""
    kappa: float | None
    """Of these beyond the share expected from the two label distributions alone, (observed - chance) / (1 - chance).

    None without items, or when both gave one same label throughout.
    """
    n: int
    table: Floats
    """float64 [labels, labels]: rows the first labeller, columns the second."""


def cohen(
    first: Sequence[str], second: Sequence[str], *, weight: Sequence[float] = ()
) -> Agreement:
    """Cohen's kappa (1960) from two sequences of labels, item by item.

    Args:
        first: labels of one rater.
        second: labels of the other, as many.
        weight: what each pair counts, as 1 / (labelled repeats) of its item where items were asked several times; ``n``
            is then their sum, the number of items. 1 each by default.

    Raises:
        DataError: different lengths.

    >>> round(cohen(list("aabb"), list("aaba")).kappa, 3)
    0.5
    """
    if len(first) != len(second) or len(weight) not in (0, len(first)):
        raise DataError(
            f"{len(first)} labels against {len(second)}",
            cure="give one label of each rater per item",
        )
    place = {name: i for i, name in enumerate(sorted({*first, *second}))}
    counts = np.zeros((len(place), len(place)))
    np.add.at(counts, ([place[a] for a in first], [place[b] for b in second]), weight or 1.0)
    return of_table(counts)


def of_table(counts: Floats) -> Agreement:
    """Cohen's kappa from a square table of counts."""
    n = float(counts.sum())
    if not n:
        return Agreement(None, None, 0, counts)
    observed = float(np.trace(counts)) / n
    chance = float(counts.sum(axis=1) @ counts.sum(axis=0)) / n**2
    kappa = None if chance >= 1 else (observed - chance) / (1 - chance)
    return Agreement(observed, kappa, round(n), counts)
