"""The order of gates: what answers teach."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.paper_pool import paper_pool
from demur.curation.gates.funnel import GatingModel, Rules, SampleState, Stage
from demur.curation.gates.order import SuccessCounter


def played(tables, states, order):
    calls = 0
    for i in order:
        state = states[i]
        while wanted := state.wanted():
            for query in wanted:
                calls += 1
                state.tell(query, tables.label(i, query))
    return calls


def pool(tables, counter, rules=Rules()):  # noqa: B008  # frozen: nothing that could change
    gates = [GatingModel(name) for name in tables.gates]
    ids = [str(d) for d in range(tables.candidates)]
    return {
        i: SampleState(gates, ids if i in tables.distractors else (), rules, order=counter)
        for i in range(len(tables.sources))
    }


@pytest.mark.heavy
def test_learning_pays_where_the_cheapest_gate_knows_little():
    tables = paper_pool(scale=0.02)
    calls = []
    for learn in (False, True):
        counter = SuccessCounter(learn=learn)
        gates = [GatingModel(name) for name in tables.gates]  # the weakest has the first name
        states = {
            i: SampleState(gates, (), Rules(k_min=0), order=counter)
            for i in range(len(tables.sources))
        }
        calls.append(played(tables, states, states))
    assert calls[1] < 0.98 * calls[0]


def test_a_gate_seldom_asked_gets_credit_and_groups_count_apart():
    counter = SuccessCounter()
    for _ in range(30):
        counter.note(Stage.PARAMETRIC, "x", "a", False)
    state = SampleState(
        [GatingModel("a", cost=0.5), GatingModel("b")], [], Rules(k_min=0), order=counter, group="x"
    )
    assert state.wanted()[0].gate == "b"
    assert (
        SampleState(
            [GatingModel("a", cost=0.5), GatingModel("b")], [], Rules(k_min=0), order=counter
        )
        .wanted()[0]
        .gate
        == "a"
    )


@pytest.mark.heavy
def test_the_papers_pool_has_the_papers_figures():
    tables = paper_pool(scale=0.3)
    left = (tables.parametric != 1).all(axis=1)
    stay = np.array([(said != 1).all(axis=1).sum() for said in tables.distractors.values()])
    kept = stay >= 5
    assert kept.sum() / len(left) == pytest.approx(2775 / 44626, rel=0.1)
    assert stay[kept].mean() == pytest.approx(11.8, abs=0.3)
    assert left.mean() < 0.1
    solved = tables.solvable[[i for i in tables.distractors]] == 1
    assert solved.mean(axis=0) == pytest.approx([0.595, 0.610, 0.642, 0.626], abs=0.05)
    by_source = Counter(tables.sources)
    assert by_source["InfoSeek"] == round(29393 * 0.3)
