"""Whole folders from a stranger: a source with its map, a pool, a release, a build, a run, an index, prompts.

Each is made once, right; then files of it are damaged, or taken away, and what reads it ends in a result or in a
`DemurError`. Where a manifest holds hashes they are made to fit again, every other time: who forges a file forges these
too, and the readers behind the hashes are the ones to be tried.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import curation_world as world
import growth
import pytest
import small_pool
from damage import damage
from report_factory import make_demo
from stub_encoder import StubEncoder

from demur import sources
from demur.api import evaluate
from demur.core.errors import DemurError
from demur.core.store import Problems, file_digest
from demur.curation.build.curate import curate
from demur.curation.build.explain import explain
from demur.curation.build.folder import recipe_of_folder
from demur.curation.from_docs.make import from_docs
from demur.evaluation.rejudge import judge_beside, read_rows
from demur.indexing.build import build_index
from demur.indexing.options import IndexOptions
from demur.judge.annotation.exchange import export_labels, import_labels
from demur.judge.annotation.task import Session, put_labels, read_task
from demur.judge.base import open_judge
from demur.pools.read import PoolSource
from demur.release import Release, verify
from demur.release.corpora import Corpora
from demur.release.export_corpora import export_corpora
from demur.reports.agree import agreement_of
from demur.reports.annotate import open_task, take
from demur.reports.data import load
from demur.reports.gate import gate_of_runs, limits
from demur.reports.html import page
from demur.reports.rag import questions_of
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher
from demur.scenarios.conditions import Prompts
from demur.sources import open_source
from demur.sources.cards import card_of, read_pins

TEXTS = (".json", ".jsonl", ".yaml", ".md", ".csv", ".cff")
MEMORY = 3 << 30
"""Bytes that a process may come to hold beside its code, mapped files included."""


# --- what is right, made once -----------------------------------------------------------------------


def _source(folder: Path) -> None:
    world.folder(folder, 4)
    (folder / "pins.yaml").write_text(
        "- {file: questions.jsonl, rows: 4}\n- {file: '*.png', size_bytes: 900}\n"
    )


def _pool(folder: Path) -> None:
    folder.mkdir()
    small_pool.pool_folder(folder)
    (folder / "mining.json").write_text('{"from": {"source": "", "folder": null, "options": {}}}')


def _build(folder: Path) -> None:
    curate(world.recipe(world.folder(folder / "towns", 6), world.GATES), folder / "out")
    shutil.rmtree(folder / "out/index")


def _runs(folder: Path) -> None:
    make_demo(folder)
    for run in sorted((folder / "runs").iterdir())[1:]:
        shutil.rmtree(run)


def _index(folder: Path, kind: Any = "flat") -> None:
    root = folder.with_name(f"{folder.name}-files")
    root.mkdir()
    build_index(
        small_pool.corpus(root), StubEncoder(), folder, IndexOptions(image_root=root, kind=kind)
    )


def _prompts(folder: Path) -> None:
    for name in ("ask.v1.md", "clause-severe.v1.md", "system.v1.md"):
        folder.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).parents[2] / "demur/scenarios/prompts" / name, folder)


def _labelled(folder: Path) -> None:
    _runs(folder)
    open_task(folder / "task", [next((folder / "runs").iterdir())], n=8)
    for name in ("ann", "bob"):
        put_labels(
            folder / "task",
            name,
            {item.id: ("correct", "seen") for item in read_task(folder / "task")[1]},
        )
    for form, file in (("csv", "t.csv"), ("label-studio", "t.json"), ("inspect", "t.jsonl")):
        export_labels(folder / "task", form, folder / file)  # type: ignore[arg-type]


def _read_labelled(folder: Path) -> None:
    steps: list[Callable[[], object]] = [
        lambda: Session(folder / "task", "ann").close(),
        *(
            partial(import_labels, folder / "task", folder / file, "eve")
            for file in ("t.csv", "t.json", "t.jsonl")
        ),
        lambda: agreement_of([folder / "task", folder / "t.csv"]),
        lambda: take(folder / "task"),
    ]
    for step in steps:
        with suppress(DemurError):
            step()


def _answered(folder: Path) -> None:
    _runs(folder)
    shutil.rmtree(folder / "runs")
    evaluate(
        folder / "release",
        lambda question: "It is Algeria.",
        out=folder / "runs",
        limit=4,
        name="mine",
    )


def _regrade(folder: Path) -> None:
    run = folder / "runs/mine"
    judge_beside(run, Release.open(folder / "release"), open_judge("local"), "again")
    data = load([run], folder / "release", verdicts="again")
    shutil.rmtree(run / "verdicts")
    questions_of(data.runs[0], data.samples)
    gate_of_runs(data.runs[0], limits(["oracle=0.9"], "min", "accuracy"))


def _corpora(folder: Path) -> None:
    _runs(folder)
    export_corpora(folder / "release", folder / "corpora")


def _read_corpora(folder: Path) -> None:
    release = Release.open(folder / "release")
    notes = Corpora.open(folder / "corpora", release.sha256)
    for sample in release.column("samples", "id"):
        notes.excluded.get(sample), notes.stated.get(sample)


def _docs(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "docs").mkdir()
    for n, town in enumerate(("Oslo", "Bergen", "Troms")):
        (folder / f"docs/{town}.md").write_text(
            f"# {town}\n\nThe mayor of {town} is Person{n}. It rains {n} days.\n"
        )
    (folder / "docs/page.html").write_text(
        "<!DOCTYPE html><meta charset='utf-8'><title>Troms</title><!-- a --><nav><a href='x'>y</a></nav><p>It &lt; rains."
        "<script>if (a<b) c</script><svg/><form><p>z</form>"
    )
    (folder / "docs/rows.csv").write_text("id,title,text\nr1,Rain,It rains.\n")
    rows = [
        {"question": f"Who is the mayor of {t}?", "answer": f"Person{n}"}
        for n, t in enumerate(("Oslo", "Bergen"))
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _read_docs(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    with suppress(DemurError):
        from_docs(folder / "docs", folder / "questions.jsonl", folder / "out", accept_found=True)
    shutil.rmtree(folder / "out", ignore_errors=True)


def _card(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(Path(sources.__file__).with_name("infoseek.yaml"), folder / "stranger.yaml")


def _read_card(folder: Path) -> None:
    module = ModuleType("stranger")
    module.__file__ = str(folder / "stranger.py")
    sys.modules["stranger"] = module
    try:
        card_of(type("Source", (), {"__module__": "stranger"}))
    finally:
        del sys.modules["stranger"]


def _files(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    row = {
        "id": "a",
        "question": "q?",
        "answers": ["x"],
        "response": "y",
        "choices": {"A": "b"},
        "answer_type": "name",
    }
    (folder / "rows.jsonl").write_text(
        json.dumps(row) + "\n" + json.dumps(row | {"id": "b"}) + "\n"
    )


# --- what reads it -------------------------------------------------------------------------------------


def _read_source(folder: Path) -> None:
    problems = Problems()
    source = open_source("generic", folder, problems)
    list(source.documents())
    list(source.samples())
    "\n".join(problems.summary()).encode()
    read_pins(folder / "pins.yaml")


def _read_pool(folder: Path) -> None:
    source = PoolSource(folder)
    list(source.documents())
    list(source.samples())


def _read_build(folder: Path) -> None:
    recipe_of_folder(folder / "out")
    _read_release(folder / "out/release")
    explain(folder / "out/release", "towns:q1")


def _read_release(folder: Path) -> None:
    release = Release.open(folder)
    "\n".join(verify(release)).encode()
    for sample in release.samples():
        for ref in sample.images:
            release.read_image(ref)
    list(release.drops())


def _read_runs(folder: Path) -> None:
    data = load([folder / "runs"], folder / "release")
    page(data).encode()


def _read_index(folder: Path) -> None:
    searcher = Searcher(folder, StubEncoder())
    for mode in searcher.modes:
        for hits in searcher.search([Query("passage 3", small_pool.picture(1))], mode, 3):
            for hit in hits:
                searcher.table(mode)[hit.document]  # what is found is there


def _read_files(folder: Path) -> None:
    problems = Problems()
    read_rows(folder / "rows.jsonl", problems)
    "\n".join(problems.summary()).encode()


Doors = dict[str, tuple[Callable[[Path], None], Callable[[Path], None], tuple[str, ...]]]
DOORS: Doors = {
    "source": (_source, _read_source, ()),
    "source's texts": (_source, _read_source, (".yaml",)),
    "pool": (_pool, _read_pool, ()),
    "build": (_build, _read_build, ()),
    "build's texts": (_build, _read_build, TEXTS),
    "runs": (_runs, _read_runs, ()),
    "runs' texts": (_runs, _read_runs, TEXTS),
    "index": (_index, _read_index, ()),
    "index's manifest": (_index, _read_index, (".json",)),
    "lists": (lambda folder: _index(folder, "ivf-sq8"), _read_index, (".faiss",)),
    "prompts": (_prompts, Prompts, ()),
    "files": (_files, _read_files, ()),
    "card": (_card, _read_card, ()),
    "labels": (_labelled, _read_labelled, ()),
    "labels' texts": (_labelled, _read_labelled, TEXTS),
    "regraded": (_answered, _regrade, TEXTS),
    "corpora": (_corpora, _read_corpora, TEXTS),
    "documents": (_docs, _read_docs, ()),
}
"""Name -> (what is right, what reads it, endings of the files that are damaged; () for all)."""


def _forged(folder: Path) -> None:
    """Manifests say of every file what it now is."""
    for path in sorted(
        folder.rglob("manifest.json"), key=lambda p: -len(p.parts)
    ):  # an inner one is a file of its outer
        try:
            manifest = json.loads(path.read_text())
            for name, entry in manifest["files"].items():
                file = path.parent / name
                if isinstance(entry, dict):
                    entry |= {"bytes": file.stat().st_size, "sha256": file_digest(file)}
                else:
                    manifest["files"][name] = file_digest(file)
            path.write_text(json.dumps(manifest))
            if "sha256" in manifest:
                world.seal(path.parent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass


def _tried(
    name: str, doors: Doors, right: Path, work: Path, seconds: float, tries: int, first: int = 0
) -> list[str]:
    _, read, only = doors[name]
    until, found = time.monotonic() + seconds, []
    for seed in range(first, first + tries):
        rng = random.Random(f"{name} {seed}")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(right, work, copy_function=os.link)
        for path in work.rglob(
            "*"
        ):  # links are quicker than copies, and are broken where a file is changed
            if path.is_file() and (not only or path.suffix in only or path.name == "manifest.json"):
                data = path.read_bytes()
                path.unlink()
                path.write_bytes(data)
        done = damage(work, rng, only)
        if rng.random() < 0.5:
            _forged(work)
        (work.parent / "seed").write_text(f"{seed}: {done}")
        try:
            with growth.cpu_limit(20):
                read(work)
        except DemurError as error:
            str(error).encode()
        except Exception as error:
            found.append(f"seed {seed}: {done}: {type(error).__name__}: {str(error)[:150]}")
        if time.monotonic() > until or len(found) >= 5:
            break
    return found


def attempts(doors: Doors, folder: str, seconds: str, tries: str, *names: str) -> None:
    """The work of a process, from its command line: prints what is found, a line each."""
    faulthandler.enable()
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    made: dict[Callable[[Path], None], Path] = {}
    for number, name in enumerate(names):
        make, read, _ = doors[name]
        if make not in made:
            made[make] = Path(folder) / f"right{number}" / "folder"
            made[make].parent.mkdir()
            make(made[make])
            read(
                shutil.copytree(made[make], made[make].with_name("copy"))
            )  # what is right is read without a word
        for line in _tried(
            name, doors, made[make], Path(folder) / "work", float(seconds), int(tries)
        ):
            sys.stdout.buffer.write(f"{name}: {line}\n".encode("utf-8", "backslashreplace"))


def broken(
    names: list[str], folder: Path, seconds: float, tries: int, file: str = __file__
) -> list[str]:
    """What a process of its own found, in bounded memory; that it died is a finding. ``file`` has the doors.

    A fresh one: a fork would inherit the memory of all tests before it, and the locks of threads that it has not.
    """
    started = subprocess.run(
        [sys.executable, "-W", "ignore", file, str(folder), str(seconds), str(tries), *names],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
    )
    found = started.stdout.decode().splitlines()
    if started.returncode:
        seed = folder / "seed"
        found.append(
            f"the process died at {seed.read_text() if seed.exists() else 'its start'}: {started.stderr[-2000:]!r}"
        )
    return found


QUICK = ["source", "source's texts", "pool", "prompts", "files", "card"]
"""Doors behind which nothing is built first."""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_damaged_files_are_a_result_or_one_of_our_errors(tmp_path: Path) -> None:
    assert broken(QUICK, tmp_path, 1e9, 10) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_damaged_folder_is_a_result_or_one_of_our_errors(tmp_path: Path) -> None:
    assert broken([name for name in DOORS if name not in QUICK], tmp_path, 1e9, 10) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", DOORS)
def test_for_long(name: str, tmp_path: Path) -> None:
    assert broken([name], tmp_path, float(os.environ.get("DEMUR_SOAK_S", "30")), 10**9) == []


if __name__ == "__main__":
    attempts(DOORS, *sys.argv[1:])
