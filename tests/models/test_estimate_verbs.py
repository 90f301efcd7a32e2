"""``--plan`` on every verb that may call a model: what it says is what is then sent, and planning sends nothing."""

from __future__ import annotations

import json

import curation_world as world
import pytest
from strategies import tiny_release

from demur.cli import main
from demur.testing import running

PRICES = {"models": {"*": {"prompt": 1.0, "completion": 10.0}}}


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(PRICES))
    return path


@pytest.fixture
def run(capsys):
    def work(*words, code=0):
        assert main([str(w) for w in words]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return work


def counts(text):
    return [(line["model"], line["calls"], line["cached"]) for line in json.loads(text)["lines"]]


def asked_and_had(text):
    return [(line["gate"], line["expected"], line["had"]) for line in json.loads(text)["lines"]]


@pytest.fixture
def release(tmp_path):
    return tiny_release(tmp_path / "release", 5, text=4)


@pytest.mark.heavy
def test_a_sweep_sends_what_it_planned_and_shares_what_a_run_paid_for(
    release, tmp_path, prices, run
):
    with running() as server:
        system = f"model:{server.model('m')}"
        common = [
            release,
            "--system",
            system,
            "--out",
            tmp_path / "runs",
            "--max-tokens",
            "7",
            "--prices",
            prices,
        ]
        run("run", *common, "--scenarios", "oracle", "parametric")
        assert server.requests == 10
        sweep = ["sweep", *common, "--distractors", "0:3", "--strictness", "all"]
        sweep[sweep.index(tmp_path / "runs")] = tmp_path / "sweep"
        (tmp_path / "sweep").mkdir()
        (tmp_path / "sweep" / "calls.sqlite").write_bytes(
            (tmp_path / "runs" / "calls.sqlite").read_bytes()
        )
        planned = json.loads(run(*sweep, "--plan", "--json", "--per-second", "2"))
        assert server.requests == 10
        (line,) = planned["lines"]
        assert line["cached"] == 10
        to_pay = line["calls"] - line["cached"]
        assert line["seconds"] == to_pay / 2
        assert line["money"] == pytest.approx((line["prompt"] * 1 + line["completion"] * 10) / 1e6)
        assert line["completion"] == 7 * to_pay
        run(*sweep)
        assert server.requests == 10 + to_pay
        assert counts(run(*sweep, "--plan", "--json")) == [("m", line["calls"], line["calls"])]
        assert "$0.00" in run(*sweep, "--plan")


@pytest.mark.heavy
def test_convergence_sends_what_it_planned(tmp_path, prices, run):
    source = world.folder(tmp_path / "towns")
    with running(reply=lambda body: "I do not know.") as server:
        gates = [
            {"system": f"model:{server.model(n)}", "name": n, "options": {"max_tokens": 5}}
            for n in ("a", "b")
        ]
        recipe = tmp_path / "recipe.yaml"
        made = world.recipe(source, [{**g, "stages": ["parametric"]} for g in gates]).model_dump(
            mode="json"
        )
        recipe.write_text(json.dumps(made))
        words = ["convergence", recipe, "--out", tmp_path / "out", "--prices", prices]
        assert asked_and_had(run(*words, "--plan", "--json")) == [
            ("a", world.N, 0),
            ("b", world.N, 0),
        ]
        assert server.requests == 0
        assert main([*map(str, words), "--budget", "0.0001"]) == 3
        sent = server.requests
        assert sent < 2 * world.N
        run(*words, "--budget", "1", "--json")
        assert server.requests == 2 * world.N
        assert asked_and_had(run(*words, "--plan", "--json")) == [
            ("a", world.N, world.N),
            ("b", world.N, world.N),
        ]


@pytest.mark.slow
@pytest.mark.integration
def test_a_rebuild_is_planned_from_the_old_verdicts_and_nothing_is_written(tmp_path, prices, run):
    source = world.folder(tmp_path / "towns")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(world.recipe(source, world.GATES).model_dump(mode="json")))
    run("build", recipe, "--out", tmp_path / "old")
    with running() as server:
        gate = json.dumps(
            {"system": f"model:{server.model('new')}", "name": "new", "options": {"max_tokens": 5}}
        )
        words = [
            "rebuild",
            tmp_path / "old" / "release",
            "--add-gate",
            gate,
            "--out",
            tmp_path / "new",
            "--trust-code",
        ]
        planned = json.loads(
            run(*words, "--prices", prices, "--plan", "--per-second", "1", "--json")
        )
        assert server.requests == 0
    assert not (tmp_path / "new").exists()
    new = [line for line in planned["lines"] if line["gate"] == "new"]
    assert all(line["had"] == 0 for line in new)
    assert any(line["had"] > 0 for line in planned["lines"] if line["gate"] != "new")
    # at one reply a second: what each gate, a function of the user's too, is expected to be asked anew
    assert planned["total"]["seconds"] == sum(
        max(0, line["expected"] - line["had"]) for line in planned["lines"]
    )
    told = run(
        *words[:2],
        "--add-gate",
        gate.replace("#new", "#gpt-4o"),
        "--trust-code",
        "--plan",
        "--per-second",
        "0.5",
    )
    assert "time: " in told
    assert "at 0.5 answers per second" in told
    assert "from 2026-11-22: check it before" in told


@pytest.mark.slow
def test_the_demo_says_how_often_it_asks_its_model(tmp_path, run):
    out = tmp_path / "demo"
    lines = json.loads(
        run("demo", "--out", out, "--per-topic", "1", "--plan", "--per-second", "4", "--json")
    )["lines"]
    assert [line["stage"] for line in lines] == ["gate", "run"]
    assert lines[1]["calls"] == 8
    assert lines[1]["seconds"] == 2
    assert not out.exists()
    assert "no model is called" in run("demo", "--out", out, "--no-model", "--plan")
