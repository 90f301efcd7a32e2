"""MM-THEBench's build: drafts by a model, their review by people, frames of videos, and what the manifest says."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from errors import raises
from strategies import png

import demur_suites
from demur.cli import main
from demur.core.errors import DataError, UsageError
from demur.core.store import read_json, write_records
from demur.judge.annotation.task import Session
from demur_suites.mm_thebench.build import SOUND, TOO_COMPLEX, UNSOUND
from demur_suites.mm_thebench.items import Dimension, Item, Step

SUITE = demur_suites.suite("mm_thebench")
RUBRIC = {
    "question": "Does it follow?",
    "points": 4,
    "dimension": "reasoning",
    "subcategory": "deductive",
    "steps": [1],
}


def drafts(request):
    text = request.messages[0].parts[-1].text
    if "Q0?" in text:
        return "no JSON"
    number = 4 if "Q1?" in text else 1
    step = {"step_id": number, "step_type": "reasoning", "step_content": "It follows."}
    return json.dumps({"steps": [step], "rubric": [RUBRIC]})


@pytest.fixture
def drafter(monkeypatch, tmp_path):
    """A model that drafts, and the parts of each call to it."""
    asked = []
    module = ModuleType("drafting")
    module.drafts = lambda request: asked.append(request.messages[0].parts) or drafts(request)
    module.dumb = lambda request: "no JSON"
    monkeypatch.setitem(sys.modules, "drafting", module)
    monkeypatch.chdir(tmp_path)
    return asked


def test_drafts_go_to_people_and_come_back_reviewed(drafter, tmp_path, capsys):
    items = [Item(id=f"i{n}", question=f"Q{n}?", answers=("yes",)) for n in range(6)]
    write_records(tmp_path / "items.jsonl", items)
    build = ["suite", "build", "mm_thebench", "--items", "items.jsonl", "--out", "set"]
    build += ["--drafter", "python:drafting:drafts"]
    assert main(build) == 0
    manifest = read_json(tmp_path / "set" / "manifest.json")
    assert manifest["items"] == 6
    assert sum(manifest["left_out"].values()) == 2  # i0 and i1, whose drafts are none
    assert manifest["decisions"] == {"without steps": 2, "not reviewed yet": 4}
    assert "demur annotate --out set/queue" in capsys.readouterr().err
    session = Session(tmp_path / "set" / "queue", "ann")
    labels = dict(
        zip((p.item for p in session.places), (SOUND, UNSOUND, TOO_COMPLEX), strict=False)
    )
    for at, place in enumerate(session.places):
        if place.item in labels:
            session.act("label", at, label=labels[place.item])
    session.close()
    assert main(build) == 0
    made = SUITE.open(tmp_path / "set").items
    assert [i.reviewed_by for i in made].count("ann") == 1
    assert sum(i.too_complex for i in made) == 1
    assert read_json(tmp_path / "set" / "manifest.json")["decisions"]["unsound"] == 1


def test_a_draft_is_written_from_the_picture_and_a_rubric_from_steps_that_stand(drafter, tmp_path):
    (tmp_path / "red.png").write_bytes(png("red"))
    mended = Step(id=1, types=(Dimension.PERCEPTION,), content="It is red.")
    shared = {"question": "Which colour?", "answers": ("red",), "images": ("red.png",)}
    several = [
        Item(id="bare", **shared),
        Item(id="mended", steps=(mended,), reviewed_by="ann", **shared),
    ]
    write_records(tmp_path / "items.jsonl", several)
    out = SUITE.build("set", items="items.jsonl", drafter="python:drafting:drafts")
    made = {i.id: i for i in SUITE.open(out).items}
    assert made["mended"].steps == (mended,)  # what people mended is not written over
    assert [r.points for r in made["mended"].rubric] == [4]
    assert made["mended"].reviewed_by == ""  # its rubric is a draft
    assert [[p.type for p in parts] for parts in drafter] == [["image", "text"]] * 2
    SUITE.build("blind", items="items.jsonl", drafter="python:drafting:drafts?images=no")
    assert [p.type for p in drafter[-1]] == ["text"]


def test_a_drafter_without_one_usable_draft_ends_the_build(drafter, tmp_path):
    items = [Item(id=f"i{n}", question=f"Q{n}?", answers=("yes",)) for n in range(6)]
    write_records(tmp_path / "items.jsonl", items)
    with pytest.raises(DataError) as error:
        SUITE.build("set", items="items.jsonl", drafter="python:drafting:dumb")
    assert (error.value.item, bool(error.value.cure)) == ("i0", True)


def test_frames_of_a_video_become_pictures(tmp_path):
    av = pytest.importorskip("av", reason="no PyAV: pip install './suites[video]'")
    from PIL import Image

    container = av.open(str(tmp_path / "clip.mp4"), "w")
    stream = container.add_stream("mpeg4", rate=10)
    stream.width = stream.height = 64
    stream.pix_fmt = "yuv420p"
    for n in range(40):  # four seconds, brighter each second
        frame = av.VideoFrame.from_image(Image.new("RGB", (64, 64), (60 * (n // 10),) * 3))
        container.mux(stream.encode(frame))
    container.mux(stream.encode())
    container.close()
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    videos = [
        {"path": "clip.mp4", "frames": 4},
        {"path": "clip.mp4", "start": 2, "end": 4, "frames": 2},
        {"path": "bad.mp4"},
    ]
    rows = [
        Item(id=f"v{n}", question="What?", answers=("x",), video=v) for n, v in enumerate(videos)
    ]
    write_records(tmp_path / "items.jsonl", rows)
    with raises(UsageError, item="items.jsonl", cure="demur suite build mm_thebench"):
        SUITE.run(tmp_path / "items.jsonl", lambda question: "x", tmp_path / "runs")
    out = SUITE.build(tmp_path / "out", items=str(tmp_path / "items.jsonl"))
    found = SUITE.open(out).items
    assert [len(i.pictures) for i in found] == [4, 2, 0]  # one bad video ends nothing
    assert sum(read_json(out / "manifest.json")["left_out"].values()) == 1
    light = [Image.open(out / uri).convert("L").getpixel((32, 32)) for uri in found[0].images]
    assert light == pytest.approx([0, 60, 120, 180], abs=12)
    assert {i.modality for i in found} == {"video"}
    uris = [uri for i in found for uri in i.images]
    assert len(set(uris)) == len(uris)
