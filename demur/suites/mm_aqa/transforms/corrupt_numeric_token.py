"""D5: every number that can be is written 20 to 50 % higher or lower, in its own manner; random words are erased.

Numbers that no such change can be written for (a lone 1, a code) are erased, and so are the words of the right answer.
"""

from __future__ import annotations

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.drawing import background, covered, erased, padded, size_in, written
from demur.suites.mm_aqa.transforms.tokens import drawn, other_value, read_pages, split

NEEDS: frozenset[Need] = frozenset({"page", "numbers"})
CHANGES = "image"
WORDS = 0.2


def apply(given: Given) -> Made:
    """Each page with other numbers."""
    made, changes, wiped = [], [], 0
    for image, words in zip(given.images, read_pages(given), strict=True):
        numbers, others = split(words)
        answer = [w for w in others if given.in_answer(w)]
        page = erased(image, [*answer, *drawn(others, min(1.0, WORDS * given.strength), given.random)])
        for word in numbers:
            page = covered(page, [padded(word.box, 1, image.size)], background(image, word.box))
            value = other_value(word.text, given.random)
            if value is None:
                wiped += 1
                continue
            page = written(page, word.box, value[0], size_in(image, word))
            changes.append(round(value[1], 4))
        made.append(page)
    if not changes:
        raise Infeasible("no number on the evidence pages can be changed by 20 to 50 %")
    return Made(given.question, tuple(made), {"changes": changes, "erased_numbers": wiped})
