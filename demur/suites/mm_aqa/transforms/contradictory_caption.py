"""D7: a note at the end of the question contradicts what the pages say; the pages stay as they are.

When it is tried again, since the note was seen through, the pages are blurred mildly too (appendix K.2).

By a model where there is one; else the note claims another value for the same thing: the number 20 to 50 % off, or the
answer of another question of its kind.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.drawing import blurred
from demur.suites.mm_aqa.transforms.rewriting import gates
from demur.suites.mm_aqa.transforms.tokens import other_value

NEEDS: frozenset[Need] = frozenset({"page", "answer"})
CHANGES = "question"
LONGEST = 160
"""Characters that a note may have."""
MILD = 2.0
"""Radius of the blur at strength 2."""


def _words(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


def _states(note: str, given: Given) -> bool:
    """Whether a note states what is right: a small model repeats it as often as it contradicts it."""
    forms = (_words(form) for form in given.accepted)
    return any(f" {form} " in f" {_words(note)} " for form in forms if form and not (len(form) == 1 and form.isalpha()))


def _rival(given: Given) -> str:
    for form in given.accepted:
        if number := other_value(form, given.random):
            return number[0]
    right = [form.casefold() for form in given.accepted]

    def other(answer: str) -> bool:  # "oil" is no rival of "crude oil"
        return not any(form in answer.casefold() or answer.casefold() in form for form in right)

    def kind(question: str) -> list[str]:
        return _words(question).split()[:4]

    alike = [answer for question, answer in given.others if other(answer) and kind(question) == kind(given.question)]
    if not alike:
        raise Infeasible("no other value for this answer is at hand, and there is no model to write one")
    return given.random.choice(alike)


def apply(given: Given) -> Made:
    """The question with its note."""
    if given.rewrite is not None:
        words = {"question": given.question, "answer": given.answers.shown}
        note = " ".join(given.rewrite("rewrite-contradictory-caption.v1.md", words).split()).strip('"')
        note = note.removeprefix("Note:").strip()
        note += "" if not note or note.endswith((".", "!", "?")) else "."
        if _states(note, given):
            raise Infeasible("the note did not pass: it states the right answer")
    else:
        note = f"a later edition of this document gives {_rival(given)} here and withdraws the value above."
    if not note or len(note) > LONGEST:
        raise Infeasible(f"the note has {len(note)} characters, 1 to {LONGEST} are allowed")
    question = f"{given.question} Note: {note}"
    found = gates(given.question, question, 1 + (LONGEST + 8) / len(given.question))
    if found.refused:
        raise Infeasible(f"the note did not pass: {found.refused}")
    soft = MILD * (given.strength - 1)
    images = tuple(blurred(image, soft) for image in given.images) if soft > 0 else given.images
    return Made(question, images, {"note": note, "distance": round(found.distance, 3), "blur": soft})
