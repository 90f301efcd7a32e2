"""A disk that is really full, in a build: told with its place and cure, and the same command ends the work afterwards."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import curation_world as world
import pytest
import yaml

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    root = tmp_path_factory.mktemp("disk")
    path = root / "recipe.yaml"
    recipe = world.recipe(world.folder(root / "towns"), world.GATES)
    path.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    done = build(path, root / "whole")
    assert done.returncode == 0, done.stderr
    return path, root / "whole"


def environment():
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(world.__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
    }


def command(path, out):
    return [sys.executable, "-m", "demur", "build", str(path), "--out", str(out)]


def build(path, out, most=None):
    """Run a build, where asked for with no file larger than ``most`` bytes."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        command(path, out),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=None if most is None else limit,
    )


def told(stderr, out, reason, cure):
    """The last line names a place in the build's folder, the reason, and the cure; nothing else broke."""
    assert "Traceback" not in stderr, stderr
    line = stderr.splitlines()[-1]
    assert line.startswith((f"demur: {out}/", f"demur: {tempfile.gettempdir()}: ")), line
    assert reason in line
    assert cure in line


@pytest.mark.parametrize(
    "most", [4_000, *(pytest.param(n, marks=pytest.mark.slow) for n in (1_000, 12_000, 20_000))]
)
def test_files_that_may_not_grow(plan, tmp_path, most):
    path, whole = plan
    stopped = build(path, tmp_path / "out", most)
    assert stopped.returncode == 1
    told(stopped.stderr, tmp_path / "out", "File too large", "ulimit -f")
    assert not (tmp_path / "out" / "release" / "manifest.json").exists()
    done = build(path, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert world.bytes_of(tmp_path / "out" / "release") == world.bytes_of(whole / "release")


IN_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=16m tmpfs "$PLACE"
head -c $((16 * 1024 * 1024 - $FREE * 1024)) /dev/zero > "$PLACE/ballast"
"$@" > /dev/null 2> "$SAID" && exit 90
rm "$PLACE/ballast"
test ! -e "$PLACE/out/release/manifest.json"
"$@"
cp -r "$PLACE/out/release" "$KEPT"
find "$PLACE/out" -name '*.tmp' -o -name '*.part' > "$LEFT"
"""


def small_disk():
    """Why no small disk can be had here; "" when it can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True, text=True
    )
    return (
        ""
        if tried.returncode == 0
        else f"the kernel allows no file system of one's own: {tried.stderr.strip()}"
    )


@pytest.mark.parametrize(
    "free", [150, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 264, 312))]
)
def test_a_disk_with_so_many_kilobytes_free(plan, tmp_path, free):
    if why := small_disk():
        pytest.skip(why)
    path, whole = plan
    names = {"PLACE": "place", "SAID": "said", "KEPT": "kept", "LEFT": "left"}
    env = environment() | {k: str(tmp_path / v) for k, v in names.items()} | {"FREE": str(free)}
    (tmp_path / "place").mkdir()
    words = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        IN_A_SMALL_DISK,
        "sh",
        *command(path, tmp_path / "place" / "out"),
    ]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr)
    told(
        (tmp_path / "said").read_text(),
        tmp_path / "place" / "out",
        "No space left on device",
        "free some disk space",
    )
    assert world.bytes_of(tmp_path / "kept") == world.bytes_of(whole / "release")
    assert (tmp_path / "left").read_text() == ""
