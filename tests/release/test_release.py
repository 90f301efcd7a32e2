"""Releases: every planted defect is found, and the folder opens anywhere without its sources."""

from __future__ import annotations

import json
import shutil

import curation_world as world
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from curation_world import seal, wrong
from errors import raises

from demur.core.errors import ReleaseError, UsageError
from demur.core.records import Evidence, Role
from demur.core.store import read_json, write_json
from demur.curation.build.curate import curate
from demur.release import Draft, FunnelStep, Release, count_all, documents_of, freeze
from demur.release.card import render_card, render_citation
from demur.release.croissant import croissant_metadata
from demur.release.push import push


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    source = world.folder(root / "towns")
    built = curate(world.recipe(source, world.GATES), root / "out")
    shutil.rmtree(source)
    moved = root / "elsewhere"
    shutil.copytree(built.release.folder, moved)
    shutil.rmtree(root / "out")
    return moved


def frozen_again(folder, out, change):
    """The same release with changed samples, frozen by the real code: only what is wrong with the samples is wrong."""
    old = Release.open(folder)
    samples = [change(s) for s in old.samples()]
    about = {
        k: v
        for k, v in old.manifest.items()
        if k not in ("files", "sha256", "counts", "name", "version", "format", "demur")
    }
    steps = [FunnelStep.model_validate(s) for s in old.funnel]
    freeze(
        out,
        Draft(
            name=old.name,
            version=old.version,
            samples=samples,
            read_image=old.read_image,
            drops=old.drops(),
            funnel=steps,
            recall=old.recall,
            about=about | {"gates": []},
        ),
    )
    return wrong(out)


@pytest.mark.heavy
def test_a_sound_release_has_no_problems_and_opens_with_datasets(release):
    from datasets import load_dataset

    assert wrong(release) == ""
    samples = load_dataset(str(release), "samples", split="test")
    evidence = load_dataset(str(release), "evidence", split="test")
    assert len(samples) == Release.open(release).manifest["counts"]["samples"]
    by_id = {row["id"]: row for row in evidence}
    assert {e["id"] for row in samples for e in (*row["gold"], *row["negatives"])} == set(by_id)
    pictures = [image for row in samples for image in row["images"]]
    assert pictures
    assert all(p.size == (64, 64) for p in pictures)
    assert {row["image"].size for row in evidence if row["image"] is not None} <= {(64, 64)}


def test_nothing_of_this_machine_stands_in_it(release, tmp_path_factory):
    root = str(tmp_path_factory.getbasetemp()).encode()
    for name, data in world.bytes_of(release).items():
        assert root not in data, name
    manifest = read_json(release / "manifest.json")
    assert {
        "recipe",
        "demur",
        "gate_models",
        "prompts",
        "sources",
        "seed",
        "judge",
        "encoder",
        "retest",
    } <= set(manifest)
    assert manifest["gate_models"]["weak"]["decoding"] == {"strength": 0.2}


def first(samples):
    done = []

    def only(change):
        def apply(sample):
            if done or not (new := change(sample)):
                return sample
            done.append(1)
            return new

        return apply

    return only(samples)


def test_leaks_are_found(release, tmp_path):
    def gold_again(s):
        e = s.gold[0].model_copy(update={"id": "copy", "role": Role.DISTRACTOR})
        return s.model_copy(update={"negatives": (*s.negatives, e)})

    def nearly_gold(s):
        e = s.gold[0]
        text = e.text + " Also."
        near = e.model_copy(update={"id": "near", "role": Role.DISTRACTOR, "text": text})
        return s.model_copy(update={"negatives": (*s.negatives, near)})

    def says_it(s):
        return s.model_copy(update={"question": f"Is {s.answers.display_form} the mayor?"})

    def shows_it(s):
        if not s.images:
            return None
        e = Evidence(
            id="itself", modality="image", title="x", image=s.images[0], role=Role.DISTRACTOR
        )
        return s.model_copy(update={"negatives": (*s.negatives, e)})

    def starved(s):
        return s.model_copy(update={"negatives": s.negatives[:1]})

    def goldless(s):
        return s.model_copy(update={"gold": ()})

    for i, (change, told) in enumerate(
        [
            (gold_again, "has the content of gold"),
            (nearly_gold, "near-duplicate of gold"),
            (says_it, "answer stands in"),
            (shows_it, "is the query image itself"),
            (starved, "fewer than K_min=2"),
            (goldless, "has no gold evidence"),
        ]
    ):
        assert told in frozen_again(release, tmp_path / str(i), first(change)), told


def edit(path, change):
    value = read_json(path)
    change(value)
    write_json(path, value)


def test_broken_files_are_found(copy):
    (copy / "funnel.json").write_text("[]\n")
    (copy / "extra.txt").write_text("x")
    (copy / "CITATION.cff").unlink()
    found = wrong(copy)
    assert "CITATION.cff: missing" in found
    assert "funnel.json: changed" in found
    assert "extra.txt: not part" in found
    assert "CITATION.cff: missing" in found


def test_a_flipped_byte_in_a_table_is_found(copy):
    path = copy / "data" / "evidence.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert "data/evidence.parquet: changed" in wrong(copy)


def test_a_file_that_is_not_even_json_is_told(copy):
    for name in ("funnel.json", "croissant.json"):
        whole = (copy / name).read_bytes()
        (copy / name).write_text("{")
        seal(copy)
        assert f"{name}:" in wrong(copy)
        (copy / name).write_bytes(whole)
    (copy / "drops.jsonl").write_text("[1]\n")
    (copy / "funnel.json").write_text('[{"stage": 3}]')
    seal(copy)
    assert "not what it should be" in wrong(copy)


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("manifest.json", lambda m: m["counts"].update(samples=99), "counts"),
        ("manifest.json", lambda m: m["pools"].update(towns=7), "README.md: "),
        ("manifest.json", lambda m: m.update(version="9.9.9"), "CITATION.cff: "),
        ("funnel.json", lambda f: f[1].update(kept=f[1]["kept"] + 1), "funnel.json: "),
        ("funnel.json", lambda f: f[1]["dropped"].clear(), "funnel.json: "),
        ("funnel.json", lambda f: f[-1].update(entered=99, kept=99), "99"),
        ("croissant.json", lambda c: c.update(name="other"), "croissant.json: "),
    ],
)
def test_statements_that_do_not_follow_are_found(copy, file, change, told):
    edit(copy / file, change)
    seal(copy)
    assert told in wrong(copy)


def test_a_count_changed_in_the_card_is_found(copy):
    text = (copy / "README.md").read_text()
    (copy / "README.md").write_text(text.replace("| unique questions | ", "| unique questions | 1"))
    seal(copy)
    assert wrong(copy).splitlines() == [
        "croissant.json: does not follow from manifest and files",
        "README.md: does not follow from the manifest and the tables",
    ]


def test_a_gate_that_was_right_is_found(copy):
    path = copy / "gates.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["labels"]["weak"] = "correct"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    seal(copy)
    assert "a gate is right about" in wrong(copy)
    assert "was not" in wrong(copy)


def test_an_image_that_is_not_its_hash_and_a_missing_document_are_found(copy):
    path = copy / "data" / "evidence.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    place = next(i for i, row in enumerate(rows) if row["image"])
    rows[place]["image"]["bytes"] = world.picture(77)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    seal(copy)
    assert "not those it was released with" in wrong(copy)
    pq.write_table(pa.Table.from_pylist(rows[1:], schema=table.schema), path)
    seal(copy)
    assert rows[0]["id"] in wrong(copy)


def test_what_is_no_release_is_refused(tmp_path, copy):
    with raises(ReleaseError, item=tmp_path / "nowhere"):
        Release.open(tmp_path / "nowhere")
    (copy / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match="manifest"):
        Release.open(copy)


@pytest.mark.parametrize("target", ["hf:nobody", "a-folder"])
def test_a_release_is_pushed_to_a_repository_of_the_hub(release, target):
    with raises(UsageError, cure="hf:OWNER/NAME"):
        push(Release.open(release), target)


def test_the_card_is_a_function_of_what_it_describes(release):
    opened = Release.open(release)
    samples = list(opened.samples())
    documents = documents_of(samples)
    assert count_all(samples, documents) == opened.manifest["counts"]
    steps = [FunnelStep.model_validate(s) for s in opened.funnel]
    text = render_card(
        release, opened.manifest, samples, documents, steps, list(opened.drops()), opened.recall
    )
    assert text == (release / "README.md").read_text()
    assert "## Topics before and after" in text
    assert render_citation(opened.manifest) == (release / "CITATION.cff").read_text()
    assert croissant_metadata(opened.manifest, opened.manifest["files"])["conformsTo"] == [
        "http://mlcommons.org/croissant/1.1",
        "http://mlcommons.org/croissant/RAI/1.0",
    ]


def test_datasets_gives_the_rows_of_the_release_that_was_asked_for(tmp_path):
    """Two releases in folders of one name, and one rebuilt in place, in one process over one cache."""
    from datasets import load_dataset

    def built(place, n, version="1.0.0", **more):
        source = world.folder(tmp_path / f"towns{n}", n)
        recipe = world.recipe(source, world.GATES, version=version, **more)
        return curate(recipe, tmp_path / place).release.folder

    def rows(folder, table):
        loaded = load_dataset(
            str(folder), table, split="test", cache_dir=str(tmp_path / "cache")
        ).to_list()
        return [row["id"] for row in loaded], [
            row.get("question", row.get("text")) for row in loaded
        ]

    def on_disk(folder, table):
        held = pq.read_table(folder / "data" / f"{table}.parquet").to_pylist()
        return [row["id"] for row in held], [row.get("question", row.get("text")) for row in held]

    small, large = built("a", 6), built("b", 14)
    assert small.name == large.name
    for folder in (large, small):
        for table in ("samples", "evidence"):
            assert rows(folder, table) == on_disk(folder, table)
    # the same counts and sizes, one word changed
    old = Release.open(large)
    frozen_again(
        large,
        large,
        lambda s: s.model_copy(update={"question": s.question.replace("Who", "Whm")}),
    )
    assert Release.open(large).version == old.version
    assert rows(large, "samples") == on_disk(large, "samples")
    assert rows(large, "samples")[1][0].startswith("Whm")
