"""The round trip of systems that demur does not run: questions out, answers in, each for its own context."""

from __future__ import annotations

import csv
import json

import pytest

from demur.cli import main
from demur.core.records import Response
from demur.scenarios.systems.answers import AnswersFile


def answered(path, answer):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row | {"answer": answer(row)} for row in rows]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"answers:{path}"


def by_context(folder):
    import pyarrow.parquet as pq

    found = {}
    for row in pq.read_table(folder / "rows.parquet").to_pylist():
        found.setdefault(f"{row['scenario']} {row['k_used']}", set()).add(row["answer"])
    return found


def test_questions_go_out_and_answers_come_back_each_for_its_own_context(release, tmp_path, capsys):
    asks, pictures = tmp_path / "q" / "asks.jsonl", tmp_path / "pictures"
    what = ["--distractors", "0:4", "--strictness", "none", "severe"]
    assert main(["asks", str(release), "-o", str(asks), "--images", str(pictures), *what]) == 0
    rows = answered(asks, lambda row: f"{row['scenario']} {row['k']} {row['condition']}")
    assert len(rows) == 4 * 8 * 2  # the sweep's realistic(k=2) is one of the four scenarios
    assert all((asks.parent / path).read_bytes() for row in rows for path in row["images"])
    assert all(
        (asks.parent / e["image"]).is_file() for row in rows for e in row["evidence"] if e["image"]
    )
    assert not {"answer", "gold", "role", "expected"} & {key for row in rows for key in row} - {
        "answer"
    }
    system = write(tmp_path / "all.jsonl", rows)
    assert (
        main(["sweep", str(release), "--system", system, "--out", str(tmp_path / "runs"), *what])
        == 0
    )
    assert "no answer" not in capsys.readouterr().err
    found = by_context(tmp_path / "runs" / "answers-all.jsonl")
    assert found["realistic 4"] == {"realistic 4 none", "realistic 4 severe"}
    assert len(found) == 3 + 5


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "json"])
def test_rows_by_sample_scenario_and_k(release, tmp_path, ending):
    rows = [
        {
            "sample": f"s{i}",
            "scenario": "realistic",
            "k": k,
            "answer": f"an answer, {k}",
            "confidence": 0.5,
        }
        for i in range(4)
        for k in range(4)
    ]
    path = tmp_path / f"mine.{ending}"
    if ending == "jsonl":
        write(path, rows)
    elif ending == "json":  # one line; and k as pandas writes it beside gaps
        path.write_text(json.dumps([row | {"k": float(row["k"])} for row in rows]))
    else:
        with path.open("w", newline="") as handle:
            table = csv.DictWriter(
                handle, list(rows[0]), delimiter="," if ending == "csv" else "\t"
            )
            table.writeheader()
            table.writerows(rows)
    words = [f"realistic(k={k})" for k in range(4)]
    assert (
        main(
            [
                "run",
                str(release),
                "--system",
                f"answers:{path}",
                "--out",
                str(tmp_path / "r"),
                "--scenarios",
                *words,
            ]
        )
        == 0
    )
    found = by_context(tmp_path / "r" / f"answers-mine.{ending}")
    assert found == {f"realistic {k}": {f"an answer, {k}"} for k in range(4)}


def test_what_is_missing_and_what_nobody_asks_are_named(release, tmp_path, capsys):
    rows = [{"sample": f"s{i}", "scenario": "oracle", "answer": f"answer {i}"} for i in range(3)]
    system = write(tmp_path / "mine.jsonl", [*rows, {"ask": "0123456789abcdef", "answer": "x"}])
    run = ["run", str(release), "--out", str(tmp_path / "r"), "--scenarios", "oracle"]
    assert main([*run, "--system", system]) == 0
    said = capsys.readouterr().err
    for part in (
        "1 of 4 questions",
        "sample s3 in oracle (k=0, moderate)",
        "1 of 4 rows",
        "mine.jsonl:4 (0123456789abcdef)",
    ):
        assert part in said
    strange = write(
        tmp_path / "strange.jsonl",
        [{"sample": f"x{i}", "scenario": "oracle", "answer": "y"} for i in range(10)],
    )
    assert main([*run, "--system", strange]) == 2
    assert "10 of 10 rows" in capsys.readouterr().err
    assert main([*run, "parametric", "--strictness", "none", "soft", "--system", system]) == 2
    assert "mine.jsonl:1" in capsys.readouterr().err


def test_an_overwritten_file_is_another_system(release, tmp_path, capsys):
    run = [
        "run",
        str(release),
        "--out",
        str(tmp_path / "r"),
        "--scenarios",
        "oracle",
        "--json",
        "--system",
    ]
    figures = []
    for text in ("answer 1", "wrong", "answer 1"):
        system = write(
            tmp_path / "mine.jsonl",
            [{"sample": f"s{i}", "scenario": "oracle", "answer": text} for i in range(4)],
        )
        assert main([*run, system]) == 0
        figures.append(capsys.readouterr().out)
    assert figures[0] == figures[2] != figures[1]
    (tmp_path / "other").mkdir()
    system = write(
        tmp_path / "other" / "mine.jsonl",
        [{"sample": f"s{i}", "scenario": "oracle", "answer": "wrong"} for i in range(4)],
    )
    assert main([*run, system]) == 0
    assert capsys.readouterr().out == figures[1]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"answer": "x"}, "question"),
        ({"ask": "a"}, "answer"),
        ({"ask": 3, "answer": "x"}, "id"),
        (
            {"sample": "s0", "scenario": "orcale", "answer": "x"},
            "parametric, oracle, realistic, adversarial",
        ),
        (
            {"sample": "s0", "scenario": "oracle", "k": "two", "answer": "x"},
            "'two'",
        ),
        ({"ask": "a", "answer": "x", "confidence": float("nan")}, "NaN"),
        ({"ask": "a", "answer": "\ud800"}, "surrogate"),
    ],
)
def test_rows_that_are_no_answers_are_told_by_line(release, tmp_path, capsys, row, told):
    system = write(tmp_path / "mine.jsonl", [row])
    assert main(["run", str(release), "--out", str(tmp_path / "r"), "--system", system]) == 1
    said = capsys.readouterr().err
    assert told in said
    assert "mine.jsonl:1" in said


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_questions_of_a_whole_system_say_its_corpus_and_what_to_leave_out(
    release, tmp_path, ending, capsys
):
    assert main(["corpus", "export", str(release), "--out", str(tmp_path / "corpora")]) == 0
    asks = tmp_path / f"asks.{ending}"
    what = ["--scenarios", "whole", "--corpora", str(tmp_path / "corpora")]
    assert main(["asks", str(release), "-o", str(asks), *what]) == 0
    if ending == "jsonl":
        rows = [json.loads(line) for line in asks.read_text().splitlines()]
    else:
        with asks.open(newline="") as handle:
            rows = [row | {"exclude": json.loads(row["exclude"])} for row in csv.DictReader(handle)]
    excluded = json.loads((tmp_path / "corpora/corpora.json").read_text())["excluded"]
    assert (
        {r["corpus"] for r in rows}
        == {r["scenario"] for r in rows}
        == {"full", "gold-removed", "empty"}
    )
    for row in rows:
        assert row["exclude"] == (
            excluded[row["sample"]] if row["corpus"] == "gold-removed" else []
        )
    said = [
        {
            "ask": r["ask"],
            "answer": "an answer",
            "contexts": json.dumps(["d1#2", {"id": "d2", "score": 0.5}]),
            "abstained": "false",
        }
        for r in rows[1:]
    ]
    said[0] |= {"ask": "0123456789abcdef"}
    said[1] |= {"answer": "Empty Response"}
    path = tmp_path / f"mine.{ending}"
    with path.open("w", newline="") as handle:
        if ending == "csv":
            table = csv.DictWriter(handle, list(said[0]))
            table.writeheader()
            table.writerows(said)
        else:
            handle.writelines(
                json.dumps(r | {"contexts": json.loads(r["contexts"])}) + "\n" for r in said
            )
    capsys.readouterr()
    assert (
        main(
            [
                "run",
                str(release),
                "--system",
                f"mine=answers:{path}",
                "--out",
                str(tmp_path / "r"),
                *what,
            ]
        )
        == 0
    )
    told = capsys.readouterr().err
    assert f"2 of {len(rows)} questions" in told
    assert f"mine.{ending}:{1 if ending == 'jsonl' else 2} (0123456789abcdef)" in told
    responses = [
        json.loads(line) for line in (tmp_path / "r/mine/responses.jsonl").read_text().splitlines()
    ]
    good = [r["response"] for r in responses if not r["response"]["error"]]
    assert len(good) == len(rows) - 3
    assert [(c["id"], c["score"]) for c in good[0]["retrieved"]] == [("d1#2", None), ("d2", 0.5)]
    assert sum("retriever" in r["response"]["error"] for r in responses) == 1


def test_a_system_is_called_what_the_user_says(release, tmp_path):
    import demur

    rows = [{"sample": f"s{i}", "scenario": "oracle", "answer": f"answer {i}"} for i in range(4)]
    system = write(tmp_path / "mine.jsonl", rows)
    run = ["run", str(release), "--out", str(tmp_path / "r"), "--scenarios", "oracle", "--system"]
    assert main([*run, f"a={system}", f"b={system}"]) == 0
    assert {p.name for p in (tmp_path / "r").iterdir() if p.is_dir()} == {"a", "b"}
    assert main([*run, f"a={system}", f"a={system}"]) == 2
    made = demur.evaluate(release, f"c={system}", scenarios="oracle", out=tmp_path / "r")
    assert made.folder.name == "c"
    assert "c" in repr(made)


def test_answers_may_be_a_sheet_of_a_german_spreadsheet_and_lists_those_of_pandas(tmp_path):
    file = tmp_path / "answers.csv"
    cells = "s1;oracle;Paris;0,9;\"['d1', 'd2']\"\r\n;;;;\r\ns2;oracle;;;\r\n"
    file.write_text(
        "\ufeffSample;Scenario;Answer;Confidence;Contexts\r\n" + cells, encoding="utf-8"
    )
    found = AnswersFile(str(file), None)._by_sample
    one = Response.model_validate_json(next(iter(found["s1", "oracle"].values())).response)
    assert (one.text, one.confidence, [c.id for c in one.retrieved]) == ("Paris", 0.9, ["d1", "d2"])
    assert ("s2", "oracle") in found
