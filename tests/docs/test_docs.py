"""Docs that are run: every ``console`` block of the README and docs/ works, and pages stay short."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import demur
from demur.cli import VERBS

ROOT = Path(__file__).resolve().parents[2]
# Commands that start a server in the background, need GPUs or another package, are run by a test of their own.
OWN_TESTS = {
    "calls.md": "tests/models/test_docs.py",
    "index-plugins.md": "tests/docs/test_index_plugins.py",
    "on-gpus.md": "tests/walks/test_on_gpus.py",
}
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "suites/docs").rglob("*.md")),
]
# ```console blocks are run, line by line; what needs a key, a cluster or a server of the reader's own stands in ```text.
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="session")
def reference_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages that `make docs` writes."""
    out = tmp_path_factory.mktemp("reference")
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.heavy
def test_reference_pages_have_every_verb_and_every_public_name(reference_pages: Path):
    verbs = (reference_pages / "cli.md").read_text(encoding="utf-8")
    names = (reference_pages / "api.md").read_text(encoding="utf-8")
    assert {verb.name for verb in VERBS} <= set(re.findall(r"^## demur (\S+)$", verbs, re.M))
    assert set(demur.__all__) - {"__version__"} == set(re.findall(r"^### (\w+)$", names, re.M))


def test_the_library_page_names_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(demur.__all__) - {"__version__"}:
        assert re.search(rf"`{name}\b", page), name


def words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def test_pages_are_of_a_size_that_people_read():
    """One task a page; the reference is `--help` and docstrings."""
    limits = {ROOT / "README.md": 900, ROOT / "CHANGELOG.md": 600}
    too_long = {page: n for page in PAGES if (n := words(page)) > limits.get(page, 1200)}
    assert not too_long
    assert words(ROOT / "CHANGELOG.md") <= limits[ROOT / "CHANGELOG.md"]
    assert sum(map(words, (ROOT / "docs" / "design").glob("*.md"))) <= 2900


def test_pages_that_are_left_out_have_a_test_of_their_own():
    for page, test in OWN_TESTS.items():
        assert page in (ROOT / test).read_text(encoding="utf-8")


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_that_the_code_names_are_there():
    """Docstrings, helps and cures send readers to pages; a page that moved once left them in the void."""
    for folder in ("demur", "suites/demur_suites", "examples", "tools"):
        for file in (p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".yaml")):
            text = file.read_text(encoding="utf-8")
            for page in re.findall(r"\b(?:suites/)?docs/[\w/-]+\.md", text):
                assert (ROOT / page).is_file(), f"{file.name} names {page}"


def test_nothing_names_this_machine_or_a_registry_host():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    hosts = [
        "pypi" + ".org",
        "npmjs" + ".org",
        "npmjs" + ".com",
        "debian" + ".org",
        "python" + "hosted",
    ]
    for name in filter(None, tracked):
        path = ROOT / name
        if (
            path.suffix in (".png", ".jpg", ".parquet", ".woff2")
            or not path.is_file()
            or "sample/atlas" in name
        ):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        for word in (*hosts, "/wor" + "k/", "../" + "shared"):
            assert word not in text, f"{name} names {word}"


def commands(page: Path) -> list[str]:
    found = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        joined = re.sub(r"\\\n\s*", " ", block)
        found += [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    return found


@pytest.fixture(scope="session")
def workshop(small_demo: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished demo in it, where the pages' commands are run one after another."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(small_demo[0], folder / "demo-out", symlinks=True)
    for name in ("examples", "benchmarks", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.integration
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            p,
            marks=[] if p.name == "README.md" else pytest.mark.slow,
            id=p.relative_to(ROOT).as_posix(),
        )
        for p in PAGES
        if commands(p) and p.name not in OWN_TESTS and "suites" not in p.parts
    ],
)
def test_every_command_of_a_page_works(page: Path, workshop: Path):
    run_commands(page, workshop)


def run_commands(page: Path, workshop: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": ".",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for line in commands(page):
        if shlex.split(line)[0] in ("make", "git"):  # run by CI itself
            continue
        done = subprocess.run(
            ["bash", "-c", line], cwd=workshop, env=env, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"


OTHERS = {"--epochs", "--no-deps", "--force-reinstall", "--index-url", "--head", "--mmproj"}
OTHERS |= {"--reasoning-parser", "--reasoning-format"}
"""Flags of pip, inspect, Ray, vLLM and llama.cpp."""


FLAG = r"(?<![\w-])--[a-z][a-z_0-9-]+"


def flags_of_cures(package: Path) -> set[tuple[str, str]]:
    """(file, flag) of every flag that the cure of an error names."""
    named = set()
    for path in sorted(package.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for given in call.keywords if isinstance(call, ast.Call) else ():
                if given.arg == "cure":
                    texts = [n.value for n in ast.walk(given.value) if isinstance(n, ast.Constant)]
                    named |= {(path.name, f) for f in re.findall(FLAG, " ".join(map(str, texts)))}
    return named


@pytest.mark.heavy
def test_no_cure_names_a_flag_that_is_none(reference_pages: Path):
    """Errors once told people to give flags that no verb has."""
    known = set(re.findall(FLAG, (reference_pages / "cli.md").read_text())) | OTHERS
    named = flags_of_cures(ROOT / "demur")
    assert len(named) > 50
    assert {(name, flag) for name, flag in named if flag not in known} == set()
