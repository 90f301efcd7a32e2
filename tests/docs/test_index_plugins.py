"""The page about index kinds and modes of other packages, executed as it stands, on the built-in sample."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "index-plugins.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page's files, with what an installation writes about them."""
    folder = tmp_path_factory.mktemp("package")
    for title, content in re.findall(
        r'^```\w+ title="(.+?)"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S
    ):
        (folder / title).write_text(content)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    about = folder / "demur_graph-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: demur-graph\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        )
    )
    return folder


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
@pytest.mark.integration
def test_the_page_runs_as_it_stands(package):
    """Built, opened, searched and mined by the verbs; the graph finds what exact search finds."""
    commands = re.findall(r"^\$ demur (.+)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert [words.split()[0] for words in commands] == ["index", "index", "mine"]
    shown = [run(package, "-m", "demur", *shlex.split(words)).stdout for words in commands]
    manifest = (package / "graph" / "manifest.json").read_text()
    assert '"links":32' in manifest.replace(" ", "")
    assert "graph.faiss" in manifest
    flat = ["index", "build", "atlas", "--out", "flat", "--parts", "passages"]
    run(package, "-m", "demur", *flat)
    exact = shlex.split(commands[1].replace("graph", "flat"))
    lines = [line.split()[1:] for line in shown[1].splitlines() if "." in line]
    expected = run(package, "-m", "demur", *exact).stdout.splitlines()
    assert lines == [line.split()[1:] for line in expected if "." in line]
    assert "mean->title" in (package / "mined-graph" / "mining.json").read_text()
    assert "mean->title/text->text" in (package / "mined-graph" / "samples.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.integration
def test_its_own_test_passes_and_can_fail(package):
    run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")
    broken = (package / "demur_weighted.py").read_text().replace('"titles"', '"passage"')
    (package / "demur_weighted.py").write_text(broken)
    with pytest.raises(AssertionError, match="passage"):
        run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")


def test_the_examples_are_short():
    blocks = re.findall(r'title="\w+\.py"\n(.*?)^```', PAGE.read_text(), re.M | re.S)
    assert all(len(block.splitlines()) <= 30 for block in blocks)
