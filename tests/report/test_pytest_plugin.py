"""The gate as a fixture, in a pytest of its own: it fails, skips, passes and warns."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from strategies import tiny_release

TESTS = """
import pytest

pytest_plugins = ["demur.pytest_plugin"]


def reads(question, evidence):
    number = question.split(" in s")[1].rstrip("?")
    return f"answer {number}" if any(e["id"] == f"s{number}-g0" for e in evidence) else "I cannot answer this."


def breaks(question):
    raise ValueError("down")


def test_passes(demur_gate):
    found = demur_gate("release", reads, scenarios=["oracle"], min_accuracy={"oracle": 0.5})
    assert found.state == "pass"


def test_fails(demur_gate):
    demur_gate("release", reads, scenarios=["oracle"], max_deflection={"oracle": 1.0}, min_deflection={"oracle": 0.9})


def test_cannot_tell(demur_gate):
    demur_gate("release", reads, scenarios=["oracle"], limit=2, min_accuracy={"oracle": 0.9})


def test_down(demur_gate):
    demur_gate("release", breaks, scenarios=["oracle"], min_accuracy={"oracle": 0.5})


def test_advises(demur_gate):
    from demur.pytest_plugin import GateAdvice

    with pytest.warns(GateAdvice, match="advisory"):
        demur_gate("release", reads, scenarios=["oracle"], min_deflection={"oracle": 0.9}, strict=False)
"""


@pytest.mark.heavy
def test_a_test_of_yours_is_decided_by_the_gate(tmp_path):
    tiny_release(tmp_path / "release", 20)
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfs", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=500,
    )
    told = done.stdout
    assert "2 failed, 2 passed, 1 skipped" in told, told + done.stderr
    assert "FAILED test_mine.py::test_fails" in told
    assert "FAILED test_mine.py::test_down" in told
    assert "gate: SYSTEM DOWN" in told
    assert "questions would decide" in told
