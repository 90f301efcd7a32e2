"""MMDocRAG: quotes cited against gold quotes; and the short answer's required parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from demur.answers import holds
from demur.core.records import AnswerSpec


class Citations(NamedTuple):
    """Set precision, recall and F1 of the quotes that a response cites."""

    precision: float
    recall: float
    f1: float


def cited(response: str) -> frozenset[str]:
    """Quote ids in a response: ``[3]`` is text3, ``(image2)`` is image2; hidden reasoning is not read.

    >>> sorted(cited("<think>[9]</think>As stated [1], ![pier](image1)"))
    ['image1', 'text1']
    """
    visible = response.rpartition("</think>")[2]
    texts = {f"text{n}" for n in re.findall(r"\[(\d+)\]", visible)}
    return frozenset(texts | {f"image{n}" for n in re.findall(r"\(image(\d+)\)", visible)})


def citations(response: str, gold: Iterable[str]) -> Citations:
    """Scores of the cited quotes against the gold ones; 0 where a side is empty.

    >>> citations("[1] and (image2)", ["text1", "image3"])
    Citations(precision=0.5, recall=0.5, f1=0.5)
    """
    cited_quotes, gold_quotes = cited(response), frozenset(gold)
    shared = len(cited_quotes & gold_quotes)
    precision, recall = (
        shared / len(cited_quotes) if cited_quotes else 0.0,
        shared / len(gold_quotes) if gold_quotes else 0.0,
    )
    return Citations(
        precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0
    )


def score(answers: AnswerSpec, prediction: str) -> float:
    """1 when the short answer is stated with all of its required parts, else 0.

    The source grades answers by BLEU, ROUGE and a model; this is the rule-based stand-in over ``answer_short``.
    """
    return float(holds(answers, prediction.rpartition("</think>")[2]))
