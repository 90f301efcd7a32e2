"""A release's questions as rows that another evaluation framework asks, and their answers judged there as here.

Each row holds the messages that `demur run` sends a model, and what a judge needs. The frameworks' own files are made
in `demur.evaluation.for_inspect` and `demur.evaluation.for_lmms_eval`; their logs come back as ``answers:LOG``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, ImageRef, Message, Record, Response, Scenario, TextPart, Verdict
from demur.core.store import Problems, read_records, write_atomic, write_records
from demur.evaluation.asking import drawn, tasks_of
from demur.judge.base import open_judge
from demur.judge.grading import Grading
from demur.models.wire import split_thinking
from demur.release import Release
from demur.scenarios.conditions import Condition, Prompts, condition
from demur.scenarios.contexts import Recipe
from demur.scenarios.render import render
from demur.scenarios.systems.model import read_reply

QUESTIONS = "questions.jsonl"
IMAGES = "images"


class Part(Record):
    """A run of text, or an image by its path from the folder of the questions."""

    text: str = ""
    image: str = ""


class Turn(Record):
    """One message."""

    role: str
    parts: tuple[Part, ...]


class Question(Record):
    """One question as it is asked elsewhere, and judged."""

    id: str
    """Of the ask: its answer comes back under it."""
    task: str
    """Which of the tasks it belongs to: a scenario, with recipe and condition where several are exported."""
    messages: tuple[Turn, ...]
    ask: Ask
    answers: AnswerSpec


class Exported(NamedTuple):
    """What was written."""

    package: str
    tasks: dict[str, int]
    """Task -> questions."""


def slug(text: str) -> str:
    """A name that Python takes for a module or function."""
    made = re.sub(r"\W+", "_", text.lower(), flags=re.ASCII).strip("_") or "release"
    return made if not made[0].isdigit() else f"_{made}"


def write_questions(
    release: Release,
    folder: Path,
    *,
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    seed: int = 0,
    limit: int | None = None,
    repeat: int = 1,
    text_only: bool = False,
    prompts: Prompts | None = None,
) -> dict[str, int]:
    """Write ``questions.jsonl`` and ``images/`` of what `demur.evaluation.asking.ask` would ask a model.

    Returns:
        Task -> questions.

    Raises:
        UsageError: no sample can be asked this way, or a scenario needs a retriever that a model does not have.
    """
    if whole := [str(r) for r in recipes if not Scenario(r.scenario).shows_evidence]:
        raise UsageError(
            f"{whole[0]} asks a system with its own retriever, and these frameworks ask models",
            cure="export parametric, oracle, realistic, adversarial",
        )
    prompts = prompts or Prompts()
    samples = drawn(list(release.samples()), limit, seed, text_only=text_only)
    several = Counter(r.scenario for r in recipes)
    seen: set[str] = set()

    def place(ref: ImageRef) -> str:
        path = f"{IMAGES}/{ref.sha256[:32]}.{ref.media_type.rpartition('/')[2]}"
        if path not in seen:
            seen.add(path)
            write_atomic(folder / path, release.read_image(ref))
        return path

    def turn(message: Message) -> Turn:
        parts = (Part(text=p.text) if isinstance(p, TextPart) else Part(image=place(p.image)) for p in message.parts)
        return Turn(role=message.role, parts=tuple(parts))

    counts: Counter[str] = Counter()

    def rows() -> Iterable[Question]:
        for task in tasks_of(samples, recipes, conditions, prompts, seed, repeat):
            ask = task.ask
            name = ask.recipe if several[ask.scenario] > 1 else ask.scenario.value
            name = slug(f"{name} {ask.condition}" if len(conditions) > 1 else name)
            counts[name] += 1
            made = render(ask, condition(ask.condition), prompts).messages
            yield Question(id=ask.id, task=name, messages=tuple(map(turn, made)), ask=ask, answers=task.sample.answers)

    write_records(folder / QUESTIONS, rows())
    return dict(counts)


def read_questions(folder: Path, task: str) -> list[Question]:
    """The questions of one task.

    Raises:
        BadInput: the file is damaged.
    """
    problems = Problems()
    found = [one for one in read_records(folder / QUESTIONS, Question, problems) if one.task == task]
    problems.settle()
    return found


class Judging:
    """Verdicts on answers that were given elsewhere, the same that a run of demur gives them.

    Args:
        judge: by name.
    """

    def __init__(self, judge: str = "rules") -> None:
        self.judge = open_judge(judge)
        self._grading = Grading(self.judge)

    async def verdict(
        self, ask: Ask, answers: AnswerSpec, text: str, *, reasoning: str = "", finish_reason: str = "", error: str = ""
    ) -> Verdict:
        """Of one reply of a model."""
        thought, said = split_thinking(text)
        how = condition(ask.condition)
        reply = Response(text=said, reasoning=reasoning or thought, finish_reason=finish_reason, error=error)
        read = read_reply(reply, final="reasoning" in how.addons, stated="confidence" in how.addons)
        return await self._grading.verdict(ask, read, answers)
