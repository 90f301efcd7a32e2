"""Rewriting a question: one call to a model, and three gates on its reply; M8 to M13 are no more than that.

length      at most 120 % of the question (an appended note has a limit of its own)
meaning     the sentence embeddings of both differ; without an encoder (`demur.suites.mm_aqa.build`), their words do
grammar     one question or request, by rules: a parser is no dependency of demur
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need

LEAST_DISTANCE = 0.05
"""1 - cosine of sentence embeddings, or of bags of words."""
_OPENS = re.compile(
    r"^\W*(?:(?:since|because|although|though|while|whereas|as|despite|even|once|unless)\b[^,?]+, )?"
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|has|have|had|will|"
    r"would|should|in|on|at|of|by|from|for|with|to|if|given|according|based|assum\w+|consider\w*|find|name|list|give|"
    r"state|describe|explain|identify|calculate|compute|determine|estimate|measure|compare|count|tell|using|the|this|"
    r"an?|between|among|after|before|suppose|let|refer\w*|<image)\b",
    re.IGNORECASE,
)
_LEFTOVER = re.compile(r"\$\w|\{\w+\}|^\s*(?:here is|sure|rewritten|question:|output)|\n\s*\n.*\n\s*\n", re.IGNORECASE)


class Gates(NamedTuple):
    """Measurements of the three gates, and the refusal; "" when the question passes all."""

    length: float
    distance: float
    refused: str


def gates(before: str, after: str, limit: float, similar: float | None = None) -> Gates:
    """Check a rewritten question.

    Args:
        before: the question.
        after: the rewritten one.
        limit: its greatest length, over the question's length.
        similar: cosine of their embeddings; None without an encoder.

    >>> gates("What is it?", "What is it?", 1.2).refused
    'meaning: as before'
    """
    length = len(after) / max(len(before), 1)
    if similar is None:
        one, other = set(re.findall(r"\w+", before.lower())), set(re.findall(r"\w+", after.lower()))
        similar = len(one & other) / max((len(one) * len(other)) ** 0.5, 1e-9)
    distance = 1 - similar
    refused = ""
    if not after.strip():
        refused = "empty"
    elif length > limit + 1e-9:
        refused = f"length: {length:.0%} of the question, at most {limit:.0%}"
    elif " ".join(before.split()).casefold() == " ".join(after.split()).casefold():
        refused = "meaning: as before"
    elif distance < LEAST_DISTANCE:
        refused = f"meaning: {distance:.3f} from the question, at least {LEAST_DISTANCE}"
    elif why := ungrammatical(after):
        refused = f"grammar: {why}"
    return Gates(length, distance, refused)


def ungrammatical(text: str) -> str:
    """Why a text is no one question or request, by rules; "" when it may be.

    >>> ungrammatical("Yellow bananas are sweet."), ungrammatical("Which bird is shown?")
    ('begins as no question or request does', '')
    """
    words = re.findall(r"\w+", text)
    if len(words) < 3:
        return "fewer than three words"
    if _LEFTOVER.search(text):
        return "holds what is no question"
    if any(text.count(a) != text.count(b) for a, b in ("()", "[]", "\u201c\u201d")):
        return "a bracket is not closed"
    if not text.rstrip(' "\u201d)').endswith(("?", ".", "]", "!", ":")):
        return "does not end"
    if not any(_OPENS.match(s) for s in re.split(r"(?<=[.!?])\s+", text)):
        return "begins as no question or request does"
    if any(a.lower() == b.lower() and a.lower() not in ("that", "had") for a, b in pairwise(words)):
        return "a word stands twice in a row"
    return ""


def rewritten(given: Given, prompt: str) -> Made:
    """The question as a model rewrites it, past the gates; `Infeasible` where there is no model or it does not pass."""
    if given.rewrite is None:
        raise Infeasible("needs a model that rewrites")
    reply = given.rewrite(prompt, {"question": given.question, "answer": given.answers.shown})
    after = re.sub(r"^\W*(?:rewritten )?question\W*:\s*", "", reply.strip(), flags=re.IGNORECASE)
    after = after.strip('"\u201c\u201d \n')
    near = None if given.similar is None or not after else given.similar(given.question, after)
    found = gates(given.question, after, given.limit, near)
    if found.refused:
        raise Infeasible(f"the rewritten question did not pass: {found.refused}")
    return Made(after, given.images, {"length": round(found.length, 3), "distance": round(found.distance, 3)})


class Rewrite:
    """A transformation that is one rewriting by a model, past the gates."""

    NEEDS: ClassVar[frozenset[Need]] = frozenset({"model"})
    CHANGES: ClassVar[Literal["question"]] = "question"

    def __init__(self, name: str) -> None:
        self._prompt = f"rewrite-{name}.v1.md"

    def apply(self, given: Given) -> Made:
        """The question, rewritten."""
        return rewritten(given, self._prompt)


REWRITES = {
    name: Rewrite(name)
    for name in (
        "missing-context",  # M8: it needs something to compare with that the picture does not hold
        "impossible-visual-task",  # M9: it asks for a measure, a hidden property or a detail finer than the pixels
        "nonexistent-reference",  # M10: it is about a particular thing that is not in the picture
        "multiple-correct-answers",  # M11: it allows two conventions, so that several answers are right
        "ambiguous-reference",  # M12: it points to made-up parts that the picture does not single out
        "contradictory-premise",  # M13: a premise is added that contradicts what is given
    )
}
