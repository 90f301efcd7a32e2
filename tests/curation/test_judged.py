"""What a release says of the verdicts that it rests on: how the judge came to them, and how sure it was."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import curation_world as world
import pytest

from demur.core.errors import UsageError
from demur.core.store import read_json, write_json
from demur.curation.build.curate import curate


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("judged")
    gates = [world.simulated("whole", strength=0.2), world.text_only("text")]
    plan = world.recipe(world.folder(root / "towns"), gates, judge="curation_world:Varied")
    return curate(plan, root / "out", exhaustive=True), plan, root / "out"


def test_verdicts_are_counted_by_method_and_chance(built):
    """Recounted from the journal, and what is resumed from it has what was written."""
    one, _, out = built
    shown = {s.id: {e.id for e in s.negatives} for s in one.release.samples()}
    lines = map(json.loads, (out / "build" / "journal.jsonl").read_text().splitlines())
    counted = Counter(
        (line["method"] or "not stated", line["probability"])
        for line in lines
        if line["label"] != "skipped" and not line["draw"] and line["sample"] in shown
        if line["stage"] == "parametric" or line["evidence"] in shown[line["sample"]]
    )
    assert len(counted) == len(world.STATED)
    methods = one.release.manifest["judged"]["methods"]
    assert methods == {
        method: {
            "verdicts": n,
            "less_sure": n * (chance == 0.85),
            "unmeasured": n * (chance is None),
        }
        for (method, chance), n in counted.items()
    }
    card = (one.release.folder / "README.md").read_text()
    n = counted["equivalence", 0.85]
    assert f"| equivalence | {n:,} | {n:,} |" in card
    assert f"| model | {counted['model', None]:,} | not measured |" in card
    unmeasured = counted["model", None] + counted["not stated", None]
    assert f"| all | {counted.total():,} | {n:,}; {unmeasured:,} not measured |" in card


def test_another_way_of_building_counts_the_same(built):
    """From the journal alone: every method and chance was kept with its label."""
    one, plan, out = built
    before = one.release.manifest["judged"]
    again = curate(plan, out, exhaustive=True)
    assert not any(again.questions_to_gate.values())
    assert again.release.manifest["judged"] == before


def test_verify_finds_verdicts_that_no_gate_gave(built, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(built[0].release.folder, folder)
    manifest = read_json(folder / "manifest.json")
    manifest["judged"]["methods"]["match"]["verdicts"] += 1
    write_json(folder / "manifest.json", manifest)
    world.seal(folder)
    assert "README.md" in world.wrong(folder)


def test_a_judge_that_is_not_ready_is_refused_before_anything_is_asked(tmp_path):
    plan = world.recipe(
        world.folder(tmp_path / "towns"), world.GATES, judge="curation_world:Unready"
    )
    with pytest.raises(UsageError) as caught:
        curate(plan, tmp_path / "out")
    assert caught.value.item == "the judge: unready"
    assert (tmp_path / "out" / "build" / "journal.jsonl").stat().st_size == 0
