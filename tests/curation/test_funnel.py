"""The rules' truth tables, and that a funnel which asks less decides the same."""

from __future__ import annotations

import itertools

import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from benchmarks.gate_bounds import Naive, costs_of
from demur.core.errors import UsageError
from demur.curation.gates.costs import algorithm1_calls, replay
from demur.curation.gates.funnel import (
    HELD,
    MINING,
    Decision,
    GateQuery,
    GatingModel,
    Rules,
    SampleState,
    Stage,
)
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label, misleads, solvable_with_gold, unknown_without_evidence

C, I, N, U, S = Label.CORRECT, Label.INCORRECT, Label.DEFLECTED, Label.MISSING, Label.SKIPPED  # noqa: E741


def table(*labels):
    return {f"g{i}": label for i, label in enumerate(labels)}


@pytest.mark.parametrize(
    ("labels", "default", "literal"),
    [
        ((I, I, I, I), True, True),
        ((I, I, N, I), True, False),
        ((I, C, I, I), False, False),
        ((I, U, I), None, None),
        ((C, U), False, False),
        ((N, U), None, False),
        ((I, S), True, True),
        ((I, None), None, None),
        ((S, S), None, None),
        ((), None, None),
    ],
)
def test_stage_one(labels, default, literal):
    assert unknown_without_evidence(table(*labels)) is default
    assert unknown_without_evidence(table(*labels), "literal") is literal


@pytest.mark.parametrize(
    ("labels", "default", "equation4", "algorithm1"),
    [
        ((I, I, I, I), False, False, True),
        ((N, I, I, N), False, True, True),
        ((C, I), True, True, False),
        ((U, C), True, True, False),
        ((U, I), None, None, None),
        ((S, S), None, None, None),
        ((), None, None, None),
    ],
)
def test_stage_three_solvability_and_its_literal_variants(labels, default, equation4, algorithm1):
    assert solvable_with_gold(table(*labels)) is default
    assert solvable_with_gold(table(*labels), "equation4") is equation4
    assert solvable_with_gold(table(*labels), "algorithm1") is algorithm1


def test_a_distractor_stays_unless_it_helps():
    assert misleads(table(I, N)) is True
    assert misleads(table(I, C)) is False
    assert misleads(table(I, U)) is None
    assert misleads(table(S, S)) is None
    assert misleads({}) is None


def test_where_no_gate_can_be_asked_nothing_is_proved():
    gate = GatingModel("g")
    unasked = SampleState([gate], [], Rules(k_min=0), labels={GateQuery("g", Stage.PARAMETRIC): S})
    assert unasked.wanted() == ()
    assert unasked.decision() == Decision(
        False, "parametric", "no gate can be asked about it without evidence"
    )
    unshown = SampleState(
        [gate],
        [],
        Rules(k_min=0),
        labels={GateQuery("g", Stage.PARAMETRIC): I, GateQuery("g", Stage.SOLVABLE): S},
    )
    assert unshown.decision() == Decision(
        False, "solvable", "no gate can be asked about it with the gold evidence"
    )
    passed = {GateQuery("g", Stage.PARAMETRIC): I, GateQuery("g", Stage.SOLVABLE): C}
    alone = passed | {GateQuery("g", Stage.DISTRACTOR, "a"): S}
    state = SampleState([gate], ["a", "b"], Rules(k_min=1), labels=dict(alone))
    assert algorithm1_calls(state).total() == 2 + 1
    assert [p.distractor for p in state.wanted()] == ["b"]
    state.tell(GateQuery("g", Stage.DISTRACTOR, "b"), I)
    assert state.decision().survivors == ("b",)
    assert state.decision().lost == (("a", "no gate can be asked about it alone"),)
    few = SampleState([gate], ["a", "b"], Rules(k_min=2), labels=dict(alone))
    assert few.wanted() == ()
    assert few.decision().why == "gates can be asked about fewer than 2 of its distractors"
    assert SampleState([gate], ["a"], Rules(k_min=2), labels=passed).decision().stage == MINING


labels_drawn = st.sampled_from([C, I, I, I, N, U, S])
rules_drawn = st.builds(
    Rules,
    parametric=st.sampled_from(["not_correct", "literal"]),
    solvable=st.sampled_from(["any_correct", "equation4", "algorithm1"]),
    k_min=st.integers(0, 5),
    k_enough=st.none(),
)


@st.composite
def worlds(draw):
    """Gates with their stages and costs, distractors, rules, and every answer that could be had."""
    n = draw(st.integers(1, 4))
    gates = [
        GatingModel(
            f"g{i}",
            frozenset({Stage.PARAMETRIC} if i == 0 else set())
            | draw(st.frozensets(st.sampled_from(list(Stage)))),
            draw(st.sampled_from([0.0, 1.0, 5.0])),
        )
        for i in range(n)
    ]
    distractors = [f"d{i}" for i in range(draw(st.integers(0, 9)))]
    rules = draw(rules_drawn)
    if draw(st.booleans()):
        rules = rules.model_copy(update={"k_enough": rules.k_min + draw(st.integers(0, 3)) or 1})
    truth = {p: draw(labels_drawn) for p in SampleState(gates, distractors, rules).all_queries()}
    return gates, distractors, rules, truth


class AnyOrder(SuccessCounter):
    """Gates in an order drawn anew each time."""

    def __init__(self, dice):
        super().__init__()
        self.dice = dice

    def price(self, gate, cost, stage, group):
        """Whatever."""
        return self.dice.random(), cost, gate


def live(state: SampleState, truth, pick=lambda names: names[0], within=1.0) -> int:
    """Ask what is wanted; which gates cannot be asked is known before. Returns the questions asked."""
    state.labels |= {query: S for query, label in truth.items() if label is S}
    asked = 0
    while wanted := state.wanted():
        for query in wanted:
            bound = query._replace(gate=pick(state.choices(query, within)))
            assert bound not in state.labels, "a label was asked for twice"
            state.tell(bound, truth[bound])
            asked += 1
    return asked


@pytest.mark.heavy
@settings(max_examples=examples(1000))
@given(worlds(), st.randoms(use_true_random=False))
def test_asking_only_what_matters_decides_the_same_as_asking_everything(world, dice):
    """By every order: learnt, cheapest first, in a hurry, at random; and as Algorithm 1 does."""
    gates, distractors, rules, truth = world
    full = SampleState(gates, distractors, rules, exhaustive=True)
    most = sum(label is not S for label in truth.values())
    assert live(full, truth) == most
    if (rules.parametric, rules.solvable) == ("not_correct", "any_correct"):
        naive = Naive(gates, distractors, rules)
        most = live(naive, truth)
        assert naive.decision() == full.decision()
    shared = SuccessCounter()
    for counter, pick, within in (
        (shared, lambda names: names[0], 1.0),
        (shared, lambda names: names[-1], 4.0),
        (SuccessCounter(learn=False), lambda names: names[0], 1.0),
        (AnyOrder(dice), dice.choice, 1e9),
    ):
        lazy = SampleState(gates, distractors, rules, order=counter)
        assert live(lazy, truth, pick, within) <= most
        assert lazy.decision() is not None
        assert lazy.decision() == full.decision()


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_answers_does_not_matter(world, random):
    gates, distractors, rules, truth = world
    one, other = SampleState(gates, distractors, rules), SampleState(gates, distractors, rules)
    live(one, truth)
    shuffled = list(truth)
    random.shuffle(shuffled)
    for query in shuffled:
        other.tell(query, truth[query])
    assert one.decision() == other.decision()


def test_fates_say_what_happened():
    gate = GatingModel("g")
    state = SampleState([gate], ["a", "b"], Rules(k_min=1))
    assert state.decision() is None
    state.tell(GateQuery("g", Stage.PARAMETRIC), I)
    state.tell(GateQuery("g", Stage.SOLVABLE), C)
    state.tell(GateQuery("g", Stage.DISTRACTOR, "a"), C)
    state.tell(GateQuery("g", Stage.DISTRACTOR, "b"), I)
    decision = state.decision()
    assert decision.kept
    assert decision.survivors == ("b",)
    assert decision.lost == (("a", "alone it lets a gate answer"),)
    known = SampleState([gate], [], Rules(k_min=0))
    known.tell(GateQuery("g", Stage.PARAMETRIC), C)
    assert (known.decision().kept, known.decision().stage) == (False, "parametric")
    held = SampleState([gate], [], Rules(k_min=0))
    held.tell(GateQuery("g", Stage.PARAMETRIC), U)
    assert held.wanted() == ()
    assert held.decision().stage == HELD


def test_one_correct_answer_ends_a_stage_and_the_cheap_gate_is_asked_first():
    state = SampleState(
        [GatingModel("dear", cost=9), GatingModel("cheap", cost=1)], ["d"] * 0, Rules(k_min=0)
    )
    assert [p.gate for p in state.wanted()] == ["cheap"]
    state.tell(GateQuery("cheap", Stage.PARAMETRIC), C)
    assert state.wanted() == ()


def test_nonsense_is_refused():
    with raises(UsageError, cure="gate"):
        SampleState([GatingModel("g", frozenset({Stage.SOLVABLE}))], [])
    with pytest.raises(ValueError, match="k_enough"):
        Rules(k_min=5, k_enough=3)


def test_a_distractor_whose_answer_is_missing_does_not_decide():
    """Two of three must stay; one helps, one cannot be graded: with its verdict the sample might have stayed."""
    state = SampleState([GatingModel("g")], ["a", "b", "c"], Rules(k_min=2))
    for query, label in (
        (("g", Stage.PARAMETRIC), I),
        (("g", Stage.SOLVABLE), C),
        (("g", Stage.DISTRACTOR, "a"), C),
        (("g", Stage.DISTRACTOR, "b"), U),
        (("g", Stage.DISTRACTOR, "c"), I),
    ):
        state.tell(GateQuery(*query), label)
    assert state.decision().stage == HELD
    state.labels[GateQuery("g", Stage.DISTRACTOR, "b")] = N
    assert state.decision().survivors == ("b", "c")
    state.labels[GateQuery("g", Stage.DISTRACTOR, "b")] = C
    assert state.decision().stage == "distractors"


def test_enough_distractors_are_the_best_ones():
    state = SampleState([GatingModel("g")], list("abcd"), Rules(k_min=1, k_enough=2))
    truth = {
        p: C if p.stage is Stage.SOLVABLE or p.distractor == "a" else I for p in state.all_queries()
    }
    live(state, truth)
    assert state.decision().survivors == ("b", "c")
    assert dict(state.decision().lost) == {
        "a": "alone it lets a gate answer",
        "d": "2 better ones stay already",
    }
    assert GateQuery("g", Stage.DISTRACTOR, "d") not in state.labels


@pytest.mark.heavy
@settings(max_examples=examples(1200))
@given(worlds())
def test_no_order_asks_fewer_than_the_bound_and_lazy_asks_no_more_than_algorithm_1(world):
    gates, distractors, rules, truth = world
    if (rules.parametric, rules.solvable) != ("not_correct", "any_correct"):
        with pytest.raises(UsageError):
            costs_of(gates, distractors, rules, truth)
        return
    costs = costs_of(gates, distractors, rules, truth)
    for counter in (SuccessCounter(), SuccessCounter(learn=False)):
        state = SampleState(gates, distractors, rules, order=counter)
        live(state, truth)
        asked = sum(label is not S for label in state.labels.values())
        assert algorithm1_calls(state).total() == costs.algorithm1
        assert costs.least <= asked <= costs.algorithm1 <= costs.exhaustive


@st.composite
def small_worlds(draw):
    """Few enough queries to try every set of them."""
    gates = [
        GatingModel("a"),
        GatingModel("b", draw(st.sampled_from([frozenset(Stage), frozenset({Stage.PARAMETRIC})]))),
    ]
    distractors = ["d", "e", "f"][: draw(st.integers(0, 2 + (len(gates[1].stages) == 1)))]
    k_min = draw(st.integers(0, 2))
    rules = Rules(k_min=k_min, k_enough=draw(st.sampled_from([None, max(1, k_min), k_min + 1])))
    truth = {p: draw(labels_drawn) for p in SampleState(gates, distractors, rules).all_queries()}
    return gates, distractors, rules, truth


@settings(max_examples=examples(400))
@given(small_worlds())
def test_the_bound_is_the_smallest_set_of_answers_that_decides(world):
    """Tried by brute force: so many answers decide, and no smaller set does."""
    gates, distractors, rules, truth = world
    free = {p: label for p, label in truth.items() if label is S}
    paid = [p for p in truth if p not in free]
    decision = SampleState(gates, distractors, rules, labels=dict(truth)).decision()

    def decides(some):
        return (
            SampleState(
                gates, distractors, rules, labels=free | {p: truth[p] for p in some}
            ).decision()
            == decision
        )

    smallest = next(
        n for n in range(len(paid) + 1) if any(map(decides, itertools.combinations(paid, n)))
    )
    assert costs_of(gates, distractors, rules, truth).least == smallest


def test_the_gate_that_settles_most_for_its_cost_is_asked_first():
    counter = SuccessCounter()
    gates = [GatingModel("weak", cost=1), GatingModel("strong", cost=2)]
    first = SampleState(gates, [], Rules(k_min=0), order=counter)
    assert first.wanted()[0].gate == "weak"
    for _ in range(20):
        counter.note(Stage.PARAMETRIC, "", "weak", False)
        counter.note(Stage.PARAMETRIC, "", "strong", True)
    assert first.wanted()[0].gate == "strong"
    assert first.choices(first.wanted()[0], within=100) == ["strong", "weak"]
    assert (
        SampleState(gates, [], Rules(k_min=0), order=counter, group="other").wanted()[0].gate
        == "weak"
    )
    assert (
        SampleState(gates, [], Rules(k_min=0), order=SuccessCounter(learn=False)).wanted()[0].gate
        == "weak"
    )


def test_a_replay_asks_what_is_known_first():
    gates = [GatingModel("a"), GatingModel("b")]
    parametric = {g: GateQuery(g, Stage.PARAMETRIC) for g in "ab"}
    solvable = GateQuery("b", Stage.SOLVABLE)
    known = {parametric["b"]: I, solvable: C}
    state = SampleState(gates, [], Rules(k_min=0))
    assert replay(state, known, lambda query: I) == [parametric["b"], parametric["a"], solvable]
    assert state.decision().kept
