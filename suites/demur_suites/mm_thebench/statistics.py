"""Statistical tests of appendix D and Table 4: is hallucination associated with wrong answers, or with long chains?

Tables are ((a, b), (c, d)) of counts. In Table 9 rows are the kind of hallucination (reasoning only, perception only)
and columns the answer (wrong, right); its chi-square statistics have Yates's correction (see `audit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from demur.core.stats import Floats
from demur_suites.calibration import pearson as correlation

TwoByTwo = tuple[tuple[int, int], tuple[int, int]]


def chi_square(table: TwoByTwo, *, yates: bool = True) -> tuple[float, float] | None:
    """(statistic, p) of the chi-square test of independence; None where a row or a column is empty.

    >>> [round(v, 3) for v in chi_square(((52, 12), (37, 24)))]
    [5.495, 0.019]
    """
    (a, b), (c, d) = table
    n, margins = a + b + c + d, (a + b) * (c + d) * (a + c) * (b + d)
    if not margins:
        return None
    off = abs(a * d - b * c)
    value = n * (max(0.0, off - n / 2) if yates else off) ** 2 / margins
    return value, math.erfc(math.sqrt(value / 2))


def _hypergeometric(table: TwoByTwo) -> tuple[npt.NDArray[np.int64], Floats]:
    """(possible values of the first cell, log weight of each) given the margins, at an odds ratio of 1."""
    (a, b), (c, d) = table
    row, column, n = a + b, a + c, a + b + c + d
    cells = np.arange(max(0, row + column - n), min(row, column) + 1)
    return cells, np.array(
        [math.log(math.comb(row, k) * math.comb(n - row, column - k)) for k in cells.tolist()]
    )


def fisher(table: TwoByTwo) -> float:
    """Two-sided p of Fisher's exact test: the probability of all tables at most as likely as the observed one.

    >>> round(fisher(((8, 2), (1, 5))), 6)
    0.034965
    """
    cells, logs = _hypergeometric(table)
    mass = np.exp(logs - logs.max())
    seen = mass[cells == table[0][0]][0]
    return float(min(1.0, mass[mass <= seen * (1 + 1e-7)].sum() / mass.sum()))


def odds(table: TwoByTwo) -> float | None:
    """The odds ratio a d / b c; infinite where only b c is 0, None where it is 0 / 0."""
    (a, b), (c, d) = table
    if b * c:
        return a * d / (b * c)
    return math.inf if a * d else None


def odds_of_rates(first: float, second: float) -> float:
    """The odds ratio of two rates in (0, 1), the second against the first.

    >>> round(odds_of_rates(0.546, 0.738), 2)
    2.34
    """
    return second / (1 - second) / (first / (1 - first))


def exact_interval(table: TwoByTwo, level: float = 0.95) -> tuple[float, float]:
    """Exact conditional confidence interval of the odds ratio (Cornfield, as R's fisher.test); 0 or infinity if open.

    At each end, a first cell at least as extreme as the observed one has probability (1 - level) / 2.
    """
    cells, logs = _hypergeometric(table)
    seen, tail = table[0][0], (1 - level) / 2

    def beyond(log_odds: float, above: bool) -> float:
        shifted = logs + cells * log_odds
        mass = np.exp(shifted - shifted.max())
        return float(mass[cells >= seen if above else cells <= seen].sum() / mass.sum())

    low = 0.0 if seen == cells[0] else math.exp(_bisect(lambda t: beyond(t, True) - tail))
    high = math.inf if seen == cells[-1] else math.exp(_bisect(lambda t: tail - beyond(t, False)))
    return low, high


def _bisect(rising: Callable[[float], float]) -> float:
    """The root of an increasing function between -50 and 50."""
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


class Association(NamedTuple):
    """One row of Table 9: are answers wrong more often with one kind of hallucination than with the other?"""

    table: TwoByTwo
    """((wrong, right) of reasoning only, (wrong, right) of perception only)."""
    chi: tuple[float, float] | None
    fisher: float
    odds: float | None
    interval: tuple[float, float]


def association(reasoning: tuple[int, int], perception: tuple[int, int]) -> Association:
    """Table 9's row from (wrong, right) counts of the two kinds."""
    table = (reasoning, perception)
    return Association(table, chi_square(table), fisher(table), odds(table), exact_interval(table))


# --- correlation -----------------------------------------------------------------------------------


class Correlation(NamedTuple):
    """A correlation coefficient with its two-sided p, over n pairs."""

    r: float
    p: float
    n: int

    @property
    def stars(self) -> str:
        """Significance as tables print it: * p < .05, ** p < .01, *** p < .001."""
        return "*" * sum(self.p < level for level in (0.05, 0.01, 0.001))


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Pearson's r; None for fewer than three pairs, or where x or y is constant."""
    r = (
        correlation(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
        if len(x) > 2
        else None
    )
    return None if r is None else Correlation(r, _two_sided(r, len(x)), len(x))


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Spearman's rho: Pearson's r of the ranks; ties get their mean rank."""
    return pearson(_ranks(x).tolist(), _ranks(y).tolist())


def _ranks(values: Sequence[float]) -> Floats:
    _, at, counts = np.unique(
        np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[at]
    return ranks


def _two_sided(r: float, n: int) -> float:
    """Two-sided p of Pearson's r: Student's t with df = n - 2 at r sqrt(df / (1 - r^2)).

    With t = sqrt(df) tan(u) the density is cos(u)^(df - 1); Gauss-Legendre quadrature integrates it beyond asin(|r|).
    """
    nodes, weights = np.polynomial.legendre.leggauss(200)
    power, turn = n - 3, math.asin(min(1.0, abs(r)))

    def area(low: float) -> float:
        at = low + (math.pi / 2 - low) * (nodes + 1) / 2
        return float((math.pi / 2 - low) / 2 * (weights @ np.cos(at) ** power))

    return min(1.0, area(turn) / area(0.0))
