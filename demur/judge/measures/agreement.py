"""Agreement of any number of labellers, from who gave which label to which item; intervals resample the items.

raw            share of pairs of labels of one item that are equal, the mean over items
cohen          Cohen (1960): two labellers, each with a base rate of their own
fleiss         Fleiss (1971): labels as if drawn from one pool; items may have different numbers of them
krippendorff   Krippendorff's alpha (2004), nominal: missing labels allowed, corrected for small samples

A figure is None where it is undefined: no item with two labels, or one same label throughout. Where all resamples are
equal, raw agreement has Wilson's interval and the others have none: one without width would claim certainty.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from demur.core.errors import DataError
from demur.core.records import Measure, Verdict
from demur.core.stats import Codes, Floats, is_point, percentile, resampled
from demur.judge.measures.rates import share_of

DRAWS, LEVEL = 2000, 0.95
"""Resamples of the items behind an interval, and its level."""


class Rating(NamedTuple):
    """One label that somebody gave to one item.

    Attributes:
        item: what was labelled.
        rater: who did.
        label: what they said.
        again: whether it is a hidden repeat, which counts for self-consistency alone.
    """

    item: str
    rater: str
    label: str
    again: bool = False


class Confusion(NamedTuple):
    """Two labellers' labels of the same items: rows the first, columns the second."""

    first: str
    second: str
    table: Floats
    """float64 [labels, labels]: items."""


class Agreed(NamedTuple):
    """All figures of some ratings.

    Attributes:
        labels: in the order of every table.
        raters: sorted.
        figures: raw, cohen (two raters, or the mean over pairs of them), fleiss, krippendorff; ``n`` counts items with
            two labels or more.
        base_rates: rater -> label -> share of their labels, with its interval.
        consistency: rater -> share of hidden repeats that got the first label again.
        confusion: every pair of raters with a shared item.
        single: items with one label, which are in no figure.
    """

    labels: tuple[str, ...]
    raters: tuple[str, ...]
    figures: dict[str, Measure]
    base_rates: dict[str, dict[str, Measure]]
    consistency: dict[str, Measure]
    confusion: tuple[Confusion, ...]
    single: int


def agreed(ratings: Iterable[Rating], *, seed: int = 0) -> Agreed:
    """Every figure of agreement.

    Args:
        ratings: in any order; a rater labels an item once, apart from hidden repeats.
        seed: of the resamples.

    Raises:
        DataError: a rater labels an item twice.

    >>> found = agreed([Rating("1", "a", "x"), Rating("1", "b", "x"), Rating("2", "a", "x"), Rating("2", "b", "y")])
    >>> found.figures["raw"].value, found.figures["cohen"].value
    (0.5, 0.0)
    """
    all_ratings = list(ratings)
    first_labels: dict[tuple[str, str], str] = {}
    for rating in all_ratings:
        if rating.again:
            continue
        if (rating.item, rating.rater) in first_labels:
            raise DataError(
                f"{rating.rater} labels it twice", item=rating.item, cure="mark repeats as such"
            )
        first_labels[rating.item, rating.rater] = rating.label
    names = tuple(sorted({r.label for r in all_ratings}))
    raters = tuple(sorted({rater for _, rater in first_labels}))
    items = sorted({item for item, _ in first_labels})
    codes = np.full((len(items), len(raters)), -1, dtype=np.int64)
    row_of, column_of, code_of = (
        {v: i for i, v in enumerate(values)} for values in (items, raters, names)
    )
    for (item, rater), label in first_labels.items():
        codes[row_of[item], column_of[rater]] = code_of[label]
    figures = {
        name: _measured(name, codes, len(names), method, seed)
        for name, method in (
            ("raw", _raw),
            ("cohen", _cohen),
            ("fleiss", _fleiss),
            ("krippendorff", _krippendorff),
        )
    }
    rates: dict[str, dict[str, Measure]] = {}
    for rater, rater_codes in zip(raters, codes.T, strict=True):
        n = int((rater_codes >= 0).sum())
        rates[rater] = {
            label: share_of(label, int((rater_codes == i).sum()), n)
            for i, label in enumerate(names)
        }
    repeats: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for rating in all_ratings:
        if rating.again and (rating.item, rating.rater) in first_labels:
            repeats[rating.rater][first_labels[rating.item, rating.rater] == rating.label] += 1
    consistency = {
        rater: share_of("self-consistency", c[True], c.total())
        for rater, c in sorted(repeats.items())
    }
    pairs = tuple(
        Confusion(raters[a], raters[b], table)
        for a in range(len(raters))
        for b in range(a + 1, len(raters))
        if (table := _table(codes[:, a], codes[:, b], len(names))).any()
    )
    rated_once = int(((codes >= 0).sum(axis=1) == 1).sum())
    return Agreed(names, raters, figures, rates, consistency, pairs, rated_once)


# A figure is a function of sums over items, so that a resample is a sum of resampled rows.

_Sums = tuple[Floats, Callable[[Floats], Floats]]
"""float64 [items, columns], and the figure of totals [draws, columns]."""


def _measured(
    name: str,
    codes: Codes,
    labels: int,
    method: Callable[[Codes, int], _Sums],
    seed: int,
) -> Measure:
    rated_twice = codes[(codes >= 0).sum(axis=1) >= 2]
    if not len(rated_twice):
        return Measure(name=name, value=None, n=0)
    sums, figure = method(rated_twice, labels)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(figure(sums.sum(axis=0, keepdims=True))[0])
        ends = percentile(figure(resampled(sums.round(12), DRAWS, seed)), LEVEL)
    if np.isnan(value):
        return Measure(name=name, value=None, n=len(rated_twice))
    if ends is not None and is_point(*ends):
        return (
            share_of(name, value * len(rated_twice), len(rated_twice))
            if name == "raw"
            else Measure(name=name, value=value, n=len(rated_twice))
        )
    low, high = ends or (None, None)
    return Measure(
        name=name,
        value=value,
        n=len(rated_twice),
        low=low,
        high=high,
        interval=f"bootstrap({LEVEL:g},{DRAWS},seed={seed})",
    )


def _counts(codes: Codes, labels: int) -> Floats:
    """float64 [items, labels]: how often an item got each."""
    return np.stack([(codes == label).sum(axis=1) for label in range(labels)], axis=1).astype(
        np.float64
    )


def _equal_pairs(counts: Floats) -> Floats:
    """float64 [items]: share of the pairs of an item's labels that are equal."""
    size = counts.sum(axis=1)
    equal: Floats = (counts * (counts - 1)).sum(axis=1) / (size * (size - 1))
    return equal


def _raw(codes: Codes, labels: int) -> _Sums:
    equal = _equal_pairs(_counts(codes, labels))
    return np.stack([equal, np.ones(len(codes))], axis=1), lambda t: t[:, 0] / t[:, 1]


def _table(first: Codes, second: Codes, labels: int) -> Floats:
    both = (first >= 0) & (second >= 0)
    cells = np.bincount(first[both] * labels + second[both], minlength=labels**2).astype(np.float64)
    return cells.reshape(labels, labels)


def _cohen(codes: Codes, labels: int) -> _Sums:
    """Cohen's kappa of every pair of raters that share items, and their plain mean."""
    raters = codes.shape[1]
    pairs = [(a, b) for a in range(raters) for b in range(a + 1, raters)]
    width = labels**2
    sums = np.zeros((len(codes), len(pairs) * width))
    for number, (a, b) in enumerate(pairs):
        both = (codes[:, a] >= 0) & (codes[:, b] >= 0)
        sums[np.flatnonzero(both), number * width + codes[both, a] * labels + codes[both, b]] = 1.0

    def figure(totals: Floats) -> Floats:
        tables = totals.reshape(len(totals), len(pairs), labels, labels)
        n = tables.sum(axis=(2, 3))
        observed = np.trace(tables, axis1=2, axis2=3) / n
        chance = (tables.sum(axis=3) * tables.sum(axis=2)).sum(axis=2) / n**2
        kappa = np.where(chance < 1 - 1e-12, (observed - chance) / (1 - chance), np.nan)
        defined = ~np.isnan(kappa)
        mean: Floats = np.where(defined, kappa, 0).sum(axis=1) / defined.sum(axis=1)
        return mean

    return sums, figure


def _fleiss(codes: Codes, labels: int) -> _Sums:
    counts = _counts(codes, labels)

    def figure(totals: Floats) -> Floats:
        observed = totals[:, 0] / totals[:, 1]
        pool = totals[:, 2:] / totals[:, 2:].sum(axis=1, keepdims=True)
        chance = (pool**2).sum(axis=1)
        return np.where(chance < 1 - 1e-12, (observed - chance) / (1 - chance), np.nan)

    return np.column_stack([_equal_pairs(counts), np.ones(len(codes)), counts]), figure


def _krippendorff(codes: Codes, labels: int) -> _Sums:
    counts = _counts(codes, labels)
    size = counts.sum(axis=1)
    differing = size * (1 - _equal_pairs(counts))

    def figure(totals: Floats) -> Floats:
        pool = totals[:, 1:]
        n = pool.sum(axis=1)
        expected = (n**2 - (pool**2).sum(axis=1)) / (n - 1)
        return np.where(expected > 1e-12, 1 - totals[:, 0] / expected, np.nan)

    return np.column_stack([differing, counts]), figure


def repeat_variance(verdicts: Sequence[Verdict], repeats: Sequence[Sequence[Verdict]]) -> Measure:
    """The share of repeats in which a judge gives another grade; the mean over the answers that it graded both times.

    Args:
        verdicts: verdicts of some answers.
        repeats: those of each repeat, in the same order.
    """
    shares = []
    for verdict, *repeat_verdicts in zip(verdicts, *repeats, strict=True):
        differs = [
            repeat_verdict.outcome != verdict.outcome
            for repeat_verdict in repeat_verdicts
            if verdict.outcome and repeat_verdict.outcome
        ]
        if differs:
            shares.append(sum(differs) / len(differs))
    return share_of("repeat variance", sum(shares), len(shares))
