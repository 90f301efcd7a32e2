"""Whether a reply declines to answer, and how.

Two models read it: `demur.judge.wording` its letters and words, `demur.judge.encoder` what it means as a reply to
its question; the sum of their log odds decides. Of a reply that is made of nothing but the words of a plain refusal
(`demur.judge.plain_refusals`) the question is not read, so that none can undo it. A few words that decline only where
they are the whole reply ("skip") are in ``bare_deflections.txt``.

How often this is right is measured, not claimed: ``demur judge bench local --on FILE``.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.answers import normalise
from demur.judge import wording
from demur.judge.courtesies import without_courtesies
from demur.judge.plain_refusals import is_plain_refusal
from demur.judge.wording import bare, fold

KINDS = REFUSAL, LACK, ASKS_BACK = "refusal", "lack", "asks back"
"""Kinds of deflection: will not, cannot tell, wants to be told more."""


class Reading(NamedTuple):
    """What a reply does, and the words that show it."""

    deflects: bool
    probability: float
    """The chance that `deflects` is right, 0.5 to 0.995."""
    cue: str = ""
    """Of a deflection: its clearest sentence, or the beginning of that."""
    kind: str = ""
    """Of a deflection: `REFUSAL`, `LACK` or `ASKS_BACK`."""


MEANING, DECLINES = 3.0, -2.0
"""Weight of the encoder's log odds beside those of the wording, and the sum above which a reply declines. On replies
that neither model was trained on, errors are as few from -3 to 0, and at -2 about as many of either sort, so that the
count is right."""
QUESTION = 5.0
"""The most that a question adds to the encoder's log odds: some ("Can you identify her?") make deflections of names."""
SLOPE = 0.41
"""Of the logistic curve that makes a probability of the sum; fitted to the 1,200 replies on which the threshold was
chosen, even at -0.58. On replies that were written to mislead it is too sure by 0.07."""
EVEN = -0.58
"""Sum at which either reading is as likely."""
LEAST, MOST = 0.5, 0.995
"""Limits of a probability; of plain and bare refusals it is the upper one."""
NAME = 0.75
"""Probability where a reply may be a name or a refusal, and the question decides; not measured."""
CLEAR = 8.0
"""Log odds of the wording that are not weighed against the encoder's: of an answer, and without a question of either.
That saves two thirds of the encoder's time on answers of real systems."""
PLAIN = 1.0
"""Log odds of the wording above which a plain refusal needs no encoder. Of 1,505 training deflections that are made of
its words, 97 % are above it; so are half of 124 answers, nearly all of them quotations ("What did the witness say?")."""
_ENDS = (800, 400)
"""Characters of a longer reply that are read, from its beginning and from its end."""
_CUE = 80
"""Characters of a cue."""
_SENTENCE = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f\u0964])|\n")
_MARK = re.compile(
    r"(?:^|(?<=\w))(?P<gap>\W*+)(?:final answer|short answer|answer)(?=(?P<sign>\W*+))",
    re.IGNORECASE,
)
_NAMES = re.compile(
    r"\b(?:who|whom|whose|which|how (?:many|much)|names?|named|called|symbol|code|title|words?|says?)\b",
    re.IGNORECASE,
)
"""Questions that "None", "Na" or "Pass" answers."""
_ONE_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]{1,5}|[^ \u3040-\u30ff\u3400-\u9fff]+")
_WORKS = re.compile(
    r"\b(?:songs?|singles?|tracks?|albums?|films?|movies?|books?|novels?|stor(?:y|ies)|poems?|plays?|series|memoirs?"
    r"|titled?|episodes?)\b",
    re.IGNORECASE,
)
"""Questions that "I Can't Tell You Why" answers."""
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
    >>> reply = "The will does not mention the piano."
    >>> [read(reply, question).deflects for question in ("Does the will mention the piano?", "Who inherits it?")]
    [False, True]
    """
    reply = without_courtesies(_marked(text) or text).strip()
    reply = reply if len(reply) <= sum(_ENDS) else f"{reply[: _ENDS[0]]}\n{reply[-_ENDS[1] :]}"
    words = bare(fold(reply[: _CUE + 1]))
    declines_alone, may_be_name = bare_deflections()
    if words in declines_alone:
        return Reading(True, MOST, reply, LACK)
    if words in may_be_name:
        deflects = not _NAMES.search(question)
        return Reading(deflects, NAME, *((reply, LACK) if deflects else ()))
    if _is_title(reply) and _WORKS.search(question):
        return Reading(False, NAME)
    odds = wording.log_odds(reply)
    if is_plain_refusal(reply):
        question = ""
        if odds > PLAIN:
            kind = ASKS_BACK if "?" in reply or "\uff1f" in reply else LACK
            return Reading(True, MOST, _cue(reply), kind)
    elif odds <= 0 and _ONE_WORD.fullmatch(words):  # a name that the encoder does not know
        return Reading(False, probability(odds))
    odds = log_odds(reply, question)
    if odds <= DECLINES:
        return Reading(False, probability(odds))
    from demur.judge import encoder

    return Reading(True, probability(odds), _cue(reply), KINDS[encoder.kind(reply)])


def _cue(reply: str) -> str:
    """The clearest sentence."""
    sentences = [part for part in _SENTENCE.split(reply) if bare(fold(part[:_CUE]))] or [reply]
    return max(sentences[:20], key=wording.log_odds)[:_CUE]


def _is_title(reply: str) -> bool:
    """Whether three words or more all begin with a capital letter.

    >>> _is_title("I Can't Tell You Why"), _is_title("I can't tell")
    (True, False)
    """
    words = re.findall(r"[^\W\d_][\w'\u2019]*", reply[:_CUE])
    return len(words) >= 3 and len(reply) <= _CUE and all(word[0].isupper() for word in words)


def probability(odds: float) -> float:
    """The chance that a reading by its summed log odds is right."""
    chance = 1 / (1 + math.exp(-SLOPE * max(-60.0, min(60.0, odds - EVEN))))
    return min(max(chance if odds > DECLINES else 1 - chance, LEAST), MOST)


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
def bare_deflections() -> tuple[frozenset[str], frozenset[str]]:
    """Replies that decline and are nothing but this, folded: whatever is asked, and where no name is asked for."""
    lines = (
        files(__package__).joinpath("bare_deflections.txt").read_text(encoding="utf-8").splitlines()
    )
    words = [line for line in lines if not line.startswith("#")]
    alone, may_be_name = (
        frozenset(bare(fold(word)) for word in words if word.endswith("?") == name)
        for name in (False, True)
    )
    return alone, may_be_name


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
