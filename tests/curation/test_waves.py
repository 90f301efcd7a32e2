"""A build whose calls go in batches: few waves, the same release, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter

import curation_world as world
import pytest
from errors import raises
from fake_batches import BatchEndpoint, price_table
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.api.releases import BuildOptions, build
from demur.core.errors import BudgetReached, Deferred, UsageError
from demur.core.store import seed_of
from demur.curation.build.curate import curate
from demur.curation.build.folder import FolderRecipe
from demur.curation.gates.funnel import WAVES, GateQuery, GatingModel, Rules, SampleState, Stage
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.scheduler import ask_in_waves
from demur.models import Budget, Ledger
from demur.models import batch as batches
from demur.models.batch import batching, import_batch
from demur.models.batch_server import BatchServer
from demur.testing import running

GATES = [GatingModel(name) for name in "abcd"]
LABELS = [Label.CORRECT, Label.INCORRECT, Label.INCORRECT, Label.DEFLECTED, Label.MISSING]


@settings(max_examples=examples(60))
@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.integers(0, 4),
    st.sampled_from([None, 4, 6]),
    st.sampled_from([(), ("b",), ("a", "c", "d")]),
)
def test_waves_decide_what_asking_everything_decides(
    tmp_path_factory, seed, samples, k_min, k_enough, skipped
):
    rules = Rules(k_min=k_min, k_enough=k_enough)
    distractors = [str(d) for d in range(8)]

    def label(sample, query):
        return LABELS[seed_of(seed, sample, *query) % len(LABELS)]

    def states():
        order = SuccessCounter()
        fresh = {
            str(i): SampleState(GATES, distractors, rules, order=order) for i in range(samples)
        }
        for state in fresh.values():
            for gate in skipped:
                state.tell(GateQuery(gate, Stage.PARAMETRIC), Label.SKIPPED)
        return fresh

    waves: list[Counter] = []
    plan = tmp_path_factory.mktemp("waves") / "wave.jsonl"

    async def ask(sample, query):
        wave = plan.read_text()
        if not waves or waves[-1]["text"] != wave:
            waves.append(Counter({"text": wave}))
        waves[-1][sample, query] += 1
        return label(sample, query)

    in_waves, all_told = states(), states()
    asyncio.run(ask_in_waves(in_waves, ask, plan, known_label=lambda sample, query: None))
    for sample, state in all_told.items():
        for query in state.all_queries():
            if query not in state.labels:
                state.tell(query, label(sample, query))
    assert {i: s.decision() for i, s in in_waves.items()} == {
        i: s.decision() for i, s in all_told.items()
    }
    calls = Counter(call for wave in waves for call in wave if call != "text")
    assert max(calls.values(), default=1) == 1
    if k_enough is None:
        assert len(waves) <= sum(WAVES.values())


def test_of_gates_that_are_alike_each_begins_with_some_samples():
    """Nothing is known in the first wave: it finds out how often each gate is right."""
    order = SuccessCounter()
    states = [SampleState(GATES, (), Rules(k_min=0), order=order) for _ in range(40)]
    first = Counter(query.gate for state in states for query in state.wave())
    assert first == dict.fromkeys("abcd", 10)


# --- builds, against a server


def reply(body):
    """What three models say of the towns, and a fourth that grades."""
    text = json.dumps(body["messages"], ensure_ascii=False)
    number = re.search(r"the mayor of (?:Town(\d+)|the town in this photo \((\d+)\))", text)
    name = world.mayor(int(number[1] or number[2]))
    if body["model"] == "judge":
        return json.dumps({"label": "CORRECT" if text.count(name) > 1 else "INCORRECT"})
    can_read = f"is {name}." in text
    chance = {"weak": 0.2, "middle": 0.35, "strong": 0.5}[body["model"]]
    knows = seed_of(body["model"], name, text if "Notes" in text else "") % 100 < 100 * chance
    return f"{name}." if can_read or (knows and "Notes" not in text) else "I do not know."


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("waves") / "towns")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_S", 0.01)


@pytest.fixture
def prices(tmp_path):
    return price_table(tmp_path, 100.0)


def recipe(source, server, judge="local"):
    gates = [
        {
            "system": f"model:{server.model(name)}",
            "name": name,
            "options": {"max_tokens": 16},
        }
        for name in ("weak", "middle", "strong")
    ]
    judge = f"model:{server.model('judge')}" if judge == "model" else judge
    return world.recipe(source, gates, judge=judge)


def in_batches(plan, out, batch=True, **work):
    with batching(batch) as _:
        return curate(plan, out, **work)


@pytest.mark.parametrize("judge", ["local", "model"])
def test_a_build_in_batches_is_the_same_bytes_in_few_waves(source, tmp_path, prices, judge):
    with running(kind=BatchEndpoint, reply=reply) as server:
        plan = recipe(source, server, judge)
        plain = curate(plan, tmp_path / "plain", prices=prices)
        asked = server.requests
        built = in_batches(plan, tmp_path / "batched", prices=prices)
        assert server.requests == asked
        assert world.bytes_of(built.release.folder) == world.bytes_of(plain.release.folder)
        assert 0 < len(list(plain.release.samples())) < world.N  # the gates decide something
        sent = server.sent
        assert len(sent) == len(set(sent))
        models = Counter(
            json.loads(server.files[b["input_file_id"]].splitlines()[0])["body"]["model"]
            for b in server.batches.values()
        )
        assert max(models.values()) <= 8


def test_a_build_killed_at_any_moment_goes_on_with_the_batches_that_it_sent(
    source, tmp_path, prices, monkeypatch
):
    class Killed(BaseException):
        pass

    honest = BatchServer.start
    started = 0

    async def start(self, file):
        nonlocal started
        name = await honest(self, file)
        started += 1
        if started % 2:
            raise Killed
        return name

    with running(kind=BatchEndpoint, reply=reply) as server:
        plan = recipe(source, server, "model")
        whole = in_batches(plan, tmp_path / "whole", prices=prices)
        sent = len(server.sent)
        monkeypatch.setattr(BatchServer, "start", start)
        kills = 0
        while True:
            try:
                built = in_batches(plan, tmp_path / "killed", prices=prices, budget=Budget(10))
                break
            except (Killed, BaseExceptionGroup):
                kills += 1
        assert kills > 3
        assert world.bytes_of(built.release.folder) == world.bytes_of(whole.release.folder)
        assert len(server.sent) == 2 * sent  # not one call more than the undisturbed build
    file = tmp_path / "killed" / "build" / "calls.sqlite"
    with Ledger(file) as ledger:
        assert Budget(None, file).spent == pytest.approx(sum(s.price for s in ledger.stats()))


def test_waves_by_hand_end_in_the_same_bytes(source, tmp_path, prices):
    with running(kind=BatchEndpoint, reply=reply) as server:
        plan = recipe(source, server)
        plain = curate(plan, tmp_path / "plain")
        folder, file = tmp_path / "by-hand", tmp_path / "wave.jsonl"
        waves = 0
        while True:
            try:
                built = in_batches(plan, folder, file)
                break
            except Deferred:
                waves += 1
            results = tmp_path / "results.jsonl"
            with results.open("w") as lines:
                for path in tmp_path.glob("wave*.jsonl"):
                    for call in map(json.loads, path.read_text().splitlines()):
                        status, body = server.answer_in_batch(call["body"])
                        response = {"status_code": status, "body": body}
                        line = {"custom_id": call["custom_id"], "response": response}
                        lines.write(json.dumps(line) + "\n")
                    path.unlink()
            imported = import_batch(folder / "build" / "calls.sqlite", results, prices)
            assert imported.replies
            assert not imported.failed
        assert 0 < waves <= 8
        assert world.bytes_of(built.release.folder) == world.bytes_of(plain.release.folder)


def test_a_budget_counts_a_batch_before_it_is_sent(source, tmp_path, prices):
    with running(kind=BatchEndpoint, reply=reply) as server:
        plan = recipe(source, server)
        with raises(BudgetReached, cure="larger budget"):
            in_batches(plan, tmp_path / "out", prices=prices, budget=Budget(0.02))
        spent = Budget(None, tmp_path / "out" / "build" / "calls.sqlite").spent
        assert 0 < spent <= 0.02
        built = in_batches(plan, tmp_path / "out", prices=prices, budget=Budget(10))
        assert len(server.sent) == len(set(server.sent))
    assert list(built.release.samples())


def test_fresh_and_batches_are_refused_together(source, tmp_path):
    """Each wave would forget the one before, which is paid for."""
    opened = FolderRecipe(world.recipe(source, world.GATES), tmp_path, False, tmp_path / "out")
    with raises(UsageError, "--fresh", cure="--out"):
        build(opened, BuildOptions(fresh=True, batch=True))
    assert not (tmp_path / "out").exists()
