"""Estimates of a build: replays of verdicts that are there, and draws where there are none."""

from __future__ import annotations

import json
import random

import curation_world as world
import pytest

from demur.curation.build.askable import gates_of
from demur.curation.build.context import set_aside
from demur.curation.build.convergence import measure_convergence
from demur.curation.build.curate import curate
from demur.curation.build.estimate import estimate_build
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
        found[f"towns:q{i}"] = state.labels
    return found


def played(plan, truth, samples):
    """Sample -> the queries that a build puts, in their order, and whether it stays."""
    order, found = SuccessCounter(), {}
    for id in samples:
        state = SampleState(
            gates_of(plan.specs()), [f"d{k}" for k in range(8)], plan.rules, order=order
        )
        found[id] = replay(state, {}, truth[id].__getitem__), state.decision().kept
    return found


def simulated(plan):
    """Three worlds: seed, labels, questions that a build asks, share that it keeps."""
    for seed in range(3):
        truth = truth_of(plan, seed)
        queries = played(plan, truth, truth).values()
        yield (
            seed,
            truth,
            sum(len(some) for some, _ in queries),
            sum(stays for _, stays in queries) / N,
        )


def journal(folder, plan, truth, samples, *, exhaustive=False, until=1.0):
    """The folder of a build that ended, or was stopped after a share of its answers."""
    asked = {
        id: list(truth[id]) if exhaustive else asked
        for id, (asked, _) in played(plan, truth, samples).items()
    }
    put = sorted(
        (
            (query.stage is Stage.DISTRACTOR, step, id, query)
            for id in asked
            for step, query in enumerate(asked[id])
        ),
        key=lambda line: line[:2],  # all samples at once, with distractors last
    )
    (folder / "build").mkdir(parents=True)
    with (folder / "build" / "journal.jsonl").open("w") as lines:
        for _, _, id, query in put[: int(until * len(put))]:
            line = {
                "key": f"{id}{query}",
                "gate": query.gate,
                "sample": id,
                "stage": query.stage.value,
                "evidence": query.distractor,
                "draw": 0,
                "label": truth[id][query].value,
                "answer": "",
                "why": "",
                "method": None,
                "probability": None,
            }
            lines.write(json.dumps(line) + "\n")
    if until == 1:
        distractors = [{"id": f"d{k}", "decision": "stays"} for k in range(8)]
        with (folder / "build" / "decisions.jsonl").open("w") as lines:
            for id, (queries, kept) in played(plan, truth, samples).items():
                mined = exhaustive or any(query.distractor for query in queries)
                line = {"sample": id, "question": "", "kept": kept, "stage": "", "why": ""}
                lines.write(json.dumps(line | {"distractors": distractors if mined else []}) + "\n")
    return folder


@pytest.mark.parametrize("exhaustive", [False, True])
def test_a_pilot_tells_what_a_build_asks(plan, truth, tmp_path, exhaustive):
    asked = sum(len(queries) for queries, _ in played(plan, truth, truth).values())
    kept = sum(stays for _, stays in played(plan, truth, truth).values()) / N
    pilot = journal(
        tmp_path / "pilot",
        plan,
        truth,
        [f"towns:q{i}" for i in range(0, N, 3)],
        exhaustive=exhaustive,
    )
    found = estimate_build(plan, tmp_path / "out", learn_from=pilot)
    assert found.basis == "learnt"
    assert found.calls[0] <= asked <= found.calls[1]
    assert found.kept_range[0] <= kept <= found.kept_range[1]
    assert found.totals["expected"] == pytest.approx(asked, rel=0.3)


def test_a_finished_builds_own_verdicts_leave_nothing_open(plan, truth, tmp_path):
    out = journal(tmp_path / "out", plan, truth, truth)
    found = estimate_build(plan, out)
    queries = played(plan, truth, truth)
    asked = sum(len(some) for some, _ in queries.values())
    assert found.totals["had"] == found.totals["expected"] == asked
    assert found.calls == (asked, asked)
    assert found.totals["tokens"] == 0
    assert found.kept == pytest.approx(sum(stays for _, stays in queries.values()) / N, abs=1e-4)
    more = plan.model_copy(
        update={"gates": (*plan.gates, plan.gates[0].model_copy(update={"name": "c"}))}
    )
    enlarged = estimate_build(more, out)
    lines = {(line.gate, line.stage): line for line in enlarged.lines}
    left = sum(
        all(truth[id][q] is not Label.CORRECT for q in truth[id] if q.stage is Stage.PARAMETRIC)
        for id in truth
    )
    assert (
        lines["c", Stage.PARAMETRIC].expected == left
    )  # those that the others know are not asked about
    assert lines["c", Stage.PARAMETRIC].rate_from == "assumed"
    assert enlarged.totals["expected"] > asked


@pytest.mark.parametrize("how", ["lazy", "exhaustive", "literal", "text-only gate"])
def test_a_finished_build_has_nothing_left_to_ask_however_few_distractors_there_were(how, tmp_path):
    """The recipe wants 80 distractors, the corpus has 13 to 23; samples with fewer than 20 are dropped unasked."""
    gates = [
        world.simulated("weak", strength=0.2, leak=0.0),
        world.simulated("strong", strength=0.5, leak=0.05),
    ]
    gates += (
        [world.text_only("text", options={"strength": 0.2, "leak": 0.0})]
        if how == "text-only gate"
        else []
    )
    rules = {"k_min": 20} | (
        {"k_min": 10, "parametric": "literal", "solvable": "equation4"} if how == "literal" else {}
    )
    retrieval = {"encoder": "curation_world:quick", "text": 60, "visual": 20}
    plan = world.recipe(
        world.folder(tmp_path / "towns"), gates, rules=rules, retrieval=retrieval, retest=0
    )
    built = curate(plan, tmp_path / "out", exhaustive=how == "exhaustive")
    asked = sum(built.questions_to_gate.values())
    found = estimate_build(plan, tmp_path / "out")
    assert found.totals["had"] == found.totals["expected"] == asked
    assert found.calls == (asked, asked)
    assert found.totals["naive"] == built.algorithm1
    assert found.kept == pytest.approx(
        built.release.manifest["counts"]["samples"] / world.N, abs=1e-4
    )
    if how == "lazy":  # more is known then than was asked for
        measure_convergence(plan, tmp_path / "out")
        found = estimate_build(plan, tmp_path / "out")
        assert found.totals["had"] > asked
        assert found.calls == (found.totals["had"], found.totals["had"])


def test_an_answer_that_stays_missing_is_not_asked_again_but_an_error_is(plan, truth, tmp_path):
    out = journal(tmp_path / "out", plan, truth, truth)
    path = out / "build" / "journal.jsonl"
    first, second, *rest = path.read_text().splitlines()
    missing = json.dumps(json.loads(first) | {"label": "missing"})
    failed = json.dumps(json.loads(second) | {"label": "missing", "key": "-1", "final": False})
    path.write_text("\n".join([missing, failed, *rest]) + "\n")
    lines = estimate_build(plan, out).lines
    again = (json.loads(second)["gate"], Stage.PARAMETRIC)
    assert [line.expected > line.had for line in lines if (line.gate, line.stage) == again] == [
        True
    ]
    assert sum(line.had for line in lines) == len(rest) + 1


def test_a_fresh_build_does_not_find_the_decisions_of_the_old_one(plan, truth, tmp_path):
    build = journal(tmp_path / "out", plan, truth, truth) / "build"
    old = (build / "decisions.jsonl").read_bytes()
    set_aside(build)
    assert [path.name for path in build.iterdir()] == [".earlier"]
    assert (build / ".earlier" / "1" / "decisions.jsonl").read_bytes() == old


def test_a_pilot_that_was_stopped_is_used_as_one(plan, tmp_path, monkeypatch):
    """Its samples that pass look as if they had no distractors left to ask about."""
    monkeypatch.setattr("demur.curation.build.replays.REPLAYS", 400)
    held = []
    for seed, truth, asked, kept in simulated(plan):
        for until in (0.5, 0.7):
            pilot = journal(
                tmp_path / f"{seed}-{until}",
                plan,
                truth,
                [f"towns:q{i}" for i in range(0, N, 2)],
                until=until,
            )
            found = estimate_build(plan, tmp_path / "none", learn_from=pilot)
            held += [
                found.calls[0] <= asked <= found.calls[1],
                found.kept_range[0] <= kept <= found.kept_range[1],
            ]
            (note,) = (note for note in found.notes if "has not finished" in note)
            assert " 40 samples" in note
    assert len(held) - sum(held) <= 1, held  # of 12


def test_the_interval_holds_what_is_asked(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("demur.curation.build.replays.REPLAYS", 400)
    held = []
    for seed, truth, asked, kept in simulated(plan):
        for until, width in ((0.4, 0.6), (0.6, 0.4), (0.9, 0.15)):
            found = estimate_build(
                plan, journal(tmp_path / f"{seed}-{until}", plan, truth, truth, until=until)
            )
            low, high = found.calls
            held += [
                low <= asked <= high,
                found.kept_range[0] - 1e-4 <= kept <= found.kept_range[1] + 1e-4,
            ]
            assert high - low < width * asked
        other = random.Random(seed).sample(
            sorted(truth), N
        )  # of the same samples: only the order of gates is open
        learn_from = journal(tmp_path / f"{seed}", plan, truth, other)
        found = estimate_build(plan, tmp_path / "none", learn_from=learn_from)
        assert found.calls[0] <= asked <= found.calls[1]
        assert found.calls[1] - found.calls[0] < 0.15 * asked
        assert found.totals["expected"] == pytest.approx(asked, rel=0.004)
        assert found.kept_range == pytest.approx((kept, kept), abs=1e-4)
    assert len(held) - sum(held) <= 1  # of 18: they are intervals of 95 %


def test_without_verdicts_the_interval_is_from_independent_gates_to_gates_that_know_the_same(
    plan, tmp_path
):
    found = estimate_build(
        plan,
        tmp_path,
        rates={"solvable": 1.0, "distractor": 0.0, "a/parametric": 0.5, "b/parametric": 0.5},
    )
    assert found.basis == "assumed"
    assert {line.rate_from for line in found.lines} == {"given"}
    assert found.kept_range[0] < 0.25 < 0.5 < found.kept_range[1]
    low, high = 1.5 * N + 0.25 * N * (1 + 16), 1.5 * N + 0.5 * N * (1 + 16)
    assert found.calls[0] < low < high < found.calls[1]
    sure = estimate_build(plan, tmp_path, rates={"parametric": 1.0})
    assert (sure.kept, sure.kept_range) == (0, (0, 0))
    assert sure.calls == (N, N)
