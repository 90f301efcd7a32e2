"""Reading a reply in the output schema: EXPLANATION, FINAL ANSWER and, where it was asked for, CONFIDENCE from 1 to 5.

A reply that lacks a field is *malformed*: it is neither an answer nor an abstention, and is counted beside both.
``strict`` takes the labels as they were asked for. ``lenient`` takes a reply without labels whole, as the answer, for
systems that see no prompt. Whether an answer abstains is read from its final answer alone.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from demur.core.records import Response
from demur.judge.deflection import read as read_deflection

Parser = Literal["strict", "lenient"]
Abstain = Literal["reader", "substring"]
Problem = Literal["", "failed", "malformed"]

LONGEST = 200_000
"""Characters of a reply that are read."""
_FIELD = re.compile(r"^[ \t*#>_`-]*(EXPLANATION|FINAL ANSWER|CONFIDENCE)\b[ \t*_`]*[-:\u2013\u2014][ \t]*", re.I | re.M)
_SCORE = re.compile(r"[\s*_`<(\[]*([1-5])(?:\s*/\s*5)?[\s*_`>.)\]]*")
INDICATORS = (
    "i don't know", "i do not know", "i dont know", "idk", "cannot be determined", "can't be determined",
    "cannot determine", "can't determine", "unable to determine", "not enough information", "insufficient information",
    "insufficient evidence", "cannot answer", "can't answer", "unable to answer", "unanswerable", "not answerable",
    "cannot be answered", "not visible", "not possible to determine", "impossible to determine", "no answer", "unknown",
    "unclear", "i'm not sure", "i am not sure", "cannot tell", "can't tell", "i abstain",
)  # fmt: skip
"""Phrases that ``substring`` looks for anywhere in the final answer, whatever their case."""


class Reply(NamedTuple):
    """What one reply says.

    Attributes:
        answer: the final answer; "" where there is none.
        abstains: whether that declines.
        confidence: 1 to 5; None where it was not asked for.
        problem: "" when the reply is whole.
        detail: the problem in words.
    """

    answer: str = ""
    abstains: bool = False
    confidence: int | None = None
    problem: Problem = ""
    detail: str = ""


def whole(response: Response) -> str:
    """The reply as it was written, where the runner has taken fields out of it (`demur.scenarios.systems.model`)."""
    text = response.text
    head = _FIELD.search(response.reasoning)
    if head and not re.search(r"FINAL ANSWER", text, re.IGNORECASE):
        text = f"{response.reasoning[head.start() :]}\nFINAL ANSWER - {text}"
    if response.confidence is not None and not re.search(r"^[^\w\n]*CONFIDENCE\b", text, re.IGNORECASE | re.MULTILINE):
        text += f"\nCONFIDENCE - {1 + round(4 * response.confidence)}"
    return text


def read_reply(response: Response, condition: str, parser: str = "strict", abstain: str = "reader") -> Reply:
    r"""The reply that a response is.

    >>> read_reply(Response(text="EXPLANATION - red\nFINAL ANSWER - 7"), "base")
    Reply(answer='7', abstains=False, confidence=None, problem='', detail='')
    >>> read_reply(Response(text="FINAL ANSWER - I don't know"), "base").problem
    'malformed'
    """
    if response.error:
        return Reply(problem="failed", detail=response.error)
    text = whole(response)[-LONGEST:].strip()
    if response.abstained:  # its own word needs no schema
        return Reply(text[:1000], True)
    found = list(_FIELD.finditer(text))
    if parser == "lenient" and not found and text:
        return Reply(text, _abstains(text, abstain, response))
    ends = [*(m.start() for m in found[1:]), len(text)]
    fields: dict[str, list[str]] = {}
    for m, end in zip(found, ends, strict=False):
        fields.setdefault(m[1].upper(), []).append(text[m.end() : end].strip().strip("*_` "))
    needed = ["FINAL ANSWER"] if parser == "lenient" else ["EXPLANATION", "FINAL ANSWER"]
    needed += ["CONFIDENCE"] if condition.startswith("vconf") else []
    lost = [name for name in needed if not any(fields.get(name, ()))]
    if lost:
        return Reply(problem="malformed", detail=f"lacks {' and '.join(lost)}" if text else "is empty")
    finals = dict.fromkeys(answer for answer in fields["FINAL ANSWER"] if answer)
    if len(finals) > 1 and parser == "strict":
        return Reply(problem="malformed", detail=f"gives {len(finals)} different final answers")
    answer = [*finals][-1]
    score = _SCORE.fullmatch(fields["CONFIDENCE"][-1]) if "CONFIDENCE" in needed else None
    if "CONFIDENCE" in needed and score is None:
        return Reply(problem="malformed", detail=f"CONFIDENCE is {fields['CONFIDENCE'][-1][:40]!r}, not 1 to 5")
    return Reply(answer, _abstains(answer, abstain, response), int(score[1]) if score else None)


def _abstains(answer: str, how: str, response: Response) -> bool:
    if response.abstained is not None:
        return response.abstained
    if how == "substring":
        plain = answer.casefold().replace("\u2019", "'")
        return any(words in plain for words in INDICATORS)
    return read_deflection(answer).deflects
