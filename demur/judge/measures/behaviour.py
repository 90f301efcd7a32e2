"""One summary that rewards the right behaviour: answer where evidence suffices, deflect where it does not.

VLM-DeflectionBench names the ideal of each scenario (section 3.5) but reports three rates per scenario; a system that
always deflects looks perfect in one and useless in another. Here right is one thing: a correct answer where the row
expects an answer, a deflection where it expects one. The two ways of getting the choice wrong are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.core.records import Measure, Row
from demur.judge.measures.intervals import Interval
from demur.judge.measures.rates import share
from demur.judge.measures.table import CORRECT, DEFLECTED, Table, table
from demur.judge.measures.totals import macro

if TYPE_CHECKING:
    import pyarrow as pa


class Behaviour(NamedTuple):
    """Shares of graded rows, each over the rows that it concerns."""

    right: Measure
    """Of all rows: correct where an answer is expected, deflected where deflection is. Weighted by rows."""
    answered: Measure
    """Of rows that expect an answer: correct."""
    deflected: Measure
    """Of rows that expect deflection: deflected."""
    over_deflection: Measure
    """Of rows that expect an answer: deflected all the same."""
    under_deflection: Measure
    """Of rows that expect deflection: answered all the same."""
    balanced: float | None
    """Mean of ``answered`` and ``deflected``: at most 0.5 for always or never deflecting; None if one is undefined."""


def behaviour(rows: Table | pa.Table | Iterable[Row], method: str | Interval = "auto") -> Behaviour:
    """The summary over any rows; pool scenarios of one system under one condition.

    Args:
        rows: rows of one system.
        method: interval method.
    """
    columns = table(rows)
    deflect, correct = columns.should_deflect, columns.result == CORRECT
    deflected, everything = columns.result == DEFLECTED, np.ones(len(columns), dtype=np.bool_)
    right = share(
        "right-behaviour",
        (correct & ~deflect) | (deflected & deflect),
        everything,
        columns,
        method,
        errors=[("accuracy", ~deflect), ("deflection", deflect)],
    )
    answered = share(
        "answered-when-answerable",
        correct,
        ~deflect,
        columns,
        method,
        errors=[("accuracy", ~deflect)],
    )
    held_back = share(
        "deflected-when-not", deflected, deflect, columns, method, errors=[("deflection", deflect)]
    )
    over = share(
        "over-deflection", deflected, ~deflect, columns, method, errors=[("deflection", ~deflect)]
    )
    under = share(
        "under-deflection",
        ~deflected,
        deflect,
        columns,
        method,
        errors=[("accuracy", deflect), ("hallucination", deflect)],
    )
    both = (answered.value, held_back.value)
    balanced = None if None in both else macro(both)
    return Behaviour(right, answered, held_back, over, under, balanced)
