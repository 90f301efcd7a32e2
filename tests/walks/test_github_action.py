"""The ready GitHub Action: it parses, its inputs are those its steps use, and its shell steps end as the gate says."""

from __future__ import annotations

import re

import pytest
from action_steps import INPUT, action, run_steps
from strategies import tiny_release

SYSTEM = """
def reads(question, evidence):
    number = question.split(" in s")[1].rstrip("?")
    return f"answer {number}" if any(e["id"] == f"s{number}-g0" for e in evidence) else "I cannot answer this."


def makes_up(question, evidence):
    return "It is Zanzibar."


def down(question, evidence):
    raise OSError("no route")
"""


def test_every_input_is_used_and_nothing_is_put_into_a_script():
    """What a pull request could name comes by the environment: a script with ``${{ }}`` in it could be injected into."""
    told = action()
    used = set()
    for step in told["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        used |= {name for value in step["env"].values() for name in INPUT.findall(value)}
    assert used == set(told["inputs"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("action")
    tiny_release(folder / "release", 40)
    (folder / "mine.py").write_text(SYSTEM)
    return folder


SLOW = pytest.mark.slow


@pytest.mark.integration
@pytest.mark.parametrize(
    ("system", "limits", "more", "code", "last"),
    [
        ("reads", "--min-declined adversarial=0.6 --min-accuracy oracle=0.6", {}, 0, "gate"),
        ("makes_up", "--min-declined adversarial=50%", {}, 1, "gate"),
        pytest.param("makes_up", "--max-hallucination adversarial=30%", {}, 1, "gate", marks=SLOW),
        pytest.param(
            "reads", "--min-declined adversarial=0.9", {"sample": "3"}, 4, "gate", marks=SLOW
        ),
        pytest.param(
            "reads",
            "--min-declined adversarial=0.9",
            {"sample": "3", "allow_undecided": "true"},
            0,
            "gate",
            marks=SLOW,
        ),
        pytest.param("down", "--min-accuracy oracle=0.9", {}, 5, "gate", marks=SLOW),
        ("reads", "--min-accuracy orcale=0.9", {}, 2, "plan"),
        ("reads", "--min-accuracy full=0.9", {}, 2, "plan"),
    ],
)
def test_its_steps_end_as_the_gate_says(desk, system, limits, more, code, last):
    out = "runs-" + "-".join([system, *re.findall(r"\w+", limits), *more])
    ended, step, told = run_steps(
        desk,
        out,
        release="release",
        system=f"python:mine:{system}",
        scenarios="oracle adversarial",
        limits=limits,
        **more,
    )
    assert (ended, step) == (code, last), told
    if "sample" in more:  # said before anything is asked
        assert re.search(r"3 questions cannot decide it, \d+ can", " ".join(told.split()))
