"""From replies to graded questions: the two stages of LAVE-idk, with any judge.

Stage 1, does the reply decline: by rules, or by the model of ``lave:MODEL``. Stage 2, how right is an answer to an
answerable question: by any judge of `demur.judge`; a partial credit counts where the judge gives one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from demur.core.records import Outcome, Response, Sample, Status
from demur.core.thinking import visible
from demur.judge.base import JudgeContext, close_judge, open_judge
from demur.judge.grading import Grading
from demur_suites.certainly_uncertain.items import Pair
from demur_suites.certainly_uncertain.measures import Reading, lave_idk
from demur_suites.certainly_uncertain.refusal import RefusalJudge, declines
from demur_suites.grading import ask_of, at_once
from demur_suites.records import Grade

AT_ONCE = 64
"""Questions judged at a time."""
EVALUATED = 100
"""Members of each kind on which the first stage itself is evaluated."""


class Evaluator:
    """Both stages of one judge, in an ``async with``.

    Args:
        judge: ``rules``, ``lave:MODEL``, or any other judge for the second stage.
        ledger: keeps what a model judge replied; None keeps nothing.
    """

    def __init__(self, judge: str = "local", ledger: Path | None = None) -> None:
        context = JudgeContext(ledger=ledger)
        self.id = judge
        self._second = open_judge(judge, context)
        self._grading = Grading(self._second)
        kind, _, model = judge.partition(":")
        self._first = RefusalJudge(model, context) if kind == "lave" else None

    async def idk(
        self, question: str, response: Response, id: str, answer: str
    ) -> tuple[bool | None, str]:
        """(whether it declines; None with the reason where the judge could not tell)."""
        if self._first is None:
            return declines(response.text, question), ""
        return await self._first.declines(ask_of(id, question), response, (answer,))

    async def grade(self, response: Response, question: Sample) -> Grade:
        """LAVE-idk of a reply by both stages; unjudged where a judge cannot tell.

        Whoever declines, or should, is right if both, and needs no rating.
        """
        if response.error or not visible(response.text).strip():
            return Grade(Status.FAILED, None, response.error or "no reply")
        computed, stated = response.computed_confidence, response.confidence
        reading = Reading(probability=stated if computed is None else computed)
        idk, why = await self._declines(response, question)
        if idk is None:
            return Grade(Status.UNJUDGED, None, why, reading)
        gold_idk = not question.answerable
        if idk or gold_idk:
            outcome = Outcome.DEFLECTED if idk else Outcome.INCORRECT
            why = why or ("declines" if idk else "answers what cannot be answered")
            reading = reading._replace(idk=idk, credit=lave_idk(idk, gold_idk, None))
            return Grade(Status.GRADED, outcome, why, reading)
        verdict = await self._grading.verdict(
            ask_of(question.id, question.question),
            response.model_copy(update={"abstained": None}),  # stage 1 has decided
            question.answers,
        )
        if verdict.outcome is None:
            return Grade(verdict.status, None, verdict.reason, reading._replace(idk=idk))
        right = verdict.outcome is Outcome.CORRECT
        credit = float(right) if verdict.credit is None else verdict.credit
        return Grade(
            Status.GRADED,
            Outcome.CORRECT if right else Outcome.INCORRECT,
            verdict.reason,
            reading._replace(idk=idk, credit=credit),
        )

    async def _declines(self, response: Response, question: Sample) -> tuple[bool | None, str]:
        if response.abstained:
            return True, "the system itself says that it gives no answer"
        answer = question.answers.accepted[0][0]
        return await self.idk(question.question, response, question.id, answer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close connections."""
        self._grading.close()
        for judge in (self._first, self._second):
            if judge is not None:
                await close_judge(judge)


FirstStage = tuple[int, int, int, int]
"""How a first stage reads the set's own answers: gold IDK read as IDK, of n; other answers read as answers, of n."""


async def first_stages(
    judges: Sequence[str], pairs: Sequence[Pair], ledger: Path | None
) -> dict[str, FirstStage]:
    """The first stage of each judge on the set's own answers."""
    stages = {}
    for judge in judges:
        async with Evaluator(judge, ledger) as evaluator:
            stages[judge] = await first_stage(evaluator, pairs)
    return stages


async def first_stage(evaluator: Evaluator, pairs: Sequence[Pair]) -> FirstStage:
    """The first stage on the set's own answers, those of pairs from photos first: they name what is missing."""
    evaluated = sorted(pairs, key=lambda pair: not pair.from_images)[:EVALUATED]
    declined_by_member = []
    for member in ("unanswerable", "answerable"):
        members = [pair.member(member) for pair in evaluated if member in pair.members]
        read = await at_once(
            [evaluator.idk(q, Response(text=a), q, a) for q, a, _ in members], AT_ONCE
        )
        declined_by_member.append([declined for declined, _ in read if declined is not None])
    idk, answer = declined_by_member
    return sum(idk), len(idk), len(answer) - sum(answer), len(answer)
