"""The score of a suite without measures of its own: accuracy and deflection of its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from demur.core.records import AnswerSpec, Measure, Outcome, Response, Sample, Status
from demur.judge.measures.rates import share_of

if TYPE_CHECKING:
    from demur.reports.tables import Table


class Plain(NamedTuple):
    """The plain score of one model.

    Attributes:
        model: its name.
        accuracy: right over graded replies, Wilson's interval; deflected replies are graded and not right.
        deflected: share of graded replies.
        why: the last reply that is unjudged because its verdict raised an error, and the error.
    """

    model: str
    accuracy: Measure
    deflected: Measure
    why: str = ""


def plain_score(
    verdict: Callable[[Response, AnswerSpec], tuple[Status, Outcome | None, str]],
    model: str,
    questions: Iterable[Sample],
    outputs: Mapping[str, Response],
) -> Plain:
    """The `Plain` score of a model: each question asked counts as graded, unjudged or failed."""
    found: Counter[Status | Outcome | None] = Counter()
    why = ""
    for question in questions:
        response = outputs.get(question.id)
        if response is not None:
            failed = (Status.FAILED, None, "")
            try:
                status, outcome, _ = (
                    failed if response.error else verdict(response, question.answers)
                )
            except Exception as error:  # anybody's code
                status, outcome, why = (
                    Status.UNJUDGED,
                    None,
                    f"{question.id}: its verdict raised {error!r:.200}",
                )
            found[outcome or status] += 1
    n = sum(found[o] for o in Outcome)
    accuracy, deflected = (
        share_of(
            name, found[outcome], n, unjudged=found[Status.UNJUDGED], failed=found[Status.FAILED]
        )
        for name, outcome in (("accuracy", Outcome.CORRECT), ("deflection", Outcome.DEFLECTED))
    )
    return Plain(model, accuracy, deflected, why)


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
