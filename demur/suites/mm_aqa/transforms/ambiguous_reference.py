"""M12: the question points to made-up parts of the same domain, which nothing in the picture singles out.

Written by a model, past the three gates of `rewriting`.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import rewritten

NEEDS: frozenset[Need] = frozenset({"model"})
CHANGES = "question"


def apply(given: Given) -> Made:
    """The question, rewritten."""
    return rewritten(given, "rewrite-ambiguous-reference.v1.md")
