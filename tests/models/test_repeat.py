"""``--repeat N`` from the command line to the report: draws are independent answers, and one item's, never several."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import numpy as np
import pytest
from strategies import tiny_release

from demur.cli import main
from demur.core.records import Outcome, Row, Scenario, Status
from demur.judge.measures.intervals import interval
from demur.judge.measures.paired import mcnemar, of_means, sign_flip
from demur.judge.measures.rates import rates
from demur.judge.measures.table import Table
from demur.reports.data import read_run
from demur.testing import running


@pytest.fixture
def release(tmp_path):
    return tiny_release(tmp_path / "release", 6)


def fickle(body):
    """Right in the first of three draws of a question, and not in the others; draws differ by their seed alone."""
    text = json.dumps(body["messages"])
    return (
        f"answer {next(i for i in range(6) if f's{i}' in text)}"
        if body["seed"] == 5
        else "something else"
    )


def ran(*words, capsys):
    code = main([str(w) for w in words])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


@pytest.mark.heavy
def test_draws_are_asked_apart_and_counted_once(release, tmp_path, capsys):
    with running(reply=fickle) as server:
        common = [
            release,
            "--system",
            f"model:{server.model()}",
            "--out",
            tmp_path / "runs",
            "--repeat",
            "3",
            "--judge",
            "local",
            "--scenarios",
            "oracle",
            "--sampling-seed",
            "5",
            "--temperature",
            "0.7",
            "--max-tokens",
            "9",
        ]
        plan = json.loads(ran("run", *common, "--plan", "--json", capsys=capsys))["lines"][0]
        assert (plan["calls"], plan["cached"]) == (18, 0)
        ran("run", *common, capsys=capsys)
        assert server.requests == 18  # what the plan said, and no draw taken for another
        assert server.stats()["paid_twice"] == 0
        seeds = [body["seed"] for body in server.bodies]
        assert seeds.count(5) == 6
        assert len(set(seeds)) == 3  # the same seed would be the same answer
        assert (
            json.loads(ran("run", *common, "--plan", "--json", capsys=capsys))["lines"][0]["cached"]
            == 18
        )
        ran("run", *common, capsys=capsys)
        assert server.requests == 18
    (folder,) = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
    run = read_run(folder)
    assert run.manifest["repeat"] == 3
    assert sorted(r.repeat for r in run.rows) == [0] * 6 + [1] * 6 + [2] * 6
    assert len({r.ask for r in run.rows}) == 18
    cell = rates(run.rows)
    assert (cell.accuracy.n, cell.accuracy.value) == (6, pytest.approx(1 / 3))
    assert cell.accuracy.repeats == 18
    assert (
        cell.accuracy.interval == "wilson(0.95), judge-error"
    )  # of six items that share no cluster, as if each were asked once

    shown = ran(
        "report",
        folder,
        "--release",
        release,
        "-o",
        tmp_path / "r.html",
        "--tables",
        tmp_path / "t",
        capsys=capsys,
    )
    assert "r.html" in shown
    page = (tmp_path / "r.html").read_text()
    assert "Up to 3 repeats per item count as one" in page
    assert ">6 (18)<" in page  # both numbers, in every table
    for name in ("table4", "table8"):
        lines = list(csv.DictReader((tmp_path / "t" / f"{name}.csv").read_text().splitlines()))
        assert {(line["Oracle n"], line["Oracle n repeats"]) for line in lines} == {("6", "18")}
        assert {line["Oracle Acc repeats"] for line in lines} == {"18"}
    said = json.loads(
        ran(
            "report",
            folder,
            "--release",
            release,
            "-o",
            tmp_path / "r.html",
            "--json",
            capsys=capsys,
        )
    )
    assert [(r["n"], r["repeats"]) for r in said["results"]] == [(6, 18)]
    scored = json.loads(
        ran("score", folder, "--release", release, "--metric", "viquae-em", "--json", capsys=capsys)
    )
    assert [(row["n"], row["repeats"], row["score"]) for row in scored] == [
        (6, 18, pytest.approx(1 / 3))
    ]
    assert "6 (18)" in ran(
        "score", folder, "--release", release, "--metric", "viquae-em", capsys=capsys
    )


def test_draws_of_a_question_lie_together_for_the_prefix_cache(release, tmp_path, capsys):
    with running(reply=fickle) as server:
        ran(
            "run",
            release,
            "--system",
            f"model:{server.model()}",
            "--out",
            tmp_path / "runs",
            "--repeat",
            "3",
            "--scenarios",
            "oracle",
            "--sampling-seed",
            "5",
            "--concurrency",
            "1",
            capsys=capsys,
        )
        asked = [json.dumps(body["messages"]) for body in server.bodies]
    assert sum(a != b for a, b in pairwise(asked)) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--repeat", "0"], "repeat 0"),
        (["--repeat", "2", "--temperature", "0"], "temperature 0"),
    ],
)
def test_draws_that_say_nothing_are_refused(release, tmp_path, capsys, words, said):
    assert (
        main(
            [
                "run",
                str(release),
                "--system",
                "model:http://127.0.0.1:9/v1#m",
                "--out",
                str(tmp_path / "r"),
                *words,
            ]
        )
        == 2
    )
    assert said in capsys.readouterr().err


def row(item, repeat, outcome, **more):
    status = Status.GRADED if outcome else Status.FAILED
    return Row(
        ask=f"{item}-{repeat}",
        context=f"c{item}",
        sample=f"s{item}",
        source="x",
        scenario=Scenario.ORACLE,
        condition="moderate",
        recipe="oracle",
        repeat=repeat,
        k_used=0,
        expected="answer",
        status=status,
        outcome=outcome,
        **more,
    )


RIGHT, WRONG = Outcome.CORRECT, Outcome.INCORRECT


def test_an_item_weighs_the_same_however_many_of_its_draws_have_a_verdict():
    rows = [
        row(0, 0, RIGHT),
        row(0, 1, None),
        row(0, 2, None),
        *(row(1, d, WRONG) for d in range(3)),
    ]
    accuracy, _, hallucination = rates(rows)
    assert (accuracy.value, hallucination.value, accuracy.n, accuracy.failed) == (0.5, 0.5, 2, 2)
    import pyarrow as pa

    arrow = Table(pa.Table.from_pylist([r.model_dump(mode="json") for r in rows]))
    assert rates(arrow) == rates(rows)
    assert rates(rows, "wilson").accuracy.n == 2


def test_draws_do_not_make_an_interval_narrower_than_their_items_do():
    """Five identical draws of 40 items know no more than one draw of each."""
    once = [row(i, 0, RIGHT if i % 4 else WRONG) for i in range(40)]
    often = [row(i, d, RIGHT if i % 4 else WRONG) for i in range(40) for d in range(5)]
    one, five = (
        rates(once, interval("cluster-bootstrap")),
        rates(often, interval("cluster-bootstrap")),
    )
    assert (one.accuracy.low, one.accuracy.high) == (five.accuracy.low, five.accuracy.high)
    assert one.accuracy.n == five.accuracy.n == 40


def test_paired_means_are_mcnemar_with_one_draw_and_sign_flips_with_more():
    first, second = (
        np.array([1, 1, 0, 0, 1, 0, 0, 1, 0] * 4, bool),
        np.array([1, 0, 1, 1, 1, 1, 0, 1, 1] * 4, bool),
    )
    cluster = np.arange(len(first))
    flags = of_means(first, second, cluster)
    assert of_means(first.astype(float), second.astype(float), cluster) == flags
    assert flags.p_exact == mcnemar(4, 16)
    assert sign_flip(second.astype(float) - first) == pytest.approx(
        mcnemar(4, 16), abs=0.005
    )  # the same test
    shares = of_means(np.array([0.2, 0.4, 0.6]), np.array([0.4, 0.4, 0.8]), np.arange(3))
    assert (shares.only_first, shares.only_second) == (0, 2)
    assert shares.difference == pytest.approx(0.4 / 3)
    assert shares.p_exact == pytest.approx(0.5, abs=0.03)
    assert sign_flip(np.zeros(4)) is None


@pytest.mark.heavy
def test_runs_with_draws_are_compared_item_by_item(release, tmp_path, capsys):
    with running(reply=fickle) as server, running(reply=lambda body: "something else") as other:
        for name, place in (("a", server), ("b", other)):
            ran(
                "run",
                release,
                "--system",
                f"model:{place.model(name)}",
                "--out",
                tmp_path / name,
                "--repeat",
                "3",
                "--judge",
                "local",
                "--scenarios",
                "oracle",
                "--sampling-seed",
                "5",
                capsys=capsys,
            )
    found = [str(next(p for p in (tmp_path / name).iterdir() if p.is_dir())) for name in "ab"]
    told = json.loads(ran("compare", *found, "--release", release, "--json", capsys=capsys))
    assert (told["pairs"], told["repeats"]) == (6, 3)
    assert "sign-flip" in told["test"]
    (accuracy,) = [d for d in told["differences"] if d["measure"] == "accuracy"]
    assert accuracy["n"] == 6
    assert accuracy["delta"] == pytest.approx(-1 / 3)


def test_a_run_tells_its_retries_and_its_cost_where_there_is_no_terminal(
    release, tmp_path, capsys, monkeypatch
):
    from demur.core import progress

    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    with running("500*2", reply=fickle) as server:
        words = [
            "run",
            release,
            "--system",
            f"model:{server.model('gpt-4o')}",
            "--out",
            tmp_path / "runs",
        ]
        assert (
            main([str(w) for w in (*words, "--scenarios", "oracle", "--sampling-seed", "5")]) == 0
        )
    lines = [
        line for line in capsys.readouterr().err.splitlines() if "answers of model:gpt-4o" in line
    ]
    assert "/6, " in lines[0]
    assert "s left" in lines[1]
    assert "6/6, " in lines[-1]
    assert "8 sent, 0 cached, 2 retries, 0 failed, " in lines[-1]
    assert "(cost of 2 " in lines[-1]  # nobody knows what a 500 costs
