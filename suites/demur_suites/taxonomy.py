"""Categories for suites and reports.

    Uncertainty  why a question cannot be answered from a picture: five kinds under two roots
    CAUSES       why a system answered wrongly, given its evidence (`demur reasoning`)

Source of the first: CertainlyUncertain, section 2.1. The paper defines *extraneous* in three ways; we use the one that
its data follow: the subject of the question cannot be seen.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple


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

Cause = Literal[
    "misread evidence",
    "ignored conflict",
    "parametric override",
    "arithmetic",
    "misperception",
    "unsupported leap",
    "other",
]
CAUSES: dict[Cause, str] = {
    "misread evidence": "it takes its answer from shown evidence that does not say it, or says it of something else",
    "ignored conflict": "shown evidence speaks against its answer, and it passes that over",
    "parametric override": "its answer is in nothing it was shown; it answers from memory, or makes it up",
    "arithmetic": "it has the right figures and calculates wrongly",
    "misperception": "it takes the picture for something else, or sees what is not there",
    "unsupported leap": "a conclusion does not follow from what it found",
    "other": "none of these",
}
"""Why an answer is wrong -> what that means; the judge's prompt says it in these words."""
