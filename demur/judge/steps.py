"""``steps:MODEL``: is this step of a train of thought right? `demur judge bench` measures it on people's labels.

A step is given as the answer, the problem and the steps before it as the question (`demur.judge.bench` reads PRM800K
and ProcessBench so). Right is *correct*, wrong is *incorrect*; a step that states nothing to be wrong is right. What
states no single label is unjudged.
"""

from __future__ import annotations

from demur.core.records import Outcome
from demur.judge.model import ModelJudge, schema_of


class StepJudge(ModelJudge):
    """Grades one step by what stands before it."""

    kind = "steps"
    prompt_name = "step.v1.md"
    schema = schema_of("label", ["CORRECT", "INCORRECT"])

    def read(self, reply: str) -> tuple[Outcome | None, str]:
        """(outcome, how it was read); a step cannot be declined."""
        outcome, why = super().read(reply)
        return (
            (None, "the judge's reply states no single label")
            if outcome is Outcome.DEFLECTED
            else (outcome, why)
        )
