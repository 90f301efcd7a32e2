"""MM-THEBench from files to tables and a page: chains made elsewhere, judged by a script at three levels."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from types import ModuleType

import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

import demur
import demur_suites
from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.core.records import Outcome, Response, Status
from demur.judge.annotation.task import Session
from demur.judge.base import JudgeContext
from demur_suites import check_suite
from demur_suites.mm_thebench.build import atlas
from demur_suites.mm_thebench.chains import (
    PART,
    chain_of,
    cut_as_judged,
    cut_by_cues,
    final_answer,
    groups,
    sentences,
)
from demur_suites.mm_thebench.items import BASE, Dimension, Item
from demur_suites.mm_thebench.judging import (
    NO_STEPS,
    ChainJudge,
    best_mark,
    best_match,
    graded_by_rules,
    schema_of,
)
from demur_suites.mm_thebench.measures import Judged, Level, Mark, StepMatch
from demur_suites.mm_thebench.tables import cards
from demur_suites.scoring import score_models

ITEMS = [
    {
        "id": "q1",
        "source": "flags",
        "question": "Whose flag is it?",
        "answers": ["Japan"],
        "reviewed_by": "test",
        "steps": [
            {
                "step_id": 1,
                "step_type": "Perception",
                "step_content": "A red disk.",
                "step_necessity": "yes",
            },
            {
                "step_id": 2,
                "step_type": "knowledge, perception",
                "step_content": "It is Japan's flag.",
            },
        ],
        "rubric": [
            {
                "criterion": "Is the red disk seen?",
                "score": 4,
                "dimension": "Perception",
                "sub_category": "Recognition",
                "step_ids": [1],
            },
            {
                "criterion": "Is Japan known?",
                "score": 5,
                "dimension": "knowledge",
                "sub_category": "World_Knowledge",
                "step_ids": [2],
            },
        ],
    },
    {
        "id": "q2",
        "source": "sums",
        "question": "What is 2 + 2?",
        "answers": ["4"],
        "reviewed_by": "test",
        "steps": [{"id": 1, "types": ["reasoning"], "content": "2 + 2 = 4."}],
        "rubric": [
            {
                "question": "Is the sum 4?",
                "points": 6,
                "dimension": "reasoning",
                "subcategory": "arithmetic",
                "steps": [1],
            }
        ],
    },
    {
        "id": "q3",
        "source": "sums",
        "question": "Which is even?",
        "format": "choice",
        "answers": ["B"],
        "choices": {"A": "three", "B": "four"},
    },
]
CHAINS = [
    {
        "id": "q1",
        "output": "Japan",
        "reasoning": "A red disk.\nHm. It is Japan's flag.\nOr China?\nSo Japan.",
    },
    {"id": "q2", "output": "It is five. MADE UP.\nAnswer: 5"},
    {"id": "q3", "output": "Four is even.\nAnswer: (B)"},
]


ASKED = []
"""What the scripted judge was asked."""


def script(request):
    """A judge by the letter: steps match by their words, "MADE UP" is a hallucination, the rubric goes by words."""
    ASKED.append(request)
    text = request.messages[0].parts[0].text
    said = [
        json.loads(line)
        for line in text.splitlines()
        if line.startswith("{") and "step_content" in line
    ]
    if "Group them into steps" in text:
        lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"n"')]
        return json.dumps(
            {"starts": [x["n"] for x in lines if not x["sentence"].startswith("It is Japan")]}
        )
    if "Reference step:" in text:
        wanted = re.search(r"Reference step: \(.*?\) (.*)", text)[1]
        for step in said:
            if wanted in step["step_content"]:
                return json.dumps({"best_match_step_id": step["step_id"], "step_match": "MATCH"})
        return json.dumps({"best_match_step_id": -1, "step_match": "MISMATCH"})
    if "train of thought by a list" in text:
        rubric = re.findall(r"^\d+\. (.*)$", text.partition("What to mark")[2], re.MULTILINE)
        made_up = any("MADE UP" in s["step_content"] for s in said)
        yes = [not made_up or q == BASE[0].question for q in rubric]
        return json.dumps(
            {
                "judgments": [
                    {
                        "judgment": "YES" if y else "No",
                        "hallucination": not y and q != BASE[2].question,
                        "evidence_step_ids": [1, 99],
                    }
                    for y, q in zip(yes, rubric, strict=True)
                ]
            }
        )
    return '{"pred_answer": "5", "answer_match": "MISMATCH"}'


@pytest.fixture
def judge(tmp_path, monkeypatch):
    module = ModuleType("scripted_judge")
    module.script = script
    monkeypatch.setitem(sys.modules, "scripted_judge", module)
    monkeypatch.chdir(tmp_path)
    return "python:scripted_judge:script"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    for name, rows in (("items.jsonl", ITEMS), ("chains.jsonl", CHAINS)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "items.jsonl", tmp_path / "chains.jsonl"


def table(capsys, name):
    return json.loads(capsys.readouterr().out)[name]


def test_chains_made_elsewhere_are_judged_at_three_levels(files, judge, capsys):
    items, chains = files
    assert (
        main(
            [
                "suite",
                "score",
                "mm_thebench",
                str(chains),
                "--items",
                str(items),
                "--judge",
                judge,
                "--resamples",
                "0",
                "--json",
            ]
        )
        == 0
    )
    (row,) = table(capsys, "thebench-image")
    value = {k: (v["value"], v["n"]) if isinstance(v, dict) else v for k, v in row.items()}
    assert value["Chains"] == "native 1, elicited 2"
    assert value["Answer Acc (%)"] == (pytest.approx(2 / 3), 3)
    # q1: four steps cut (the pause goes with Japan's), both reference steps matched: P 2/4? the cut below; q2: none
    assert value["Step Recall"] == (pytest.approx((1 + 0) / 2), 2)
    assert value["Step Prec."] == (pytest.approx((2 / 4 + 0) / 2), 2)
    assert value["Step F1"] == (pytest.approx((2 * 0.5 / 1.5 + 0) / 2), 2)
    # points: q1 all 32 (23 + 4 + 5); q2 6 of 29, 14 made up; q3 all 23
    assert value["Rubric P"] == (pytest.approx((6 + 4 + 6 + 6) / 22), 3)
    assert value["Rubric K"] == (1.0, 1)
    assert value["Rubric R"] == (pytest.approx((17 + 0 + 17) / (17 + 17 + 6 + 17)), 3)
    assert value["Rubric H"] == (pytest.approx(1 - (8 + 6) / (32 + 29 + 23)), 3)


def test_the_items_alone_are_looked_at_before_anybody_is_asked(files, tmp_path):
    page = tmp_path / "items.html"
    assert main(["suite", "report", "mm_thebench", str(files[0]), "-o", str(page)]) == 0
    html = page.read_text(encoding="utf-8")
    assert "no system has been asked yet" in html
    assert html.count('<details class="card">') == 3


def test_a_card_says_how_many_steps_of_a_long_chain_it_leaves_out():
    item = Item(
        id="x",
        question="Why?",
        answers=("so",),
        steps=({"id": 1, "types": ["reasoning"], "content": "so"},),
    )
    judged = Judged(
        id="x",
        answer=Level.MATCH,
        kind="native",
        steps=[f"step {n}" for n in range(1, 201)],
        matches=[StepMatch(step=1, label=Level.PARTIAL, predicted=150)],
    )
    [card] = cards([item], Path(), [("m", {"x": judged})])
    chain = card.rows[1].cells[1].replies
    assert [r.words for r in chain[-2:]] == [
        "in part 1: step 150",
        "and 119 steps more, all unmatched",
    ]
    assert len(chain) == 82


def test_the_page_shows_a_chain_beside_its_reference_steps(files, judge, tmp_path, capsys):
    items, chains = files
    page = tmp_path / "page.html"
    assert (
        main(
            [
                "suite",
                "report",
                "mm_thebench",
                str(chains),
                "--items",
                str(items),
                "--judge",
                judge,
                "-o",
                str(page),
            ]
        )
        == 0
    )
    html = page.read_text(encoding="utf-8")
    for words in (
        "MATCH with step 2: It is Japan",
        "matches 1: A red disk.",
        "unmatched: Or China?",
        "MISMATCH: 2 + 2 = 4.",
        "Made up.",
    ):
        assert words in html, words
    assert html.count("<svg") >= 2  # figure 5, of precision and recall


@pytest.mark.parametrize(("of", "n"), [("steps", 3), ("answers", 3), ("rubric", 12)])
def test_people_look_at_what_the_judge_decided(of, n, files, judge, tmp_path, capsys):
    """Step matches, answers and marks as a labelling task, compared with the judge by `demur agree`."""
    items, chains = files
    task = tmp_path / of
    command = [
        "suite",
        "export",
        "mm_thebench",
        str(items),
        "--outputs",
        str(chains),
        "--judge",
        judge,
        "--of",
        of,
        "--out",
        str(task),
    ]
    assert main(command) == 0
    capsys.readouterr()
    judged = {
        row["item"]: row["label"]
        for row in map(json.loads, (task / "decided.jsonl").read_text().splitlines())
    }
    assert len(judged) == n
    page = (task / "items.jsonl").read_text()
    assert not any(
        f'"{label}"' in page for label in ("match", "mismatch", "made_up")
    )  # what the judge said is hidden
    session = Session(task, "maria")
    first = session.places[0].item
    other = {
        "steps": "partial",
        "answers": "no_answer",
        "rubric": "made_up" if judged[first] != "made_up" else "yes",
    }
    for at, place in enumerate(session.places):
        session.act("label", at, label=other[of] if place.item == first else judged[place.item])
    session.close()
    assert main(["agree", str(task), str(task / "decided.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (name,) = (name for name in found if name.startswith("confusion-"))
    assert sum(row["all"] for row in found[name]) == n
    assert sum(row[row[""]] for row in found[name]) == n - 1
    assert main(command) == 0  # the same again: labels stay


def test_without_a_judge_answers_alone_are_graded_and_it_is_said(files, capsys):
    items, chains = files
    assert main(["suite", "score", "mm_thebench", str(chains), "--items", str(items)]) == 0
    out = capsys.readouterr().out
    assert "rules grade only answers" in " ".join(out.split())
    check_suite(demur_suites.suite("mm_thebench"), items)


def test_the_ledger_keeps_what_was_paid_for(files, judge, capsys):
    items, chains = files
    command = [
        "suite",
        "score",
        "mm_thebench",
        str(chains),
        "--items",
        str(items),
        "--judge",
        judge,
        "--json",
    ]
    assert main(command) == 0
    first, asked = capsys.readouterr().out, len(ASKED)
    assert asked
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert len(ASKED) == asked


@pytest.mark.heavy
@pytest.mark.usefixtures("files")
def test_judging_that_is_killed_goes_on_where_it_stopped(tmp_path):
    """A judge that dies with its process at the third call: nothing that was paid for is asked again."""
    (tmp_path / "deadly.py").write_text(
        "import json, os, signal, sys\n"
        "def judge(request):\n"
        "    with open('asked.txt', 'a') as log:\n"
        "        log.write(str(hash(request.messages[0].parts[0].text)) + chr(10))\n"
        "    if os.environ.get('DEADLY') and sum(1 for _ in open('asked.txt')) == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return json.dumps({'starts': [1], 'best_match_step_id': 1, 'step_match': 'MATCH', 'judgments': []})\n"
    )
    code = (
        "import json, demur_suites; from pathlib import Path\n"
        "suite = demur_suites.suite('mm_thebench'); items = suite.open('items.jsonl').items\n"
        "from demur_suites import read_outputs\n"
        "(s,) = suite.scores(items, read_outputs([Path('chains.jsonl')]), judge='python:deadly:judge', resamples=0,\n"
        "                    concurrency=1)\n"
        "print(json.dumps({k: [m.value, m.n, m.unjudged] for k, m in s.image.items()}))\n"
    )
    env = dict(
        os.environ, PYTHONHASHSEED="0", PYTHONPATH=f"{tmp_path}:{Path(demur.__file__).parents[1]}"
    )

    def scored(**more):
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env | more, capture_output=True
        )

    assert scored(DEADLY="1").returncode == -signal.SIGKILL
    done = scored()
    assert done.returncode == 0, done.stderr.decode()
    asked = (tmp_path / "asked.txt").read_text().split()
    assert len(asked) <= len(set(asked)) + 2  # calls in flight alone were made twice
    found = json.loads(done.stdout)
    assert found["recall"] == [1.0, 2, 0]
    assert found["h"] == [None, 0, 3]  # no mark could be read: unjudged


# --- reading items ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"steps": [{"id": 2, "types": ["reasoning"], "content": "x"}]}, "[2]"),
        (
            {
                "rubric": [
                    {"question": "?", "points": 1, "dimension": "knowledge", "subcategory": "count"}
                ]
            },
            "count",
        ),
        (
            {
                "rubric": [
                    {
                        "question": "?",
                        "points": 1,
                        "dimension": "perception",
                        "subcategory": "count",
                        "steps": [7],
                    }
                ]
            },
            "step 7",
        ),
        ({"rubric": [{"question": "?", "points": 1, "dimension": "perception"}]}, "subcategory"),
        ({"rubric": 5}, "rubric: "),
        ({"rubric": [{"points": 1, "dimension": d} for d in (None, "x", 3)]}, "rubric.0.question"),
        ({"images": ["a.png", "b.png"]}, "b.png"),
        ({"answers": []}, "answer"),
        ({"format": "choice", "answers": ["Z"]}, "choices"),
        (
            {"format": "choice", "answers": ["Z"], "choices": {"A": "a", "B": "b"}},
            "A, B",
        ),
        ({"format": "grounding"}, "box"),
        ({"images": ["../out.png"]}, "../out.png"),
        ({"video": {"path": "v", "start": 9, "end": 1}}, "1 s"),
    ],
)
def test_bad_items_are_told_with_their_place(files, change, told):
    items, _ = files
    items.write_text(json.dumps(ITEMS[1] | change) + "\n" + json.dumps(ITEMS[2]) + "\n")
    with raises(BadInput, told, item="items.jsonl:1 (q2)"):
        demur_suites.suite("mm_thebench").open(items)
    assert [i.id for i in demur_suites.suite("mm_thebench").open(items, skip_bad=True).items] == [
        "q3"
    ]


def test_base_items_in_a_file_are_left_out_and_said(files):
    items, _ = files
    base = [
        {
            "question": b.question,
            "score": str(b.points),
            "dimension": b.dimension.value.upper(),
            "sub_category": "",
        }
        for b in BASE
    ]
    items.write_text(json.dumps(ITEMS[1] | {"rubric": base + ITEMS[1]["rubric"]}) + "\n")
    loaded = demur_suites.suite("mm_thebench").open(items)
    assert len(loaded.items[0].rubric) == 1
    assert any("base rubric items" in note for note in loaded.notes)


def test_dimensions_may_be_letters_and_rubric_items_numbered(tmp_path):
    row = {
        "id": "p",
        "question": "Why?",
        "answers": ["so"],
        "steps": [{"step_id": 1, "step_type": "P+R", "step_content": "so"}],
        "rubric": [
            {
                "rubric_id": 1,
                "criterion": "So?",
                "score": 2,
                "dimension": "R",
                "sub_category": "Causal",
                "step_ids": [1],
            },
            *(
                {
                    "rubric_id": n,
                    "criterion": "base",
                    "score": b.points,
                    "dimension": b.dimension.value[0].upper(),
                }
                for n, b in enumerate(BASE, 2)
            ),
        ],
    }
    (tmp_path / "items.jsonl").write_text(json.dumps(row) + "\n")
    [item] = demur_suites.suite("mm_thebench").open(tmp_path / "items.jsonl").items
    assert item.steps[0].types == (Dimension.PERCEPTION, Dimension.REASONING)
    assert [(r.points, r.dimension) for r in item.rubric] == [(2, Dimension.REASONING)]


def test_the_atlas_items_are_whole_and_built(tmp_path):
    items = atlas()
    assert len(items) >= 60
    assert all(i.steps and i.rubric and i.reviewed_by for i in items)
    assert {d for i in items for s in i.steps for d in s.types} == set(Dimension)
    assert {"open", "choice", "grounding"} == {i.format for i in items}
    suite = demur_suites.suite("mm_thebench")
    folder = suite.build(tmp_path / "items")
    loaded = suite.open(folder)
    assert [i.id for i in loaded.items] == [i.id for i in items]
    assert not loaded.notes
    right = {
        i.id: Response(text=f"Answer: {i.answers[0] if i.answers else list(i.box)}")
        for i in loaded.items
    }
    wrong = {
        i: graded_by_rules(x, right[i])
        for x in loaded.items
        for i in [x.id]
        if graded_by_rules(x, right[i])[0] is not Level.MATCH
    }
    assert not wrong


def test_the_numbers_of_atlas_steps_stand_in_their_passages():
    root = Path(demur.__file__).parent / "sample" / "atlas"
    texts = {
        row["id"]: row["text"].replace(",", "")
        for row in map(
            json.loads, (root / "kb_text.jsonl").read_text(encoding="utf-8").splitlines()
        )
    }
    for item in atlas():
        text = " ".join(texts[ref] for ref in item.source_ref.split() if not ref.startswith("i-"))
        for step in item.steps:
            if text and Dimension.KNOWLEDGE in step.types:
                assert all(
                    n.replace(",", "") in text for n in re.findall(r"\d[\d,]*", step.content)
                ), (
                    item.id,
                    step.content,
                )


# --- answers ----------------------------------------------------------------------------------------

FLAG = Item(
    id="g",
    question="Where?",
    format="grounding",
    box=(20, 50, 120, 150),
    images=("x.png",),
    pictures=({"sha256": "0" * 64, "uri": "x.png", "width": 200, "height": 140},),
)


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("[22, 52, 118, 148]", Level.MATCH),
        ("[0.15, 0.26, 0.85, 0.74]", Level.MATCH),
        ("[150, 260, 850, 740]", Level.MATCH),
        ("[0, 0, 10, 10]", Level.MISMATCH),
        ("[y1, x1, y2, x2]", Level.NO_ANSWER),
        ("50, 20, 150, 120", Level.MISMATCH),
        ("", Level.NO_ANSWER),
    ],
)
def test_boxes_may_be_pixels_shares_or_thousandths(said, level):
    assert graded_by_rules(FLAG, Response(text=said))[0] is level


def test_a_box_in_a_runs_row_is_graded_as_in_the_tables():
    suite = demur_suites.suite("mm_thebench")
    for text, outcome in (
        ("Answer: [22, 52, 118, 148]", Outcome.CORRECT),
        ("[0.15, 0.26, 0.85, 0.74]", Outcome.CORRECT),
        ("in the middle", Outcome.DEFLECTED),
    ):
        outputs = {"m": {FLAG.id: Response(text=text)}}
        [result] = score_models(suite, (FLAG,), outputs, resamples=0)
        [scored] = result.scored
        assert (scored.grade.status, scored.grade.outcome) == (Status.GRADED, outcome)
        assert result.score.sources[FLAG.source].value == float(scored.right)


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("B", Level.MATCH),
        ("four", Level.MATCH),
        ("Answer: A. three", Level.MISMATCH),
        ("A or B", Level.MISMATCH),
        ("(B) four", Level.MATCH),
        ("Option A", Level.MISMATCH),
        (r"It is $\boxed{A}$.", Level.MISMATCH),
        (r"It is $\boxed{B}$.", Level.MATCH),
    ],
)
def test_options_count_by_letter_or_text(said, level):
    item = Item(
        id="c",
        question="Which is even?",
        format="choice",
        answers=("B",),
        choices={"A": "three", "B": "four"},
    )
    assert graded_by_rules(item, Response(text=said))[0] is level


@pytest.mark.parametrize(
    "form",
    ["{0}", "({1})", "**{0}. {2}**", "Option {0}", r"\boxed{{{0}}}", "{2}", "So.\nAnswer: {0}"],
)
def test_the_order_of_options_decides_nothing(form):
    for order in permutations(("Paris", "Lyon", "Nice")):
        choices = dict(zip("ABC", order, strict=True))
        letters = {text: letter for letter, text in choices.items()}
        item = Item(
            id="c",
            question="Capital of France?",
            format="choice",
            answers=(letters["Paris"],),
            choices=choices,
        )
        for said, level in (("Paris", Level.MATCH), ("Lyon", Level.MISMATCH)):
            text = form.format(letters[said], letters[said].lower(), said)
            assert graded_by_rules(item, Response(text=text))[0] is level, (text, choices)


def test_chains_and_their_kind():
    assert chain_of(Response(text="Paris", reasoning="thoughts")) == ("thoughts", "native")
    assert chain_of(Response(text="<think>thoughts</think>Paris")) == ("thoughts", "native")
    assert chain_of(Response(text="I see a tower. Answer: Paris")).kind == "elicited"
    assert chain_of(Response(text=" ")).kind == "none"
    assert chain_of(Response(text="<think>" * 20_000)).kind in ("none", "elicited")
    for marked in (
        "<thinking>thoughts</thinking> Paris",
        "thoughts</think>Paris",
        "<think>\nthoughts",
    ):
        assert chain_of(Response(text=marked)) == ("thoughts", "native")
    assert final_answer("Answer: Rome\nNo.\nThe final answer is: **Paris**") == "Paris"


# --- cutting ----------------------------------------------------------------------------------------


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=400), st.integers(1, 50))
def test_what_is_cut_is_the_text(text, most):
    lines = sentences(text, most)
    runs = groups(lines, most, at_cues=True)
    assert "".join(lines) == text == "".join(s for _, run in runs for s in run)
    assert all(0 < len(line) <= most for line in lines)
    assert "".join(cut_by_cues(lines)) == text
    steps = cut_by_cues(lines)
    assert [s for _, run in groups(steps, most) for s in run] == steps


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ({"starts": [1, 3]}, ["A. B. ", "C."]),
        ({"starts": [2, 2]}, ["A. ", "B. C."]),
        ({"starts": []}, None),
        ({"starts": [4]}, None),
        ({"starts": [True]}, None),
        ([{"step_content": "A."}, {"step_content": "B. C."}], ["A. ", "B. C."]),
        ({"steps": [{"step_content": "A. B. C."}]}, ["A. B. C."]),
        ([{"step_content": "A. B."}], None),
        ([{"step_content": "A. X. C."}], None),
        ([{}], None),
        ("A. B. C.", None),
        (None, None),
        ({"starts": "1"}, None),
    ],
)
def test_a_segmentation_is_the_chain_or_none(told, steps):
    assert cut_as_judged(["A. ", "B. ", "C."], told) == steps


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.text(alphabet="ab .\n", min_size=1, max_size=6), min_size=1, max_size=6), st.data()
)
def test_steps_handed_back_are_cut_from_the_chain_itself(lines, data):
    text = "".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
    words = [
        {"step_content": text[a:b].strip()}
        for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)
    ]
    found = cut_as_judged(lines, words)
    assert found is None or "".join(found).strip() == text.strip()


def test_the_best_of_groups():
    match, partial, none = (Level.MATCH, 7), (Level.PARTIAL, 2), (Level.MISMATCH, None)
    assert best_match(1, [none, match, partial]) == StepMatch(
        step=1, label=Level.MATCH, predicted=7
    )
    assert best_match(1, [None, match]).label is Level.MATCH
    assert best_match(1, [None, partial]).label is None  # the unread group may hold a better one
    yes, no, unread = (
        Mark(satisfied=True),
        Mark(satisfied=False, hallucination=True),
        Mark(satisfied=None),
    )
    own = Item(**{k: v for k, v in ITEMS[2].items()}).full_rubric[2]
    assert [
        best_mark(BASE[1], m).satisfied
        for m in ([yes, yes], [yes, no], [yes, unread], [no, unread])
    ] == [
        True,
        False,
        None,
        False,
    ]
    assert [
        best_mark(own, m).satisfied for m in ([no, no], [yes, no], [no, unread], [yes, unread])
    ] == [
        False,
        True,
        None,
        True,
    ]
    assert best_mark(own, [no, no]).hallucination
    assert not best_mark(own, [yes, no]).hallucination


# --- hostile and long -------------------------------------------------------------------------------


def judged_by(tmp_path, answer, item=None, response=None):
    module = ModuleType("bad_judge")
    module.answer = answer
    sys.modules["bad_judge"] = module
    try:
        made = ChainJudge("python:bad_judge:answer", JudgeContext(ledger=tmp_path / "calls.sqlite"))
        item = item or Item(**{k: v for k, v in ITEMS[1].items()})
        usual = Response(text="First, two. Then two more. Answer: 5 or so, perhaps")
        return asyncio.run(made.judge(item, response or usual)), made
    finally:
        del sys.modules["bad_judge"]


@pytest.mark.parametrize(
    "reply",
    [
        "no idea",
        "[]",
        "{}",
        '{"starts": [99], "judgments": [], "step_match": "MATCH", "best_match_step_id": 40}',
        "[" * 5000,
        "null",
    ],
)
def test_what_the_judge_says_badly_is_unjudged_and_said(tmp_path, reply):
    judged, _ = judged_by(tmp_path, lambda request: reply)
    assert NO_STEPS in judged.notes
    assert any("a reply of the judge" in n for n in judged.notes) == (
        reply in ("no idea", "[" * 5000, "null")
    )
    assert [m.label for m in judged.matches] == [None]
    assert {m.satisfied for m in judged.marks} == {None}
    assert "".join(judged.steps) == "First, two. Then two more. Answer: 5 or so, perhaps"


def test_an_option_that_looks_like_a_verdict_is_put_to_no_judge(tmp_path):
    judge = ChainJudge("python:os:getcwd", JudgeContext(ledger=tmp_path / "calls.sqlite"))
    level, why = asyncio.run(judge.answer(Item(**ITEMS[2]), Response(text="Label: B"), set()))
    assert level is None
    assert "'Label: B' may be the answer" in why


@pytest.mark.parametrize(
    "one",
    [
        "Wait, step {n} says that 2 + 2 = {n}. ",
        "no ",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("2 + 2 = {n}.\n", "No.\n")),
    ],
)
def test_a_chain_of_100_000_characters_is_judged_in_parts(tmp_path, one):
    """However it is made (cues, lines, two-letter sentences, one sentence): bounded calls, each of bounded size."""
    sizes, chain = (
        [],
        "".join(one.format(n=n) for n in range(1 + 100_000 // len(one.format(n=1000)))),
    )

    def answer(request):
        sizes.append(len(request.messages[0].parts[0].text))
        return script(request)

    assert len(chain) > 95_000
    judged, _ = judged_by(tmp_path, answer, response=Response(text="4", reasoning=chain))
    assert "".join(judged.steps) == chain
    if "{n}" in one:
        assert judged.matches[0].label is Level.MATCH
        assert "2 + 2 = 4." in judged.steps[judged.matches[0].predicted - 1]
    assert max(sizes) < 2 * PART
    assert len(sizes) < 500


def test_every_list_and_number_of_a_reply_has_an_end():
    """A small model that is held to a grammar fills a list, or a number, for as long as it may."""

    def ends(schema):
        kind = schema.get("type")
        if kind == "integer":
            return schema["minimum"] <= schema["maximum"]
        if kind == "array":
            return schema["minItems"] <= schema["maxItems"] and ends(schema["items"])
        return all(ends(s) for s in schema.get("properties", {}).values())

    for role in ("answer", "segment", "match", "rubric"):
        assert ends(schema_of(role, range(5, 9), 4)), role
    assert schema_of("segment", range(1, 4))["properties"]["starts"]["maxItems"] == 3


def test_a_system_that_failed_is_not_judged(tmp_path):
    asked = []
    judged, _ = judged_by(
        tmp_path, lambda r: asked.append(r) or "{}", response=Response(error="500")
    )
    assert judged.failed
    assert not asked
    judged, _ = judged_by(tmp_path, lambda r: asked.append(r) or "{}", response=Response(text=" "))
    assert judged.answer is Level.NO_ANSWER
    assert not asked


def test_prompts_of_ones_own(tmp_path, judge):
    folder = tmp_path / "prompts"
    folder.mkdir()
    with raises(UsageError, item=folder, cure="match.md"):
        ChainJudge(judge, prompts=folder)
    (folder / "match.md").write_text("Is $step in $steps?")
    with raises(UsageError, "$answer", item="match.md", cure="steps"):
        ChainJudge(judge, prompts=folder)
    (folder / "match.md").write_text("$question $answer: is $step in $steps?")
    other = ChainJudge(judge, prompts=folder)
    assert other.own == {"match"}
    assert other.prompt_sha256 != ChainJudge(judge).prompt_sha256
