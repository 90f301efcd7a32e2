"""Packages beside demur join it by entry points; demur names none of them, and works where none is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import demur

ALONE = """
import sys
from demur.core import plugins
every = plugins.entry_points
plugins.entry_points = lambda group: [p for p in every(group=group) if p.value.startswith("demur.")]
sys.modules["demur_suites"] = None  # importing it fails
from demur.cli import main
sys.exit(main(sys.argv[1:]))
"""
LABELS = "item,annotator,label\n1,ann,yes\n1,ben,yes\n2,ann,no\n2,ben,yes\n"
STRANGER = """
DOES = "greet somebody"
EXAMPLE = "greet ann"

def configure(parser):
    parser.add_argument("name")

def run(args):
    print("hello", args.name)
    return 3
"""


def command(*words, **env):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=os.environ | env
    )
    return done.returncode, done.stdout, done.stderr


def test_no_file_of_demur_names_its_neighbour():
    files = list(Path(demur.__file__).parent.rglob("*.py"))
    assert len(files) > 300
    assert [f for f in files if "demur_suites" in f.read_text(encoding="utf-8")] == []


@pytest.mark.heavy
def test_the_command_works_alone(tmp_path):
    (tmp_path / "labels.csv").write_text(LABELS)
    code, out, err = command("-c", ALONE, "--help")
    assert (code, err) == (0, "")
    assert "  agree " in out
    assert "  suite " not in out
    code, out, err = command("-c", ALONE, "suite", "list")
    assert code == 2
    assert "'suite'" in err
    assert "demur --help" in err
    code, out, err = command("-c", ALONE, "agree", str(tmp_path / "labels.csv"))
    assert (code, err) == (0, "")
    assert "krippendorff" in out


@pytest.mark.heavy
def test_a_package_beside_demur_adds_a_verb(tmp_path):
    about = tmp_path / "stranger-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    points = "[demur.verbs]\ngreet = stranger\n"
    (about / "entry_points.txt").write_text(points)
    (tmp_path / "stranger.py").write_text(STRANGER)
    beside = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    _, out, _ = command("-m", "demur", "--help", **beside)
    assert "  greet " in out
    assert "$ demur greet ann" in out
    assert command("-m", "demur", "greet", "ann", **beside)[:2] == (3, "hello ann\n")
    _, out, _ = command("-m", "demur", "greet", "--help", **beside)
    assert out.startswith("usage: demur greet")
