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
from PIL import Image

from demur.errors import BadInput
from demur.pipeline.curate import curate
from demur.store import Problems, read_jsonl

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
    text = (folder / "demur-map.yaml").read_text().replace("gold: gold,", "gold: gold, negatives: bad,")
    (folder / "demur-map.yaml").write_text(text)
    edit(folder, "questions.jsonl", lambda rows: [row.setdefault("bad", []) for row in rows])
    return folder


def add_picture(folder, id, data):
    (folder / f"{id}.img").write_bytes(data)
    picture = {"id": id, "title": id, "file": f"{id}.img", "page": id}
    edit(folder, "pictures.jsonl", lambda rows: rows.append(picture))


def test_samples_that_give_their_answer_away_are_told_and_left_out(source, tmp_path):
    add_picture(source, "same", (source / "q1.png").read_bytes())

    def change(rows):
        rows[0]["question"] = f"Is {rows[0]['answers'][0]} the mayor of Town0?"
        rows[1]["gold"] = ["p1", "same"]

    edit(source, "questions.jsonl", change)
    with pytest.raises(BadInput) as raised:
        curate(world.recipe(source, KNOWS_NOTHING), tmp_path / "out")
    assert raised.value.problems == (
        "questions.jsonl:1 (q0): the answer stands in the question",
        "questions.jsonl:2 (q1): its gold evidence same is the query image itself",
    )
    built = curate(world.recipe(source, KNOWS_NOTHING), tmp_path / "out", skip_bad=True)
    assert not {"q0", "q1"} & {s.id for s in built.release.samples()}
    assert built.release.manifest["skipped_bad"] == 2


def test_native_negatives_that_leak_are_dropped_each_with_its_reason_and_once(source, tmp_path):
    add_picture(source, "query", (source / "q5.png").read_bytes())
    add_picture(source, "copy", smaller(source / "q5.png"))
    gold = next(row for _, row in read_jsonl(source / "passages.jsonl", Problems()) if row["id"] == "p5")
    again = {**gold, "id": "again", "page": "again", "text": gold["text"] + " Also."}
    edit(source, "passages.jsonl", lambda rows: rows.append(again))

    def change(rows):
        rows[5]["bad"] = ["query", "copy", "again", "n3.0"]

    edit(source, "questions.jsonl", change)
    built = curate(world.recipe(source, KNOWS_NOTHING), tmp_path / "out")  # which verifies what it froze
    why = [(d.evidence, d.reason) for d in built.release.drops() if d.sample == "q5" and d.stage == "mine"]
    assert len(why) == len(set(why)) == len({e for e, _ in why})
    assert (
        dict(why).items()
        >= {"query": "query image", "copy": "near-duplicate of query", "again": "near-duplicate of gold"}.items()
    )
    kept = next(s for s in built.release.samples() if s.id == "q5")
    assert "n3.0" in {e.id for e in kept.negatives if e.origin == "native"}
    assert not {"query", "copy", "again"} & {e.id for e in kept.negatives}


@pytest.mark.integration
def test_the_same_bytes_in_another_place_time_zone_language_and_order_of_hashing(tmp_path):
    recipe = world.recipe(world.folder(tmp_path / "towns"), world.GATES).model_dump(mode="json")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    whole = tmp_path / "plain"
    command = [sys.executable, "-m", "demur", "build"]
    path = os.pathsep.join([str(Path(world.__file__).parent), str(Path(__file__).parents[2])])
    env = {**os.environ, "PYTHONPATH": path}
    subprocess.run([*command, tmp_path / "recipe.yaml", "--out", whole], env=env, check=True, capture_output=True)
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    (tmp_path / "else" / "recipe.yaml").symlink_to(tmp_path / "recipe.yaml")
    odd = {"TZ": "Pacific/Kiritimati", "LANG": "tr_TR.UTF-8", "LC_ALL": "POSIX",
           "PYTHONHASHSEED": "7", "HOME": str(elsewhere), "TMPDIR": str(elsewhere), "COLUMNS": "20"}  # fmt: skip
    done = subprocess.run(
        [*command, "../../recipe.yaml", "--out", "an out \u00fc", "--concurrency", "1"], cwd=elsewhere,
        env=env | odd, preexec_fn=lambda: os.umask(0o077), capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert world.bytes_of(elsewhere / "an out \u00fc" / "release") == world.bytes_of(whole / "release")
