"""The order of gates: which one to ask next.

One answer settles a question of the funnel (`demur.curation.gates.funnel.settling`), so the next gate is the one with
the least cost per settled question: cost over probability of settling (the optimal order of independent tests, Garey
1973). The probability is counted per stage and group of samples, with three extra successes for every gate, so that a
gate that is seldom tried is tried again. The order changes no decision and no byte of a release.
"""

from __future__ import annotations

from collections import Counter

CREDIT = 3
"""Successes that every gate starts with."""


class SuccessCounter:
    """Counts which gates settle questions; all samples of a build share it.

    Args:
        learn: False always takes the cheapest gate first.
    """

    def __init__(self, *, learn: bool = True) -> None:
        self.learn = learn
        self._answers: Counter[tuple[str, str, str]] = Counter()
        self._settled: Counter[tuple[str, str, str]] = Counter()
        self.planned: Counter[tuple[str, str, str]] = Counter()
        """Questions that were put into waves."""

    def note(self, stage: str, group: str, gate: str, settled: bool) -> None:
        """Count one answer of a gate."""
        self._answers[stage, group, gate] += 1
        self._settled[stage, group, gate] += settled

    def price(self, gate: str, cost: float, stage: str, group: str) -> tuple[float, float, str]:
        """(expected cost per settled question, cost of an answer, name); the least is asked first."""
        place = stage, group, gate
        share = (
            (self._settled[place] + CREDIT) / (self._answers[place] + CREDIT) if self.learn else 1.0
        )
        return cost / share, cost, gate
