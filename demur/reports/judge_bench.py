"""A judge measured on answers that people labelled, as tables (`demur judge bench`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.records import Verdict
from demur.core.text import brief
from demur.evaluation.rejudge import grade_items
from demur.judge.base import Judge
from demur.judge.bench import (
    BenchRow,
    Labelled,
    RuleShare,
    Share,
    agrees,
    as_dict,
    asked,
    bench,
    by_rule,
    load,
    shipped,
)
from demur.judge.model import PARTIAL
from demur.reports.tables import Table, titled


class Measured(NamedTuple):
    """A judge's verdicts on labelled answers, and their precision and recall."""

    judge: str
    items: Sequence[Labelled]
    verdicts: Sequence[Verdict]
    rows: list[BenchRow]
    rules: list[RuleShare]
    ours: bool
    """Whether the answers are those that ship with demur."""

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return as_dict(self.rows, self.rules)

    def tables(self) -> list[Table]:
        """Precision and recall of each label with kappa, and the precision of each rule."""
        lines: list[tuple[str, ...]] = []
        for row in self.rows:
            lines.append((row.part, "graded", _share_text(row.coverage), "-", "-"))
            for label in ("correct", "incorrect", "deflected", "not_correct"):
                if label in row.recall or (label in row.precision and row.precision[label].n):
                    chance = (
                        "{:.3f}, {:.3f}".format(*row.chance[label]) if label in row.chance else "-"
                    )
                    shares = (
                        _share_text(row.precision.get(label)),
                        _share_text(row.recall.get(label)),
                    )
                    lines.append(("", label, *shares, chance))
            if row.kappa is not None:
                ends = (
                    f" [{row.kappa_ends[0]:.2f}, {row.kappa_ends[1]:.2f}]" if row.kappa_ends else ""
                )
                lines.append(("", "kappa", f"{row.kappa:.2f}{ends}", "-", "-"))
        notes = [
            "Precision and recall with Wilson's 95 % intervals; unjudged answers count as missed. Kappa: graded "
            "answers.",
            "By chance: precision and recall of a random judge that gives the label equally often.",
        ]
        notes += [
            f"Kappa of the two labels of {r.part}: {r.people:.2f}"
            for r in self.rows
            if r.people is not None and r.part in ("all", "tuning", "untouched")
        ]
        if self.judge.startswith(("model:", "cascade:")):
            notes.append(PARTIAL)
        if self.ours:
            notes.append(
                "Both labels are by model-assisted readers, not by people: demur/judge/data/README.md"
            )
        titles = titled("<Part | <Label | Share, or precision | Recall | By chance")
        every = tuple((r.outcome, r.kind, _share_text(r.share)) for r in self.rules)
        return [
            Table(
                "bench",
                f"{self.judge} against the labels.",
                titles,
                tuple(lines),
                notes=tuple(notes),
            ),
            Table("rules", "Precision of each rule.", titled("<Verdict | <Rule | Right"), every),
        ]

    def wrong(self) -> Iterator[str]:
        """A line for each answer on which judge and people differ, and for each deflection that it left unjudged."""
        for one, verdict in zip(self.items, self.verdicts, strict=True):
            said = verdict.outcome.value if verdict.outcome else verdict.status.value
            if not agrees(said, one.label) if verdict.outcome else one.label == "deflected":
                yield f"{one.id}: {said} ({verdict.kind}), people say {one.label}: {brief(one.response.text, 100)}"


def measure_judge(
    judge: Judge, folder: Path | None = None, progress: Callable[[int], None] = lambda n: None
) -> Measured:
    """Grade labelled answers and compare.

    Args:
        folder: of labelled answers; those that ship with demur when None.
        progress: called with the number graded so far.
    """
    items = load(folder or shipped())
    verdicts = grade_items(judge, asked(items), progress)
    return Measured(
        judge.id, items, verdicts, bench(items, verdicts), by_rule(items, verdicts), folder is None
    )


def _share_text(share: Share | None) -> str:
    if share is None or share.value is None or share.ends is None:
        return "-"
    return f"{share.value:.3f} [{share.ends[0]:.3f}, {share.ends[1]:.3f}] of {share.n:,}"
