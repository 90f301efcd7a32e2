"""Comparison of two runs: what more pairs would show."""

from __future__ import annotations

from demur.core.records import Scenario
from demur.judge.measures.power import paired
from demur.reports.compare import Difference
from demur.reports.compare_tables import needed


def test_it_says_how_many_pairs_a_smaller_difference_would_take() -> None:
    """Connor's formula on the share of pairs that differ; at least the share that is to be seen."""
    one = Difference(
        Scenario.ORACLE, "right behaviour", 200, 0.5, 0.6, 0.1, None, None, 20, 40, None, None, 0.3
    )
    assert needed(one, 0.10) == paired(0.10, 0.30)
    calm = one._replace(lost=0, gained=0, spread=0.0)
    assert needed(calm, 0.05) == paired(0.05, 0.05)
