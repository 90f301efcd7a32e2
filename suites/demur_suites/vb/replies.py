"""Reading a reply that must be one JSON object: label, reason code, confidence.

There are three failures, because they are scored differently: a reply without a label (``unparsable``), a label that
does not exist (``invalid label``), and a label without a usable confidence (``no confidence``). A failed call is a
fourth (``no output``); a cell without a question (``not asked``) is no failure. ``strict`` removes surrounding space
and one code fence and reads the rest as JSON. ``lenient`` takes the last JSON object with a ``label``, wherever it is.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from demur.core.records import Response
from demur.core.strict_json import check_depth, loose_json
from demur_suites.vb.items import Category, Label

Problem = Literal["", "not asked", "no output", "unparsable", "invalid label", "no confidence"]
PROBLEMS: tuple[Problem, ...] = (
    "not asked",
    "no output",
    "unparsable",
    "invalid label",
    "no confidence",
)
Parser = Literal["strict", "lenient"]

NONE = "NONE"
LABELS = {
    **{label.value: label for label in Label},
    "VISIBLE": Label.TRUE,
    "NOT_VISIBLE": Label.FALSE,
    "UNDETERMINABLE_FROM_EVIDENCE": Label.ABSTAIN,
}
"""Label as written -> label; published sheets use the second set."""
LONGEST = 20_000
"""Longest reply that ``strict`` reads, and the part at the end that ``lenient`` reads, in characters."""
_FENCE = re.compile(r"```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)


class Reply(NamedTuple):
    """What one reply says.

    Attributes:
        label: None where none was read.
        confidence: in [0, 1]; None where it is missing or no such number.
        reason_code: as written; "" when missing.
        problem: see `PROBLEMS`; "" when there is none.
        detail: the problem in words.
    """

    label: Label | None
    confidence: float | None = None
    reason_code: str = ""
    problem: Problem = ""
    detail: str = ""

    @property
    def answered(self) -> bool:
        """Whether it says true or false."""
        return self.label in (Label.TRUE, Label.FALSE)


NOT_ASKED = Reply(None, problem="not asked", detail="was not asked")
UNGRADED = Reply(None, problem="unparsable", detail="could not be read")


def read_reply(text: str, parser: Parser = "strict") -> Reply:
    """The reply that a text is.

    >>> read_reply('{"label": "VISIBLY_TRUE", "reason_code": "NONE", "confidence": 0.9}').confidence
    0.9
    >>> [read_reply(t).problem for t in ("Yes.", '{"label": "YES"}', '{"label": "VISIBLY_TRUE"}', "")]
    ['unparsable', 'invalid label', 'no confidence', 'no output']
    """
    text = text.strip()
    if not text:
        return Reply(None, problem="no output", detail="the reply is empty")
    if text.startswith("ERROR:"):  # how published sheets write a call that failed
        return Reply(None, problem="no output", detail=text[:200])
    parsed = _strict(text) if parser == "strict" else _last_object(text)
    if not isinstance(parsed, dict) or "label" not in parsed:
        return Reply(
            None, problem="unparsable", detail="no JSON object with a label" + _hint(text, parser)
        )
    written = parsed["label"]
    label = LABELS.get(written.strip().upper()) if isinstance(written, str) else None
    code = parsed.get("reason_code")
    reason = code.strip().upper()[:100] if isinstance(code, str) else ""
    if label is None:
        return Reply(None, None, reason, "invalid label", f"label is {str(written)[:60]!r}")
    confidence, why = _confidence(parsed.get("confidence"), parser)
    if confidence is None and label is not Label.ABSTAIN:
        return Reply(label, None, reason, "no confidence", why)
    return Reply(label, confidence, reason)


def reply_of(response: Response, parser: Parser = "strict") -> Reply:
    """The reply of a response; a failed one has no output, and a system that says itself that it abstains does."""
    if response.error:
        return Reply(None, problem="no output", detail=response.error)
    reply = read_reply(response.text, parser)
    return (
        Reply(Label.ABSTAIN, reply.confidence, reply.reason_code) if response.abstained else reply
    )


def breaks_rules(reply: Reply) -> str:
    """How a reason code breaks the rules of the prompt; "" when it keeps them or there is no label (section 4.2).

    VISIBLY_TRUE takes NONE; ABSTAIN takes one limiting factor; VISIBLY_FALSE takes either.
    """
    if reply.label is None:
        return ""
    if reply.reason_code not in {NONE, *Category}:
        return "no such reason code" if reply.reason_code else "reason code missing"
    if reply.label is Label.TRUE and reply.reason_code != NONE:
        return "VISIBLY_TRUE with a limiting factor"
    if reply.label is Label.ABSTAIN and reply.reason_code == NONE:
        return "ABSTAIN without a limiting factor"
    return ""


def _strict(text: str) -> Any:
    fenced = _FENCE.fullmatch(text)
    try:
        return loose_json(fenced[1] if fenced else text) if len(text) <= LONGEST else None
    except ValueError:
        return None


def _last_object(text: str) -> Any:
    """The last JSON object with a label; at most 200 opening brackets are tried, from the end."""
    text = text[-LONGEST:]
    decoder = json.JSONDecoder()
    place = len(text)
    for _ in range(200):
        place = text.rfind("{", 0, place)
        if place < 0:
            return None
        try:
            check_depth(text[place:])
            value, _end = decoder.raw_decode(text, place)
        except ValueError:
            continue
        if isinstance(value, dict) and "label" in value:
            return value
    return None


def _hint(text: str, parser: Parser) -> str:
    if parser == "strict" and isinstance(_last_object(text), dict):
        return " alone (the lenient parser finds one inside)"
    return ""


def _confidence(written: Any, parser: Parser) -> tuple[float | None, str]:
    """A confidence in [0, 1]; above 1 and up to 100 it is a percentage, and so is text with % when lenient."""
    if written is None:
        return None, "confidence is missing"
    value = written
    if parser == "lenient" and isinstance(written, str):
        text = written.strip()
        with suppress(ValueError):
            value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"confidence is {str(written)[:40]!r}, not a number"
    number = float(value) if abs(value) < 1e300 else math.inf
    number = number / 100 if 1 < number <= 100 else number
    if not 0 <= number <= 1:  # NaN is not between 0 and 1 either
        return None, f"confidence is {str(written)[:40]}, not a number from 0 to 1"
    return number, ""
