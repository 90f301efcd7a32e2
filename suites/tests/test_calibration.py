"""Calibration and thresholds: against scikit-learn, against theory, and at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.judge.measures.calibration import ece, reliability
from demur.judge.measures.risk import of_arrays
from demur_suites import calibration as cal


def test_bins_are_closed_to_the_right_and_zero_is_in_the_first():
    bins = reliability(np.array([0.0, 0.1, 0.1000001, 1.0]), np.ones(4), 10)
    assert [b.n for b in bins] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert np.isnan(bins[4].probability)


def test_nothing_is_undefined_never_zero():
    none = np.zeros(0)
    assert ece(none, none) is cal.brier(none, none) is None
    assert ece(none, none, adaptive=True) is None
    assert cal.best_threshold(none, lambda answered, rows: None) == (None, None)
    assert (
        cal.pearson(np.array([1.0]), np.array([1.0]))
        is cal.pearson(np.ones(3), np.arange(3.0))
        is None
    )


def test_the_grid_is_of_eighteen_values():
    assert len(cal.GRID) == 18
    assert cal.GRID[0] == 0.1
    assert cal.GRID[8:10] == (0.9, 0.91)
    assert cal.GRID[-1] == 0.99


def mean_value(kept, instead):
    def value(answered, rows):
        return float(np.where(answered, kept, instead)[rows].mean()) if rows.any() else None

    return value


def test_the_oracle_is_above_the_cross_validated_threshold_which_no_item_of_its_fold_decided():
    rng = np.random.default_rng(3)
    p = rng.random(200)
    kept = (rng.random(200) < p).astype(float)
    value = mean_value(kept, 1 - kept * (rng.random(200) < 0.5))
    fold = cal.folds([f"pair-{i // 2}" for i in range(200)])
    thresholds, crossed = cal.cross_validated(p, value, fold)
    assert len(thresholds) == 5
    assert cal.best_threshold(p, value)[1] >= crossed
    twisted = np.where(
        fold == 0, 1 - kept, kept
    )  # what fold 0 got right must not move its own threshold
    assert (
        cal.cross_validated(p, mean_value(twisted, 1 - twisted), fold)[0][0]
        == cal.cross_validated(p, mean_value(kept, 1 - kept), fold)[0][0]
    )


def test_equal_thresholds_are_told_by_the_least():
    p = np.array([0.05, 0.995])
    assert cal.best_threshold(p, mean_value(np.array([0.0, 1.0]), np.array([1.0, 0.0]))) == (
        0.1,
        1.0,
    )


@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=30), st.integers(2, 6))
@settings(max_examples=examples(60), deadline=None)
def test_a_cluster_is_never_cut_by_folds(clusters, k):
    fold = cal.folds(clusters, k)
    assert all(
        len({f for c, f in zip(clusters, fold, strict=True) if c == one}) == 1
        for one in set(clusters)
    )
    assert set(fold) <= set(range(k))


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bins", [5, 10, 15])
def test_calibration_agrees_with_scikit_learn(seed, bins):
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss

    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(3, 1, 500), 2 if seed % 2 else 6)  # odd seeds: many ties
    right = (rng.random(500) < p**2).astype(float)
    assert cal.brier(p, right) == pytest.approx(brier_score_loss(right, p), abs=1e-12)
    for adaptive, strategy in ((False, "uniform"), (True, "quantile")):
        if adaptive and seed % 2:
            continue  # equal quantiles: scikit-learn keeps bins without width
        had, stated = calibration_curve(right, p, n_bins=bins, strategy=strategy)
        found = [b for b in reliability(p, right, bins, adaptive=adaptive) if b.n]
        np.testing.assert_allclose([b.credit for b in found], had, atol=1e-12)
        np.testing.assert_allclose([b.probability for b in found], stated, atol=1e-12)
        weights = np.array([b.n for b in found]) / len(p)
        assert ece(p, right, bins, adaptive=adaptive) == pytest.approx(
            np.sum(weights * abs(had - stated)), abs=1e-12
        )


@pytest.mark.reference
def test_aurc_agrees_with_its_definition():
    rng = np.random.default_rng(5)
    p, right = rng.random(300), rng.random(300) < 0.6
    wrong = ~right[np.argsort(-p)]
    assert of_arrays(p, right).area == pytest.approx(
        np.mean([wrong[:k].mean() for k in range(1, 301)]), abs=1e-12
    )
