"""What was decided, apart from what was asked: by any way of working the same, with nothing left untold."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import curation_world as world
import pytest
import yaml

from demur.cli import main
from demur.core.errors import TransientError, UsageError
from demur.core.store import read_json
from demur.curation.build.curate import curate
from demur.curation.build.explain import explain
from demur.release import Release


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("world") / "towns")


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("built")
    return curate(world.recipe(source, world.GATES), out), out


@pytest.mark.heavy
def test_decisions_are_the_same_bytes_by_every_way_of_working(source, built, tmp_path, monkeypatch):
    """Cheapest first, in a hurry, and stopped on the way; the labels that each asked for differ."""
    _, out = built
    expected = (out / "build" / "decisions.jsonl").read_bytes()
    asked = [(out / "build" / "journal.jsonl").read_bytes()]
    for name, options in (
        ("greedy", {"learn": False}),
        ("hurry", {"hurry": True, "concurrency": 2}),
        ("stopped", {}),
    ):
        place = tmp_path / name
        shutil.copytree(out / "index", place / "index")
        if name == "stopped":
            with monkeypatch.context() as patch:
                patch.setattr("demur.curation.gates.runner.HOPELESS_AFTER", 4)
                patch.setattr("simulated_gate.SimulatedGate.answer", failing(30))
                with pytest.raises(TransientError):
                    curate(world.recipe(source, world.GATES), place)
        curate(world.recipe(source, world.GATES), place, **options)
        assert (place / "build" / "decisions.jsonl").read_bytes() == expected
        asked.append((place / "build" / "journal.jsonl").read_bytes())
    assert len(set(asked)) > 1
    assert not {"answers", "parametric", "solvable"} & set(json.loads(expected.splitlines()[0]))


def failing(after):
    from simulated_gate import SimulatedGate

    from demur.core.records import Response

    answer, left = SimulatedGate.answer, iter(range(after))

    async def some(self, ask):
        return await answer(self, ask) if next(left, None) is not None else Response(error="gone")

    return some


@pytest.mark.heavy
def test_explain_tells_what_the_last_build_was_told(source, built, tmp_path):
    """A gate that is edited and edited back: its first answers hold again, and are told again."""
    weak, strong = (
        world.simulated("g", strength=0.0, reading=1.0, leak=0.0),
        world.simulated("g", strength=0.6),
    )
    shutil.copytree(built[1] / "index", tmp_path / "index")
    told = []
    for gate in (weak, strong, weak):
        release = curate(world.recipe(source, [gate]), tmp_path).release
        told.append({f"q{i}": explain(release.folder, f"towns:q{i}") for i in range(world.N)})
    assert told[0] == told[2]
    assert told[0] != told[1]
    assert {x.parametric["g"] for x in told[1].values()} > {"correct"}
    assert "correct" not in {x.parametric["g"] for x in told[2].values()}


def test_explain_tells_why_an_answer_never_came(source, built, tmp_path):
    shutil.copytree(built[1] / "index", tmp_path / "index")
    gates = [world.simulated("flaky", strength=0.2, fails=0.5), world.GATES[0]]
    release = curate(world.recipe(source, gates), tmp_path).release
    held = [d.sample for d in release.drops() if d.stage == "held"]
    told = explain(release.folder, held[0])
    labels = [
        *told.parametric.values(),
        *told.solvable.values(),
        *(v for d in told.distractors for v in d.labels.values()),
    ]
    assert any(v.startswith("missing: ") for v in labels)


def test_bad_samples_that_were_left_out_are_in_funnel_and_explain(built, tmp_path):
    """Rows of no sample, of no gold, of an id that is taken, and one that cannot be read."""
    folder = world.folder(tmp_path / "towns")
    lines = (folder / "questions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    rows[3]["gold"] = []
    rows[5]["gold"] = ["p99"]
    del rows[7]["answers"]
    rows[9]["id"] = "q8"
    text = "".join(json.dumps(r) + "\n" for r in rows) + "{torn\n"
    (folder / "questions.jsonl").write_text(text)
    out = tmp_path / "out"
    shutil.copytree(built[1] / "index", out / "index")
    release = curate(world.recipe(folder, world.GATES), out, skip_bad=True).release
    assert world.wrong(release.folder) == ""
    first, pool = release.steps[:2]
    assert (first.stage, first.entered, first.kept) == ("sources", world.N + 1, world.N - 4)
    assert (pool.stage, pool.entered) == ("pool", world.N - 4)
    assert sum(first.dropped.values()) == 5
    assert {"bad record: it has no gold evidence", "bad record: no answer is given"} <= set(
        first.dropped
    )
    left = {d.sample: d for d in release.drops() if d.stage == "sources"}
    assert {
        f"towns:{id}" for id in ("q3", "q5", "q7", "questions.jsonl:10", "questions.jsonl:15")
    } == set(left)
    for sample, said in (
        ("q3", "gold"),
        ("q5", "p99"),
        ("q7", "answer"),
        ("questions.jsonl:10", "row"),
        ("questions.jsonl:15", "JSON"),
    ):
        told = explain(release.folder, f"towns:{sample}")
        assert (told.kept, told.stage) == (False, "sources")
        assert told.way_out
        assert said in told.notes[0]
    reasons = Counter(d.reason for d in left.values())
    assert first.dropped == dict(reasons)
    assert "bad record" in (release.folder / "README.md").read_text()
    assert read_json(release.folder / "funnel.json")[0]["stage"] == "sources"


def test_a_sample_that_was_not_drawn_is_told(source, built, tmp_path):
    shutil.copytree(built[1] / "index", tmp_path / "index")
    sources = [{"name": "generic", "path": str(source), "per_topic": 3}]
    release = curate(world.recipe(source, world.GATES, sources=sources), tmp_path).release
    known = {d.sample for d in release.drops()} | set(
        Release.open(release.folder).column("samples", "id")
    )
    (absent, *_) = sorted({f"towns:q{i}" for i in range(world.N)} - known)
    assert explain(release.folder, absent).why.startswith("not drawn")
    with pytest.raises(UsageError):
        explain(release.folder, "q99")


@pytest.mark.slow
def test_convergence_goes_by_the_folders_own_recipe(source, built, tmp_path, capsys):
    """After a rebuild nobody has the enlarged recipe: the folder has, and the old one is refused."""
    old = tmp_path / "old"
    shutil.copytree(built[1], old)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(world.recipe(source, world.GATES).model_dump(mode="json")))
    gate = json.dumps(world.simulated("newer", strength=0.6))
    new = tmp_path / "new"
    assert (
        main(
            ["rebuild", str(old / "release"), "--add-gate", gate, "--out", str(new), "--trust-code"]
        )
        == 0
    )
    assert main(["convergence", str(recipe), "--out", str(new)]) == 2
    assert "version, gates" in capsys.readouterr().err
    assert not (new / "convergence.json").exists()
    assert main(["convergence", str(new), "--trust-code", "--json"]) == 0
    rounds = json.loads(capsys.readouterr().out)["rounds"]
    assert set(rounds[-1]["gates"]) == {"weak", "middle", "strong", "newer"}
    assert rounds[-1]["kept"] == Release.open(new / "release").manifest["counts"]["samples"]
    figures = (new / "convergence.json").read_bytes()
    for same in (
        new / "release",
        new / "recipe.yaml",
    ):  # the release in it, and the recipe that was left there
        where = ["--out", str(new)] if same.suffix else ["--trust-code"]
        assert main(["convergence", str(same), *where]) == 0
        assert (new / "convergence.json").read_bytes() == figures
    watched = yaml.safe_load(recipe.read_text()) | {
        "monitors": [world.simulated("watch")],
        "retest": 1,
    }
    recipe.write_text(yaml.safe_dump(watched))
    assert main(["convergence", str(recipe), "--out", str(old)]) == 0  # who watches decides nothing
    assert main(["convergence", str(tmp_path)]) == 1
    assert "build" in capsys.readouterr().err
