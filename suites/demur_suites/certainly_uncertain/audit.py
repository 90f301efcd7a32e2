"""Arithmetic checks of a published table of CertainlyUncertain (`demur suite audit`).

A table has a column ``model`` and, in per cent, ``epistemic_f1``, ``epistemic_acc``, ``epistemic_cw``, the same of
``aleatoric`` and ``total``, and may have ``ece``. Five categories have equal weight, so a total is (3 E + 2 A) / 5, and
always lies between its two parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur_suites.published import Finding, PublishedRow, printed_lines

PARTS = ("f1", "acc", "cw")
COLUMNS = frozenset(
    {
        "model",
        "ece",
        *(f"{root}_{p}" for root in ("epistemic", "aleatoric", "total") for p in PARTS),
    }
)
SLACK = 0.07
"""Three printed numbers of two decimals explain .01; the means behind them were rounded too."""


def total(epistemic: float, aleatoric: float) -> float:
    """The mean of five categories from the means of three and of two.

    >>> round(total(65.45, 67.15), 2)
    66.13
    """
    return (3 * epistemic + 2 * aleatoric) / 5


def audit(rows: Sequence[PublishedRow]) -> list[Finding]:
    """The findings, line by line."""
    lines, found = printed_lines(rows)
    for line in lines:
        for part in PARTS:
            e, a, t = (
                line.values.get(f"{root}_{part}") for root in ("epistemic", "aleatoric", "total")
            )
            if e is None or a is None or t is None or abs(total(e, a) - t) <= SLACK + 1e-9:
                continue
            outside = not min(e, a) - SLACK <= t <= max(e, a) + SLACK
            found.append(
                Finding(
                    "total",
                    "defect",
                    line.who,
                    f"total_{part} {t:g} is printed, {total(e, a):.2f} follows from {e:g} and {a:g}"
                    + ("; no mean of these two lies there" if outside else ""),
                )
            )
    return found
