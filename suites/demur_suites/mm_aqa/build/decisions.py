"""The decisions of a build, one line of ``decisions.jsonl`` a pair: every score, attempt and vote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from demur.core.records import AnswerSpec, ImageRef, Record
from demur.core.store import Problems, read_records
from demur_suites.mm_aqa.build.verifying import Vote, consensus
from demur_suites.mm_aqa.items import Subset

DECISIONS = "decisions.jsonl"
Status = Literal["accepted", "unchecked", "human", "rejected", "failed"]
"""accepted: by the panel. unchecked: there is no panel. human: the panel disagrees. rejected: no twin. failed: by an
error, and made again by the next build."""


class Attempt(Record):
    """One transformation that was tried.

    Attributes:
        transform: its name.
        turn: 0 first; one more after each twin that the panel rejected.
        why: why it is not the twin; "" where it is.
        verifier: the vote of the self-verification.
        panel: the two votes of the consensus.
        question: of a twin that the panel saw.
        images: of the same.
    """

    transform: str
    turn: int
    why: str = ""
    verifier: Vote | None = None
    panel: tuple[Vote, ...] = ()
    question: str = ""
    images: tuple[ImageRef, ...] = ()

    @property
    def consensus(self) -> str:
        """What the panel came to; "" where it was not asked."""
        return consensus(*self.panel) if self.panel else ""


class Decision(Record):
    """A line of ``decisions.jsonl``: one pair, and how its twin came about.

    Attributes:
        pair: id of the question.
        status: see `Status`.
        first: the transformation that was chosen first, for the balance of the set.
        ranking: (transformation, score) of all that were rated, the eligible ones first.
        attempts: in their order.
        transform: of the twin; "" where there is none.
        question: of the twin.
        images: of the twin.
        params: of the twin.
        told: why this transformation was chosen, or why there is no twin.
    """

    pair: str
    subset: Subset
    status: Status
    source_question: str
    answers: AnswerSpec
    source_images: tuple[ImageRef, ...] = ()
    first: str = ""
    ranking: tuple[tuple[str, float], ...] = ()
    attempts: tuple[Attempt, ...] = ()
    transform: str = ""
    question: str = ""
    images: tuple[ImageRef, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)
    told: tuple[str, ...] = ()
    topic: str = ""
    licence: str = ""

    @property
    def line(self) -> dict[str, Any]:
        """What is filed."""
        return self.model_dump(mode="json", exclude_defaults=True)


def read_decisions(out: Path) -> dict[str, Decision]:
    """Pair -> the decision on it, so far; pairs that failed are made again."""
    path = out / DECISIONS
    rows = read_records(path, Decision, Problems()) if path.is_file() else ()
    return {row.pair: row for row in rows if row.status != "failed"}
