"""The scripts of examples/ for users of LangChain, LlamaIndex, Haystack and FastAPI, run against the libraries."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from report_factory import make_release

from demur.cli import main
from demur.core.records import Outcome
from demur.reports.data import load
from demur.reports.rag import questions_of

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frameworks")
    release, samples = make_release(folder / "release")
    assert main(["corpus", "export", str(release), "--out", str(folder / "corpora")]) == 0
    return release, folder / "corpora", {s.id: s for s in samples}


def seen(run, release):
    """(scenario, result, what was retrieved, whether it declines) of each question of a run; nothing failed."""
    data = load([run], release)
    asked = questions_of(data.runs[0], data.samples)
    assert {a.result for a in asked} <= set(Outcome), {a.response.error for a in asked}
    return [
        (
            a.scenario,
            a.result,
            a.retrieval,
            not a.response.text or a.response.text.startswith("I cannot answer"),
        )
        for a in asked
    ]


def right_and_declining(replies):
    """Right where the gold can be had; elsewhere declining, or wrong where a sentence shares two words by chance."""
    assert {result for scenario, result, *_ in replies if scenario in ("oracle", "full")} == {
        "correct"
    }
    rest = [
        (result, declines)
        for scenario, result, _, declines in replies
        if scenario in ("adversarial", "gold-removed", "empty")
    ]
    assert set(rest) <= {("deflected", True), ("incorrect", False)}
    assert ("deflected", True) in rest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["langchain", "llamaindex", "haystack"])
def test_a_frameworks_pipeline_on_our_evidence_and_whole(world, tmp_path, name):
    release, corpora, samples = world
    script = [sys.executable, f"examples/rag_{name}.py", str(release), str(corpora), str(tmp_path)]
    quiet = {**os.environ, "HAYSTACK_TELEMETRY_ENABLED": "False"}
    done = subprocess.run(script, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    generator, whole = (
        seen(tmp_path / f"{name}-generator", release),
        seen(tmp_path / f"{name}-whole", release),
    )
    right_and_declining(generator)
    right_and_declining(whole)
    text = [s for s in samples.values() if not s.images and all(e.text for e in s.gold)]
    assert sum(scenario == "oracle" for scenario, *_ in generator) == len(text)
    assert {found for scenario, _, found, _ in whole if scenario == "full"} == {"gold retrieved"}
    assert {found for scenario, _, found, _ in whole if scenario == "gold-removed"} == {
        "gold not retrieved"
    }
    assert {found for scenario, _, found, _ in whole if scenario == "empty"} == {
        "nothing retrieved"
    }


def test_a_streaming_service_on_fastapi(world, tmp_path, capsys):
    release, corpora, _ = world
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mapping = tmp_path / "rag.yaml"
    mapping.write_text((ROOT / "examples/rag_fastapi.yaml").read_text().replace("8766", str(port)))
    server = subprocess.Popen(
        [sys.executable, "examples/rag_fastapi.py", str(corpora), "--port", str(port)], cwd=ROOT
    )
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        probe = [
            "rag",
            "probe",
            str(mapping),
            "--question",
            "What is the capital of Vanuatu?",
            "--json",
        ]
        capsys.readouterr()
        assert main(probe) == 0
        told = json.loads(capsys.readouterr().out)["understood"]
        assert told["text"]
        assert told["usage"]["completion"] == len(told["text"].split())
        assert told["served_by"] == "fastapi@1"
        run = [
            "run",
            str(release),
            "--scenarios",
            "whole",
            "--corpora",
            str(corpora),
            "--text-only",
        ]
        assert main([*run, "--system", f"http:{mapping}", "--out", str(tmp_path / "runs")]) == 0
    finally:
        server.terminate()
        server.wait(30)
    found = seen(tmp_path / "runs/fastapi", release)
    right_and_declining(found)
    assert {f for scenario, _, f, _ in found if scenario == "full"} == {"gold retrieved"}
