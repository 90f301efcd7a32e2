"""How a reply asserts its answer: the final answer, denials, rivals after "or", and withdrawals."""

from __future__ import annotations

import re
from collections.abc import Callable

from demur.answers.numbers import in_unit, quantities
from demur.answers.spans import Span
from demur.answers.text import normalise, readable

_FINAL = re.compile(
    r"(?:^|(?<=\w))(?P<gap>\W*+)(?:final answer|short answer|answer)\s*+(?:(?:\*++\s*+)?+[:=]\**+|\bis\b:?)\s*+",
    re.IGNORECASE,
)
_NEW_SENTENCE = re.compile(r"\n|[.!?]\s")
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


def final_part(answer: str) -> str:
    """The part that the reply marks as its answer ("Final answer: ..."), else all of it.

    >>> final_part("Lyon is large. Final answer: **Paris**")
    'Paris**'
    """
    boxed = _BOXED.findall(answer)
    if boxed and normalise(boxed[-1]):
        return str(boxed[-1])
    marks = [m for m in _FINAL.finditer(answer) if m.start() == 0 or _NEW_SENTENCE.search(m["gap"])]
    for mark in marks[
        :-3:-1
    ]:  # the last two marks are enough: the text after the last but one includes the last
        after = answer[mark.end() :].strip().lstrip("*").strip()
        if normalise(after):
            return after
    return answer


_DENIAL = re.compile(
    r"(?:\b(?:not|never|neither|nor|without|except|excluding|unlike)|n't|\b(?:rather than|instead of|"
    r"(?<!none )(?<!nothing )(?<!nobody )(?<!no one )other than|no longer|apart from|as opposed to))"
    r"(?:\s+(?:in|at|on|by|from|the|a|an|really|actually|necessarily|to|be|called|located|named|it|"
    r"is))*\s*+(?:[\"'(*]++\s*+)?+$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^\W*(?:is|was|are|were|would be|seems|looks)\s+(?:not\b(?! only)|n't|wrong|incorrect|false)|"
    r"^\W*(?:is|was|are|were)n't\b",
    re.IGNORECASE,
)


def denied(text: str, span: Span) -> bool:
    """Whether the text denies what stands at ``span``."""
    text = readable(text)
    before = re.split(r"[.;!?\n]\s", text[max(0, span[0] - 80) : span[0]])[-1]
    return bool(_DENIAL.search(before)) or bool(_DENIED_AFTER.match(text[span[1] : span[1] + 40]))


_OR_AFTER = re.compile(
    r"[\"'*)]*+(?:\s*+,\s*+(?!or\b)[^,.;\n]{0,40}+(?=\s*+,))*(?:\s*+,\s*+(?!or\b)[^,.;\n]{1,40})?,?\s++or\s++"
    r"(?:maybe|possibly|perhaps|even|else|alternatively|it could be|it is)?\s*+(?P<rival>[^,.;?!\n]{1,80})",
    re.IGNORECASE,
)
"""Items between commas, then "or". Every item but the last ends before a comma, so there is one way to match."""
_OR_BEFORE = re.compile(
    r"(?<!\s)\s++or\s++(?:maybe|possibly|perhaps|in|on|at|the|a|an|it is|it's)?\s*+(?:the|a|an)?\s*+[\"'(*]*+$",
    re.IGNORECASE,
)
_OPENS_RIVAL = re.compile(
    r"[:?!]|\b(?:either|is|was|be|are|were|in|perhaps|maybe|possibly|likely|probably)",
    re.IGNORECASE,
)
_OR_NOT_RIVAL = re.compile(
    r"^(?:so|more|less|thereabouts|not|even|rather|simply|just|another|other|something|similar|fewer|later|"
    r"earlier|older|above|below|both)\b",
    re.IGNORECASE,
)
_NAMED_ALSO = re.compile(
    r"\b(?:also known|also called|in other words|known as|aka|i\.e\.|called|spelled|simply|locally|"
    r"formerly|officially)\b",
    re.IGNORECASE,
)


def rival(text: str, span: Span, is_right: Callable[[str], bool]) -> str:
    """A wrong candidate (not ``is_right``) that the text offers with "or" beside the one at ``span``; else ""."""
    text = readable(text)
    after = _OR_AFTER.match(text[span[1] : span[1] + 240])
    for found in (
        after["rival"] if after else "",
        _rival_before(text[max(0, span[0] - 160) : span[0]]),
    ):
        other = found.strip(" \"'*()")
        if (
            not normalise(other)
            or _OR_NOT_RIVAL.match(other)
            or _NAMED_ALSO.search(other)
            or is_right(other)
        ):
            continue
        if _same_amount(text[span[0] : span[1]], other):
            continue
        return " ".join(other.split()[:6])
    return ""


def _rival_before(text: str) -> str:
    """The first candidate before a final "or": "Lyon" of "Lyon, Nice or "."""
    joint = _OR_BEFORE.search(text)
    if not joint:
        return ""
    head = text[: joint.start()].removesuffix(",")
    candidates = head[max(head.rfind(c) for c in ".;\n") + 1 :].split(",")
    first = len(candidates) - 1
    while first > 0 and 1 <= len(candidates[first]) <= 40:
        first -= 1
    for candidate in candidates[first:]:
        for start in (0, *(m.end() for m in _OPENS_RIVAL.finditer(candidate))):
            offered = candidate[start:].lstrip()
            if 1 <= len(offered) <= 60 and not any(c in offered for c in ":?!"):
                return offered
    return ""


def _same_amount(one: str, other: str) -> bool:
    """Whether both are the same amount in two units ("121 km or 75 miles"), within 5 %."""
    a, b = quantities(one), quantities(other)
    if not a or not b:
        return False
    value = in_unit(b[0].low, b[0].unit, a[0].unit)
    return (
        value is not None
        and a[0].unit != b[0].unit
        and abs(value - a[0].low) <= 0.05 * abs(a[0].low)
    )


TAKEN_BACK = re.compile(
    r"(?:^|[.!?;-]|(?<!\s)[^\S\n]*+\n)\s*+(?:(?:no|oh|hmm|sorry)[,.]?\s*+)?(?:wait|correction|scratch that|"
    r"on second thought|actually,? (?:no|it|that|this|he|she|they|the|i)|let me correct|sorry,? (?:i mean|it|that)|"
    r"i mean|i meant|my (?:mistake|bad|error|apologies)|oops|whoops|i apologi[sz]e|i was wrong|i misspoke|"
    r"(?:the )?correct(?:ed)? (?:answer|version) (?:is|was|should)|no(?=,))\b"
    r"|(?:\.\.|\u2026)\s{0,3}(?:no|sorry|wait)\b|,\sno,\s(?:sorry|wait)\b",
    re.IGNORECASE,
)


def withdrawn(text: str, last: Span) -> str:
    """The beginning of a withdrawal after ``last`` ("Wait, ..."); "" if there is none."""
    after = readable(text)[last[1] :]
    found = TAKEN_BACK.search(after)
    if not found or not normalise(after[found.end() :]):
        return ""
    return " ".join(after[found.start() :][:_SHOWN].strip(" .;-").split()[:8])


_SHOWN = 300
"""Characters of a withdrawal that its first words are taken from."""
