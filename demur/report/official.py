"""The number that each source's own authors would print: their metric over a run's answers, beside the judge's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from demur.errors import UnknownPart
from demur.judge.official import METRICS, metric
from demur.judge.official.infoseek import final
from demur.records import Sample, Status
from demur.report.cells import by_item
from demur.report.data import ReportData, Run
from demur.report.tables import Cell, Column, Count, Table, counted


def rule_of(sample: Sample, chosen: str) -> str:
    """The metric of a sample: the one that was asked for, or its source's own ("" where it has none)."""
    return chosen or (sample.answers.rule if sample.answers.rule.partition(":")[0] in METRICS else "")


def official_table(data: ReportData, chosen: str = "") -> Table:
    """Official score by source, context, condition and system.

    Args:
        data: runs with the release that they were asked from.
        chosen: a metric for every sample; each source's own when empty.

    Returns:
        One row per system, source, metric, context recipe and condition: mean score over items (of the mean over an
        item's draws), n, items that the metric leaves undefined, and answers that failed (scored as the sources'
        scorers do an empty prediction). InfoSeek's figure over both of its splits is their harmonic mean, as its
        authors print it.

    Raises:
        UnknownPart: no metric has that name; lists those that exist.
    """
    if chosen and chosen.partition(":")[0] not in METRICS:
        raise UnknownPart("official metric", chosen, list(METRICS), hint="give one of these names")
    rows: list[tuple[Cell, ...]] = []
    rules: set[int] = set()
    without: set[str] = set()
    for run in data.runs:
        rules.add(len(rows))
        rows += _rows(run, data.samples, chosen, without)
    notes = [
        "Scores by the sources' own rules, which read every answer as an answer: a deflection scores like a wrong one."
    ]
    if any(isinstance(row[6], Count) for row in rows):
        notes.append("Draws of an item count as one, with their mean. n: items (scored draws); Failed counts draws.")
    if without:
        notes.append(f"No official metric is known for: {', '.join(sorted(without))}.")
    columns = (
        Column("System", align="left"),
        Column("Source", align="left"),
        Column("Metric", align="left"),
        Column("Context", align="left"),
        Column("Condition", align="left"),
        Column("Score", decimals=2),
        Column("n"),
        Column("Undefined"),
        Column("Failed"),
    )
    missing = "" if rows else "needs a run on a release whose sources have official metrics, or --metric NAME"
    return Table(
        "official", "Official scores of the sources", columns, tuple(rows), frozenset(rules), tuple(notes), missing
    )


class _Item(NamedTuple):
    """One item's score: the mean over the draws that the metric defines."""

    score: float | None
    draws: int
    failed: int
    unseen: bool


def _rows(run: Run, samples: Mapping[str, Sample], chosen: str, without: set[str]) -> list[tuple[Cell, ...]]:
    scores: dict[tuple[str, str, str, str], list[_Item]] = defaultdict(list)
    repeated = any(row.draw for row in run.rows)
    for draws in by_item(run.rows).values():
        row = draws[0]
        sample = samples.get(row.sample)
        rule = rule_of(sample, chosen) if sample else ""
        if sample is None or not rule:
            without.add(row.source)
            continue
        failed = [r.status is Status.FAILED for r in draws]
        values = [
            v
            for r, lost in zip(draws, failed, strict=True)
            if (v := metric(rule)(sample.answers, "" if lost else r.answer)) is not None
        ]
        unseen_question = sample.split.endswith("unseen_question")
        key = (row.source, rule.partition(":")[0], row.recipe, row.condition)
        mean = sum(values) / len(values) if values else None
        scores[key].append(_Item(mean, len(values), sum(failed), unseen_question))
    out: list[tuple[Cell, ...]] = []
    for (source, rule, recipe, condition), found in sorted(scores.items()):
        defined = [i.score for i in found if i.score is not None]
        mean = sum(defined) / len(defined) if defined else None
        parts = [[i.score for i in found if i.unseen is side and i.score is not None] for side in (True, False)]
        name = rule
        if rule == "infoseek" and all(parts):
            mean, name = final(*(sum(p) / len(p) for p in parts)), "infoseek (harmonic mean of its splits)"
        undefined = len(found) - len(defined)
        n = counted(len(defined), sum(i.draws for i in found) if repeated else 0)
        out.append((run.name, source, name, recipe, condition, mean, n, undefined, sum(i.failed for i in found)))
    return out
