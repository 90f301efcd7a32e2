"""M11: two conventions are both allowed, so that several answers are equally right.

Written by a model, past the three gates of `rewriting`.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import rewritten

NEEDS: frozenset[Need] = frozenset({"model"})
CHANGES = "question"


def apply(given: Given) -> Made:
    """The question, rewritten."""
    return rewritten(given, "rewrite-multiple-correct-answers.v1.md")
