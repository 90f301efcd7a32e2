"""The rules' truth tables, and that a funnel which asks less decides the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.curation.funnel import HELD, Experience, Gate, Life, Probe, Rules, Stage, costs_of, expected
from demur.curation.gate import Label, misleads, solvable_with_gold, unknown_without_evidence
from demur.errors import UsageError

C, I, N, U, S = Label.CORRECT, Label.INCORRECT, Label.DEFLECTED, Label.UNGRADED, Label.SKIPPED  # noqa: E741


def table(*labels):
    return {f"g{i}": label for i, label in enumerate(labels)}


@pytest.mark.parametrize(
    ("labels", "default", "literal"),
    [((I, I, I, I), True, True), ((I, I, N, I), True, False), ((I, C, I, I), False, False), ((I, U, I), None, None),
     ((C, U), False, False), ((N, U), None, False), ((I, S), True, True), ((I, None), None, None)],
)  # fmt: skip
def test_stage_one(labels, default, literal):
    assert unknown_without_evidence(table(*labels)) is default
    assert unknown_without_evidence(table(*labels), "literal") is literal


@pytest.mark.parametrize(
    ("labels", "default", "equation4", "algorithm1"),
    [((I, I, I, I), False, False, True), ((N, I, I, N), False, True, True), ((C, I), True, True, False), ((U, C), True, True, False),
     ((U, I), None, None, None)],
)  # fmt: skip
def test_stage_three_solvability_and_its_literal_variants(labels, default, equation4, algorithm1):
    assert solvable_with_gold(table(*labels)) is default
    assert solvable_with_gold(table(*labels), "equation4") is equation4
    assert solvable_with_gold(table(*labels), "algorithm1") is algorithm1


def test_a_distractor_stays_unless_it_helps():
    assert misleads(table(I, N)) is True
    assert misleads(table(I, C)) is False
    assert misleads(table(I, U)) is None


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
        Gate(
            f"g{i}",
            frozenset({Stage.PARAMETRIC} if i == 0 else set()) | draw(st.frozensets(st.sampled_from(list(Stage)))),
            draw(st.sampled_from([0.0, 1.0, 5.0])),
        )
        for i in range(n)
    ]
    distractors = [f"d{i}" for i in range(draw(st.integers(0, 9)))]
    rules = draw(rules_drawn)
    if draw(st.booleans()):
        rules = rules._replace(k_enough=rules.k_min + draw(st.integers(0, 3)) or 1)
    truth = {p: draw(labels_drawn) for p in Life(gates, distractors, rules).all_probes()}
    return gates, distractors, rules, truth


def live(life: Life, truth) -> int:
    asked = 0
    while wanted := life.wanted():
        for probe in wanted:
            assert probe not in life.labels, "a label was asked for twice"
            life.tell(probe, truth[probe])
            asked += 1
    return asked


@settings(max_examples=1200)
@given(worlds())
def test_asking_only_what_matters_decides_the_same_as_asking_everything(world):
    gates, distractors, rules, truth = world
    lazy, full = Life(gates, distractors, rules), Life(gates, distractors, rules, exhaustive=True)
    n_lazy, n_full = live(lazy, truth), live(full, truth)
    assert lazy.fate() is not None
    assert lazy.fate() == full.fate()
    assert n_lazy <= n_full == len(truth)


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_answers_does_not_matter(world, random):
    gates, distractors, rules, truth = world
    one, other = Life(gates, distractors, rules), Life(gates, distractors, rules)
    live(one, truth)
    shuffled = list(truth)
    random.shuffle(shuffled)
    for probe in shuffled:
        other.tell(probe, truth[probe])
    assert one.fate() == other.fate()


def test_fates_say_what_happened():
    gate = Gate("g")
    life = Life([gate], ["a", "b"], Rules(k_min=1))
    assert life.fate() is None
    life.tell(Probe("g", Stage.PARAMETRIC), I)
    life.tell(Probe("g", Stage.SOLVABLE), C)
    life.tell(Probe("g", Stage.DISTRACTOR, "a"), C)
    life.tell(Probe("g", Stage.DISTRACTOR, "b"), I)
    fate = life.fate()
    assert fate.kept
    assert fate.survivors == ("b",)
    assert fate.lost == (("a", "alone it lets a gate answer"),)
    known = Life([gate], [], Rules(k_min=0))
    known.tell(Probe("g", Stage.PARAMETRIC), C)
    assert (known.fate().kept, known.fate().stage) == (False, "parametric")
    held = Life([gate], [], Rules(k_min=0))
    held.tell(Probe("g", Stage.PARAMETRIC), U)
    assert held.wanted() == ()
    assert held.fate().stage == HELD


def test_one_correct_answer_ends_a_stage_and_the_cheap_gate_is_asked_first():
    life = Life([Gate("dear", cost=9), Gate("cheap", cost=1)], ["d"] * 0, Rules(k_min=0))
    assert [p.gate for p in life.wanted()] == ["cheap"]
    life.tell(Probe("cheap", Stage.PARAMETRIC), C)
    assert life.wanted() == ()


def test_nonsense_is_refused():
    with pytest.raises(UsageError, match="without evidence"):
        Life([Gate("g", frozenset({Stage.SOLVABLE}))], [])
    with pytest.raises(UsageError, match="k_enough"):
        Life([Gate("g")], [], Rules(k_min=5, k_enough=3))


def test_an_ungraded_distractor_does_not_decide():
    """Two of three must stay; one helps, one cannot be graded: with its verdict the sample might have stayed."""
    life = Life([Gate("g")], ["a", "b", "c"], Rules(k_min=2))
    for probe, label in ((("g", Stage.PARAMETRIC), I), (("g", Stage.SOLVABLE), C), (("g", Stage.DISTRACTOR, "a"), C),
                         (("g", Stage.DISTRACTOR, "b"), U), (("g", Stage.DISTRACTOR, "c"), I)):  # fmt: skip
        life.tell(Probe(*probe), label)
    assert life.fate().stage == HELD
    life.labels[Probe("g", Stage.DISTRACTOR, "b")] = N
    assert life.fate().survivors == ("b", "c")
    life.labels[Probe("g", Stage.DISTRACTOR, "b")] = C
    assert life.fate().stage == "distractors"


def test_enough_distractors_are_the_best_ones():
    life = Life([Gate("g")], list("abcd"), Rules(k_min=1, k_enough=2))
    truth = {p: C if p.stage is Stage.SOLVABLE or p.distractor == "a" else I for p in life.all_probes()}
    live(life, truth)
    assert life.fate().survivors == ("b", "c")
    assert dict(life.fate().lost) == {"a": "alone it lets a gate answer", "d": "2 better ones stay already"}
    assert Probe("g", Stage.DISTRACTOR, "d") not in life.labels


@settings(max_examples=1200)
@given(worlds())
def test_no_order_asks_fewer_than_the_bound_and_lazy_asks_no_more_than_algorithm_1(world):
    gates, distractors, rules, truth = world
    if (rules.parametric, rules.solvable) != ("not_correct", "any_correct"):
        with pytest.raises(UsageError):
            costs_of(gates, distractors, rules, truth)
        return
    costs = costs_of(gates, distractors, rules, truth)
    for experience in (Experience(), Experience(learn=False)):
        life = Life(gates, distractors, rules, experience=experience)
        live(life, truth)
        asked = sum(label is not S for label in life.labels.values())
        assert costs.least <= asked <= costs.algorithm1 <= costs.exhaustive


@settings(max_examples=200)
@given(worlds())
def test_the_bound_is_reached_by_someone_who_knows_the_labels(world):
    """The cheapest certificate really decides: told exactly so many labels, the fate is known."""
    gates, distractors, rules, truth = world
    if (rules.parametric, rules.solvable, rules.k_enough) != ("not_correct", "any_correct", None):
        return
    costs = costs_of(gates, distractors, rules, truth)
    full = Life(gates, distractors, rules, labels=dict(truth))
    told = Life(gates, distractors, rules, labels={p: label for p, label in truth.items() if label is S})
    spent = 0

    def tell(probes, stop):
        nonlocal spent
        for p in probes:
            if p not in told.labels and not stop():
                told.tell(p, truth[p])
                spent += 1

    by_use = sorted(truth, key=lambda p: truth[p] is not C)  # those that settle come first
    for stage in Stage:
        if stage is not Stage.DISTRACTOR:
            value = told._parametric if stage is Stage.PARAMETRIC else told._solvable
            tell(
                [p for p in by_use if p.stage is stage],
                lambda value=value: told.fate() is not None or value() is not None,
            )
            continue
        lost = [d for d in distractors if full._misleads(d) is False]
        for d in lost + [d for d in distractors if d not in lost]:
            mine = [p for p in by_use if p.stage is stage and p.distractor == d]
            tell(mine, lambda d=d: told.fate() is not None or told._misleads(d) is not None)
    assert told.fate() == full.fate()
    assert spent == costs.least


def test_the_gate_that_settles_most_for_its_cost_is_asked_first():
    experience = Experience()
    gates = [Gate("weak", cost=1), Gate("strong", cost=2)]
    first = Life(gates, [], Rules(k_min=0), experience=experience)
    assert first.wanted()[0].gate == "weak"
    for _ in range(20):
        experience.note(Probe("weak", Stage.PARAMETRIC), I, Rules())
        experience.note(Probe("strong", Stage.PARAMETRIC), C, Rules())
    assert first.wanted()[0].gate == "strong"
    assert Life(gates, [], Rules(k_min=0), experience=Experience(learn=False)).wanted()[0].gate == "weak"


def test_expected_calls_lie_between_nothing_and_algorithm_1():
    gates = [Gate("a"), Gate("b")]
    rates = {("a", Stage.PARAMETRIC): 1.0}
    sure = expected(gates, 5, Rules(), rates)
    assert sure.calls[("a", Stage.PARAMETRIC)] == pytest.approx(1.0)
    assert sure.kept == 0
    never = {(g, s): 1.0 if s is Stage.SOLVABLE else 0.0 for g in "ab" for s in Stage}
    kept = expected(gates, 5, Rules(), never)
    assert kept.kept == 1
    assert sum(kept.calls.values()) == pytest.approx(2 + 1 + 10)
    assert sum(kept.algorithm1.values()) == pytest.approx(2 + 2 + 10)
