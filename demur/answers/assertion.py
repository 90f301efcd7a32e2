"""How an answer is asserted: which part is the final answer, and is it denied, left open with "or", taken back?"""

from __future__ import annotations

import re
from collections.abc import Callable

from demur.answers.numbers import in_unit, quantities
from demur.answers.spans import Span
from demur.answers.text import normalise, readable

_FINAL = re.compile(
    r"(?:^|\n|[.!?]\s)\W*(?:final answer|short answer|answer)\s*(?:\**\s*[:=]\**|\bis\b:?)\s*", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


def final_part(answer: str) -> str:
    """What the answer itself calls its answer ("Final answer: ..."), else all of it.

    >>> final_part("Lyon is large. Final answer: **Paris**")
    'Paris**'
    """
    boxed = _BOXED.findall(answer)
    if boxed and normalise(boxed[-1]):
        return str(boxed[-1])
    marks = list(_FINAL.finditer(answer))
    while marks:
        after = answer[marks.pop().end() :].strip().lstrip("*").strip()
        if normalise(after):
            return after
    return answer


_DENIAL = re.compile(
    r"(?:\b(?:not|never|neither|nor|without|except|excluding|unlike)|n't|\b(?:rather than|instead of|"
    r"other than|no longer|apart from|as opposed to))"
    r"(?:\s+(?:in|at|on|by|from|the|a|an|really|actually|necessarily|to|be|called|located|named|it|"
    r"is))*\s*[\"'(*]*\s*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^\W*(?:is|was|are|were|would be|seems|looks)\s+(?:not\b(?! only)|n't|wrong|incorrect|false)|"
    r"^\W*(?:is|was|are|were)n't\b",
    re.IGNORECASE,
)


def denied(text: str, span: Span) -> bool:
    """Whether what stands at ``span`` is said not to be so."""
    text = readable(text)
    before = re.split(r"[.;!?\n]\s", text[max(0, span[0] - 80) : span[0]])[-1]
    return bool(_DENIAL.search(before)) or bool(_DENIED_AFTER.match(text[span[1] : span[1] + 40]))


_OR_AFTER = re.compile(
    r"^[\"'*)]*(?:(?:\s*,\s*(?!or\b)[^,.;\n]{1,40})*),?\s+or\s+(?:maybe|possibly|perhaps|even|else|"
    r"alternatively|it could be|it is)?\s*(?P<rival>[^,.;?!\n]{1,80})",
    re.IGNORECASE,
)
_OR_BEFORE = re.compile(
    r"(?:^|[.;:?!\n,]|\b(?:either|is|was|be|are|were|in|perhaps|maybe|possibly|likely|"
    r"probably))\s*(?P<rival>[^,.;:?!\n]{1,60}?)(?:,[^,.;\n]{1,40})*,?\s+or\s+(?:maybe|possibly|perhaps|in|"
    r"on|at|the|a|an|it is|it's)?\s*(?:the|a|an)?\s*[\"'*(]*$",
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
    """Another candidate, one that ``is_right`` does not know, offered by "or" beside the one at ``span``; else ""."""
    text = readable(text)
    after = _OR_AFTER.match(text[span[1] : span[1] + 240])
    before = _OR_BEFORE.search(text[max(0, span[0] - 160) : span[0]])
    for found in (after, before):
        if not found:
            continue
        other = found["rival"].strip(" \"'*()")
        if not normalise(other) or _OR_NOT_RIVAL.match(other) or _NAMED_ALSO.search(other) or is_right(other):
            continue
        if _same_amount(text[span[0] : span[1]], other):
            continue
        return " ".join(other.split()[:6])
    return ""


def _same_amount(one: str, other: str) -> bool:
    """Two ways of writing about the same amount ("121 km or 75 miles"): equal within 5 %."""
    a, b = quantities(one), quantities(other)
    if not a or not b:
        return False
    value = in_unit(b[0].low, b[0].unit, a[0].unit)
    return value is not None and a[0].unit != b[0].unit and abs(value - a[0].low) <= 0.05 * abs(a[0].low)


_TAKEN_BACK = re.compile(
    r"(?:^|[.!?;\n-])\s*(?:(?:no|oh|hmm|sorry)[,.]\s*)?(?:wait|correction|scratch that|on second thought|"
    r"actually,? no|let me correct)\b[^\w]*(.*)",
    re.IGNORECASE | re.DOTALL,
)


def withdrawn(text: str, last: Span) -> str:
    """The beginning of what takes back, after ``last``, what was said; "" when nothing does."""
    found = _TAKEN_BACK.search(readable(text)[last[1] :])
    return " ".join(found[0].strip(" .;-").split()[:8]) if found and normalise(found[1]) else ""
