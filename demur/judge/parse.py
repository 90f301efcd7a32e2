"""Reading the reply of a model that grades with SimpleQA's three labels.

A published grader takes the first capital A, B or C anywhere in the reply and C when there is none, so that
NOT_ATTEMPTED reads as correct and an outage as an abstention. Here the whole reply is read first, then whole words,
longest first; what says nothing, or two things, is None: the verdict is *ungraded* and counted beside every rate.
"""

from __future__ import annotations

import re

from demur.core.records import Outcome

LETTERS = {"A": Outcome.CORRECT, "B": Outcome.INCORRECT, "C": Outcome.DEFLECTED}
WORDS = {"NOT_ATTEMPTED": Outcome.DEFLECTED, "INCORRECT": Outcome.INCORRECT, "CORRECT": Outcome.CORRECT}
"""Longest first: CORRECT stands inside INCORRECT."""

_WORD = re.compile(r"(?<![A-Z_])(NOT[ _-]ATTEMPTED|INCORRECT|CORRECT)(?![A-Z_])", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:NOT|NEVER|NEITHER|NOR|ISN'T|N'T)\s+(?:\w+\s+)?(?:IN)?CORRECT\b", re.IGNORECASE)
_NAMED = re.compile(
    r"(?:(?:ANSWER|GRADE|VERDICT|LABEL|CHOICE|OPTION|TARGET|LETTER|RESULT|RATING)[\"'*]*+\s*+(?:IS|:|=|->)\s*+[\"'(*\[]*+([ABC])(?![A-Za-z'])"
    r"|^\W*+([ABC])\s*+[,):.=-]|(?::|(?<!\s)[^\S\n]*+\n)\s*+[\"'(*\[]*+([ABC])\W*+$)",
    re.IGNORECASE,
)
_EDGES = re.compile(r"^[\W_]++|(?<![\W_])[\W_]++$")


def parse(reply: str) -> Outcome | None:
    """The label that a reply states; None when it states none, or more than one.

    >>> [parse(r).value for r in ("A", "CORRECT", "INCORRECT", "NOT_ATTEMPTED", "Answer: B", "b")]
    ['correct', 'correct', 'incorrect', 'deflected', 'incorrect', 'incorrect']
    >>> parse("A or B"), parse("I cannot grade this."), parse("not correct")
    (None, None, None)
    """
    whole = _EDGES.sub("", reply).upper()
    if whole in LETTERS:
        return LETTERS[whole]
    word = re.sub(r"[ -]", "_", whole)
    if word in WORDS:
        return WORDS[word]
    if _NEGATED.search(reply):
        return None
    said = {WORDS[re.sub(r"[ -]", "_", found.upper())] for found in _WORD.findall(reply)}
    # a letter counts in the place of a label only; lower case is an article more often than a label
    said |= {LETTERS[letter] for found in _NAMED.findall(reply) for letter in found if letter in LETTERS}
    if said:  # a second label anywhere makes two: a lone B or C is always one, an A only where no noun can follow
        said |= {LETTERS[letter] for letter in re.findall(r"(?<![A-Za-z'])([BC]|A(?=\s*[,;/)]))(?![A-Za-z'])", reply)}
    return said.pop() if len(said) == 1 else None


def literal(reply: str) -> Outcome:
    """The published parser, faults and all: the first capital A, B or C anywhere; C when there is none.

    For reproducing published numbers only. "CORRECT" and "INCORRECT" read as C, "NOT_ATTEMPTED" as A.

    >>> [literal(r).value for r in ("CORRECT", "INCORRECT", "NOT_ATTEMPTED", "Answer: B", "b")]
    ['deflected', 'deflected', 'correct', 'correct', 'deflected']
    """
    found = re.search(r"[ABC]", reply)
    return LETTERS[found.group() if found else "C"]
