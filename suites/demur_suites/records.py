"""What passes between a suite and those who run, score and show it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from demur.core.records import Outcome, Response, Sample, Status

I = TypeVar("I")  # noqa: E741 - an item of a suite

Outputs = Mapping[str, Mapping[str, Response]]
"""Model -> question id -> reply."""


class Loaded(NamedTuple, Generic[I]):
    """What was read from a path.

    Attributes:
        items: the suite's records.
        root: folder that image paths are relative to.
        outputs: replies of models, where the same files hold them.
        notes: harmless peculiarities, with how often each occurs.
        skipped: bad items that were left out.
    """

    items: tuple[I, ...]
    root: Path
    outputs: Outputs = MappingProxyType({})
    notes: Mapping[str, int] = MappingProxyType({})
    skipped: int = 0


class Grade(NamedTuple):
    """What a suite says of one reply.

    Attributes:
        status: graded; failed of a reply that is none; unjudged where nobody could tell.
        outcome: of a graded reply.
        reason: how it was graded, or why not.
        reading: what the suite's measures need of the reply beside that (a label, a credit); any type.
    """

    status: Status
    outcome: Outcome | None
    reason: str
    reading: Any = None


class Scored(NamedTuple):
    """One question, what a system replied and how that was graded: tables, rows, comparisons and pages read these."""

    question: Sample
    response: Response | None = None
    grade: Grade | None = None
    """None of a question that was not asked, as is the response."""

    @property
    def right(self) -> bool:
        """Whether the reply is right: a correct answer, or declining where nothing answers the question."""
        wanted = Outcome.CORRECT if self.question.answerable else Outcome.DEFLECTED
        return self.grade is not None and self.grade.outcome is wanted


Grader = Callable[[Response, Sample], Awaitable[Grade]]
