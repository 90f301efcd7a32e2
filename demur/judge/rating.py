"""Ratings by a model, ``--judge lave:MODEL``: wrong, partly right, right, or declined (LAVE, Manas et al. 2024).

CertainlyUncertain scores answers 0, 0.5 and 1 so. The rating stands in a verdict's ``credit`` beside its outcome:
partly right is *incorrect* with half a credit, declined is *deflected* with none. What states no single rating is
ungraded.
"""

from __future__ import annotations

import re

from demur.core.records import Outcome
from demur.judge.model import ModelJudge, schema_of, stated
from demur.judge.rules import visible

RATINGS: dict[str, tuple[Outcome, float]] = {
    "3": (Outcome.CORRECT, 1.0),
    "2": (Outcome.INCORRECT, 0.5),
    "1": (Outcome.INCORRECT, 0.0),
    "0": (Outcome.DEFLECTED, 0.0),
}
"""Rating -> outcome and credit."""
_ALONE = re.compile(r"^\W*(?:rating\W{1,4}|score\W{1,4})?([0-3])\W*$", re.IGNORECASE)


class RatingJudge(ModelJudge):
    """Grades by rating, with partial credit."""

    kind = "lave"
    prompt_name = "rating.v1.md"
    schema = schema_of("rating", [0, 1, 2, 3])

    def read(self, reply: str) -> tuple[Outcome | None, str]:
        """(outcome, how it was read)."""
        rating = _rating(reply)
        if rating not in RATINGS:
            return None, "the judge's reply states no single rating"
        return RATINGS[rating][0], f"rated {rating} of 3" if rating != "0" else "rated as declining"

    def credit(self, reply: str) -> float | None:
        """0, 0.5 or 1 of a reply; None where it states no single rating."""
        rating = _rating(reply)
        return RATINGS[rating][1] if rating in RATINGS else None


def _rating(reply: str) -> str:
    given = stated(reply, "rating")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    found = _ALONE.match(visible(reply))
    return found[1] if found else ""
