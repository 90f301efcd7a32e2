"""A judge's rates corrected by labels: a simulated judge with known errors, the published estimator, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import DataError
from demur.judge.measures.corrected import CLASSES, LEAST, corrected, differences, student
from demur.judge.measures.table import CORRECT, DEFLECTED, FAILED, INCORRECT, UNJUDGED

OURS = np.array([CORRECT, DEFLECTED, INCORRECT])
SAID = np.array([CORRECT, DEFLECTED, INCORRECT, UNJUDGED])
ERRS = np.array([[0.75, 0.03, 0.17, 0.05], [0.03, 0.8, 0.14, 0.03], [0.10, 0.05, 0.80, 0.05]])
"""P(verdict | truth): a judge that calls one correct answer in six wrong."""


def world(rng, truth, n=300, labels=60, balanced=True):
    y = rng.choice(3, size=n, p=truth)
    v = np.array([rng.choice(4, p=ERRS[k]) for k in y])
    label = np.full(n, -1)
    if balanced:
        pools = [list(rng.permutation(np.flatnonzero(v == k))) for k in range(4)]
        chosen: list[int] = []
        while len(chosen) < labels:
            for pool in pools:
                if pool and len(chosen) < labels:
                    chosen.append(pool.pop())
    else:
        chosen = list(rng.choice(n, labels, replace=False))
    label[chosen] = OURS[y[chosen]]
    return y, SAID[v], label


@pytest.mark.slow
@pytest.mark.parametrize("population", ["super", "finite"])
@pytest.mark.parametrize("balanced", [True, False])
def test_a_judge_with_known_errors_is_corrected_at_the_nominal_level(population, balanced):
    truth = np.array([0.6, 0.25, 0.15])
    rng = np.random.default_rng(7)
    held, naive, off = np.zeros(3), np.zeros(3), np.zeros(3)
    times = 120
    for _ in range(times):
        y, verdict, label = world(rng, truth, balanced=balanced)
        found = corrected(verdict, label, population=population)
        right = truth if population == "super" else np.bincount(y, minlength=3) / len(y)
        assert sum(m.value for m in found.rates.values()) == pytest.approx(1)
        for k, name in enumerate(CLASSES):
            one, judged = found.rates[name], found.naive[name]
            assert 0 <= one.low <= one.value <= one.high <= 1
            held[k] += one.low <= right[k] <= one.high
            naive[k] += judged.low <= right[k] <= judged.high
            off[k] += (one.value - right[k]) / times
    assert (held / times >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / times)).all(), held / times
    assert np.abs(off).max() < 0.02
    assert naive[2] / times < 0.5  # the judge's own hallucination rate is wrong, and sure of it


def test_the_published_estimator_where_groups_are_not_told_apart():
    """PPI++ (power tuned, labelled answers among all) in a few independent lines."""
    rng = np.random.default_rng(1)
    _, verdict, label = world(rng, [0.5, 0.3, 0.2], n=400, labels=80, balanced=False)
    keep = verdict != UNJUDGED
    verdict, label = verdict[keep], label[keep]
    found = corrected(verdict, label, by_verdict=False)
    known = label >= 0
    along = alone = 0.0
    for code in (CORRECT, DEFLECTED, INCORRECT):
        y, f = (label[known] == code).astype(float), (verdict[known] == code).astype(float)
        covariance = np.cov(y, f)
        along, alone = along + covariance[0, 1], alone + covariance[1, 1]
    power = min(1.0, max(0.0, along / alone))
    assert found.power == pytest.approx(power)
    for name, code in CLASSES.items():
        plain = (
            power * (verdict == code).mean()
            + ((label[known] == code) - power * (verdict[known] == code)).mean()
        )
        assert found.rates[name].value == pytest.approx(plain)


def test_a_perfect_judge_is_not_taken_to_be_perfect_and_a_census_is():
    verdict = np.array([CORRECT] * 70 + [INCORRECT] * 30)
    label = np.where(np.arange(100) % 2 == 0, verdict, -1)
    found = corrected(verdict, label, population="finite").rates["accuracy"]
    assert found.value == pytest.approx(0.7)
    assert found.high - found.low > 0.05
    census = corrected(verdict, verdict, population="finite").rates["accuracy"]
    assert (census.low, census.value, census.high) == pytest.approx((0.7, 0.7, 0.7))


def test_unjudged_answers_are_corrected_and_failed_ones_left_out():
    verdict = np.array([CORRECT] * 60 + [UNJUDGED] * 60 + [FAILED] * 9)
    label = np.where(verdict == UNJUDGED, INCORRECT, verdict)
    label[verdict == FAILED] = -1
    label[::3] = -1
    found = corrected(verdict, label)
    assert found.rates["accuracy"].value == pytest.approx(0.5)
    assert found.naive["accuracy"].value == 1.0
    assert (found.naive["accuracy"].unjudged, found.naive["accuracy"].failed, found.answers) == (
        60,
        9,
        120,
    )


def test_too_few_labels_are_refused():
    verdict = np.full(100, CORRECT)
    label = np.where(np.arange(100) < LEAST - 1, CORRECT, -1)
    with pytest.raises(DataError, match="39 labels"):
        corrected(verdict, label)


@pytest.mark.heavy
def test_paired_differences_hold_the_truth():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(60):
        y, one, label = world(rng, [0.5, 0.3, 0.2], labels=70)
        better = np.where((y == 2) & (rng.random(300) < 0.5), 0, y)
        v = np.array([rng.choice(4, p=ERRS[k]) for k in better])
        other, second = SAID[v], np.where(rng.random(300) < 0.25, OURS[better], -1)
        found = differences(corrected(one, label), corrected(other, second), (one, other))[0]
        assert -1 <= found.low <= found.difference <= found.high <= 1
        held += found.low <= 0.1 <= found.high
    assert held >= 53


def judged(rng, truth, errors):
    return SAID[
        (rng.random(len(truth))[:, None] > np.cumsum(np.array(errors), axis=1)[truth])
        .sum(axis=1)
        .clip(0, 3)
    ]


def test_a_verdict_without_a_label_is_refused_by_name():
    """Labels of a blind sheet, which asks about graded answers alone: they say nothing of unjudged ones."""
    rng = np.random.default_rng(4)
    truth = rng.choice(3, 300, p=[0.9, 0.02, 0.08])
    verdict = judged(rng, truth, [[0.6, 0, 0, 0.4], [0, 0.5, 0, 0.5], [0.2, 0, 0.2, 0.6]])
    sheet = np.where(verdict == UNJUDGED, -1, OURS[truth])
    with raises(DataError, "unjudged", cure="demur annotate RUN"):
        corrected(verdict, sheet)
    twice = np.where(verdict == INCORRECT, -1, sheet)
    with raises(DataError, "incorrect", "unjudged"):
        corrected(verdict, twice)
    page = np.where((verdict != UNJUDGED) | (rng.random(300) < 0.3), OURS[truth], -1)
    found = corrected(verdict, page).rates["accuracy"]
    assert found.low <= (truth == 0).mean() <= found.high
    corrected(verdict, sheet, by_verdict=False)  # whoever calls it so vouches for the draw


def test_few_answers_of_a_verdict_without_a_label_may_be_anything():
    verdict = np.array([CORRECT] * 190 + [UNJUDGED] * 10)
    label = np.where(
        (np.arange(200) % 2 == 0) & (verdict == CORRECT),
        np.where(np.arange(200) % 8, CORRECT, INCORRECT),
        -1,
    )
    found, without = corrected(verdict, label), corrected(verdict[:190], label[:190])
    assert (found.blind, without.blind) == (pytest.approx(0.05), 0)
    for name in CLASSES:
        some, all_ = found.rates[name], without.rates[name]
        assert (some.value, some.low) == (pytest.approx(all_.value), pytest.approx(0.95 * all_.low))
        assert some.high == pytest.approx(0.95 * all_.high + 0.05)
    assert (found.answers, found.naive["accuracy"].n, found.naive["accuracy"].unjudged) == (
        200,
        190,
        10,
    )
    apart = differences(
        found,
        without._replace(influence=found.influence, chance=found.chance, known=found.known),
        (verdict, verdict),
    )[0]
    assert apart.high - apart.low > 0.05


def test_few_labels_of_a_frequent_verdict_are_not_made_up_for_by_those_of_another():
    verdict = np.array([UNJUDGED] * 200 + [CORRECT] * 50 + [DEFLECTED] * 50)
    label = np.full(300, -1)
    label[:4], label[200:250], label[250:] = INCORRECT, CORRECT, DEFLECTED
    found = corrected(verdict, label).rates["hallucination"]
    assert found.value == pytest.approx(2 / 3)
    assert found.high - found.low > 0.3  # it rests on four labels


@pytest.mark.parametrize(
    "errors", [[[1, 0, 0, 0]] * 3, [[0.1, 0, 0, 0.9], [0, 0.1, 0, 0.9], [0, 0, 0.1, 0.9]]]
)
@pytest.mark.parametrize(
    ("size", "labels", "alike"), [(1, 270, 0.0), (1, 60, 0.8), (8, 150, 0.0), (8, 80, 0.6)]
)
def test_intervals_hold_where_verdicts_tell_nothing_with_and_without_clusters(
    errors, size, labels, alike
):
    """A judge that says always "correct", or mostly nothing: all that varies is in the labels."""
    rng, p, n, times = np.random.default_rng(9), np.array([0.6, 0.25, 0.15]), 300, 80
    cluster, held, apart, width, gaps = (
        np.arange(n) // size,
        np.zeros(3),
        np.zeros(3),
        np.zeros(3),
        [],
    )
    for _ in range(times):

        def answers():
            return np.where(
                rng.random(n) < 0.8, rng.choice(3, n, p=p)[cluster * size], rng.choice(3, n, p=p)
            )

        one, two = answers(), answers()
        two = np.where(rng.random(n) < alike, one, two)
        drawn = (
            [rng.permutation(n)[:labels]] * 2
            if alike
            else [rng.permutation(n)[:labels] for _ in range(2)]
        )
        said = [judged(rng, y, errors) for y in (one, two)]
        label = [
            np.where(np.isin(np.arange(n), d), OURS[y], -1)
            for d, y in zip(drawn, (one, two), strict=True)
        ]
        sides = [corrected(v, y, cluster=cluster) for v, y in zip(said, label, strict=True)]
        held += [
            side.low <= q <= side.high for side, q in zip(sides[0].rates.values(), p, strict=True)
        ]
        found = differences(sides[0], sides[1], (said[0], said[1]), cluster=cluster)
        apart += [d.low <= 0 <= d.high for d in found]
        width += [(d.high - d.low) / times for d in found]
        gaps.append([d.difference for d in found])
    least = 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / times)
    assert (held / times >= least).all(), held / times
    assert (apart / times >= least).all(), apart / times
    assert (width < 1.7 * 3.92 * np.std(gaps, axis=0)).all()  # no wider than the estimates vary


def test_the_influences_give_the_variance_and_shared_answers_the_covariance():
    rng = np.random.default_rng(2)
    _, verdict, label = world(rng, [0.5, 0.3, 0.2], n=2000, labels=900)
    found = corrected(verdict, label)
    assert (found.influence**2).sum(axis=0) == pytest.approx(found.variance, rel=0.02)
    alone = corrected(verdict, label, cluster=np.arange(2000))
    assert alone.variance == pytest.approx(found.variance, rel=0.02)
    tripled = corrected(
        np.repeat(verdict, 3), np.repeat(label, 3), cluster=np.repeat(np.arange(2000), 3)
    )
    assert tripled.variance == pytest.approx(found.variance, rel=0.1)  # copies are no evidence
    same = differences(found, found, (verdict, verdict))[0]
    other = rng.choice(3, 2000, p=[0.5, 0.3, 0.2])
    v = judged(rng, other, ERRS)
    independent = differences(
        found, corrected(v, np.where(label >= 0, OURS[other], -1)), (verdict, v)
    )[0]
    assert 0 < same.high - same.low < 0.2 * (independent.high - independent.low)


@pytest.mark.parametrize("together", [True, False])
def test_differences_of_these_answers_count_what_is_labelled_on_both_sides(together):
    """Finite: labels drawn independently have nothing in common, however alike the answers are."""
    rng, held, times, n = np.random.default_rng(6), np.zeros(3), 100, 150
    for _ in range(times):
        one = rng.choice(3, n, p=[0.6, 0.25, 0.15])
        two = np.where(rng.random(n) < 0.9, one, rng.choice(3, n))
        verdict, chosen = np.full(n, CORRECT), rng.permutation(n)[:110]
        sides = []
        for y in (one, two):
            chosen = chosen if together else rng.permutation(n)[:110]
            sides.append(
                corrected(
                    verdict,
                    np.where(np.isin(np.arange(n), chosen), OURS[y], -1),
                    population="finite",
                )
            )
        found = differences(sides[0], sides[1], (verdict, verdict))
        held += [
            d.low <= (two == k).mean() - (one == k).mean() <= d.high for k, d in enumerate(found)
        ]
    assert (held / times >= 0.89).all(), held / times


def test_a_rare_class_of_these_very_answers_holds():
    rng, held, times = np.random.default_rng(8), np.zeros(3), 200
    errors = [[0.9, 0.03, 0.02, 0.05], [0.03, 0.9, 0.02, 0.05], [0.05, 0.03, 0.87, 0.05]]
    done = 0
    for _ in range(times):
        y = rng.choice(3, 137, p=[0.9, 0.02, 0.08])
        verdict, label = judged(rng, y, errors), np.full(137, -1)
        chosen = rng.permutation(137)[:40]
        label[chosen] = OURS[y[chosen]]
        try:
            found = corrected(verdict, label, population="finite")
        except DataError:  # no label of a frequent verdict
            continue
        done += 1
        held += [m.low <= (y == k).mean() <= m.high for k, m in enumerate(found.rates.values())]
    assert done > 190
    assert (held / done >= 0.91).all(), held / done


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=LEAST, max_size=90),
    st.integers(0, 50),
)
def test_shares_sum_to_one_and_stay_in_bounds_whatever_comes(pairs, more):
    verdict = np.array([SAID[v] for v, _ in pairs] + [CORRECT] * more)
    label = np.array([OURS[y] for _, y in pairs] + [-1] * more)
    for population in ("super", "finite"):
        found = corrected(verdict, label, population=population)
        assert sum(m.value for m in found.rates.values()) == pytest.approx(1)
        assert all(0 <= m.low <= m.high <= 1 for m in found.rates.values())


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 2)), max_size=120),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=LEAST, max_size=60),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["super", "finite"]),
)
def test_what_changes_nothing_and_what_changes_it_in_a_known_way(some, labelled, seed, population):
    """Order, failed answers, the names of the classes, all of it twice, and the other system first."""
    rng = np.random.default_rng(seed)
    verdict = np.array([SAID[v] for v, _ in some + labelled])
    label = np.array([OURS[y] if y >= 0 else -1 for _, y in some + labelled])

    def rates(v, y):
        found = corrected(v, y, population=population).rates
        return np.array(
            [(found[name].low, found[name].value, found[name].high) for name in CLASSES]
        )

    base = rates(verdict, label)
    order = rng.permutation(len(verdict))
    assert rates(verdict[order], label[order]) == pytest.approx(base, abs=1e-9)
    failed = np.full(7, FAILED)
    assert rates(
        np.append(verdict, failed), np.append(label, failed * 0 + CORRECT)
    ) == pytest.approx(base, abs=1e-9)
    turned = {
        -1: -1,
        UNJUDGED: UNJUDGED,
        CORRECT: DEFLECTED,
        DEFLECTED: INCORRECT,
        INCORRECT: CORRECT,
    }
    other = rates(np.array([turned[v] for v in verdict]), np.array([turned[y] for y in label]))
    assert other[[1, 2, 0]] == pytest.approx(base, abs=1e-9)
    twice = rates(np.tile(verdict, 2), np.tile(label, 2))
    assert (twice[:, 2] - twice[:, 0] <= base[:, 2] - base[:, 0] + 1e-9).all()
    second = verdict[order]
    one, two = (corrected(v, label, population=population) for v in (verdict, second))
    there, back = differences(one, two, (verdict, second)), differences(two, one, (second, verdict))
    for gap, opposite in zip(there, back, strict=True):
        assert (gap.difference, gap.low, gap.high) == pytest.approx(
            (-opposite.difference, -opposite.high, -opposite.low), abs=1e-9
        )


@pytest.mark.heavy
def test_students_quantile():
    scipy = pytest.importorskip("scipy.stats")
    for df in (5, 10, 39, 200):
        assert student(0.975, df) == pytest.approx(scipy.t.ppf(0.975, df), abs=0.005)


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(3))
def test_like_truescore(seed):
    """Point estimates of a published package, one rate at a time; its intervals are Wald's, ours cover at small n."""
    truescore = pytest.importorskip("truescore")
    rng = np.random.default_rng(seed)
    _, verdict, label = world(rng, [0.5, 0.3, 0.2], n=500, labels=150)
    keep = verdict != UNJUDGED
    verdict, label = verdict[keep], label[keep]
    ours = corrected(verdict, label)
    index = np.flatnonzero(label >= 0)
    strata = verdict.astype(str)
    weights = {s: float((strata == s).mean()) for s in np.unique(strata)}
    for name, code in CLASSES.items():
        theirs = truescore.post_stratified_estimate(
            (verdict == code).astype(float),
            (label[index] == code).astype(float),
            index,
            strata,
            weights,
        )
        assert ours.rates[name].value == pytest.approx(theirs.point, abs=0.02)
        assert ours.rates[name].low == pytest.approx(theirs.low, abs=0.06)
        assert ours.rates[name].high == pytest.approx(theirs.high, abs=0.06)
    _, verdict, label = world(rng, [0.5, 0.3, 0.2], n=2000, labels=200, balanced=False)
    plain = corrected(verdict, label, by_verdict=False)
    index = np.flatnonzero(label >= 0)
    for name, code in CLASSES.items():
        f = np.where(verdict == UNJUDGED, 1 / 3, verdict == code)
        gold = (label[index] == code).astype(float)
        theirs = truescore.ppi_estimate(f, gold, index, lambda_=plain.power)
        assert plain.rates[name].value == pytest.approx(theirs.point, abs=0.01)
        tuned = truescore.ppi_estimate(
            f, gold, index
        )  # a power for each rate alone: they need not sum to one
        assert plain.rates[name].value == pytest.approx(tuned.point, abs=0.02)


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(3))
def test_like_ppi_python(seed):
    """The package of the method's authors, one rate at a time, with our power: the same estimates, intervals near its Wald ones."""
    ppi_py = pytest.importorskip(
        "ppi_py",
        reason="pip install --no-deps ppi-python, in an environment of its own: its wheel brings a package named tests",
    )
    rng = np.random.default_rng(seed)
    _, verdict, label = world(rng, [0.5, 0.3, 0.2], n=2000, labels=200, balanced=False)
    keep = verdict != UNJUDGED
    verdict, label = verdict[keep], label[keep]
    ours = corrected(verdict, label, by_verdict=False)
    known = label >= 0
    for name, code in CLASSES.items():
        y, f = (label[known] == code).astype(float), (verdict == code).astype(float)
        point = ppi_py.ppi_mean_pointestimate(y, f[known], f, lam=ours.power)
        assert ours.rates[name].value == pytest.approx(float(point[0]), abs=1e-9)
        low, high = ppi_py.ppi_mean_ci(y, f[known], f, alpha=0.05, lam=ours.power)
        assert ours.rates[name].low == pytest.approx(float(low[0]), abs=0.02)
        assert ours.rates[name].high == pytest.approx(float(high[0]), abs=0.02)
