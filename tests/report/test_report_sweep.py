"""`demur sweep` from the command: its own tables, and what nobody has so many distractors for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_factory import COUNTRIES, make_release

from demur.cli import main

FUNCTION = """
def answer(ask):
    return "I cannot answer this from the evidence." if len(ask["evidence"]) % 2 else "Paris"
"""


@pytest.mark.heavy
def test_sweep_prints_its_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    release, samples = make_release(tmp_path / "release", countries=COUNTRIES[:6])
    (tmp_path / "my_rag_of_sweeps.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    words = [
        "sweep",
        str(release),
        "--system",
        "python:my_rag_of_sweeps:answer",
        "--out",
        "runs",
        "--distractors",
        "7:10",
    ]
    words += [
        "--judge",
        "local",
        "--strictness",
        "none",
        "severe",
        "--modality",
        "grid",
        "--positions",
        "0:9",
        "--k",
        "8",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    n = len(samples)
    assert "Distractors shown in the Realistic scenario" in told
    assert ": 9, 10" in told
    assert "distractors: 9" in told
    assert "Modality of gold and distractors" in told
    assert "Prompt strictness: Parametric and Oracle scenarios" in told
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sweeps"]
    assert set(found) == {"figure3", "positions", "table5", "table6", "table9"}
    assert [(r["distractors"], r["n"], r["too few"]) for r in found["figure3"]] == [
        (0, n, 0),
        (7, n, 0),
        (8, n, 0),
        (9, 0, n),
        (10, 0, n),
    ]
    assert found["figure3"][-1]["acc"] is None
    manifest = json.loads(next((tmp_path / "runs").glob("python*/manifest.json")).read_text())
    assert manifest["reads_prompt"] is False
