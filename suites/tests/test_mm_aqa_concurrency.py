"""MM-AQA's build with several calls in flight: the same bytes, bounded; and what failed is made the next time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from errors import raises

import demur_suites
from demur.cli import main
from demur.core.errors import DataError
from demur.core.records import Request
from demur_suites.mm_aqa.build.pool import sample_corpus
from demur_suites.mm_aqa.build.transforms import TRANSFORMS, transform
from suites.tests.mm_aqa_models import rewriter

MODELS = "suites.tests.mm_aqa_models"
FILES = ("items.jsonl", "decisions.jsonl", "manifest.json", "mm-aqa-rejections.json")
most = [0, 0]  # calls now, at most


async def slow(request: Request) -> str:
    """As `rewriter`, and counts who is asked at once."""
    most[0] += 1
    most[1] = max(most)
    await asyncio.sleep(0.01)
    most[0] -= 1
    return rewriter(request)


slow.concurrency = 64


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}


@pytest.mark.integration
@pytest.mark.slow
def test_a_set_is_the_same_however_many_calls_are_in_flight(tmp_path, monkeypatch):
    flags = [a for a in sample_corpus(0) if a.topic == "flags"][:20]
    monkeypatch.setattr("demur_suites.mm_aqa.build.pool.sample_corpus", lambda seed: flags)
    made = {}
    for concurrency in (1, 4):
        most[:] = [0, 0]
        out = tmp_path / str(concurrency)
        demur_suites.suite("mm_aqa").build(
            out, ocr="no", rewriter=f"python:{__name__}:slow", concurrency=concurrency
        )
        made[concurrency] = (bytes_of(out), most[1])
    assert made[1][0] == made[4][0]
    assert made[1][1] == 1
    assert 1 < made[4][1] <= 4
    assert len(made[1][0]["items.jsonl"].splitlines()) == 40


def test_a_pair_that_failed_is_made_when_the_build_is_run_again(tmp_path, monkeypatch):
    flags = [a for a in sample_corpus(0) if a.topic == "flags"][:2]

    def broken() -> None:
        raise DataError("the disk was away")

    pools = [[flags[0]._replace(pictures=broken), flags[1]], flags]
    monkeypatch.setattr("demur_suites.mm_aqa.build.pool.sample_corpus", lambda seed: pools[0])
    out = demur_suites.suite("mm_aqa").build(tmp_path, ocr="no")
    assert json.loads((out / "manifest.json").read_text())["decisions"] == {
        "failed": 1,
        "unchecked": 1,
    }
    pools.pop(0)
    demur_suites.suite("mm_aqa").build(out, ocr="no")
    assert json.loads((out / "manifest.json").read_text())["decisions"] == {"unchecked": 2}


def test_a_fault_costs_its_own_pair_and_one_that_meets_every_pair_ends_the_build(
    tmp_path, monkeypatch, capsys
):
    flags = [a for a in sample_corpus(0) if a.topic == "flags"][:40]
    unreadable, unmade = flags[3].id, flags[5].id

    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    flags[3] = flags[3]._replace(pictures=broken)
    own, met = transform("multi-mask"), []

    def apply(given):
        met.append(given.question)
        if len(met) == 1:
            raise AttributeError("a box without corners")
        return own.apply(given)

    monkeypatch.setitem(TRANSFORMS, "multi-mask", own._replace(apply=apply))
    monkeypatch.setattr("demur_suites.mm_aqa.build.pool.sample_corpus", lambda seed: flags)
    argv = [
        "suite",
        "build",
        "mm_aqa",
        "--out",
        str(tmp_path / "s"),
        "--ocr",
        "no",
        "--concurrency",
        "1",
    ]
    assert main(argv) == 0
    told = capsys.readouterr().err
    rows = [
        json.loads(line) for line in (tmp_path / "s" / "decisions.jsonl").read_text().splitlines()
    ]
    failed = {row["pair"]: row["told"] for row in rows if row["status"] == "failed"}
    assert len(rows) == 40
    assert len(failed) == 2
    assert failed.pop(unreadable) == ["ZeroDivisionError: division by zero"]
    assert [*failed.values()] == [["multi-mask: AttributeError: a box without corners"]]
    assert "failed: 2" in told
    assert "left out: 1: multi-mask: AttributeError" in told
    assert len((tmp_path / "s" / "items.jsonl").read_text().splitlines()) == 76
    assert unmade in (tmp_path / "s" / "items.jsonl").read_text()
    assert main(argv) == 0
    assert "failed: 1" in capsys.readouterr().err, "what failed is made when the build is run again"

    met.clear()
    flags[:] = [a._replace(pictures=lambda: met.append(1) or broken()) for a in flags]
    with raises(DataError, "16", "ZeroDivisionError") as ended:
        demur_suites.suite("mm_aqa").build(tmp_path / "all", ocr="no")
    assert isinstance(ended.value.__cause__, ZeroDivisionError)
    assert len(met) == 16, "it ends with the first wave, before more is paid"
