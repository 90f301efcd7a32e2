"""What a question depends on: its picture (modality dependency), or a kind of evidence (evidence sufficiency).

One model call judges image dependency where a model is given, else rules do; kinds of evidence follow from rules.
Source: appendices C.2 and C.3.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal, NamedTuple

Kind = Literal[
    "counting", "aggregation", "comparative", "visual", "extractive", "temporal", "descriptive"
]
TRIGGERS: dict[Kind, str] = {
    "counting": r"\bhow many\b|\bnumber of\b",
    "aggregation": r"\bsum\b|\btotal\b|\baverage\b|\bmean\b",
    "comparative": r"\b(?:(?:high|low|larg|small)est|most|least|difference between|compared? (?:to|with))\b",
    "visual": r"\b(?:chart|graph|figure|image|picture|photo|diagram|map|flag|colou?r)s?\b",
    "extractive": r"\b(?:what|who|which) (?:is|was|are|were)\b|\bname the\b|\bin which\b|^which\b|^what\b",
    "temporal": r"\bFY ?\d{2,4}\b|\bQ[1-4]\b|\b(?:in|by|of|since|year|during) (?:the year )?(?:1[5-9]|20)\d\d\b",
    "descriptive": r"\b(?:describe|explain|summari[sz]e)\b",
}
"""Kinds of question about documents, in their order of priority (table 6)."""
WORDS: dict[Kind, str] = {
    "counting": "how many, number of",
    "aggregation": "sum, total, average, mean",
    "comparative": "highest, lowest, largest, smallest, most, least, difference between, compared to",
    "visual": "chart, graph, figure, image, picture, photo, diagram, map, flag, colour",
    "extractive": "what is, who is, which is, name the; a question that begins with what or which",
    "temporal": "FY2020, Q3, in 2020",
    "descriptive": "describe, explain, summarise; all other questions",
}
"""The same in words."""


def question_kind(question: str) -> Kind:
    """The first kind by priority whose words stand in it; descriptive without any.

    >>> question_kind("How many charts show the total?")
    'counting'
    """
    return next(
        (k for k, p in TRIGGERS.items() if re.search(p, question, re.IGNORECASE)), "descriptive"
    )


def kinds(question: str) -> tuple[Kind, ...]:
    """All kinds whose words stand in it, by priority."""
    return tuple(k for k, p in TRIGGERS.items() if re.search(p, question, re.IGNORECASE))


class Dependency(StrEnum):
    """How much a question needs its picture."""

    DECORATIVE = "decorative"
    PARTIAL = "partial"
    ESSENTIAL = "essential"
    EXCLUSIVE = "exclusive"

    @property
    def on_image(self) -> bool:
        """Whether changing the picture takes the answer away."""
        return self in (Dependency.ESSENTIAL, Dependency.EXCLUSIVE)


class Judged(NamedTuple):
    """A dependency, who judged it (``model`` or ``rules``), and the reason."""

    dependency: Dependency
    by: str
    why: str


_VISUAL = re.compile(
    r"<image|\b(?:image|picture|photo|photograph|figure|diagram|graph|chart|plot|map|flag|shown|pictured|shows?|above|"
    r"below|depicted|outline)\b",
    re.I,
)
_POINTS = re.compile(r"\b(?:this|these|that|those|here)\b", re.I)
_FORMULA = re.compile(r"[=^\\]|\bsqrt\b|\b\w\s*[+*/]\s*\w\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def visual_words(question: str) -> float:
    """How much a question points at something seen: words for pictures, and half the number of pointing words.

    >>> visual_words("What is this in the photo?")
    1.5
    """
    return len(_VISUAL.findall(question)) + 0.5 * len(_POINTS.findall(question))


def dependency_by_rules(question: str, n_images: int) -> Judged:
    """Numbers and formulas make a text sufficient, words for pictures make it depend on one (appendix C.2).

    >>> dependency_by_rules("What is shown in <image 1>?", 1).dependency.value
    'exclusive'
    """
    words = max(len(question.split()), 1)
    density = len(_NUMBER.findall(re.sub(r"<image \d+>", "", question))) / words
    formula = len(_FORMULA.findall(question))
    visual = visual_words(question)
    text = 8 * density + min(formula, 3)
    why = f"numbers per word {density:.2f}, formulas {formula}, words for pictures {visual:g}"
    if not n_images:
        return Judged(Dependency.DECORATIVE, "rules", "no picture")
    if visual >= 1 and text < 0.5:
        return Judged(Dependency.EXCLUSIVE, "rules", why)
    if visual >= 0.5 * text or visual >= 1:
        return Judged(Dependency.ESSENTIAL, "rules", why)
    return Judged(Dependency.PARTIAL if text < 3 else Dependency.DECORATIVE, "rules", why)


def read_dependency(reply: str) -> Dependency | None:
    """The one level that a model's reply names in its last line that names any; None where it is none or several."""
    for line in reversed(reply.strip().splitlines()):
        named = {d for d in Dependency if re.search(rf"\b{d.value}\b", line, re.IGNORECASE)}
        if named:
            return named.pop() if len(named) == 1 else None
    return None
