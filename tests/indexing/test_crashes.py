"""A build that was killed goes on: a real process, a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demur.core.records import Document
from demur.core.store import write_records

TESTS = Path(__file__).parents[1]


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """Where `deadly_stub` notes the deaths; `.deadly` beside it says of what it dies."""
    place = tmp_path / "noted"
    place.write_text("")
    monkeypatch.setenv("OPENED_BY", str(place))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS.parent), str(TESTS)]))
    deadly(place)
    return place


def deadly(noted, *keys):
    noted.with_name("noted.deadly").write_text("\n".join(keys))


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def build(folder, out, encoder):
    """Exit code and standard error."""
    words = [
        "index",
        "build",
        "kb.jsonl",
        "--out",
        out,
        "--encoder",
        f"stub_encoder:{encoder}",
        "--skip-bad",
    ]
    command = [sys.executable, "-m", "demur", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.integration
@pytest.mark.parametrize("encoder", ["deadly_stub", "late_stub"])
def test_a_build_that_was_killed_leaves_the_same_folder_when_it_is_run_again(
    encoder, noted, tmp_path
):
    write_records(
        tmp_path / "kb.jsonl",
        [Document(id=f"t{n}", title="", text=f"text {n}") for n in range(400)],
    )
    deadly(noted, "text 200")  # kill -9, in the middle of its only shard
    assert build(tmp_path, "index", encoder)[0] == -signal.SIGKILL
    assert (tmp_path / ".index.building").exists()
    deadly(noted)
    assert build(tmp_path, "index", encoder)[0] == 0
    assert build(tmp_path, "whole", encoder)[0] == 0
    assert files(tmp_path / "index") == files(tmp_path / "whole")
