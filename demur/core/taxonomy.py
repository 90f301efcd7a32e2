"""Why a question cannot be answered from a picture: five kinds under two roots, as data for suites and reports.

Source: CertainlyUncertain, section 2.1. The paper words *extraneous* in three ways; taken is the one its data follow:
what the question is about cannot be seen.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Root(StrEnum):
    """Whether more knowledge would help."""

    EPISTEMIC = "epistemic"
    """It would: something is not known, or not seen, by whoever answers."""
    ALEATORIC = "aleatoric"
    """It would not: the matter itself is open."""


class Uncertainty(StrEnum):
    """The five kinds."""

    KNOWLEDGE = "knowledge"
    COMPLEXITY = "complexity"
    EXTRANEOUS = "extraneous"
    TEMPORAL = "temporal"
    AMBIGUITY = "ambiguity"

    @property
    def root(self) -> Root:
        """Epistemic or aleatoric."""
        return MEANING[self].root

    @classmethod
    def _missing_(cls, value: object) -> Uncertainty | None:
        return {"complex": cls.COMPLEXITY, "ambiguous": cls.AMBIGUITY}.get(str(value).strip().lower())


class Meaning(NamedTuple):
    """A kind's root and what it means."""

    root: Root
    text: str


MEANING = {
    Uncertainty.KNOWLEDGE: Meaning(Root.EPISTEMIC, "needs facts that the picture does not hold"),
    Uncertainty.COMPLEXITY: Meaning(Root.EPISTEMIC, "could be worked out in principle, but is too much to work out"),
    Uncertainty.EXTRANEOUS: Meaning(Root.EPISTEMIC, "asks about something that cannot be seen in the picture"),
    Uncertainty.TEMPORAL: Meaning(Root.ALEATORIC, "asks what happened before or will happen after the picture"),
    Uncertainty.AMBIGUITY: Meaning(Root.ALEATORIC, "can be understood in several ways, with several answers"),
}
