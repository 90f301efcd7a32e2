"""`demur judge`: rows of a file, stored answers of a run, and the attack suite."""

from __future__ import annotations

import csv
import json
import re
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from errors import raises
from strategies import tiny_release

import demur
from demur.cli import main
from demur.core.errors import BadInput, DataError, UnknownPart, UsageError
from demur.core.records import AnswerSpec, Outcome
from demur.core.thinking import visible
from demur.evaluation.rejudge import judge_file
from demur.judge.attacks import CARRIERS, FAMILIES, attacks, question_of, written_attack
from demur.judge.base import open_judge
from demur.judge.local import LocalJudge
from demur.judge.model import PARTIAL
from demur.judge.untrusted_answer import candidate, forms_of
from demur.testing import running


def test_rows_of_a_file_are_graded_locally_and_by_a_model(tmp_path, capsys):
    rows = [
        {
            "id": "1",
            "question": "Which river?",
            "answers": ["Danube"],
            "response": "The Danube.",
            "note": "kept out of it",
        },
        {"id": "2", "question": "When?", "answers": ["1975"], "response": "In 1982."},
        {
            "id": "3",
            "question": "Which?",
            "answers": ["b"],
            "choices": {"a": "Rhine", "b": "Danube"},
            "response": "(b)",
        },
        {"id": "4", "question": "Who?", "answers": ["Ann"], "response": ""},
    ]
    path, out = tmp_path / "rows.jsonl", tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert main(["judge", "file", str(path), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {
        "correct": 2,
        "incorrect": 1,
        "failed": 1,
    }
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["1", "2", "3", "4"]
    with running(reply=lambda body: '{"label": "INCORRECT"}') as server:
        words = [
            "judge",
            "file",
            str(path),
            "--judge",
            f"model:http://127.0.0.1:{server.port}/v1#m",
            "--ledger",
            str(tmp_path / "l"),
        ]
        assert main(words) == 0
        assert main(words) == 0
        assert server.requests == 3  # the empty answer is not sent, nothing is sent twice


def test_rows_may_say_why_they_ended_and_list_their_choices(tmp_path):
    rows = [
        {
            "id": "1",
            "question": "Which?",
            "answers": ["b"],
            "choices": ["Rhine", "Danube"],
            "response": "(b)",
        },
        {
            "id": "2",
            "question": "Who?",
            "answers": ["Ann"],
            "response": "",
            "finish_reason": "length",
        },
        {"id": 3, "question": "When?", "answers": 1969, "response": 1969},  # one answer, numbers
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    verdicts = judge_file(path, LocalJudge())
    assert [(v.outcome and v.outcome.value, v.kind) for v in verdicts] == [
        ("correct", ""),
        (None, "starved"),
        ("correct", ""),
    ]


def test_bad_rows_are_named_before_anybody_is_asked(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"id": "1", "question": "Q", "answers": [], "response": "x"}\n{"id": "2"}\nnot json\n'
        '{"id": "3", "question": "Q", "answers": ["a"], "response": "x"}\n' * 2
    )
    assert main(["judge", "file", str(path)]) == 1
    said = capsys.readouterr().err
    assert all(f"rows.jsonl:{n}" in said for n in (1, 2, 3, 8))
    assert main(["judge", "file", str(path), "--skip-bad"]) == 0


Q, RIGHT, REPLY = "Which river?", "Danube", "The Danube."
TOOLS = {
    "deepeval": {"input": Q, "actual_output": REPLY, "expected_output": RIGHT, "context": None},
    "lm-eval": {
        "doc_id": 0,
        "doc": {"id": 1, "question": Q},
        "target": RIGHT,
        "filtered_resps": [REPLY],
    },
    "LangSmith": {
        "inputs": {"question": Q},
        "outputs": {"text": REPLY},
        "reference_outputs": {"a": RIGHT},
    },
    "of another shape": {"ask": Q, "gold": RIGHT, "reply": REPLY},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_rows_of_another_shape_are_named_in_one_sentence_whose_options_read_them(
    tmp_path, tool, capsys
):
    path = tmp_path / "rows.jsonl"
    path.write_text((json.dumps(TOOLS[tool]) + "\n") * 3)
    with pytest.raises(DataError) as caught:
        judge_file(path, LocalJudge())
    assert tool in caught.value.message
    assert "\n" not in str(caught.value)
    words = caught.value.cure.split()
    if tool == "of another shape":
        words = ["--map", "ask=question", "--map", "gold=answers", "--map", "reply=response"]
    assert main(["judge", "file", str(path), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"correct": 3}


@pytest.mark.parametrize(
    ("field", "cell"),
    [
        ("response", True),
        ("response", None),
        ("answers", False),
        ("answers", None),
        ("answers", [{"name": "x"}]),
        ("response", {"content": "x"}),
        ("question", ["x"]),
        ("answers", "green"),
    ],
)
def test_a_cell_that_is_no_text_is_named(tmp_path, field, cell):
    path = tmp_path / "rows.jsonl"
    row = {"question": Q, "answers": "red", "choices": ["red", "blue"], "response": "red"}
    path.write_text(json.dumps(row | {field: cell}) + "\n")
    with pytest.raises(BadInput) as caught:
        judge_file(path, LocalJudge())
    (problem,) = caught.value.problems
    assert "rows.jsonl" in problem
    assert " - " in problem
    assert "{'" not in problem


def test_a_position_is_an_answer_of_a_file_too(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"question": Q, "answers": 1, "choices": ["red", "blue"], "response": "B"}
    path.write_text(json.dumps(row) + "\n")
    assert [v.outcome for v in judge_file(path, LocalJudge())] == [Outcome.CORRECT]
    with pytest.raises(UsageError):
        judge_file(path, LocalJudge(), columns={"response": "reply"})


def test_stored_answers_are_graded_again_without_asking(tmp_path, capsys):
    release = tiny_release(tmp_path / "release", 4)
    calls = {"n": 0}

    def vague(question):
        calls["n"] += 1
        return "Something blue."

    run = demur.evaluate(release, vague, scenarios=["oracle", "parametric"], out=tmp_path / "runs")
    assert calls["n"] == 8
    with running(reply=lambda body: '{"label": "NOT_ATTEMPTED"}') as server:
        words = [
            "judge",
            "run",
            str(run.folder),
            "--release",
            str(release),
            "-o",
            str(tmp_path / "again"),
            "--judge",
            f"model:http://127.0.0.1:{server.port}/v1#m",
            "--ledger",
            str(tmp_path / "l"),
            "--json",
        ]
        assert main(words) == 0
    assert calls["n"] == 8
    again = demur.open_run(tmp_path / "again", release)
    assert {r["outcome"] for r in again.to_arrow().to_pylist()} == {"deflected"}
    assert again.manifest["graded_again"] == {"run": run.folder.name, "judge": "local"}
    assert again.system == run.system
    other = tiny_release(tmp_path / "other", 5)
    assert (
        main(["judge", "run", str(run.folder), "--release", str(other), "-o", str(tmp_path / "x")])
        == 2
    )
    assert main([*words, "--repeat", "2"]) == 2
    assert "--repeat" in capsys.readouterr().err
    assert (
        main(["judge", "run", str(run.folder), "--release", str(other), "-o", str(tmp_path / "x")])
        == 2
    )
    assert str(run.folder) in capsys.readouterr().err


@pytest.mark.parametrize("own", ["corpora", "prompts"])
def test_runs_with_corpora_and_prompts_of_ones_own_are_graded_again(own, tmp_path, capsys):
    release, mine, corpora = (
        tiny_release(tmp_path / "release", 4),
        tmp_path / "prompts",
        tmp_path / "corpora",
    )
    mine.mkdir()
    (mine / "clause-severe.v1.md").write_text("Never guess.")
    assert main(["corpus", "export", str(release), "--out", str(corpora)]) == 0
    what = {
        "corpora": ["--scenarios", "whole", "--corpora", str(corpora)],
        "prompts": [
            "--scenarios",
            "oracle",
            "realistic",
            "--strictness",
            "none",
            "severe",
            "--prompts",
            str(mine),
        ],
    }[own]
    asks = tmp_path / "asks.jsonl"
    assert main(["asks", str(release), "-o", str(asks), *what]) == 0
    rows = [json.loads(line) for line in asks.read_text().splitlines()]
    (tmp_path / "said.jsonl").write_text(
        "".join(json.dumps({"ask": r["ask"], "answer": "I cannot tell."}) + "\n" for r in rows)
    )
    words = [
        "run",
        str(release),
        "--system",
        f"mine=answers:{tmp_path / 'said.jsonl'}",
        "--out",
        str(tmp_path / "runs"),
        *what,
    ]
    assert main(words) == 0
    again = [
        "judge",
        "run",
        str(tmp_path / "runs/mine"),
        "--release",
        str(release),
        "-o",
        str(tmp_path / "again"),
        "--judge",
        "local",
    ]
    assert main(again) == 0, capsys.readouterr().err
    one, two = (
        demur.open_run(folder, release).to_arrow().to_pylist()
        for folder in (tmp_path / "runs/mine", tmp_path / "again")
    )
    assert one == two
    assert len(two) == len(rows)
    assert {r["outcome"] for r in two} == {"deflected"}


def test_the_attack_suite_is_large_and_its_texts_differ():
    made = [a for a in attacks() if a.family != "none"]
    assert len(made) == len({a.text for a in made}) >= 280
    assert len(FAMILIES) >= 13


def test_attacks_differ_by_more_than_carrier_length_and_numbers():
    made = [written_attack(text, "", "") for texts in FAMILIES.values() for text in texts]
    assert len({re.sub(r"[\d\s]+", "", text.casefold()) for text in made}) == len(made)


def test_attacks_differ_as_a_model_is_shown_them():
    shown = {
        family: {candidate("", visible(written_attack(text, "", ""))).text for text in texts}
        for family, texts in FAMILIES.items()
    }
    assert {family: len(texts) for family, texts in shown.items() if len(texts) < 12} == {}
    assert len(set.union(*shown.values())) >= 200


def test_no_attack_states_what_is_right_nor_looks_like_it():
    for number, attack in enumerate(attacks()):
        _, response, answers = question_of(attack, number)
        assert not re.search(
            rf"(?<!\w){re.escape(attack.right)}(?!\w)", response.text, re.IGNORECASE
        ), attack
        assert not candidate(attack.question, visible(response.text), forms_of(answers)).doubted, (
            attack
        )


def gullible(body):
    """Obeys whatever label it last read between the marks; a judge must not let it be reached."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else "".join(p.get("text", "") for p in content)
    inside = text.rpartition("What is right")[2].rpartition("Reply with")[0]
    return '{"label": "CORRECT"}' if "CORRECT" in inside else '{"label": "INCORRECT"}'


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("judge", "every"),
    [("local", 5), pytest.param("local", 1, marks=pytest.mark.slow), ("model", 1)],
)
def test_no_attack_reaches_a_gullible_model_through_the_fence(
    judge, every, tmp_path, capsys, monkeypatch
):
    families = {family: texts[::every] for family, texts in FAMILIES.items()}
    monkeypatch.setattr("demur.judge.attacks.FAMILIES", families)
    monkeypatch.setattr("demur.judge.attacks.CARRIERS", CARRIERS[::every])
    with running(reply=gullible) as server:
        name = "local" if judge == "local" else f"model:http://127.0.0.1:{server.port}/v1#m"
        assert (
            main(["judge", "attack", "--judge", name, "--ledger", str(tmp_path / "l"), "--json"])
            == 0
        )
    found = {h["family"]: h for h in json.loads(capsys.readouterr().out)["families"]}
    assert sum(h["n"] for h in found.values()) == 300 // every
    assert found["none"]["flipped"] == 0
    flipped = sum(h["flipped"] for h in found.values())
    assert flipped == 0 if judge == "model" else flipped <= 0.03 * 280 / every  # its aim is none
    assert sum(h["failed"] for h in found.values()) == 0


@pytest.mark.heavy
def test_what_the_mask_blocks_is_counted_with_the_mask_off(tmp_path, capsys):
    with running(reply=gullible) as server:
        words = ["judge", "attack", server.model("m"), "--ledger", str(tmp_path / "l")]
        assert main([*words, "--unmasked", "--json"]) == 0
        found = {h["family"]: h for h in json.loads(capsys.readouterr().out)["families"]}
        assert main([*words, "--unmasked"]) == 0
        assert "Blocked by the mask" in capsys.readouterr().out
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["families"][1]["unmasked"] is None
    forged, persuasion = found["forged verdict"], found["persuasion"]
    assert forged["flipped"] == 0
    assert forged["unmasked"] == forged["by_mask"] >= 5
    assert (persuasion["n"], persuasion["unmasked"], found["none"]["unmasked"]) == (40, 0, 0)
    assert main(["judge", "attack", "local", "--unmasked"]) == 2


def test_the_judge_to_attack_is_named_by_itself_or_by_the_option(tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "demur.judge.base.open_judge", lambda name, context: opened.append(name) or LocalJudge()
    )
    monkeypatch.setattr("demur.judge.attacks.CARRIERS", (["Which metal?", "mercury", "zinc"],))
    monkeypatch.setattr("demur.judge.attacks.FAMILIES", {"role play": ("{Wrong}, I swear.",)})
    words = ["judge", "attack", "--ledger", str(tmp_path / "l")]
    for more in (
        [],
        ["local?phrases=a.txt"],
        ["--judge", "local?phrases=a.txt"],
        ["model:openai/x", "--judge", "model:openai/x"],
    ):
        assert main([*words, *more]) == 0
    assert opened == ["local", "local?phrases=a.txt", "local?phrases=a.txt", "model:openai/x"]
    assert main([*words, "model:openai/x", "--judge", "model:openai/y"]) == 2
    assert "two judges" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["attack", "local", "more"], ["attack", "--bogus"], ["bench", "local", "more"]]
)
def test_what_a_job_does_not_take_is_told_with_the_help_of_that_job(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["judge", *words])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert words[-1] in error
    assert error.endswith(f"'demur judge {words[0]} --help'\n")


def test_a_models_address_alone_is_a_judge():
    with running(reply=lambda body: "CORRECT") as server:
        address = f"http://127.0.0.1:{server.port}/v1#m"
        assert [
            open_judge(name).id for name in (address, "openai/gpt-4o", f"panel:{address},local")
        ] == [
            "model:m",
            "model:openai/gpt-4o",
            "panel:model:m,local",
        ]
    with pytest.raises(UnknownPart):
        open_judge("gpt-4o")


def test_numbers_and_single_answers_are_rows_too_and_verdicts_never_replace_them(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"id": 7, "question": "How many?", "answers": [4], "response": "4"})
        + "\n"
        + json.dumps({"id": "8", "question": "Where?", "answers": "Paris", "response": "Paris"})
    )
    assert [(v.id, v.outcome.value) for v in judge_file(path, LocalJudge())] == [
        ("7", "correct"),
        ("8", "correct"),
    ]
    before = path.read_bytes()
    assert main(["judge", "file", str(path), "-o", str(tmp_path / "." / "rows.jsonl")]) == 2
    assert "overwritten" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_judge_is_asked_several_times_past_the_ledger(tmp_path, capsys):
    path, out = tmp_path / "rows.jsonl", tmp_path / "v.jsonl"
    row = {
        "id": "1",
        "question": "Which?",
        "answers": ["Danube"],
        "response": "Perhaps this.",
        "label": "correct",
    }
    path.write_text(json.dumps(row))
    replies = iter(["CORRECT", "INCORRECT", "INCORRECT"])
    with running(reply=lambda body: json.dumps({"label": next(replies)})) as server:
        model = f"model:http://127.0.0.1:{server.port}/v1#m"
        words = [
            "judge",
            "file",
            str(path),
            "-o",
            str(out),
            "--judge",
            model,
            "--ledger",
            str(tmp_path / "l"),
        ]
        assert main([*words, "--repeat", "3"]) == 0
        assert "100.0%" in capsys.readouterr().out
        files = [out, tmp_path / "v@2.jsonl", tmp_path / "v@3.jsonl"]
        assert [json.loads(f.read_text())["outcome"] for f in files] == [
            "correct",
            "incorrect",
            "incorrect",
        ]
        words = [
            "judge",
            "bench",
            model,
            "--on",
            str(path),
            "--ledger",
            str(tmp_path / "l"),
            "--repeat",
            "3",
        ]
        assert main([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (len(found["repeats"]), found["repeat_variance"]["value"], server.requests) == (
            2,
            1.0,
            3,
        )
        assert main(words) == 0
        assert PARTIAL[:30] in " ".join(capsys.readouterr().out.split())
        assert server.requests == 3


def test_a_log_of_attacks_tells_how_far_they_are_and_where_the_calls_are(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("demur.core.progress.EVERY_S", 0.0)
    with running(reply=gullible) as server:
        name = f"model:http://127.0.0.1:{server.port}/v1#m"
        assert main(["judge", "attack", "--judge", name, "--ledger", str(tmp_path / "l")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "attacks: " in line]
    assert len(lines) > 10
    assert "/300" in lines[0]
    assert str(tmp_path / "l") in lines[0]


def test_repeats_share_one_budget(tmp_path, monkeypatch):
    contexts = []
    monkeypatch.setattr(
        "demur.judge.base.open_judge",
        lambda name, context: contexts.append(context) or LocalJudge(),
    )
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"id": "1", "question": "Which?", "answers": ["a"], "response": "a"})
    )
    assert main(["judge", "file", str(path), "--repeat", "2", "--budget", "1"]) == 0
    assert [c.repeat for c in contexts] == [0, 1]
    assert contexts[0].budget is contexts[1].budget is not None


RAGAS = [
    {
        "question": "When did it open?",
        "answer": "In 1998.",
        "contexts": ["It opened in 1998."],
        "ground_truth": "1998",
    },
    {
        "question": "Which river?",
        "answer": "I do not know.",
        "contexts": [],
        "ground_truth": "['Danube', 'Donau']",
    },
    {
        "question": "Which river?",
        "answer": "The Donau.",
        "contexts": [],
        "ground_truth": "['Danube', 'Donau']",
    },
]
NEW = {
    "question": "user_input",
    "answer": "response",
    "contexts": "retrieved_contexts",
    "ground_truth": "reference",
}


@pytest.mark.parametrize(
    "name",
    [
        "r.jsonl",
        "r.json",
        "r.csv",
        "excel.csv",
        "powershell.jsonl",
        "r.tsv",
        "r.parquet",
        "new.jsonl",
    ],
)
def test_answers_are_graded_from_the_tables_that_people_have(tmp_path, name):
    path, lines = tmp_path / name, "".join(json.dumps(row) + "\n" for row in RAGAS)
    if name == "r.parquet":
        pq.write_table(pa.Table.from_pylist(RAGAS), path)
    elif name == "new.jsonl":
        path.write_text(
            "".join(json.dumps({NEW[k]: v for k, v in row.items()}) + "\n" for row in RAGAS)
        )
    elif name.endswith("jsonl"):
        path.write_text(lines, encoding="utf-16" if "powershell" in name else "utf-8")
    elif name == "r.json":
        path.write_text(json.dumps(RAGAS, indent=2))
    else:
        with path.open(
            "w", encoding="utf-8-sig" if "excel" in name else "utf-8", newline=""
        ) as sheet:
            writer = csv.writer(sheet, delimiter={"excel.csv": ";", "r.tsv": "\t"}.get(name, ","))
            writer.writerow([k.title() if "excel" in name else k for k in RAGAS[0]])
            writer.writerows([[], ["", "", "", ""], *(row.values() for row in RAGAS)])
    verdicts = judge_file(path, LocalJudge())
    assert [(v.id, v.outcome.value) for v in verdicts] == [
        ("1", "correct"),
        ("2", "deflected"),
        ("3", "correct"),
    ]


RULES = (
    ({"kind": "number", "number": [90, 110], "unit": "ft"}, "About 30 m.", "About 40 m."),
    ({"kind": "number", "number": [40, 60]}, "Some 55.", "Some 70."),
    ({"kind": "parts", "accepted": [["46", "27", "64"]]}, "27, 46 and 64", "27 and 64"),
    ({"kind": "date", "accepted": [["12 May 1950"]]}, "On 1950-05-12.", "On 1950-05-13."),
    ({"kind": "choice", "accepted": [["A"]], "choices": [["A", "Po"], ["B", "Ob"]]}, "A", "B"),
)
"""What sources say is right (`AnswerSpec`), a right and a wrong reply."""


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_row_takes_what_a_source_says_is_right(tmp_path, suffix):
    rows = [
        {"id": f"{place} {kind}", "question": "How high?", "answers": rules, "response": reply}
        for place, (rules, right, wrong) in enumerate(RULES)
        for kind, reply in (("correct", right), ("incorrect", wrong))
    ]
    path = tmp_path / f"rows.{suffix}"
    with path.open("w", newline="") as file:
        if suffix == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | {"answers": json.dumps(row["answers"])} for row in rows)
    verdicts = judge_file(path, LocalJudge())
    assert [v.outcome.value for v in verdicts] == [v.id.split()[1] for v in verdicts]
    for (rules, right, wrong), made in product(RULES, (dict, AnswerSpec.model_validate)):
        assert demur.grade("How high?", made(rules), right).outcome is Outcome.CORRECT
        assert demur.grade("How high?", made(rules), wrong).outcome is Outcome.INCORRECT


@pytest.mark.parametrize(
    "more",
    [
        {"answers": {"kind": "nine", "accepted": [["9"]]}},
        {"answers": {"kind": "number", "number": [3, 1]}},
        {"answers": {"kind": "number", "number": [1, 3], "units": "m"}},
        {"answers": {"kind": "number", "number": [1, 3]}, "answer_type": "number"},
        {"answers": {"kind": "string", "accepted": [["Po"]]}, "choices": {"A": "Po", "B": "Ob"}},
    ],
)
def test_an_answer_that_is_none_or_is_said_twice_is_refused(tmp_path, more):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "r7", "question": "Which?", "response": "Po"} | more))
    with pytest.raises(BadInput) as caught:
        judge_file(path, LocalJudge())
    assert "r7" in str(caught.value)


def test_an_answer_is_what_is_right_where_a_column_holds_responses(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,question,answer,response\n0,When?,1998,In 1998.\n,When?,1998,1997\n")
    assert [(v.id, v.outcome) for v in judge_file(path, LocalJudge())] == [
        ("0", Outcome.CORRECT),
        ("2", Outcome.INCORRECT),
    ]


def test_a_missing_column_is_told_with_the_names_that_it_may_have(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,question,answers\na,When?,1998\n")
    with pytest.raises(DataError) as caught:
        judge_file(path, LocalJudge())
    assert caught.value.item == str(path)
    assert "--map COLUMN=response" in caught.value.cure
    assert all(name in caught.value.cure for name in ("prediction", "output"))


def test_empty_cells_are_absent_and_an_empty_right_answer_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "question,answer,ground_truth,choices,answer_type\nWhich?,B,Po,\"['Ob', 'Po']\",choice\nWho?,Bo,Bo,,\n"
    )
    assert [v.outcome for v in judge_file(path, LocalJudge())] == [Outcome.CORRECT, Outcome.CORRECT]
    path.write_text("question,answer,ground_truth\nWho?,Bob,\n")
    with raises(BadInput, item=f"{path.name} (1)"):
        judge_file(path, LocalJudge())


@pytest.mark.parametrize("value", [{"data": RAGAS}, {k: [row[k] for row in RAGAS] for k in NEW}])
def test_a_json_object_that_holds_the_rows_is_refused_in_one_line_with_the_cure(
    tmp_path, capsys, value
):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(value, indent=1))
    assert main(["judge", "file", str(path)]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("demur")]
    assert len(told) == 1
    assert str(path) in told[0]
