"""Baselines that need calls of their own, as systems: they run, resume and cost like any model.

    self_consistency:MODEL?n=10&judge=rules    n answers at T = 0.7; the one of a strict majority, else an abstention
    max_prob:MODEL                             an answer with the log-probabilities of its tokens
    p_true:MODEL                               an answer, and the probability that the model itself gives to it

Share of votes, MaxProb and P(True) are computed confidences, which nobody stated;
`demur_suites.mm_aqa.tables` tries thresholds on them. The baselines of stated confidence and of weighed evidence
(cotabs) need only the calls of a run. Source: appendix G.4.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from demur.core.errors import ItemError, TransientError
from demur.core.records import (
    AnswerSpec,
    Ask,
    Message,
    Outcome,
    Request,
    Response,
    TextPart,
    TokenLogprob,
)
from demur.core.spec import Option, named
from demur.core.store import digest
from demur.core.thinking import visible
from demur.judge.base import JudgeContext, close_judge, judge_code, open_judge
from demur.judge.grading import Grading
from demur.models.lenient import LenientModel
from demur.scenarios.systems.model import ModelSystem
from demur_suites.mm_aqa.conditions import filled
from demur_suites.mm_aqa.replies import read_reply

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext

ONE_WORD: dict[str, Any] = {
    "max_tokens": 1,
    "temperature": 0.0,
    "logprobs": True,
    "top_logprobs": 20,
}
"""Of the request: one token, and its likeliest candidates; servers that give fewer than 20 give fewer."""
_BLANK = " \n\t\u0120\u2581"


def yes_share(logprobs: Sequence[TokenLogprob]) -> float | None:
    """p(yes) / (p(yes) + p(no)) of the first token that is not blank, over all spellings.

    None without log-probabilities, or where neither word is among the candidates: undefined, never 0.
    """
    first = next((t for t in logprobs if t.token.strip(_BLANK)), None)
    if first is None:
        return None
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in dict([(first.token, first.logprob), *first.top]).items():
        word = token.strip(_BLANK + ".,!\"'*").casefold()
        if word in mass and not math.isnan(logprob):
            mass[word] += math.exp(min(logprob, 0.0))
    total = sum(mass.values())
    return mass["yes"] / total if total > 0 else None


TEMPERATURE = 0.7
_N: dict[str, Option | str] = {
    "n": Option("answers that are drawn", range(2, 101)),
    "judge": "decides which answers are the same",
}


class SelfConsistency(ModelSystem):
    """Abstains where no answer has a strict majority of the draws; an unreadable draw has no vote.

    Args:
        argument: a model string, and options behind a question mark.
        context: as of any model.
    """

    def __init__(self, argument: str, context: SystemContext) -> None:
        given = named("self_consistency", argument, _N)
        super().__init__(given.argument, context)
        self.n = int(given.options.get("n", 10))
        self.sampling = {"temperature": TEMPERATURE, **self.sampling}
        self._judge_name = given.options.get("judge", "local")
        self._judge = open_judge(self._judge_name, JudgeContext(ledger=context.ledger))
        self._grading = Grading(self._judge)
        self.id = f"self_consistency:{self.id.removeprefix('model:')}?n={self.n}"
        if "judge" in given.options:
            self.id += f"&judge={self._judge_name}"

    @property
    def revision(self) -> str:
        """Of the model and of the judge."""
        return digest([self.weights, judge_code(self._judge)], 16)

    async def answer(self, ask: Ask) -> Response:
        """N draws, clustered."""
        model, request = await self._opened(), self.request(ask)
        draws = [
            request.model_copy(update={"draw": request.draw * self.n + k}) for k in range(self.n)
        ]
        try:
            replies = await asyncio.gather(*(model.complete(r) for r in draws))
        except (ItemError, TransientError) as error:
            return Response(error=str(error))
        read = [read_reply(r, "base") for r in replies]
        clusters: list[list[int]] = []
        for place, drawn in enumerate(read):
            if drawn.problem:
                continue
            for cluster in clusters:
                first = read[cluster[0]]
                same = first.abstains == drawn.abstains
                if same and (drawn.abstains or await self._agree(ask, first.answer, drawn.answer)):
                    cluster.append(place)
                    break
            else:
                clusters.append([place])
        if not clusters:
            return Response(error=f"none of {self.n} draws is in the output schema")
        top = max(clusters, key=len)
        share = len(top) / self.n
        if 2 * len(top) > self.n and not read[top[0]].abstains:
            return replies[top[0]].model_copy(
                update={"computed_confidence": share, "abstained": False}
            )
        why = f"{len(top)} of {self.n} draws agree" + (
            " to abstain" if read[top[0]].abstains else ""
        )
        abstention = f"EXPLANATION - {why}\nFINAL ANSWER - I Don't Know"
        return Response(
            text=abstention,
            computed_confidence=share,
            abstained=True,
            served_by=replies[0].served_by,
        )

    async def _agree(self, ask: Ask, one: str, other: str) -> bool:
        if one.casefold() == other.casefold():
            return True
        verdict = await self._grading.verdict(
            ask, Response(text=other), AnswerSpec(accepted=((one,),))
        )
        return verdict.outcome is Outcome.CORRECT

    async def close(self) -> None:
        """The model's connection, and the judge's."""
        self._grading.close()
        await close_judge(self._judge)
        await super().close()


class MaxProb(ModelSystem):
    """A model with the log-probabilities of its tokens; a server without them leaves MaxProb undefined."""

    def __init__(self, argument: str, context: SystemContext) -> None:
        super().__init__(argument, context)
        self.sampling = {"logprobs": True, **self.sampling}
        self.id = f"max_prob:{self.id.removeprefix('model:')}"


class PTrue(ModelSystem):
    """A model, asked about each of its answers whether it is right: P(True), as CertainlyUncertain's P(pred).

    One more call for each answer, with the same images: the probability is p(yes) / (p(yes) + p(no)) of its first token
    (Kadavath et al., "Language Models (Mostly) Know What They Know", 2022). A server that sends no log-probabilities is
    asked no further: undefined, and counted.
    """

    def __init__(self, argument: str, context: SystemContext) -> None:
        super().__init__(argument, context)
        self.id = f"p_true:{self.id.removeprefix('model:')}"
        self._lenient: LenientModel | None = None
        self._silent = False

    async def answer(self, ask: Ask) -> Response:
        """The answer with its P(True) as computed confidence."""
        model, request = await self._opened(), self.request(ask)
        try:
            reply = await model.complete(request)
            answer = read_reply(reply, "base", "lenient").answer or visible(reply.text).strip()
            if reply.error or not answer or self._silent:
                return reply
            judged = await self._verdict(self.question(request, answer))
        except (ItemError, TransientError) as error:
            return Response(error=str(error))
        if judged is None:
            return reply
        self._silent = not judged.error and not judged.logprobs
        update = {
            "computed_confidence": yes_share(judged.logprobs),
            "asked_without": judged.asked_without,
        }
        return reply.model_copy(update=update)

    async def _verdict(self, question: Request) -> Response | None:
        """The model's word on its answer; None where it refuses that one question, which leaves the answer as it is."""
        self._lenient = self._lenient or LenientModel(await self._opened())
        try:
            return await self._lenient.complete(question)
        except ItemError:
            return None

    async def close(self) -> None:
        """The model's connection."""
        self._lenient = None
        await super().close()

    @staticmethod
    def question(request: Request, answer: str) -> Request:
        """The request that asks, with the same images and for one token, whether an answer is right."""
        *before, last = request.messages
        words = filled("p-true.v1.md", answer=answer)
        message = Message(role="user", parts=(*last.parts, TextPart(text=f"\n\n{words}")))
        return request.model_copy(update={"messages": (*before, message), **ONE_WORD})
