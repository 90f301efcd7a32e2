"""Statistical tests of appendix D and Table 4: is hallucination associated with wrong answers, or with long chains?

Tables are ((a, b), (c, d)) of counts. In Table 9 rows are the kind of hallucination (reasoning only, perception only)
and columns the answer (wrong, right); its chi-square statistics have Yates's correction. Computed by scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

TwoByTwo = tuple[tuple[int, int], tuple[int, int]]


class Association(NamedTuple):
    """One row of Table 9: are answers wrong more often with one kind of hallucination than with the other?

    Attributes:
        table: ((wrong, right) of reasoning only, (wrong, right) of perception only).
        chi: (statistic, p) of the chi-square test with Yates's correction; None where a row or a column is empty.
        fisher: two-sided p of Fisher's exact test.
        odds: a d / b c; infinite where only b c is 0, None where it is 0 / 0.
        interval: its exact conditional 95 % interval; 0 or infinity where an end is open.
    """

    table: TwoByTwo
    chi: tuple[float, float] | None
    fisher: float
    odds: float | None
    interval: tuple[float, float]


def association(reasoning: tuple[int, int], perception: tuple[int, int]) -> Association:
    """Table 9's row from (wrong, right) counts of the two kinds."""
    from scipy.stats import chi2_contingency, fisher_exact
    from scipy.stats.contingency import odds_ratio

    table = (reasoning, perception)
    (a, b), (c, d) = table
    if not (a + b and c + d and a + c and b + d):
        return Association(table, None, 1.0, None, (0.0, math.inf))
    chi = chi2_contingency(table)
    ends = odds_ratio(table).confidence_interval(0.95)
    return Association(
        table,
        (float(chi.statistic), float(chi.pvalue)),
        float(fisher_exact(table).pvalue),
        a * d / (b * c) if b * c else math.inf,
        (float(ends.low), float(ends.high)),
    )


def odds_of_rates(first: float, second: float) -> float:
    """The odds ratio of two rates in (0, 1), the second against the first.

    >>> round(odds_of_rates(0.546, 0.738), 2)
    2.34
    """
    return second / (1 - second) / (first / (1 - first))


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
    from scipy.stats import pearsonr

    return _correlation(pearsonr, x, y)


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Spearman's rho, None as for `pearson`; ties get their mean rank."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, x, y)


def _correlation(
    coefficient: Callable[..., Any], x: Sequence[float], y: Sequence[float]
) -> Correlation | None:
    if len(x) < 3 or len(set(x)) == 1 or len(set(y)) == 1:
        return None
    result = coefficient(x, y)
    return Correlation(float(result.statistic), float(result.pvalue), len(x))
