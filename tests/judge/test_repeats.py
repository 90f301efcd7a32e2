"""Items asked several times: one item each, in every measure. By hand, and as properties."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.records import Measure, Outcome, Row, Scenario, Status
from demur.core.stats import wilson
from demur.judge.measures import risk
from demur.judge.measures.behaviour import behaviour
from demur.judge.measures.kappa import cohen
from demur.judge.measures.rates import rates, rates_where
from demur.judge.measures.repeats import gather
from demur.judge.measures.table import Table

C, W, D = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED
LOST = Status.FAILED
Said = Outcome | Status


def row(
    item: int,
    repeat: int,
    said: Said = C,
    *,
    confidence: float | None = None,
    cluster: str = "",
    condition: str = "moderate",
) -> Row:
    deflect = item % 3 == 2
    return Row(
        ask=f"a{item}-{repeat}",
        context=f"c{item}",
        sample=f"s{item}",
        source=f"src{item % 2}",
        cluster=cluster,
        scenario=Scenario.ADVERSARIAL if deflect else Scenario.ORACLE,
        condition=condition,
        recipe="oracle",
        k_used=0,
        repeat=repeat,
        expected="deflect" if deflect else "answer",
        status=said if isinstance(said, Status) else Status.GRADED,
        outcome=said if isinstance(said, Outcome) else None,
        confidence=confidence,
    )


def arrow(rows: list[Row]) -> pa.Table:
    kinds = {"k_used": pa.int64(), "repeat": pa.int64(), "confidence": pa.float64()}
    schema = pa.schema([(n, kinds.get(n, pa.string())) for n in Row.model_fields])
    return pa.Table.from_pylist([r.model_dump(mode="json") for r in rows], schema=schema)


def repeated(rows: list[Row], m: int) -> list[Row]:
    """Every draw m times, as further draws with the same answer."""
    return [
        r.model_copy(update={"repeat": r.repeat * m + i, "ask": f"{r.ask}-{i}"})
        for r in rows
        for i in range(m)
    ]


@st.composite
def runs(draw: st.DrawFn, most_repeats: int = 4) -> list[Row]:
    """Rows of up to a dozen items with one draw or several, some in clusters, some without a verdict."""
    said = st.sampled_from([C, C, W, D, Status.UNJUDGED, LOST])
    shared = draw(st.booleans())
    rows = []
    for item in range(draw(st.integers(1, 12))):
        cluster = f"e{item // 3}" if shared else ""
        for number in range(draw(st.integers(1, most_repeats))):
            confidence = draw(st.sampled_from([None, 0.1, 0.5, 0.9]))
            rows.append(row(item, number, draw(said), confidence=confidence, cluster=cluster))
    return rows


# --- by hand -------------------------------------------------------------------------------------


def test_items_are_numbered_as_they_appear() -> None:
    found = gather(np.array([7, 3, 7, 9, 3, 3]), np.array([True, True, True, False, True, True]))
    assert (found.n, found.repeats) == (2, 5)
    assert found.of is not None
    assert found.of.tolist() == [0, 1, 0, 1, 1]
    assert found.first.tolist() == [0, 1]
    assert found.mean(np.array([1.0, 1, 0, 0, 1])).tolist() == [0.5, 2 / 3]
    assert found.weight().tolist() == [0.5, 1 / 3, 0.5, 1 / 3, 1 / 3]
    alone = gather(None, np.array([True, False, True]))
    assert (alone.n, alone.repeats, alone.mean(np.array([True, False])).tolist()) == (
        2,
        0,
        [1.0, 0.0],
    )


def test_rates_are_means_over_items_of_means_over_their_draws() -> None:
    rows = [
        *(row(0, d, o) for d, o in enumerate([C, C, W, D])),
        row(1, 0, W),
        row(1, 1, LOST),
        row(2, 0, LOST),
    ]
    for given_ in (rows, arrow(rows)):
        found = rates(given_)
        assert [m.value for m in found] == [1 / 4, 1 / 8, 5 / 8]
        assert {(m.n, m.repeats, m.failed) for m in found} == {(2, 5, 2)}
        assert (found.accuracy.low, found.accuracy.high) == pytest.approx(
            wilson(0.5, 2)
        )  # two items, not five


def test_one_draw_each_tells_no_draws() -> None:
    assert {m.repeats for m in rates([row(0, 0), row(1, 0, W)])} == {0}
    assert risk.risk_coverage([row(0, 0, confidence=0.5)]).repeats == 0


def test_a_part_that_holds_some_draws_of_an_item_counts_it_whole() -> None:
    """By draw: every part holds each item once, however many draws the run has."""
    rows = [row(i, d, C if d == 0 else W) for i in range(4) for d in range(3)]
    every = Table(rows)
    parts = {k: rates_where(every, place) for k, place in every.groups("repeat")}
    assert {k: (r.accuracy.value, r.n) for k, r in parts.items()} == {
        ("0",): (1.0, 4),
        ("1",): (0.0, 4),
        ("2",): (0.0, 4),
    }
    assert rates(rows).accuracy.repeats == 12


def test_right_behaviour_counts_items() -> None:
    rows = [row(0, 0, C), row(0, 1, D), row(2, 0, D), row(2, 1, W), row(2, 2, D), row(2, 3, D)]
    found = behaviour(rows)
    assert (found.right.value, found.right.n, found.right.repeats) == (5 / 8, 2, 6)
    assert (found.answered.value, found.answered.n) == (1 / 2, 1)
    assert (found.under_deflection.value, found.under_deflection.repeats) == (1 / 4, 4)
    assert found.balanced == 5 / 8


def test_the_risk_curve_gives_each_draw_its_part_of_the_item() -> None:
    """Item 0 is sure and wrong in half of its draws; item 1 is unsure and right.

    Cumulative (coverage, errors) in items: 0.9 -> (1/2, 1/2), 0.8 -> (1, 1/2), 0.1 -> (2, 1/2).
    Risk at coverages 1 and 2 items: 1/2 and 1/4. The perfect order puts the half item of errors last: 0 and 1/4.
    """
    rows = [
        row(0, 0, W, confidence=0.9),
        row(0, 1, C, confidence=0.8),
        row(1, 0, C, confidence=0.1),
        row(3, 0, W),
    ]
    found = risk.risk_coverage(rows)
    assert (found.n, found.repeats, found.without_confidence) == (2, 3, 1)
    assert found.coverage.tolist() == [0.25, 0.5, 1.0]
    assert found.risk.tolist() == [1.0, 0.5, 0.25]
    assert found.area == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert found.excess == pytest.approx((1 / 2 + 1 / 4) / 2 - (0 + 1 / 4) / 2)


def test_agreement_counts_an_item_once() -> None:
    """Three labelled draws of one item, all agreed, against one of another, disputed."""
    found = cohen("aaab", "aaaa", weight=[1 / 3, 1 / 3, 1 / 3, 1])
    assert (found.observed, found.n) == (pytest.approx(0.5), 2)
    assert found.table.tolist() == pytest.approx(np.array([[1.0, 0], [1, 0]]))


# --- properties ----------------------------------------------------------------------------------


def wider(one: Measure, other: Measure) -> bool:
    """Whether the second interval holds the first."""
    if one.low is None or one.high is None:
        return other.low is None
    return (
        other.low is not None
        and other.high is not None
        and other.low <= one.low
        and one.high <= other.high
    )


@settings(max_examples=examples(80), deadline=None)
@given(
    runs(),
    st.integers(2, 10),
    st.sampled_from(["auto(0.95,200)", "wilson", "cluster-bootstrap(0.9,200,seed=3)"]),
)
def test_asking_the_same_again_settles_nothing(rows: list[Row], m: int, method: str) -> None:
    again = repeated(rows, m)
    pairs = [*zip(rates(rows, method), rates(again, method), strict=True)]
    pairs += [*zip(behaviour(rows, method)[:5], behaviour(again, method)[:5], strict=True)]
    for one, other in pairs:
        assert (one.value, one.n) == (other.value, other.n)
        assert wider(one, other)
        assert other.repeats == m * (one.repeats or one.n)


@pytest.mark.heavy
@settings(max_examples=examples(80), deadline=None)
@given(runs(), st.integers(2, 10))
def test_the_risk_curve_of_repeated_draws_is_the_same(rows: list[Row], m: int) -> None:
    one, other = risk.risk_coverage(rows), risk.risk_coverage(repeated(rows, m))
    assert one.n == other.n
    assert other.without_confidence == m * one.without_confidence
    for mine, theirs in zip(one[:3], other[:3], strict=True):
        assert theirs == pytest.approx(mine)
    if one.area is not None:
        assert (other.area, other.excess) == (
            pytest.approx(one.area),
            pytest.approx(one.excess, abs=1e-9),
        )
        assert one.coverage[-1] == 1.0
        assert 0 <= one.area <= 1


@settings(max_examples=examples(40), deadline=None)
@given(runs(), st.randoms())
def test_the_order_of_draws_does_not_matter(rows: list[Row], random: object) -> None:
    found = rates(rows)
    random.shuffle(rows)  # type: ignore[attr-defined]
    for one, other in zip(found, rates(arrow(rows)), strict=True):
        assert one.model_dump() == pytest.approx(other.model_dump())
