"""Does this text hold that answer? Asked by mining (a passage) and by judging (a candidate answer).

* `normalise`: text made comparable.
* `holds`: the answer stands somewhere in the text. For passages: generous where a distractor must not hold it.
* `matches`: the text, read as somebody's answer, is right; with which form, and why.

Both know what kind of answer it is. Words match as whole words ("UK" is not in "Ukraine"), numbers by value and unit
(5,730 m = 5.73 km, and 2 is not in 26), dates by what they say (1975-07-12 = July 12, 1975), several parts must all
be there. An answer that is written as text but reads as a number or a date is treated as one. Where the question is
given too, a small bare number must be one of what it asks for (`demur.answers.counts`).
"""

from __future__ import annotations

from demur.answers.match import Match, holds, matches
from demur.answers.text import normalise

__all__ = ["Match", "holds", "matches", "normalise"]
