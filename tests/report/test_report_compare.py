"""Comparison of two runs: what more pairs would show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from demur.cli import main
from demur.core.records import Scenario
from demur.judge.measures.power import paired
from demur.reports.compare import Difference
from demur.reports.compare_tables import pairs_needed
from demur.reports.data import load


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
