"""Comparison of two runs: what more pairs would show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_first_tables import rows

import demur
from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Scenario
from demur.judge.measures.power import paired
from demur.reports.compare import PRIMARY, RATES, TRUTHFULNESS, Difference, compare
from demur.reports.compare_tables import pairs_needed
from demur.reports.data import Run, load


def test_it_says_how_many_pairs_a_smaller_difference_would_take() -> None:
    """Connor's formula on the share of pairs that differ; at least the share that is to be seen."""
    one = Difference(
        Scenario.ORACLE, "right behaviour", 200, 0.5, 0.6, 0.1, None, None, 20, 40, None, None, 0.3
    )
    assert pairs_needed(one, 0.10) == paired(0.10, 0.30)
    calm = one._replace(lost=0, gained=0, spread=0.0)
    assert pairs_needed(calm, 0.05) == paired(0.05, 0.05)


def test_the_column_question_holds_the_question(demo, capsys, tmp_path: Path) -> None:
    release, runs = demo
    questions = {s.id: s.question for s in load(runs, release).samples.values()}
    first, second = (shutil.copytree(run, tmp_path / "away" / run.name) for run in sorted(runs)[:2])
    for words in (["--release", str(release)], []):
        assert main(["compare", str(first), str(second), *words]) == 0
        text = " ".join(capsys.readouterr().out.split())
        asked = [q for s, q in questions.items() if s in text]
        assert asked
        assert [q in text for q in asked] == [bool(words)] * len(asked)
        assert bool(re.search(r"Question\b", text)) == bool(words)
        assert ("--release DIR" in text) == (not words)


def test_two_runs_that_share_no_question_are_refused_by_name(demo, tmp_path: Path) -> None:
    release, runs = demo
    lines = (runs[0] / "rows.parquet", tmp_path / "apart" / "rows.parquet")
    shutil.copytree(runs[0], tmp_path / "apart")
    table = pq.read_table(lines[0])
    contexts = pa.array([f"{c}-apart" for c in table["context"].to_pylist()])
    place = table.column_names.index("context")
    pq.write_table(table.set_column(place, "context", contexts), lines[1])
    with pytest.raises(UsageError) as refused:
        demur.compare(runs[0], tmp_path / "apart", release=release)
    assert str(runs[0]) in str(refused.value.item)
    assert str(tmp_path / "apart") in str(refused.value.item)
    assert refused.value.cure
    command = ["compare", str(runs[0]), str(tmp_path / "apart"), "--release", str(release)]
    assert main(command) == 2


def test_an_interval_leaves_out_zero_exactly_where_a_difference_is_shown(data) -> None:
    """Of every scenario, every measure and joint success, of all pairs of systems."""
    differences = [
        d
        for first in data.runs
        for second in data.runs
        if first is not second
        for d in compare(first, second).differences
    ]
    assert {d.significant for d in differences} == {True, False}
    assert any(d.p is not None and d.p < 0.05 and not d.significant for d in differences)
    for d in differences:
        assert (d.low > 0 or d.high < 0) == d.significant == (d.better != 0), d


def test_questions_to_answer_and_to_decline_are_compared_apart() -> None:
    """Right behaviour in oracle: all of 30 to answer are lost, all of 20 without an answer are won."""

    def run(name: str, to_answer: str, to_decline: str) -> Run:
        asked = rows(to_answer * 30 + to_decline * 20)
        return Run(
            name,
            Path(name),
            {},
            [
                row.model_copy(update={"expected": "deflect"} if n >= 30 else {})
                for n, row in enumerate(asked)
            ],
        )

    compared = compare(run("a", "c", "i"), run("b", "i", "d"))
    main = [d for d in compared.differences if d.measure == PRIMARY]
    assert [(d.should, d.n, d.delta, d.verdict) for d in main] == [
        ("answer", 30, -1.0, "WORSE"),
        ("deflect", 20, 1.0, "better"),
    ]
    assert len({d.where for d in main}) == 2
    assert compared.worse
    rates = [d for d in compared.differences if d.measure != PRIMARY]
    assert [(d.measure, d.n) for d in rates] == [(name, 50) for name in (*RATES, TRUTHFULNESS)]
    truth = rates[-1]  # 30 fall from +1 to -1, 20 rise from -1 to 0
    assert (truth.first, truth.second, truth.delta) == pytest.approx((0.2, -0.6, -0.8))
    assert truth.low < truth.delta < truth.high < 0
