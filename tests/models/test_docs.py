"""The commands and the program of docs/calls.md, run as they stand there, and the prices of docs/costs.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "calls.md").read_text(encoding="utf-8")


def blocks(language, page=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow
@pytest.mark.integration
def test_the_page_does_what_it_says(tmp_path):
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    port = free_port()  # the page's own may be somebody's
    page = PAGE.replace("8099", str(port))
    lines = "".join(blocks("console", page)).splitlines()
    steps: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    server = None
    try:
        for command, shown in steps:
            words = shlex.split(command.removesuffix("&"))
            words[0] = sys.executable if words[0] == "python" else words[0]
            if command.endswith("&"):
                server = subprocess.Popen(
                    words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
                )
                assert server.stdout is not None
                server.stdout.readline()
                continue
            done = subprocess.run(
                words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (command, done.stderr)
            assert done.stderr == "", command
            assert done.stdout.strip()
            if shown:
                assert done.stdout.splitlines() == shown, command
        done = subprocess.run(
            [sys.executable, "-c", blocks("python", page)[0]],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "100 replies, 0 from the ledger" in done.stdout
        assert done.stdout.splitlines()[-1] == "True"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as reply:
            stats = json.load(reply)
        assert stats["paid_twice"] == 0
        assert stats["faults"] == {"429": 2, "reset": 1}
    finally:
        if server is not None:
            server.terminate()
            server.wait()
            assert server.stdout is not None
            server.stdout.close()


def test_the_price_table_of_the_page_is_one(tmp_path):
    from demur.models import Prices

    path = tmp_path / "p.json"
    page = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    path.write_text(blocks("json", page)[0])
    assert Prices(path).find("Qwen/Qwen2.5-VL-7B-Instruct").prompt == 0


def test_the_page_names_every_form_of_a_model_string():
    from demur.models.names import _FORMS

    for form in _FORMS.split(", "):
        assert f"`{form.split('/')[0].split(':')[0]}" in PAGE
