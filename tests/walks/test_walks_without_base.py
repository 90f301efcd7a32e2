"""Sources that bring no knowledge base: from their native files through a check and a run to their own figures."""

from __future__ import annotations

import json

import native_miniatures as native
import pyarrow.parquet as pq
import pytest
import recount
from test_walks import demur

ASKED = {
    "well-read": "python:native_miniatures:well_read",
    "half-remembers": "python:native_miniatures:half_remembers",
}


@pytest.mark.heavy
@pytest.mark.parametrize("source", recount.WITHOUT_BASE)
def test_its_figures_are_those_counted_again(source, tmp_path):
    questions = recount.WITHOUT_BASE[source](native.BUILDERS[source](tmp_path / "native"))
    found = json.loads(
        demur(
            "sources", "check", f"{source}:{tmp_path / 'native'}", "--no-published-pins", "--json"
        )
    )
    assert found["samples"] == len(questions)
    if source == "crag_mm":
        assert found["documents"] == recount.crag_documents(tmp_path / "native")
    demur(
        "run",
        f"{source}:{tmp_path / 'native'}",
        "--system",
        *ASKED.values(),
        "--out",
        tmp_path / "runs",
        "--judge",
        "local",
    )
    for gate, system in ASKED.items():
        run = tmp_path / "runs" / system.replace(":", "-")
        rows = json.loads(demur("score", run, "--json"))
        assert {row["context"] for row in rows} >= (
            {"parametric", "oracle"} if source == "mmlongbench" else {"parametric"}
        )
        for row in rows:
            if row["context"] in ("parametric", "oracle"):
                told = recount.figures(questions, gate, row["context"])
                if source == "crag_mm":
                    told |= recount.truthfulness(questions, gate)
                assert {key: row[key] for key in told} == pytest.approx(told)
                assert (row.get("unjudged", 0), row.get("failed", 0)) == (0, 0)
    assert "F1" in demur("score", run)
    demur("report", run, "-o", tmp_path / "report.html")


@pytest.mark.heavy
def test_each_turn_is_asked_after_those_before_it_and_reported_with_its_truthfulness(tmp_path):
    questions = recount.WITHOUT_BASE["crag_mm"](native.BUILDERS["crag_mm"](tmp_path / "native"))
    before: dict[str, str] = {}
    for place, question in enumerate(questions):
        session, turn = question.id.rsplit("-", 1)
        before[question.id] = questions[place - 1].accepted[0] if turn != "0" else native.DECLINES
        assert turn == "0" or questions[place - 1].id.startswith(session)
    system = "python:native_miniatures:repeats_the_last"
    demur(
        "run",
        f"crag_mm:{tmp_path / 'native'}",
        "--system",
        system,
        "--out",
        tmp_path / "runs",
        "--judge",
        "local",
    )
    run, page = tmp_path / "runs" / system.replace(":", "-"), tmp_path / "report.html"
    rows = pq.read_table(run / "rows.parquet").to_pylist()
    assert {row["sample"]: row["answer"] for row in rows} == before
    release = tmp_path / "runs/release"
    told = json.loads(demur("report", run, "--release", release, "-o", page, "--json"))
    (line,) = told["results"]
    points = {"correct": 1, "deflected": 0, "incorrect": -1}
    mean = sum(points[row["outcome"]] for row in rows) / len(rows)
    assert line["truthfulness"]["value"] == pytest.approx(mean)
    assert line["truthfulness"]["low"] <= mean <= line["truthfulness"]["high"]
    assert mean < 0
    html = page.read_text()
    assert "Truthfulness" in html
    assert f"{100 * mean:+.1f}" in html
