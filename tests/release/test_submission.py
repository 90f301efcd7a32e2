"""A release that can be submitted: facts of people, the canary, days; each read back from the files."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import curation_world as world
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from curation_world import seal, wrong
from errors import raises

from demur.cli import main
from demur.core.errors import ReleaseError, UsageError
from demur.core.store import read_json, write_json
from demur.core.untrusted import trusting
from demur.curation.build.curate import curate
from demur.curation.build.rebuild import enlarge, rebuild
from demur.release import Release
from demur.release.facts import QUESTIONS, REQUIRED

CARD = {
    "url": "https://example.org/towns",
    "language": ["en"],
    "annotation": "Two people checked 40 items; they agreed on 38.",
    "biases": "Towns of one invented country.",
    "social_impact": "None is expected.",
    "sensitive": "It holds none: all names are invented.",
    "synthetic": True,
    "maintenance": "Errors go to the page's list of issues.",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("source") / "towns")


@pytest.fixture(scope="module")
def bare(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("bare") / "out"
    curate(world.recipe(source, world.GATES), out)
    return out


def described(recipe, **card):
    data = recipe.model_dump(mode="json") | {"card": CARD | card, "authors": ["Ada Example"]}
    return type(recipe).model_validate(data)


@pytest.fixture(scope="module")
def stated(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("stated") / "out"
    curate(described(world.recipe(source, world.GATES)), out)
    return out / "release"


def test_what_only_people_know_is_asked_for_by_name(bare, stated, capsys):
    assert main(["release", "verify", str(bare / "release"), "--submission", "--json"]) == 1
    missing = yaml.safe_load(capsys.readouterr().out)["missing"]
    assert missing.keys() == {*(f"card.{name}" for name in REQUIRED), "authors"}
    assert main(["release", "verify", str(bare / "release")]) == 0
    capsys.readouterr()
    assert main(["release", "verify", str(stated), "--submission"]) == 0
    assert "missing" not in capsys.readouterr().out
    assert set(REQUIRED) <= QUESTIONS.keys()


def test_facts_of_people_stand_in_card_and_croissant(stated):
    croissant = read_json(stated / "croissant.json")
    assert (croissant["url"], croissant["inLanguage"]) == (CARD["url"], ["en"])
    assert croissant["rai:hasSyntheticData"] is True
    assert CARD["biases"] in croissant["rai:dataBiases"]
    assert croissant["rai:dataSocialImpact"] == CARD["social_impact"]
    assert croissant["rai:personalSensitiveInformation"] == [CARD["sensitive"]]
    assert croissant["rai:dataReleaseMaintenancePlan"].startswith(CARD["maintenance"])
    assert any("Two people" in text for text in croissant["rai:dataAnnotationProtocol"])
    manifest = read_json(stated / "manifest.json")
    assert f"{manifest['counts']['samples']:,} questions" in croissant["rai:dataCollection"]
    front, first_screen = (stated / "README.md").read_text().split("---\n")[1:3]
    assert yaml.safe_load(front)["language"] == ["en"]
    assert yaml.safe_load(front)["size_categories"] == ["n<1K"]
    head = first_screen[:2500]
    for part in (CARD["url"], "@misc{", "load_dataset", "canary GUID", "Ada Example"):
        assert part in head


def test_a_release_without_facts_claims_none(bare):
    croissant = read_json(bare / "release" / "croissant.json")
    assert (
        not {
            "rai:dataSocialImpact",
            "rai:personalSensitiveInformation",
            "rai:hasSyntheticData",
            "url",
        }
        & croissant.keys()
    )


def test_every_row_carries_the_canary_and_rebuilds_keep_it(bare, tmp_path):
    old = Release.open(bare / "release")
    guid = old.manifest["canary"]
    for table in ("samples", "evidence"):
        assert all(guid in text for text in old.column(table, "canary"))
    with trusting(code=True):
        enlarged = enlarge(bare, [world.text_only("other")], tmp_path / "more")
        assert rebuild(enlarged).release.manifest["canary"] == guid


def test_a_row_without_the_canary_is_found(bare, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(bare / "release", folder)
    path = folder / "data" / "evidence.parquet"
    table = pq.read_table(path)
    rows = table.column("canary").to_pylist()
    rows[0] = ""
    place = table.schema.get_field_index("canary")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(rows)), path)
    seal(folder)
    assert "evidence.parquet: 1 rows do not carry the canary" in wrong(folder)


def test_a_build_that_goes_on_the_next_day_writes_the_same_bytes(source, tmp_path, monkeypatch):
    recipe = world.recipe(source, world.GATES)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())))
    first = world.bytes_of(curate(recipe, tmp_path / "out").release.folder)
    assert read_json(tmp_path / "out/release/croissant.json")["datePublished"] == "2026-03-01"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())))
    shutil.rmtree(tmp_path / "out" / "release")
    assert world.bytes_of(curate(recipe, tmp_path / "out").release.folder) == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with raises(UsageError, "yesterday", item="SOURCE_DATE_EPOCH"):
        curate(recipe, tmp_path / "other")


def test_a_stated_day_and_canary_are_used(source, tmp_path):
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    recipe = described(world.recipe(source, world.GATES), published="2026-05-04", canary=guid)
    manifest = curate(recipe, tmp_path / "out").release.manifest
    assert (manifest["published"], manifest["canary"]) == ("2026-05-04", guid)


def test_a_manifest_without_canary_is_no_release(bare, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(bare / "release", folder)
    manifest = read_json(folder / "manifest.json")
    write_json(folder / "manifest.json", {k: v for k, v in manifest.items() if k != "canary"})
    with raises(ReleaseError, "canary", item=str(folder / "manifest.json")):
        Release.open(folder)


def test_a_card_of_a_stranger_is_checked_before_it_is_shown(bare, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(bare / "release", folder)
    manifest = read_json(folder / "manifest.json")
    write_json(folder / "manifest.json", manifest | {"card": {"language": 3}})
    with raises(ReleaseError, "card", item=str(folder / "manifest.json")):
        Release.open(folder)
