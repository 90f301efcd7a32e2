"""Sources that give answers away, and builds under other circumstances: the release is sound, and the same bytes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import curation_world as world
import pytest
import yaml
from errors import places, raises
from PIL import Image

from demur.cli import main
from demur.core.errors import BadInput
from demur.core.store import Problems, read_jsonl
from demur.curation.build.curate import curate

KNOWS_NOTHING = [world.simulated("weak", strength=0.0)]


def edit(folder, name, change):
    rows = [row for _, row in read_jsonl(folder / name, Problems())]
    change(rows)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def smaller(path):
    out = io.BytesIO()
    Image.open(path).convert("RGB").resize((50, 50)).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def source(tmp_path):
    folder = world.folder(tmp_path / "towns")
    text = (
        (folder / "demur-map.yaml")
        .read_text()
        .replace("gold: gold,", "gold: gold, negatives: bad,")
    )
    (folder / "demur-map.yaml").write_text(text)
    edit(folder, "questions.jsonl", lambda rows: [row.setdefault("bad", []) for row in rows])
    return folder


def add_picture(folder, id, data):
    (folder / f"{id}.img").write_bytes(data)
    picture = {"id": id, "title": id, "file": f"{id}.img", "page": id}
    edit(folder, "pictures.jsonl", lambda rows: rows.append(picture))


@pytest.mark.heavy
def test_samples_that_give_their_answer_away_are_told_and_left_out(source, tmp_path):
    add_picture(source, "same", (source / "q1.png").read_bytes())
    add_picture(source, "small", smaller(source / "q3.png"))

    def change(rows):
        rows[0]["question"] = f"Is {rows[0]['answers'][0]} the mayor of Town0?"
        rows[1]["gold"] = ["p1", "same"]
        rows[3]["gold"] = ["p3", "small"]

    edit(source, "questions.jsonl", change)
    with raises(BadInput, cure="--skip-bad") as raised:
        curate(world.recipe(source, KNOWS_NOTHING), tmp_path / "out")
    assert places(raised.value.problems) == [f"questions.jsonl:{n} (q{n - 1})" for n in (1, 2, 4)]
    assert "towns:same" in raised.value.problems[1]
    assert "towns:small" in raised.value.problems[2]
    built = curate(world.recipe(source, KNOWS_NOTHING), tmp_path / "out", skip_bad=True)
    assert not {"towns:q0", "towns:q1", "towns:q3"} & {s.id for s in built.release.samples()}
    assert built.release.manifest["skipped_bad"] == 3


LEAKS = {
    "query": "query image",
    "copy": "near-duplicate of query",
    "again": "near-duplicate of gold",
    "says": "holds the answer",
}


@pytest.fixture
def leaky(source):
    """A source whose question q5 has five native negatives of its own, four of which leak."""
    add_picture(source, "query", (source / "q5.png").read_bytes())
    add_picture(source, "copy", smaller(source / "q5.png"))
    gold = next(
        row for _, row in read_jsonl(source / "passages.jsonl", Problems()) if row["id"] == "p5"
    )
    again = {**gold, "id": "again", "page": "again", "text": gold["text"] + " Also."}
    says = {
        "id": "says",
        "title": "A letter",
        "page": "says",
        "text": f"It was {world.mayor(5)}'s idea to write this.",
    }
    edit(source, "passages.jsonl", lambda rows: rows.extend([again, says]))
    edit(source, "questions.jsonl", lambda rows: rows[5].update(bad=[*LEAKS, "n3.0"]))
    return source


@pytest.mark.heavy
def test_native_negatives_that_leak_are_dropped_each_with_its_reason_and_once(leaky, tmp_path):
    built = curate(
        world.recipe(leaky, KNOWS_NOTHING), tmp_path / "out"
    )  # which verifies what it froze
    why = [
        (d.evidence, d.reason)
        for d in built.release.drops()
        if d.sample == "towns:q5" and d.stage == "mine"
    ]
    assert len(why) == len(set(why)) == len({e for e, _ in why})
    assert dict(why).items() >= {f"towns:{id}": reason for id, reason in LEAKS.items()}.items()
    kept = next(s for s in built.release.samples() if s.id == "towns:q5")
    assert "towns:n3.0" in {e.id for e in kept.negatives if e.origin == "native"}
    assert not {f"towns:{id}" for id in LEAKS} & {e.id for e in kept.negatives}


@pytest.mark.heavy
def test_demur_mine_drops_the_same_native_negatives(leaky, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by = ["--encoder", "curation_world:quick"]
    assert main(["pool", "build", "generic:towns", "--documents", "--out", "pool"]) == 0
    assert main(["index", "build", "pool", "--out", "index", *by]) == 0
    command = [
        "mine",
        "pool",
        "--index",
        "index",
        *by,
        "--out",
        "mined",
        "--text",
        "40",
        "--visual",
        "20",
    ]

    def rows(name, key):
        found = (row for _, row in read_jsonl(tmp_path / "mined" / name, Problems()))
        return [row for row in found if row[key] == "towns:q5"]

    assert main(command) == 0
    drops = {row["evidence"].removeprefix("towns:"): row for row in rows("drops.jsonl", "sample")}
    assert len(drops) == len(rows("drops.jsonl", "sample"))
    assert {id: row["reason"] for id, row in drops.items()}.items() >= LEAKS.items()
    assert (drops["again"]["detail"], drops["says"]["detail"]) == ("towns:p5", world.mayor(5))
    (sample,) = rows("samples.jsonl", "id")
    assert [e["id"] for e in sample["negatives"] if e["origin"] == "native"] == ["towns:n3.0"]
    assert not {f"towns:{id}" for id in LEAKS} & {e["id"] for e in sample["negatives"]}
    assert main([*command, "--negatives", "mined"]) == 0
    (sample,) = rows("samples.jsonl", "id")
    assert {e["origin"] for e in sample["negatives"]} == {"mined"}
    assert not {f"towns:{id}" for id in LEAKS} & {e["id"] for e in sample["negatives"]}


@pytest.mark.slow
@pytest.mark.integration
def test_the_same_bytes_in_another_place_time_zone_language_and_order_of_hashing(tmp_path):
    recipe = world.recipe(world.folder(tmp_path / "towns"), world.GATES).model_dump(mode="json")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    whole = tmp_path / "plain"
    command = [sys.executable, "-m", "demur", "build"]
    path = os.pathsep.join([str(Path(world.__file__).parent), str(Path(__file__).parents[2])])
    env = {**os.environ, "PYTHONPATH": path}
    subprocess.run(
        [*command, tmp_path / "recipe.yaml", "--out", whole],
        env=env,
        check=True,
        capture_output=True,
    )
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    (tmp_path / "else" / "recipe.yaml").symlink_to(tmp_path / "recipe.yaml")
    odd = {
        "TZ": "Pacific/Kiritimati",
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "POSIX",
        "PYTHONHASHSEED": "7",
        "HOME": str(elsewhere),
        "TMPDIR": str(elsewhere),
        "COLUMNS": "20",
    }
    done = subprocess.run(
        [*command, "../../recipe.yaml", "--out", "an out \u00fc", "--concurrency", "1"],
        cwd=elsewhere,
        env=env | odd,
        preexec_fn=lambda: os.umask(0o077),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert world.bytes_of(elsewhere / "an out \u00fc" / "release") == world.bytes_of(
        whole / "release"
    )
