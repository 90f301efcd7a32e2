"""Why wrong answers are wrong; drafts, reviews and their second look; frames of videos; steps that people labelled."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from strategies import png, tiny_release

import demur
import demur_suites
from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Sample
from demur.core.store import write_records
from demur.judge.annotation.task import Session
from demur_suites.mm_thebench.annotation import (
    PATIENCE_S,
    SOUND,
    TOO_COMPLEX,
    UNSOUND,
    decision,
    quality,
    review_task,
)
from demur_suites.mm_thebench.causes import Piece, _bare, by_rules, judged_reason, wrong_sum
from demur_suites.mm_thebench.items import Dimension, Item, Step
from demur_suites.mm_thebench.judging import ChainJudge, right_answer
from demur_suites.taxonomy import CAUSES

RIGHT = AnswerSpec(accepted=(("Paris",),))
GOLD, OTHER = (
    Piece("g", "France", "The capital is Paris.", True, False),
    Piece("d", "Italy", "The capital is Rome.", False, False),
)
PICTURE = Piece("p", "a tower", "", False, True)


@pytest.mark.parametrize(
    ("said", "steps", "pieces", "cause", "evidence"),
    [
        ("Rome", [], [OTHER], "misread evidence", ("d",)),
        ("Rome", [], [OTHER, GOLD], "ignored conflict", ("d",)),
        ("Lyon", [], [OTHER], "parametric override", ()),
        ("Lyon", [], [], "parametric override", ()),
        ("Lyon", [], [OTHER, PICTURE], None, ()),
        ("Rome, " * 20, [], [OTHER], None, ()),
        ("Paris or Rome", [], [OTHER], None, ()),
        ("Rome", ["It is so.", "2 + 2 = 5, so Rome."], [OTHER], "arithmetic", ()),
    ],
)
def test_what_rules_prove(said, steps, pieces, cause, evidence):
    found = by_rules(said, steps, pieces, RIGHT)
    assert (found.get("cause"), found.get("evidence", ())) == (cause, evidence)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("404 + 218 = 622 km", ""),
        ("404 + 218 = 612 km", "404 + 218 = 612"),
        ("3,155 - 958 = 2,197", ""),
        ("7 / 3 = 2.33", ""),
        ("7 / 3 = 2.5", "7 / 3 = 2.5"),
        ("1 / 0 = 3", ""),
        ("2 x 3 = 6", ""),
        ("x = 5", ""),
        ("1 + 2 + 3 = 6", ""),
        ("2 * 3 + 1 = 7", ""),
        ("10 - 4 = 6 - 1", ""),
        ("9" * 5000 + " + 1 = 3", ""),
    ],
)
def test_calculations_are_done_again(text, bad):
    assert wrong_sum(text) == bad


@pytest.mark.parametrize(
    "told", [None, [], {}, {"cause": "laziness"}, {"cause": ["other"]}, "other"]
)
def test_a_judge_that_names_no_cause_of_ours_is_not_followed(told):
    assert judged_reason(told, ["a step"], [OTHER], {}) == {}


def test_the_prompt_names_the_causes_that_reports_explain():
    prompt = ChainJudge("python:os:getcwd").texts["why"]
    assert [line[2:] for line in prompt.splitlines() if line.startswith("- ")] == [
        f"{c}: {m}." for c, m in CAUSES.items()
    ]


def test_a_judge_is_held_to_steps_evidence_and_words_that_exist():
    told = {
        "cause": "misread evidence",
        "step": 9,
        "evidence": [1, 1, 7, "x"],
        "quote": "the  CAPITAL is rome",
    }
    found = judged_reason(told, ["I read it.", "So Rome."], [OTHER, GOLD], {})
    assert (found["evidence"], found["step"], found["quote"]) == (
        ("d",),
        None,
        "the  CAPITAL is rome",
    )
    assert judged_reason(told | {"quote": "never said"}, ["a"], [OTHER], {})["quote"] == ""
    memory = judged_reason({"cause": "parametric override"}, ["a"], [OTHER], {"stands_in": ("d",)})
    assert memory["disputed"]
    assert judged_reason({"cause": "misread evidence"}, ["a"], [], {})["disputed"]


def test_the_judge_of_a_chain_sees_all_parts_of_the_right_answer():
    sample = Sample(
        id="s", source="x", question="Which two?", answers=AnswerSpec(accepted=(("Rome", "Milan"),))
    )
    assert right_answer(_bare(sample)) == "all of: Rome, Milan"


# --- a run ------------------------------------------------------------------------------------------


def fooled(question, evidence):
    """Says what the first piece that is no gold says; without one it makes something up and cannot add."""
    number = question.split(" in s")[1].rstrip("?")
    for e in evidence:
        if "-g" not in e["id"]:
            return (
                {
                    "answer": "I looked at the evidence.\nIt says so.\nAnswer: "
                    + e["text"].split(".")[0]
                }
                if number != "1"
                else "Answer: Atlantis"
            )
    return "2 + 2 = 5.\nAnswer: Atlantis"


def says_why(request):
    text = request.messages[0].parts[0].text
    if "Say why" in text:
        return json.dumps(
            {
                "cause": "misread evidence",
                "step": 1,
                "evidence": [1],
                "quote": "looked at the evidence",
            }
        )
    if "Group them" in text:
        return '{"starts": [1, 2]}'
    return json.dumps(
        {"judgments": [{"judgment": "NO", "hallucination": True, "evidence_step_ids": [1]}] * 3}
    )


@pytest.fixture
def run(tmp_path):
    release = tiny_release(tmp_path / "release", 5)
    done = demur.evaluate(
        release,
        fooled,
        scenarios=["parametric", "adversarial(k=2)"],
        out=tmp_path / "runs",
        judge="local",
    )
    return done.folder


def test_a_run_is_told_why_by_rules(run, capsys, tmp_path):
    page = tmp_path / "why.html"
    assert main(["reasoning", str(run), "-o", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(r["Scenario"], r["Cause"]): r for r in found["reasoning-causes"]}
    assert rows["parametric", "arithmetic"]["Wrong answers"] == 5
    assert rows["adversarial", "misread evidence"]["Wrong answers"] == 4
    assert rows["adversarial", "misread evidence"]["linked to evidence"] == 4
    assert rows["adversarial", "parametric override"]["Wrong answers"] == 1
    assert all(set(r["evidence"]) <= set(r["shown"]) for r in found["reasons"])
    html = page.read_text(encoding="utf-8")
    assert "[linked]" in html
    assert "parametric override, by rule" in html
    assert (run / "reasoning" / "local.jsonl").is_file()


def test_a_run_is_told_why_by_a_judge(run, capsys, tmp_path, monkeypatch):
    module = ModuleType("reason_judge")
    module.says_why = says_why
    monkeypatch.setitem(sys.modules, "reason_judge", module)
    command = [
        "reasoning",
        str(run),
        "--scenario",
        "adversarial",
        "-n",
        "3",
        "--judge",
        "python:reason_judge:says_why",
        "--ledger",
        str(tmp_path / "calls.sqlite"),
    ]
    assert main([*command, "--json"]) == 0
    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert len(reasons) == 3
    assert {(r["by"], r["cause"], r["step"]) for r in reasons} == {("judge", "misread evidence", 1)}
    assert all(len(r["judged"]["marks"]) == 3 and r["judged"]["answer"] is None for r in reasons)
    assert main(command) == 0
    assert "3 of the wrong ones drawn" in " ".join(capsys.readouterr().out.split())
    assert main(["reasoning", str(run), "--scenario", "oracle"]) == 2
    assert "it has adversarial, parametric" in capsys.readouterr().err


# --- annotation -------------------------------------------------------------------------------------


def drafts(request):
    text = request.messages[0].parts[-1].text
    if "Q0?" in text:
        return "no JSON"
    step = {
        "step_id": 1 if "Q1?" not in text else 4,
        "step_type": "reasoning",
        "step_content": "It follows.",
    }
    rubric = {
        "question": "Does it follow?",
        "points": 4,
        "dimension": "reasoning",
        "subcategory": "deductive",
        "steps": [1],
    }
    return json.dumps({"steps": [step], "rubric": [rubric]})


def test_drafts_are_reviewed_sampled_and_decided_upon(tmp_path, monkeypatch, capsys):
    module = ModuleType("drafting")
    module.drafts = drafts
    monkeypatch.setitem(sys.modules, "drafting", module)
    monkeypatch.chdir(tmp_path)
    write_records(
        tmp_path / "items.jsonl",
        [Item(id=f"i{n}", question=f"Q{n}?", answers=("yes",)) for n in range(12)],
    )
    assert (
        main(
            [
                "reasoning",
                "draft",
                "items.jsonl",
                "--judge",
                "python:drafting:drafts",
                "-o",
                "drafts",
            ]
        )
        == 0
    )
    told = capsys.readouterr().out
    assert "no draft: i0: the model's reply is not a JSON object" in told
    assert "no draft: i1: record: the steps are numbered [4]" in told
    assert "10 of 12 items have steps and a rubric" in told
    assert main(["reasoning", "review", "drafts", "-o", "task"]) == 0
    assert main(["reasoning", "quality", "task", "--auditor", "boss"]) == 2
    session = Session(tmp_path / "task", "ann")
    for at, place in enumerate(session.places):
        said = {"i2": UNSOUND, "i3": TOO_COMPLEX, "i4": TOO_COMPLEX}.get(place.item, SOUND)
        if place.item == "i2":
            session.act("note", at, note="step 1 is two steps")
        session.act("label", at, label=said, seconds=PATIENCE_S + 1 if place.item == "i3" else 20)
    session.close()
    capsys.readouterr()
    assert main(["reasoning", "take", "drafts", "task", "-o", "reviewed"]) == 0
    told = capsys.readouterr().out
    assert "to be corrected: i2: step 1 is two steps" in told
    assert "too early: i4" in told
    assert "too early: i3" not in told
    assert "12 items: 7 sound, 1 to be corrected, 2 too complex, 2 open" in told
    made = {i.id: i for i in demur_suites.suite("mm_thebench").open(tmp_path / "reviewed").items}
    assert (made["i5"].reviewed_by, made["i2"].reviewed_by, made["i3"].too_complex) == (
        "ann",
        "",
        True,
    )
    assert main(["reasoning", "quality", "task", "--auditor", "boss"]) == 0
    first = capsys.readouterr().out
    assert "boss must first audit: " in first
    sampled = first.rpartition(": ")[2].strip()
    boss = Session(tmp_path / "task", "boss")
    at = next(n for n, place in enumerate(boss.places) if place.item == sampled)
    boss.act("label", at, label=UNSOUND)
    boss.close()
    assert main(["reasoning", "quality", "task", "--auditor", "boss"]) == 0
    assert (
        "1 of 1 unqualified [21, 100] %, 1 of 7 sampled: discard and label anew"
        in capsys.readouterr().out
    )
    assert main(["reasoning", "review", "reviewed", "-o", "second task"]) == 0
    assert "demur annotate page --out 'second task' --as NAME" in capsys.readouterr().err
    assert (
        main(["reasoning", "take", "reviewed", "second task", "-o", "third"]) == 0
    )  # nobody has reviewed again
    assert "12 items: 0 sound, 0 to be corrected, 0 too complex, 12 open" in capsys.readouterr().out
    again = {i.id: i for i in demur_suites.suite("mm_thebench").open(tmp_path / "third").items}
    assert (again["i5"].reviewed_by, again["i3"].too_complex) == ("ann", True)


def test_a_draft_is_written_from_the_picture_and_a_rubric_from_steps_that_stand(
    tmp_path, monkeypatch, capsys
):
    asked = []
    module = ModuleType("seeing")
    module.drafts = lambda request: asked.append(request.messages[0].parts) or drafts(request)
    monkeypatch.setitem(sys.modules, "seeing", module)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "red.png").write_bytes(png("red"))
    mended = Step(id=1, types=(Dimension.PERCEPTION,), content="It is red.")
    write_records(
        tmp_path / "items.jsonl",
        [
            Item(id="bare", question="Which colour?", answers=("red",), images=("red.png",)),
            Item(
                id="mended",
                question="Which colour?",
                answers=("red",),
                images=("red.png",),
                steps=(mended,),
                reviewed_by="ann",
            ),
        ],
    )
    command = [
        "reasoning",
        "draft",
        "items.jsonl",
        "-o",
        "drafts",
        "--judge",
        "python:seeing:drafts",
    ]
    assert main(command) == 0
    assert "2 of 2 items have steps and a rubric" in capsys.readouterr().out
    made = {i.id: i for i in demur_suites.suite("mm_thebench").open(tmp_path / "drafts").items}
    assert made["mended"].steps == (mended,)  # what people mended is not written over
    assert [r.points for r in made["mended"].rubric] == [4]
    assert made["mended"].reviewed_by == ""  # its rubric is a draft
    assert [[p.type for p in parts] for parts in asked] == [["image", "text"]] * 2
    assert main([*command[:-1], "python:seeing:drafts?images=no"]) == 0
    assert [p.type for p in asked[-1]] == ["text"]


def test_what_was_revised_is_sampled_anew(tmp_path):
    def sample(words: str) -> tuple[str, ...]:
        steps = (Step(id=1, types=(Dimension.REASONING,), content=words),)
        items = [Item(id=f"i{n}", question="Why?", answers=("so",), steps=steps) for n in range(60)]
        review_task(items, tmp_path / words, tmp_path)
        session = Session(tmp_path / words, "ann")
        for at, _ in enumerate(session.places):
            session.act("label", at, label=SOUND)
        session.close()
        [found] = quality(tmp_path / words, "boss")
        return found.sampled

    first, second = sample("first"), sample("revised")
    assert len(first) == len(second) == 6
    assert set(first) != set(second)


@pytest.mark.parametrize(
    ("bad", "n", "begins"),
    [
        (0, 10, "correct"),
        (9, 100, "correct"),
        (10, 100, "revise"),
        (30, 100, "revise"),
        (31, 100, "discard"),
    ],
)
def test_three_tiers(bad, n, begins):
    assert decision(bad, n).startswith(begins)


# --- videos -----------------------------------------------------------------------------------------


def test_frames_of_a_video_become_pictures(tmp_path, capsys):
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
    videos = [
        {"path": "clip.mp4", "frames": 4},
        {"path": "clip.mp4", "start": 2, "end": 4, "frames": 2},
    ]
    rows = [
        Item(id=f"v{n}", question="What?", answers=("x",), video=v) for n, v in enumerate(videos)
    ]
    write_records(tmp_path / "items.jsonl", rows)
    suite = demur_suites.suite("mm_thebench")
    with pytest.raises(UsageError, match="without frames"):
        suite.run(tmp_path / "items.jsonl", lambda question: "x", tmp_path / "runs")
    assert (
        main(["reasoning", "frames", str(tmp_path / "items.jsonl"), "-o", str(tmp_path / "out")])
        == 0
    )
    found = suite.open(tmp_path / "out").items
    assert [len(i.pictures) for i in found] == [4, 2]
    light = [
        Image.open(tmp_path / "out" / uri).convert("L").getpixel((32, 32))
        for uri in found[0].images
    ]
    assert light == pytest.approx([0, 60, 120, 180], abs=12)
    assert [i.modality for i in found] == ["video", "video"]
    seen = []

    def looks(question, images):
        seen.append(len(images))
        return "Answer: x"

    suite.run(tmp_path / "out", looks, tmp_path / "runs")
    assert sorted(seen) == [2, 4]  # the frames reach whoever is asked
    (tmp_path / "sub").mkdir()
    (tmp_path / "clip.mp4").rename(tmp_path / "sub" / "clip.mp4")
    (tmp_path / "clip.mp4").write_bytes(b"no video")
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    rows[1]["video"]["path"] = "sub/clip.mp4"
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        main(["reasoning", "frames", str(tmp_path / "items.jsonl"), "-o", str(tmp_path / "bad")])
        == 1
    )
    assert "cannot be read as a video" in capsys.readouterr().err
    assert [len(i.images) for i in suite.open(tmp_path / "bad").items] == [
        0,
        2,
    ]  # one bad video ends nothing
    uris = [uri for i in found for uri in i.images]
    assert len(set(uris)) == len(uris)
