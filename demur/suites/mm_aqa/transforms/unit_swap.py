"""A 23rd, on request: the question asks for the value in a unit that no page of the document can give.

A currency becomes another one, whose rate stands nowhere; a unit of one kind becomes one of another kind (metres ->
kilograms), which no conversion reaches. Where the question names no unit, that of the answer is taken and the other one
is asked for at its end. Needs no model. Source: section 4 names unit and currency swaps, the catalogue has none.
"""

from __future__ import annotations

import re

from demur.suites.mm_aqa.transforms import Given, Infeasible, Made, Need

NEEDS: frozenset[Need] = frozenset({"answer", "units"})
CHANGES = "question"
UNITS: dict[str, tuple[str, ...]] = {
    "length": ("metres", "meters", "kilometres", "kilometers", "miles", "feet", "km", "m", "ft"),
    "area": ("square kilometres", "square kilometers", "sq km", "km2", "hectares", "acres"),
    "mass": ("kilograms", "tonnes", "tons", "pounds", "kg"),
    "volume": ("litres", "liters", "cubic metres", "barrels", "gallons"),
    "time": ("years", "days", "hours", "minutes"),
    "currency": ("US dollars", "dollars", "USD", "euros", "EUR", "yen", "pounds sterling", "$", "\u20ac", "\u00a3"),
}
ASKED = {"length": "kilograms", "area": "litres", "mass": "metres", "volume": "hours", "time": "kilograms",
         "currency": "Swiss francs"}  # fmt: skip
"""Kind of unit -> the unit that is asked for in its place; never one of its own kind, but for money."""


def _pattern(bare: bool) -> re.Pattern[str]:
    names = sorted((u for several in UNITS.values() for u in several if bare or len(u) > 2), key=len, reverse=True)
    return re.compile(
        "|".join(rf"(?<!\w){re.escape(u)}" + (r"(?!\w)" if u[-1].isalnum() else "") for u in names), re.IGNORECASE
    )


_KIND = {unit.lower(): kind for kind, several in UNITS.items() for unit in several}
LONG, ANY = _pattern(False), _pattern(True)


def unit_of(question: str, accepted: tuple[str, ...]) -> tuple[str, str] | None:
    """(unit, kind) that a question names, else the one behind a number of its answer; None without any.

    >>> unit_of("How high is it, in metres?", ("1,200",)), unit_of("How high is it?", ("1,200 m",))
    (('metres', 'length'), ('m', 'length'))
    """
    found = LONG.search(question)
    if found is None:
        found = next((m for form in accepted if any(c.isdigit() for c in form) and (m := ANY.search(form))), None)
    return None if found is None else (found[0], _KIND[found[0].lower()])


def apply(given: Given) -> Made:
    """The question with another unit."""
    found = unit_of(given.question, given.accepted)
    if found is None:
        raise Infeasible("neither the question nor its answer names a unit")
    unit, kind = found
    asked = ASKED[kind]
    if re.search(rf"(?<!\w){re.escape(unit)}(?!\w)", given.question):
        question = re.sub(rf"(?<!\w){re.escape(unit)}(?!\w)", asked, given.question)
    else:
        question = f"{given.question.rstrip(' ?.')}, in {asked}?"
    return Made(question, given.images, {"unit": unit, "asked_in": asked, "kind": kind})
