"""The lines under every table of rates: which judge, how good it is, and what is in no rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from demur.core.records import Measure, Method
from demur.core.text import brief
from demur.judge.measures.corrected import LEAST
from demur.judge.measures.judge_error import EXACT, groups
from demur.reports.data import Run

STEPS = {
    "exact": EXACT,
    "declined": (Method.DECLINED,),
    "equivalence": (Method.EQUIVALENCE,),
    "model": (Method.MODEL,),
    "people": (Method.PERSON,),
}
"""How a verdict came about, for people to read -> its methods."""
MEASURED = ("equivalence", "declined")
"""Steps whose errors are told."""
MOST = 98
"""Characters of the line on the judge: one line of 100 columns."""


def judge_line(runs: Sequence[Run]) -> str:
    """Which judge graded, how its verdicts came about, and how often it errs; at most 98 characters.

    ``Judge local: exact 12, declined 30, equivalence 58 %; errs on 5 % of wrong, 20 % of right answers.`` The two last
    are means over the sets of labelled answers that the step which decided most was measured on.
    """
    names = sorted({judge for run in runs for judge in run.judges})
    counts = np.zeros(len(Method) + 1, dtype=np.int64)
    for run in runs:
        counts += np.bincount(run.rows.method[run.rows.graded] + 1, minlength=len(Method) + 1)
    count_of_method = {m: int(counts[1 + i]) for i, m in enumerate(Method)}
    count_of_step = {
        step: sum(count_of_method[m] for m in methods) for step, methods in STEPS.items()
    }
    total = sum(count_of_step.values())
    figures = ""
    if total:
        shares = (f"{step} {100 * n / total:.0f}" for step, n in count_of_step.items() if n)
        figures = f": {', '.join(shares)} %"
    figures += _error_text(count_of_step, total)
    line = f"Judge {brief(', '.join(names) or 'not stated', max(12, 92 - len(figures)))}{figures}"
    if len(line) > MOST:
        figures = figures.removesuffix(" answers.") + "."
        line = brief(", ".join(names), MOST - len(figures)) + figures
    return line


def _error_text(mix: Mapping[str, int], total: int) -> str:
    """How often the step that decided most of the answers errs, as the end of a sentence."""
    if mix["model"] * 2 >= total:  # or no method is stated
        return "; its error is unknown without labels of people."
    step = max(MEASURED, key=lambda step: mix[step])
    if not mix[step]:
        return "."
    rows = groups()[step]
    false = 100 * sum(g.false / g.not_so for g in rows) / len(rows)
    missed = 100 * sum(g.missed / g.so for g in rows) / len(rows)
    if step == "equivalence":
        return f"; errs on {false:.0f} % of wrong, {missed:.0f} % of right answers."
    return f"; errs on {false:.0f} % of answers, {missed:.0f} % of declines."


def label_notes(runs: Sequence[Run], measures: Iterable[Measure] = ()) -> list[str]:
    """What people's labels decide under a table, or why they decide nothing; nothing without labels."""
    decided = any(m.labels for m in measures)
    drawn = sum(len(run.drawn.codes) for run in runs)
    idle = sum(run.drawn.idle for run in runs)
    notes = []
    if decided:
        notes.append(f"(x): the rate as {drawn:,} labels of people put it, with its interval.")
    elif drawn:
        notes.append(
            f"{drawn:,} labels of people are too few: {LEAST} drawn ones of a system in a scenario correct its rates."
        )
    if idle:
        notes.append(
            f"{idle:,} labels correct nothing: another judge's, or not drawn (demur annotate draw)."
        )
    return notes


def notes_under(
    runs: Sequence[Run], cells: Iterable[Sequence[Measure]], *, methods: bool = True
) -> list[str]:
    """The notes of a table of rates.

    Args:
        runs: whose answers were judged.
        cells: the rates of each cell, over the same answers.
        methods: name the methods of the intervals, where the table shows them.
    """
    cells = list(cells)
    measures = [m for cell in cells for m in cell]
    notes = [judge_line(runs), *label_notes(runs, measures)]
    if any(m.corrected is not None and not m.labels for m in measures):
        notes.append(
            "(x): without the judge's errors, where the interval leaves the count outside."
        )
    if unjudged := sum(cell[0].unjudged for cell in cells):
        notes.append(f"In no rate: {unjudged:,} unjudged answers; the same command judges them.")
    if failed := sum(cell[0].failed for cell in cells):
        notes.append(f"In no rate: {failed:,} failed answers. {_worst_case_note(measures)}")
    intervals = sorted({m.interval for m in measures} - {""})
    if methods and intervals:
        notes.append(f"Intervals: {'; '.join(intervals)}.")
    return notes


def _worst_case_note(measures: Iterable[Measure]) -> str:
    """By how much failed answers could raise the rate that they could raise most."""
    moves = [
        (100 * ((m.bounds or (0.0, 0.0))[1] - (m.value or 0.0)), m.name)
        for m in measures
        if m.failed and m.value is not None
    ]
    if not moves:
        return ""
    most, name = max(moves)
    return f"Counted, they would raise {name} by {most:.1f} points at most."
