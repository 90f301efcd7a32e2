"""Which thing in a photo is a question about? A label that it names.

A question about whether something is there is about no thing: it is answered without it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PRESENCE = re.compile(
    r"^\W*(?:(?:is|are|was|were) there|(?:do|can) you see|does (?:the|this) (?:photo|picture|image) show)\b",
    re.IGNORECASE,
)
"""Asks whether something is there."""


def stems(text: str) -> set[str]:
    """Words without the s of a plural."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return {w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in words}


def holds_answer(question: str, answer: str, but: set[str]) -> bool:
    """Whether the words of an answer, ``but`` some that say nothing, all stand in the question, which offers no choice."""
    words = {s for s in stems(answer) if len(s) > 2} - but
    return (
        bool(words)
        and words <= stems(question)
        and not re.search(r"\bor\b", question, re.IGNORECASE)
    )


def salient(question: str, answer: str, labels: Sequence[str]) -> str | None:
    """The thing that a question is about: the longest label that it names, else one that its answer names.

    >>> salient("What colour is the old car?", "red", ["car", "old car"]), salient("Is there a car?", "yes", ["car"])
    ('old car', None)
    """
    if PRESENCE.search(question):
        return None
    for text in (question, answer):
        named_there = [label for label in labels if stems(label) <= stems(text)]
        if named_there:
            return max(named_there, key=len)
    return None
