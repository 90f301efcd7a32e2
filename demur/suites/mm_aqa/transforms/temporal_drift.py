"""D9: the time that the question asks about is moved to after all that the document covers (FY2015 -> FY2031).

The last year of the pages and of the question is taken, and 5 to 16 years are added. Needs no model, but where the
question names another time than a year (Q3, last March): that is moved by whoever rewrites.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need
from demur.suites.mm_aqa.transforms.rewriting import rewritten

NEEDS: frozenset[Need] = frozenset({"dates"})
CHANGES = "question"
YEAR = re.compile(r"(?<!\d)(?P<fy>FY ?)?(?P<year>(?:1[5-9]|20)\d\d)(?!\d)")


def years(text: str) -> list[int]:
    """The years that stand in a text, 1500 to 2099.

    >>> years("In FY2015 and 1998, 12015 items")
    [2015, 1998]
    """
    return [int(m["year"]) for m in YEAR.finditer(text)]


def apply(given: Given) -> Made:
    """The question of a later year; several years keep their distances."""
    asked = years(given.question)
    if not asked and given.rewrite is not None:
        return rewritten(given, "rewrite-temporal-drift.v1.md")
    if not asked:
        raise Infeasible("the question names no year")
    pages = [y for image in given.images for word in given.words(image) for y in years(word.text)]
    last = max([*asked, *(y for y in pages if y <= 2099)])
    shift = last - min(asked) + given.random.randint(5, 16)
    question = YEAR.sub(lambda m: f"{m['fy'] or ''}{int(m['year']) + shift}", given.question)
    return Made(question, given.images, {"covers_until": last, "asks_for": sorted(y + shift for y in asked)})
