"""demur without what only Linux has: everything can be imported, and ordinary verbs work."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from strategies import tiny_release

HIDDEN = textwrap.dedent("""
    import asyncio, os, signal, socket, subprocess, sys  # asyncio of Python 3.12 and later asks os.sysconf itself
    for module in ("fcntl", "pwd", "grp", "resource", "termios"):
        sys.modules[module] = None  # importing it raises ImportError
    for name in ("sched_getaffinity", "posix_fallocate", "posix_fadvise", "sysconf"):
        if hasattr(os, name):
            delattr(os, name)
""")


def run(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.heavy
def test_every_module_can_be_imported():
    code = """
        import importlib, pkgutil, demur
        for found in pkgutil.walk_packages(demur.__path__, "demur."):
            if found.name.rpartition(".")[2] != "__main__":
                importlib.import_module(found.name)
        print("imported")
    """
    assert run(code) == "imported\n"


@pytest.mark.slow
def test_a_release_is_asked_graded_and_reported(tmp_path):
    tiny_release(tmp_path / "release", 3)
    code = """
        import sys
        from demur.cli import main
        release, out = sys.argv[1:]
        words = ["run", release, "--system", "prior", "--judge", "local", "--out", out, "--scenarios", "oracle"]
        print(main(words), main(words), main(["release", "verify", release]))
    """
    assert run(code, tmp_path / "release", tmp_path / "runs").endswith("0 0 0\n")
