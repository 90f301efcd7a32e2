"""The gate for CI: decided on intervals, told why, and rarely red by chance."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from report_factory import make_demo

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Measure, Row, Scenario, Status
from demur.core.stats import wilson
from demur.reports.cells import headline, main_cells
from demur.reports.data import Run, load
from demur.reports.gate import (
    BY_CHANCE,
    SAME,
    Limit,
    _needed,
    decide,
    decided,
    differences,
    gate,
    limits,
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return make_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.heavy
def test_limits_are_met_broken_or_undecided(demo, tmp_path, capsys):
    release, runs = demo
    run = next(r for r in runs if r.name == "reader")
    command = ["gate", str(run), "--release", str(release), "--json"]
    for asked, code, state in (
        (["--min-accuracy", "oracle=0.2"], 0, "pass"),
        (["--max-hallucination", "adversarial=20%"], 1, "fail"),
        (["--min-accuracy", "oracle=0.78"], 4, "undecided"),
        (["--min-accuracy", "full=0.5"], 4, "undecided"),
    ):
        assert main([*command, *asked, "--strict"]) == code
        assert json.loads(capsys.readouterr().out)["state"] == state
    assert (
        main([*command, "--max-hallucination", "adversarial=20%"]) == 0
    )  # advisory: nobody has labelled anything
    assert "labelled" in json.loads(capsys.readouterr().out)["advisory"]
    files = ["--junit", str(tmp_path / "g.xml"), "--markdown", str(tmp_path / "g.md")]
    assert main([*command, "--max-hallucination", "adversarial=20%", "--strict", *files]) == 1
    suite = ET.parse(tmp_path / "g.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "hallucination in adversarial" in (tmp_path / "g.md").read_text()


def test_a_sweep_in_the_run_is_no_part_of_the_gate(demo):
    release, runs = demo
    data = load([next(r for r in runs if r.name == "reader")], release)
    (mine,) = data.runs
    cell = main_cells(data, headline(data.runs))[mine.name, Scenario.REALISTIC]
    assert (
        mine.rows.is_in("scenario", ["realistic"]).sum()
        > cell.n + cell.accuracy.ungraded + cell.accuracy.failed
    )
    found = decided(mine, [Limit("min", "accuracy", Scenario.REALISTIC, 0.5)], strict=True)
    assert f"n = {cell.n:,}" in found.checks[0].why


def test_a_baseline_of_another_kind_is_refused_and_a_worse_run_fails(demo, tmp_path):
    release, runs = demo
    by_name = {r.name: r for r in runs}
    found = gate(by_name["small-lm"], baseline=by_name["reader"], release=release, strict=True)
    assert found.state in ("pass", "fail")
    other = tmp_path / "other"
    other.mkdir()
    for file in by_name["reader"].iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"judge": "paper:x"}))
    with pytest.raises(UsageError, match="judge"):
        gate(by_name["small-lm"], baseline=other, release=release, strict=True)


@pytest.mark.parametrize(
    "text", ["adversarial", "advers=0.1", "oracle=1.5", "oracle=-1", "oracle=x"]
)
def test_wrong_limits_are_told(text):
    with pytest.raises(UsageError):
        limits([text], "max", "hallucination")


@pytest.mark.heavy
def test_a_system_at_its_limit_is_red_no_more_often_than_is_said():
    """Fifty gates of each of two hundred unchanged systems whose true rate is the limit: at most 5 % are red."""
    rng, limit, n = (
        np.random.default_rng(0),
        Limit("max", "hallucination", Scenario.GOLD_REMOVED, 0.15),
        120,
    )
    states = []
    for k in rng.binomial(n, limit.value, 10_000):
        low, high = wilson(int(k), n)
        states.append(decide(limit, Measure(name="h", value=k / n, n=n, low=low, high=high)).state)
    assert 0.01 < states.count("fail") / len(states) <= 0.05
    assert (
        "questions would decide"
        in decide(limit, Measure(name="h", value=0.1, n=20, low=0.02, high=0.3)).why
    )


@pytest.mark.parametrize("key", SAME)
def test_every_thing_that_must_be_the_same_is_looked_at(key):
    one, other = ({name: name for name in SAME} | {key: value} for value in ("a", "b"))
    runs = [Run("r", Path("r"), manifest, ()) for manifest in (one, other, one)]
    assert differences(runs[0], runs[1]) == [key]
    assert differences(runs[0], runs[2]) == []


@pytest.mark.parametrize(
    ("side", "limit", "unjudged", "state"),
    [
        ("max", 0.15, 0, "fail"),
        ("max", 0.15, 300, "undecided"),
        ("max", 0.15, 20, "fail"),
        ("max", 0.7, 0, "pass"),
        ("max", 0.7, 300, "undecided"),
        ("max", 0.7, 20, "pass"),
        ("min", 0.3, 0, "pass"),
        ("min", 0.3, 300, "undecided"),
        ("min", 0.3, 20, "pass"),
        ("min", 0.7, 0, "fail"),
        ("min", 0.7, 300, "undecided"),
        ("min", 0.7, 20, "fail"),
    ],
)
def test_what_the_judge_could_not_grade_decides_nothing(side, limit, ungraded, state):
    measure = Measure(name="r", value=0.5, n=100, low=0.4, high=0.6, unjudged=ungraded)
    check = decide(Limit(side, "hallucination", Scenario.GOLD_REMOVED, limit), measure)
    assert check.state == state
    assert ("a judge that grades more" in check.why) == (state == "undecided")
    told = decide(
        Limit(side, "hallucination", Scenario.GOLD_REMOVED, limit), measure, unknown=ungraded
    )
    assert told.state != "undecided"  # of questions whose answer nobody knows


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1, 0.3])
def test_as_many_questions_as_are_said_would_tell(rate):
    """The number that is told is enough, and four fifths of it are not."""
    limit = Limit("max", "hallucination", Scenario.EMPTY, 0.15)

    def of(n):
        hits = round(rate * n)
        low, high = wilson(hits, n)
        return decide(limit, Measure(name="h", value=hits / n, n=n, low=low, high=high))

    needed = _needed(rate, 0.15, 0.95)
    assert of(needed).state == ("pass" if rate < 0.15 else "fail")
    assert of(int(needed * 0.8) or 1).state == "undecided"
    assert _needed(0.15, 0.15, 0.95) is None


def sampled(seed: int, *, rates=(0.7, 0.2), n=60, repeats=2, name="run") -> Run:
    """A run of a system that answers by lot: right at ``rates[0]`` over *full*, made up at ``rates[1]`` without gold.

    How easy a question is stays the same from run to run; three questions share a cluster.
    """
    dice, fixed = np.random.default_rng(seed), np.random.default_rng(0)
    rows = []
    for scenario, expected, rate in (
        ("full", "answer", rates[0]),
        ("gold-removed", "deflect", rates[1]),
    ):
        ease = fixed.beta(4 * rate, 4 * (1 - rate), n)
        ease += rate - ease.mean()
        hits = dice.random((n, repeats)) < ease[:, None]
        for q in range(n):
            for r in range(repeats):
                hit, miss = (
                    ("correct", "incorrect") if expected == "answer" else ("incorrect", "deflected")
                )
                rows.append(
                    Row(
                        ask=f"{scenario}-{q}-{r}",
                        context=f"{scenario}-{q}",
                        sample=f"q{q}",
                        source="docs",
                        cluster=f"c{q // 3}",
                        scenario=scenario,
                        condition="moderate",
                        recipe=scenario,
                        repeat=r,
                        k_used=0,
                        expected=expected,
                        status="graded",
                        outcome=hit if hits[q, r] else miss,
                    )
                )
    return Run(name, Path(name), {}, rows)


@pytest.mark.heavy
def test_a_gate_on_an_unchanged_system_is_red_no_more_often_than_it_says():
    """Fifty runs of one system with sampled answers, two limits at its true rates and itself as the baseline."""
    asked = [
        Limit("min", "accuracy", Scenario.FULL, 0.7),
        Limit("max", "hallucination", Scenario.GOLD_REMOVED, 0.2),
    ]
    gates = [
        decided(sampled(seed), asked, sampled(1000 + seed, name="main"), strict=True)
        for seed in range(50)
    ]
    assert {len(g.checks) for g in gates} == {3}
    assert sum(g.exit_code == 1 for g in gates) <= BY_CHANCE * len(gates)
    assert {c.state for g in gates for c in g.checks[:2]} >= {"undecided"}
    worse = [
        decided(sampled(seed, rates=(0.35, 0.6)), asked, sampled(1000), strict=True)
        for seed in range(5)
    ]
    assert [g.exit_code for g in worse] == [1] * 5  # and it is no gate that is never red


@pytest.mark.parametrize(
    ("mine", "theirs", "state"), [(24, 4, "undecided"), (12, 12, "pass"), (4, 24, "pass")]
)
def test_a_run_of_which_the_judge_grades_less_than_of_its_baseline_is_not_let_through(
    mine, theirs, state
):
    """The wrong answers of a worse system could all be among those that its judge cannot grade."""

    def less(run: Run, first: int, many: int) -> Run:
        hidden = {f"full-{q}" for q in range(first, first + many)}
        rows = [
            row.model_copy(update={"status": Status.UNJUDGED, "outcome": None, "reason": "?"})
            if row.context in hidden
            else row
            for row in run.rows
        ]
        return Run(run.name, Path(run.name), {}, rows)

    gate = decided(
        less(sampled(3), 0, mine), (), less(sampled(3, name="main"), 30, theirs), strict=True
    )
    (check,) = gate.checks
    assert check.state == state
    assert f"Left out: {mine + theirs} pairs not graded in one or both" in check.why
    assert (f"{mine} are graded only in main, {theirs} only in run" in check.why) == (
        state == "undecided"
    )
