"""Whether a reply declines to answer, and how.

Two models read it: `demur.judge.wording` its letters and words, `demur.judge.encoder` what it means as a reply to
its question; the sum of their log odds decides. A few words that decline only where they are the whole reply ("pass")
are in ``bare_deflections.txt``.

How often this is right is measured, not claimed: ``demur judge bench rules --on FILE``.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.answers import normalise
from demur.judge import wording
from demur.judge.courtesies import without_courtesies
from demur.judge.wording import bare, fold

KINDS = REFUSAL, LACK, ASKS_BACK = "refusal", "lack", "asks back"
"""Kinds of deflection: will not, cannot tell, wants to be told more."""


class Reading(NamedTuple):
    """What a reply does, and the words that show it."""

    deflects: bool
    cue: str = ""
    """Of a deflection: its clearest sentence, or the beginning of that."""
    kind: str = ""
    """Of a deflection: `REFUSAL`, `LACK` or `ASKS_BACK`."""


MEANING, DECLINES = 3.0, -0.5
"""Weight of the encoder's log odds beside those of the wording, and the sum above which a reply declines. On
replies that neither model was trained on, errors are as few from -2 to 0; precision matters more than recall."""
QUESTION = 5.0
"""The most that a question adds to the encoder's log odds: some ("Can you identify her?") make deflections of names."""
CLEAR = 8.0
"""Log odds of the wording that are not weighed against the encoder's: of an answer, and without a question of either.
That saves two thirds of the encoder's time on answers of real systems."""
SHORT = 8
"""Bytes of UTF-8 below which a reply says too little for the models: `bare_deflections` alone decides."""
_ENDS = (800, 400)
"""Characters of a longer reply that are read, from its beginning and from its end."""
_CUE = 80
"""Characters of a cue."""
_SENTENCE = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f\u0964])|\n")
_MARK = re.compile(
    r"(?:^|(?<=\w))(?P<gap>\W*+)(?:final answer|short answer|answer)(?=(?P<sign>\W*+))",
    re.IGNORECASE,
)
_COUNTS = re.compile(r"\b(?:how (?:many|much)|which of)\b", re.IGNORECASE)
"""What "None" answers."""
_NEW_SENTENCE = re.compile(r"\n|[.!?]\s")


def read(text: str, question: str = "") -> Reading:
    """Whether a reply declines to answer.

    Args:
        text: the reply, without hidden reasoning. Untrusted; read as text only.
        question: what it replies to; "": not known.

    >>> read("I'm sorry, but the passages do not mention when the bridge opened.").kind
    'lack'
    >>> read("I'm not certain, but it is probably Lake Como.").deflects
    False
    >>> read("The treaty does not mention Malta; it covers only Gozo.").deflects
    False
    >>> said = "The will does not mention the piano."
    >>> [read(said, question).deflects for question in ("Does the will mention the piano?", "Who inherits it?")]
    [False, True]
    """
    said = without_courtesies(_marked(text) or text).strip()
    said = said if len(said) <= sum(_ENDS) else f"{said[: _ENDS[0]]}\n{said[-_ENDS[1] :]}"
    if (whole := bare(fold(said[:_CUE]))) in bare_deflections() and len(said) <= _CUE:
        return (
            Reading(False)
            if whole == "none" and _COUNTS.search(question)
            else Reading(True, said, LACK)
        )
    if len(said.encode(errors="replace")) < SHORT or log_odds(said, question) <= DECLINES:
        return Reading(False)
    from demur.judge import encoder

    sentences = [one for one in _SENTENCE.split(said) if bare(fold(one[:_CUE]))] or [said]
    return Reading(
        True, max(sentences[:20], key=wording.log_odds)[:_CUE], KINDS[encoder.kind(said)]
    )


def log_odds(text: str, question: str = "") -> float:
    """Log odds that a reply declines, by its wording and by what it means as a reply to a question."""
    odds = wording.log_odds(text)
    if odds < -CLEAR or (odds > CLEAR and not question):
        return odds
    from demur.judge import encoder  # its libraries take longer to import than all of demur's own

    means = encoder.declines(text, question)
    if question and odds + MEANING * means > DECLINES:
        means = min(means, encoder.declines(text) + QUESTION)
    return odds + MEANING * means


@cache
def bare_deflections() -> frozenset[str]:
    """Replies that decline and are nothing but this, folded."""
    lines = (
        files(__package__).joinpath("bare_deflections.txt").read_text(encoding="utf-8").splitlines()
    )
    return frozenset(bare(fold(line)) for line in lines if not line.startswith("#"))


def _marked(text: str) -> str:
    """What follows the last "Answer:" that anything follows; "" without one."""
    marks, follows = [], 0  # a mark may stand at the beginning, or right after another
    for m in _MARK.finditer(text):
        if (m.start() == follows or _NEW_SENTENCE.search(m["gap"])) and re.search(
            "[:=]", m["sign"]
        ):
            marks.append(m.end("sign"))
            follows = m.end()
    return next((after for end in marks[:-3:-1] if normalise(after := text[end:])), "")
