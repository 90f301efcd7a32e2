"""The ready GitHub Action: it parses, its inputs are those its steps use, and its shell steps end as the gate says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from strategies import tiny_release

ACTION = Path(__file__).resolve().parents[2] / "examples/github-action/action.yml"
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
SYSTEM = """
def reads(question, evidence):
    number = question.split(" in s")[1].rstrip("?")
    return f"answer {number}" if any(e["id"] == f"s{number}-g0" for e in evidence) else "I cannot answer this."


def down(question):
    raise OSError("no route")
"""


def action():
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


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
    tiny_release(folder / "release", 20)
    (folder / "mine.py").write_text(SYSTEM)
    (folder / "bin").mkdir()
    (folder / "bin/demur").write_text(f'#!/bin/sh\nexec {sys.executable} -m demur "$@"\n')
    (folder / "bin/demur").chmod(0o755)
    return folder


def steps(desk, out, **given):
    """The exit code of the first step that fails, 0 of none; what is on the job's summary."""
    told = action()
    inputs = {name: about.get("default", "") for name, about in told["inputs"].items()}
    inputs |= {"release": "release", "install": "", "out": out} | {
        k.replace("_", "-"): v for k, v in given.items()
    }
    summary = desk / f"{out}.md"
    for step in told["runs"]["steps"]:
        if step["name"] == "install":
            continue
        env = {
            name: INPUT.sub(lambda m: inputs[m[1]], value) for name, value in step["env"].items()
        }
        path = f"{desk / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=desk,
            text=True,
            timeout=300,
            env={
                **os.environ,
                **env,
                "PATH": path,
                "PYTHONPATH": str(desk),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            capture_output=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode:
            break
    return done.returncode, summary.read_text() if summary.exists() else done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    ("system", "limits", "more", "code", "said"),
    [
        ("reads", "--min-accuracy oracle=0.6", {}, 0, "passed"),
        ("reads", "--min-deflection oracle=0.6", {}, 1, "FAILED"),
        ("reads", "--min-deflection oracle=0.6", {"strict": "false"}, 0, "advisory"),
        (
            "reads",
            "--min-accuracy oracle=0.9",
            {"sample": "3", "cannot_tell": "fail"},
            4,
            "questions would decide",
        ),
        ("down", "--min-accuracy oracle=0.9", {}, 5, "SYSTEM DOWN"),
        ("reads", "--min-accuracy orcale=0.9", {}, 2, "scenarios:"),
    ],
)
def test_its_steps_end_as_the_gate_says(desk, system, limits, more, code, said):
    out = "runs-" + "-".join([system, *re.findall(r"\w+", limits), *more])
    ended, told = steps(
        desk, out, system=f"python:mine:{system}", scenarios="oracle", limits=limits, **more
    )
    assert ended == code
    assert said in told
