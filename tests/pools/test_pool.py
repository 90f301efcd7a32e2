"""Pools: prefixed ids, images beside them, duplicates across sources, statistics, determinism."""

import io
import json
import subprocess
import sys

import mini_sources as mini
import pytest
from curation_world import N, folder
from errors import raises
from PIL import Image

from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.core.records import Sample
from demur.core.store import PROBLEMS_KEPT, Problems, digest
from demur.core.uris import read_image
from demur.curation.build.recipe import SourceSpec
from demur.curation.build.sample_pool import sample_sources
from demur.pools.read import Pool
from demur.pools.write import build
from demur.release import Draft
from demur.sources import open_source
from demur.sources.check import check

SIX = ("webqa", "mrag", "infoseek", "evqa", "viquae", "mmdocrag")


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    folder = tmp_path_factory.mktemp("six")
    return {name: mini.BUILDERS[name](folder / name) for name in SIX}


def sources(folders):
    return [open_source(name, folder, Problems()) for name, folder in folders.items()]


def test_six_sources_make_one_pool(six, tmp_path):
    counts = build(sources(six), tmp_path / "pool", documents=True)
    assert [row.source for row in counts.sources] == list(SIX)
    assert {row.source: (row.samples, row.query, row.context) for row in counts.sources} == {
        "webqa": (2, "Textual", "Multi"),
        "mrag": (2, "Multi", "Visual"),
        "infoseek": (4, "Multi", "Textual"),
        "evqa": (5, "Multi", "Textual"),
        "viquae": (2, "Multi", "Textual"),
        "mmdocrag": (3, "Textual", "Multi"),
    }
    pool = Pool(tmp_path / "pool")
    samples = list(pool.samples())
    assert not pool.problems.lines
    assert counts.samples == len(samples) == len({s.id for s in samples}) == 18
    assert all(s.id.startswith(f"{s.source}:") for s in samples)
    documents = {d.id for d in pool.documents()}
    assert sum(row.documents for row in counts.sources) == len(documents)
    native = {s.id: s for source in sources(six) for s in source.samples()}
    for sample in samples:
        before = native[sample.id.partition(":")[2]]
        assert (sample.question, sample.answers, sample.native) == (
            before.question,
            before.answers,
            before.native,
        )
        assert [e.text for e in sample.gold] == [e.text for e in before.gold]
        assert [e.id for e in sample.negatives] == [
            f"{sample.source}:{e.id}" for e in before.negatives
        ]
        refs = [*sample.images, *(e.image for e in (*sample.gold, *sample.negatives) if e.image)]
        for ref in refs:
            assert ref.uri.startswith("images/")
            assert digest(read_image(ref, pool.root)) == ref.sha256
        assert {e.id for e in sample.negatives} <= documents
    assert counts.question_words == round(sum(len(s.question.split()) for s in samples) / 18, 4)
    assert counts.gold == round(sum(len(s.gold) for s in samples) / 18, 4)


def test_the_same_sources_give_the_same_bytes(six, tmp_path):
    for name in ("a", "b"):
        build(sources(six), tmp_path / name, documents=True)
    assert (tmp_path / "a/pool.json").read_bytes() == (tmp_path / "b/pool.json").read_bytes()
    held = json.loads((tmp_path / "a/pool.json").read_text())["files"]
    assert set(held) == {"samples.jsonl", "documents.jsonl", "duplicates.jsonl", "left-out.jsonl"}
    build(sources(six), tmp_path / "a")
    assert not (tmp_path / "a/documents.jsonl").exists()


def test_bad_rows_stop_a_pool_unless_they_may_be_skipped(tmp_path):
    mini.infoseek(tmp_path / "i")
    (tmp_path / "i/oven_images/00/oven_00000042.jpg").unlink()
    with raises(BadInput, "infoseek_val.jsonl:1 (infoseek_val_00000007)", item="infoseek"):
        build(sources({"infoseek": tmp_path / "i"}), tmp_path / "pool")
    assert not (tmp_path / "pool/samples.jsonl").exists()
    assert [p.name for p in (tmp_path / "pool").iterdir() if p.is_file()] == []
    counts = build(sources({"infoseek": tmp_path / "i"}), tmp_path / "pool", skip_bad=True)
    (row,) = counts.sources
    assert (row.read, row.samples, row.defective, row.bad) == (4, 3, 1, 1)
    left = [
        json.loads(line) for line in (tmp_path / "pool/left-out.jsonl").read_text().splitlines()
    ]
    assert left[0]["sample"] == "infoseek:infoseek_val_00000007"
    assert left[0]["reason"] == "query image missing: oven_00000042"
    kept = [s.id for s in Pool(tmp_path / "pool").samples()]
    assert kept == [f"infoseek:infoseek_val_{n:08d}" for n in (8, 9, 10)]


def generic(folder, name, rows):
    mini.put(
        folder / "demur-map.yaml",
        f"name: {name}\nsamples: {{files: [q.jsonl], fields: {{images: pic}}}}\n",
    )
    mini.lines(folder / "q.jsonl", rows)
    return open_source("generic", folder, Problems())


def photo(seed, kind):
    """A smooth picture, encoded as asked."""
    image = Image.linear_gradient("L").rotate(seed * 40).convert("RGB").resize((96, 96))
    out = io.BytesIO()
    image.save(out, kind, **({"quality": 70} if kind == "JPEG" else {}))
    return out.getvalue()


@pytest.mark.heavy
@pytest.mark.parametrize("for_release", [False, True])
def test_bad_rows_behind_the_first_thousand_are_counted(tmp_path, for_release):
    towns, bad = folder(tmp_path / "towns"), PROBLEMS_KEPT + 9
    with (towns / "questions.jsonl").open("a") as handle:
        handle.writelines(f'{{"id": "b{n}"}}\n' for n in range(bad))
    with pytest.raises(BadInput, match=f"^{bad} problem"):
        build([open_source("generic", towns)], tmp_path / "refused", for_release=for_release)
    source = open_source("generic", towns)
    counts = build([source], tmp_path / "pool", skip_bad=True, for_release=for_release)
    assert (counts.samples, counts.sources[0].bad) == (N, bad)
    list(source.samples())  # told once, however often it is read
    assert len(source.problems) == bad
    rows = [
        json.loads(line) for line in (tmp_path / "pool/left-out.jsonl").read_text().splitlines()
    ]
    left = [row for row in rows if not row["sample"]]
    assert (len(left), left[-1]["reason"]) == (PROBLEMS_KEPT + 1, "... and 9 more")
    assert [row["sample"] for row in rows if row["sample"]] == [
        f"towns:b{n}" for n in range(PROBLEMS_KEPT)
    ] * for_release


def test_a_draw_and_a_check_count_all_bad_rows(tmp_path):
    towns, bad = folder(tmp_path / "towns"), PROBLEMS_KEPT + 9
    with (towns / "questions.jsonl").open("a") as handle:
        handle.writelines(f'{{"id": "b{n}"}}\n' for n in range(bad))
    spec = SourceSpec(name="generic", path=str(towns))
    assert sample_sources([spec], tmp_path / "draws", seed=1, skip_bad=True).skipped == bad
    with pytest.raises(BadInput, match=f"^{bad} problem"):
        sample_sources([spec], tmp_path / "draws", seed=1)
    checked = check(open_source("generic", towns))
    (finding,) = checked.findings
    assert finding.startswith(f"{PROBLEMS_KEPT:,} rows: ")
    assert PROBLEMS_KEPT + checked.untold == bad


def test_duplicates_across_sources_by_question_and_picture(tmp_path):
    mini.put(tmp_path / "a/x.png", photo(1, "PNG"))
    mini.put(tmp_path / "b/y.jpg", photo(1, "JPEG"))  # the same picture, encoded again
    mini.put(tmp_path / "b/z.png", photo(2, "PNG"))
    first_rows = [
        {"id": "1", "question": "What is it?", "answers": ["A fox", "fox"], "pic": "x.png"},
        {"id": "2", "question": "Text?", "answers": ["t"]},
    ]
    first = generic(tmp_path / "a", "a", first_rows)
    second_rows = [
        {"id": "1", "question": "what is it", "answers": ["fox"], "pic": "y.jpg"},  # the same
        {
            "id": "2",
            "question": "What is it?",
            "answers": ["fox"],
            "pic": "z.png",
        },  # another picture
        {
            "id": "3",
            "question": "What is it?",
            "answers": ["wolf"],
            "pic": "y.jpg",
        },  # another answer
        {"id": "4", "question": "Text?", "answers": ["t"]},
        {"id": "5", "question": "What is it?", "answers": ["fox"]},  # no picture
    ]
    counts = build(
        [first, generic(tmp_path / "b", "b", second_rows)], tmp_path / "pool", drop_duplicates=True
    )
    found = [
        json.loads(line) for line in (tmp_path / "pool/duplicates.jsonl").read_text().splitlines()
    ]
    assert [(f["sample"], f["first"], f["kind"], f["dropped"]) for f in found] == [
        ("b:1", "a:1", "same", True),
        ("b:3", "a:1", "conflict", False),
        ("b:4", "a:2", "same", True),
    ]
    assert [s.id for s in Pool(tmp_path / "pool").samples()] == ["a:1", "a:2", "b:2", "b:3", "b:5"]
    assert counts.duplicate_pairs == 3
    assert counts.sources[1].duplicates == 2
    kept = build(
        [generic(tmp_path / "a", "a", []), generic(tmp_path / "b", "b", second_rows)],
        tmp_path / "all",
        skip_bad=True,
    )
    assert kept.samples == 5  # nothing is dropped unasked


def test_two_sources_of_one_name_are_refused(tmp_path):
    with raises(UsageError, "a, a"):
        build([generic(tmp_path, "a", []), generic(tmp_path, "a", [])], tmp_path / "pool")


def test_two_folders_of_one_adapter_are_both_in_the_pool(tmp_path):
    for name in ("one", "two"):
        folder(tmp_path / name, n=3)
    (tmp_path / "two/demur-map.yaml").write_text(
        (tmp_path / "two/demur-map.yaml").read_text().replace("towns", "two")
    )
    one, two, out = (
        f"generic:{tmp_path / 'one'}",
        f"generic:{tmp_path / 'two'}",
        str(tmp_path / "pool"),
    )
    assert main(["pool", "build", one, two, "--out", out]) == 0
    assert {s.source for s in Pool(tmp_path / "pool").samples()} == {"towns", "two"}
    assert main(["pool", "build", one, one, "--out", out]) == 2  # two of one name
    assert (
        main(["pool", "build", one, "--out", str(tmp_path / "one")]) == 2
    )  # into the folder of the source


def test_pool_from_the_command_line(six, tmp_path, capsys):
    words = [
        f"{name}:{folder}" + ("?types=automatic" if name == "evqa" else "")
        for name, folder in six.items()
    ]
    out = str(tmp_path / "pool")
    assert main(["pool", "build", *words, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 15
    assert main(["pool", "show", out]) == 0
    said = capsys.readouterr().out
    assert "evqa" in said
    assert "query images" in said
    assert main(["sources", "check", f"pool:{out}"]) == 0
    assert main(["pool", "show", str(tmp_path)]) == 2


@pytest.mark.reference
def test_the_sample_that_ships_needs_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # as an installed user: no checkout in sight
    assert (
        main(["pool", "build", "atlas", "--documents", "--limit", "3", "--out", "pool", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["samples"] == 3
    pool = Pool(tmp_path / "pool")
    assert all(d.id.startswith("atlas:") for d in pool.documents())
    assert all(
        digest(read_image(ref, pool.root)) == ref.sha256 for s in pool.samples() for ref in s.images
    )
    assert main(["pool", "build", "webqa", "--out", "other"]) == 2
    assert "webqa: " in capsys.readouterr().err
    assert main(["pool", "build", "nosuch", "--out", "other"]) == 2
    assert not (tmp_path / "other").exists()


def test_a_pool_is_json_lines_of_samples(six, tmp_path):
    build(sources({"webqa": six["webqa"]}), tmp_path / "pool", limit=1)
    (line,) = (tmp_path / "pool/samples.jsonl").read_text().splitlines()
    assert Sample.model_validate_json(line).id == f"webqa:{mini.GUID}"


def test_a_pool_survives_a_release(six, tmp_path):
    from demur.release import Release, freeze

    build(sources(six), tmp_path / "pool")
    pool = Pool(tmp_path / "pool")
    samples = {s.id: s for s in pool.samples()}
    freeze(
        tmp_path / "release",
        Draft(
            name="six",
            version="1.0.0",
            samples=list(samples.values()),
            read_image=lambda ref: read_image(ref, pool.root),
        ),
    )

    def without_places(value):
        if isinstance(value, dict):
            return {k: without_places(v) for k, v in value.items() if k not in ("uri", "native")}
        return [without_places(v) for v in value] if isinstance(value, list) else value

    released = {s.id: s for s in Release.open(tmp_path / "release").samples()}
    assert released.keys() == samples.keys()
    for name, sample in released.items():
        assert without_places(sample.model_dump(mode="json")) == without_places(
            samples[name].model_dump(mode="json")
        )


def test_official_metrics_take_what_the_adapters_give(six):
    """The rule of each sample names a metric that scores its own answer 1 and nonsense 0."""
    from demur.judge.official import METRICS, metric

    for source in sources(six):
        for sample in source.samples():
            rule = sample.answers.rule.partition(":")[0]
            rules = [name for name in METRICS if name.partition("-")[0] == rule]
            assert rules, rule
            if rule == "mragbench":  # asked openly; its letters are scored in the form with options
                continue
            said = sample.answers.canonical or " and ".join(sample.answers.accepted[0])
            for name in rules:
                assert metric(name)(sample.answers, said) == 1.0, (name, sample.answers)
                assert metric(name)(sample.answers, "qwerty 999999") in (0.0, None), (
                    name,
                    sample.answers,
                )
    choice = open_source("mrag", six["mrag"], Problems(), {"form": "choice"})
    for sample in choice.samples():
        assert metric("mragbench")(sample.answers, "(B)") == 1.0
        assert metric("mragbench")(sample.answers, "(A)") == 0.0


@pytest.mark.integration
def test_what_a_killed_pool_left_is_gone_after_the_next(tmp_path):
    """Left half-written by kill -9, under whatever process id."""
    towns = folder(tmp_path / "towns")
    code = (
        "import os, signal, sys; from pathlib import Path; from demur.pools.write import build\n"
        "from demur.sources import open_source\n"
        "source = open_source('generic', Path(sys.argv[1])); whole = source.samples\n"
        "def some():\n    for i, one in enumerate(whole()):\n        yield one\n"
        "        if i == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "source.samples = some; build([source], Path(sys.argv[2]), documents=True)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(towns), str(tmp_path / "pool")], check=False)
    assert any(p.name.startswith(".samples") for p in (tmp_path / "pool").iterdir())
    build([open_source("generic", towns)], tmp_path / "pool", documents=True)
    assert not [p.name for p in (tmp_path / "pool").iterdir() if p.name.startswith(".")]


def test_a_mean_of_nothing_is_none():
    from demur.cli.pool import _mean
    from demur.pools.counts import rounded_mean

    assert (rounded_mean(0, 0), rounded_mean(0, 2), rounded_mean(5, 2)) == (None, 0.0, 2.5)
    assert (_mean(rounded_mean(0, 0)), _mean(rounded_mean(0, 2))) == ("-", "0.0")
