"""Grading one answer outside a run: the ask that a judge gets, and its verdict."""

from __future__ import annotations

import inspect
from typing import Any

from demur.core.records import AnswerSpec, Ask, Response, Scenario, Verdict
from demur.judge.base import Judge


def ask_of(id: str, question: str, **more: Any) -> Ask:
    """A question without evidence; ``more`` are further fields, such as images and choices."""
    return Ask(
        id=id, sample=more.pop("sample", id), context="", scenario=Scenario.PARAMETRIC, question=question, **more
    )


async def verdict_of(judge: Judge, ask: Ask, answer: Response | str, answers: AnswerSpec) -> Verdict:
    """The verdict of a judge, whether its ``grade`` is a coroutine or a plain function."""
    response = Response(text=answer) if isinstance(answer, str) else answer
    verdict = judge.grade(ask, response, answers)
    return await verdict if inspect.isawaitable(verdict) else verdict
