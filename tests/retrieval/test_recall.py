"""Recall, counted question by question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.retrieval.recall import Recall, best_mode


@given(
    st.lists(st.tuples(st.permutations("abcdef"), st.sets(st.sampled_from("abcdxy"))), max_size=30),
    st.integers(1, 8),
)
def test_counted_recall_is_that_of_all_lists(questions, k):
    recall = Recall()
    for ids, gold in questions:
        recall.add(ids, gold)
    asked = [(ids, gold) for ids, gold in questions if gold]
    measure = recall.at(k)
    assert measure.n == len(asked)
    right = sum(not gold.isdisjoint(ids[:k]) for ids, gold in asked)
    assert measure.value == (pytest.approx(right / len(asked)) if asked else None)


def test_what_is_counted_does_not_grow_with_the_questions():
    recall = Recall()
    for number in range(5000):
        recall.add([f"{number}-{rank}" for rank in range(20)], {f"{number}-{number % 25}"})
    assert len(recall._ranks) == 20
    assert [recall.at(k).value for k in (1, 20, 99)] == [0.04, 0.8, 0.8]


def test_the_best_mode_is_best_at_its_depth():
    modes = {"a": Recall(), "b": Recall()}
    modes["a"].add(["g", "x"], {"g"})
    modes["a"].add(["x", "x"], {"g"})
    modes["b"].add(["x", "g"], {"g"})
    modes["b"].add(["x", "g"], {"g"})
    assert best_mode("s", modes, at=1).mode == "a"
    assert [mode for mode, _ in best_mode("s", modes, at=2).table] == ["b", "a"]


def test_none_found_is_bounded_by_nothing_and_not_by_the_dust_of_rounding():
    for n in range(1, 60):
        never, always = Recall(), Recall()
        for _ in range(n):
            never.add(["x"], {"g"})
            always.add(["g"], {"g"})
        assert (never.at(1).low, always.at(1).high) == (0.0, 1.0)
