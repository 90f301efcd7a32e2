"""Labels of people decide where there are enough that were drawn; others are counted and correct nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from demur.core.records import Method, Outcome, Row, Scenario, Status
from demur.judge.measures.corrected import LEAST
from demur.reports.cells import labelled_rates
from demur.reports.data import Run
from demur.reports.labels import HumanLabel

LETTERS = {"c": Outcome.CORRECT, "d": Outcome.DEFLECTED, "i": Outcome.INCORRECT}


def run_of(verdicts: str, labels: str, *, drawn: bool = True, judge: str = "local") -> Run:
    """A run of one scenario, a letter an answer, with labels of its first answers; a blank is none."""
    rows = [
        Row(
            ask=f"q{n}",
            context=f"q{n}",
            sample=f"s{n}",
            source="atlas",
            scenario=Scenario.ORACLE,
            condition="moderate",
            recipe="oracle(order=shuffled)",
            k_used=0,
            expected="answer",
            outcome=LETTERS[letter],
            status=Status.GRADED,
            method=Method.EQUIVALENCE.value,
        )
        for n, letter in enumerate(verdicts)
    ]
    given = {
        f"q{n}": HumanLabel(LETTERS[letter], judge=judge, drawn=drawn)
        for n, letter in enumerate(labels)
        if letter != " "
    }
    return Run("a", Path("a"), {}, tuple(rows), labels=given, judges=("local",))


def rates(run: Run):
    return labelled_rates(run, run.rows, np.ones(len(run.rows), dtype=bool))


CALLED = ("c" * 3 + "i") * 100
"""What the judge calls 400 answers: three of four correct."""
TRUE = ("c" * 2 + "ii") * 100
"""What they are: every third of those called correct is not."""


def test_forty_drawn_labels_decide_and_the_count_stays():
    found = rates(run_of(CALLED, TRUE[:80]))
    measure = found[0].accuracy
    assert found[1] == 80
    assert measure.value == CALLED.count("c") / len(CALLED)
    assert measure.n == len(CALLED)
    assert measure.labels == 80
    assert measure.corrected == pytest.approx(0.5, abs=0.02)
    assert measure.low < measure.corrected < measure.high < measure.value
    assert sum(m.corrected for m in found[0]) == pytest.approx(1)


@pytest.mark.parametrize(
    "run",
    [
        run_of(CALLED, TRUE[: LEAST - 1]),
        run_of(CALLED, TRUE[:80], drawn=False),
        run_of(CALLED, TRUE[:80], judge="another"),
        run_of(CALLED, "".join(t if c == "c" else " " for t, c in zip(TRUE, CALLED, strict=True))),
    ],
    ids=["too few", "not drawn", "of another judge", "none on a verdict"],
)
def test_other_labels_correct_nothing(run):
    plain = rates(run_of(CALLED, ""))[0]
    assert rates(run)[0] == plain
    assert not any(measure.labels for measure in plain)


def test_labels_that_cannot_count_are_told_apart():
    assert run_of(CALLED, TRUE[:80], drawn=False).drawn.idle == 80
    assert run_of(CALLED, TRUE[:80], judge="another").drawn == ({}, 80)
    few = run_of(CALLED, TRUE[:12])
    assert (len(few.drawn.codes), few.drawn.idle) == (12, 0)
    assert rates(few)[1] == 12


def test_labels_count_within_one_cell_only():
    rows = [
        row.model_copy(update={"scenario": Scenario.FULL} if i % 2 else {})
        for i, row in enumerate(run_of(CALLED, "").rows)
    ]
    run = run_of(CALLED, TRUE[:200])
    object.__setattr__(run, "rows", Run("a", Path("a"), {}, tuple(rows)).rows)
    both = labelled_rates(run, run.rows, np.ones(len(rows), dtype=bool))
    one = labelled_rates(run, run.rows, run.rows.is_in("scenario", ["oracle"]))
    assert [(labels, found.accuracy.labels) for found, labels in (both, one)] == [
        (0, 0),
        (100, 100),
    ]
