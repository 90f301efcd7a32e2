"""Exports a release's questions to other evaluation frameworks, and grades the answers there as demur does.

Each row holds the messages that `demur run` sends to a model, and what a judge needs. `demur.evaluation.for_inspect`
and `demur.evaluation.for_lmms_eval` write the frameworks' own files; ``answers:LOG`` reads their logs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import (
    AnswerSpec,
    Ask,
    ImageRef,
    Message,
    Record,
    Response,
    Scenario,
    TextPart,
    Verdict,
)
from demur.core.store import Problems, read_records, write_atomic, write_records
from demur.core.thinking import split_thinking
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.judge.base import open_judge
from demur.judge.grading import Grading
from demur.release import Release
from demur.scenarios.conditions import condition
from demur.scenarios.render import render
from demur.scenarios.systems.model import read_reply

QUESTIONS = "questions.jsonl"
IMAGES = "images"


class Part(Record):
    """A text, or an image by its path relative to the questions' folder."""

    text: str = ""
    image: str = ""


class Turn(Record):
    """One message."""

    role: str
    parts: tuple[Part, ...]


class Question(Record):
    """One exported question."""

    id: str
    """Id of the ask; the log names the answer by it."""
    task: str
    """Its task: the scenario, with recipe and condition if several are exported."""
    messages: tuple[Turn, ...]
    ask: Ask
    answers: AnswerSpec


class Exported(NamedTuple):
    """What was written."""

    package: str
    tasks: dict[str, int]
    """Task -> questions."""


def slug(text: str) -> str:
    """A valid Python name for a module or function."""
    identifier = re.sub(r"\W+", "_", text.lower(), flags=re.ASCII).strip("_") or "release"
    return identifier if not identifier[0].isdigit() else f"_{identifier}"


def write_questions(release: Release, folder: Path, options: RunOptions) -> dict[str, int]:
    """Write ``questions.jsonl`` and ``images/`` with what `demur.evaluation.asking.ask` would ask a model.

    Returns:
        Task -> questions.

    Raises:
        UsageError: no sample can be asked this way, or a scenario needs a system with its own retriever.
    """
    if without_evidence := [
        str(r) for r in options.recipes if not Scenario(r.scenario).shows_evidence
    ]:
        raise UsageError(
            f"{without_evidence[0]} asks a system with its own retriever, and these frameworks ask models",
            cure="export parametric, oracle, realistic, adversarial",
        )
    recipes_of_scenario = Counter(r.scenario for r in options.recipes)
    written_images: set[str] = set()

    def place(ref: ImageRef) -> str:
        path = f"{IMAGES}/{ref.sha256[:32]}.{ref.media_type.rpartition('/')[2]}"
        if path not in written_images:
            written_images.add(path)
            write_atomic(folder / path, release.read_image(ref))
        return path

    def turn(message: Message) -> Turn:
        parts = (
            Part(text=p.text) if isinstance(p, TextPart) else Part(image=place(p.image))
            for p in message.parts
        )
        return Turn(role=message.role, parts=tuple(parts))

    counts: Counter[str] = Counter()

    def rows() -> Iterable[Question]:
        for task in questions.tasks(options, list(release.samples()), release.sha256):
            ask = task.ask
            name = ask.recipe if recipes_of_scenario[ask.scenario] > 1 else ask.scenario.value
            name = slug(f"{name} {ask.condition}" if len(options.conditions) > 1 else name)
            counts[name] += 1
            messages = render(ask, condition(ask.condition), options.prompt_texts).messages
            yield Question(
                id=ask.id,
                task=name,
                messages=tuple(map(turn, messages)),
                ask=ask,
                answers=task.sample.answers,
            )

    write_records(folder / QUESTIONS, rows())
    return dict(counts)


def read_questions(folder: Path, task: str) -> list[Question]:
    """The questions of one task.

    Raises:
        BadInput: the file is damaged.
    """
    problems = Problems()
    questions = [
        question
        for question in read_records(folder / QUESTIONS, Question, problems)
        if question.task == task
    ]
    problems.settle()
    return questions


class Judging:
    """Grades answers given in another framework exactly as a run of demur does."""

    def __init__(self, judge: str = "local") -> None:
        self.judge = open_judge(judge)
        self._grading = Grading(self.judge)

    async def verdict(
        self,
        ask: Ask,
        answers: AnswerSpec,
        text: str,
        *,
        reasoning: str = "",
        finish_reason: str = "",
        error: str = "",
    ) -> Verdict:
        """The verdict on one reply of a model."""
        thought, answer = split_thinking(text)
        asked_condition = condition(ask.condition)
        reply = Response(
            text=answer, reasoning=reasoning or thought, finish_reason=finish_reason, error=error
        )
        response = read_reply(
            reply,
            final="reasoning" in asked_condition.addons,
            stated="confidence" in asked_condition.addons,
        )
        return await self._grading.verdict(ask, response, answers)
