"""Questions wait for a place, not for a gate; and what goes wrong ends the work in order."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.curation.experience import Experience
from demur.curation.funnel import Gate, Life, Rules, Stage
from demur.curation.gate import Label
from demur.errors import TransientError
from demur.pipeline.slots import Slots, ask_lives

C, I = Label.CORRECT, Label.INCORRECT  # noqa: E741


async def test_a_place_goes_to_the_one_who_waited_longest_for_it_and_to_others_if_nobody_did():
    slots = Slots("ab", 1)
    assert await slots.take(lambda: ["a", "b"]) == "a"
    assert await slots.take(lambda: ["a", "b"]) == "b"
    best = {"late": "a"}
    first = asyncio.ensure_future(slots.take(lambda: [best["late"]]))
    second = asyncio.ensure_future(slots.take(lambda: ["a"]))
    await asyncio.sleep(0)
    best["late"] = "b"  # learnt meanwhile: the first now waits for b
    slots.give_back("a")
    assert await second == "a"
    assert not first.done()
    slots.give_back("b")
    assert await first == "b"
    either = asyncio.ensure_future(slots.take(lambda: ["a", "b"]))
    await asyncio.sleep(0)
    slots.give_back("b")
    assert await either == "b"


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=40), st.integers(1, 3), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_places_are_never_exceeded_every_life_ends_and_hurry_decides_the_same(table, each, hurry, learn):
    gates = [Gate(name, frozenset({Stage.PARAMETRIC}), cost) for name, cost in (("a", 1), ("b", 2), ("c", 9))]
    experience = Experience(learn=learn)
    lives = {str(i): Life(gates, (), Rules(k_min=0), experience=experience) for i in range(len(table))}
    busy: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def tell(sample, probe):
        busy[probe.gate] += 1
        most[probe.gate] = max(most[probe.gate], busy[probe.gate])
        await asyncio.sleep(0)
        busy[probe.gate] -= 1
        return C if table[int(sample)]["abc".index(probe.gate)] else I

    asyncio.run(ask_lives(lives, tell, Slots("abc", each), stages=frozenset({Stage.PARAMETRIC}), hurry=hurry))
    assert all(n <= each for n in most.values())
    for i, row in enumerate(table):
        assert lives[str(i)].passed(Stage.PARAMETRIC) is not any(row)


async def test_a_failure_lets_the_calls_in_flight_come_home_and_starts_nothing_new():
    lives = {str(i): Life([Gate("a", frozenset({Stage.PARAMETRIC}))], (), Rules(k_min=0)) for i in range(600)}
    asked = []

    async def tell(sample, probe):
        asked.append(sample)
        await asyncio.sleep(0)
        if sample == "3":
            raise TransientError("gone", item="gate a", cure="see to it")
        return I

    with pytest.raises(TransientError, match="gone"):
        await ask_lives(lives, tell, Slots("a", 4), stages=frozenset({Stage.PARAMETRIC}))
    assert all(lives[i].labels for i in asked if i != "3")
    assert len(asked) < 300


@pytest.mark.parametrize("hurry", [False, True])
async def test_in_a_hurry_no_endpoint_idles_while_somebody_waits(hurry):
    gates = [Gate("a", frozenset({Stage.PARAMETRIC})), Gate("b", frozenset({Stage.PARAMETRIC}), 1.5)]
    lives = {str(i): Life(gates, (), Rules(k_min=0), experience=Experience(learn=False)) for i in range(100)}
    asked, at_first = [], []

    async def tell(sample, probe):
        asked.append(probe.gate)
        if not any(life.labels for life in lives.values()):
            at_first.append(probe.gate)
        await asyncio.sleep(0)
        return I

    await ask_lives(lives, tell, Slots("ab", 2), hurry=hurry)
    assert Counter(at_first) == ({"a": 2, "b": 2} if hurry else {"a": 2})
    assert Counter(asked) == {"a": 100, "b": 100}  # nobody settles anything: all are asked, in whatever order
