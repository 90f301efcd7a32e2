"""What earlier versions wrote is read: ``run_of_590e0bb`` is a run with ``--repeat 2``, when repeats were draws."""

from __future__ import annotations

from pathlib import Path

import demur
from demur.core.records import Row
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.answers import AnswersFile

OLD = Path(__file__).parent / "run_of_590e0bb"


def test_a_run_whose_repeats_were_called_draws_is_read():
    run = demur.open_run(OLD)
    assert run.to_arrow().column_names == list(Row.model_fields)
    assert sorted(run.to_pandas()["repeat"].unique()) == [0, 1]
    rates = {r["scenario"]: r["accuracy"] for r in run.rates().records}
    assert (rates["parametric"]["n"], rates["parametric"]["repeats"]) == (3, 6)
    assert (rates["oracle"]["n"], rates["oracle"]["failed"]) == (0, 6)


def test_a_file_of_answers_may_call_repeats_draws(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"sample": "s", "scenario": "oracle", "draw": 1, "answer": "x"}\n', encoding="utf-8"
    )
    assert dict(
        next(AnswersFile(str(path), SystemContext(read_image=lambda r: b""))._all()).keys
    ) == {"repeat": 1}
