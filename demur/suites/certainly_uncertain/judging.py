"""From replies to graded questions: LAVE-idk's two stages with the judges there are.

Stage 1, does the reply decline: by rules, or by the model of ``lave:MODEL``. Stage 2, how right is an answer to a
question that has one: by any judge of `demur.judge`; a partial credit counts where the judge gives one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

from demur.core.records import AnswerSpec, Ask, Outcome, Response, Scenario, Status
from demur.judge.base import JudgeContext, close_judge, open_judge
from demur.judge.refusal import RefusalJudge, declines
from demur.judge.rules import visible
from demur.suites.certainly_uncertain.items import Pair
from demur.suites.certainly_uncertain.measures import Graded, lave_idk

_AT_ONCE = 64
"""Questions judged at a time."""
EVALUATED = 100
"""Members of each kind on which the first stage itself is tried."""


class Evaluator:
    """Both stages of one judge; `close` it when done.

    Args:
        judge: ``rules``, ``lave:MODEL``, or any other judge for the second stage.
        ledger: keeps what a model judge replied; None keeps nothing.
    """

    def __init__(self, judge: str = "rules", ledger: Path | None = None) -> None:
        context = JudgeContext(ledger=ledger)
        self.id = judge
        self._second = open_judge(judge, context)
        kind, _, model = judge.partition(":")
        self._first = RefusalJudge(model, context) if kind == "lave" else None

    async def idk(self, question: str, response: Response, id: str) -> tuple[bool | None, str]:
        """(whether it declines, why nobody can say)."""
        if self._first is None:
            return declines(response.text), ""
        return await self._first.declines(_ask(id, question), response)

    async def rating(self, question: str, answer: str, response: Response, id: str) -> tuple[float | None, str]:
        """(credit of an answer, how it was judged)."""
        asked = self._second.grade(_ask(id, question), response, AnswerSpec(accepted=((answer,),)))
        verdict = await asked if inspect.isawaitable(asked) else asked
        if verdict.status is not Status.GRADED:
            return None, verdict.reason
        if verdict.credit is not None:
            return verdict.credit, verdict.reason
        return float(verdict.outcome is Outcome.CORRECT), verdict.reason

    async def graded(self, pair: Pair, member: str, response: Response | None) -> Graded:
        """One question; what was not asked, failed or cannot be judged says so."""
        id, (question, answer, _) = pair.question_id(member), pair.member(member)
        head = (id, pair.id, pair.category, member)
        if response is None:
            return Graded(*head, "not asked")
        if response.error or not visible(response.text).strip():
            return Graded(*head, "failed", why=response.error or "no reply")
        idk, why = await self.idk(question, response, id)
        if idk is None:
            return Graded(*head, "ungraded", None, None, response.confidence, why)
        gold = member == "unanswerable"
        rating = None
        if not (idk or gold):
            rating, why = await self.rating(question, answer, response, id)
        credit = lave_idk(idk, gold, rating)
        return Graded(*head, "ungraded" if credit is None else "graded", idk, credit, response.confidence,
                      why or ("declines" if idk else "answers"))  # fmt: skip

    async def close(self) -> None:
        """Let go of connections."""
        for judge in (self._first, self._second):
            if judge is not None:
                await close_judge(judge)


async def grade_all(
    pairs: Sequence[Pair], outputs: Mapping[str, Response], judge: str, ledger: Path | None
) -> tuple[list[Graded], tuple[int, int, int, int]]:
    """Every question of the pairs graded, in their order; and how the first stage reads the set's own answers."""
    evaluator = Evaluator(judge, ledger)
    jobs = [(pair, member) for pair in pairs for member in pair.members]
    made: list[Graded] = []
    try:
        for start in range(0, len(jobs), _AT_ONCE):
            made += await asyncio.gather(
                *(evaluator.graded(p, m, outputs.get(p.question_id(m))) for p, m in jobs[start : start + _AT_ONCE])
            )
        tried = pairs[:EVALUATED]
        found = []
        for member in ("unanswerable", "answerable"):
            told = [pair.member(member) for pair in tried]
            found.append(await asyncio.gather(*(evaluator.idk(q, Response(text=a), q) for q, a, _ in told)))
    finally:
        await evaluator.close()
    idk, answer = ([v for v, _ in one if v is not None] for one in found)
    return made, (sum(idk), len(idk), len(answer) - sum(answer), len(answer))


def _ask(id: str, question: str) -> Ask:
    return Ask(id=id, sample=id, context="", scenario=Scenario.PARAMETRIC, question=question)
