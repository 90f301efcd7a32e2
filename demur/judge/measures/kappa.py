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
