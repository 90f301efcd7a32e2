"""Accuracy, deflection and hallucination (VLM-DeflectionBench, section 3.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.judge.measures.intervals import Ends, Interval, Wilson, interval, of_shares
from demur.judge.measures.table import (
    CORRECT,
    DEFLECTED,
    FAILED,
    INCORRECT,
    UNGRADED,
    Codes,
    Flags,
    Floats,
    Table,
    table,
)
from demur.records import Measure, Row

if TYPE_CHECKING:
    import pyarrow as pa


class Rates(NamedTuple):
    """The three shares of the same graded items; they sum to 1 (within rounding) or are all None."""

    accuracy: Measure
    deflection: Measure
    hallucination: Measure


def rates(rows: Table | pa.Table | Iterable[Row], method: str | Interval = "auto") -> Rates:
    """Shares of correct, deflected and incorrect among the graded items.

    Ungraded and failed items leave the denominator and are counted beside it. Several draws of one item (a context set
    under a condition) weigh as one: ``n`` counts items, while what was not graded is counted by draws.

    Args:
        rows: any number of rows, as columns or records.
        method: interval method; by default Wilson, or a cluster bootstrap where items share a cluster.

    >>> [m.value for m in rates([])]
    [None, None, None]
    """
    found = table(rows)
    return _rates(found, np.ones(len(found), dtype=np.bool_), method)


def rates_where(found: Table, place: Flags, method: str | Interval = "auto") -> Rates:
    """The rates of the rows where ``place`` (bool [rows]) is true; like `rates` of those rows, without copying them."""
    return _rates(found, place, method)


def _rates(found: Table, place: Flags, method: str | Interval) -> Rates:
    result = found.result[place]
    kept = result[result <= DEFLECTED]
    weight = found.weight[place & found.graded]
    how = interval(method)
    cluster = np.arange(len(kept)) if isinstance(how, Wilson) else found.cluster[place & found.graded]
    hits = [(kept == code) * weight for code in (CORRECT, DEFLECTED, INCORRECT)]
    ends = of_shares(hits, cluster, how, weight)
    counts = np.bincount(result, minlength=FAILED + 1)
    absent = int(counts[UNGRADED]), int(counts[FAILED])
    n = round(float(weight.sum()))
    codes = zip(Rates._fields, hits, ends, strict=True)
    return Rates(*(_measure(name, float(hit.sum()), n, *absent, pair) for name, hit, pair in codes))


def _measure(name: str, hits: float, n: int, ungraded: int, failed: int, ends: Ends) -> Measure:
    return Measure(
        name=name,
        value=hits / n if n else None,
        n=n,
        ungraded=ungraded,
        failed=failed,
        low=ends.low,
        high=ends.high,
        interval=ends.method,
    )


def share(name: str, hit: Flags, among: Flags, found: Table, method: str | Interval = "auto") -> Measure:
    """The share of ``hit`` among the graded rows of ``among`` (both bool [rows]), with its interval."""
    result = found.result
    kept = among & found.graded
    weight = found.weight[kept]
    flags: Floats = hit[kept] * weight
    cluster: Codes = found.cluster[kept]
    ends = of_shares([flags], cluster, interval(method), weight)[0]
    ungraded, failed = int((result[among] == UNGRADED).sum()), int((result[among] == FAILED).sum())
    return _measure(name, float(flags.sum()), round(float(weight.sum())), ungraded, failed, ends)
