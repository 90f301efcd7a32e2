import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mining_calls import mine_kind

from demur.core.records import AnswerSpec, Document, Evidence, Hit, Role, Sample
from demur.curation.mining.diversity import marginal_relevance
from demur.curation.mining.options import MiningOptions

SCORES = st.lists(st.floats(-1, 1, width=32), max_size=12)
WEIGHT = st.floats(0, 1)


@st.composite
def candidates(draw):
    """Relevance of n candidates, and the cosines of their vectors."""
    scores = draw(SCORES)
    vectors = draw(arrays(np.float64, (len(scores), 3), elements=st.floats(-1, 1, width=16)))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(norms > 0, norms, 1)
    return scores, vectors @ vectors.T


def value(place, picked, scores, similarity, weight):
    """The formula, word for word."""
    nearest = max((similarity[place][other] for other in picked), default=0.0)
    return weight * scores[place] - (1 - weight) * nearest


@given(candidates(), WEIGHT, st.integers(0, 15))
def test_every_pick_is_the_best_that_was_left(given_, weight, count):
    scores, similarity = given_
    places = marginal_relevance(scores, similarity, weight, count)
    assert len(places) == len(set(places)) == min(count, len(scores))
    best = abs(max(scores, default=0.0)) or 1.0
    relevance = [score / best for score in scores]
    for turn, place in enumerate(places):
        left = [other for other in range(len(scores)) if other not in places[:turn]]
        values = {
            other: value(other, places[:turn], relevance, similarity, weight) for other in left
        }
        assert values[place] == pytest.approx(max(values.values()), rel=1e-9, abs=1e-12)


@given(candidates(), st.integers(0, 15))
def test_weight_1_is_the_order_of_relevance(given_, count):
    scores, similarity = given_
    picks = marginal_relevance(scores, similarity, 1.0, count)
    assert picks == sorted(range(len(scores)), key=lambda place: -scores[place])[:count]


@given(candidates(), WEIGHT, st.integers(0, 15))
def test_fewer_are_the_first_of_more(given_, weight, count):
    scores, similarity = given_
    whole = marginal_relevance(scores, similarity, weight, len(scores))
    assert marginal_relevance(scores, similarity, weight, count) == whole[:count]


def test_scores_of_any_scale_weigh_alike():
    cosines = np.array([[1, 0.95, 0.1], [0.95, 1, 0.1], [0.1, 0.1, 1.0]])
    for scores in ([0.9, 0.89, 0.8], [90.0, 89.0, 80.0], [0.009, 0.0089, 0.008]):
        assert marginal_relevance(scores, cosines, 0.5, 2) == [0, 2]
    assert marginal_relevance([-1, -2, -3], cosines, 1.0, 3) == [0, 1, 2]
    assert marginal_relevance([], np.zeros((0, 0)), 0.5, 2) == []


WORDS = ["alder", "birch", "cedar", "dogwood", "elm", "fir"]
DOCUMENTS = {
    f"d{i}": Document(id=f"d{i}", title="", text=f"The {word} tree grows here.")
    for i, word in enumerate(WORDS)
}
HITS = [
    Hit(document=id, score=1 - i / 100, rank=i + 1, index_id="ix", mode="lexical")
    for i, id in enumerate(DOCUMENTS)
]


def asked():
    gold = Document(id="g", title="", text="A mill stands by the river since 1889.")
    return Sample(
        id="s",
        source="x",
        question="When?",
        answers=AnswerSpec(accepted=(("1889",),)),
        gold=(Evidence.of(gold, Role.GOLD),),
    )


def two_kinds(ids):
    """The first three are alike, and so are the others."""
    kinds = np.array([int(id[1:]) // 3 for id in ids])
    return (kinds[:, None] == kinds[None]).astype(np.float64)


def test_mined_for_diversity():
    mined = mine_kind(
        "text",
        asked(),
        HITS,
        DOCUMENTS,
        MiningOptions(diversity=0.5),
        limit=3,
        similarity=two_kinds,
    )
    assert [(e.id, e.rank, e.mode) for e in mined.negatives] == [
        ("d0", 1, "lexical mmr(0.5)"),
        ("d3", 4, "lexical mmr(0.5)"),
        ("d1", 2, "lexical mmr(0.5)"),
    ]
    assert [(d.evidence, d.reason) for d in mined.drops] == [
        (f"d{i}", "less diverse") for i in (2, 4, 5)
    ]
    plain = mine_kind("text", asked(), HITS, DOCUMENTS, limit=3)
    weight_1 = mine_kind(
        "text",
        asked(),
        HITS,
        DOCUMENTS,
        MiningOptions(diversity=1.0),
        limit=3,
        similarity=two_kinds,
    )
    assert (
        [e.id for e in weight_1.negatives] == [e.id for e in plain.negatives] == ["d0", "d1", "d2"]
    )


def test_ranks_bound_what_is_picked_from():
    chosen = MiningOptions(range_min=1, range_max=4, diversity=0.0)
    mined = mine_kind("text", asked(), HITS, DOCUMENTS, chosen, limit=2, similarity=two_kinds)
    assert [e.id for e in mined.negatives] == ["d1", "d3"]
    assert [(d.evidence, d.reason) for d in mined.drops] == [("d0", "rank"), ("d2", "less diverse")]
