"""Accuracy, deflection and hallucination (VLM-DeflectionBench, section 3.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.core.records import Measure, Row
from demur.core.stats import Floats, wilson
from demur.judge.measures.intervals import Ends, Interval, Wilson, interval, of_shares
from demur.judge.measures.repeats import Items, gather
from demur.judge.measures.table import (
    CORRECT,
    DEFLECTED,
    FAILED,
    INCORRECT,
    UNGRADED,
    Flags,
    Table,
    table,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Rates(NamedTuple):
    """The three shares of the same graded items; they sum to 1 (within rounding) or are all None."""

    accuracy: Measure
    deflection: Measure
    hallucination: Measure


def rates(rows: Table | pa.Table | Iterable[Row], method: str | Interval = "auto") -> Rates:
    """Shares of correct, deflected and incorrect among the graded items.

    Ungraded and failed answers leave the denominator and are counted beside it. Several repeats of one item (a context
    set under a condition) weigh as one: a rate is the mean over items of the mean over their graded repeats, ``n``
    counts items and ``repeats`` what was graded of them, while what was not graded is counted by repeats.

    Args:
        rows: any number of rows, as columns or records.
        method: interval method; by default Wilson, or a cluster bootstrap where items share a cluster.

    >>> [m.value for m in rates([])]
    [None, None, None]
    """
    found = table(rows)
    return rates_where(found, np.ones(len(found), dtype=np.bool_), method)


def rates_where(found: Table, place: Flags, method: str | Interval = "auto") -> Rates:
    """The rates of the rows where ``place`` (bool [rows]) is true; like `rates` of those rows, without copying them."""
    kept, how = place & found.graded, interval(method)
    result, items = found.result[kept], gather(found.item, kept)
    cluster = np.arange(items.n) if isinstance(how, Wilson) else items.once(found.cluster[kept])
    hits = [items.mean(result == code) for code in (CORRECT, DEFLECTED, INCORRECT)]
    counts = np.bincount(found.result[place], minlength=FAILED + 1)
    absent = int(counts[UNGRADED]), int(counts[FAILED])
    ends = of_shares(hits, cluster, how)
    codes = zip(Rates._fields, hits, ends, strict=True)
    return Rates(*(_measure(name, hit, items, *absent, pair) for name, hit, pair in codes))


def _measure(
    name: str, hits: Floats, items: Items, ungraded: int, failed: int, ends: Ends
) -> Measure:
    return Measure(
        name=name,
        value=float(hits.sum()) / items.n if items.n else None,
        n=items.n,
        repeats=items.repeats,
        ungraded=ungraded,
        failed=failed,
        low=ends.low,
        high=ends.high,
        interval=ends.method,
    )


def share_of(
    name: str, hits: float, n: int, level: float = 0.95, *, ungraded: int = 0, failed: int = 0
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
        ungraded=ungraded,
        failed=failed,
        low=low,
        high=high,
        interval=str(Wilson(level)) if n else "",
    )


def share(
    name: str, hit: Flags | Floats, among: Flags, found: Table, method: str | Interval = "auto"
) -> Measure:
    """The share, or the mean of numbers in [0, 1], of ``hit`` among the graded rows of ``among`` ([rows] both)."""
    result, kept = found.result, among & found.graded
    items = gather(found.item, kept)
    hits = items.mean(hit[kept])
    ends = of_shares([hits], items.once(found.cluster[kept]), interval(method))[0]
    ungraded, failed = int((result[among] == UNGRADED).sum()), int((result[among] == FAILED).sum())
    return _measure(name, hits, items, ungraded, failed, ends)
