"""Risk against coverage: if only the most confident answers counted, how many of them would be wrong?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.judge.measures.table import CORRECT, Flags, Floats, Table, table
from demur.records import Row

if TYPE_CHECKING:
    import pyarrow as pa


class RiskCoverage(NamedTuple):
    """A risk-coverage curve, one point per distinct confidence."""

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
    without_confidence: int
    """Graded rows that state no confidence; they are in no number here."""


def risk_coverage(rows: Table | pa.Table | Iterable[Row]) -> RiskCoverage:
    """The curve of the graded rows that state a confidence; a deflection counts as not correct."""
    found = table(rows)
    confidence = found.numbers("confidence")
    kept = found.graded & ~np.isnan(confidence)
    return of_arrays(confidence[kept], found.result[kept] == CORRECT, int((found.graded & ~kept).sum()))


def of_arrays(confidence: Floats, correct: Flags, without: int = 0) -> RiskCoverage:
    """The curve from confidences (float64 [n]) and correctness (bool [n]); does not depend on the order of ties."""
    n = len(confidence)
    if not n:
        empty = np.zeros(0)
        return RiskCoverage(empty, empty, empty, None, None, 0, without)
    values, place = np.unique(-confidence, return_inverse=True)
    size = np.bincount(place)
    wrong = np.bincount(place, weights=(~correct).astype(np.float64))
    covered, errors = np.cumsum(size), np.cumsum(wrong)
    # within a tie every order is as likely: item j of a block of s adds wrong/s errors
    block = np.repeat(np.arange(len(size)), size)
    within = np.arange(n) - np.repeat(covered - size, size) + 1
    expected = (errors - wrong)[block] + within * (wrong / size)[block]
    area = float(np.mean(expected / np.arange(1, n + 1)))
    total = int(errors[-1])
    tail = np.arange(1, total + 1)
    best = float(np.sum(tail / (n - total + tail)) / n)
    return RiskCoverage(-values, covered / n, errors / covered, area, max(0.0, area - best), n, without)
