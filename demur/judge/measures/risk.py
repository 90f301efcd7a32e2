"""Risk against coverage: if only the most confident answers counted, how many of them would be wrong?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.core.records import Row
from demur.core.stats import Floats
from demur.judge.measures.repeats import gather
from demur.judge.measures.table import CORRECT, Flags, Table, table

if TYPE_CHECKING:
    import pyarrow as pa


class RiskCoverage(NamedTuple):
    """A risk-coverage curve, one point per distinct confidence.

    An item that was asked several times counts once: each of its repeats, with the confidence that it stated, carries
    an equal part of the item. The curve is then what is to be expected when one repeat of each item is taken.
    """

    threshold: Floats
    """float64 [points], falling: answers with at least this confidence count."""
    coverage: Floats
    """float64 [points] in (0, 1]: the share of items answered then."""
    risk: Floats
    """float64 [points] in [0, 1]: the share of wrong ones among those."""
    area: float | None
    """Mean risk over coverages 1/n .. 1 (AURC; Geifman and El-Yaniv 2017), ties shared; None without items."""
    excess: float | None
    """``area`` minus the area of a perfect ranking with as many errors: 0 is the best (E-AURC)."""
    n: int
    """Items with a graded answer that states a confidence."""
    without_confidence: int
    """Graded rows that state no confidence; they are in no number here."""
    repeats: int = 0
    """Graded repeats that state a confidence; 0 where each item was asked once."""


def risk_coverage(rows: Table | pa.Table | Iterable[Row]) -> RiskCoverage:
    """The curve of the graded rows that state a confidence; a deflection counts as not correct."""
    columns = table(rows)
    confidence = columns.numbers("confidence")
    with_confidence = columns.graded & ~np.isnan(confidence)
    items = gather(columns.item, with_confidence)
    curve = of_arrays(
        confidence[with_confidence],
        columns.result[with_confidence] == CORRECT,
        int((columns.graded & ~with_confidence).sum()),
        weight=items.weight(),
    )
    return curve._replace(repeats=items.repeats)


def of_arrays(
    confidence: Floats, correct: Flags, without: int = 0, *, weight: Floats | None = None
) -> RiskCoverage:
    """The curve from confidences (float64 [rows]) and correctness (bool [rows]); the order of ties does not matter.

    Args:
        confidence: float64 [rows].
        correct: bool [rows].
        without: rows left out before, told in the result.
        weight: float64 [rows], the part of an item that a row is; the parts add up to whole items. 1 each when None.
    """
    if not len(confidence):
        empty = np.zeros(0)
        return RiskCoverage(empty, empty, empty, None, None, 0, without)
    weight = np.ones(len(confidence)) if weight is None else weight
    values, place = np.unique(-confidence, return_inverse=True)
    # thirds of an item add up to whole ones
    covered = np.cumsum(np.bincount(place, weights=weight)).round(9)
    errors = np.cumsum(np.bincount(place, weights=weight * ~correct)).round(9)
    n = round(float(covered[-1]))
    # within a tie every order is as likely: errors grow evenly from one threshold to the next
    k = np.arange(1, n + 1)
    area = float(np.mean(np.interp(k, np.append(0.0, covered), np.append(0.0, errors)) / k))
    best = float(np.mean(np.maximum(0.0, k - (n - errors[-1])) / k))
    return RiskCoverage(
        -values, covered / n, errors / covered, area, max(0.0, area - best), n, without
    )
