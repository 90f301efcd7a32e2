"""A judge measured on answers that people labelled, as tables (`demur judge bench`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.records import Verdict
from demur.core.text import brief
from demur.evaluation.rejudge import grade_items
from demur.judge.base import Judge
from demur.judge.bench import BenchRow, Labelled, Share, agrees, as_dict, asks, bench, load, shipped
from demur.judge.model import PARTIAL
from demur.reports.tables import Table, numbers, texts


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
        parts = tuple(
            (
                row.part,
                _share_text(row.agreement),
                _share_text(row.accuracy),
                _share_text(row.accuracy_of_people),
                "-" if row.calibration_error is None else f"{row.calibration_error:.3f}",
                row.without,
            )
            for row in self.rows
        )
        outcomes = tuple(
            (
                row.part,
                label,
                _share_text(row.precision.get(label)),
                _share_text(row.recall.get(label)),
            )
            for row in self.rows
            for label in {**row.precision, **row.recall}
        )
        columns = (
            *texts("Part", "Agreement", "Accuracy", "Accuracy by people"),
            *numbers("Calibration error", "No outcome"),
        )
        caption = f"{self.judge} against the labels."
        by_outcome = texts("Part", "Outcome", "Precision", "Recall")
        return [
            Table("bench", caption, columns, parts, notes=tuple(notes)),
            Table("bench_outcomes", "Precision and recall of each outcome.", by_outcome, outcomes),
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


def _share_text(share: Share | None) -> str:
    if share is None or share.value is None or share.ends is None:
        return "-"
    return f"{share.value:.3f} [{share.ends[0]:.3f}, {share.ends[1]:.3f}] of {share.n:,}"
