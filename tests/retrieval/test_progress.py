"""What a long job says of itself: how much is done of how much, at which rate, and how long it will take."""

import re

from small_pool import pool_folder

from demur.cli import main
from demur.core import progress
from demur.core.progress import Count


def test_a_count_says_of_how_many_at_which_rate_and_how_long(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    count = Count("images", 200)
    count.skip(50)  # an earlier run did them: not for the rate
    clock[0] += 2
    count.advance(10, failed=1)
    assert count.text() == "60/200, 5.0/s, 28 s left, 1 failed"
    clock[0] += 200
    assert "47 min 8 s left" in count.text()


def test_an_index_build_says_of_how_many(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    pool_folder(tmp_path, text_question=True)
    assert main(["index", "build", ".", "--out", "index", "--encoder", "stub_encoder:stub"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if re.search(r": [\d,]+", line)]
    known = [
        line for line in lines if not line.startswith("reading documents")
    ]  # a stream: its end is not known
    assert len(lines) > len(known) >= 3
    assert all(re.search(r": ([\d,]+)/([\d,]+)", line) for line in known), lines
