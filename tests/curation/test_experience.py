"""What answers teach: conditional rates from lazy answers, and plans that come true."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from demur.curation.costs import Assumed, Learnt, expected
from demur.curation.experience import Experience, fit
from demur.curation.funnel import Gate, Life, Probe, Rules, Stage
from demur.curation.gate import Label
from demur.testing.tables import Shape, one_factor, paper_pool

NAMES = ("a", "b", "c", "d")


def table(n, together, seed):
    """Four gates of rising strength, one row per question."""
    thresholds = np.broadcast_to(np.array([-0.15, 0.0, 0.15, 0.4]), (n, 4))
    return one_factor(np.random.default_rng(seed), thresholds, together)[:, 0]


def asked_lazily(rows, orders):
    """Of each row what asking until the first hit brings to light."""
    found = Counter()
    for row, order in zip(rows, orders, strict=True):
        upto = next((k for k, g in enumerate(order, 1) if row[g]), len(order))
        found[frozenset((NAMES[g], bool(row[g])) for g in order[:upto])] += 1
    return found


@pytest.mark.parametrize("together", [0.0, 0.5, 0.9])
def test_rates_given_failures_are_learnt_from_answers_of_which_most_are_missing(together):
    """Counting would be wrong: the gate asked last is right about fewer than it knows."""
    dice = random.Random(0)
    rows = table(6000, together, seed=1)
    orders = [(0, 1, 2, 3) if dice.random() < 0.8 else tuple(dice.sample(range(4), 4)) for _ in rows]
    kinds = fit(asked_lazily(rows, orders), NAMES)
    assert sum(kinds.weights) == pytest.approx(1)
    truth = table(200_000, together, seed=2)
    worst = 0.0
    for k in range(4):
        for failed in itertools.combinations(range(4), k):
            left = truth[~truth[:, list(failed)].any(axis=1)]
            answers = frozenset((NAMES[g], False) for g in failed)
            for g in set(range(4)) - set(failed):
                worst = max(worst, abs(kinds.rate(NAMES[g], answers) - left[:, g].mean()))
    assert worst < 0.08


def played(tables, lives, order):
    calls = 0
    for i in order:
        life = lives[i]
        while wanted := life.wanted():
            for probe in wanted:
                calls += 1
                life.tell(probe, tables.label(i, probe))
    return calls


def pool(tables, experience, rules=Rules()):  # noqa: B008  # a named tuple: nothing that could change
    gates = [Gate(name) for name in tables.gates]
    ids = [str(d) for d in range(tables.candidates)]
    return {
        i: Life(gates, ids if i in tables.distractors else (), rules, experience=experience)
        for i in range(len(tables.sources))
    }


def test_a_plan_made_from_half_a_pool_comes_true_in_the_other_and_one_that_takes_gates_as_independent_does_not():
    tables = paper_pool(Shape(together=0.8, alike=0.1), scale=0.06)
    experience = Experience()
    lives = pool(tables, experience)
    order = list(lives)
    random.Random(0).shuffle(order)
    half = len(order) // 2
    played(tables, lives, order[:half])
    guesses = {stage: Learnt(fit(experience.answers(stage), tables.gates)) for stage in Stage}
    actual = played(tables, pool(tables, Experience()), order[half:]) / half
    gates = [Gate(name) for name in tables.gates]

    def calls(how):
        return sum(expected(gates, tables.candidates, Rules(), how, draws=1500).calls.values())

    rates = {s: {g: how.kinds.rate(g) for g in tables.gates} for s, how in guesses.items()}
    assert calls(guesses) == pytest.approx(actual, rel=0.15)
    alone = calls({s: Assumed(rates[s], 0.0) for s in Stage})
    assert alone < 0.6 * actual  # hardly anything would stay


def test_learning_pays_where_the_cheapest_gate_knows_little():
    tables = paper_pool(scale=0.02)
    calls = []
    for learn in (False, True):
        experience = Experience(learn=learn)
        gates = [Gate(name) for name in tables.gates]  # the weakest has the first name
        lives = {i: Life(gates, (), Rules(k_min=0), experience=experience) for i in range(len(tables.sources))}
        calls.append(played(tables, lives, lives))
    assert calls[1] < 0.98 * calls[0]


def test_a_gate_seldom_asked_gets_credit_and_groups_learn_apart():
    experience = Experience()
    for _ in range(30):
        experience.note(Stage.PARAMETRIC, "x", frozenset(), "a", True)
    answers = experience.answers(Stage.PARAMETRIC)
    assert answers == {frozenset({("a", True)}): 30}
    life = Life([Gate("a"), Gate("b", cost=0.5)], [], Rules(k_min=0), experience=experience, group="x")
    assert life.wanted()[0].gate == "b"
    life.tell(Probe("b", Stage.PARAMETRIC), Label.INCORRECT)
    assert experience.answers(Stage.PARAMETRIC, "x")[frozenset({("b", False)})] == 1
    life.tell(Probe("a", Stage.PARAMETRIC), Label.CORRECT)
    assert frozenset({("b", False)}) not in experience.answers(Stage.PARAMETRIC, "x")
    assert not experience.answers(Stage.PARAMETRIC, "y")


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
