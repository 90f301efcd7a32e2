"""MM-AQA from files to tables: native layouts, a run under all conditions with all baselines, the page; two agents."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path

import pytest
from errors import raises

import demur_suites
from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Ask, Request, Response, Scenario
from demur.core.store import Problems
from demur.scenarios.systems import SystemContext
from demur.testing import check_system
from demur_suites import read_outputs
from demur_suites.mm_aqa.baselines import yes_share
from demur_suites.mm_aqa.conditions import CONDITIONS, SIX
from demur_suites.mm_aqa.items import read
from demur_suites.mm_aqa.tables import average_mcc
from demur_suites.systems.multi_agent import MultiAgent, read_log, read_ruling
from suites.tests.mm_aqa_models import said
from tests.strategies import png

MODELS = "suites.tests.mm_aqa_models"
ANSWERER = f"python:{MODELS}:answerer"


def tiny_set(folder: Path, pairs: int = 6) -> Path:
    """Items without a build: a red picture and its black twin."""
    from demur.core.images import image_ref
    from demur.core.store import write_atomic

    lines = []
    for n in range(pairs):
        subset = "images" if n % 2 else "documents"
        refs = {}
        for name, data in (("a", png((200, 10 * n, 0))), ("b", png((0, 0, 10 * n)))):
            write_atomic(folder / f"images/{name}{n}.png", data)
            refs[name] = image_ref(data, f"images/{name}{n}.png").model_dump(mode="json")
        answers = {"accepted": [["a rose"]] if n < 4 else [["a lily"]]}
        shared = {
            "pair": f"q{n}",
            "subset": subset,
            "question": "Which flower is shown here?",
            "answers": answers,
        }
        lines.append({"id": f"q{n}", "images": [refs["a"]], **shared})
        name = "multi-mask" if n % 2 else "remove-visual-element"
        lines.append({"id": f"q{n}~t", "images": [refs["b"]], "transform": name, **shared})
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_bad_items_are_told_by_their_place(tmp_path):
    folder = tiny_set(tmp_path)
    lines = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    lines[1]["pair"] = lines[1]["id"]
    lines[2]["pair"] = "elsewhere"
    lines[3]["transform"] = "hide-evidence-page"  # of documents
    lines[4]["images"][0]["sha256"] = "0" * 64
    lines[5]["id"] = lines[6]["id"]
    lines[7]["images"][0]["uri"] = "../secret.png"
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    problems = Problems()
    found = read(folder, problems)
    assert len(problems) == 6
    assert len(found.items) == 6
    with raises(UsageError, item="nothing", cure="demur suite build mm_aqa"):
        read(tmp_path / "nothing", Problems())


@pytest.mark.heavy
def test_a_run_under_all_conditions_with_all_baselines_to_tables_and_page(tmp_path, capsys):
    folder, runs = tiny_set(tmp_path / "set"), tmp_path / "runs"
    systems = [
        f"model:{ANSWERER}",
        f"multi_agent:{ANSWERER}",
        f"multi_agent:{ANSWERER}?mode=iterative&rounds=2",
        f"self_consistency:{ANSWERER}?n=3",
        f"p_true:{ANSWERER}",
    ]
    argv = [
        "suite",
        "run",
        "mm_aqa",
        str(folder),
        "--out",
        str(runs),
        "--json",
        "--system",
        *systems,
    ]
    assert main(argv) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(argv) == 0  # nothing is asked again
    assert json.loads(capsys.readouterr().out) == first
    of = {(r["Model"], r["Condition"]): r for r in first["mm-aqa-images"]}
    plain = f"model:{ANSWERER}"
    assert [of[plain, "base"][c] for c in ("TP", "FP", "FN", "TN", "AU")] == [
        2,
        1,
        0,
        0,
        3,
    ]
    assert [of[plain, "base+exabs"][c] for c in ("TP", "FP", "FN", "TN", "AU")] == [
        0,
        0,
        3,
        3,
        0,
    ]
    assert {c for m, c in of if m == plain} == set(CONDITIONS)
    agents = {(r["Model"], r["Condition"]): r for r in first["mm-aqa-agents"]}
    assert len(agents) == 2 * len(CONDITIONS)
    [one] = {r["overridden (%)"]["value"] for r in agents.values()}
    assert one == 1.0
    assert {
        (m.partition("mode=")[2], r["mean rounds"], r["illegal, coerced"])
        for (m, _), r in agents.items()
    } == {
        ("sequential", 1.0, 12),
        ("iterative&rounds=2", 2.0, 12),
    }
    names = {(r["Model"].partition(":")[0], r["Baseline"]) for r in first["mm-aqa-baselines"]}
    assert {
        ("model", "verbal confidence"),
        ("p_true", "computed confidence"),
        ("self_consistency", "computed confidence"),
        ("model", "evidence weighed (cotabs)"),
        ("model", "never abstains"),
    } <= names
    for subset in ("images", "documents"):
        [n] = [r["all n"] for r in first[f"mm-aqa-categories-{subset}"] if r["Model"] == plain]
        assert n == 3
    assert len({r["Model"] for r in first["mm-aqa-summary"]}) == len(systems)  # each once
    assert not {("p_true", "own confidence"), ("self_consistency", "own confidence")} & names
    page = tmp_path / "r.html"
    assert (
        main(
            [
                "suite",
                "report",
                "mm_aqa",
                "--trust-code",
                *map(str, sorted(runs.glob("*"))),
                "-o",
                str(page),
            ]
        )
        == 0
    )  # as runs/*
    html = page.read_text()
    assert all(f"Table {n}" in html for n in (1, 2, 3, 4, 5, 6, 7, 8))
    assert all(r["Best MCC"] in ("", r["MCC"]) for r in first["mm-aqa-images"])


def test_a_confidence_that_a_method_computed_is_none_that_a_system_stated(tmp_path):
    """Replies of a server that states no confidence, with P(True) or a share of 3 votes of 5 beside them."""
    folder, suite = tiny_set(tmp_path, pairs=4), demur_suites.suite("mm_aqa")
    items = suite.open(folder).items
    replies = {
        f"{item.id}@{condition}": Response(
            text="EXPLANATION - seen\nFINAL ANSWER - a rose", computed_confidence=0.6
        )
        for item in items
        for condition in ("base", "vconf")
    }
    [score] = suite.scores(items, {"m": replies}, tau=3)
    assert {row.fell for row in score.rows["vconf"]} == {"malformed"}
    assert {row.fell for row in score.rows["base"]} <= {"tp", "fp", "au"}
    tables = {t.name: t.records() for t in suite.tables([score], items)}
    assert not tables.get("mm-aqa-tau")
    names = {row["Baseline"] for row in tables["mm-aqa-baselines"]}
    assert "computed confidence" in names
    assert not names & {"own confidence", "verbal confidence"}


def test_no_figure_depends_on_the_order_of_items_or_replies(tmp_path):
    folder, suite = tiny_set(tmp_path, pairs=30), demur_suites.suite("mm_aqa")
    rng = random.Random(5)
    items = suite.open(folder).items
    replies = {
        f"{item.id}@vconf": Response(
            text=said(rng.choice(("a rose", "a tulip", "I don't know")), rng.randint(1, 5))
        )
        for item in items
    }

    def tables(items, replies):
        return [
            t.records() for t in suite.tables(suite.scores(items, {"m": replies}, tau=2), items)
        ]

    first = tables(items, replies)
    for _ in range(3):
        again, answers = (
            rng.sample(items, len(items)),
            dict(rng.sample([*replies.items()], len(replies))),
        )
        assert tables(again, answers) == first


def test_conditions_are_chosen_behind_the_name_and_from_python(tmp_path):
    folder = tiny_set(tmp_path / "set")
    few = demur_suites.suite("mm_aqa:base, cot+exabs")
    [run] = few.run(folder, f"model:{ANSWERER}", tmp_path / "runs", limit=2)
    loaded = few.open(folder)
    [score] = few.scores(loaded.items, read_outputs(run))
    assert [c for c in SIX if score.of("images", c)] == ["base", "cot+exabs"]
    assert score.matrix("images", "base").n == 2  # one pair of each subset
    assert average_mcc(score) is None
    with raises(UsageError, "cott", cure="cot"):
        demur_suites.suite("mm_aqa:cott")
    with raises(UsageError, item="vb:x"):
        demur_suites.suite("vb:x")


def test_outputs_made_elsewhere_by_a_system_that_sees_no_prompt(tmp_path, capsys):
    folder = tiny_set(tmp_path / "set")
    ids = [json.loads(line)["id"] for line in (folder / "items.jsonl").read_text().splitlines()]
    rows = [
        {"id": f"{i}@base", "output": "It is a rose." if "~" not in i else "I cannot tell."}
        for i in ids
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    argv = [
        "suite",
        "score",
        "mm_aqa",
        str(tmp_path / "mine.jsonl"),
        "--items",
        str(folder),
        "--json",
    ]
    assert main(argv) == 0
    strict = json.loads(capsys.readouterr().out)
    assert {r["fixed n AAC (%)"]["value"] for r in strict["mm-aqa-beside"]} == {0.0}
    assert {r["malformed"] for r in strict["mm-aqa-beside"]} == {6}
    assert main([*argv, "--parser", "lenient"]) == 0
    [row] = json.loads(capsys.readouterr().out)["mm-aqa-images"]
    assert [row[c] for c in ("TP", "FP", "FN", "TN", "AU")] == [2, 1, 0, 3, 0]


@pytest.mark.parametrize(
    ("job", "more", "words"),
    [
        ("run", ["--system", "reader", "--extra", "[1]"], "--extra"),
        ("run", ["--system", "reader", "--extra", "{bad"], "--extra"),
        ("run", ["--system", "reader", "--temperature", "nan"], "--temperature"),
        ("run", ["--system", f"model:{ANSWERER}", f"model:{ANSWERER}"], ANSWERER),
        ("score", [], "--items"),
        ("score", ["--items", "SET"], "q0@base"),
    ],
)
def test_what_cannot_be_asked_or_scored_is_told_with_its_cure(job, more, words, tmp_path, capsys):
    folder = tiny_set(tmp_path / "set")
    (tmp_path / "mine.csv").write_text("id,output\nq0,a rose\n")
    path = folder if job == "run" else tmp_path / "mine.csv"
    argv = [
        "suite",
        job,
        "mm_aqa",
        str(path),
        *(str(folder) if word == "SET" else word for word in more),
    ]
    with pytest.raises(SystemExit) as stopped:  # as of argparse
        raise SystemExit(main(argv))
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_the_commands_that_are_proposed_can_be_pasted(tmp_path, capsys):
    folder = tiny_set(tmp_path / "my set")
    argv = [
        "suite",
        "run",
        "mm_aqa:base",
        str(folder),
        "--out",
        str(tmp_path / "my runs"),
        "--system",
    ]
    assert main([*argv, f"model:{ANSWERER}"]) == 0
    [line] = [x for x in capsys.readouterr().err.splitlines() if x.startswith("next: demur ")]
    page = tmp_path / "r.html"
    assert main([*shlex.split(line.removeprefix("next: demur "))[:-1], str(page)]) == 0
    assert page.is_file()


# --- two agents -------------------------------------------------------------------------------------


def agents(argument: str, tmp_path: Path) -> MultiAgent:
    return MultiAgent(
        argument, SystemContext(read_image=lambda ref: b"", ledger=tmp_path / "calls.sqlite")
    )


ASK = Ask(
    id="a",
    sample="s",
    context="c",
    scenario=Scenario.PARAMETRIC,
    question="Which flower?",
    condition="none",
)
seen: list[str] = []


def two(request: Request) -> str:
    """A Reasoner that learns from advice, and a Verifier that then approves."""
    text = " ".join(p.text for m in request.messages for p in m.parts)
    seen.append(text)
    if "verifier in a team" in text:
        good = "FINAL ANSWER - a lily" in text
        return (
            "DECISION: APPROVE"
            if good
            else "DECISION: REQUEST_REVISION\nEXPLANATION: no\nFEEDBACK: count petals"
        )
    return said("a lily" if "count petals" in text else "a rose")


def broken(request: Request) -> str:
    return "I approve, or do I abstain?"


async def test_iterative_mode_hands_feedback_on_and_stops_when_approved(tmp_path):
    seen.clear()
    system = agents(f"python:{__name__}:two?mode=iterative", tmp_path)
    reply = await system.answer(ASK)
    await system.close()
    log = read_log(reply)
    assert [r.decision for r in log.rounds] == ["REQUEST_REVISION", "APPROVE"]
    assert not log.overridden
    assert "a lily" in reply.text
    assert "ITERATION_STAGE: NON_FINAL" in seen[1]
    assert "count petals" in seen[2]


async def test_sequential_mode_turns_an_illegal_revision_into_an_abstention_and_says_so(tmp_path):
    seen.clear()
    system = agents(f"python:{__name__}:two", tmp_path)
    reply = await system.answer(ASK)
    await system.close()
    log = read_log(reply)
    assert reply.abstained
    assert log.overridden
    assert [r.coerced for r in log.rounds] == [True]
    assert "MODE: SEQUENTIAL\n\nThe reasoner" in seen[1]  # no stage


async def test_a_verdict_that_cannot_be_read_is_no_abstention(tmp_path):
    system = agents(f"python:{__name__}:broken", tmp_path)
    reply = await system.answer(ASK)
    await system.close()
    assert "no decision" in reply.error
    assert reply.abstained is None
    with raises(UsageError, item="two?rounds=2", cure="mode=iterative"):
        agents(f"python:{__name__}:two?rounds=2", tmp_path)
    assert read_log(Response(text="x", reasoning='{"multi_agent": "no"')) is None
    assert read_ruling("DECISION: APPROVE or ABSTAIN").decision is None


async def test_it_keeps_the_contract_of_systems(tmp_path):
    await check_system(agents(f"python:{__name__}:two", tmp_path))


def test_p_true_is_undefined_without_the_words():
    assert yes_share(()) is None
    from demur.core.records import TokenLogprob

    token = TokenLogprob(token="maybe", logprob=-0.1, top=(("maybe", -0.1),))
    assert yes_share((token,)) is None
    token = TokenLogprob(token=" Yes", logprob=-0.7, top=((" Yes", -0.7), ("No", -2.0)))
    assert yes_share((token,)) == pytest.approx(0.7858, abs=1e-3)
