"""A judge measured on answers that people labelled, as tables (`demur judge bench`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.records import Measure, Verdict
from demur.core.text import brief
from demur.evaluation.rejudge import grade_items
from demur.judge.base import Judge
from demur.judge.bench import BenchRow, Labelled, Share, agrees, as_dict, asks, bench, load, shipped
from demur.judge.model import PARTIAL
from demur.reports.tables import Cell, Table, numbers, texts


class JudgeBench(NamedTuple):
    """A judge's verdicts on labelled answers, and how far people agree with them."""

    judge: str
    items: Sequence[Labelled]
    verdicts: Sequence[Verdict]
    rows: list[BenchRow]
    shipped: bool
    """Whether the answers are those that come with demur."""

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return as_dict(self.rows)

    def tables(self) -> list[Table]:
        """Agreement, accuracy figure and calibration of each part; precision and recall of each outcome."""
        notes = ["Intervals: Wilson's, 95 %. Answers without an outcome count in no share."]
        if self.judge.startswith(("model:", "cascade:")):
            notes.append(PARTIAL)
        if self.shipped:
            source_note = (
                "Labels are by model-assisted readers, not by people: demur/judge/data/README.md"
            )
            notes.append(source_note)
        parts: list[tuple[Cell, ...]] = []
        outcomes: list[tuple[Cell, ...]] = []
        for row in self.rows:
            shares = (row.agreement, row.accuracy, row.accuracy_of_people)
            rates = (_rate(share) for share in shares)
            parts.append((row.part, row.agreement.n, *rates, row.calibration_error, row.without))
            for label in {**row.precision, **row.recall}:
                precision, recall = (_rate(s.get(label)) for s in (row.precision, row.recall))
                ns = [0 if rate is None else rate.n for rate in (precision, recall)]
                outcomes.append((row.part, label, precision, ns[0], recall, ns[1]))
        columns = (
            *texts("Part"),
            *numbers("n"),
            *numbers(
                "Agreement",
                "Accuracy",
                "Accuracy by people",
                interval=True,
                decimals=3,
                percent=False,
            ),
            *numbers("Calibration error", decimals=3),
            *numbers("No outcome"),
        )
        by_outcome = (
            *texts("Part", "Outcome"),
            *numbers("Precision", interval=True, decimals=3, percent=False),
            *numbers("n"),
            *numbers("Recall", interval=True, decimals=3, percent=False),
            *numbers("n of people"),
        )
        caption = f"{self.judge} against the labels."
        of_outcomes = "Precision and recall of each outcome."
        return [
            Table("bench", caption, columns, tuple(parts), notes=tuple(notes)),
            Table("bench_outcomes", of_outcomes, by_outcome, tuple(outcomes)),
        ]

    def wrong(self) -> Iterator[str]:
        """A line for each answer on which judge and people differ."""
        for item, verdict in zip(self.items, self.verdicts, strict=True):
            if verdict.outcome and not agrees(verdict.outcome.value, item.label):
                method = f" ({verdict.method.value})" if verdict.method else ""
                reply = brief(item.response.text, 100)
                yield f"{item.id}: {verdict.outcome.value}{method}, people say {item.label}: {reply}"


def measure_judge(
    judge: Judge, path: Path | None = None, progress: Callable[[int], None] = lambda n: None
) -> JudgeBench:
    """Grade labelled answers and compare.

    Args:
        path: file or folder of labelled answers; those that ship with demur when None.
        progress: called with the number graded so far.
    """
    items = load(path or shipped())
    verdicts = grade_items(judge, asks(items), progress)
    return JudgeBench(judge.id, items, verdicts, bench(items, verdicts), path is None)


def _rate(share: Share | None) -> Measure | None:
    """A share as a cell; None of nothing."""
    if share is None or share.ends is None:
        return None
    low, high = share.ends
    return Measure(name="share", value=share.value, n=share.n, low=low, high=high)
