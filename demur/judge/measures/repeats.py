"""Repeats (several answers of one item): one item's answers, never several items.

An item is a context set under a condition. However often it was asked, it enters every measure once, as the mean over
its repeats, and stands in one cluster. So asking again sharpens what is known of each item, and never makes few items
look like many: with every answer copied m times each estimate and each interval is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from demur.core.stats import Codes, Floats
from demur.judge.measures.table import Flags


class Items(NamedTuple):
    """Rows gathered into the items that they are repeats of; items are numbered in order of first appearance."""

    of: Codes | None
    """int64 [rows]: the row's item; None where nothing was asked twice, and every row is an item."""
    first: Codes
    """int64 [items]: the first row of each."""
    size: Codes
    """int64 [items]: its rows."""

    @property
    def n(self) -> int:
        """How many items."""
        return len(self.first)

    @property
    def repeats(self) -> int:
        """Rows behind them; 0 where nothing was asked twice."""
        return 0 if self.of is None else len(self.of)

    def once(self, values: Codes) -> Codes:
        """int64 [items]: of ``values`` ([rows]) each item's first."""
        return values if self.of is None else values[self.first]

    def mean(self, values: Floats | Flags) -> Floats:
        """float64 [items]: the mean of ``values`` ([rows]) over each item's repeats."""
        if self.of is None:
            return values.astype(np.float64)
        # sums of flags are whole numbers: copied answers give the same quotient to the last bit
        return np.bincount(self.of, weights=values, minlength=self.n) / self.size

    def weight(self) -> Floats:
        """float64 [rows]: 1 / (repeats of the row's item)."""
        return np.ones(self.n) if self.of is None else 1.0 / self.size[self.of]


def gather(item: Codes | None, rows: Flags) -> Items:
    """The items among the kept rows.

    Args:
        item: int64 [rows], equal for the repeats of one item, as in `Table.item`; None: every row is an item.
        rows: bool [rows]; rows that are not kept are no repeat of anything; the result's arrays leave them out.
    """
    if item is None:
        n = int(rows.sum())
        return Items(None, np.arange(n), np.ones(n, dtype=np.int64))
    _, first, of, size = np.unique(
        item[rows], return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Items(rank[of], first[order], size[order])
