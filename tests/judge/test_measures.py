"""Measures on rows: hand-made cases, properties, and other implementations (reference tier)."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import DataError, UsageError
from demur.core.records import Measure, Outcome, Row, Scenario, Status
from demur.core.stats import cluster_sums, percentile, resampled, wilson
from demur.judge.measures import power, risk
from demur.judge.measures.behaviour import behaviour
from demur.judge.measures.intervals import Auto, ClusterBootstrap, Wilson, interval, of_shares
from demur.judge.measures.kappa import cohen, of_table
from demur.judge.measures.paired import holm, mcnemar, of_means, tango
from demur.judge.measures.rates import Rates, rates, share_of
from demur.judge.measures.table import Table
from demur.judge.measures.totals import macro, macro_total
from demur.judge.measures.truthfulness import truthfulness

C, W, D = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED


def row(i: int, outcome: Outcome | Status | None = C, **more: object) -> Row:
    status = outcome if isinstance(outcome, Status) else Status.GRADED
    given_: dict[str, object] = {
        "ask": f"a{i}",
        "context": f"c{i}",
        "sample": f"s{i}",
        "source": "src",
        "scenario": Scenario.ORACLE,
        "condition": "moderate",
        "recipe": "oracle()",
        "k_used": 0,
        "expected": "answer",
        "status": status,
        "outcome": outcome if isinstance(outcome, Outcome) else None,
    }
    return Row(**{**given_, **more})  # type: ignore[arg-type]


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([r.model_dump(mode="json") for r in rows], schema=SCHEMA)


SCHEMA = pa.schema(
    [
        (
            n,
            pa.int64()
            if n in ("k_used", "repeat")
            else pa.float64()
            if n == "confidence"
            else pa.string(),
        )
        for n in Row.model_fields
    ]
)
OUTCOMES = st.sampled_from([C, W, D, Status.UNJUDGED, Status.FAILED])


# --- rates ---------------------------------------------------------------------------------------


def test_rates_count_what_is_absent_beside_the_denominator() -> None:
    rows = [
        row(0),
        row(1, W),
        row(2, D),
        row(3, D),
        row(4, Status.UNJUDGED),
        row(5, Status.FAILED),
        row(6, Status.FAILED),
    ]
    for given_ in (rows, arrow(rows), Table(arrow(rows)), iter(rows)):
        found = rates(given_)
        assert [m.value for m in found] == [0.25, 0.5, 0.25]
        assert {(m.n, m.unjudged, m.failed, m.interval) for m in found} == {
            (4, 1, 2, "wilson(0.95)")
        }
        assert (found.accuracy.low, found.accuracy.high) == pytest.approx(wilson(1, 4))


@pytest.mark.parametrize("rows", [[], [row(0, Status.UNJUDGED)], [row(0, Status.FAILED)]])
def test_an_empty_denominator_is_undefined_never_zero(rows: list[Row]) -> None:
    for given_ in (rows, arrow(rows)):
        for m in rates(given_):
            assert (m.value, m.n, m.low, m.high, m.interval) == (None, 0, None, None, "")


@pytest.mark.heavy
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(OUTCOMES, max_size=30), st.randoms())
def test_rates_sum_to_one_and_ignore_order(
    outcomes: list[Outcome | Status], random: object
) -> None:
    rows = [row(i, o, cluster=str(i % 3)) for i, o in enumerate(outcomes)]
    found = rates(rows)
    if found.accuracy.n:
        assert sum(m.value or 0 for m in found) == pytest.approx(1)
        for m in found:
            assert m.low is not None
            assert m.high is not None
            assert 0 <= m.low <= m.high <= 1
    random.shuffle(rows)  # type: ignore[attr-defined]
    assert rates(rows) == found
    assert rates(arrow(rows)) == found


def test_rows_that_contradict_themselves_are_refused() -> None:
    broken = arrow([row(0), row(1)]).to_pylist()
    broken[1]["outcome"] = None
    with pytest.raises(DataError, match="row 2"):
        rates(pa.Table.from_pylist(broken, schema=SCHEMA))
    with raises(DataError, "'colour'"):
        Table([row(0)]).groups("colour")


# --- intervals -----------------------------------------------------------------------------------


def test_wilson_acceptance_numbers() -> None:
    assert wilson(20, 21) == pytest.approx((0.7733, 0.9915), abs=5e-5)
    assert wilson(9, 21) == pytest.approx((0.2447, 0.6345), abs=5e-5)
    assert wilson(0, 0) is None
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


METHODS = st.one_of(
    st.builds(Wilson, st.sampled_from([0.5, 0.9, 0.95, 0.999])),
    st.builds(
        ClusterBootstrap,
        st.sampled_from([0.5, 0.9, 0.95]),
        st.integers(1, 10**6),
        st.integers(0, 2**32),
    ),
    st.builds(Auto, st.sampled_from([0.9, 0.95]), st.integers(1, 10**6), st.integers(0, 2**32)),
)


@given(METHODS)
def test_interval_text_parses_back(method: Wilson | ClusterBootstrap | Auto) -> None:
    assert interval(str(method)) == method
    assert interval(str(method).replace(",", ", ")) == method


@pytest.mark.parametrize(
    "text",
    [
        "",
        "normal(0.95)",
        "wilson(2)",
        "wilson(0.95,3)",
        "wilson(a)",
        "cluster-bootstrap(0.95,0)",
        "cluster-bootstrap(0.9,2000,level=0.8)",
        "cluster-bootstrap(0.95,2.5)",
        "wilson(0.95",
        "cluster-bootstrap(0.95,10,seed=-1)",
        "cluster-bootstrap(0.95,10,1,1)",
    ],
)
def test_other_interval_text_is_refused(text: str) -> None:
    with raises(UsageError, repr(text), cure="(0.95"):
        interval(text)


def test_none_of_n_is_bounded_by_nothing_and_not_by_the_dust_of_rounding() -> None:
    for n in range(1, 300):
        assert (wilson(0, n) or (1,))[0] == 0
        assert (wilson(n, n) or (0, 0))[1] == 1


def test_clusters_widen_the_interval_and_are_named() -> None:
    rows = [row(i, C if (i // 10) % 2 else W, cluster=f"c{i // 10}") for i in range(200)]
    alone, together = rates(rows, "wilson").accuracy, rates(rows).accuracy
    assert together.interval == "cluster-bootstrap(0.95,2000,seed=0)"
    assert (together.high or 0) - (together.low or 0) > 2 * ((alone.high or 0) - (alone.low or 0))
    assert rates(rows) == rates(rows)
    assert rates(rows, "cluster-bootstrap(seed=1)") != rates(rows, "cluster-bootstrap(seed=2)")


def test_samples_without_a_cluster_are_their_own() -> None:
    table = Table([row(0), row(0), row(1), row(2, cluster="x"), row(3, cluster="x")])
    assert len(np.unique(table.cluster)) == 3
    assert rates(table).accuracy.low == pytest.approx(
        wilson(3, 3)[0]
    )  # three clusters, not five items


def test_resampling_is_the_cluster_bootstrap() -> None:
    """Against the plain loop: draw cluster indices with replacement, add their sums."""
    rng = np.random.default_rng(1)
    cluster = rng.integers(0, 40, 300)
    hits = (rng.random(300) < 0.3 + 0.4 * (cluster % 2)).astype(float)
    sums = cluster_sums(cluster, hits, np.ones(300))
    ours = resampled(sums, 20_000, seed=3)
    plain = np.array(
        [sums[rng.integers(0, len(sums), len(sums))].sum(axis=0) for _ in range(20_000)]
    )
    ratio, reference = ours[:, 0] / ours[:, 1], plain[:, 0] / plain[:, 1]
    assert ratio.mean() == pytest.approx(reference.mean(), abs=0.002)
    assert ratio.std() == pytest.approx(reference.std(), rel=0.03)
    assert percentile(ratio, 0.95) == pytest.approx(percentile(reference, 0.95), abs=0.006)
    assert percentile(np.array([np.nan]), 0.95) is None
    assert of_shares([np.zeros(0)], np.zeros(0, dtype=np.int64), Auto()) == [(None, None, "")]


# --- totals and breakdowns -----------------------------------------------------------------------


def test_totals_leave_out_what_is_undefined_and_say_which_they_are() -> None:
    assert macro([]) is None
    assert macro([None, 2.0]) == 2.0
    parts = [
        Measure(name="accuracy", value=0.5, n=2, failed=1),
        Measure(name="accuracy", value=None, n=0, unjudged=3),
    ]
    assert macro_total(parts) == Measure(
        name="macro-total(accuracy)", value=0.5, n=2, failed=1, unjudged=3
    )


def test_parts_by_two_columns() -> None:
    rows = [
        row(i, C if i % 3 else D, source="x" if i < 4 else "y", topic=str(i % 2)) for i in range(10)
    ]
    found = Table(rows).groups("source", "topic")
    assert [labels for labels, _ in found] == [("x", "0"), ("x", "1"), ("y", "0"), ("y", "1")]
    assert sum(place.astype(int) for _, place in found).tolist() == [1] * 10  # type: ignore[union-attr]
    assert Table([]).groups("source") == []


# --- right behaviour -----------------------------------------------------------------------------


def test_behaviour_keeps_the_two_mistakes_apart() -> None:
    rows = [row(i, o) for i, o in enumerate([C, C, W, D])]
    rows += [
        row(i, o, expected="deflect", scenario=Scenario.ADVERSARIAL)
        for i, o in enumerate([D, D, D, W, Status.FAILED], 4)
    ]
    found = behaviour(rows)
    assert found.answered.value == 0.5
    assert found.deflected.value == 0.75
    assert found.over_deflection.value == 0.25
    assert found.under_deflection.value == 0.25
    assert (found.right.value, found.right.n, found.right.failed) == (5 / 8, 8, 1)
    assert found.balanced == 0.625
    always = behaviour([row(0, D), row(1, D, expected="deflect")])
    assert always.balanced == 0.5
    one_sided = behaviour([row(0, C)])
    assert (one_sided.deflected.value, one_sided.balanced) == (None, None)


# --- paired --------------------------------------------------------------------------------------


def test_mcnemar_against_its_definition() -> None:
    for b, c in itertools.product(range(8), repeat=2):
        n, least = b + c, min(b, c)
        if not n:
            assert mcnemar(b, c) is None
            continue
        tail = sum(comb(n, k) for k in range(least + 1)) / 2**n
        assert mcnemar(b, c) == pytest.approx(min(1, 2 * tail))
    assert mcnemar(400_000, 401_000) == pytest.approx(0.264, abs=0.002)


def test_holm_is_monotone_and_keeps_order_and_gaps() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.2, None, 0.01]) == pytest.approx([0.2, None, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=1, max_size=40)
)
def test_paired_difference_is_antisymmetric(pairs: list[tuple[bool, bool, int]]) -> None:
    a, b, cluster = (np.array(x) for x in zip(*pairs, strict=True))
    one, other = of_means(a, b, cluster), of_means(b, a, cluster)
    assert one.difference == pytest.approx(-(other.difference or 0))
    assert one.p_exact == other.p_exact


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5, 1]), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    )
)
def test_no_difference_is_known_without_doubt(pairs: list[tuple[float, float, int]]) -> None:
    a, b, cluster = (np.array(x) for x in zip(*pairs, strict=True))
    one, other = of_means(a, b, cluster), of_means(b, a, cluster)
    assert one.low is not None
    assert one.high is not None
    assert one.high - one.low > 1e-6
    assert -1 <= one.low <= (one.difference or 0) + 1e-9
    assert (one.difference or 0) - 1e-9 <= one.high <= 1
    if one.interval.startswith("tango"):
        assert (one.low, one.high) == pytest.approx(
            (-(other.high or 0), -(other.low or 0)), abs=1e-9
        )


def test_two_that_never_differ_have_the_interval_of_none_of_so_many_clusters() -> None:
    z2 = 1.959963984540054**2
    alike = np.ones(60)
    apart = of_means(alike, alike, np.arange(60))
    assert (apart.low, apart.high, apart.interval) == (
        pytest.approx(-z2 / (60 + z2)),
        pytest.approx(z2 / (60 + z2)),
        "tango(0.95)",
    )
    together = of_means(alike, alike, np.arange(60) // 6)
    assert together.high == pytest.approx(z2 / (10 + z2))  # ten clusters, not sixty pairs
    always = of_means(alike, 0 * alike, np.arange(60))
    assert (always.low, always.difference) == (pytest.approx(-1), -1)
    assert always.high == pytest.approx(-(60 - z2) / (60 + z2))


@pytest.mark.heavy
@pytest.mark.parametrize(("b", "c", "n"), [(3, 9, 40), (0, 5, 20), (1, 0, 8), (12, 12, 30)])
def test_tango_is_the_score_test_turned_round(b: int, c: int, n: int) -> None:
    """At either end the score statistic is the normal quantile, its spread maximised over a grid of the nuisance."""

    def score(delta: float) -> float:
        share = np.linspace(max(0.0, -delta), (1 - delta) / 2, 2_000_001)[1:-1]
        likelihood = (
            b * np.log(share)
            + c * np.log(share + delta)
            + (n - b - c) * np.log(1 - 2 * share - delta)
        )
        best = share[np.argmax(likelihood)]
        return float((c - b - n * delta) / np.sqrt(n * (2 * best + delta - delta**2)))

    low, high = tango(b, c, n)
    assert (score(low), score(high)) == (
        pytest.approx(1.96, abs=0.005),
        pytest.approx(-1.96, abs=0.005),
    )


def test_clusters_that_are_all_alike_or_a_single_one_are_no_certainty() -> None:
    for clusters in (1, 2):
        rows = [row(i, C if i % 2 else W, cluster=f"c{i // 2 % clusters}") for i in range(8)]
        found = rates(rows).accuracy
        assert (found.low, found.high) == pytest.approx(wilson(clusters / 2, clusters))


# --- risk against coverage -----------------------------------------------------------------------


def test_risk_coverage_by_hand() -> None:
    found = risk.of_arrays(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, False]))
    assert found.risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert found.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert found.area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found.excess == pytest.approx((found.area or 0) - (1 / 3 + 2 / 4) / 4)
    assert risk.of_arrays(np.zeros(0), np.zeros(0, dtype=bool)).area is None


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=7))
def test_ties_get_their_mean_over_all_orders(items: list[tuple[float, bool]]) -> None:
    confidence, correct = (np.array(x) for x in zip(*items, strict=True))
    areas = []
    for order in itertools.permutations(range(len(items))):
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order)):
            wrong = np.cumsum(~correct[list(order)])
            areas.append(np.mean(wrong / np.arange(1, len(items) + 1)))
    assert risk.of_arrays(confidence, correct).area == pytest.approx(np.mean(areas))


def test_rows_without_confidence_are_counted_aside() -> None:
    found = risk.risk_coverage(
        [
            row(0, C, confidence=0.9),
            row(1, D, confidence=0.1),
            row(2),
            row(3, Status.FAILED, confidence=1.0),
        ]
    )
    assert (found.n, found.without_confidence) == (2, 1)
    assert found.risk.tolist() == [0.0, 0.5]


# --- how many samples ----------------------------------------------------------------------------


def test_sample_sizes() -> None:
    assert power.paired(0.1, 0.3) == 234
    assert power.paired(0.0, 0.3) is None
    with pytest.raises(UsageError, match="discordant"):
        power.paired(0.5, 0.3)
    with pytest.raises(UsageError, match="between 0 and 1"):
        power.paired(10, 30)


def test_paired_needs_what_simulation_says() -> None:
    """McNemar on the planned number of pairs sees the difference about as often as planned."""
    n = power.paired(0.1, 0.3)
    assert n is not None
    rng = np.random.default_rng(0)
    seen = 0
    for b, c, _ in rng.multinomial(n, [0.1, 0.2, 0.7], size=1000):
        seen += (mcnemar(int(b), int(c)) or 1) < 0.05
    assert 0.76 < seen / 1000 < 0.84


# --- kappa ---------------------------------------------------------------------------------------


def test_kappa() -> None:
    assert cohen("aabb", "aaba").kappa == pytest.approx(0.5)
    assert cohen("aa", "aa").kappa is None
    assert cohen("", "").observed is None
    assert of_table(np.array([[20.0, 5], [10, 15]])).kappa == pytest.approx(0.4)
    with raises(DataError, " 2"):
        cohen("abc", "ab")


# --- against other implementations ---------------------------------------------------------------


@pytest.mark.reference
def test_wilson_and_mcnemar_against_statsmodels() -> None:
    from statsmodels.stats.contingency_tables import mcnemar as theirs
    from statsmodels.stats.inter_rater import cohens_kappa
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.proportion import proportion_confint

    for k, n, level in [(0, 5, 0.9), (3, 7, 0.95), (50, 100, 0.99), (999, 1000, 0.95)]:
        assert wilson(k, n, level) == pytest.approx(proportion_confint(k, n, 1 - level, "wilson"))
    for b, c in [(1, 9), (5, 5), (0, 3), (120, 90)]:
        assert mcnemar(b, c) == pytest.approx(theirs([[10, b], [c, 10]], exact=True).pvalue)
    p = [0.01, 0.04, 0.03, 0.2, 0.005]
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    counts = np.array([[40.0, 3, 2], [1, 30, 4], [0, 5, 15]])
    assert of_table(counts).kappa == pytest.approx(cohens_kappa(counts).kappa)


@pytest.mark.reference
def test_sample_sizes_against_scipy() -> None:
    from scipy.stats import norm

    z = norm.ppf(0.975) * 0.3**0.5 + norm.ppf(0.8) * (0.3 - 0.01) ** 0.5
    assert power.paired(0.1, 0.3) == pytest.approx((z / 0.1) ** 2, abs=1)


@pytest.mark.reference
def test_bootstrap_against_scipy() -> None:
    from scipy.stats import bootstrap

    rng = np.random.default_rng(5)
    hits = (rng.random(400) < 0.3).astype(float)
    ours = percentile(
        resampled(cluster_sums(np.arange(400), hits, np.ones(400)), 20_000, 1)[:, 0] / 400, 0.95
    )
    theirs = bootstrap(
        (hits,), np.mean, method="percentile", n_resamples=20_000, random_state=rng
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.005)


@pytest.mark.parametrize("n", [20, 60, 120, 400])
def test_one_hallucination_is_never_surer_than_none(n):
    none, single = np.zeros(n), np.eye(1, n)[0]
    (_, most_of_none, _), (_, most_of_single, _) = of_shares(
        [none, single], np.arange(n) // 2, Auto()
    )
    assert most_of_single > most_of_none


def test_a_share_of_nothing_or_everything_is_not_certain():
    cluster = np.repeat(np.arange(30), 4)
    none, every = of_shares([np.zeros(120), np.ones(120)], cluster, Auto())
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(wilson(0, 30)[1])
    assert every.low == pytest.approx(wilson(30, 30)[0])
    assert none.method == "wilson(0.95)"
    asked_for = of_shares([np.zeros(120)], cluster, ClusterBootstrap())[
        0
    ]  # by name: as it is defined
    assert asked_for[:2] == (0.0, 0.0)


def test_truthfulness_is_the_mean_of_its_points_and_counts_what_is_absent() -> None:
    points = {C: 1, D: 0, W: -1}
    outcomes = [C] * 5 + [W] * 3 + [D] * 2
    found = truthfulness(
        rates([*map(row, range(10), outcomes), row(10, Status.FAILED), row(11, Status.UNJUDGED)])
    )
    assert found.value == pytest.approx(sum(points[o] for o in outcomes) / 10)
    assert (found.n, found.failed, found.unjudged) == (10, 1, 1)
    assert found.bounds == pytest.approx(((2 - 2) / 12, (2 + 2) / 12))  # two more wrong, or right
    assert truthfulness(rates([])).value is None
    assert truthfulness(rates([row(0, W), row(1, W)])).value == -1.0


def test_truthfulness_lies_in_its_interval_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    for chances in ((0.5, 0.2, 0.3), (0.5, 0.0, 0.5), (0.1, 0.85, 0.05)):
        held = 0
        for right, declined, wrong in rng.multinomial(60, chances, size=1000):
            shares = (share_of("", count, 60) for count in (right, declined, wrong))
            found = truthfulness(Rates(*shares))
            held += found.low <= chances[0] - chances[2] <= found.high
        assert held / 1000 >= 0.93, chances
