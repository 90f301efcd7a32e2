"""What a published table of CertainlyUncertain must obey (`demur suite audit`).

A table has a column ``model`` and, in per cent, ``epistemic_f1``, ``epistemic_acc``, ``epistemic_cw``, the same of
``aleatoric`` and ``total``, and may have ``ece``. Five categories have equal weight, so a total is (3 E + 2 A) / 5.
"""

from __future__ import annotations

from demur_suites.published import PublishedTables, follows

PARTS = ("f1", "acc", "cw")
COLUMNS = frozenset(
    {"model", "ece", *(f"{r}_{p}" for r in ("epistemic", "aleatoric", "total") for p in PARTS)}
)
SLACK = 0.06
"""The means behind three printed numbers were rounded too."""


def total(epistemic: float, aleatoric: float) -> float:
    """The mean of five categories from the means of three and of two.

    >>> round(total(65.45, 67.15), 2)
    66.13
    """
    return (3 * epistemic + 2 * aleatoric) / 5


RULES = tuple(
    follows(f"total_{part}", (f"epistemic_{part}", f"aleatoric_{part}"), total, slack=SLACK)
    for part in PARTS
)
PUBLISHED = PublishedTables(COLUMNS, RULES)
