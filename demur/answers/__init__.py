"""Does this text hold that answer, and is this reply that answer as a whole?

* `normalise`: text made comparable.
* `holds`: whether a passage contains the answer. Generous, because a distractor must not contain it.

It compares by the kind of answer: whole words ("UK" is not in "Ukraine"), numbers by value and unit (5,730 m = 5.73 km,
and 2 is not in 26), dates by day, month and year (1975-07-12 = July 12, 1975), several parts all together. A text that
reads as a number or a date is treated as one. If the question is given too, a small bare number must count what the
question asks for (`demur.answers.counts`).

What the judge's exact step (`demur.judge.exact`) compares stands here too: `reply` (what of a reply is its answer),
`amounts`, `whens`, `formulas`, `notation`, and the words of other languages from CLDR (`cldr`).
"""

from __future__ import annotations

from demur.answers.match import holds
from demur.answers.text import normalise

__all__ = ["holds", "normalise"]
