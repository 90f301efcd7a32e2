"""People's labels of a run's answers: what they hold for, and which of them may decide.

A label is valid for one answer, under one rubric, beside the verdicts of one judge, and names them (``labels.jsonl`` of
a run, as `demur annotate take` writes it). Those of a draw correct the judge's rates by themselves, where a cell has
enough of them (`demur.judge.measures.corrected`). Labels of answers that somebody chose tell nothing of the others, and
*stale* ones, of another judge or other answers, nothing of these: both are counted and correct nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Outcome
from demur.core.store import Problems, digest, read_jsonl
from demur.judge.annotation.task import shipped_version
from demur.judge.bench import NOT_CORRECT
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT

if TYPE_CHECKING:
    from demur.reports.data import Run

CODES = {Outcome.CORRECT: CORRECT, Outcome.INCORRECT: INCORRECT, Outcome.DEFLECTED: DEFLECTED}
"""Outcome -> its code in a table's ``result``."""


class HumanLabel(NamedTuple):
    """A person's label of one answer, and what it was given for; "" where unknown."""

    label: Outcome
    two_way: bool = False
    """Whether people said no more than that it is not correct; ``label`` is INCORRECT then."""
    answer: str = ""
    """First 16 digits of the SHA-256 of the answer."""
    judge: str = ""
    prompt: str = ""
    """SHA-256 of the judge's prompt."""
    rubric: str = ""
    shipped: str = ""
    """Version of demur's own rubric, where the annotator saw that."""
    judge_code: str = ""
    """Of the judge, as its verdicts state it."""
    drawn: bool = False
    """Whether the answer was drawn at random (`demur annotate`), and not chosen by somebody."""


_BOUND = {
    "answer": "answer",
    "judge": "judge",
    "prompt": "prompt_sha256",
    "rubric": "rubric",
    "shipped": "shipped_rubric",
    "judge_code": "judge_code",
}
"""Field of `HumanLabel` -> its key in a line of labels."""
HUMAN = "labels.jsonl"
"""File in a run folder: people's labels of its answers."""
LABELS = {o.value: o for o in Outcome} | {
    "not_attempted": Outcome.DEFLECTED,
    "hallucinated": Outcome.INCORRECT,
}
TWO_WAY = LABELS | {NOT_CORRECT: Outcome.INCORRECT}
"""With the label of people who mark right and wrong only; it corrects accuracy alone."""


def read_labels(path: Path, problems: Problems, *, two_way: bool = False) -> dict[str, HumanLabel]:
    """Ask -> label, from lines such as ``{"ask": id, "label": "correct"}``: of `LABELS`, or `TWO_WAY`."""
    allowed = TWO_WAY if two_way else LABELS
    labels: dict[str, HumanLabel] = {}
    for place, row in read_jsonl(path, problems):
        ask, label = str(row.get("ask", "")), str(row.get("label", "")).lower()
        if label not in allowed or not ask:
            hint = (
                f"; {NOT_CORRECT} only in a file outside the run: demur judge correct --labels FILE"
                * (not two_way)
            )
            problems.add(
                f"{place} ({ask or 'no ask'})",
                f"label {label!r}; one of {', '.join(allowed)}{hint}",
            )
        elif ask in labels:
            problems.add(f"{place} ({ask})", "labelled twice")
        else:
            drawn = bool(row.get("from"))  # the sheet or task that `demur annotate` drew
            provenance = {field: str(row.get(key) or "") for field, key in _BOUND.items()}
            labels[ask] = HumanLabel(
                allowed[label], label == NOT_CORRECT, **provenance, drawn=drawn
            )
    return labels


class Stale(UsageError):
    """Labels for another judge, prompt or rubric, or for other answers."""


def check_bound(run: Run, labels: Mapping[str, HumanLabel]) -> None:
    """Check that labels are valid for a run's answers and verdicts.

    Raises:
        Stale: another judge, code, prompt or rubric, or other answers.
    """
    asks_of_run = labels.keys() & set(run.rows.coded("ask").labels)
    labels_of_run = [labels[ask] for ask in sorted(asks_of_run)]
    cure = "label a new draw (demur annotate RUN), name it with --labels; or name the labelled verdicts with --verdicts"
    for aspect, field, current in (
        ("judge", "judge", ", ".join(run.judges)),
        ("judge's code", "judge_code", run.judge_code),
        ("judge's prompt", "prompt", ", ".join(run.prompts)),
        ("rubric", "shipped", shipped_version()),
    ):
        if field == "judge_code" and not current:
            continue  # verdicts that state no code are of a judge that has none
        stated = {str(getattr(label, field)) for label in labels_of_run} - {""}
        older = [value for value in sorted(stated) if current not in (value, *value.split(", "))]
        if older:
            message = f"stale labels: the {aspect} was {older[0]!r}, now {current!r}"
            raise Stale(message, item=run.name, cure=cure)
    rubrics = {human_label.rubric for human_label in labels_of_run} - {""}
    if len(rubrics) > 1:
        message = f"stale labels: given under {len(rubrics)} rubrics ({', '.join(sorted(rubrics))})"
        raise Stale(message, item=run.name, cure="label all of them under one rubric")
    is_labelled = run.rows.is_in("ask", asks_of_run)
    changed = [
        row.ask
        for row in run.rows.where(is_labelled)
        if labels[row.ask].answer and digest(row.answer, 16) != labels[row.ask].answer
    ]
    if changed:
        message = f"stale labels: {len(changed):,} answers changed since they were labelled, such as {changed[0]}"
        raise Stale(message, item=run.name, cure="label the new answers")


class Drawn(NamedTuple):
    """The labels of a run that may correct its rates."""

    codes: Mapping[str, int]
    """Ask -> CORRECT, INCORRECT or DEFLECTED."""
    idle: int = 0
    """Labels of answers of this run that correct nothing: they are stale, or were not drawn."""


def drawn_labels(run: Run) -> Drawn:
    """The labels that `demur annotate` drew, and how many others there are."""
    asks_of_run = run.labels.keys() & set(run.rows.coded("ask").labels)
    drawn = {ask: run.labels[ask] for ask in asks_of_run if run.labels[ask].drawn}
    try:
        check_bound(run, drawn)
    except Stale:
        drawn = {}
    return Drawn(
        {ask: CODES[human_label.label] for ask, human_label in drawn.items()},
        len(asks_of_run) - len(drawn),
    )
