"""Official scores: the metrics of each source's authors over a run's answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import UnknownPart
from demur.core.records import Outcome, Sample, Status
from demur.core.text import whole_number
from demur.judge.measures.repeats import gather
from demur.judge.official import METRICS, metric
from demur.judge.official.crag_mm import by_conversation
from demur.judge.official.infoseek import final
from demur.judge.official.mmlongbench import mmlongbench
from demur.judge.official.simpleqa import simpleqa
from demur.reports.data import ReportData, Run
from demur.reports.tables import (
    Cell,
    Count,
    Table,
    counted,
    numbers,
    section_starts,
    texts,
    without_zeros,
)


def official_table(data: ReportData, chosen: str = "") -> Table:
    """Official score by source, context, condition and system.

    Args:
        chosen: a metric for every sample; each source's own when empty.

    Returns:
        One row per system, source, metric, context recipe and condition: mean score over items (the mean over an item's
        repeats), n, items that the metric leaves undefined, and failed answers (scored like an empty prediction, as the
        sources' scorers do). InfoSeek's score over both of its splits is their harmonic mean, as its authors report.

    Raises:
        UnknownPart: no metric has that name; lists those that exist.
    """
    if chosen and chosen.partition(":")[0] not in METRICS:
        raise UnknownPart("official metric", chosen, list(METRICS), hint="give one of these names")
    rows: list[tuple[Cell, ...]] = []
    without: set[str] = set()
    for run in data.runs:
        rows += _scored_rows(run, data.samples, chosen, without)
    notes = [
        "Scores by the sources' own rules, which do not know deflections: one scores like a wrong answer."
    ]
    if any(isinstance(row[6], Count) for row in rows):
        notes.append(
            "Repeats of an item count as one, with their mean. n: items (repeats); Failed counts repeats."
        )
    if without:
        notes.append(f"Without an official metric: {', '.join(sorted(without))}.")
    columns = (
        *texts("System", "Source", "Metric"),
        *texts("Context", wraps=True),
        *texts("Condition"),
        *numbers("Score", decimals=2),
        *numbers("n", "Undefined", "Failed"),
    )
    missing = (
        "" if rows else "a run on a release whose sources have official metrics, or --metric NAME"
    )
    return Table(
        "official",
        "Official scores of the sources",
        columns,
        tuple(rows),
        section_starts(rows),
        tuple(notes),
        missing,
    )


def scores_of(data: ReportData, metric: str = "") -> Table:
    """The scores of ``demur score``: figures from verdicts where the sources' authors compute them so, else official ones.

    Args:
        data: the runs.
        metric: a metric for every sample; "" for each source's own.

    Raises:
        UnknownPart: no metric has that name; lists those that exist.
    """
    table = labels_table(data) if not metric else official_table(data, metric)
    return table if table.rows else official_table(data, metric)


def score_records(table: Table) -> list[dict[str, Any]]:
    """The rows of `scores_of`, JSON-safe: scores unrounded; repeats beside n where there are any."""
    names = [column.title.lower() for column in table.columns]
    records = [dict(zip(names, row, strict=True)) for row in table.rows]
    for record in records:
        if isinstance(n := record["n"], Count):
            record |= {"n": n.items, "repeats": n.repeats}
    return records


LABELLED = ("simpleqa", "mmmu", "mmlongbench", "crag_mm")
"""Rules of sources whose authors compute their figures from verdicts, not from texts."""

_DEFAULTS = re.compile(r",pick=ranked|,order=shuffled|,short=use_all|\(order=shuffled\)")
"""Default settings in a context recipe."""


def labels_table(data: ReportData) -> Table:
    """SimpleQA's figures, MMMU's accuracy, MMLongBench-Doc's accuracy and F1, CRAG-MM's truthfulness, by verdicts.

    Returns:
        One row per system, metric, context recipe and condition: accuracy, share not attempted, accuracy given
        attempted, F1, in [0, 1]; for CRAG-MM truthfulness over turns and over conversations, in [-1, 1]; n graded
        answers, unjudged and failed ones. No rows where no source has such figures.
    """
    rows = [line for run in data.runs for line in _labelled_lines(run, data.samples)]
    columns = (
        *texts("System", "Metric"),
        *texts("Context", wraps=True),
        *texts("Condition"),
        *numbers("Accuracy", "Not attempted", "Given attempted", "F1", decimals=3),
        *numbers("Truthfulness", "By conversation", decimals=3, signed=True),
        *numbers("n", "Unjudged", "Failed"),
    )
    notes = [
        "By the verdicts of this run's judge; n: graded answers. Given attempted: accuracy among answered questions. "
        "F1: its harmonic mean with accuracy. For MMLongBench-Doc, F1 uses the accuracy among answerable questions "
        "instead, and accuracy counts a deflection as right where the document holds no answer."
    ]
    if any(row[1] == "crag_mm" for row in rows):
        notes.append(
            "Truthfulness: right answers less wrong ones. By conversation: its mean over conversations, each ended after "
            "two turns in a row that are not right; those with an unjudged or failed turn are left out."
        )
    table = Table(
        "labels",
        "Figures of the sources, by verdicts",
        columns,
        tuple(rows),
        section_starts(rows),
        tuple(notes),
    )
    absent = ("Unjudged", "Failed") + ("Truthfulness", "By conversation") * (len(notes) == 1)
    return without_zeros(table, *absent)


class _Verdict(NamedTuple):
    """What counts of a row for `labels_table`."""

    outcome: Outcome | None
    status: Status
    repeat: int
    sample: Sample


def _labelled_lines(run: Run, samples: Mapping[str, Sample]) -> list[tuple[Cell, ...]]:
    """The lines of `labels_table` for one run: one per metric, context recipe and condition."""
    groups: dict[tuple[str, str, str], list[_Verdict]] = {}
    for row in run.rows:
        sample = samples.get(row.sample)
        rule = sample.answers.rule.partition(":")[0] if sample else ""
        if sample is not None and rule in LABELLED:
            key = (rule, _DEFAULTS.sub("", row.recipe), row.condition)
            verdict = _Verdict(row.outcome, row.status, row.repeat, sample)
            groups.setdefault(key, []).append(verdict)
    lines: list[tuple[Cell, ...]] = []
    for key, group in sorted(groups.items()):
        outcomes = [(v.outcome, v.sample.answerable) for v in group if v.outcome is not None]
        figures = simpleqa([outcome for outcome, _ in outcomes])
        accuracy, given_attempted, f1 = (
            figures.correct,
            figures.accuracy_given_attempted,
            figures.f1,
        )
        if key[0] == "mmlongbench":
            accuracy, given_attempted, f1, _ = mmlongbench(outcomes)
        truthfulness: tuple[float | None, float | None] = (None, None)
        if key[0] == "crag_mm" and figures.correct is not None:
            over_turns = figures.correct - (figures.incorrect or 0.0)
            truthfulness = over_turns, by_conversation(_graded_conversations(group))
        absent = Counter(verdict.status for verdict in group)
        lines.append(
            (
                run.name,
                *key,
                accuracy,
                figures.not_attempted,
                given_attempted,
                f1,
                *truthfulness,
                figures.n,
                absent[Status.UNJUDGED],
                absent[Status.FAILED],
            )
        )
    return lines


def _graded_conversations(verdicts: Iterable[_Verdict]) -> list[list[Outcome]]:
    """The outcomes of each conversation whose turns are all graded, oldest first; a repeat is one of its own."""
    turns_of: dict[tuple[str, int], dict[int, Outcome | None]] = {}
    for outcome, _, repeat, sample in verdicts:
        turns = turns_of.setdefault((sample.cluster, repeat), {})
        turns[whole_number(sample.attributes.get("turn", "")) or 0] = outcome
    conversations = []
    for turns in turns_of.values():
        outcomes = [outcome for _, outcome in sorted(turns.items()) if outcome is not None]
        if len(outcomes) == len(turns):
            conversations.append(outcomes)
    return conversations


def _scored_rows(
    run: Run, samples: Mapping[str, Sample], chosen: str, sources_without: set[str]
) -> list[tuple[Cell, ...]]:
    """One line per source, metric, recipe and condition; answers are scored one at a time, and none is kept."""
    keys: dict[tuple[str, str, str, str], int] = {}
    all_scores = np.full(len(run.rows), np.nan)
    group = np.full(len(run.rows), -1)
    failed, unseen = np.zeros(len(run.rows), bool), np.zeros(len(run.rows), bool)
    for row_number, row in enumerate(run.rows):
        sample = samples.get(row.sample)
        rule = chosen or (sample.answers.rule if sample else "")
        if sample is None or rule.partition(":")[0] not in METRICS:
            sources_without.add(row.source)
            continue
        failed[row_number] = row.status is Status.FAILED
        score = metric(rule)(sample.answers, "" if failed[row_number] else row.answer)
        all_scores[row_number] = np.nan if score is None else score
        unseen[row_number] = sample.split.endswith("unseen_question")
        group[row_number] = keys.setdefault(
            (row.source, rule.partition(":")[0], row.recipe, row.condition), len(keys)
        )
    lines: list[tuple[Cell, ...]] = []
    for (source, rule, recipe, condition), number in sorted(keys.items()):
        in_group = group == number
        scored = in_group & ~np.isnan(all_scores)
        items, all_items = gather(run.rows.item, scored), gather(run.rows.item, in_group)
        scores, is_unseen = items.mean(all_scores[scored]), unseen[scored][items.first]
        mean, name = (float(scores.mean()) if items.n else None), rule
        if rule == "infoseek" and is_unseen.any() and not is_unseen.all():
            mean, name = (
                final(*(float(scores[s].mean()) for s in (is_unseen, ~is_unseen))),
                "infoseek (harmonic mean of its splits)",
            )
        n = counted(items)
        lines.append(
            (
                run.name,
                source,
                name,
                recipe,
                condition,
                mean,
                n,
                all_items.n - items.n,
                int(failed[in_group].sum()),
            )
        )
    return lines
