"""``steps:MODEL``: is this step of a train of thought right? `demur judge bench` measures it on people's labels.

A step is given as the answer, the problem and the steps before it as the question (`demur.judge.bench` reads PRM800K
and ProcessBench so). Right is *correct*, wrong is *incorrect*; a step that states nothing to be wrong is right. What
states no single label is ungraded.
"""

from __future__ import annotations

import json
from typing import Any

from demur.core.records import Outcome
from demur.judge.model import ModelJudge
from demur.judge.parse import parse
from demur.judge.rules import visible

_LABELS = {"CORRECT": Outcome.CORRECT, "INCORRECT": Outcome.INCORRECT}


class StepJudge(ModelJudge):
    """Grades one step by what stands before it."""

    kind = "steps"
    prompt_name = "step.v1.md"
    schema: dict[str, Any] = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {"label": {"type": "string", "enum": [*_LABELS]}},
        "required": ["label"],
        "additionalProperties": False,
    }

    def read(self, reply: str) -> tuple[Outcome | None, str]:
        """(outcome, how it was read); a step cannot be declined."""
        text = visible(reply)
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            given = None
        label = given.get("label") if isinstance(given, dict) else None
        outcome = _LABELS.get(label) if isinstance(label, str) else parse(text)
        if outcome is Outcome.DEFLECTED:
            outcome = None
        return outcome, "the judge's label" if outcome else "the judge's reply states no single label"
