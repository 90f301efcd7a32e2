"""Yes or no: what the accepted forms come to, and what an answer says."""

from __future__ import annotations

import re

from demur.answers.text import normalise, readable
from demur.records import AnswerSpec

_YES_NO = re.compile(
    r"(?:^|[.!?:]\s*+|(?<!\s)[^\S\n]*+\n\s*+|\bis\s++)[\"'*]*+(yes|no|true|false|yeah|nope)\b"
    r"(?![ -](?:one|longer|data|information|evidence|mention|other|such|more|way))",
    re.IGNORECASE,
)
SIDES = {"yes": "yes", "yeah": "yes", "true": "yes", "no": "no", "nope": "no", "false": "no"}
"""Words that take a side -> the side."""


def polarity(spec: AnswerSpec) -> str:
    """What the accepted forms come to, "yes" or "no"; "" when they are something else."""
    sides = {
        SIDES.get(normalise(form[0]).split()[0], "") if len(form) == 1 and normalise(form[0]) else ""
        for form in spec.accepted
    }
    opens = [
        re.match(r"\W*(yes|no|true|false)\b\W*(?:$|,)", form[0], re.IGNORECASE)
        for form in spec.accepted
        if len(form) == 1
    ]
    return sides.pop() if len(sides) == 1 and spec.accepted and all(opens) else ""


def polarities(text: str) -> set[str]:
    """The sides that an answer takes: none, one or, when it takes both, two of "yes" and "no".

    A word that opens the text outweighs a single one of the other side further on.
    """
    said = {SIDES[m.group(1).lower()] for m in _YES_NO.finditer(readable(text))}
    first = _YES_NO.match(readable(text).lstrip())
    if first:
        said = {SIDES[first.group(1).lower()]} | ({"yes", "no"} if len(said) == 2 else set())
    return said
