"""Bounds for benchmarks and tests of the funnel: Algorithm 1 as it is printed, and the fewest calls that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.curation.gates.funnel import MINING, GateQuery, GatingModel, Rules, SampleState, Stage
from demur.curation.gates.rules import Label


class Naive(SampleState):
    """Algorithm 1 as printed: stage after stage, each time every gate about everything."""

    def wanted(self) -> tuple[GateQuery, ...]:
        """Everything of the stage that the sample is in."""
        open_ones = [p for p in self.all_queries() if p not in self.labels]
        for stage in Stage:
            if now := tuple(p for p in open_ones if p.stage is stage):
                return now
            if stage is not Stage.DISTRACTOR and not self.passed(stage):
                return ()
        return ()

    def choices(self, query: GateQuery, within: float = 1.0) -> list[str]:
        """All are asked."""
        return [query.gate]


class Costs(NamedTuple):
    """Calls about one sample, by three ways of asking."""

    exhaustive: int
    """Every gate everything."""
    algorithm1: int
    """Algorithm 1 as printed: stage after stage, every gate of a stage (`Naive`)."""
    least: int
    """The fewest that any order could do with: the smallest set of answers from which the decision follows."""


def costs_of(
    gates: Sequence[GatingModel],
    distractors: Sequence[str],
    rules: Rules,
    truth: Mapping[GateQuery, Label],
) -> Costs:
    """Count calls offline, from every label that could be had (`Label.SKIPPED` is no call).

    ``least`` is a bound that no order of asking can pass, because it knows the labels beforehand; it holds for the
    default rules and is not computed for the literal ones.

    Raises:
        UsageError: the rules are not the default ones.
    """
    if (rules.parametric, rules.solvable) != ("not_correct", "any_correct"):
        raise UsageError(
            "the bound is for the default rules",
            cure="leave rules.parametric and rules.solvable out",
        )
    state = SampleState(gates, distractors, rules, exhaustive=True, labels=dict(truth))
    decision = state.decision()
    if decision is None:
        raise UsageError("a label is missing", cure="give every label of the sample")

    def calls(stage: Stage, distractor: str = "") -> int:
        return sum(
            label is not Label.SKIPPED for label in state.labels_of(stage, distractor).values()
        )

    everything = sum(v is not Label.SKIPPED for v in truth.values())
    staged = least = calls(Stage.PARAMETRIC)
    if Label.CORRECT in state.labels_of(Stage.PARAMETRIC).values():
        return Costs(everything, staged, 1)
    if not state.passed(Stage.PARAMETRIC):
        return Costs(everything, staged, least)
    staged += calls(Stage.SOLVABLE)
    if not state.passed(Stage.SOLVABLE):
        return Costs(everything, staged, least + calls(Stage.SOLVABLE))
    least += 1
    staged += sum(calls(Stage.DISTRACTOR, d) for d in distractors)
    lost = [
        d for d in distractors if Label.CORRECT in state.labels_of(Stage.DISTRACTOR, d).values()
    ]
    if decision.stage in ("distractors", MINING):
        candidates = sum(calls(Stage.DISTRACTOR, d) > 0 for d in distractors)
        return Costs(everything, staged, least + max(0, candidates - rules.k_min + 1))
    gone = set(lost)
    needed = sum(1 if d in gone else calls(Stage.DISTRACTOR, d) for d in state.considered())
    return Costs(everything, staged, least + needed)
