"""What a judge is, what one that asks a model is given, and how one is opened by name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from demur.core import plugins
from demur.core.code import SHORT, code_digest
from demur.core.records import AnswerSpec, Ask, ImageRef, Request, Response, Verdict
from demur.core.store import digest

if TYPE_CHECKING:
    from demur.models import Budget


COLUMNS = {
    "id": ("id", "_id", "question_id", "qid"),
    "question": ("question", "query", "q", "prompt", "input", "user_input"),
    "answers": (
        "answers",
        "expected_answer",
        "expected",
        "accepted",
        "reference",
        "ground_truth",
        "ground_truths",
        "answer",
    ),
    "response": ("response", "prediction", "output", "answer"),
}
"""Usual names of the columns of a table; ``answer`` is the response where another column has the right answers."""


class Judge(Protocol):
    """Whoever grades; a rule judge answers at once, a model judge may be awaited.

    One whose class says ``asks_models = True`` is made with a `JudgeContext` as its second argument. ``async close()``,
    where it has one, is called when a run ends. `AsksModel` is what a plan needs to know of it.
    """

    id: str

    def grade(
        self, ask: Ask, response: Response, answers: AnswerSpec
    ) -> Verdict | Awaitable[Verdict]:
        """One verdict for one response."""
        ...


@runtime_checkable
class AsksModel(Protocol):
    """A judge whose cost can be planned."""

    addresses: Sequence[str]
    """Model strings of the model that it asks."""
    expected_share: float
    """Share of answers, in [0, 1], that the model is expected to be asked about when nobody knows them yet."""

    def would_ask(
        self, ask: Ask, response: Response | None, answers: AnswerSpec
    ) -> Sequence[Request]:
        """The requests that grading a response would send; None is a response that nobody knows yet."""
        ...


def asking_judges(judge: Judge) -> list[AsksModel]:
    """Of a judge and its members, those whose cost can be planned."""
    members = getattr(judge, "members", (judge,))
    return [member for member in members if isinstance(member, AsksModel)]


@dataclass
class JudgeContext:
    """What a judge that asks a model is given by whoever opens it."""

    ledger: Path | None = None
    """Where its calls are kept and paid for once."""
    concurrency: int | None = None
    """Calls in flight per endpoint."""
    budget: Budget | None = None
    """Money that it may spend."""
    prices: Path | None = None
    """A price table that overlays the shipped one."""
    repeat: int = 0
    """Which of several independent verdicts on the same answers this is: replies of another one are not reused."""
    unmasked: bool = False
    """Whether its model sees answers with what imitates a grader, to measure what the mask blocks."""
    read_image: Callable[[ImageRef], bytes] | None = None
    """Bytes of images, for a judge of your own that shows them to its model."""


def answer_spec(accepted: Iterable[str], kind: str = "string", choices: Any = ()) -> AnswerSpec:
    """What is right, as files of answers to grade state it.

    Args:
        accepted: forms of the answer, each of which is right.
        kind: of the answer; ``choice`` where there are choices.
        choices: letter -> text of the options.

    Raises:
        ValidationError: no such kind, or options that are none.
    """
    options: Any = choices
    if isinstance(choices, Mapping):
        options = [(str(label), str(text)) for label, text in choices.items()]
    return AnswerSpec.model_validate(
        {
            "accepted": [(form,) for form in accepted],
            "kind": "choice" if options else kind,
            "choices": options,
        }
    )


_ADDRESS = re.compile(r"https?://|openai/|any-llm:|hf:[^/]*/")
"""How a model's address begins that cannot be the name of a judge."""


def open_judge(text: str, context: JudgeContext | None = None) -> Judge:
    """The judge that a name stands for.

    Args:
        text: ``local``, ``model:openai/gpt-4o``, ``cascade:MODEL``, ``panel:J1,J2``, ``lave:MODEL``, ``module:Class``;
            ``openai/gpt-4o`` or ``http://...#name`` alone is ``model:`` of it.
        context: for one that asks a model: ledger, budget.

    Raises:
        UnknownPart: no judge has that name; lists those that exist.
    """
    factory, argument = plugins.find("judges", f"model:{text}" if _ADDRESS.match(text) else text)
    judge: Judge
    if getattr(factory, "asks_models", False):
        judge = factory(argument, context)
    else:
        judge = factory(argument) if argument else factory()
    return judge


async def close_judge(judge: Judge) -> None:
    """Let a judge that asks a model go of its connection; the next run has another event loop."""
    if hasattr(judge, "close"):
        await judge.close()


def judge_code(judge: Judge) -> str:
    """The ``version`` of a judge, if any, and of a judge that is not demur's its code."""
    version = str(getattr(judge, "version", ""))
    is_builtin = type(judge).__module__.startswith("demur.")
    return version if is_builtin else digest([version, code_digest(judge)], SHORT)
