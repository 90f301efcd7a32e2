"""Rates by the values of a column: source, topic, modality, scenario, or several at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from demur.core.records import Measure, Row
from demur.judge.measures.intervals import Interval
from demur.judge.measures.rates import Rates, rates_where
from demur.judge.measures.table import Flags, Table, table
from demur.judge.measures.totals import macro_total, weighted_total

if TYPE_CHECKING:
    import pyarrow as pa


class Breakdown(NamedTuple):
    """Rates of every part, and both totals."""

    by: tuple[str, ...]
    parts: dict[tuple[str, ...], Rates]
    """Labels of the columns in ``by`` -> rates; in order of first appearance."""
    weighted: dict[str, Measure]
    """accuracy, deflection, hallucination -> sample-weighted total (what pooling the items gives)."""
    macro: dict[str, Measure]
    """The same, every part counted alike."""


def breakdown(
    rows: Table | pa.Table | Iterable[Row], *by: str, method: str | Interval = "auto"
) -> Breakdown:
    """Rates for every combination of values that occurs.

    Args:
        rows: any number of rows.
        by: columns of `Row`: ``source``, ``topic``, ``query_modality``, ``scenario`` ...
        method: interval method of every part.

    Raises:
        DataError: a column that rows do not have.
    """
    found = table(rows)
    parts = {labels: rates_where(found, place, method) for labels, place in groups(found, *by)}
    columns = {name: [getattr(r, name) for r in parts.values()] for name in Rates._fields}
    return Breakdown(
        by,
        parts,
        {name: weighted_total(measures) for name, measures in columns.items()},
        {name: macro_total(measures) for name, measures in columns.items()},
    )


def groups(found: Table, *by: str) -> list[tuple[tuple[str, ...], Flags]]:
    """(labels, bool [rows]) of every combination that occurs, in order of first appearance."""
    labels, codes = found.combined(*by)
    return [(one, codes == i) for i, one in enumerate(labels)]
