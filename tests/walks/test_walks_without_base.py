"""Sources that bring no knowledge base: from their native files through a check and a run to their own figures."""

from __future__ import annotations

import json

import native_miniatures as native
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
