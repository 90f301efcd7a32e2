"""The same function asked more in a notebook: the run grows, and what was answered is never asked again."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from strategies import tiny_release

import demur
from demur.core.errors import UsageError
from demur.reports.data import read_rows


class Rag:
    """Counts what it is asked; fails on demand."""

    def __init__(self) -> None:
        self.asked: Counter[tuple] = Counter()
        self.down = False

    def __call__(self, question: str, evidence: list, id: str, strictness: str) -> str:
        if self.down:
            raise OSError("no connection")
        self.asked[id, strictness, tuple(e["id"] for e in evidence)] += 1
        return evidence[0]["text"] if evidence else "I do not know."


@pytest.fixture
def rag():
    counting = Rag()

    def rag(question, evidence, id, strictness):
        return counting(question, evidence, id, strictness)

    rag.counting = counting  # type: ignore[attr-defined]
    return rag


def rows_of(run: demur.Evaluation) -> list[dict]:
    rows = read_rows(run.folder / "rows.parquet").arrow.to_pylist()
    assert len({row["ask"] for row in rows}) == len(rows)
    assert len((run.folder / "responses.jsonl").read_text().splitlines()) == len(rows)
    return rows


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tiny_release(tmp_path / "release", 12)


MORE = [
    {"limit": 10},
    {"limit": 5, "scenarios": ["adversarial(k=1)", "parametric"]},
    {"limit": 5, "strictness": ["none", "severe"]},
    {"limit": 5, "seed": 7},
    {"limit": 5, "repeat": 3},
    {"limit": 2},
]


@pytest.mark.parametrize("more", MORE, ids=str)
def test_a_run_grows_and_nothing_is_asked_twice(more, rag, release: Path, tmp_path: Path) -> None:
    first = demur.evaluate(release, rag, scenarios="oracle", limit=5, out=tmp_path / "runs")
    before = {row["ask"]: row for row in rows_of(first)}
    asked = rag.counting.asked.total()
    grown = demur.evaluate(release, rag, **{"scenarios": "oracle"} | more, out=tmp_path / "runs")
    assert grown.folder == first.folder
    after = {row["ask"]: row for row in rows_of(grown)}
    assert before.items() <= after.items()
    assert rag.counting.asked.total() == asked + len(after) - len(before)
    assert (len(after) > len(before)) == (more != {"limit": 2})
    whole = (grown.folder / "manifest.json").read_bytes(), rows_of(grown)
    for again in (more, {"limit": 5}, more):
        demur.evaluate(release, rag, **{"scenarios": "oracle"} | again, out=tmp_path / "runs")
        assert ((grown.folder / "manifest.json").read_bytes(), rows_of(grown)) == whole
    manifest = json.loads(whole[0])
    assert {r["recipe"] for r in whole[1]} <= set(manifest["recipes"])
    assert {r["condition"] for r in whole[1]} == set(manifest["conditions"])
    assert manifest["asks"] == len(after)


def test_growing_that_breaks_off_keeps_both_runs(rag, release: Path, tmp_path: Path) -> None:
    first = demur.evaluate(release, rag, scenarios="oracle", limit=5, out=tmp_path / "runs")
    with pytest.raises(Exception, match="minutes"):
        demur.evaluate(release, rag, limit=10, minutes=0, out=tmp_path / "runs")
    assert len(rows_of(first)) == 5
    demur.evaluate(release, rag, limit=10, out=tmp_path / "runs")
    assert max(rag.counting.asked.values()) == 1


def test_what_failed_is_asked_again_by_the_larger_run(rag, release: Path, tmp_path: Path) -> None:
    rag.counting.down = True
    first = demur.evaluate(release, rag, scenarios="oracle", limit=5, out=tmp_path / "runs")
    assert {row["status"] for row in rows_of(first)} == {"failed"}
    rag.counting.down = False
    grown = demur.evaluate(release, rag, scenarios="parametric", limit=5, out=tmp_path / "runs")
    assert {row["status"] for row in rows_of(grown)} == {"graded"}
    assert len(rows_of(grown)) == 10


def test_another_release_under_the_same_name_is_refused(rag, release: Path, tmp_path: Path) -> None:
    other_release = tiny_release(tmp_path / "other", 11)
    first = demur.evaluate(release, rag, limit=5, out=tmp_path / "runs")
    with pytest.raises(UsageError) as refused:
        demur.evaluate(other_release, rag, limit=5, out=tmp_path / "runs")
    assert refused.value.item == str(first.folder)
    assert "NAME=SYSTEM" not in str(refused.value)
    demur.evaluate(other_release, rag, limit=5, out=tmp_path / "runs", name="mine")


def test_lambdas_and_partial_functions_do_not_share_a_folder(release: Path, tmp_path: Path) -> None:
    def said(question: str, answer: str) -> str:
        return answer

    first, second = (lambda question: "Paris"), (lambda question: "Rome")
    systems = [
        first,
        second,
        partial(said, answer="Lima"),
        partial(said, answer="Oslo"),
    ]
    runs = [
        demur.evaluate(release, s, scenarios="parametric", limit=3, out=tmp_path / "runs")
        for s in systems
    ]
    assert len({run.folder for run in runs}) == 4
    assert [{row["answer"] for row in rows_of(run)} for run in runs] == [
        {"Paris"},
        {"Rome"},
        {"Lima"},
        {"Oslo"},
    ]
    assert not (tmp_path / "runs" / ".earlier").exists()


def test_a_sweep_shows_all_that_it_varies(rag, release: Path, tmp_path: Path) -> None:
    run = demur.sweep(
        release, rag, distractors=(0, 2), strictness=["none", "severe"], out=tmp_path / "runs"
    )
    rows = rows_of(run)
    shown = {(r["scenario"], r["evidence"], r["prompt"]) for r in run.rates().records}
    assert shown == {
        (r["scenario"], r["recipe"].partition("(")[2].rstrip(")"), r["condition"]) for r in rows
    }
    assert len(shown) == 2 * (4 + 2)
    for line in run.rates().records:
        asked = [r for r in rows if r["scenario"] == line["scenario"]]
        assert line["n"] == sum(
            (line["evidence"], line["prompt"])
            == (r["recipe"].partition("(")[2].rstrip(")"), r["condition"])
            for r in asked
        )
    plain = demur.evaluate(release, rag, out=tmp_path / "plain").rates()
    assert [r["scenario"] for r in plain.records] == [
        "parametric",
        "oracle",
        "realistic",
        "adversarial",
    ]
    assert "evidence" not in plain.records[0]
