"""Context sets: nested, deterministic, and holding exactly what their scenario says."""

from __future__ import annotations

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st
from strategies import sample, samples

from demur.core.errors import UsageError
from demur.core.records import Evidence, Modality, Role, Scenario
from demur.scenarios.contexts import (
    PICKS,
    SHORTS,
    Recipe,
    context,
    contexts,
    distractors,
    grid,
    hardness,
    recipe,
    standard,
    sweep,
)
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.prior import Prior

recipes = st.builds(
    Recipe,
    scenario=st.just(Scenario.REALISTIC),
    k=st.integers(1, 10),
    pick=st.sampled_from(PICKS),
    order=st.sampled_from(["shuffled", "gold-first", "gold-last", "gold@0", "gold@1", "gold@9"]),
    short=st.sampled_from(SHORTS),
    gold=st.just("any"),
    negatives=st.just("any"),
    pieces=st.just("k"),
)


def kinds(evidence):
    return {e.modality for e in evidence}


def gives_gold_away(s, k):
    """No k of its distractors are of every kind that gold has."""
    return len(kinds(s.gold)) > k or not kinds(s.gold) <= kinds(s.negatives)


@given(samples(), st.sampled_from(list(Scenario)), st.integers(0, 99), st.integers(1, 8))
def test_a_scenario_shows_what_it_is_defined_to_show(s, scenario, seed, k):
    made = context(s, recipe(scenario.value, k=k), seed)
    if made is None:
        assert scenario in (Scenario.REALISTIC, Scenario.ADVERSARIAL)
        assert not s.negatives or gives_gold_away(s, k)
        return
    gold = {e.id for e in s.gold}
    shown = set(made.evidence)
    assert len(shown) == len(made.evidence)
    assert set(made.gold) == shown & gold
    if scenario in (Scenario.PARAMETRIC, Scenario.FULL, Scenario.GOLD_REMOVED, Scenario.EMPTY):
        assert not shown
    if scenario is Scenario.ORACLE:
        assert shown == gold
    if scenario is Scenario.ADVERSARIAL:
        assert not shown & gold
        assert len(shown) == made.k_used == min(k, len(s.negatives))
    if scenario is Scenario.REALISTIC:
        assert gold <= shown
        assert len(shown - gold) == made.k_used == min(k, len(s.negatives))
    assert made.expected == (
        "answer" if scenario in (Scenario.ORACLE, Scenario.REALISTIC, Scenario.FULL) else "deflect"
    )


@given(samples(), recipes, st.integers(0, 99))
def test_sets_are_nested_over_k_in_the_same_relative_order(s, r, seed):
    smaller, larger = (
        context(s, r._replace(short="use_all"), seed),
        context(s, r._replace(short="use_all", k=r.k + 1), seed),
    )
    if smaller is None or larger is None:
        assert not s.negatives or gives_gold_away(s, r.k)
        return
    assert set(smaller.evidence) <= set(larger.evidence)
    if r.order == "shuffled":
        assert [e for e in larger.evidence if e in set(smaller.evidence)] == list(smaller.evidence)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("pick", PICKS)
def test_a_kind_that_gold_has_is_shown_without_gold_too(pick, seed):
    """Whether a picture, or a text, is shown is the same in Realistic and in Adversarial, whatever k."""
    s = sample(text=3, visual=9)
    picture = s.negatives[-1].model_copy(update={"id": "p", "role": Role.GOLD})
    for gold in (s.gold, (picture,), (*s.gold, picture)):
        shown = s.model_copy(update={"gold": gold})
        by_id = {e.id: e for e in (*gold, *s.negatives)}
        for k in (1, 2, 5, 10):
            pair = [
                context(shown, recipe(f"{name}(k={k},pick={pick})"), seed)
                for name in ("realistic", "adversarial")
            ]
            if k < len(kinds(gold)):
                assert pair == [None, None]
                continue
            with_gold, without = (kinds(map(by_id.get, each.evidence)) for each in pair)
            assert with_gold == without
            assert kinds(gold) <= without
    lacking = sample(text=0, visual=9)
    assert context(lacking, recipe("realistic"), seed) is None
    assert context(lacking, recipe("realistic(negatives=image)"), seed) is not None


@pytest.mark.parametrize("gold", [1, 2, 3])
def test_as_many_pieces_as_in_realistic_are_more_distractors_in_the_same_order(gold):
    s = sample(gold=gold, text=9)
    for k in (1, 2, 5):
        alike = recipe(f"adversarial(k={k},pieces=as-realistic)")
        assert recipe(str(alike)) == alike
        made, paper = context(s, alike), context(s, recipe(f"adversarial(k={k})"))
        assert len(made.evidence) == len(context(s, recipe(f"realistic(k={k})")).evidence)
        assert set(paper.evidence) < set(made.evidence)
        assert (made.gold, made.expected, made.k_asked) == ((), "deflect", k)
    assert context(s, recipe("adversarial(k=9,pieces=as-realistic)")) is None
    with raises(UsageError, "pieces", cure="one of k"):
        recipe("realistic(pieces=as-realistic)")


@given(st.permutations(range(6)))
def test_what_a_source_lists_first_is_not_shown_first(order):
    """Distractors without a rank are drawn: texts before pictures, or any other order of a file, comes to the same."""
    s = sample(text=3, visual=3)
    unranked = [e.model_copy(update={"rank": None}) for e in s.negatives]
    turned = [unranked[place] for place in order]
    first, second = (
        distractors(s.model_copy(update={"negatives": tuple(each)}), recipe("realistic"), 0)
        for each in (unranked, turned)
    )
    assert first == second


@given(samples(), recipes, st.integers(0, 99))
def test_a_set_is_a_function_of_sample_recipe_and_seed_alone(s, r, seed):
    turned = s.model_copy(update={"negatives": s.negatives[::-1], "gold": s.gold[::-1]})
    assert context(s, r, seed) == context(turned, r, seed)


def mined(id, mode, score=None, rank=None, index="i"):
    return Evidence(
        id=id,
        modality="text",
        title="",
        text=id,
        role=Role.DISTRACTOR,
        origin="mined",
        mode=mode,
        score=score,
        rank=rank,
        index_id=index,
    )


SCORED = st.lists(
    st.tuples(st.sampled_from(["text->text", "lexical", "image->image"]), st.integers(-5, 5)),
    min_size=1,
    max_size=9,
)


@given(
    SCORED, st.sampled_from(["text->text", "lexical"]), st.floats(0.01, 1000), st.floats(-50, 50)
)
def test_the_hardest_do_not_depend_on_the_scale_of_a_mode(scored, mode, times, plus):
    one = [mined(f"d{n}", m, float(score)) for n, (m, score) in enumerate(scored)]
    other = [
        e.model_copy(update={"score": e.score * times + plus}) if e.mode == mode else e for e in one
    ]
    assert hardness(one) == hardness(other)
    orders = [
        [
            e.id
            for e in distractors(
                sample().model_copy(update={"negatives": tuple(group)}),
                recipe("realistic(k=9,pick=hardest)"),
                0,
            )
        ]
        for group in (one, other)
    ]
    assert orders[0] == orders[1]


def test_the_hardest_of_every_mode_come_before_the_easiest_of_any():
    """BM25 scores are tens, cosines below one: the two best of each mode are the first four."""
    words = [mined(f"w{n}", "lexical", 40.0 - n) for n in range(4)]
    dense = [mined(f"d{n}", "text->text", 0.9 - n / 10) for n in range(4)]
    shipped = [mined(f"s{n}", "", rank=n + 1) for n in range(4)]
    unknown = [mined("u", "")]
    s = sample().model_copy(update={"negatives": (*unknown, *words, *dense, *shipped)})
    made = [e.id for e in distractors(s, recipe("adversarial(k=5,pick=hardest)"), 0)]
    assert made == ["d0", "s0", "w0", "d1", "s1", "w1", "d2", "s2", "w2", "d3", "s3", "w3", "u"]
    two = [mined("a", "lexical", 3.0, index="one"), mined("b", "lexical", 300.0, index="two")]
    assert set(hardness(two).values()) == {0.5}


def test_another_seed_gives_another_order():
    s = sample(text=8)
    orders = {context(s, recipe("realistic(k=6)"), seed).evidence for seed in range(20)}
    assert len(orders) > 10


@given(recipes)
def test_a_recipe_parses_back(r):
    assert recipe(str(r)) == r


@pytest.mark.parametrize(
    "text",
    [
        "parametric",
        "oracle(order=gold-first)",
        "adversarial(k=3,pick=random,order=shuffled,short=exclude)",
    ],
)
def test_known_texts_are_canonical_once_parsed(text):
    assert str(recipe(str(recipe(text)))) == str(recipe(text))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("realstic", "realistic"),
        ("realistic(k=x)", "k=x"),
        ("realistic(size=3)", "size=3"),
        ("adversarial(k=0)", "k=0"),
        ("oracle(k=2)", "k=2"),
        ("realistic(order=first)", "order="),
        ("realistic(pick=best)", "pick="),
    ],
)
def test_what_is_not_a_recipe_is_refused_with_what_is_allowed(text, named):
    with pytest.raises(UsageError, match=named.replace("(", r"\(")):
        recipe(text)


@given(samples(), st.integers(0, 9))
def test_gold_stands_where_the_order_says(s, seed):
    made = context(s, recipe("realistic(k=4,order=gold-first)"), seed)
    if made:
        assert made.evidence[: len(made.gold)] == made.gold
    made = context(s, recipe("realistic(k=4,order=gold-last)"), seed)
    if made:
        assert made.evidence[-len(made.gold) :] == made.gold
    made = context(s, recipe("realistic(k=4,order=gold@1)"), seed)
    if made:
        assert made.evidence[1 : 1 + len(made.gold)] == made.gold


def test_ranked_takes_the_best_and_exclude_leaves_out_the_short():
    s = sample(text=3)
    assert set(context(s, recipe("adversarial(k=2)")).evidence) == {"s1-t0", "s1-t1"}
    assert context(s, recipe("adversarial(k=4,short=exclude)")) is None
    assert context(s, recipe("adversarial(k=4)")).k_used == 3


def test_the_modality_grid_asks_only_samples_that_support_a_cell():
    both, texts = sample("b", text=3, visual=3), sample("t", text=3)
    for r in grid():
        made = context(both, r)
        if r.gold == "image":
            assert made is None  # its gold is text
            continue
        kinds = {e.modality for e in both.negatives if e.id in made.evidence}
        assert (
            kinds
            == {
                "both": {Modality.TEXT, Modality.IMAGE},
                "text": {Modality.TEXT},
                "image": {Modality.IMAGE},
            }[r.negatives]
        )
        assert (context(texts, r) is None) == (r.negatives != "text")


def test_an_unanswerable_sample_is_always_expected_to_deflect():
    s = sample().model_copy(update={"answerable": False, "gold": ()})
    assert {c.expected for _, c in contexts([s], standard())} == {"deflect"}


def test_a_sweep_runs_from_the_oracles_evidence_up():
    s = sample(text=10)
    sizes = [context(s, r).k_used for r in sweep(0, 10)]
    assert sizes == list(range(11))
    with pytest.raises(UsageError, match="3:1"):
        sweep(3, 1)
    with pytest.raises(UsageError, match="below 1,000"):
        sweep(0, 999_999_999)


@pytest.mark.parametrize("number", ["\u00b2", "\u0663", "9" * 5_000, "-1", "1.5", "", "1e3", "0x1"])
def test_numbers_that_are_none_are_told(number):
    for text in (
        f"realistic(k={number})",
        f"adversarial(k={number})",
        f"realistic(k=3,order=gold@{number})",
    ):
        with pytest.raises(UsageError):
            recipe(text)
    with pytest.raises(UsageError):
        Prior(f"k={number}", SystemContext(read_image=lambda ref: b""))
