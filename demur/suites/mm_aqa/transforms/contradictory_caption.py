"""D7: a note at the end of the question contradicts what the pages say; the pages stay as they are.

By a model where there is one; else the note claims another value for the same thing: the number 20 to 50 % off, or the
answer of another question of its kind.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import gates
from demur.suites.mm_aqa.transforms.tokens import other_value

NEEDS: frozenset[Need] = frozenset({"page", "answer"})
CHANGES = "question"
LONGEST = 160
"""Characters that a note may have."""


def _rival(given: Given) -> str:
    for form in given.accepted:
        if number := other_value(form, given.random):
            return number[0]
    skeleton = re.sub(r"\W+", " ", given.question.lower()).split()[:4]
    alike = [
        answer for question, answer in given.others
        if answer not in given.accepted and re.sub(r"\W+", " ", question.lower()).split()[:4] == skeleton
    ]  # fmt: skip
    if not alike:
        raise Infeasible("no other value for this answer is at hand, and there is no model to write one")
    return given.random.choice(alike)


def apply(given: Given) -> Made:
    """The question with its note."""
    if given.rewrite is not None:
        told = {"question": given.question, "answer": given.answers.shown}
        note = " ".join(given.rewrite("rewrite-contradictory-caption.v1.md", told).split()).strip('"')
        note = note.removeprefix("Note:").strip()
    else:
        note = f"a later edition of this document gives {_rival(given)} here and withdraws the value above."
    if not note or len(note) > LONGEST:
        raise Infeasible(f"the note has {len(note)} characters, 1 to {LONGEST} are allowed")
    question = f"{given.question} Note: {note}"
    found = gates(given.question, question, 1 + (LONGEST + 8) / len(given.question))
    if found.refused:
        raise Infeasible(f"the note did not pass: {found.refused}")
    return Made(question, given.images, {"note": note, "distance": round(found.distance, 3)})
