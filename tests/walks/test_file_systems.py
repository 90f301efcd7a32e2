"""Disks that are full, out of inodes or read-only, folders of others, odd names, other clocks and umasks, verb by verb.

Each ends in one line that names the place and the cure, loses nothing, and the same command ends afterwards in the
same bytes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import curation_world as world
import pytest
import yaml
from report_factory import make_demo
from small_pool import pool_folder

pytestmark = pytest.mark.integration
TESTS = Path(world.__file__).parent
QUICK = ("index", "report")
VERBS = (
    *(
        pytest.param(v, marks=[] if v in QUICK else pytest.mark.soak)
        for v in ("index", "report", "run", "build")
    ),
)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the verbs read: a recipe with its source, a release with runs, a knowledge base."""
    root = tmp_path_factory.mktemp("given")
    os.chmod(root.parent, 0o755)
    os.chmod(root, 0o755)
    make_demo(root)
    world.folder(root / "towns")
    plan = world.recipe(root / "towns", world.GATES).model_dump(mode="json")
    (root / "recipe.yaml").write_text(yaml.safe_dump(plan))
    (root / "kb").mkdir()
    pool_folder(root / "kb")
    return root


def command(verb: str, given: Path, place: Path) -> list[str]:
    words: dict[str, list[object]] = {
        "index": [
            "index",
            "build",
            given / "kb",
            "--encoder",
            "stub_encoder:stub",
            "--out",
            place / "out",
        ],
        "report": [
            "report",
            given / "runs",
            "--release",
            given / "release",
            "-o",
            place / "out.html",
        ],
        "run": [
            "run",
            given / "release",
            "--system",
            "prior",
            "--limit",
            "6",
            "--out",
            place / "out",
        ],
        "build": ["build", given / "recipe.yaml", "--out", place / "out"],
    }
    return [sys.executable, "-m", "demur", *map(str, words[verb])]


def env(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1", **more}


def files(place: Path) -> dict[str, bytes]:
    """What a verb leaves for others; not its notes of how long things took."""
    notes = ("responses.jsonl", "journal.jsonl", "calls.sqlite", "decisions.jsonl")
    return {
        p.relative_to(place).as_posix(): p.read_bytes()
        for p in sorted(place.rglob("*"))
        if p.is_file() and p.name not in notes and "build" not in p.relative_to(place).parts
    }


IN_A_DISK_OF_ITS_OWN = """
mount -t tmpfs -o size=400m tmpfs "$PLACE" || exit 91
"$@" > /dev/null || exit 92
cp -r "$PLACE" "$KEPT/whole"
umount "$PLACE"
mount -t tmpfs -o "$LIMIT" tmpfs "$PLACE" || exit 93
"$@" > /dev/null 2> "$KEPT/said" && exit 94
mount -o remount,rw,size=400m,nr_inodes=0 "$PLACE" || mount -o remount,rw,size=400m,nr_inodes=100000 "$PLACE" || exit 95
"$@" > /dev/null || exit 96
cp -r "$PLACE" "$KEPT/after"
"""

LIMITS = {
    "full": ("size=24k,nr_inodes=1000", "No space left on device", "free some disk space"),
    "out of inodes": ("size=100m,nr_inodes=1", "No space left on device", "free some disk space"),
    "read-only": ("ro,size=100m", "Read-only file system", "choose a folder you can write to"),
}


def no_disk() -> str:
    """Why no disk of one's own can be had here; "" when it can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True
    )
    return (
        ""
        if tried.returncode == 0
        else f"the kernel allows no file system of one's own: {tried.stderr.strip()}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_disk_that_takes_nothing_more(verb: str, limit: str, given: Path, tmp_path: Path) -> None:
    if why := no_disk():
        pytest.skip(why)
    options, reason, cure = LIMITS[limit]
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", IN_A_DISK_OF_ITS_OWN, "sh", *command(verb, given, place)],
        env=env(PLACE=str(place), KEPT=str(tmp_path), LIMIT=options),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said, said[-3000:]
    last = said.splitlines()[-1]
    assert last.startswith(f"demur: {place}"), said
    assert reason in last
    assert cure in last
    assert files(tmp_path / "after") == files(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_of_another_user(verb: str, given: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    place = tmp_path / "place"
    place.mkdir(mode=0o755)
    os.chown(place, 65534, 65534)

    def mortal() -> None:
        """No longer the one whom permissions do not bind."""
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (CAP_DAC_OVERRIDE, CAP_FOWNER):
            if prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                os._exit(99)

    done = subprocess.run(
        command(verb, given, place),
        env=env(),
        preexec_fn=mortal,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode == 99:
        pytest.skip("the kernel lets no capability go")
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert "Permission denied" in done.stderr.splitlines()[-1]
    assert str(place) in done.stderr.splitlines()[-1]


A_YEAR_AGO = """
import time
now = time.time
time.time = lambda: now() - 366 * 86400
time.time_ns = lambda: int(time.time() * 1e9)
"""
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_FOWNER = 24, 1, 3
ODD = ("with blanks", "new\nline", "ünï-中文-🏳", "-n", "a'b\"c", "%s{}$HOME", "=cmd", "x" * 200)


def done(verb: str, given: Path, place: Path, umask: int, **more: str) -> dict[str, bytes]:
    """What a verb leaves in a folder."""
    place.mkdir(parents=True, exist_ok=True)
    ended = subprocess.run(
        command(verb, given, place),
        env=env(**more),
        umask=umask,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=place.parent,
    )
    assert ended.returncode == 0, ended.stderr
    return files(place)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_odd_names_clocks_and_umasks_change_no_byte(verb: str, given: Path, tmp_path: Path) -> None:
    plain = done(verb, given, tmp_path / "plain", 0o022)
    odd = ODD if verb in QUICK else ODD[:3]
    names = tmp_path.joinpath(*odd[:-1], odd[-1])
    assert done(verb, given, names, 0o077, TZ="Pacific/Kiritimati", LC_ALL="C") == plain
    modes = {p.stat().st_mode & 0o077 for p in names.rglob("*") if p.is_file()}
    assert modes == {0}, "what a umask forbids is not given"


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["index", "report", "run", "build"])
def test_a_clock_that_goes_back_a_year_and_no_umask_change_no_byte(
    verb: str, given: Path, tmp_path: Path
) -> None:
    plain = done(verb, given, tmp_path / "out", 0o000)
    (tmp_path / "sitecustomize.py").write_text(A_YEAR_AGO)
    past = os.pathsep.join([str(tmp_path), str(TESTS)])
    # the same command finds what it made "in the future"
    assert done(verb, given, tmp_path / "out", 0o022, PYTHONPATH=past) == plain
    assert done(verb, given, tmp_path / "then", 0o022, PYTHONPATH=past) == plain
