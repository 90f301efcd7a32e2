"""Estimates of a build: replays of verdicts that are there, and draws where there are none."""

from __future__ import annotations

import json
import random

import curation_world as world
import pytest

from demur.curation.context import gates_of
from demur.curation.estimate import estimate_build
from demur.curation.gates.costs import replay
from demur.curation.gates.funnel import SampleState, Stage
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label

N = 80
RIGHT = {Stage.PARAMETRIC: 0.5, Stage.SOLVABLE: 0.8, Stage.DISTRACTOR: 0.2}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    source = world.folder(tmp_path_factory.mktemp("world") / "towns", N)
    return world.recipe(source, [world.simulated("a"), world.simulated("b")])


@pytest.fixture(scope="module")
def truth(plan):
    return truth_of(plan, 0)


def truth_of(plan, seed):
    """What the gates would say: a question that is hard for one is hard for the other."""
    dice, found = random.Random(seed), {}
    for i in range(N):
        state = SampleState(gates_of(plan.specs()), [f"d{k}" for k in range(8)], exhaustive=True)
        hard = {}
        for query in state.all_queries():
            where = (query.stage, query.distractor)
            hard.setdefault(where, dice.random())
            right = 0.5 * hard[where] + 0.5 * dice.random() < RIGHT[query.stage]
            state.tell(query, Label.CORRECT if right else Label.INCORRECT)
        found[f"q{i}"] = state.labels
    return found


def played(plan, truth, samples):
    """Sample -> the queries that a build puts, in their order, and whether it stays."""
    order, found = SuccessCounter(), {}
    for id in samples:
        state = SampleState(gates_of(plan.specs()), [f"d{k}" for k in range(8)], plan.rules.rules(), order=order)
        found[id] = replay(state, truth[id]), state.decision().kept
    return found


def journal(folder, plan, truth, samples, *, exhaustive=False, until=1.0):
    """The folder of a build that ended, or was stopped after a share of its answers."""
    asked = {id: list(truth[id]) if exhaustive else asked for id, (asked, _) in played(plan, truth, samples).items()}
    put = sorted(
        ((query.stage is Stage.DISTRACTOR, step, id, query) for id in asked for step, query in enumerate(asked[id])),
        key=lambda line: line[:2],  # all samples at once, with distractors last
    )
    (folder / "build").mkdir(parents=True)
    with (folder / "build" / "journal.jsonl").open("w") as lines:
        for _, _, id, query in put[: int(until * len(put))]:
            line = {"key": f"{id}{query}", "gate": query.gate, "sample": id, "stage": query.stage.value,
                    "evidence": query.distractor, "draw": 0, "label": truth[id][query].value, "answer": "",
                    "why": ""}  # fmt: skip
            lines.write(json.dumps(line) + "\n")
    if until == 1:
        (folder / "build" / "decisions.jsonl").write_text("")
    return folder


@pytest.mark.parametrize("exhaustive", [False, True])
def test_a_pilot_tells_what_a_build_asks(plan, truth, tmp_path, exhaustive):
    asked = sum(len(queries) for queries, _ in played(plan, truth, truth).values())
    kept = sum(stays for _, stays in played(plan, truth, truth).values()) / N
    pilot = journal(tmp_path / "pilot", plan, truth, [f"q{i}" for i in range(0, N, 3)], exhaustive=exhaustive)
    found = estimate_build(plan, tmp_path / "out", learn_from=pilot)
    assert found.basis == "learnt"
    assert found.calls[0] <= asked <= found.calls[1]
    assert found.kept_range[0] <= kept <= found.kept_range[1]
    assert found.total("expected") == pytest.approx(asked, rel=0.3)


def test_a_finished_builds_own_verdicts_leave_nothing_open(plan, truth, tmp_path):
    out = journal(tmp_path / "out", plan, truth, truth)
    found = estimate_build(plan, out)
    queries = played(plan, truth, truth)
    asked = sum(len(some) for some, _ in queries.values())
    assert found.total("had") == found.total("expected") == asked
    assert found.calls == (asked, asked)
    assert found.total("tokens") == 0
    assert found.kept == pytest.approx(sum(stays for _, stays in queries.values()) / N, abs=1e-4)
    more = plan.model_copy(update={"gates": (*plan.gates, plan.gates[0].model_copy(update={"name": "c"}))})
    enlarged = estimate_build(more, out)
    lines = {(line.gate, line.stage): line for line in enlarged.lines}
    left = sum(all(truth[id][q] is not Label.CORRECT for q in truth[id] if q.stage is Stage.PARAMETRIC) for id in truth)
    assert lines["c", Stage.PARAMETRIC].expected == left  # those that the others know are not asked about
    assert lines["c", Stage.PARAMETRIC].rate_from == "assumed"
    assert enlarged.total("expected") > asked


def test_the_interval_holds_what_is_asked(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("demur.curation.estimate.REPLAYS", 400)
    held = []
    for seed in range(3):
        truth = truth_of(plan, seed)
        queries = played(plan, truth, truth).values()
        asked, kept = sum(len(some) for some, _ in queries), sum(stays for _, stays in queries) / N
        for until, width in ((0.4, 0.6), (0.6, 0.4), (0.9, 0.15)):
            found = estimate_build(plan, journal(tmp_path / f"{seed}-{until}", plan, truth, truth, until=until))
            low, high = found.calls
            held += [low <= asked <= high, found.kept_range[0] - 1e-4 <= kept <= found.kept_range[1] + 1e-4]
            assert high - low < width * asked
        other = random.Random(seed).sample(sorted(truth), N)  # of the same samples: only the order of gates is open
        learn_from = journal(tmp_path / f"{seed}", plan, truth, other)
        found = estimate_build(plan, tmp_path / "none", learn_from=learn_from)
        assert found.calls[0] <= asked <= found.calls[1]
        assert found.calls[1] - found.calls[0] < 0.15 * asked
        assert found.kept_range == pytest.approx((kept, kept), abs=1e-4)
    assert len(held) - sum(held) <= 1  # of 18: they are intervals of 95 %


def test_without_verdicts_the_interval_is_from_independent_gates_to_gates_that_know_the_same(plan, tmp_path):
    found = estimate_build(plan, tmp_path, rates={"solvable": 1.0, "distractor": 0.0, "a/parametric": 0.5,
                                                  "b/parametric": 0.5})  # fmt: skip
    assert found.basis == "assumed"
    assert {line.rate_from for line in found.lines} == {"given"}
    assert found.kept_range[0] < 0.25 < 0.5 < found.kept_range[1]
    low, high = 1.5 * N + 0.25 * N * (1 + 16), 1.5 * N + 0.5 * N * (1 + 16)
    assert found.calls[0] < low < high < found.calls[1]
    sure = estimate_build(plan, tmp_path, rates={"parametric": 1.0})
    assert (sure.kept, sure.kept_range) == (0, (0, 0))
    assert sure.calls == (N, N)
