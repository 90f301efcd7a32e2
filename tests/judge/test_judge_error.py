"""Intervals that hold the judge's error: nominal on judges whose error is known, and exact where nothing is measured."""

from __future__ import annotations

import numpy as np
import pytest

from demur.core.records import Method
from demur.core.stats import wilson
from demur.judge.measures import judge_error
from demur.judge.measures.judge_error import Group, interval_with, shift_of
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT

FALSE, MISSED = 0.1, 0.2


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """A judge whose error is known to a per mille."""
    group = Group("known", 100_000, int(MISSED * 100_000), 100_000, int(FALSE * 100_000))
    rows = {"equivalence": [group], "declined": [group], "exact": [group]}
    monkeypatch.setattr(judge_error, "groups", lambda: rows)
    judge_error.shares.cache_clear()
    yield
    judge_error.shares.cache_clear()


def shift(counted: int, n: int, method: Method, outcome: int):
    codes = [list(Method).index(m) for m in (method, Method.EQUIVALENCE)]
    moved = shift_of(
        np.array(codes), np.array([outcome, INCORRECT]), np.array([counted, n - counted])
    )
    return moved.accuracy if outcome == CORRECT else moved.deflection


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    ("method", "outcome"), [(Method.EQUIVALENCE, CORRECT), (Method.DECLINED, DEFLECTED)]
)
def test_the_truth_is_held_as_often_as_promised(rate, method, outcome):
    """Undoing the judge's error blows up chance too: an interval that only moves holds .82 of the truths at .20."""
    rng, n, held = np.random.default_rng(1), 60, 0
    for counted in rng.binomial(n, rate * (1 - MISSED) + (1 - rate) * FALSE, 400):
        low, high = wilson(int(counted), n)
        ends = interval_with(counted / n, low, high, shift(int(counted), n, method, outcome), 0.95)
        held += ends[0] <= rate <= ends[1]
    assert held / 400 >= 0.92


def test_the_rates_without_errors_sum_to_one():
    methods = np.array(
        [list(Method).index(Method.EQUIVALENCE)] * 6 + [list(Method).index(Method.DECLINED)] * 4
    )
    result = np.array([CORRECT] * 4 + [INCORRECT] * 2 + [DEFLECTED] * 4)
    moved = shift_of(methods, result, np.ones(10))
    assert np.allclose(moved.accuracy[0] + moved.deflection[0] + moved.hallucination[0], 0)


def test_nothing_is_known_of_a_judge_that_nobody_measured():
    assert (
        shift_of(np.array([list(Method).index(Method.MODEL)]), np.array([CORRECT]), np.ones(1))
        is None
    )


@pytest.mark.parametrize("counted", [0.0, 0.001, 0.02])
def test_a_system_that_never_errs_is_not_shown_an_interval_without_it(counted):
    """Fewer were counted than the judge counts falsely elsewhere: here it may as well have counted none falsely."""
    undone = judge_error.without_errors(counted, judge_error.shares("equivalence"))
    assert np.quantile(undone, 0.025) == 0
    assert np.quantile(undone, 0.975) >= counted
