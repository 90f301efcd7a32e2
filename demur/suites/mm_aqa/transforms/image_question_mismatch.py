"""M7: the question asks about something that the picture cannot show.

By a model where there is one; else the question of another item, of another picture and another answer, is put to this
picture: an honest mismatch, since nothing of that question can be seen here.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import gates, rewritten

NEEDS: frozenset[Need] = frozenset({"others"})
CHANGES = "question"
_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "in",
        "on",
        "this",
        "that",
        "is",
        "are",
        "was",
        "were",
        "what",
        "which",
        "who",
        "how",
        "many",
        "does",
        "do",
        "did",
        "by",
        "to",
        "with",
    ]
)


def _content(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower())) - _STOP


def apply(given: Given) -> Made:
    """Another phenomenon's question."""
    if given.rewrite is not None:
        return rewritten(given, "rewrite-image-question-mismatch.v1.md")
    own = _content(given.question)
    found = [
        (question, passed)
        for question, answer in given.others
        if answer not in given.accepted and len(_content(question) & own) * 4 <= len(own)
        and not (passed := gates(given.question, question, given.limit)).refused
    ]  # fmt: skip
    if not found:
        raise Infeasible("no other question is far enough from this one and short enough")
    question, passed = given.random.choice(found)
    return Made(question, given.images, {"length": round(passed.length, 3), "distance": round(passed.distance, 3)})
