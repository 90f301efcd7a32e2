"""What a release costs in calls to gates: as Algorithm 1 asks, and as expected beforehand."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from demur.core.store import seed_of
from demur.curation.gates.funnel import Gate, GateQuery, Rules, SampleState, Stage, settling
from demur.curation.gates.one_factor import together_that_leaves
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label


def naive_calls(state: SampleState) -> int:
    """Calls that Algorithm 1 makes about a sample whose decision is known; a gate that cannot be asked makes none."""
    calls = callable_gates(state, Stage.PARAMETRIC)
    if state.passed(Stage.PARAMETRIC):
        calls += callable_gates(state, Stage.SOLVABLE)
        if state.passed(Stage.SOLVABLE):
            calls += sum(callable_gates(state, Stage.DISTRACTOR, d) for d in state.distractors)
    return calls


def callable_gates(state: SampleState, stage: Stage, distractor: str = "") -> int:
    """Gates that can be asked a question, asked or not."""
    return sum(v is not Label.SKIPPED for v in state.of(stage, distractor).values())


# --- expected ------------------------------------------------------------------------------------

Answers = frozenset[tuple[str, bool]]
"""Of one question: (gate, whether its answer settled it)."""


class GateRates(NamedTuple):
    """How often gates settle a question, and how much they have in common."""

    rates: Mapping[str, float]
    """Gate -> probability that its answer settles a question, in [0, 1]."""
    together: float
    """Correlation of what lies behind two gates' answers (a one-factor probit): 0, they are independent; 1, a better
    gate settles all that a worse one does."""

    def question(self, dice: random.Random) -> Callable[[str], bool]:
        """Draw one: how hard it is for all gates, and for each. Gate -> whether its answer settles it; asked once."""
        common = math.sqrt(self.together) * dice.gauss(0, 1)

        def settles(gate: str) -> bool:
            rate = self.rates.get(gate, 0.5)
            own = math.sqrt(1 - self.together) * dice.gauss(0, 1)
            return rate > 0 and (rate >= 1 or common + own < NormalDist().inv_cdf(rate))

        return settles


def fit(seen: Mapping[Answers, int], gates: Sequence[str]) -> GateRates:
    """Rates by counting; gates have so much in common as leaves as many questions unsettled as there were.

    Args:
        seen: what was answered to a question -> number of such questions.
    """
    import numpy as np

    asked: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    for answers, n in seen.items():
        asked.update({gate: n for gate, _ in answers})
        settled.update({gate: n for gate, yes in answers if yes})
    overall = (settled.total() + 1) / (asked.total() + 2)
    rates = {gate: (settled[gate] + overall) / (asked[gate] + 1) for gate in gates}
    unsettled = sum(n for answers, n in seen.items() if not any(yes for _, yes in answers))
    probits = np.array([NormalDist().inv_cdf(min(max(rate, 1e-6), 1 - 1e-6)) for rate in rates.values()])
    return GateRates(rates, together_that_leaves(probits, unsettled / max(1, sum(seen.values()))))


class Expected(NamedTuple):
    """Mean calls about one sample, per gate and stage."""

    calls: dict[tuple[str, Stage], float]
    algorithm1: dict[tuple[str, Stage], float]
    spread: float
    """Standard deviation of one sample's calls, over samples."""
    kept: float
    """Share of samples that stay."""


def expected(
    gates: Sequence[Gate],
    candidates: Sequence[frozenset[str]] | int,
    rules: Rules,
    guesses: Mapping[Stage, GateRates],
    *,
    plays: int = 400,
    seed: int = 0,
) -> Expected:
    """What asking is expected to cost, by playing ``plays`` samples through the funnel with labels drawn at random.

    Args:
        gates: that take part, each in the stages in which it can be asked about these samples.
        candidates: distractors per sample; or for each of them, best first, the gates that can be asked about it.
    """
    dice = random.Random(seed_of(seed, "expected"))
    if isinstance(candidates, int):
        candidates = [frozenset(g.name for g in gates)] * candidates
    ids = {f"d{i}": who for i, who in enumerate(candidates)}
    cannot = {
        GateQuery(g.name, Stage.DISTRACTOR, d): Label.SKIPPED
        for g in gates if Stage.DISTRACTOR in g.stages for d, who in ids.items() if g.name not in who
    }  # fmt: skip
    lazy: Counter[tuple[str, Stage]] = Counter()
    naive: Counter[tuple[str, Stage]] = Counter()
    order = SuccessCounter()
    kept, squares, total = 0, 0, 0
    for _ in range(plays):
        state = SampleState(gates, list(ids), rules, order=order, labels=dict(cannot))
        questions: dict[tuple[Stage, str], Callable[[str], bool]] = {}
        asked = 0
        while wanted := state.wanted():
            for query in wanted:
                where = (query.stage, query.distractor)
                if where not in questions:
                    questions[where] = guesses[query.stage].question(dice)
                lazy[query.gate, query.stage] += 1
                asked += 1
                yes = next(iter(sorted(settling(query.stage, rules))))
                state.tell(query, yes if questions[where](query.gate) else Label.INCORRECT)
        squares, total = squares + asked * asked, total + asked
        decision = state.decision()
        kept += decision is not None and decision.kept
        for gate in gates:
            for stage in gate.stages:
                if stage is Stage.PARAMETRIC or state.passed(Stage.PARAMETRIC):
                    if stage is Stage.DISTRACTOR and not state.passed(Stage.SOLVABLE):
                        continue
                    naive[gate.name, stage] += (
                        sum(gate.name in who for who in candidates) if stage is Stage.DISTRACTOR else 1
                    )
    mean = total / plays
    return Expected(
        {k: v / plays for k, v in lazy.items()}, {k: v / plays for k, v in naive.items()},
        math.sqrt(max(0.0, squares / plays - mean * mean)), kept / plays,
    )  # fmt: skip
