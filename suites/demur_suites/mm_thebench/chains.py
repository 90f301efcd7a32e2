"""Chains of thought: where they are in a reply, and how they are cut into steps and into parts for one call.

Steps are always the chain's own words: cut at cues such as "Wait" and at paragraphs, or where a judge says a step
begins. No call gets more than `PART` characters, however long the chain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from demur.answers.reply import final_part
from demur.core.records import Response
from demur.core.thinking import visible
from demur.judge.untrusted_answer import clean

PART = 8_000
"""Most characters of a chain in one call."""
FRAME = 40
"""Characters of the JSON line around a sentence or step."""
LONGEST = 400_000
"""Most characters of a chain that are judged; a note says where there are more."""


class Chain(NamedTuple):
    """A reply's chain of thought, and its origin (see `measures.Judged`)."""

    text: str
    kind: Literal["native", "elicited", "none"]


_MARK = re.compile(r"</?(?:think|thinking|reasoning|scratchpad)>", re.IGNORECASE)


def chain_of(response: Response) -> Chain:
    """The model's thoughts, given apart or marked in its text (finished or not); else its visible reply.

    >>> chain_of(Response(text="<think>Two bands.</think>Answer: 2")), chain_of(Response(text="<think>Two ba")).kind
    (Chain(text='Two bands.', kind='native'), 'native')
    """
    text = response.text.strip()
    seen = visible(text)
    thoughts = (
        response.reasoning
        if response.reasoning.strip()
        else _MARK.sub("", text.removesuffix(seen)).strip()
    )
    return Chain(thoughts, "native") if thoughts else Chain(seen, "elicited" if seen else "none")


_FINAL = re.compile(
    r"^[\s*#_>]{0,8}(?:the )?(?:final )?answer(?: is)?\W{0,3}:\W{0,3}(.+)$",
    re.IGNORECASE | re.MULTILINE,
)


def final_answer(text: str) -> str:
    r"""The text after the last "Answer:", or in a box; the whole text where there is neither.

    >>> final_answer("1. A red star.\n**Final answer:** Vietnam"), final_answer(r"So it is $\boxed{B}$.")
    ('Vietnam', 'B')
    """
    seen = visible(text).strip()
    found = [m[1] for m in _FINAL.finditer(seen)]
    return final_part(found[-1].strip().rstrip("*_ ") if found else seen)


_ENDS = re.compile(r"(?<=[.!?])\s+|\n\s*|(?<=[。！？])(?=\S)")
_CUE = re.compile(
    r"(?:but |oh,? |hmm+,? |ok(?:ay)?,? |so,? )?(?:wait|actually|alternatively|hold on|on second thought|however|"
    r"let me (?:re|double)|let's (?:re|double)|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|now|finally|"
    r"therefore|thus|hence|in conclusion|step \d|\d{1,2}[.)] |[-*•] |the (?:final )?answer|answer:)",
    re.IGNORECASE,
)


def sentences(text: str, most: int = PART) -> list[str]:
    r"""A text in sentences and lines, none longer than ``most``; together they are the text.

    >>> sentences("It is 3.5 m. Wait, no.\nIt is 4.")
    ['It is 3.5 m. ', 'Wait, no.\n', 'It is 4.']
    """
    found, start = [], 0
    for end in (*(m.end() for m in _ENDS.finditer(text)), len(text)):
        for low in range(start, end, most):
            found.append(text[low : min(low + most, end)])
        start = end
    return found


def cut_by_cues(lines: Sequence[str]) -> list[str]:
    """Sentences as steps without a model: one begins at each cue and each paragraph."""
    steps: list[str] = []
    for line in lines:
        if not steps or _CUE.match(line) or steps[-1].endswith("\n\n"):
            steps.append(line)
        else:
            steps[-1] += line
    return steps


def cut_as_judged(lines: Sequence[str], reply: Any) -> list[str] | None:
    """Sentences as the steps of a judge's reply; None where it has none, or other words than the chain's.

    The reply holds the numbers of first sentences (``starts``), or a list of steps with their words (``step_content``).
    """
    if isinstance(reply, dict) and isinstance(reply.get("starts"), list):
        starts = reply["starts"]
        if not starts or not all(type(s) is int and 1 <= s <= len(lines) for s in starts):
            return None
        ends = sorted({1, *starts, len(lines) + 1})
        return ["".join(lines[a - 1 : b - 1]) for a, b in pairwise(ends)]
    rows = reply.get("steps") if isinstance(reply, dict) else reply
    words = (
        [r.get("step_content") if isinstance(r, dict) else None for r in rows]
        if isinstance(rows, list)
        else []
    )
    text, given = "".join(lines), [len("".join(w.split())) for w in words if isinstance(w, str)]
    if (
        not words
        or len(given) < len(words)
        or "".join("".join(w.split()) for w in words if w) != "".join(text.split())
    ):
        return None
    steps, at = [], 0
    for size in given:
        start = at
        while size:
            size -= not text[at].isspace()
            at += 1
        while at < len(text) and text[at].isspace():
            at += 1
        steps.append(text[start:at])
    return [s for s in steps if s]


def numbered(
    texts: Sequence[str], first: int = 1, names: tuple[str, str] = ("step_id", "step_content")
) -> str:
    """Steps, or sentences, as JSON lines, so that their words cannot pass for anything else in a prompt."""
    number, content = names
    return "\n".join(
        json.dumps({number: n, content: clean(text).strip()}, ensure_ascii=False)
        for n, text in enumerate(texts, first)
    )


def groups(
    pieces: Sequence[str], most: int = PART, *, at_cues: bool = False
) -> list[tuple[int, list[str]]]:
    """(number of the first, pieces) in runs that fit into one call; each run has at least one piece.

    Args:
        pieces: steps or sentences.
        most: characters of a run.
        at_cues: begin a new run at a cue once a run is more than 60 % full.
    """
    runs: list[tuple[int, list[str]]] = []
    size = 0
    for number, piece in enumerate(pieces, 1):
        cue = at_cues and size > most * 0.6 and _CUE.match(piece)
        if not runs or size + len(piece) + FRAME > most or cue:
            runs.append((number, []))
            size = 0
        runs[-1][1].append(piece)
        size += len(piece) + FRAME
    return runs
