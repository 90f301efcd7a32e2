"""From replies to graded questions: the two stages of LAVE-idk, with any judge.

Stage 1, does the reply decline: by rules, or by the model of ``lave:MODEL``. Stage 2, how right is an answer to an
answerable question: by any judge of `demur.judge`; a partial credit counts where the judge gives one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from demur.core.records import AnswerSpec, Outcome, Response, Status
from demur.core.thinking import visible
from demur.judge.base import JudgeContext, close_judge, open_judge
from demur.judge.grading import Grading
from demur_suites.certainly_uncertain.items import Pair
from demur_suites.certainly_uncertain.measures import Graded, lave_idk
from demur_suites.grading import ask_of, at_once
from demur_suites.refusal import RefusalJudge, declines

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

    async def graded(self, pair: Pair, member: str, response: Response | None) -> Graded:
        """One question; its status says whether it was asked, failed or could not be judged."""
        id, (question, answer, _) = pair.question_id(member), pair.member(member)
        head = (id, pair.id, pair.category, member)
        if response is None:
            return Graded(*head, "not asked")
        if response.error or not visible(response.text).strip():
            return Graded(*head, "failed", why=response.error or "no reply")
        idk, credit, why = await self.credit(
            id, question, answer, member == "unanswerable", response
        )
        computed, stated = response.computed_confidence, response.confidence
        probability = stated if computed is None else computed
        return Graded(
            *head, "unjudged" if credit is None else "graded", idk, credit, probability, why
        )

    async def credit(
        self, id: str, question: str, answer: str, gold_idk: bool, response: Response
    ) -> tuple[bool | None, float | None, str]:
        """LAVE-idk by both stages: (whether it declines, credit, how it was judged); None where a judge cannot tell."""
        idk, why = await self.idk(question, response, id, answer)
        if idk is None:
            return None, None, why
        if idk or gold_idk:
            return idk, lave_idk(idk, gold_idk, None), why or ("declines" if idk else "answers")
        answers = AnswerSpec(accepted=((answer,),))
        said = response.model_copy(update={"abstained": None})  # stage 1 has decided
        verdict = await self._grading.verdict(ask_of(id, question), said, answers)
        rating = (
            verdict.credit
            if verdict.credit is not None
            else float(verdict.outcome is Outcome.CORRECT)
        )
        return idk, rating if verdict.status is Status.GRADED else None, verdict.reason

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


async def grade_all(
    evaluator: Evaluator, pairs: Sequence[Pair], outputs: Mapping[str, Response]
) -> list[Graded]:
    """Every question of the pairs graded, in their order."""
    return await at_once(
        [
            evaluator.graded(pair, member, outputs.get(pair.question_id(member)))
            for pair in pairs
            for member in pair.members
        ],
        AT_ONCE,
    )


async def first_stage(evaluator: Evaluator, pairs: Sequence[Pair]) -> FirstStage:
    """The first stage on the set's own answers, those of pairs from photos first: they name what is missing."""
    own = sorted(pairs, key=lambda pair: not pair.from_images)[:EVALUATED]
    found = []
    for member in ("unanswerable", "answerable"):
        given = [pair.member(member) for pair in own]
        read = await at_once(
            [evaluator.idk(q, Response(text=a), q, a) for q, a, _ in given], AT_ONCE
        )
        found.append([declined for declined, _ in read if declined is not None])
    idk, answer = found
    return sum(idk), len(idk), len(answer) - sum(answer), len(answer)
