"""Builds of a small world: the same release by every way of working, and nothing lost on the way."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import curation_world as world
import pytest
import yaml
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from served import Served
from strategies import examples

from demur.cli import main
from demur.core.errors import BadInput, StorageError, TransientError, UsageError
from demur.core.progress import Progress
from demur.core.store import JsonlLog, locked, storage_errors
from demur.core.untrusted import trusting
from demur.curation.build.convergence import measure_convergence
from demur.curation.build.curate import curate
from demur.curation.build.rebuild import carry_over, enlarge
from demur.curation.build.recipe import parse_recipe
from demur.curation.gates.runner import read_journal


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("world") / "towns")


def build(source, out, gates=world.GATES, *, index=None, more=None, **options):
    if index is not None and not (out / "index").exists():
        shutil.copytree(index, out / "index")
    return curate(world.recipe(source, gates, **(more or {})), out, **options)


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("built")
    return build(source, out), out


@pytest.mark.slow
def test_a_lazy_an_exhaustive_and_a_second_build_are_the_same_bytes(built, source, tmp_path):
    lazy, out = built
    full = build(source, tmp_path / "full", exhaustive=True)
    again = build(source, out)
    expected = world.bytes_of(lazy.release.folder)
    assert world.bytes_of(full.release.folder) == expected
    assert world.bytes_of(again.release.folder) == expected
    assert again.questions_to_gate == {}
    assert sum(lazy.questions_to_gate.values()) < 0.7 * sum(full.questions_to_gate.values())
    assert 0 < lazy.release.manifest["counts"]["samples"] < world.N


chance = st.floats(0, 1).map(lambda x: round(x, 3))
gates_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "strength": st.floats(0, 0.5),
            "reading": st.floats(0.3, 1),
            "leak": st.floats(0, 0.5),
            "own": chance,
            "declines": chance,
            "garbage": st.sampled_from([0.0, 0.0, 0.1, 0.3]),
            "noise": st.sampled_from([0.0, 0.2]),
            "seed": st.integers(0, 99),
        }
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(gates_drawn, st.integers(0, 4), st.sampled_from([None, 4, 5]))
def test_whatever_the_gates_say_lazy_equals_exhaustive(
    source, built, tmp_path_factory, gates, k_min, k_enough
):
    named = [world.simulated(f"g{i}", **options) for i, options in enumerate(gates)]
    more = {"rules": {"k_min": k_min, "k_enough": k_enough}}
    out = tmp_path_factory.mktemp("pair")
    found = []
    for exhaustive in (False, True):
        try:
            release = build(
                source,
                out / str(exhaustive),
                named,
                index=built[1] / "index",
                more=more,
                exhaustive=exhaustive,
            ).release
            found.append(world.bytes_of(release.folder))
        except UsageError as error:
            found.append(str(error))
    assert found[0] == found[1]
    shutil.rmtree(out)


@pytest.mark.integration
def test_a_build_killed_at_any_moment_goes_on_to_the_identical_release(source, tmp_path):
    slow = [{**g, "options": {**g["options"], "latency": 0.02}} for g in world.GATES]
    plan = world.recipe(source, slow)
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(plan.model_dump(mode="json")))
    out = tmp_path / "out"
    words = [sys.executable, "-m", "demur", "build", str(path), "--out", str(out), "--json"]
    path_of = {"PYTHONPATH": str(Path(world.__file__).parent)}
    kills = 0
    for wait in (0.0, 0.2, 0.5, 1.0):
        process = subprocess.Popen(
            words, env={**os.environ, **path_of}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        end = time.monotonic() + 60
        while (
            not (out / "build" / "journal.jsonl").exists()
            and process.poll() is None
            and time.monotonic() < end
        ):
            time.sleep(0.01)
        time.sleep(wait)
        if process.poll() is None:
            kills += 1
        process.kill()
        process.communicate()
    done = subprocess.run(
        words, env={**os.environ, **path_of}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert kills >= 2
    clean = build(source, tmp_path / "clean", slow)
    assert world.bytes_of(out / "release") == world.bytes_of(clean.release.folder)


def pool_of(out):
    """The only pool of a build folder."""
    (pool,) = (path for path in (out / "build" / "pool").iterdir() if path.is_dir())
    return pool


@pytest.mark.heavy
def test_a_rebuild_asks_only_what_is_new_and_equals_a_full_build(built, source, tmp_path):
    _, out = built
    gate = world.simulated("newer", strength=0.6, reading=1.0)
    with trusting(code=True):
        new = enlarge(out / "release", [gate]).new
    assert new.recipe.version == "1.1.0"
    carry_over(new.work, tmp_path / "new")
    rebuilt = curate(new.recipe, tmp_path / "new", base=new.base)
    full = build(source, tmp_path / "full", [*world.GATES, gate], more={"version": "1.1.0"})
    assert world.bytes_of(rebuilt.release.folder) == world.bytes_of(full.release.folder)
    assert world.bytes_of(pool_of(tmp_path / "new")) == world.bytes_of(pool_of(tmp_path / "full"))
    assert sum(rebuilt.questions_to_gate.values()) < 0.6 * sum(full.questions_to_gate.values())
    # what the old gates said is used first: the new one is not asked about samples that they knew
    left = built[0].release.manifest["stage_one"]["kept"]
    assert rebuilt.questions_to_gate["newer"] <= left * (1 + 1 + 8) + 3
    assert all(
        n <= 3 for gate, n in rebuilt.questions_to_gate.items() if gate != "newer"
    )  # the re-test alone
    again = build(
        source, tmp_path / "new", [*world.GATES, gate], more={"version": "1.1.0"}, exhaustive=True
    )
    assert world.bytes_of(again.release.folder) == world.bytes_of(full.release.folder)
    with trusting(code=True), raises(UsageError, ": weak", item="recipe with the new gates"):
        enlarge(out, [world.simulated("weak")])


@pytest.mark.slow
def test_how_many_the_whole_funnel_keeps_follows_from_an_exhaustive_build(built, source, tmp_path):

    full = build(source, tmp_path, index=built[1] / "index", exhaustive=True)
    plan = world.recipe(source, world.GATES)
    rounds = measure_convergence(plan, tmp_path).rounds
    assert rounds[0].kept is None
    assert rounds[-1].kept == full.release.manifest["counts"]["samples"]
    for i, one in enumerate(rounds[1:], 1):  # what a build with these gates alone keeps
        gates = [g for g in world.GATES if g["name"] in one.gates]
        alone = build(source, tmp_path / str(i), gates, index=built[1] / "index")
        assert one.kept == alone.release.manifest["counts"]["samples"]
    lazy = measure_convergence(plan, built[1]).rounds
    assert [r.size for r in lazy] == [r.size for r in rounds]
    assert all(r.kept is None or r.kept == f.kept for r, f in zip(lazy, rounds, strict=True))


@pytest.mark.heavy
def test_a_folder_of_another_version_is_refused_before_anything_is_asked(built, source, tmp_path):
    shutil.copytree(built[1] / "release", tmp_path / "release")
    with raises(UsageError, "towns 1.0.0", item=tmp_path / "release"):
        build(source, tmp_path, more={"version": "1.1.0"})
    assert not (tmp_path / "build").exists()


def test_a_rebuild_leaves_the_verdicts_of_another_build_alone(built, source, tmp_path):
    other = tmp_path / "other"
    (other / "build").mkdir(parents=True)
    for name in ("recipe.json", "journal.jsonl"):
        shutil.copy(built[1] / "build" / name, other / "build" / name)
    (other / "build" / "journal.jsonl").write_text("theirs\n")
    with raises(UsageError, item=other, cure="--out"):
        carry_over(built[1], other)
    assert (other / "build" / "journal.jsonl").read_text() == "theirs\n"


def test_gates_that_only_fail_are_named_where_no_sample_is_left(source, built, tmp_path):
    with raises(UsageError, "14 answers", "dead: ", item="towns"):
        build(
            source,
            tmp_path,
            [{"system": "curation_world:Dead", "name": "dead"}],
            index=built[1] / "index",
        )


def test_plans_of_convergence_and_rebuild_write_nothing(built, source, tmp_path):
    from demur.curation.build.estimate import estimate_convergence
    from demur.curation.build.rebuild import estimate_rebuild

    old = tmp_path / "old"
    shutil.copytree(built[1], old, symlinks=True)
    shutil.rmtree(old / "build" / "pool")  # as if the sources had changed
    before = world.bytes_of(old)
    estimate_convergence(world.recipe(source, world.GATES), old)
    with trusting(code=True):
        estimate_rebuild(enlarge(old, [world.simulated("newer")], tmp_path / "new"))
    assert world.bytes_of(old) == before
    assert not (old / "build" / "pool").exists()
    assert not (tmp_path / "new").exists()


def test_in_a_hurry_the_release_is_the_same_bytes(built, source, tmp_path):
    found = build(source, tmp_path, index=built[1] / "index", hurry=True)
    assert world.bytes_of(found.release.folder) == world.bytes_of(built[0].release.folder)


READS = """
import re
KNOWS = "nobody"

def answer(given):
    town = re.search(r"mayor of (Town[0-9]+)", given["question"])
    for shown in given["evidence"]:
        said = re.search(r"The mayor of (Town[0-9]+) is ([A-Z]\\w+ [A-Z]\\w+)", shown["text"] or "")
        if said and town and said[1] == town[1]:
            return said[2]
    return "It is called Qwxyz."
"""


@pytest.mark.heavy
def test_a_verdict_holds_for_the_code_that_gave_it_and_for_what_was_shown(tmp_path, monkeypatch):
    """Edit a gate: it is asked again. Reword some questions of all: a function is asked about those alone."""
    source = world.folder(tmp_path / "towns")
    (tmp_path / "gate_that_reads.py").write_text(READS)
    monkeypatch.chdir(tmp_path)
    gates = [*world.GATES[:1], {"system": "python:gate_that_reads:answer", "name": "reads"}]

    def again():
        sys.modules.pop("gate_that_reads", None)
        importlib.invalidate_caches()
        return build(source, tmp_path / "out", gates, exhaustive=True)

    first = again()
    assert first.questions_to_gate["reads"] > 50
    assert again().questions_to_gate == {}
    questions = (source / "questions.jsonl").read_text()
    for town in ("Town2", "Town4", "Town6"):
        assert f"Who is the mayor of {town}?" in questions
        questions = questions.replace(f"Who is the mayor of {town}?", f"Name the mayor of {town}.")
    (source / "questions.jsonl").write_text(questions)
    (journal,) = (tmp_path / "out").rglob("journal.jsonl")
    before = {line.key for line in read_journal(journal)}
    reworded = again()
    new = [
        line
        for line in read_journal(journal)
        if line.key not in before and line.query.gate == "reads"
    ]
    assert {line.sample for line in new} == {"towns:q2", "towns:q4", "towns:q6"}
    # without evidence, with gold, and with each distractor of three samples
    assert 3 * 2 < reworded.questions_to_gate["reads"] == len(new) <= 3 * (2 + 12)
    (tmp_path / "gate_that_reads.py").write_text(READS.replace("nobody", "everybody"))
    edited = again()
    assert edited.questions_to_gate["reads"] >= first.questions_to_gate["reads"] - 2
    assert "weak" not in edited.questions_to_gate
    before, after = (dict(b.release.manifest["gate_models"]["reads"]) for b in (reworded, edited))
    assert before.pop("revision") != after.pop("revision")
    assert before == after


@pytest.mark.heavy
def test_the_server_of_an_old_gate_may_be_gone_when_another_is_added(tmp_path):
    source = world.folder(tmp_path / "towns", 8)
    with Served() as address:
        old = {"system": f"model:{address}", "name": "old", "stages": ["parametric"]}
        build(source, tmp_path / "old", [*world.GATES[:1], old], more={"retest": 0})
    with trusting(code=True, hosts=True):
        new = enlarge(tmp_path / "old", [world.GATES[1]]).new
    carry_over(new.work, tmp_path / "new")
    told = []

    class Told(Progress):
        def warn(self, line):
            told.append(line)

    rebuilt = curate(
        new.recipe, tmp_path / "new", base=new.base, skip_bad=new.skip_bad, steps=Told()
    )
    (warning,) = told
    assert warning.startswith("old: ")
    assert set(rebuilt.questions_to_gate) <= {"weak", "middle"}
    assert rebuilt.reused > 0
    assert rebuilt.since.startswith("20")


@pytest.mark.heavy
def test_an_answer_that_never_came_is_held_out_and_asked_again(source, built, tmp_path):
    gates = [world.simulated("flaky", strength=0.2, fails=0.5), *world.GATES[:1]]
    out = tmp_path / "held"
    first = build(source, out, gates, index=built[1] / "index")
    assert first.held > 0
    assert any(
        "an answer is missing in stage" in why for step in first.funnel for why in step.dropped
    )
    lines = [
        json.loads(line) for line in (out / "build" / "journal.jsonl").read_text().splitlines()
    ]
    assert all(
        line["final"] is False for line in lines if line["label"] == "missing"
    )  # they are asked again
    again = build(source, out, gates)
    assert again.questions_to_gate.get("flaky", 0) > 0


def test_a_dead_gate_stops_the_build_and_loses_nothing(source, built, tmp_path, monkeypatch):
    monkeypatch.setattr("demur.curation.gates.runner.HOPELESS_AFTER", 8)
    gates = [*world.GATES[:1], {"system": "curation_world:Dead", "name": "dead"}]
    with pytest.raises(TransientError, match=r"dead.*deadline"):
        build(source, tmp_path, gates, index=built[1] / "index")
    assert (tmp_path / "build" / "journal.jsonl").stat().st_size > 0
    assert not (tmp_path / "release").exists()


def test_a_judge_that_raises_or_babbles_decides_nothing(source, built, tmp_path):
    with raises(UsageError, "14 samples", "parametric (14)", item="towns", cure="rules.k_min"):
        build(source, tmp_path, index=built[1] / "index", more={"judge": "curation_world:Mad"})


@pytest.mark.heavy
def test_a_full_disk_is_told_and_the_build_goes_on_afterwards(source, built, tmp_path, monkeypatch):
    room = iter(range(20))
    append = JsonlLog.append

    def full(self, record):
        with storage_errors(self.path):
            if next(room, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
        append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(JsonlLog, "append", full)
        with raises(StorageError, item=tmp_path / "build" / "journal.jsonl"):
            build(source, tmp_path, index=built[1] / "index")
    again = build(source, tmp_path)
    assert world.bytes_of(again.release.folder) == world.bytes_of(built[0].release.folder)
    # the order of gates is learnt as answers come, so one of the twenty may not be needed any more
    assert again.reused in (19, 20)
    assert (
        sum(again.questions_to_gate.values())
        == sum(built[0].questions_to_gate.values()) - again.reused
    )


def test_two_builds_in_one_folder_are_refused(source, tmp_path):
    with (
        locked(tmp_path / "build" / "lock", "building"),
        raises(UsageError, item="lock"),
    ):
        build(source, tmp_path)


@pytest.mark.heavy
def test_a_sample_without_gold_is_told_or_left_out(tmp_path):
    folder = world.folder(tmp_path / "towns")
    lines = (folder / "questions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    rows[3]["gold"] = []
    (folder / "questions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with raises(BadInput, item="questions.jsonl:4 (q3)", cure="--skip-bad"):
        build(folder, tmp_path / "a")
    assert build(folder, tmp_path / "b", skip_bad=True).release.manifest["skipped_bad"] == 1


@pytest.mark.heavy
def test_a_question_of_two_sources_is_asked_once(tmp_path):
    one, other = world.folder(tmp_path / "one"), world.folder(tmp_path / "other")
    mapping = (other / "demur-map.yaml").read_text().replace("name: towns", "name: cities")
    (other / "demur-map.yaml").write_text(mapping)
    sources = [{"name": "generic", "path": str(p)} for p in (one, other)]
    found = build(one, tmp_path / "out", more={"sources": sources})
    assert found.funnel[0].dropped == {"an earlier source asks the same": world.N}
    assert set(found.release.manifest["counts"]["by_source"]) == {"towns"}


def test_distractors_that_can_never_suffice_are_refused_at_once(source, tmp_path):
    with raises(UsageError, "k_min=9", " 8 ", item="recipe"):
        world.recipe(
            source,
            world.GATES,
            rules={"k_min": 9},
            retrieval={"text": 6, "visual": 2, "negatives": "mined"},
        )
    plan = world.recipe(
        source, world.GATES, rules={"k_min": 40}
    )  # a source could have brought as many; it did not
    with raises(UsageError, "k_min=40", " 8 ", item="towns", cure="rules.k_min"):
        curate(plan, tmp_path)
    assert not (tmp_path / "build" / "journal.jsonl").exists()
    with raises(UsageError, "'kmin'", "'k_min'", item="recipe", cure="docs/recipe.md"):
        world.recipe(source, world.GATES, rules={"kmin": 3})


@pytest.mark.slow
def test_the_commands(source, built, tmp_path, capsys):
    _, out = built
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(world.recipe(source, world.GATES).model_dump(mode="json")))

    def run(*words):
        code = main([*map(str, words)])
        return code, capsys.readouterr().out

    code, text = run("build", path, "--out", out, "--plan", "--json")
    plan = json.loads(text)
    assert code == 0
    assert plan["samples"] == world.N
    assert {line["rate_from"] for line in plan["lines"]} <= {"measured", "assumed"}
    assert plan["total"]["expected"] <= plan["total"]["naive"] <= plan["total"]["at_most"]
    code, text = run(
        "build",
        path,
        "--out",
        tmp_path / "fresh",
        "--plan",
        "--json",
        "--learn-from",
        out / "release",
    )
    other = json.loads(text)
    assert (other["verdicts"], other["total"]["had"]) == (plan["verdicts"], 0)
    assert other["calls"][0] <= other["total"]["expected"] <= other["calls"][1]
    assert (
        run(
            "build",
            path,
            "--out",
            tmp_path / "fresh",
            "--plan",
            "--learn-from",
            tmp_path / "nobody",
        )[0]
        == 2
    )
    assert (
        "Algorithm 1" in run("build", path, "--out", out, "--plan", "--rate", "parametric=0.5")[1]
    )
    assert run("build", path, "--out", out, "--plan", "--rate", "weak/nowhere=1")[0] == 2
    code, text = run("build", path, "--out", out)
    assert (code, "every verdict was there" in text) == (0, True)
    states = [
        json.loads(line) for line in (out / "build" / "decisions.jsonl").read_text().splitlines()
    ]
    for state in (next(x for x in states if x["kept"]), next(x for x in states if not x["kept"])):
        code, text = run("explain", out / "release", state["sample"], "--json")
        told = json.loads(text)
        assert (told["kept"], told["why"], set(told["parametric"])) == (
            state["kept"],
            state["why"],
            {"weak", "middle", "strong"},
        )
        moved = tmp_path / "moved" / "release"
        if not moved.exists():
            shutil.copytree(out / "release", moved)
        assert (
            json.loads(run("explain", moved, state["sample"], "--json")[1])["why"] == state["why"]
        )
        assert run("explain", out / "release", state["sample"])[0] == 0
    assert run("explain", out / "release", "q99")[0] == 2
    gate = json.dumps(world.simulated("newer", strength=0.6))
    code, text = run(
        "rebuild",
        out / "release",
        "--add-gate",
        gate,
        "--out",
        tmp_path / "new",
        "--json",
        "--trust-code",
    )
    assert (code, json.loads(text)["version"]) == (0, "1.1.0")
    code, text = run("release", "diff", out / "release", tmp_path / "new" / "release", "--json")
    found = json.loads(text)
    assert found["left"]
    assert all(
        x["why"] == "a gate answers it without evidence" or "distractors" in x["why"]
        for x in found["left"]
    )
    assert set(found["recipe"]) == {"gates", "version"}
    total = sum(sum(c.values()) for c in found["by_topic"].values())
    assert total == len(found["left"]) + len(found["came"]) + len(found["changed"]) + found["same"]
    assert run("release", "diff", out / "release", tmp_path / "new" / "release")[0] == 0
    code, text = run("convergence", path, "--out", out, "--json")
    rounds = json.loads(text)["rounds"]
    assert [r["size"] for r in rounds] == sorted((r["size"] for r in rounds), reverse=True)
    assert run("convergence", path, "--out", out)[0] == 0
    answered = (out / "build/journal.jsonl").stat().st_size
    code, afresh = run("convergence", path, "--out", out, "--json", "--fresh")
    assert (code, json.loads(afresh)["rounds"][0]["size"]) == (
        0,
        json.loads(text)["rounds"][0]["size"],
    )
    assert [p.stat().st_size for p in (out / "build/.earlier").rglob("journal.jsonl")] == [answered]
    from demur.release import Release

    assert [r["size"] for r in Release.open(out / "release").manifest["gate_rounds"]] == [
        r["size"] for r in rounds
    ]
    noted = json.loads((out / "convergence.json").read_text())
    for key in ("sources", "gate_models"):  # equal names, other contents: rounds of something else
        (out / "convergence.json").write_text(
            json.dumps(noted | {key: dict.fromkeys(noted[key], "0" * 64)})
        )
        assert "gate_rounds" not in Release.open(out / "release").manifest
    assert run("release", "push", out / "release", tmp_path / "target")[0] == 2
    assert (
        run("release", "push", out / "release", "hf:nobody/nothing")[0] == 1
    )  # the hub is switched off in tests


def test_a_recipe_with_a_monitor_of_a_gates_name_is_refused():
    with pytest.raises(UsageError, match="monitor"):
        parse_recipe(
            {
                "name": "x",
                "sources": [{"name": "atlas"}],
                "gates": [{"system": "prior"}],
                "monitors": [{"system": "prior"}],
            }
        )


def test_options_of_a_model_gate():
    from demur.curation.gates.runner import model_options

    assert model_options({"temperature": 0}) == {"temperature": 0}
    made = model_options({"images": "none", "seed": 1})
    assert (made["layout"].images, made["seed"]) == ("none", 1)
    with raises(UsageError, "images", "two", cure="many, one or none"):
        model_options({"images": "two"})


@pytest.mark.integration
@pytest.mark.slow
def test_the_whole_path_with_a_real_model_on_atlas(tmp_path):
    """Simulated gates and the small model: build, kill, resume, rebuild, diff, verify, explain, convergence."""
    from demur.sample import llm

    if llm.weights() is None:
        pytest.skip(f"the model's weights are not there: {llm.BY_HAND}")
    world_path = {"PYTHONPATH": str(Path(world.__file__).parent)}

    def run(*words, kill=None):
        command = [sys.executable, "-m", "demur", *map(str, words)]
        process = subprocess.Popen(
            command, env={**os.environ, **world_path}, stdout=subprocess.PIPE, text=True
        )
        if kill is None:
            out = process.communicate()[0]
            assert process.returncode == 0, out
            return out
        end = time.monotonic() + 120
        while (
            not (kill.exists() and kill.stat().st_size > 2000)
            and process.poll() is None
            and time.monotonic() < end
        ):
            time.sleep(0.02)
        process.kill()
        process.communicate()
        return ""

    with llm.serving() as address:
        small = {
            "system": f"model:{address}",
            "name": "SmolLM2",
            "stages": ["parametric"],
            "cost": 10,
            "options": {"temperature": 0, "max_tokens": 24, "seed": 0, "images": "none"},
        }
        plan = {
            "name": "atlas-small",
            "version": "1.0.0",
            "sources": [{"name": "atlas", "per_topic": 1}],
            "retest": 2,
            "gates": [
                world.simulated("weak", strength=0.3),
                world.simulated("strong", strength=0.5),
                small,
            ],
            "retrieval": {"encoder": "curation_world:quick", "text": 6, "visual": 4},
            "rules": {"k_min": 3},
        }
        path, out = tmp_path / "recipe.yaml", tmp_path / "out"
        path.write_text(yaml.safe_dump(plan))
        run("build", path, "--out", out, kill=out / "build" / "journal.jsonl")
        assert not (out / "release" / "manifest.json").exists()
        first = json.loads(run("build", path, "--out", out, "--json"))
        run("release", "verify", out / "release")
        gate = json.dumps(world.simulated("newer", strength=0.7))
        consent = ("--trust-code", "--trust-hosts")  # its gates are code and servers
        words = ("--add-gate", gate, "--out", tmp_path / "new", "--json")
        run("rebuild", out / "release", *words, *consent)
        # the server reuses what it computed for earlier prompts, so its replies depend on the order of calls: the clean
        # build gets the same replies, and everything else anew
        (tmp_path / "clean" / "build").mkdir(parents=True)
        shutil.copy(out / "build" / "calls.sqlite", tmp_path / "clean" / "build")
        clean = json.loads(run("build", path, "--out", tmp_path / "clean", "--json"))
        assert clean["sha256"] == first["sha256"]
        found = json.loads(
            run("release", "diff", out / "release", tmp_path / "new" / "release", "--json")
        )
        assert found["left"]
        assert "newer" in run("explain", tmp_path / "new" / "release", found["left"][0]["sample"])
        rounds = json.loads(run("convergence", path, "--out", out, "--json"))["rounds"]
        lines = (out / "build" / "journal.jsonl").read_text().splitlines()
        open_ = {
            r["sample"]
            for r in map(json.loads, lines)
            if r["stage"] == "parametric" and r["label"] == "missing"
        }
        kept = first["stage_one"]["kept"]
        assert (
            kept <= rounds[-1]["size"] <= kept + len(open_)
        )  # what is missing is neither taken nor kept


@pytest.mark.heavy
def test_a_budget_stops_a_build_that_goes_on_with_more_money(source, built, tmp_path):
    from demur.core.errors import BudgetReached
    from demur.models import Budget
    from demur.testing import running

    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"models": {"*": {"prompt": 0.0, "completion": 1e6}}}))
    with running() as server:
        gate = {
            "system": f"model:{server.url}#m",
            "name": "paid",
            "options": {"max_tokens": 8, "images": "none"},
        }
        gates = [world.GATES[0], {**gate, "stages": ["parametric"]}]
        money = Budget(1e9)
        full = build(
            source, tmp_path / "full", gates, index=built[1] / "index", budget=money, prices=prices
        )
        small = Budget(
            8 + money.spent / 2
        )  # room for one call at its dearest, beside half of what is needed
        with pytest.raises(BudgetReached):
            build(source, tmp_path, gates, index=built[1] / "index", budget=small, prices=prices)
        assert small.spent <= small.money
        had = (tmp_path / "build" / "journal.jsonl").read_text().count('"gate":"paid"')
        done = build(source, tmp_path, gates, budget=Budget(1e9), prices=prices)
    assert had > 0
    assert (
        0 < done.questions_to_gate["paid"] < full.questions_to_gate["paid"]
    )  # the order of work differs, so the difference need not be had
    assert world.bytes_of(done.release.folder) == world.bytes_of(full.release.folder)
