"""What only people know about a benchmark: the ``card`` of a recipe, for its dataset card and its Croissant metadata.

Everything else that a reader or a venue asks (where the data come from, how they were curated, which models took part,
what is known to be wrong) is in the manifest, and `demur.release.responsible_ai` says it from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from pydantic import Field, field_validator

from demur.core.records import Record

DATE = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"


class CardFacts(Record):
    """A recipe's ``card``; what is empty is unknown, and `demur release verify --submission` asks for it."""

    url: str = Field(default="", pattern=r"^$|^https?://\S+$")
    """Where the benchmark can be had: its page or repository."""
    language: tuple[str, ...] = ()
    """Languages of the questions, as BCP 47 codes: ``en``, ``pt-BR``."""
    published: str = Field(default="", pattern=rf"^$|{DATE}")
    """Day of publication, ``YYYY-MM-DD``; "" is the day on which the build began."""
    canary: str = Field(default="", pattern=r"^$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
    """The canary of an earlier version whose sources were others; "" is made from name and sources."""
    annotation: str = ""
    """Who checked or labelled items beside the gates, how many people an item had, and how far they agreed; or that
    nobody did."""
    biases: str = ""
    """Which people, places, languages or kinds of question are over- or under-represented."""
    social_impact: str = ""
    """What good and what harm its use may do, and how the harm is kept small."""
    sensitive: str = ""
    """Which personal or sensitive information its texts and pictures hold, or that they hold none."""
    synthetic: bool | None = None
    """Whether questions, answers or evidence were written or drawn by a model."""
    maintenance: str = ""
    """Who maintains it and how errors are reported."""
    uses: str = ""
    """Uses beside evaluation that were tried or are advised against."""

    @field_validator("published", mode="before")
    @classmethod
    def _day_of_yaml(cls, value: Any) -> Any:
        """YAML reads a day without quotes as a date."""
        return value.isoformat() if isinstance(value, date) else value


def facts_of(manifest: Mapping[str, Any]) -> CardFacts:
    """The facts in a release's manifest.

    Raises:
        ValueError: they are malformed.
    """
    return CardFacts.model_validate(manifest.get("card") or {})


def missing_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys of a recipe that a submission needs and a release lacks, each with what it should say."""
    facts = facts_of(manifest)
    for name in REQUIRED:
        if getattr(facts, name) in ("", (), None):
            yield f"card.{name}", QUESTIONS[name]
    if list(manifest.get("authors") or ()) in ([], [NOBODY]):
        yield "authors", "the names of those who made it"


NOBODY = "The makers of this release"
"""Author of a release whose recipe names none."""
REQUIRED = (
    "url",
    "language",
    "annotation",
    "biases",
    "social_impact",
    "sensitive",
    "synthetic",
    "maintenance",
)
"""Facts that venues ask for and no file holds (NeurIPS 2026, Evaluations and Datasets: Croissant with RAI fields)."""
QUESTIONS = {
    "url": "where the benchmark can be had",
    "language": "the languages of the questions, as [en]",
    "annotation": "who checked items beside the gates, how many people an item had, how far they agreed; or that nobody did",
    "biases": "which people, places, languages or kinds of question are over- or under-represented",
    "social_impact": "what good and what harm its use may do",
    "sensitive": "which personal or sensitive information it holds, or that it holds none",
    "synthetic": "true or false: whether a model wrote or drew questions, answers or evidence",
    "maintenance": "who maintains it, and how errors are reported",
}
