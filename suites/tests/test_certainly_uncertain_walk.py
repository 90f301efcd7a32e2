"""CertainlyUncertain from files to tables and a page: asked, verified, scored; hostile files; training data."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from errors import places, raises
from strategies import png

import demur_suites
from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.core.records import AnswerSpec, Response, Sample, Status
from demur.judge.local import LocalJudge
from demur.scenarios.systems import SystemContext
from demur.testing import FakeEndpoint, running
from demur_suites import check_suite, read_outputs
from demur_suites.certainly_uncertain.judging import Evaluator
from demur_suites.certainly_uncertain.suite import CertainlyUncertain
from demur_suites.grading import ask_of
from demur_suites.mm_aqa.baselines import PTrue

NAME = "demur_suites.certainly_uncertain:CertainlyUncertain"
"""Found whether or not this checkout is the installed one."""
KINDS = ("knowledge", "complexity", "temporal", "ambiguity")


def write(folder: Path, lines: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return folder


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Six pairs from captions, two from images; one of these with a mask and a control."""
    folder = tmp_path / "set"
    folder.mkdir()
    for n, colour in enumerate(("red", "green", "blue", "white")):
        (folder / f"{n}.png").write_bytes(png(colour))
    lines: list[dict] = [
        {
            "id": f"c{i}",
            "category": KINDS[i % 4],
            "question": f"What colour is bench {i}?",
            "answer": "red",
            "image": "0.png",
            "idk_question": f"Who painted bench {i}?",
            "route": "caption",
        }
        for i in range(6)
    ]
    lines += [
        {
            "id": "x0",
            "category": "extraneous",
            "question": "What stands on the shelf?",
            "answer": "a jug",
            "image": "0.png",
            "idk_image": "1.png",
            "control_image": "2.png",
            "mask": "3.png",
            "route": "image",
        },
        {
            "id": "x1",
            "category": "extraneous",
            "question": "What lies on the floor?",
            "answer": "a coin",
            "image": "0.png",
            "idk_image": "3.png",
            "idk_answer": "I don't see any coin.",
            "route": "scene-graph",
        },
    ]
    return write(folder, lines)


def table(out: str, name: str) -> dict[str, dict]:
    return {str(next(iter(row.values()))): row for row in json.loads(out[out.index("{") :])[name]}


def painter(body: dict) -> str:
    """Knows colours, never declines; sure of itself unless it named a painter."""
    text = json.dumps(body)
    if "Is this answer right" in text:
        return "no" if "Bob" in text else "yes"
    return "red" if "colour" in text else "Bob" if "painted" in text else "a jug"


@pytest.mark.heavy
def test_the_contract_of_suites_is_kept(pairs):
    check_suite(CertainlyUncertain(), pairs)


@pytest.mark.integration
def test_a_model_is_asked_and_asked_whether_it_was_right(pairs, tmp_path, capsys):
    out = tmp_path / "runs"
    with running(reply=painter) as server:
        words = [
            "suite",
            "run",
            NAME,
            str(pairs),
            "--system",
            f"p_true:http://127.0.0.1:{server.port}/v1#m",
            "--out",
            str(out),
            "--json",
        ]
        assert main(words) == 0
        assert server.requests == 17 + 17  # 8 pairs, a control; each answer is asked about once
        assert main(words) == 0
        assert server.requests == 34  # nothing is asked twice
    found = capsys.readouterr().out
    own = table(found[: found.index("\n}") + 2], "cu-headline")["p_true:m"]
    assert (own["no P"], own["fail."]) == (0, 0)
    assert own["n"] == 16
    replies = table(found[: found.index("\n}") + 2], "cu-replies")["p_true:m"]
    assert (replies["questions"], replies["graded"], replies["unjudged"]) == (16, 16, 0)
    replied = read_outputs(out)["p_true:m"]
    stated = {id: r.computed_confidence for id, r in replied.items()}
    assert len(stated) == 17
    assert stated["c0/unanswerable"] < 0.5 < stated["c0/answerable"]
    page = tmp_path / "cu.html"
    assert main(["suite", "report", NAME, str(out), "--trust-code", "-o", str(page)]) == 0
    html = page.read_text(encoding="utf-8")
    assert html.count('<details class="card">') == 8
    assert all(
        words in html
        for words in (
            "original",
            "mask:",
            "filled:",
            "control: something else removed",
            "LAVE-idk (%) by P(pred)",
        )
    )
    assert "<script" not in html


@pytest.mark.integration
async def test_a_question_about_an_answer_that_is_refused_leaves_the_answer():
    async with FakeEndpoint("ok,filter", reply=lambda body: "yes") as server:
        context = SystemContext(read_image=lambda ref: b"", prompts=CertainlyUncertain().prompts())
        system = PTrue(server.model("m"), context)
        replies = [await system.answer(ask_of(str(n), f"What is {n}?")) for n in range(3)]
        await system.close()
    assert [(r.error, r.text) for r in replies] == [("", "yes")] * 3
    assert [r.computed_confidence is None for r in replies] == [True, False, False]


def test_a_function_states_no_probability_and_that_is_counted(pairs, tmp_path):
    suite = CertainlyUncertain()
    folders = suite.run(pairs, lambda question, images: "I don't know", tmp_path / "runs")
    [score] = suite.scores(suite.open(pairs).items, read_outputs(folders))
    assert score.counts["without probability"] == 16
    assert score.by["total"]["cw"].value is score.by["total"]["ece"].value is None
    assert score.by["total"]["recall"].value == 1
    assert score.by["total"]["control_idk"].value == 1


def test_answers_and_probabilities_made_elsewhere_are_scored_without_a_model(
    pairs, tmp_path, capsys
):
    lines = []
    for i in range(6):
        lines.append({"id": f"c{i}/answerable", "output": "It is red.", "confidence": 0.9})
        lines.append(
            {
                "id": f"c{i}/unanswerable",
                "output": "I don't know" if i % 2 else "Bob",
                "confidence": 0.6,
            }
        )
    lines += [
        {"id": "x0/answerable", "output": "a jug", "confidence": 0.8},
        {"id": "x0/unanswerable", "output": "Nothing"},
        {"id": "x0/control", "output": "I don't know"},
        {"id": "x1/answerable", "output": "{a] jug"},
        {"id": "x1/unanswerable", "output": ""},
    ]
    file = tmp_path / "outs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        main(
            [
                "suite",
                "score",
                NAME,
                str(file),
                "--items",
                str(pairs),
                "--json",
                "--tables",
                str(tmp_path / "t"),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert (tmp_path / "t" / "cu-headline.csv").is_file()
    own = table(out, "cu-headline")["outs"]
    # again, by hand: knowledge c0 c4 (Bob both), complexity c1 c5 (IDK both), temporal c2 (Bob), ambiguity c3 (IDK)
    assert own["Aleatoric CW"]["value"] == pytest.approx(((0.9 - 0.6) / 2 + (0.9 + 0.6) / 2) / 2)
    assert own["Total LAVE"]["value"] == pytest.approx(
        (0.5 + 1 + 1 + 0.5 + 2 / 3) / 5
    )  # extraneous: two of three right
    replies = table(out, "cu-replies")["outs"]
    assert (
        replies["graded"],
        replies["unjudged"],
        replies["failed"],
        replies["without probability"],
    ) == (15, 0, 1, 2)
    control = table(out, "cu-pairs")["outs"]
    assert (control["Control declines"]["value"], control["Control LAVE-idk"]["value"]) == (1, 0)


SAID = {
    "c0/answerable": "a crimson one",
    "c0/unanswerable": "beats me",
    "c1/answerable": "reddish",
    "c1/unanswerable": "Bob",
    "c2/answerable": "azure",
    "c2/unanswerable": "mumble",
    "c3/answerable": "blurb",
    "c3/unanswerable": "beats me",
    "c4/answerable": "beats me",
    "c4/unanswerable": "",
}
"""What a model said; a judge reads it as: right and declines, half right and a name, wrong and unclear, ..."""


RATED = {"crimson": 3, "reddish": 2, "azure": 1, "blurb": None}


def lave(body: dict) -> str:
    """Says who declines (or loses the word), and rates answers (or does not)."""
    text = body["messages"][0]["content"]
    said = (text if isinstance(text, str) else text[0]["text"]).rpartition("Question:")[2]
    if "0 or 1." not in said:
        return json.dumps(
            {"rating": next(rating for word, rating in RATED.items() if word in said)}
        )
    return (
        "{}"
        if "mumble" in said
        else json.dumps({"refusal": int("beats me" in said or "don't" in said)})
    )


def test_an_answer_that_looks_like_a_verdict_is_not_read_as_declining(tmp_path):
    question = Sample(
        id="a",
        source="s",
        question="Which grade has the egg?",
        answers=AnswerSpec(accepted=(("A",),)),
    )

    async def grade():
        async with Evaluator("lave:python:os:getcwd", tmp_path / "l.sqlite") as evaluator:
            return await evaluator.grade(Response(text="The rating is A."), question)

    grade = asyncio.run(grade())
    assert grade.status is Status.UNJUDGED
    assert grade.reading.idk is grade.reading.credit is None


@pytest.mark.integration
def test_a_model_judges_both_stages_and_what_it_cannot_say_is_counted(
    pairs, tmp_path, capsys, monkeypatch
):
    file = tmp_path / "m.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": k, "output": v, "confidence": 0.8}) + "\n" for k, v in SAID.items()
        )
    )
    with running(reply=lave) as server:
        words = [
            "suite",
            "score",
            NAME,
            str(file),
            "--items",
            str(pairs),
            "--json",
            "--ledger",
            str(tmp_path / "l.sqlite"),
            "--judge",
            f"lave:http://127.0.0.1:{server.port}/v1#judge",
            "--evaluators",
            "local",
        ]
        assert main(words) == 0
        asked = server.requests
        assert main(words) == 0
        assert (
            server.requests == asked == 9 + 4 + 1 + 16
        )  # stage 1, stage 2 of answers, one of them asked again, the set's own answers
        monkeypatch.chdir(tmp_path)
        for _ in range(2):  # from Python too a reply is paid for once
            demur_suites.suite(NAME).scores(
                demur_suites.suite(NAME).open(pairs).items, read_outputs(file), judge=words[-3]
            )
        assert server.requests == 2 * asked
    out = capsys.readouterr().out
    out = out[: out.index("\n}") + 2]
    own, replies = table(out, "cu-headline")["m"], table(out, "cu-replies")["m"]
    assert (replies["graded"], replies["unjudged"], replies["failed"], replies["not asked"]) == (
        7,
        2,
        1,
        6,
    )
    by = table(out, "cu-categories")["m"]
    assert by["Knowledge LAVE-idk"]["value"] == pytest.approx(
        (1 + 1 + 0) / 3
    )  # c4 declines what can be answered
    assert by["Complexity LAVE-idk"]["value"] == pytest.approx((0.5 + 0) / 2)
    assert (by["Temporal LAVE-idk"]["value"], by["Temporal LAVE-idk"]["n"]) == (
        0,
        1,
    )  # mumble is in no figure
    assert (by["Ambiguity LAVE-idk"]["value"], by["Ambiguity LAVE-idk"]["n"]) == (
        1,
        1,
    )  # nor is what was rated 2 or 3
    assert own["Total CW"]["value"] == pytest.approx(
        ((0.8 + 0.8 - 0.8) / 3 + (0.4 - 0.8) / 2 - 0.8 + 0.8) / 4
    )
    evaluators = {name.partition("#")[0]: row for name, row in table(out, "cu-evaluator").items()}
    assert [row["gold IDK read as IDK (%)"] for row in evaluators.values()] == [100, 100]
    assert [row["gold answers n"] for row in evaluators.values()] == [8, 8]


def test_bad_pairs_are_named_with_their_line(pairs, capsys):
    good = json.loads((pairs / "pairs.jsonl").read_text().splitlines()[0])
    lines = [
        good,
        {**good, "id": "a", "category": "boredom"},
        {**good, "id": "b", "idk_question": good["question"].upper()},
        {**good, "id": "c", "idk_question": "", "idk_image": "0.png", "route": "image"},
        {**good, "id": "d", "idk_image": "1.png"},
        {**good, "id": "e", "image": "../../etc/passwd"},
        {**good, "id": "f", "answer": " "},
        {**good, "id": "c0"},
        {**good, "id": "g", "category": "complex", "idk_answer": " ", "idk_question": "Why?"},
        {**good, "id": "h", "image": "no.png", "control_image": "nope.png"},
    ]
    write(pairs, lines)
    assert main(["suite", "check", NAME, str(pairs)]) == 1
    with raises(BadInput) as refused:
        demur_suites.suite(NAME).open(pairs)
    at = [place.partition(" (")[0] for place in places(refused.value.problems)]
    assert at == [f"pairs.jsonl:{line}" for line in (2, 3, 4, 5, 6, 7, 8, 10)]
    assert main(["suite", "check", NAME, str(pairs), "--skip-bad"]) == 0
    assert (
        "2 items are sound, 8 were left out" in capsys.readouterr().out
    )  # the paper's own word for complexity is taken
    *_, last = demur_suites.suite(NAME).open(pairs, skip_bad=True).items
    assert last.idk_answer == "I don't know."


def test_pairs_without_photos_are_scored_but_nobody_is_asked(tmp_path):
    line = {
        "id": "a",
        "category": "temporal",
        "question": "Is it lit?",
        "answer": "yes",
        "idk_question": "Will it burn out today?",
    }
    folder = write(tmp_path / "set", [line])
    with raises(UsageError, item=folder, cure="idk_image"):
        demur_suites.suite(NAME).run(folder, lambda question, images: "x", tmp_path / "runs")


def test_a_computed_probability_counts_before_a_stated_one(pairs, tmp_path):
    suite = demur_suites.suite(NAME)
    items = suite.open(pairs).items
    ids = [q.id for q in suite.questions(items)]
    outputs = tmp_path / "made.jsonl"
    outputs.write_text(
        "".join(
            json.dumps({"id": id, "output": "red", "confidence": 0.9} | more) + "\n"
            for id, more in zip(ids, [{}, {"computed_confidence": 0.2}] * len(ids), strict=False)
        )
    )
    [score] = suite.scores(items, read_outputs(outputs))
    assert [g.probability for g in score.graded] == [(0.9, 0.2)[n % 2] for n in range(len(ids))]


class Raising:
    """A judge with a fault, and one of its verdicts."""

    id = "raising"

    def grade(self, ask, response, answers):
        if response.text == "red":
            return LocalJudge().grade(ask, response, answers)
        raise KeyError(response.text)


def test_a_judge_that_raises_leaves_its_answers_unjudged_and_the_score_is_made(pairs):
    suite = demur_suites.suite(NAME)
    items = suite.open(pairs).items
    said = {"c0/answerable": "red", "c1/answerable": "blue", "c2/answerable": "I don't know."}
    outputs = {"m": {id: Response(text=text, abstained=False) for id, text in said.items()}}
    scores = suite.scores(items, outputs, judge=f"{__name__}:Raising", evaluators="")
    replies = next(t for t in suite.tables(scores, items) if t.name == "cu-replies").records()[0]
    assert (replies["graded"], replies["unjudged"]) == (2, 1)


# --- the published set --------------------------------------------------------------------------


def hub(id: str, category: str, answerable: object, question: str, answer: str, image: str) -> dict:
    turns = [
        {"from": "human", "value": f"<image>\n{question}"},
        {"from": "gpt", "value": answer},
    ]
    return {
        "id": id,
        "image": image,
        "conversations": turns,
        "category": category,
        "answerable": answerable,
    }


PUBLISHED = [
    hub("k_1", "knowledge", True, "What is on the table?", "a cup", "d/1.jpg"),
    hub("k_2", "knowledge", False, "Who made the cup?", "I don't know.", "d/1.jpg"),
    hub("e_1", "extraneous", True, "What colour is the car?", "red", "v/2.jpg"),
    hub(
        "e_1_gone",
        "extraneous",
        "false",
        "What colour is the car?",
        "I don't see a car.",
        "v/2_i.jpg",
    ),
    hub("t_1", "temporal", False, "What happens next?", "I don't know.", "d/3.jpg"),
    hub("a_1", "ambiguous", 1, "How many are there?", "two", "d/4.jpg"),
    hub("a_2", "ambiguous", 0, "Is it large?", "I don't know.", "d/4.jpg"),
    hub("a_3", "ambiguous", 0, "Is it old?", "I don't know.", "d/4.jpg"),
]


@pytest.mark.parametrize(
    "name", ["certainlyuncertain_v0.1_test.jsonl", "certainlyuncertain_v0.1_train.json"]
)
def test_the_published_rows_are_pairs_where_they_can_be_joined_and_else_single_items(
    tmp_path, name
):
    lines = name.endswith("l")
    text = "".join(json.dumps(r) + "\n" for r in PUBLISHED) if lines else json.dumps(PUBLISHED)
    (tmp_path / name).write_text(text)
    suite = demur_suites.suite(NAME)
    loaded = suite.open(tmp_path)
    assert [(p.id, p.members) for p in loaded.items] == [
        ("k_1", ("answerable", "unanswerable")),
        ("e_1", ("answerable", "unanswerable")),
        ("t_1", ("unanswerable",)),
        ("a_1", ("answerable",)),  # two could be its partner
        ("a_2", ("unanswerable",)),
        ("a_3", ("unanswerable",)),
    ]
    assert sum(n for note, n in loaded.notes.items() if "single items" in note) == 4
    assert suite.open(tmp_path / name).items == loaded.items
    replies = {q.id: Response(text="I don't know.") for q in suite.questions(loaded.items)}
    [score] = suite.scores(loaded.items, {"m": replies})
    by = score.by["ambiguity"]
    assert (by["accuracy"].value, by["accuracy"].n) == (2 / 3, 3)
    assert (by["dual"].value, by["dual"].n, by["dual"].unjudged) == (None, 0, 0)
    assert (score.by["knowledge"]["dual"].value, score.by["knowledge"]["dual"].n) == (0, 1)
    list(suite.cards(loaded.items, tmp_path, {}))


def test_a_published_row_that_is_none_is_named_with_its_line(tmp_path):
    rows = [PUBLISHED[0], PUBLISHED[1] | {"category": "mood"}, {"id": "z", "conversations": []}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    for place in ("x.jsonl:2 (k_2)", "x.jsonl:3 (z)"):
        with raises(BadInput, item=place):
            demur_suites.suite(NAME).open(tmp_path)


def test_one_pair_under_several_categories_is_one_pair(pairs):
    lines = [json.loads(line) for line in (pairs / "pairs.jsonl").read_text().splitlines()]
    copies = [{**lines[0], "id": f"again-{kind}", "category": kind} for kind in KINDS]
    write(pairs, [*lines, *copies])
    suite = demur_suites.suite(NAME)
    with raises(BadInput, item="(again-temporal)"):
        suite.open(pairs)
    assert len(suite.open(pairs, skip_bad=True).items) == len(lines)


def test_the_interval_of_a_constant_is_no_point(pairs):
    suite = demur_suites.suite(NAME)
    items = suite.open(pairs).items
    replies = {
        q.id: Response(text="red", confidence=0.9)
        for q in suite.questions(items)
        if not q.answerable
    }
    [score] = suite.scores(items, {"m": replies})
    for name, least in (("accuracy", 0.0), ("cw", -0.9)):
        measure = score.by["knowledge"][name]
        assert measure.value == pytest.approx(least)
        assert measure.low < measure.high
