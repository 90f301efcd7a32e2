"""M10: the question is about a particular thing that is not in the picture.

Written by a model, past the three gates of `rewriting`.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import rewritten

NEEDS: frozenset[Need] = frozenset({"model"})
CHANGES = "question"


def apply(given: Given) -> Made:
    """The question, rewritten."""
    return rewritten(given, "rewrite-nonexistent-reference.v1.md")
