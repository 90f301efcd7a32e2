"""Systems that read nothing: each goes by one shallow feature of what it is shown, and answers where that is high.

"Answer if a picture is shown, else decline" was right in all four scenarios while the distractors that a source ships
kept the order of its file (texts before pictures): the only picture among gold and two distractors was gold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from demur.core.records import Sample
from demur.scenarios.contexts import context, recipe

Piece = Mapping[str, Any]
DECLINES = "I do not know."


def _words(piece: Piece) -> int:
    return len((piece["text"] or "").split())


def picture(question: str, evidence: Sequence[Piece]) -> float:
    """Whether a picture is shown."""
    return any(piece["image"] is not None for piece in evidence)


def text(question: str, evidence: Sequence[Piece]) -> float:
    """Whether a text is shown."""
    return any(piece["image"] is None for piece in evidence)


def longest(question: str, evidence: Sequence[Piece]) -> float:
    """Words of the longest text."""
    return max(map(_words, evidence), default=0)


def usual_length(question: str, evidence: Sequence[Piece]) -> float:
    """Mean words of the pieces."""
    return sum(map(_words, evidence)) / max(len(evidence), 1)


def first(question: str, evidence: Sequence[Piece]) -> float:
    """Words of the first piece; a picture has none."""
    return _words(evidence[0]) if evidence else -1


def last(question: str, evidence: Sequence[Piece]) -> float:
    """Words of the last piece."""
    return _words(evidence[-1]) if evidence else -1


def title(question: str, evidence: Sequence[Piece]) -> float:
    """Whether the question has the title of a piece in it."""
    return any(piece["title"] and piece["title"] in question for piece in evidence)


def origin(question: str, evidence: Sequence[Piece]) -> float:
    """The share of pieces whose id is that of a passage that was cut."""
    return sum("#" in piece["id"] for piece in evidence) / max(len(evidence), 1)


def pieces(question: str, evidence: Sequence[Piece]) -> float:
    """How many pieces are shown."""
    return len(evidence)


def pictures(question: str, evidence: Sequence[Piece]) -> float:
    """How many pictures are shown."""
    return sum(piece["image"] is not None for piece in evidence)


KINDS = (picture, text)
"""What says nothing at all of whether gold is there."""
SISTERS = (usual_length, first, last, title, origin)
"""What should say little."""
BY_NUMBER = (pieces, pictures, longest)
"""What says it by the definition of the scenarios: Realistic shows gold beside the k distractors of Adversarial, and of
more pieces the longest is longer."""


def shown(sample: Sample, scenario: str) -> list[Piece]:
    """The evidence of a sample in a scenario, as a function gets it; pictures are not read."""
    by_id = {e.id: e for e in (*sample.gold, *sample.negatives)}
    pieces = [by_id[id] for id in context(sample, recipe(scenario)).evidence]
    return [{"id": e.id, "title": e.title, "text": e.text, "image": e.image} for e in pieces]


def system(feature: Callable[[str, Sequence[Piece]], float]) -> Callable[..., str]:
    """The feature as a system: answers where it is above 0, else declines."""

    def answer(question: str, evidence: Sequence[Piece]) -> str:
        return "an answer" if feature(question, evidence) > 0 else DECLINES

    answer.__name__ = feature.__name__
    return answer
