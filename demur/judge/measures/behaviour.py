"""One summary that rewards the right behaviour: answer where evidence suffices, deflect where it does not.

VLM-DeflectionBench names the ideal of each scenario (section 3.5) but reports three rates per scenario; a system that
always deflects looks perfect in one and useless in another. Here right is one thing: a correct answer where the row
expects an answer, a deflection where it expects one. The two ways of getting the choice wrong are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

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
    found = table(rows)
    deflect, correct, deflected = (
        found.should_deflect,
        found.result == CORRECT,
        found.result == DEFLECTED,
    )
    everything = deflect | ~deflect
    right = share(
        "right-behaviour", (correct & ~deflect) | (deflected & deflect), everything, found, method
    )
    answered = share("answered-when-answerable", correct, ~deflect, found, method)
    held_back = share("deflected-when-not", deflected, deflect, found, method)
    both = (answered.value, held_back.value)
    return Behaviour(
        right,
        answered,
        held_back,
        share("over-deflection", deflected, ~deflect, found, method),
        share("under-deflection", ~deflected, deflect, found, method),
        None if None in both else macro(both),
    )
