"""Does this text hold that answer? Mining asks it of passages, judging of candidate answers.

* `normalise`: text made comparable.
* `holds`: whether a passage contains the answer. Generous, because a distractor must not contain it.
* `matches`: whether a system's reply is right, with the accepted form and the reason.

Both compare by the kind of answer: whole words ("UK" is not in "Ukraine"), numbers by value and unit (5,730 m =
5.73 km, and 2 is not in 26), dates by day, month and year (1975-07-12 = July 12, 1975), several parts all together. A
text that reads as a number or a date is treated as one. If the question is given too, a small bare number must count
what the question asks for (`demur.answers.counts`).
"""

from __future__ import annotations

from demur.answers.match import Match, holds, matches
from demur.answers.text import normalise

__all__ = ["Match", "holds", "matches", "normalise"]
