"""The shell steps of the ready GitHub Action, run as a job runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ACTION = Path(__file__).resolve().parents[2] / "examples/github-action/action.yml"
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")


def action() -> dict[str, Any]:
    """The action as a runner reads it."""
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return loaded


def run_steps(desk: Path, out: str, **inputs: str) -> tuple[int, str, str]:
    """Run every step but the installation, in a folder of the user's.

    Args:
        desk: the folder: what the inputs name is in it.
        out: folder of the run.
        inputs: of the action, in place of its defaults; dashes are underscores.

    Returns:
        The exit code of the first step that fails, 0 of none; the name of the last step run; what was printed, and what
        is on the job's summary.
    """
    told = action()
    values = {name: about.get("default", "") for name, about in told["inputs"].items()}
    values |= {"install": "", "out": out} | {k.replace("_", "-"): v for k, v in inputs.items()}
    tools = desk / "bin"
    tools.mkdir(exist_ok=True)
    command = tools / "demur"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m demur "$@"\n')
    command.chmod(0o755)
    summary, printed = desk / f"{out}.md", ""
    for step in told["runs"]["steps"]:
        if step["name"] == "install":
            continue
        env = {name: INPUT.sub(lambda m: values[m[1]], text) for name, text in step["env"].items()}
        env |= {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        env |= {"PYTHONPATH": os.pathsep.join([str(desk), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=desk,
            text=True,
            timeout=300,
            env={**os.environ, **env, "GITHUB_STEP_SUMMARY": str(summary)},
            capture_output=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        printed += done.stdout + done.stderr
        if done.returncode:
            break
    return (
        done.returncode,
        step["name"],
        printed + (summary.read_text() if summary.exists() else ""),
    )
