"""SimpleQA: rates of the three labels, and one number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from demur.core.records import Outcome


class SimpleQA(NamedTuple):
    """The benchmark's five numbers over graded answers; None where a denominator is 0."""

    correct: float | None
    incorrect: float | None
    not_attempted: float | None
    accuracy_given_attempted: float | None
    f1: float | None
    """Harmonic mean of ``correct`` and ``accuracy_given_attempted``."""
    n: int


def simpleqa(outcomes: Sequence[Outcome]) -> SimpleQA:
    """The numbers of some graded answers.

    >>> simpleqa([Outcome.CORRECT, Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED]).f1
    0.5714285714285714
    """
    n, right, wrong = (
        len(outcomes),
        outcomes.count(Outcome.CORRECT),
        outcomes.count(Outcome.INCORRECT),
    )
    if not n:
        return SimpleQA(None, None, None, None, None, 0)
    attempted = right + wrong
    of_attempted = right / attempted if attempted else None
    f1 = 2 * right / (attempted + n)  # harmonic mean of r/n and r/a
    return SimpleQA(
        right / n, wrong / n, (n - attempted) / n, of_attempted, f1 if attempted else None, n
    )
