"""What arithmetic says about a published table of CertainlyUncertain (`demur audit`).

A table has a column ``model`` and, in per cent, ``epistemic_f1``, ``epistemic_acc``, ``epistemic_cw``, the same of
``aleatoric`` and ``total``, and may have ``ece``. Five categories count alike, so a total is (3 E + 2 A) / 5, and never
lies outside its two parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from demur.judge.audit import Finding

PARTS = ("f1", "acc", "cw")
COLUMNS = frozenset({"model", "ece", *(f"{root}_{p}" for root in ("epistemic", "aleatoric", "total") for p in PARTS)})
SLACK = 0.07
"""Three printed numbers of two decimals explain .01; the means behind them were rounded too."""


def total(epistemic: float, aleatoric: float) -> float:
    """The mean of five categories from the means of three and of two.

    >>> round(total(65.45, 67.15), 2)
    66.13
    """
    return (3 * epistemic + 2 * aleatoric) / 5


def audit(rows: Sequence[tuple[str, dict[str, str]]]) -> list[Finding]:
    """The findings, line by line."""
    found: list[Finding] = []
    for place, row in rows:
        who = row.get("model", "").strip() or place
        values: dict[str, float] = {}
        for column, written in row.items():
            if column == "model" or not written.strip():
                continue
            try:
                values[column] = float(written)
            except ValueError:
                values[column] = math.nan
            if not math.isfinite(values[column]):
                found.append(Finding("number", "defect", f"{place}, {who}", f"{column} is {written!r}, no number"))
                del values[column]
        for part in PARTS:
            e, a, t = (values.get(f"{root}_{part}") for root in ("epistemic", "aleatoric", "total"))
            if e is None or a is None or t is None or abs(total(e, a) - t) <= SLACK + 1e-9:
                continue
            outside = not min(e, a) - SLACK <= t <= max(e, a) + SLACK
            found.append(Finding(
                "total", "defect", who,
                f"total_{part} {t:g} is printed, {total(e, a):.2f} follows from {e:g} and {a:g}"
                + ("; no mean of these two lies there" if outside else ""),
            ))  # fmt: skip
    return found
