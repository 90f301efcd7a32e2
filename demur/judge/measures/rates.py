"""Accuracy, deflection and hallucination (VLM-DeflectionBench, section 3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from demur.core.records import Measure, Row
from demur.core.stats import Floats, wilson
from demur.judge.measures.intervals import Ends, Interval, Wilson, interval, of_shares
from demur.judge.measures.judge_error import interval_with, shift_of
from demur.judge.measures.repeats import Items, gather
from demur.judge.measures.table import (
    CORRECT,
    DEFLECTED,
    FAILED,
    INCORRECT,
    UNJUDGED,
    Flags,
    Table,
    table,
)

if TYPE_CHECKING:
    import pyarrow as pa

Outcomes = Literal["accuracy", "deflection", "hallucination"]


class Rates(NamedTuple):
    """The three shares of the same graded items; they sum to 1 (within rounding) or are all None."""

    accuracy: Measure
    deflection: Measure
    hallucination: Measure

    @property
    def n(self) -> int:
        """Graded items."""
        return self.accuracy.n


def rates(rows: Table | pa.Table | Iterable[Row], method: str | Interval = "auto") -> Rates:
    """Shares of correct, deflected and incorrect among all items but failed and unjudged ones.

    Each value is the plain count. Its interval holds sampling and, where verdicts say how they came about, the judge's
    error (`demur.judge.measures.judge_error`); ``corrected`` is set where that interval leaves the count outside.
    Several repeats of one item (a context set under a condition) weigh as one: a rate is the mean over items of the
    mean over their graded repeats, ``n`` counts items and ``repeats`` what was graded of them, while failed and
    unjudged answers are counted by repeats.

    Args:
        rows: any number of rows, as columns or records.
        method: interval method of sampling; by default Wilson, or a cluster bootstrap where items share a cluster.

    >>> [m.value for m in rates([])]
    [None, None, None]
    """
    columns = table(rows)
    return rates_where(columns, np.ones(len(columns), dtype=np.bool_), method)


def rates_where(
    rows: Table, place: Flags, method: str | Interval = "auto", *, judge_error: bool = True
) -> Rates:
    """The rates of the rows where ``place`` (bool [rows]) is true; like `rates` of those rows, without copying them.

    ``judge_error=False`` leaves sampling alone in the intervals.
    """
    graded_rows, method_used = place & rows.graded, interval(method)
    result, items = rows.result[graded_rows], gather(rows.item, graded_rows)
    cluster = (
        np.arange(items.n)
        if isinstance(method_used, Wilson)
        else items.once(rows.cluster[graded_rows])
    )
    hits = [items.mean(result == code) for code in (CORRECT, DEFLECTED, INCORRECT)]
    counts = np.bincount(rows.result[place], minlength=FAILED + 1)
    absent = int(counts[UNJUDGED]), int(counts[FAILED])
    shift = shift_of(rows.method[graded_rows], result, items.weight()) if judge_error else None
    ends = of_shares(hits, cluster, method_used)
    return Rates(
        *(
            _measure(
                name, hit, items, *absent, pair, shift and getattr(shift, name), method_used.level
            )
            for name, hit, pair in zip(Rates._fields, hits, ends, strict=True)
        )
    )


def _measure(
    name: str,
    hits: Floats,
    items: Items,
    unjudged: int,
    failed: int,
    ends: Ends,
    shift: Floats | None,
    level: float,
) -> Measure:
    measure = Measure(
        name=name,
        value=float(hits.sum()) / items.n if items.n else None,
        n=items.n,
        repeats=items.repeats,
        unjudged=unjudged,
        failed=failed,
        low=ends.low,
        high=ends.high,
        interval=ends.method,
    )
    return with_judge_error(measure, shift, level)


def with_judge_error(measure: Measure, shift: Floats | None, level: float) -> Measure:
    """A measure whose interval holds the judge's error beside that of sampling.

    Args:
        measure: with its sampling interval.
        shift: float64 [2, draws], as `demur.judge.measures.judge_error.shift_of` gives it; None: the error is unknown.
        level: of the interval.
    """
    if shift is None or measure.value is None or measure.low is None or measure.high is None:
        return measure
    low, high, middle = interval_with(measure.value, measure.low, measure.high, shift, level)
    outside = not low <= round(measure.value, 4) <= high  # ends have four digits
    return measure.model_copy(
        update={
            "low": low,
            "high": high,
            "interval": f"{measure.interval}, judge-error",
            "corrected": middle if outside else None,
        }
    )


def share_of(
    name: str, hits: float, n: int, level: float = 0.95, *, unjudged: int = 0, failed: int = 0
) -> Measure:
    """A share of whole, independent items with Wilson's interval; undefined (None) of none.

    >>> share_of("x", 0, 0).value is None, share_of("x", 1, 4).value
    (True, 0.25)
    """
    low, high = wilson(hits, n, level) or (None, None)
    return Measure(
        name=name,
        value=hits / n if n else None,
        n=n,
        unjudged=unjudged,
        failed=failed,
        low=low,
        high=high,
        interval=str(Wilson(level)) if n else "",
    )


def share(
    name: str,
    hit: Flags | Floats,
    among: Flags,
    rows: Table,
    method: str | Interval = "auto",
    *,
    errors: Sequence[tuple[Outcomes, Flags]] = (),
) -> Measure:
    """The share, or the mean of numbers in [0, 1], of ``hit`` among the graded rows of ``among`` ([rows] both).

    Args:
        name: of the measure.
        hit: how much of each row counts.
        among: which rows.
        rows: the columns.
        method: interval method of sampling.
        errors: (outcome, bool [rows]): a row of those counts when it has that outcome, so that the judge's errors on
            them move the share.
    """
    method_used, result, graded_rows = interval(method), rows.result, among & rows.graded
    items = gather(rows.item, graded_rows)
    hits, weight = items.mean(hit[graded_rows]), np.zeros(len(rows))
    weight[graded_rows] = items.weight()
    total_shift: Floats | None = None
    for outcome, place in errors:
        part = place & graded_rows
        shift = shift_of(rows.method[part], result[part], weight[part])
        if shift is not None:
            one_shift = getattr(shift, outcome) * float(weight[part].sum()) / float(weight.sum())
            total_shift = one_shift if total_shift is None else total_shift + one_shift
    ends = of_shares([hits], items.once(rows.cluster[graded_rows]), method_used)[0]
    absent = int((result[among] == UNJUDGED).sum()), int((result[among] == FAILED).sum())
    return _measure(name, hits, items, *absent, ends, total_shift, method_used.level)
