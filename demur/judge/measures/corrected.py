"""Accuracy, deflection and hallucination as people would have graded: a judge's rates, corrected by labelled answers.

With verdicts of all N answers of a cell and labels of n of them, the estimate is prediction-powered (PPI++,
Angelopoulos et al. 2023): the judge's share, times its power, plus the labelled answers' mean residual::

    p_k = power * F_k + sum_g W_g * mean over g's labelled of (Y_k - power * f_k)      k: correct, deflected, incorrect

``g`` are groups of equal verdict (a judge errs differently where it says "correct" and where it says "incorrect", and
labels are drawn with other shares than verdicts have), ``W_g`` their share of the cell. An answer that the judge left
unjudged is in a group like the others: only a label can say what it was. So a group without a label is not estimated
from another one: it is refused, or, where it is small, its answers may be anything (`BLIND`). One power serves all
three classes, so that they sum to one; it matters without groups (within one verdict f is constant).

The variance is that of drawing n of N without replacement; ``population="super"`` adds that of the N questions
themselves, ``"finite"`` does not (what people would say of these very answers). What answers have in common (an entity
of their questions, the same question to two systems) is taken from the *influence* of each answer: what was predicted
for it plus, where it has a label, the residual over the share labelled, less the estimate. Their sum of squares is the
variance, so sums over clusters give that of clusters (Liang and Zeger 1986), and products that of two systems.
Intervals are Wilson's, with the n that a share of this variance would have and Student's quantile: they stay in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atanh, sqrt, tanh
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from demur.core.errors import DataError
from demur.core.records import Measure
from demur.core.stats import Codes, Floats
from demur.judge.measures.rates import share_of
from demur.judge.measures.table import CORRECT, DEFLECTED, FAILED, INCORRECT, UNJUDGED

LEAST = 40
"""Labels of a cell below which nothing is corrected: intervals of fewer do not hold what they promise."""
BLIND = 0.1
"""Share of a cell's answers up to which a group of equal verdict may lack labels: its answers may then be anything, and
the intervals are wider by this share."""
EXTRA = 2.0
"""Labels that each group's variance counts beyond those given, a third of each class: a judge that was never caught out
is not taken to be perfect."""
VERDICTS = {
    CORRECT: "correct",
    DEFLECTED: "deflected",
    INCORRECT: "incorrect",
    UNJUDGED: "unjudged",
}
CLASSES = {"accuracy": CORRECT, "deflection": DEFLECTED, "hallucination": INCORRECT}
Population = Literal["super", "finite"]


class Corrected(NamedTuple):
    """One cell's rates beside the judge's own.

    Attributes:
        rates: accuracy, deflection, hallucination; ``n`` counts labels, values sum to 1. Accuracy alone where labels do
            not tell the others apart.
        naive: the judge's own, over what it graded.
        labelled: answers with a label.
        answers: N, graded and unjudged ones; those that failed are in neither.
        power: of the judge's verdicts, 0 (nothing) to 1.
        influence: float64 [N, 3], each answer's part in the error of the estimate; their squares sum to its variance
            (to that of the draw with ``population="finite"``, before ``chance``); 0 for answers that are in no rate.
        chance: float64 [N], share of the answers of equal verdict that have a label.
        known: bool [N], which have one.
        variance: float64 [3], of the estimate, clusters included.
        freedom: degrees of freedom: labels less groups, or fewer where one group or few clusters bring the variance.
        blind: share of answers whose verdict has no label at all, at most `BLIND`; intervals allow them anything.
        population: ``super`` or ``finite``.
    """

    rates: dict[str, Measure]
    naive: dict[str, Measure]
    labelled: int
    answers: int
    power: float
    influence: Floats
    chance: Floats
    known: npt.NDArray[np.bool_]
    variance: Floats
    freedom: int
    blind: float
    population: Population


def corrected(
    verdict: Codes,
    label: Codes,
    *,
    population: Population = "super",
    level: float = 0.95,
    by_verdict: bool = True,
    cluster: Codes | None = None,
) -> Corrected:
    """Correct one cell: one system, one scenario, one condition.

    Args:
        verdict: int64 [N], the judge's: CORRECT, DEFLECTED, INCORRECT or UNJUDGED (FAILED ones are left out).
        label: int64 [N], people's: CORRECT, DEFLECTED, INCORRECT, or -1 where there is none. Within answers of equal
            verdict those with a label must be a random draw, as `demur annotate` makes it.
        population: ``super`` or ``finite``.
        level: of the intervals.
        by_verdict: False takes all labelled answers as one random draw, as the published estimator does.
        cluster: int64 [N], equal for answers whose questions share an entity; for ``super``.

    Raises:
        DataError: fewer labels than `LEAST`, or none on the answers of one verdict.
    """
    answered = verdict != FAILED
    labelled_answers = answered & (label >= 0)
    n, answers = int(labelled_answers.sum()), int(answered.sum())
    if n < LEAST:
        raise DataError(
            f"{n} labels of {answers} answers",
            cure=f"label {LEAST} of each cell at least: demur annotate",
        )
    counted = answered & ~_unlabelled(verdict, labelled_answers) if by_verdict else answered
    total = int(counted.sum())
    blind = 1 - total / answers
    v, has_label = verdict[counted], labelled_answers[counted]
    codes = list(CLASSES.values())
    f = np.stack([v == code for code in codes], axis=1).astype(np.float64)
    f[v == UNJUDGED] = 1 / 3
    y = np.stack([label[counted] == code for code in codes], axis=1).astype(np.float64)
    groups = np.unique(v, return_inverse=True)[1] if by_verdict else np.zeros(total, dtype=np.int64)
    size, labelled = (
        np.bincount(groups).astype(np.float64),
        np.bincount(groups[has_label]).astype(np.float64),
    )
    weight, chance = size / total, labelled / size
    power = _power(y[has_label], f[has_label], groups[has_label], weight, size, labelled)
    predicted, residual = power * f, np.zeros((total, 3))
    smoothed, design, unsure = np.zeros(3), np.zeros(3), 0.0
    for g, share in enumerate(weight):
        in_group, labelled_in_group = groups == g, has_label & (groups == g)
        parts = y[labelled_in_group] - power * f[labelled_in_group]
        mean = parts.mean(axis=0)
        predicted[in_group] += mean
        residual[labelled_in_group] = (parts - mean) / chance[g]
        m = labelled[g] + EXTRA
        extra = np.eye(3) - power * f[labelled_in_group].mean(axis=0)
        smooth = (parts.sum(axis=0) + extra.sum(axis=0) * EXTRA / 3) / m
        smoothed += share * smooth
        squares = ((parts - smooth) ** 2).sum(axis=0) + ((extra - smooth) ** 2).sum(
            axis=0
        ) * EXTRA / 3
        part = share**2 * (1 - chance[g]) * squares / (m * (m - 1))
        design += part
        unsure += float(part.sum()) ** 2 / (m - 1)
    estimate, likely = _simplex(predicted.mean(axis=0)), _simplex(power * f.mean(axis=0) + smoothed)
    influence = np.zeros((len(counted), 3))
    influence[counted], variance = residual / total, design
    freedom = n - len(weight)
    if population == "super":
        influence[counted] += (predicted - predicted.mean(axis=0)) / total
        variance = design + likely * (1 - likely) / total
        if cluster is not None:
            sums = _sums(influence[counted], cluster[counted])
            k = len(sums)
            joint = (sums**2).sum(axis=0) * k / max(1, k - 1)
            variance = variance + np.maximum(0.0, joint - (influence**2).sum(axis=0))
            freedom = min(freedom, k - 1)
    if unsure > 0:  # a large group with few labels brings few degrees (Satterthwaite 1946)
        freedom = min(freedom, int(float(variance.sum()) ** 2 / unsure))
    rates, naive = {}, {}
    graded = answered & (verdict != UNJUDGED)
    ungraded = {"unjudged": int((answered & ~graded).sum()), "failed": int((~answered).sum())}
    for i, (name, code) in enumerate(CLASSES.items()):
        varies = max(float(likely[i] * (1 - likely[i])), 0.5 / total)
        effective = varies / float(variance[i]) if variance[i] > 0 else None
        low, high = _wilson_t(estimate[i], effective, freedom, level)
        rates[name] = Measure(
            name=name,
            value=float(estimate[i]),
            n=n,
            unjudged=0,
            failed=ungraded["failed"],
            low=low * (1 - blind),
            high=high * (1 - blind) + blind,
            interval=f"wilson-t({level:g},{population})",
        )
        naive[name] = share_of(
            name, int((verdict[graded] == code).sum()), int(graded.sum()), level
        ).model_copy(update=ungraded)
    shares = np.zeros(len(counted))
    shares[counted] = chance[groups]
    return Corrected(
        rates,
        naive,
        n,
        answers,
        power,
        influence,
        shares,
        labelled_answers & counted,
        variance,
        freedom,
        blind,
        population,
    )


class Difference(NamedTuple):
    """The corrected difference of one rate, second minus first, beside the judge's own."""

    measure: str
    naive: float
    difference: float
    low: float
    high: float
    """Ends of the interval of level 0.95."""
    pairs: int
    """Items that both sides were asked."""
    labelled: tuple[int, int]
    """Labels of either side."""
    both: int
    """Items labelled on both sides."""

    @property
    def p(self) -> float:
        """Two-sided p of no difference, from the interval's side towards 0: at most 0.05 where a 95 % one excludes 0."""
        gap, low, high = (
            atanh(min(max(x, -1 + 1e-9), 1 - 1e-9)) for x in (self.difference, self.low, self.high)
        )
        away = gap - low if gap > 0 else high - gap
        if gap == 0 or away <= 0:
            return float(gap == 0)
        return 2 * (1 - NormalDist().cdf(abs(gap) / away * NormalDist().inv_cdf(0.975)))


def differences(
    first: Corrected,
    second: Corrected,
    verdicts: tuple[Codes, Codes],
    *,
    cluster: Codes | None = None,
) -> list[Difference]:
    """The difference of two cells whose answers stand item by item: same questions, two systems.

    Its variance is that of both rates less twice their covariance, which the influences give; the intervals are
    Student's on Fisher's scale, of level 0.95, within [-1, 1].

    Args:
        first: of one system.
        second: of the other, of the same population.
        verdicts: int64 [items] of either, in the order of the items.
        cluster: int64 [items], as both rates were given.
    """
    first_verdict, second_verdict = verdicts
    usable = (first_verdict != FAILED) & (second_verdict != FAILED)
    labelled_twice = first.known & second.known
    correlation = _alike(
        first, second, first_verdict * (UNJUDGED + FAILED) + second_verdict, cluster
    )
    # as if four more items, labelled on both sides, had nothing in common: 20 equal pairs do not prove that all are
    correlation = np.where(
        correlation > 0,
        correlation * labelled_twice.sum() / (labelled_twice.sum() + 2 * EXTRA),
        correlation,
    )
    variance = (
        first.variance
        + second.variance
        - 2 * correlation * np.sqrt(first.variance * second.variance)
    )
    half_widths = student(0.975, min(first.freedom, second.freedom)) * np.sqrt(variance)
    result = []
    for i, name in enumerate(CLASSES):
        if name not in first.rates or name not in second.rates:
            continue
        before, after = (float(side.rates[name].value or 0.0) for side in (first, second))
        gap = after - before
        bounded_gap = min(max(gap, -1 + 1e-9), 1 - 1e-9)
        half_width = float(half_widths[i]) / (1 - bounded_gap**2)
        low = (
            tanh(atanh(bounded_gap) - half_width)
            - second.blind * after
            - first.blind * (1 - before)
        )
        high = (
            tanh(atanh(bounded_gap) + half_width)
            + second.blind * (1 - after)
            + first.blind * before
        )
        judged = [side.naive[name].value for side in (first, second)]
        naive = float(judged[1] - judged[0]) if None not in judged else float("nan")  # type: ignore[operator]
        labelled = (first.labelled, second.labelled)
        result.append(
            Difference(
                name,
                naive,
                gap,
                max(-1.0, low),
                min(1.0, high),
                int(usable.sum()),
                labelled,
                int(labelled_twice.sum()),
            )
        )
    return result


def _alike(first: Corrected, second: Corrected, pairs: Codes, cluster: Codes | None) -> Floats:
    """float64 [3] in [-1, 1]: correlation of two estimates, from the influences of the items.

    Args:
        pairs: int64 [items], equal where both verdicts are.
    """
    if first.population == "finite":
        # Labels are all that varies. Drawn independently, they have nothing in common however alike the answers are;
        # so the share of items labelled on both sides counts (Särndal et al. 1992, 5.4), here among equal verdicts.
        labelled_twice, cells = first.known & second.known, np.unique(pairs, return_inverse=True)[1]
        share = (np.bincount(cells, weights=labelled_twice) / np.bincount(cells))[cells]
        common = 1 - first.chance * second.chance / np.where(labelled_twice, share, 1.0)
        together = (first.influence * second.influence * common[:, None])[labelled_twice].sum(
            axis=0
        )
        alone = [
            (side.influence**2 * (1 - side.chance)[:, None]).sum(axis=0) for side in (first, second)
        ]
    else:
        sums = [
            side.influence if cluster is None else _sums(side.influence, cluster)
            for side in (first, second)
        ]
        together = (sums[0] * sums[1]).sum(axis=0)
        alone = [(side**2).sum(axis=0) for side in sums]
    scale = np.sqrt(alone[0] * alone[1])
    correlation: Floats = np.clip(together / np.where(scale > 1e-15, scale, np.inf), -1.0, 1.0)
    return correlation


def _unlabelled(verdict: Codes, labelled: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Per answer, bool [N]: those whose verdict has no label.

    Raises:
        DataError: they are more than `BLIND` of the cell.
    """
    without = [v for v in VERDICTS if (verdict == v).any() and not labelled[verdict == v].any()]
    place = np.isin(verdict, without)
    if (share := place.sum() / (verdict != FAILED).sum()) > BLIND:
        unlabelled_text = " and ".join(
            f"{int((verdict == v).sum()):,} {VERDICTS[v]}" for v in without
        )
        raise DataError(
            f"no label on {unlabelled_text} answers, {100 * share:.0f} % of the cell",
            cure="other labels tell nothing of them; label some of each verdict: demur annotate RUN draws all",
        )
    return place


def _sums(values: Floats, cluster: Codes) -> Floats:
    """float64 [clusters, 3]: sums over clusters."""
    of = np.unique(cluster, return_inverse=True)[1]
    return np.stack([np.bincount(of, weights=column) for column in values.T], axis=1)


def _power(
    y: Floats, f: Floats, groups: Codes, weight: Floats, size: Floats, labelled: Floats
) -> float:
    """The power of least summed variance: sum of covariances over sum of variances, within groups, in [0, 1]."""
    covariance = variance = 0.0
    for g, share in enumerate(weight):
        in_group = groups == g
        scale = share**2 * (1 - labelled[g] / size[g]) / (labelled[g] * max(1.0, labelled[g] - 1))
        df = f[in_group] - f[in_group].mean(axis=0)
        covariance += scale * float((df * (y[in_group] - y[in_group].mean(axis=0))).sum())
        variance += scale * float((df * df).sum())
    return min(1.0, max(0.0, covariance / variance)) if variance > 0 else 1.0


def _simplex(values: Floats) -> Floats:
    """Three shares that sum to one: what fell below 0 is 0, and the others give way."""
    clipped: Floats = np.clip(values, 0.0, None)
    shares: Floats = clipped / clipped.sum()
    return shares


def _wilson_t(
    p: float, n: float | None, degrees_of_freedom: float, level: float
) -> tuple[float, float]:
    """Wilson's interval of a share of ``n`` independent items, with Student's quantile; a point where n is None."""
    if n is None:
        return p, p
    t = student(0.5 + level / 2, degrees_of_freedom)
    middle, scale = p + t * t / (2 * n), 1 + t * t / n
    width = t * sqrt(max(0.0, p * (1 - p)) / n + t * t / (4 * n * n))
    return max(0.0, (middle - width) / scale), min(1.0, (middle + width) / scale)


def student(share: float, degrees_of_freedom: float) -> float:
    """Quantile of Student's t (Cornish and Fisher's series; right to 0.01 from 4 degrees of freedom on).

    >>> round(student(0.975, 10), 2), round(student(0.975, 1e9), 2)
    (2.23, 1.96)
    """
    z, v = NormalDist().inv_cdf(share), max(4.0, degrees_of_freedom)
    terms: Sequence[float] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v ** (i + 1) for i, term in enumerate(terms))
