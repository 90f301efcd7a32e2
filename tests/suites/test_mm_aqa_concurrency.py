"""MM-AQA's build with several calls in flight: the same bytes, bounded; and what failed is made the next time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import demur
from demur.core.errors import DataError
from demur.core.records import Request
from demur.suites.mm_aqa.pool import sample_corpus
from tests.suites.mm_aqa_models import rewriter

MODELS = "tests.suites.mm_aqa_models"
FILES = ("items.jsonl", "decisions.jsonl", "words.jsonl", "manifest.json", "mm-aqa-rejections.json")
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
    monkeypatch.setattr("demur.suites.mm_aqa.pool.sample_corpus", lambda seed: flags)
    made = {}
    for concurrency in (1, 4):
        most[:] = [0, 0]
        out = tmp_path / str(concurrency)
        demur.suite("mm_aqa").build(out, ocr="no", rewriter=f"python:{__name__}:slow", concurrency=concurrency)
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
    monkeypatch.setattr("demur.suites.mm_aqa.pool.sample_corpus", lambda seed: pools[0])
    out = demur.suite("mm_aqa").build(tmp_path, ocr="no")
    assert json.loads((out / "manifest.json").read_text())["decisions"] == {"failed": 1, "accepted": 1}
    pools.pop(0)
    demur.suite("mm_aqa").build(out, ocr="no")
    assert json.loads((out / "manifest.json").read_text())["decisions"] == {"accepted": 2}
