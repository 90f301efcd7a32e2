"""The order of gates: which one to ask next.

One answer settles a question of the funnel (`demur.curation.gates.funnel.settling`), so the next gate is the one whose
answer settles it for the least expected cost: cost over probability of settling (the optimal order of independent
tests, Garey 1973). That probability is counted, for each stage and each group of samples apart, with three imagined
successes for every gate, so that one that is seldom tried is tried again.

A latent class model of what gates have in common asked no fewer (make bench-curation). The order moves neither a
decision nor a byte of a release.
"""

from __future__ import annotations

from collections import Counter

CREDIT = 3
"""Imagined successes of a gate that was not asked yet."""


class SuccessCounter:
    """Counts which gates settle questions; shared by all samples of a build.

    Args:
        learn: False keeps to the cheapest first.
    """

    def __init__(self, *, learn: bool = True) -> None:
        self.learn = learn
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._settled: Counter[tuple[str, str, str]] = Counter()

    def note(self, stage: str, group: str, gate: str, settled: bool) -> None:
        """Count one answer: of a gate, in a stage, about a sample of a group."""
        self._asked[stage, group, gate] += 1
        self._settled[stage, group, gate] += settled

    def price(self, gate: str, cost: float, stage: str, group: str) -> tuple[float, float, str]:
        """(expected cost of an answer that settles a question, cost of an answer, name): the least is asked first."""
        where = stage, group, gate
        share = (self._settled[where] + CREDIT) / (self._asked[where] + CREDIT) if self.learn else 1.0
        return cost / share, cost, gate
