"""The gate as a fixture, in a pytest of its own: red where the gate fails or cannot decide."""

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


def makes_up(question):
    return "It is Zanzibar."


def test_fails(demur_gate):
    demur_gate("release", makes_up, scenarios=["adversarial"], min_declined={"adversarial": 0.5})


def test_undecided(demur_gate):
    demur_gate("release", reads, scenarios=["oracle"], limit=2, min_accuracy={"oracle": 0.7})


def test_undecided_is_allowed(demur_gate):
    found = demur_gate(
        "release", reads, scenarios=["oracle"], limit=2, min_accuracy={"oracle": 0.7}, allow_undecided=True
    )
    assert found.state == "undecided"


def test_down(demur_gate):
    demur_gate("release", breaks, scenarios=["oracle"], min_accuracy={"oracle": 0.5})


def test_refuses_a_limit_on_what_is_not_asked(demur_gate):
    from demur.core.errors import UsageError

    asked = []
    with pytest.raises(UsageError):
        demur_gate("release", asked.append, scenarios=["oracle"], min_declined={"adversarial": 0.5})
    assert not asked
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
    assert "3 failed, 3 passed" in told, told + done.stderr
    for name in ("test_fails", "test_undecided", "test_down"):
        assert f"FAILED test_mine.py::{name} " in told
    assert "gate: SYSTEM DOWN" in told
    assert "2 questions" in " ".join(told.split())  # before they are asked
    assert "questions would decide" in " ".join(told.split())
