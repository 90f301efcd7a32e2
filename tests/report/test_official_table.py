"""Official scores over a run: each source by its own rule, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from strategies import sample

from demur.core.errors import UnknownPart
from demur.core.records import AnswerSpec, Row, Scenario, Status
from demur.reports.data import ReportData, Run
from demur.reports.official import official_table


def row(name: str, answer: str, source: str, status: Status = Status.GRADED) -> Row:
    return Row(
        ask=name,
        context=name,
        sample=name,
        source=source,
        scenario=Scenario.ORACLE,
        condition="moderate",
        recipe="oracle(order=shuffled)",
        k_used=0,
        expected="answer",
        status=status,
        outcome="correct" if status is Status.GRADED else None,
        answer=answer,
    )


def data() -> ReportData:
    length = AnswerSpec(kind="number", number=(9, 11), rule="infoseek")
    samples = {
        "a": sample("a").model_copy(
            update={"answers": length, "split": "val_unseen_question", "source": "infoseek"}
        ),
        "b": sample("b").model_copy(
            update={"answers": length, "split": "val_unseen_entity", "source": "infoseek"}
        ),
        "c": sample("c").model_copy(
            update={"answers": length, "split": "val_unseen_entity", "source": "infoseek"}
        ),
        "d": sample("d"),
    }
    rows = (
        row("a", "10 m", "infoseek"),
        row("b", "10", "infoseek"),
        row("c", "", "infoseek", Status.FAILED),
        row("d", "forty-two", "made"),
    )
    return ReportData((Run("r", Path("r"), {}, rows),), None, samples)


def test_infoseek_is_the_harmonic_mean_of_its_splits_and_failures_score_nothing():
    table = official_table(data())
    ((system, source, name, recipe, _, score, n, undefined, failed),) = table.rows
    assert (system, source, recipe, n, undefined, failed) == (
        "r",
        "infoseek",
        "oracle(order=shuffled)",
        3,
        0,
        1,
    )
    assert "harmonic" in name
    assert score == pytest.approx(2 * 1.0 * 0.5 / 1.5)
    assert "made" in table.notes[1]


def test_one_metric_for_all_and_an_unknown_one():
    rows = official_table(data(), "viquae-f1").rows
    assert [(r[1], r[2], r[5], r[6], r[7]) for r in rows] == [
        ("infoseek", "viquae-f1", None, 0, 3),  # a number has no alias: undefined, never 0
        ("made", "viquae-f1", 1.0, 1, 0),
    ]
    with pytest.raises(UnknownPart, match="viquae-f1"):
        official_table(data(), "viquae-f2")
