"""The demo, whole and real: its parts, its bytes, and what it does twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from served import Served

from demur.core.records import Message, Request, TextPart
from demur.demo import CAREFUL, SMALL, recipe
from demur.evaluation.asking import folder_name
from demur.models import complete_sync
from demur.release import Release, verify
from demur.sample import llm

pytestmark = pytest.mark.integration


def demo(out: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "demur", "demo", "--out", str(out), "--per-topic", "2", *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "LEFT OUT" not in done.stderr or "--no-model" in words
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.fixture
def first(small_demo):
    return small_demo


def test_it_leaves_what_it_promises_and_ends_with_the_reports_path(first):
    out, said = first
    assert said.strip().splitlines()[-1] == str(out / "report.html")
    assert {p.name for p in (out / "runs").iterdir() if p.is_dir()} == {
        "reader",
        folder_name(CAREFUL),
        SMALL,
    }
    summary = json.loads((out / "summary.json").read_text())
    assert summary["left_out"] == []
    release = Release.open(out / "release")

    assert verify(release) == []
    assert (
        release.manifest["encoder"]["note"].endswith("not CLIP")
        or "not CLIP" in release.manifest["encoder"]["note"]
    )
    assert "not CLIP" in (out / "report.html").read_text()
    modes = {e.mode for s in release.samples() for e in s.negatives}
    assert any("image->image" in m for m in modes)
    assert all(e.index_id and e.rank for s in release.samples() for e in s.negatives)
    kinds = {e.modality.value for s in release.samples() for e in s.negatives}
    assert kinds == {"text", "image"}


def test_every_usable_answer_is_judged_and_counts(first):
    """The reader always answers and knows nothing by heart: with all answers in n, its accuracy shows it."""
    out, _ = first
    samples = Release.open(out / "release").manifest["counts"]["samples"]
    for run in sorted(p for p in (out / "runs").iterdir() if p.is_dir()):
        lines = (run / "verdicts.jsonl").read_text().splitlines()
        assert {json.loads(line)["status"] for line in lines} <= {"graded", "failed"}
    summary = json.loads((out / "summary.json").read_text())
    reader = {r["scenario"]: r for r in summary["results"] if r["system"] == "reader"}
    assert reader["parametric"]["n"] == samples
    assert reader["parametric"]["accuracy"]["value"] <= 0.25
    assert reader["oracle"]["accuracy"]["value"] >= 0.9


def test_every_sample_that_left_has_a_stage_and_a_reason(first):
    out, _ = first
    release = Release.open(out / "release")
    drops = [d for d in release.drops() if not d.evidence]
    pool = release.funnel[0]["kept"]
    assert pool == release.manifest["counts"]["samples"] + len(drops)
    assert all(d.stage and d.reason for d in drops)
    for before, after in zip(release.funnel, release.funnel[1:], strict=False):
        assert before["kept"] == after["entered"] == after["kept"] + sum(after["dropped"].values())


def test_the_release_opens_with_datasets_offline_after_a_move(first, tmp_path):
    out, _ = first
    moved = tmp_path / "moved"
    shutil.copytree(out / "release", moved)
    code = (
        "import sys; from datasets import load_dataset\n"
        "s = load_dataset(sys.argv[1], 'samples', split='test'); e = load_dataset(sys.argv[1], 'evidence', split='test')\n"
        "ids = set(e['id']); assert all(g['id'] in ids for r in s for g in r['gold'] + r['negatives'])\n"
        "pictures = [i for r in s for i in r['images']] + [i for i in e['image'] if i]\n"
        "print(len(s), len(e), len(pictures), pictures[0].size)\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(moved)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    samples, evidence, *_ = done.stdout.split()
    counts = Release.open(out / "release").manifest["counts"]
    assert (int(samples), int(evidence)) == (counts["samples"], counts["documents"])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(first, tmp_path):
    out, _ = first
    again = tmp_path / "b"
    demo(again)
    assert tree(again / "release") == tree(out / "release")
    for run in (out / "runs").iterdir():
        if run.is_dir():
            assert tree(again / "runs" / run.name) == tree(run)
    assert (again / "report.html").read_bytes() == (out / "report.html").read_bytes()
    other = tmp_path / "c"
    demo(other, "--seed", "1", "--no-model")
    assert (
        tree(other / "release")["data/samples.parquet"]
        != tree(out / "release")["data/samples.parquet"]
    )


def test_a_second_time_in_the_same_folder_asks_nobody_and_changes_nothing(first):
    out, _ = first
    before = {k: v for k, v in tree(out).items() if k.startswith(("release", "runs"))}
    said = json.loads(demo(out, "--json"))
    assert said == json.loads((out / "summary.json").read_text())
    assert {k: v for k, v in tree(out).items() if k.startswith(("release", "runs"))} == before


def test_another_demo_in_the_same_folder_is_refused(first):
    out, _ = first
    done = subprocess.run(
        [sys.executable, "-m", "demur", "demo", "--out", str(out), "--seed", "9"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--fresh" in done.stderr


@pytest.fixture
def busy():
    """Every core is occupied by others."""
    many = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 2)
    ]
    yield
    for one in many:
        one.kill()
        one.wait()


@pytest.mark.slow
def test_it_ends_while_every_core_is_occupied_by_others(busy, tmp_path):
    """Whatever computes does it beside the loop, so that nobody is taken for dead."""
    demo(tmp_path / "demo", "--no-model")
    summary = json.loads((tmp_path / "demo/summary.json").read_text())
    assert [line for line in summary["left_out"] if "small language model" not in line] == []
    assert (tmp_path / "demo/report.html").is_file()
    with Served("I cannot tell.") as address:  # a healthy server beside built-in gates that compute
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "demur",
                "rebuild",
                str(tmp_path / "demo/release"),
                "--add-gate",
                f"model:{address}",
                "--out",
                str(tmp_path / "new"),
            ],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    new = Release.open(tmp_path / "new/release")
    assert verify(new) == []
    assert len(new.manifest["gates"]) == 1 + len(
        Release.open(tmp_path / "demo/release").manifest["gates"]
    )


def test_its_model_is_reached_where_a_proxy_stands_before_everything(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with llm.serving() as address:
        message = Message(role="user", parts=(TextPart(text="Say yes."),))
        (reply,) = complete_sync(
            address, [Request(model=llm.MODEL, messages=(message,), max_tokens=3)]
        )
    assert reply.text
    assert "no_proxy" not in os.environ


def test_the_recipe_is_the_one_that_ships():
    assert recipe(3).seed == 3
    assert {g.system for g in recipe().gates} == {"prior", "reader", "model"}
    assert llm.weights() is not None
