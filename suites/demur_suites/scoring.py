"""From replies to scores: one list of graded replies a model, which every figure is counted from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from demur.core.errors import DemurError, UsageError
from demur.core.records import Outcome, Response, Sample, Status
from demur.models.run import run_sync
from demur_suites.contract import Contract
from demur_suites.grading import at_once
from demur_suites.records import Grade, Grader, Outputs, Scored

AT_ONCE = 64
"""Replies graded at a time."""


async def graded(grade: Grader, response: Response, question: Sample) -> Grade:
    """The grade of one reply, of a run as of a table: a failed call fails, and who says that it declines declines.

    Raises:
        DemurError: what ends all grading, such as a judge's endpoint that is gone.
    """
    try:
        verdict = await grade(response, question)
    except DemurError:
        raise
    except Exception as error:  # anybody's code
        return Grade(Status.UNJUDGED, None, f"its verdict raised {error!r:.200}")
    if response.error:
        return verdict._replace(status=Status.FAILED, outcome=None, reason=response.error)
    if response.abstained:
        reason = "the system itself says that it gives no answer"
        return verdict._replace(status=Status.GRADED, outcome=Outcome.DEFLECTED, reason=reason)
    return verdict


class Result(NamedTuple):
    """One model's graded replies, one for each question, and the score that is counted from them."""

    model: str
    scored: tuple[Scored, ...]
    score: Any


def score_models(
    suite: Contract[Any, Any],
    items: Sequence[Any],
    outputs: Outputs,
    *,
    models: str | Sequence[str] = (),
    skip_bad: bool = False,
    **options: Any,
) -> list[Result]:
    """The result of each model, in the order of ``models`` or of ``outputs``.

    Args:
        suite: of the items.
        items: of the suite.
        outputs: replies of models.
        models: score only these.
        skip_bad: ignore replies to questions that are not among the items (their items were left out as bad).
        options: of the score.

    Raises:
        UsageError: no such model or option, or a value that an option does not take.
    """
    names = [models] if isinstance(models, str) else [*models] or [*outputs]
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise UsageError(f"no outputs of {unknown[0]!r}; there are {', '.join(outputs) or 'none'}")
    if not outputs:
        raise UsageError(
            "there are no outputs to score",
            cure=f"run a system: demur suite run {suite.spelled} ITEMS",
        )
    values = suite.check_options(options)
    questions = list(suite.scored_questions(items))
    ids = {question.id for question in questions}
    for name in names:
        strangers = sorted(set(outputs[name]) - ids)
        if strangers and not (skip_bad and len(strangers) < len(outputs[name])):
            raise UsageError(
                f"{len(strangers)} of {len(outputs[name])} outputs of {name!r} belong to no question of "
                f"these items, the first is {strangers[0]!r}",
                cure=f"give the items that they were made for; ids of theirs are like {min(ids)!r}",
            )

    async def grade_all() -> list[tuple[Scored, ...]]:
        async with suite.grading(items, **values) as grade:

            async def scored(question: Sample, response: Response | None) -> Scored:
                if response is None:
                    return Scored(question)
                return Scored(question, response, await graded(grade, response, question))

            replies = [(q, outputs[name].get(q.id)) for name in names for q in questions]
            flat = await at_once([scored(*reply) for reply in replies], AT_ONCE)
        n = len(questions)
        return [tuple(flat[place * n : (place + 1) * n]) for place in range(len(names))]

    return [
        Result(name, scored, suite.score(name, items, scored, **values))
        for name, scored in zip(names, run_sync(grade_all()), strict=True)
    ]
