"""M7: the question asks about something that the picture cannot show.

By a model where there is one; else the question of another item is put to this picture. It shares no word with this
one's: what asks about "this flag" as well could be answered from the flag that is here.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import gates, rewritten

NEEDS: frozenset[Need] = frozenset({"others"})
CHANGES = "question"
_STOP = frozenset(re.findall(
    r"\w+",
    "the and this that these those its are was were has have had what which who whose how many much does did with for "
    "from into name one shown following given below above based image images figure picture answer",
))  # fmt: skip
"""Words that say nothing of what a question is about."""


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
        if answer not in given.accepted and not _content(question) & own
        and not (passed := gates(given.question, question, given.limit)).refused
    ]  # fmt: skip
    if not found:
        raise Infeasible("no other question is far enough from this one and short enough")
    question, passed = given.random.choice(found)
    return Made(question, given.images, {"length": round(passed.length, 3), "distance": round(passed.distance, 3)})
