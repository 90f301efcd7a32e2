"""A gate or monitor as a recipe describes it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from demur.core.records import Record
from demur.curation.gates.funnel import Stage


class GateSpec(Record):
    """A model that takes part in curation."""

    system: str
    """A system by name: ``prior``, ``reader``, ``model:openai/gpt-4o`` ..."""
    name: str = ""
    """What to call it; its system id when left empty."""
    stages: tuple[Stage, ...] = tuple(Stage)
    """Where it is asked: parametric, solvable, distractor."""
    cost: float = Field(default=1.0, ge=0)
    """Of one answer, in any one unit; decides with what a gate has settled so far who is asked first."""
    condition: str = "none"
    """How it is prompted. ``none`` makes it try: a gate that deflects tells nothing about what it knows."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Sampling and layout of a model: temperature, max_tokens, images ..."""

    @property
    def id(self) -> str:
        """What it is called."""
        return self.name or self.system
