"""The scenarios of a release as plain rows, for tools that read a dataset of the Hub as it is (inspect, by ``eval.yaml``).

Each row is one question in the prompt that `demur run` sends. Rows are text alone: a question is left out where it or
its evidence has a picture, because such a tool shows one picture a row at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from demur.core.records import Sample, TextPart
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.release.tasks import ScenarioRow
from demur.scenarios.conditions import condition
from demur.scenarios.render import render

DECLINES = "declines to answer: the documents do not hold the answer"
"""Target of a question to which no answer is right."""


def scenario_rows(samples: Sequence[Sample]) -> dict[str, list[ScenarioRow]]:
    """Scenario -> its questions, in the order of the samples; scenarios without a question of text alone are left out."""
    options = RunOptions()
    rows: dict[str, list[ScenarioRow]] = {}
    for task in questions.tasks(options, samples):
        text = _prompt(task, options)
        if text is not None:
            target = (
                task.sample.answers.display_form if task.context.expected == "answer" else DECLINES
            )
            rows.setdefault(task.ask.scenario.value, []).append(
                ScenarioRow(task.ask.id, task.sample.id, text, target)
            )
    return rows


def _prompt(task: Task, options: RunOptions) -> str | None:
    """What a model is sent, as one text; None where it holds a picture."""
    messages = render(task.ask, condition(task.ask.condition), options.prompt_texts).messages
    parts = [part for message in messages for part in message.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n\n".join(texts) if len(texts) == len(parts) else None
