"""A candidate answer as a judge's model is shown it. It may be anybody's text, and may try to be its own judge.

cleaned    control, invisible, direction-turning and private characters are taken out; the record keeps the answer
capped     of a long answer its beginning and its end are shown
fenced     it stands between two lines with a mark that is made from its own hash: it cannot hold its own mark
unmasked   lines that imitate a verdict, or give orders to a grader, are replaced by a note, and reported
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from demur.core.store import digest
from demur.core.text import stream_safe

LONGEST = 6_000
"""Characters of an answer that a judge is shown, half from its beginning and half from its end."""
MASKED = "[left out: text that imitates a grader]"
_MARKS = "#*_=>\"'`({[<|~ \t-"
_GRADE = r"(?:grade|verdict|label|judge?ment|score|rating|result|evaluation)"
_LABEL = r"(?:CORRECT|INCORRECT|NOT[ _-]?ATTEMPTED)"
_ANY_CASE = (
    rf"\b{_GRADE}[\"'*]{{0,3}}\s{{0,3}}(?:is|:|=|->|[-\u2013\u2014])\s{{0,3}}[\"'*(\[]{{0,3}}(?:{_LABEL}|[ABC])\b",
    # orders to whoever grades
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instruction|prompt|rule|above|previous|guideline|system)",
    r"\b(?:as|dear|note to|attention|hey) (?:the |a )?(?:grader|judge|evaluator|examiner)\b",
    r"\b(?:grade|mark|label|rate|score|count) (?:this|it|the answer|my answer)\b[^.\n]{0,20}\bcorrect\b",
    # the furniture of chats
    r"<\|[a-z_]{2,20}\|>|</?(?:system|assistant|user|answer|candidate|grade|verdict)>|\[/?INST\]",
    r"^\W{0,5}(?:system|assistant|grader|judge)\s{0,3}:",
)
_FORGED = (
    # a line that is a label, alone or after a word for it
    re.compile(
        rf"^[{re.escape(_MARKS)}]{{0,20}}(?:(?:final |the |my )?{_GRADE}\W{{1,6}})?{_LABEL}\W{{0,10}}$", re.MULTILINE
    ),
    # the judge's own words, in its own capitals, spaced out or not
    re.compile(r"\b(?:I ?N ?)?C ?O ?R ?R ?E ?C ?T\b|\bNOT[ _-]ATTEMPTED\b"),
    *(re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in _ANY_CASE),
)
_LOOKALIKE = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0430\u0435\u043e\u0440\u0441\u0445\u0391\u0392\u0395"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a7\u03bf\u2039\u203a\u3008\u3009\u27e8\u27e9\uff1c\uff1e",
    "ABEKMHOPCTXaeopcxABEHIKMNOPTXo<><><><>",
)
"""Letters and brackets that look like Latin ones, for finding what imitates a grader; the judge sees the answer's."""


class Candidate(NamedTuple):
    """An answer, ready to be shown.

    Attributes:
        text: cleaned, capped, unmasked.
        mark: stands in the lines before and after it, and nowhere in it.
        forged: passages that were replaced.
    """

    text: str
    mark: str
    forged: tuple[str, ...]


def clean(text: str) -> str:
    r"""Text without characters that nobody sees or that turn the writing round; tabs and line ends stay.

    >>> clean("Pa\u200bris\u202e!\x00\n")
    'Paris!\n'
    """
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn"))


def candidate(question: str, text: str) -> Candidate:
    """An answer as a judge is shown it; equal answers to equal questions give equal text."""
    cleaned = clean(text).strip()
    if len(cleaned) > LONGEST:
        half = LONGEST // 2
        cleaned = f"{cleaned[:half]}\n[...]\n{cleaned[-half:]}"
    shown, forged = _unmasked(cleaned)
    number = 0
    while (mark := f"ANSWER-{digest([question, text, number], 16)}") in shown:
        number += 1
    return Candidate(shown, mark, forged)


def _unmasked(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without what imitates a grader, which is looked for in Latin letters."""
    plain = text.translate(_LOOKALIKE)
    wide = unicodedata.normalize("NFKC", stream_safe(plain))
    if len(wide) != len(plain):
        wide = plain  # places must agree; full-width letters are one character each and stay found
    spans = sorted((m.start(), m.end()) for pattern in _FORGED for m in pattern.finditer(wide))
    if not spans:
        return text, ()
    joined: list[tuple[int, int]] = []
    for start, end in spans:  # a flood of labels is one passage: a note for each would be longer than the flood
        if joined and not any(c.isalnum() for c in wide[joined[-1][1] : start]):
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    out, forged, done = [], [], 0
    for start, end in joined:
        out += [text[done:start], MASKED]
        forged.append(text[start:end].strip()[:80])
        done = end
    out.append(text[done:])
    return "".join(out), tuple(forged)
