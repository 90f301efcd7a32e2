"""Ratings by a model, ``--judge lave:MODEL``: wrong, partly right, right, or declined (LAVE, Manas et al. 2024).

CertainlyUncertain scores answers 0, 0.5 and 1 so. The rating stands in a verdict's ``credit`` beside its outcome:
partly right is *incorrect* with half a credit, declined is *deflected* with none. Where declining is right, whoever
declines has the whole credit, and whoever answers has none. What states no single rating is unjudged.
"""

from __future__ import annotations

from demur.core.records import Outcome
from demur.judge.model import ModelJudge, quoted, schema_of, stated_number

RATINGS: dict[int | None, tuple[Outcome, float]] = {
    3: (Outcome.CORRECT, 1.0),
    2: (Outcome.INCORRECT, 0.5),
    1: (Outcome.INCORRECT, 0.0),
    0: (Outcome.DEFLECTED, 0.0),
}
"""Rating -> outcome and credit."""


class RatingJudge(ModelJudge):
    """Grades by rating, with partial credit."""

    kind = "lave"
    prompt_name = "rating.v2.md"
    schema = schema_of("rating", [0, 1, 2, 3])

    def read(self, reply: str) -> tuple[Outcome | None, str]:
        """(outcome, how it was read)."""
        rating = stated_number(reply, "rating")
        if rating not in RATINGS:
            return None, f"the judge's reply states no single rating{quoted(reply)}"
        return RATINGS[rating][0], f"rated {rating} of 3" if rating else "rated as declining"

    def is_whole(self, reply: str) -> bool:
        """Whether a reply is a rating and nothing else; only such a one is read."""
        return stated_number(reply, "rating") is not None

    def credit(self, reply: str) -> float | None:
        """0, 0.5 or 1 of a reply; None where it states no single rating."""
        rating = stated_number(reply, "rating")
        return RATINGS[rating][1] if rating in RATINGS else None
