"""A gate that was not asked proves nothing: refused beforehand, left out of every count, told on the card."""

from __future__ import annotations

import json
from collections import Counter

import curation_world as world
import pytest
import yaml

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.store import read_json
from demur.curation.build.curate import curate
from demur.curation.build.estimate import estimate_build

ABOUT_IMAGES = world.N // 2


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("world") / "towns")


@pytest.fixture(scope="module")
def mixed(source, tmp_path_factory):
    """One gate that takes everything, one that takes no images; everything asked."""
    out = tmp_path_factory.mktemp("mixed")
    plan = world.recipe(source, [world.simulated("whole", strength=0.2), world.text_only("text")])
    return curate(plan, out, exhaustive=True), plan, out


def refused(plan, out):
    with pytest.raises(UsageError) as caught:
        curate(plan, out)
    assert (out / "build" / "journal.jsonl").stat().st_size == 0
    with pytest.raises(UsageError) as planned:
        estimate_build(plan, out / "plan")
    assert str(planned.value) == str(caught.value)
    return str(caught.value)


def test_text_only_gates_before_questions_about_images_are_refused(source, tmp_path):
    told = refused(world.recipe(source, [world.text_only("one"), world.text_only("two")]), tmp_path)
    assert f"towns, questions about images ({ABOUT_IMAGES}): " in told
    assert "one, two" in told
    assert "distractors: image" in told
    assert "retrieval.visual: 0" in told


@pytest.mark.parametrize(
    ("stages", "lacking"),
    [
        (["parametric", "distractor"], "gold"),
        (["parametric", "solvable"], "alone"),
    ],
)
def test_a_stage_without_a_gate_is_refused(source, tmp_path, stages, lacking):
    told = refused(world.recipe(source, [{**world.simulated("g"), "stages": stages}]), tmp_path)
    assert lacking in told


@pytest.mark.heavy
def test_what_no_gate_can_be_asked_about_leaves_with_its_reason(source, tmp_path):
    plan = world.recipe(source, [world.text_only("text", options={"strength": 0.2})])
    built = curate(plan, tmp_path, skip_bad=True)
    assert not any(s.images for s in built.release.samples())
    planned = estimate_build(plan, tmp_path, skip_bad=True)
    assert planned.totals["at_most"] == planned.lines[0].at_most * (1 + 1 + 6)
    first = next(step for step in built.funnel if step.stage.startswith("I "))
    assert first.dropped["no gate can be asked about it without evidence"] == ABOUT_IMAGES
    one = built.release.manifest["stage_one"]
    assert one["kept"] <= world.N - ABOUT_IMAGES
    assert not any(e.image for s in built.release.samples() for e in s.negatives)


@pytest.mark.slow
def test_calls_that_cannot_be_made_are_counted_nowhere(mixed, tmp_path):
    """Recounted from the journal of an exhaustive build, by a few lines of its own."""
    built, plan, out = mixed
    lines = [
        json.loads(line) for line in (out / "build" / "journal.jsonl").read_text().splitlines()
    ]
    said = Counter()
    right = set()
    for line in lines:
        if not line["draw"]:
            said[line["sample"], line["stage"]] += 1
            if line["label"] == "correct":
                right.add((line["sample"], line["stage"]))
    calls = 0
    for sample in {line["sample"] for line in lines}:
        calls += said[sample, "parametric"]
        if (sample, "parametric") not in right:
            calls += said[sample, "solvable"]
            if (sample, "solvable") in right:
                calls += said[sample, "distractor"]
    assert built.algorithm1 == calls
    assert built.used == sum(said.values())
    asked = Counter((line["gate"], line["stage"]) for line in lines if not line["draw"])
    for folder, built_before in ((out, True), (tmp_path, False)):
        planned = {(p.gate, p.stage.value): p for p in estimate_build(plan, folder).lines}
        for stage in ("parametric", "solvable"):
            assert planned["text", stage].at_most == asked["text", stage] == world.N - ABOUT_IMAGES
            assert planned["whole", stage].at_most == asked["whole", stage] == world.N
        # A finished build knows how many distractors there were; before it, as many as the recipe allows.
        whole, text = asked["whole", "distractor"], asked["text", "distractor"]
        assert planned["whole", "distractor"].at_most == (whole if built_before else world.N * 8)
        assert planned["text", "distractor"].at_most == (
            text if built_before else (world.N - ABOUT_IMAGES) * 6
        )
        assert all(p.naive <= p.at_most and p.expected <= p.at_most for p in planned.values())


def test_the_card_says_what_each_gate_was_asked(mixed):
    built, _, _ = mixed
    samples = list(built.release.samples())
    text = [s for s in samples if not s.images]
    alone = sum(e.image is None for s in text for e in s.negatives)
    every = sum(len(s.negatives) for s in samples)
    asked = built.release.manifest["gate_models"]["text"]["asked"]
    assert asked["parametric"] == {
        "asked": len(text),
        "of": len(samples),
        "skipped": {"takes no images": len(samples) - len(text)},
    }
    assert (asked["distractor"]["asked"], asked["distractor"]["of"]) == (alone, every)
    card = (built.release.folder / "README.md").read_text()
    row = next(line for line in card.splitlines() if line.startswith("| text | "))
    assert (
        f"| {len(text)} of {len(samples)} | at most {len(text)} of {len(samples)} | {alone} of {every} |"
        in row
    )
    assert "takes no images" in row
    assert "every gate that can be asked was judged wrong" in card


def test_verify_finds_a_sample_that_no_gate_was_asked_about(mixed, tmp_path):
    import shutil

    built, _, _ = mixed
    folder = tmp_path / "r"
    shutil.copytree(built.release.folder, folder)
    rows = [json.loads(line) for line in (folder / "gates.jsonl").read_text().splitlines()]
    row = next(r for r in rows if r["stage"] == "parametric")
    row["labels"] = dict.fromkeys(row["labels"], "skipped:takes no images")
    (folder / "gates.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    world.seal(folder)
    assert f" {row['sample']} (parametric)" in world.wrong(folder)


def test_the_stages_are_numbered_as_the_paper_does(mixed, capsys):
    built, plan, out = mixed
    assert [step.stage for step in built.funnel] == [
        "pool",
        "I parametric gate",
        "II distractors mined",
        "III quality control",
        "verdicts had",
    ]
    assert read_json(built.release.folder / "funnel.json")[2]["stage"].startswith("II ")
    assert world.wrong(built.release.folder) == ""
    (out / "recipe.yaml").write_text(yaml.safe_dump(plan.model_dump(mode="json")))
    assert main(["build", str(out / "recipe.yaml"), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert [shown.find(f" {number} ") > 0 for number in ("I", "II", "III")] == [True] * 3


@pytest.mark.parametrize("system", ["python:examples.my_rag:answer", "reader", "prior"])
def test_options_that_a_gate_would_pass_over_are_refused(system, tmp_path):
    """``temperatur: 0`` beside a function looks as if it did something."""
    from demur.curation.build.curate import curate

    gates = [{"system": system, "name": "g", "options": {"temperatur": 0}}]
    with pytest.raises(UsageError, match="temperatur") as told:
        curate(world.recipe(world.folder(tmp_path / "towns"), gates), tmp_path / "out")
    assert told.value.item == "gate g"
