"""Accuracy, deflection and hallucination as people would have graded: a judge's rates, corrected by labelled answers.

With verdicts of all N answers of a cell and labels of n of them, the estimate is prediction-powered (PPI++,
Angelopoulos et al. 2023): the judge's share, times its power, plus the labelled answers' mean residual::

    p_k = power * F_k + sum_g W_g * mean over g's labelled of (Y_k - power * f_k)      k: correct, deflected, incorrect

``g`` are groups of equal verdict (a judge errs differently where it says "correct" and where it says "incorrect", and
labels are drawn with other shares than verdicts have), ``W_g`` their share of the cell. One power serves all three
classes, so that they are corrected jointly and sum to one; it makes the summed variance least, and matters where small
groups had to be pooled (within one verdict f is constant). An answer that the judge left ungraded is a group like the
others: only a label can say what it was.

The variance is that of drawing n of N without replacement; ``population="super"`` adds that of the N questions
themselves, ``"finite"`` does not (what people would say of these very answers). Intervals are Wilson's, with the n that
a share of this variance would have and Student's quantile: they stay in [0, 1] and hold at n = 40.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atanh, sqrt, tanh
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from demur.core.errors import DataError
from demur.core.records import Measure
from demur.core.stats import Codes, Floats
from demur.judge.measures.rates import share_of
from demur.judge.measures.table import CORRECT, DEFLECTED, FAILED, INCORRECT, UNGRADED

LEAST = 40
"""Labels of a cell below which nothing is corrected: intervals of fewer do not hold what they promise."""
LEAST_GROUP = 5
"""Labels of a group of equal verdict below which it is pooled with another."""
EXTRA = 2.0
"""Labels that each group's variance counts beyond those given, a third of each class: a judge that was never caught out
is not taken to be perfect."""
CLASSES = {"accuracy": CORRECT, "deflection": DEFLECTED, "hallucination": INCORRECT}
Population = Literal["super", "finite"]


class Corrected(NamedTuple):
    """One cell's rates beside the judge's own.

    Attributes:
        rates: accuracy, deflection, hallucination; ``n`` counts labels, values sum to 1. Accuracy alone where labels do
            not tell the others apart.
        naive: the judge's own, over what it graded.
        labelled: answers with a label.
        answers: N, graded and ungraded ones; those that failed are in neither.
        power: of the judge's verdicts, 0 (nothing) to 1.
        residual: float64 [N, 3], what a labelled answer adds to the estimate; NaN elsewhere. For differences.
        design: float64 [3], variance from labelling some instead of all.
        spread: float64 [3], variance from asking these N questions; 0 with ``population="finite"``.
        freedom: degrees of freedom: labels less groups.
    """

    rates: dict[str, Measure]
    naive: dict[str, Measure]
    labelled: int
    answers: int
    power: float
    residual: Floats
    design: Floats
    spread: Floats
    freedom: int


def corrected(
    verdict: Codes,
    label: Codes,
    *,
    population: Population = "super",
    level: float = 0.95,
    least: int = LEAST,
    by_verdict: bool = True,
    cluster: Codes | None = None,
) -> Corrected:
    """Correct one cell: one system, one scenario, one condition.

    Args:
        verdict: int64 [N], the judge's: CORRECT, DEFLECTED, INCORRECT or UNGRADED (FAILED ones are left out).
        label: int64 [N], people's: CORRECT, DEFLECTED, INCORRECT, or -1 where there is none. Within answers of equal
            verdict those with a label must be a random draw, as `demur annotate` makes it.
        population: ``super`` or ``finite``.
        level: of the intervals.
        least: labels below which it is refused.
        by_verdict: False takes all labelled answers as one random draw, as the published estimator does.
        cluster: int64 [N], equal for answers whose questions share an entity; for ``super``.

    Raises:
        DataError: fewer labels than ``least``.
    """
    kept = verdict != FAILED
    verdict, given = verdict[kept], label[kept]
    known = given >= 0
    n, total = int(known.sum()), len(verdict)
    if n < max(2, least):
        raise DataError(f"{n} labels of {total} answers", cure=f"label {least} of each cell at least: demur annotate")
    codes = list(CLASSES.values())
    f = np.stack([verdict == code for code in codes], axis=1).astype(np.float64)
    f[verdict == UNGRADED] = 1 / 3
    y = np.stack([given == code for code in codes], axis=1).astype(np.float64)
    groups = _groups(verdict, known) if by_verdict else np.zeros(total, dtype=np.int64)
    size = np.bincount(groups).astype(np.float64)
    weight, labelled = size / size.sum(), np.bincount(groups[known], minlength=len(size)).astype(np.float64)
    power = _power(y[known], f[known], groups[known], weight, size, labelled)
    residual = np.full((total, 3), np.nan)
    estimate = power * f.mean(axis=0)
    likely, design = estimate.copy(), np.zeros(3)
    for g, share in enumerate(weight):
        mine = known & (groups == g)
        parts = y[mine] - power * f[mine]
        mean = parts.mean(axis=0)
        residual[mine] = (parts - mean) * (share / labelled[g])
        estimate += share * mean
        m = labelled[g] + EXTRA
        extra = np.eye(3) - power * f[mine].mean(axis=0)
        smooth = (parts.sum(axis=0) + extra.sum(axis=0) * EXTRA / 3) / m
        likely += share * smooth
        squares = ((parts - smooth) ** 2).sum(axis=0) + ((extra - smooth) ** 2).sum(axis=0) * EXTRA / 3
        design += share**2 * (1 - labelled[g] / size[g]) * squares / (m * (m - 1))
    estimate, likely = _simplex(estimate), _simplex(likely)
    spread = np.zeros(3)
    if population == "super":
        spread = likely * (1 - likely) / total * _design_effect(f, None if cluster is None else cluster[kept])
    freedom = n - len(weight)
    rates, naive = {}, {}
    graded = verdict != UNGRADED
    for i, (name, code) in enumerate(CLASSES.items()):
        varies = max(float(likely[i] * (1 - likely[i])), 0.5 / total)
        effective = varies / whole if (whole := design[i] + spread[i]) > 0 else None
        low, high = _wilson_t(estimate[i], effective, freedom, level)
        rates[name] = Measure(
            name=name, value=float(estimate[i]), n=n, ungraded=0, failed=int((~kept).sum()), low=low, high=high,
            interval=f"wilson-t({level:g},{population})",
        )  # fmt: skip
        naive[name] = share_of(name, int((verdict[graded] == code).sum()), int(graded.sum()), level).model_copy(
            update={"ungraded": int((~graded).sum()), "failed": int((~kept).sum())}
        )
    every = np.full((len(kept), 3), np.nan)
    every[kept] = residual
    return Corrected(rates, naive, n, total, power, every, design, spread, freedom)


class Difference(NamedTuple):
    """The corrected difference of one rate, second minus first, beside the judge's own."""

    measure: str
    naive: float
    difference: float
    low: float
    high: float
    pairs: int
    """Items that both sides were asked."""
    labelled: tuple[int, int]
    """Labels of either side."""
    both: int
    """Items labelled on both sides."""


def differences(
    first: Corrected, second: Corrected, verdicts: tuple[Codes, Codes], *, level: float = 0.95
) -> list[Difference]:
    """The difference of two cells whose answers stand item by item: same questions, two systems.

    Residuals of items that are labelled on both sides vary together, and that is taken off; the intervals are Student's
    on Fisher's scale, within [-1, 1].

    Args:
        first: of one system.
        second: of the other.
        verdicts: int64 [items] of either, in the order of the items.
        level: of the intervals.
    """
    one, other = verdicts
    usable = (one != FAILED) & (other != FAILED)
    labelled = ~np.isnan(first.residual[:, 0]) & ~np.isnan(second.residual[:, 0])
    together = (first.residual[labelled] * second.residual[labelled]).sum(axis=0)
    found = []
    for i, (name, code) in enumerate(CLASSES.items()):
        if name not in first.rates or name not in second.rates:
            continue
        values = [float(side.rates[name].value or 0.0) for side in (first, second)]
        gap = values[1] - values[0]
        apart = (other[usable] == code).astype(np.float64) - (one[usable] == code)
        design = first.design[i] + second.design[i]
        design = max(design - 2 * float(together[i]), design / 4)
        spread = float(apart.var()) / max(1, len(apart)) if first.spread[i] + second.spread[i] else 0.0
        df = min(first.freedom, second.freedom)
        inside = min(max(gap, -1 + 1e-9), 1 - 1e-9)
        reach = student(0.5 + level / 2, df) * sqrt(design + spread) / (1 - inside**2)
        low, high = tanh(atanh(inside) - reach), tanh(atanh(inside) + reach)
        judged = [side.naive[name].value for side in (first, second)]
        naive = float(judged[1] - judged[0]) if None not in judged else float("nan")  # type: ignore[operator]
        found.append(
            Difference(
                name, naive, gap, low, high, int(usable.sum()), (first.labelled, second.labelled), int(labelled.sum())
            )
        )
    return found


def _groups(verdict: Codes, known: Codes) -> Codes:
    """int64 [N]: answers of equal verdict, those with few labels pooled; every group has labels."""
    groups = verdict.astype(np.int64)
    present = [int(v) for v in np.unique(groups)]
    labels = {v: int((known & (groups == v)).sum()) for v in present}
    sizes = {v: int((groups == v).sum()) for v in present}
    order = sorted(present, key=lambda v: (labels[v], v))
    pooled: list[int] = []
    for v in order:
        few = labels[v] < LEAST_GROUP and labels[v] < sizes[v]
        if few or (pooled and sum(labels[p] for p in pooled) < LEAST_GROUP):
            pooled.append(v)
    if pooled:
        groups[np.isin(groups, pooled)] = pooled[0]
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _power(y: Floats, f: Floats, groups: Codes, weight: Floats, size: Floats, labelled: Floats) -> float:
    """The power of least summed variance: sum of covariances over sum of variances, within groups, in [0, 1]."""
    along = alone = 0.0
    for g, share in enumerate(weight):
        mine = groups == g
        scale = share**2 * (1 - labelled[g] / size[g]) / (labelled[g] * max(1.0, labelled[g] - 1))
        df = f[mine] - f[mine].mean(axis=0)
        along += scale * float((df * (y[mine] - y[mine].mean(axis=0))).sum())
        alone += scale * float((df * df).sum())
    return min(1.0, max(0.0, along / alone)) if alone > 0 else 1.0


def _simplex(values: Floats) -> Floats:
    """Three shares that sum to one: what fell below 0 is 0, and the others give way."""
    clipped: Floats = np.clip(values, 0.0, None)
    shares: Floats = clipped / clipped.sum()
    return shares


def _design_effect(f: Floats, cluster: Codes | None) -> Floats:
    """float64 [3]: how much more the judge's shares vary because questions share clusters; at least 1."""
    if cluster is None or len(np.unique(cluster)) == len(cluster):
        return np.ones(3)
    of = np.unique(cluster, return_inverse=True)[1]
    away = f - f.mean(axis=0)
    sums = np.stack([np.bincount(of, weights=away[:, k]) for k in range(3)], axis=1)
    plain, joint = (away**2).sum(axis=0), (sums**2).sum(axis=0)
    effect: Floats = np.where(plain > 0, np.maximum(1.0, joint / np.maximum(plain, 1e-12)), 1.0)
    return effect


def _wilson_t(p: float, n: float | None, df: float, level: float) -> tuple[float, float]:
    """Wilson's interval of a share of ``n`` independent items, with Student's quantile; a point where n is None."""
    if n is None:
        return p, p
    t = student(0.5 + level / 2, df)
    middle, scale = p + t * t / (2 * n), 1 + t * t / n
    width = t * sqrt(max(0.0, p * (1 - p)) / n + t * t / (4 * n * n))
    return max(0.0, (middle - width) / scale), min(1.0, (middle + width) / scale)


def student(share: float, df: float) -> float:
    """Quantile of Student's t (Cornish and Fisher's series; right to 0.01 from 4 degrees of freedom on).

    >>> round(student(0.975, 10), 2), round(student(0.975, 1e9), 2)
    (2.23, 1.96)
    """
    z, v = NormalDist().inv_cdf(share), max(4.0, df)
    terms: Sequence[float] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v ** (i + 1) for i, term in enumerate(terms))
