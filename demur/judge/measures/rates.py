"""Accuracy, deflection and hallucination (VLM-DeflectionBench, section 3.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.judge.measures.intervals import Ends, Interval, Wilson, interval, of_share, of_shares
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

    Ungraded and failed items leave the denominator and are counted beside it.

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
    how = interval(method)
    cluster = np.arange(len(kept)) if isinstance(how, Wilson) else found.cluster[place & found.graded]
    ends = of_shares([(kept == code).astype(np.float64) for code in (CORRECT, DEFLECTED, INCORRECT)], cluster, how)
    counts = np.bincount(result, minlength=FAILED + 1)
    absent = int(counts[UNGRADED]), int(counts[FAILED])
    codes = zip(Rates._fields, (CORRECT, DEFLECTED, INCORRECT), ends, strict=True)
    return Rates(*(_measure(name, float(counts[code]), len(kept), *absent, pair) for name, code, pair in codes))


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
    flags: Floats = hit[kept].astype(np.float64)
    cluster: Codes = found.cluster[kept]
    ends = of_share(flags, cluster, interval(method))
    ungraded, failed = int((result[among] == UNGRADED).sum()), int((result[among] == FAILED).sum())
    return _measure(name, float(flags.sum()), len(flags), ungraded, failed, ends)
