"""The score of a suite without measures of its own: accuracy and deflection of its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from demur.core.records import Measure, Outcome, Status
from demur.judge.measures.rates import share_of

if TYPE_CHECKING:
    from demur.reports.tables import Table
    from demur_suites.records import Scored


class Plain(NamedTuple):
    """The plain score of one model.

    Attributes:
        model: its name.
        accuracy: right over graded replies, Wilson's interval; deflected replies are graded and not right.
        deflected: share of graded replies.
        why: the last question whose reply is unjudged, and the reason.
    """

    model: str
    accuracy: Measure
    deflected: Measure
    why: str = ""


def plain_score(model: str, scored: Sequence[Scored]) -> Plain:
    """The `Plain` score of a model: each question asked counts as graded, unjudged or failed."""
    grades = [item.grade for item in scored if item.grade is not None]
    counts = Counter(grade.outcome or grade.status for grade in grades)
    n = sum(counts[o] for o in Outcome)
    accuracy, deflected = (
        share_of(
            name, counts[outcome], n, unjudged=counts[Status.UNJUDGED], failed=counts[Status.FAILED]
        )
        for name, outcome in (("accuracy", Outcome.CORRECT), ("deflection", Outcome.DEFLECTED))
    )
    unjudged = [
        f"{item.question.id}: {item.grade.reason}"
        for item in scored
        if item.grade is not None and item.grade.status is Status.UNJUDGED
    ]
    return Plain(model, accuracy, deflected, unjudged[-1] if unjudged else "")


def plain_table(name: str, title: str, scores: Sequence[Plain]) -> Table:
    """The table of `Plain` scores."""
    from demur.reports.tables import Column, Table, numbers, texts

    columns = (
        *texts("Model"),
        Column("Accuracy (%)", interval=True),
        Column("Deflection (%)", interval=True),
        *numbers("n", "unjudged", "failed"),
    )
    rows = tuple(
        (s.model, s.accuracy, s.deflected, s.accuracy.n, s.accuracy.unjudged, s.accuracy.failed)
        for s in scores
    )
    notes = (
        "n: graded replies. Intervals: Wilson, 95 %.",
        *(f"Unjudged: {s.model}: {s.why}" for s in scores if s.why),
    )
    return Table(name, title, columns, rows, notes=notes)
