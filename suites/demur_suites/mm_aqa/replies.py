"""Reading a reply in the output schema: EXPLANATION, FINAL ANSWER and, under vconf, CONFIDENCE from 1 to 5.

A reply without a required field is *malformed*: neither an answer nor an abstention, and counted beside both.
``strict`` requires the labels of the prompt. ``lenient`` takes a reply without labels as the answer, for systems that
see no prompt. Only the final answer decides whether a reply abstains.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from demur.core.records import Response
from demur.judge.deflection import read as read_deflection

Parser = Literal["strict", "lenient"]
Problem = Literal["", "failed", "malformed"]

LONGEST = 200_000
"""Longest part of a reply that is read, from its end, in characters."""
_FIELD = re.compile(
    r"^[ \t*#>_`-]*(EXPLANATION|FINAL ANSWER|CONFIDENCE)\b[ \t*_`]*[-:\u2013\u2014][ \t]*",
    re.I | re.M,
)
_SCORE = re.compile(r"[\s*_`<(\[]*([1-5])(?:\s*/\s*5)?[\s*_`>.)\]]*")
INDICATORS = (
    "i don't know",
    "i do not know",
    "i dont know",
    "idk",
    "cannot be determined",
    "can't be determined",
    "cannot determine",
    "can't determine",
    "unable to determine",
    "not enough information",
    "insufficient information",
    "insufficient evidence",
    "cannot answer",
    "can't answer",
    "unable to answer",
    "unanswerable",
    "not answerable",
    "cannot be answered",
    "not visible",
    "not possible to determine",
    "impossible to determine",
    "no answer",
    "unknown",
    "unclear",
    "i'm not sure",
    "i am not sure",
    "cannot tell",
    "can't tell",
    "i abstain",
)
"""Phrases that ``substring`` looks for anywhere in the final answer, in any case."""


class Reply(NamedTuple):
    """What one reply says.

    Attributes:
        answer: the final answer; "" where there is none.
        abstains: whether the answer declines.
        confidence: 1 to 5; None but under vconf.
        problem: "" when the reply is whole.
        detail: the problem in words.
    """

    answer: str = ""
    abstains: bool = False
    confidence: int | None = None
    problem: Problem = ""
    detail: str = ""


def whole(response: Response) -> str:
    """The reply as the model wrote it, with the fields that the runner took out (`demur.scenarios.systems.model`)."""
    text = response.text
    head = _FIELD.search(response.reasoning)
    if head and not re.search(r"FINAL ANSWER", text, re.IGNORECASE):
        text = f"{response.reasoning[head.start() :]}\nFINAL ANSWER - {text}"
    if response.confidence is not None and not re.search(
        r"^[^\w\n]*CONFIDENCE\b", text, re.IGNORECASE | re.MULTILINE
    ):
        text += f"\nCONFIDENCE - {1 + round(4 * response.confidence)}"
    return text


def read_reply(
    response: Response, condition: str, parser: str = "strict", abstain: str = "reader"
) -> Reply:
    r"""The reply that a response is.

    >>> read_reply(Response(text="EXPLANATION - red\nFINAL ANSWER - 7"), "base")
    Reply(answer='7', abstains=False, confidence=None, problem='', detail='')
    >>> read_reply(Response(text="FINAL ANSWER - I don't know"), "base").problem
    'malformed'
    """
    if response.error:
        return Reply(problem="failed", detail=response.error)
    text = whole(response)[-LONGEST:].strip()
    if response.abstained:  # the system itself says so: no schema is needed
        return Reply(text[:1000], True)
    heads = list(_FIELD.finditer(text))
    if parser == "lenient" and not heads and text:
        return Reply(text, _abstains(text, abstain, response))
    ends = [*(m.start() for m in heads[1:]), len(text)]
    fields: dict[str, list[str]] = {}
    for m, end in zip(heads, ends, strict=False):
        fields.setdefault(m[1].upper(), []).append(text[m.end() : end].strip().strip("*_` "))
    needed = ["FINAL ANSWER"] if parser == "lenient" else ["EXPLANATION", "FINAL ANSWER"]
    needed += ["CONFIDENCE"] if condition.startswith("vconf") else []
    lost = [name for name in needed if not any(fields.get(name, ()))]
    if lost:
        return Reply(
            problem="malformed", detail=f"lacks {' and '.join(lost)}" if text else "is empty"
        )
    finals = dict.fromkeys(answer for answer in fields["FINAL ANSWER"] if answer)
    if len(finals) > 1 and parser == "strict":
        return Reply(problem="malformed", detail=f"gives {len(finals)} different final answers")
    answer = [*finals][-1]
    score = _SCORE.fullmatch(fields["CONFIDENCE"][-1]) if "CONFIDENCE" in needed else None
    if "CONFIDENCE" in needed and score is None:
        return Reply(
            problem="malformed",
            detail=f"CONFIDENCE is {fields['CONFIDENCE'][-1][:40]!r}, not 1 to 5",
        )
    return Reply(answer, _abstains(answer, abstain, response), int(score[1]) if score else None)


def _abstains(answer: str, how: str, response: Response) -> bool:
    if response.abstained is not None:
        return response.abstained
    if how == "substring":
        plain = answer.casefold().replace("\u2019", "'")
        return any(words in plain for words in INDICATORS)
    return read_deflection(answer).deflects
