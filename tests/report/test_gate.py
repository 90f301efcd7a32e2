"""The gate for CI: decided on intervals, closed where it cannot decide, and rarely red by chance."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from report_factory import make_demo

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Measure, Method, Outcome, Row, Scenario, Status
from demur.core.stats import wilson
from demur.judge.measures import judge_error
from demur.judge.measures.corrected import LEAST
from demur.judge.measures.judge_error import DRAWS, Group
from demur.reports.cells import headline, main_cells
from demur.reports.data import Run, load
from demur.reports.gate import (
    BY_CHANCE,
    SAME,
    Limit,
    Reading,
    _questions_needed,
    aspects_that_differ,
    decide,
    gate,
    gate_of_runs,
    limits,
    limits_of,
    plan,
    tightest_limits,
)
from demur.reports.labels import HumanLabel


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
        (
            ["--max-hallucination", "adversarial=99%", "--max-hallucination", "adversarial=20%"],
            1,
            "fail",
        ),
        (["--min-declined", "adversarial=99%"], 1, "fail"),
        (["--min-joint", "0.99"], 1, "fail"),
        (["--min-accuracy", "oracle=0.78"], 4, "undecided"),
        (["--min-accuracy", "oracle=0.78", "--allow-undecided"], 0, "undecided"),
    ):
        assert main([*command, *asked]) == code, asked
        assert json.loads(capsys.readouterr().out)["state"] == state
    files = ["--junit", str(tmp_path / "g.xml"), "--markdown", str(tmp_path / "g.md")]
    for words, failures in (
        (["--max-hallucination", "adversarial=20%"], 1),
        (["--min-accuracy", "oracle=0.78"], 1),
        (["--min-accuracy", "oracle=0.78", "--allow-undecided"], 0),
    ):
        main([*command, *words, *files])
        suite = ET.parse(tmp_path / "g.xml").getroot()
        assert (suite.get("tests"), suite.get("failures")) == ("1", str(failures))
    assert "accuracy in oracle" in (tmp_path / "g.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["--min-accuracy", "full=0.5"],
        ["--min-declined", "oracle=0.5"],
        ["--min-accuracy", "adversarial=0.5"],
        ["--min-accuracy", "oracle=0.5", "--questions", "4"],
        [],
    ],
    ids=["not asked", "nothing to decline", "nothing to answer", "of the plan", "no limit"],
)
def test_what_cannot_be_meant_is_refused(demo, words):
    release, runs = demo
    assert main(["gate", str(runs[0]), "--release", str(release), *words]) == 2


@pytest.mark.parametrize(
    ("limit", "n", "share"),
    [
        (Limit("min", "accuracy", Scenario.ORACLE, 0.5), 70, "100.0 %"),
        (Limit("max", "deflection", Scenario.ORACLE, 0.5), 70, "0.0 %"),
        (Limit("min", "declined", Scenario.ORACLE, 0.5), 30, "100.0 %"),
        (Limit("max", "hallucination", Scenario.ORACLE, 0.5), 100, "0.0 %"),
    ],
)
def test_a_limit_counts_the_questions_that_it_is_about(limit, n, share):
    """Thirty of a hundred questions have no answer, and declining them is no lack of accuracy."""
    answered, declined = judged(0, 100).rows, "deflect"
    rows = [
        row.model_copy(
            update={"expected": declined, "outcome": Outcome.DEFLECTED} if i < 30 else {}
        )
        for i, row in enumerate(answered)
    ]
    (check,) = gate_of_runs(Run("mine", Path("mine"), {}, rows), [limit]).checks
    assert check.state == "pass"
    assert f"n = {n}" in check.why
    assert check.why.startswith(share)


def test_a_sweep_in_the_run_is_no_part_of_the_gate(demo):
    release, runs = demo
    data = load([next(r for r in runs if r.name == "reader")], release)
    (mine,) = data.runs
    cell = main_cells(data, headline(data.runs))[mine.name, Scenario.REALISTIC]
    assert (
        mine.rows.is_in("scenario", ["realistic"]).sum()
        > cell.n + cell.accuracy.unjudged + cell.accuracy.failed
    )
    found = gate_of_runs(mine, [Limit("min", "accuracy", Scenario.REALISTIC, 0.5)])
    assert f"n = {cell.n:,}" in found.checks[0].why


def test_a_baseline_of_another_kind_is_refused_and_a_worse_run_fails(demo, tmp_path):
    release, runs = demo
    by_name = {r.name: r for r in runs}
    found = gate(by_name["small-lm"], baseline=by_name["reader"], release=release)
    assert found.state in ("pass", "fail")
    other = tmp_path / "other"
    other.mkdir()
    for file in by_name["reader"].iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"judge": "paper:x"}))
    with pytest.raises(UsageError, match="judge"):
        gate(by_name["small-lm"], baseline=other, release=release)


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
        states.append(decide(limit, of(int(k), n)).state)
    assert 0.01 < states.count("fail") / len(states) <= 0.05


def of(hits: int, n: int, **counts) -> Reading:
    """A rate of a judge whose error nobody measured."""
    low, high = wilson(hits, n)
    return Reading(Measure(name="r", value=hits / n, n=n, low=low, high=high, **counts))


@pytest.mark.parametrize("key", SAME)
def test_every_thing_that_must_be_the_same_is_looked_at(key):
    one, other = ({name: name for name in SAME} | {key: value} for value in ("a", "b"))
    runs = [Run("r", Path("r"), manifest, ()) for manifest in (one, other, one)]
    assert aspects_that_differ(runs[0], runs[1]) == [key]
    assert aspects_that_differ(runs[0], runs[2]) == []


@pytest.mark.parametrize(
    ("side", "limit", "unjudged", "failed", "state"),
    [
        ("max", 0.15, 0, 0, "fail"),
        ("max", 0.15, 300, 0, "undecided"),
        ("max", 0.15, 20, 0, "fail"),
        ("max", 0.7, 0, 0, "pass"),
        ("max", 0.7, 300, 0, "undecided"),
        ("max", 0.7, 20, 0, "pass"),
        ("min", 0.3, 0, 0, "pass"),
        ("min", 0.3, 300, 0, "undecided"),
        ("min", 0.3, 20, 0, "pass"),
        ("min", 0.7, 0, 0, "fail"),
        ("min", 0.7, 300, 0, "undecided"),
        ("min", 0.7, 20, 0, "fail"),
        ("max", 0.62, 0, 9, "undecided"),  # not passed by failing where it is hard
        ("max", 0.7, 0, 9, "pass"),
        ("min", 0.38, 0, 9, "undecided"),
        ("max", 0.15, 0, 300, "fail"),  # nor saved by it
        ("min", 0.7, 0, 300, "fail"),
        ("max", 0.63, 5, 5, "undecided"),  # both together
        ("max", 0.63, 5, 0, "pass"),
        ("max", 0.63, 0, 5, "pass"),
    ],
)
def test_what_is_in_no_rate_decides_nothing(side, limit, unjudged, failed, state):
    check = decide(
        Limit(side, "hallucination", Scenario.GOLD_REMOVED, limit),
        of(50, 100, unjudged=unjudged, failed=failed),
    )
    assert check.state == state


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("spread", [None, 0.01])
def test_as_many_questions_as_are_told_would_decide(rate, spread):
    """The number that is told is enough, and four fifths of it are not, whatever the judge's own error."""
    limit = Limit("max", "hallucination", Scenario.EMPTY, 0.15)
    shift = (
        None
        if spread is None
        else np.random.default_rng(0).normal([[0.0], [0.0]], [[spread], [0.0]], (2, DRAWS))
    )
    needed = _questions_needed(rate, limit, 0.95, shift)
    if spread is None:
        assert decide(limit, of(round(rate * needed), needed)).state == (
            "pass" if rate < 0.15 else "fail"
        )
        fewer = int(needed * 0.8) or 1
        assert decide(limit, of(round(rate * fewer), fewer)).state == "undecided"
    else:
        assert needed >= _questions_needed(rate, limit, 0.95)
    assert _questions_needed(0.15, limit, 0.95, shift) is None


def sampled(
    seed: int, *, rates=(0.7, 0.2), n=60, repeats=2, name="run", method=Method.MODEL
) -> Run:
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
                        method=method,
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
        gate_of_runs(sampled(seed), asked, sampled(1000 + seed, name="main")) for seed in range(50)
    ]
    assert {len(g.checks) for g in gates} == {3}
    assert sum(g.exit_code == 1 for g in gates) <= BY_CHANCE * len(gates)
    assert {c.state for g in gates for c in g.checks[:2]} >= {"undecided"}
    worse = [
        gate_of_runs(sampled(seed, rates=(0.35, 0.6)), asked, sampled(1000)) for seed in range(5)
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

    gate = gate_of_runs(less(sampled(3), 0, mine), (), less(sampled(3, name="main"), 30, theirs))
    (check,) = gate.checks
    assert check.state == state
    assert f"{mine + theirs} pairs" in check.why


# --- what would decide ----------------------------------------------------------------------------


def judged(
    wrong: int, n: int, labels: str = "", *, method=Method.EQUIVALENCE, failed: int = 0
) -> Run:
    """A run over *oracle* whose first answers are called wrong; letters of ``labels`` are what people call them."""
    rows = [
        Row(
            ask=f"q{i}",
            context=f"q{i}",
            sample=f"q{i}",
            source="docs",
            scenario="oracle",
            condition="moderate",
            recipe="oracle(order=shuffled)",
            k_used=0,
            expected="answer",
            status="failed" if i >= n else "graded",
            outcome=None if i >= n else "incorrect" if i < wrong else "correct",
            method="" if i >= n else method,
        )
        for i in range(n + failed)
    ]
    kinds = {"c": Outcome.CORRECT, "i": Outcome.INCORRECT, "d": Outcome.DEFLECTED}
    said = {
        f"q{i}": HumanLabel(kinds[letter], judge="local", drawn=True)
        for i, letter in enumerate(labels)
        if letter in kinds
    }
    return Run("mine", Path("mine"), {}, tuple(rows), labels=said, judges=("local",))


def check_of(run: Run, share: float, rate: str = "accuracy"):
    (check,) = gate_of_runs(run, [Limit("min", rate, Scenario.ORACLE, share)]).checks
    return check


@pytest.fixture
def two_kinds(monkeypatch):
    """A judge measured on two systems: it takes 6 or 14 of 100 wrong answers for right, and misses 3 or 9 right ones."""
    groups = [Group("one", 400, 12, 400, 24), Group("other", 400, 36, 400, 56)]
    monkeypatch.setattr(judge_error, "groups", lambda: {"equivalence": groups, "declined": groups})
    judge_error.shares.cache_clear()
    yield
    judge_error.shares.cache_clear()


def test_few_questions_ask_for_questions_and_a_judge_that_errs_for_labels(two_kinds):
    """Of 4,000 answers three of four are called right: about .75 to .80 are, and no number of answers says which."""
    few, many = check_of(judged(3, 10), 0.5), check_of(judged(1000, 4000), 0.775)
    assert (few.state, many.state) == ("undecided", "undecided")
    assert re.search(r"about \d+ questions", few.why)
    assert f"label {LEAST} answers" in many.why
    assert "another judge" in many.why
    assert not re.search(r"\d questions", many.why)
    assert check_of(judged(1000, 4000), 0.6).state == "pass"
    assert check_of(judged(1000, 4000), 0.85).state == "fail"


def test_forty_labels_decide_and_fewer_say_how_many_are_missing(two_kinds):
    """The judge calls three of four right; people call every third of those wrong."""
    truth = "".join("i" if i < 1000 or i % 3 == 0 else "c" for i in range(4000))
    drawn = "".join(letter if i % 10 == 0 else " " for i, letter in enumerate(truth))
    assert check_of(judged(1000, 4000), 0.6).state == "pass"
    labelled = check_of(judged(1000, 4000, drawn), 0.6)
    assert labelled.state == "fail"
    assert "400 labels" in labelled.why
    some = check_of(judged(1000, 4000, drawn[:300]), 0.775)
    assert some.state == "undecided"
    assert f"label {LEAST - 30} more" in some.why


def test_a_judge_whose_error_nobody_knows_is_named():
    unknown = check_of(judged(0, 200, method=Method.MODEL), 0.5).why
    assert "unknown" in unknown
    assert "unknown" not in check_of(judged(0, 200), 0.5).why


def test_a_run_does_not_pass_by_failing_on_what_is_hard():
    limit = wilson(200, 200)[0] - 0.001
    assert check_of(judged(0, 200, method=Method.MODEL), limit).state == "pass"
    evading = check_of(judged(0, 200, method=Method.MODEL, failed=15), limit)
    assert evading.state == "undecided"
    assert "15 failed" in evading.why


def test_joint_success_is_limited_over_all_scenarios():
    run = sampled(1, rates=(0.95, 0.05), repeats=1)
    for share, state in ((0.5, "pass"), (0.999, "fail")):
        (check,) = gate_of_runs(run, [Limit("min", "joint", None, share)]).checks
        assert check.state == state
    with pytest.raises(UsageError):
        gate_of_runs(judged(0, 10), [Limit("min", "joint", None, 0.5)])


# --- before anything is asked ---------------------------------------------------------------------


@pytest.mark.parametrize("judge", ["local", "model:x"])
def test_a_plan_says_how_many_questions_can_decide(judge):
    """So many can, one fewer cannot, and a limit within the judge's error asks for labels."""
    asked = limits_of(
        min_declined={"adversarial": 0.85},
        min_accuracy={"oracle": 0.8},
        max_hallucination={"adversarial": 0.2},
    )
    n = dict.fromkeys(Scenario, 10)
    checks = plan(asked, n, judge=judge)
    assert [c.state for c in checks] == ["undecided"] * 3
    for limit, check in zip(asked, checks, strict=True):
        enough = int(check.why.split(", ")[1].split(" can")[0])
        wholly = asked[:]
        assert str(limit) not in {
            c.what for c in plan(wholly, n | {limit.scenario: enough}, judge=judge)
        }
        assert str(limit) in {
            c.what for c in plan(wholly, n | {limit.scenario: enough - 1}, judge=judge)
        }
    [within] = plan([Limit("min", "accuracy", Scenario.FULL, 0.999)], n)
    assert "another judge" in within.why


def test_a_plan_refuses_what_will_not_be_asked():
    n = {Scenario.ORACLE: 10, Scenario.ADVERSARIAL: 10}
    accuracy = limits_of(min_accuracy={"oracle": 0.5})
    for asked in (
        limits_of(min_declined={"full": 0.5}),
        limits_of(min_declined={"oracle": 0.5}),
        [],
    ):
        with pytest.raises(UsageError):
            plan(asked, n)
    assert plan(limits_of(min_declined={"oracle": 0.5}), n, unanswerable=10) == []
    assert plan(accuracy, n) == []
    assert [c.state for c in plan(accuracy, n, unanswerable=9)] == ["undecided"]
    with pytest.raises(UsageError):
        plan(accuracy, n, unanswerable=10)


def test_the_tightest_limits_can_be_decided_and_tighter_ones_cannot():
    for limit in tightest_limits(40, "local"):
        tighter = limit.value + (0.01 if limit.side == "min" else -0.01)
        mine = limit._replace(scenario=Scenario.EMPTY)
        if limit.rate in ("accuracy", "deflection"):
            mine = limit._replace(scenario=Scenario.FULL)
        assert plan([mine], dict.fromkeys(Scenario, 40)) == []
        assert plan([mine._replace(value=tighter)], dict.fromkeys(Scenario, 40))


@pytest.mark.parametrize("name", ["plan", "gate"])
def test_texts_fit_a_terminal(demo, capsys, name):
    release, runs = demo
    words = [
        "--min-declined",
        "adversarial=97%",
        "--min-accuracy",
        "oracle=0.99",
        "--min-joint",
        "0.9",
    ]
    subject = (
        [str(runs[0]), "--release", str(release)] if name == "gate" else [str(release), "--plan"]
    )
    assert main(["gate", *subject, *words]) in (1, 4)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80
