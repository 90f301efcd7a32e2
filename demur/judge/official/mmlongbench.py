"""MMLongBench-Doc: accuracy over all questions, and the F1 that holds declining against answering.

Ma et al. 2024, section 4.1: a question that the document does not answer is scored right when the system says so. Their
scorer grades an answer between 0 and 1 by its format; here it is the judge's verdict, right or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from demur.core.records import Outcome


class MMLongBench(NamedTuple):
    """The benchmark's two numbers over graded answers, each in [0, 1]; None where a denominator is 0."""

    accuracy: float | None
    """Right answers to answerable questions and deflections of the others, among all."""
    precision: float | None
    """Right answers among all questions that were answered."""
    f1: float | None
    """Harmonic mean of precision and of the right answers among the answerable."""
    n: int


def mmlongbench(graded: Iterable[tuple[Outcome, bool]]) -> MMLongBench:
    """The numbers of some graded answers, each with whether its question has an answer.

    >>> mmlongbench([(Outcome.CORRECT, True), (Outcome.INCORRECT, True), (Outcome.DEFLECTED, False)])
    MMLongBench(accuracy=0.6666666666666666, precision=0.5, f1=0.5, n=3)
    """
    graded_items = list(graded)
    right = sum(outcome is Outcome.CORRECT and answerable for outcome, answerable in graded_items)
    declined = sum(
        outcome is Outcome.DEFLECTED and not answerable for outcome, answerable in graded_items
    )
    answered = sum(outcome is not Outcome.DEFLECTED for outcome, _ in graded_items)
    possible = sum(answerable for _, answerable in graded_items)
    f1 = 2 * right / (answered + possible) if answered and possible else None
    return MMLongBench(
        (right + declined) / len(graded_items) if graded_items else None,
        right / answered if answered else None,
        f1,
        len(graded_items),
    )
