"""``steps:MODEL``: is this step of a train of thought right?

A step is the answer, the problem with the steps before it the question. Right is *correct*, wrong is *incorrect*; a step that states nothing to be wrong is right. What
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
