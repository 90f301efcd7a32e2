"""Reciprocal ranks: the paper's sum within the depth, and an order that no cut behind it changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.retrieval.fuse import reciprocal_ranks

IDS = st.lists(st.sampled_from([f"d{n}" for n in range(40)]), unique=True, max_size=40)


@given(IDS, IDS)
def test_within_the_depth_it_is_the_papers_sum(one, other):
    fused = dict(reciprocal_ranks([one, other]))
    assert fused.keys() == {*one, *other}
    for id, score in fused.items():
        assert score == pytest.approx(
            sum(1 / (61 + ids.index(id)) for ids in (one, other) if id in ids)
        )


@given(IDS, IDS, st.integers(1, 40), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_first_do_not_depend_on_how_many_are_read(one, other, n, depth, random):
    whole = reciprocal_ranks([one, other], depth=depth)
    read = [max(n, depth) + random.randrange(5) for _ in range(2)]
    part = reciprocal_ranks([one[: read[0]], other[: read[1]]], depth=depth)
    assert part[:n] == whole[:n]
    assert [score for _, score in whole] == sorted((score for _, score in whole), reverse=True)
    seen = [min(ids.index(id) for ids in (one, other) if id in ids) < depth for id, _ in whole]
    assert seen == sorted(seen, reverse=True)
