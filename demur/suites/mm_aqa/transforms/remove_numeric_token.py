"""D4: numbers are erased from the evidence pages (95 % of them), and 60 % of the other words at random.

Numbers and words of the right answer are always among them. What surrounds them stays as it is.
"""

from __future__ import annotations

import math

from demur.suites.mm_aqa.transforms import Given, Made, Need
from demur.suites.mm_aqa.transforms.drawing import erased
from demur.suites.mm_aqa.transforms.tokens import drawn, read_pages, split

NEEDS: frozenset[Need] = frozenset({"page", "numbers"})
CHANGES = "image"
NUMBERS, WORDS = 0.95, 0.60


def apply(given: Given) -> Made:
    """Each page without its numbers."""
    words_share = min(1.0, WORDS * given.strength)
    made, gone, all_numbers, lost, all_words = [], 0, 0, 0, 0
    for image, words in zip(given.images, read_pages(given), strict=True):
        numbers, others = split(words)
        answer = [w for w in words if given.in_answer(w)]
        least = math.ceil(NUMBERS * len(numbers))
        away = {
            *answer,
            *given.random.sample(numbers, min(least, len(numbers))),
            *drawn(others, words_share, given.random),
        }
        made.append(erased(image, [w for w in words if w in away]))
        gone, all_numbers = gone + sum(w in away for w in numbers), all_numbers + len(numbers)
        lost, all_words = lost + sum(w in away for w in others), all_words + len(others)
    shares = {"numbers_removed": gone / all_numbers, "words_removed": lost / all_words if all_words else 0.0}
    return Made(given.question, tuple(made), shares)
