"""Many samples at once: all are decided, and what goes wrong ends the work in order."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import TransientError
from demur.curation.gates.funnel import GatingModel, Rules, SampleState, Stage
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.scheduler import ask_states

C, I = Label.CORRECT, Label.INCORRECT  # noqa: E741


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=40),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_every_sample_is_decided_and_hurry_and_the_number_in_flight_decide_the_same(
    table, most, hurry, learn
):
    gates = [
        GatingModel(name, frozenset({Stage.PARAMETRIC}), cost)
        for name, cost in (("a", 1), ("b", 2), ("c", 9))
    ]
    order = SuccessCounter(learn=learn)
    states = {
        str(i): SampleState(gates, (), Rules(k_min=0), order=order) for i in range(len(table))
    }
    under_way: set[str] = set()

    async def ask(sample, query):
        under_way.add(sample)
        assert len(under_way) <= most
        await asyncio.sleep(0)
        under_way.discard(sample)
        return C if table[int(sample)]["abc".index(query.gate)] else I

    busy = (lambda gate: gate == "a") if hurry else None
    asyncio.run(
        ask_states(
            states, ask, stages=frozenset({Stage.PARAMETRIC}), is_busy=busy, max_in_flight=most
        )
    )
    for i, row in enumerate(table):
        assert states[str(i)].passed(Stage.PARAMETRIC) is not any(row)


async def test_a_failure_lets_the_calls_in_flight_come_home_and_starts_nothing_new():
    states = {
        str(i): SampleState([GatingModel("a", frozenset({Stage.PARAMETRIC}))], (), Rules(k_min=0))
        for i in range(600)
    }
    asked = []

    async def tell(sample, query):
        asked.append(sample)
        await asyncio.sleep(0)
        if sample == "3":
            raise TransientError("gone", item="gate a", cure="see to it")
        return I

    with pytest.raises(TransientError, match="gone"):
        await ask_states(states, tell, stages=frozenset({Stage.PARAMETRIC}))
    assert all(states[i].labels for i in asked if i != "3")
    assert len(asked) < 300


@pytest.mark.parametrize("hurry", [False, True])
async def test_in_a_hurry_a_question_goes_to_a_gate_that_is_free(hurry):
    gates = [
        GatingModel("a", frozenset({Stage.PARAMETRIC})),
        GatingModel("b", frozenset({Stage.PARAMETRIC}), 1.5),
    ]
    states = {
        str(i): SampleState(gates, (), Rules(k_min=0), order=SuccessCounter(learn=False))
        for i in range(100)
    }
    asked, at_first = [], []
    places = {gate.name: asyncio.Semaphore(2) for gate in gates}

    async def ask(sample, query):
        async with places[query.gate]:
            asked.append(query.gate)
            if not any(state.labels for state in states.values()):
                at_first.append(query.gate)
            await asyncio.sleep(0)
            return I

    await ask_states(states, ask, is_busy=(lambda gate: places[gate].locked()) if hurry else None)
    assert Counter(at_first) == ({"a": 2, "b": 2} if hurry else {"a": 2})
    assert Counter(asked) == {
        "a": 100,
        "b": 100,
    }  # nobody settles anything: all are asked, in whatever order
