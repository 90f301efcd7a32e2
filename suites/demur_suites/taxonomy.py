"""Why a question cannot be answered from a picture: five kinds under two roots.

Source: CertainlyUncertain, section 2.1. The paper defines *extraneous* in three ways; we use the one that
its data follow: the subject of the question cannot be seen.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Root(StrEnum):
    """Whether more knowledge would help."""

    EPISTEMIC = "epistemic"
    """It would: the answerer does not know, or cannot see, something."""
    ALEATORIC = "aleatoric"
    """It would not: the question itself is open."""


class Uncertainty(StrEnum):
    """The five kinds."""

    KNOWLEDGE = "knowledge"
    COMPLEXITY = "complexity"
    EXTRANEOUS = "extraneous"
    TEMPORAL = "temporal"
    AMBIGUITY = "ambiguity"

    @classmethod
    def _missing_(cls, value: object) -> Uncertainty | None:
        return {"complex": cls.COMPLEXITY, "ambiguous": cls.AMBIGUITY}.get(
            str(value).strip().lower()
        )


class Meaning(NamedTuple):
    """A kind's root and what it means."""

    root: Root
    text: str


MEANING = {
    Uncertainty.KNOWLEDGE: Meaning(Root.EPISTEMIC, "needs facts that the picture does not hold"),
    Uncertainty.COMPLEXITY: Meaning(
        Root.EPISTEMIC, "could be worked out in principle, but is too much to work out"
    ),
    Uncertainty.EXTRANEOUS: Meaning(
        Root.EPISTEMIC, "asks about something that cannot be seen in the picture"
    ),
    Uncertainty.TEMPORAL: Meaning(
        Root.ALEATORIC, "asks what happened before or will happen after the picture"
    ),
    Uncertainty.AMBIGUITY: Meaning(
        Root.ALEATORIC, "can be understood in several ways, with several answers"
    ),
}
