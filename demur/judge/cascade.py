"""The local judge where it is sure, a model where it is not: ``--judge "cascade:openai/gpt-4o?below=0.9"``.

The local judge costs nothing and says how sure it is of each verdict; what it is less sure of is put to the model. A
random share of the rest is put to the model too, so that the agreement of both is measured on every run. A model that
calls plain wrong answers correct is refused before it is asked anything else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Outcome, Request, Response, Status, Verdict
from demur.core.spec import Option, named
from demur.core.stats import wilson
from demur.core.store import seed_of
from demur.judge.attacks import attacks, question_of
from demur.judge.base import JudgeContext
from demur.judge.local import OPTIONS as LOCAL_OPTIONS
from demur.judge.local import LocalJudge
from demur.judge.measures.judge_error import EXACT
from demur.judge.model import ModelJudge

BELOW = 0.9
"""Probability of the local verdict below which the model is asked."""
SHARE = 0.05
"""Of what the local judge is sure of, the share that the model is asked about too."""
ASSUMED = 0.3
"""Share of answers that the model is assumed to be asked about, in a plan of answers that nobody knows yet."""
PLAIN_WRONG, MOST_CORRECT = 8, 1
"""Plain wrong answers (the carriers of `demur.judge.attacks`) that a model is tried on, and how many of them it may call
correct."""
OPTIONS = {
    "below": Option("the probability of the local verdict below which the model is asked", float),
    "share": Option("the share of other answers that the model is asked about too", float),
    **LOCAL_OPTIONS,
}


class Cascade:
    """The local judge, then a model.

    Args:
        argument: ``MODEL?below=0.9&share=0.05&phrases=FILE&thinking=TAGS``.
        context: ledger, budget, prices.

    Attributes:
        counts: ``local`` settled, ``model`` asked, ``checked`` of what was settled locally, ``both``: graded of these,
            ``agreed``.
    """

    asks_models = True
    expected_share = ASSUMED
    """Of answers that are not known yet."""

    def __init__(self, argument: str, context: JudgeContext | None = None) -> None:
        model, options = named("cascade", argument, OPTIONS)
        self.below = float(options.get("below", BELOW))
        self.share = float(options.get("share", SHARE))
        self.model = ModelJudge(model, context)
        local_options = [
            f"{name}={value}" for name, value in options.items() if name in LOCAL_OPTIONS
        ]
        self.local = LocalJudge("?" + "&".join(local_options) if local_options else "")
        local = self.local.id.removeprefix("local").replace("?", "&")
        self.id = f"{self.model.id.replace('model:', 'cascade:', 1)}?below={self.below:g}{local}"
        self.counts: Counter[str] = Counter()
        self._trial = asyncio.Lock()
        self._tried = False

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """The local verdict where it is sure, else the model's."""
        verdict = self.local.grade(ask, response, answers)
        if verdict.status is not Status.GRADED:
            return self._under_own_id(verdict)
        if not self._is_sure(verdict):
            by_model = await self._grade_by_model(ask, response, answers)
            self.counts["model"] += 1  # after the call, which may be put off until its batch
            return self._under_own_id(by_model)
        if self._is_checked(ask):
            second = await self._grade_by_model(ask, response, answers)
            self.counts["checked"] += 1
            if second.status is Status.GRADED:
                self.counts["both"] += 1
                self.counts["agreed"] += second.outcome is verdict.outcome
        self.counts["local"] += 1
        return self._under_own_id(verdict)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Model strings of its model."""
        return self.model.addresses

    def would_ask(self, ask: Ask, response: Response | None, answers: AnswerSpec) -> list[Request]:
        """As `ModelJudge.would_ask`; of an answer that is not known, the request if the local judge were not sure."""
        if response is not None:
            verdict = self.local.grade(ask, response, answers)
            if verdict.status is not Status.GRADED:
                return []
            if self._is_sure(verdict) and not self._is_checked(ask):
                return []
        return self.model.would_ask(ask, response, answers)

    def _is_checked(self, ask: Ask) -> bool:
        """Whether the model is asked although the local judge is sure."""
        return seed_of("cascade", ask.id) % 10_000 < self.share * 10_000

    def _is_sure(self, verdict: Verdict) -> bool:
        if verdict.probability is None:
            return verdict.method in EXACT
        return verdict.probability >= self.below

    def _under_own_id(self, verdict: Verdict) -> Verdict:
        return verdict.model_copy(update={"judge": self.id})

    @property
    def summary(self) -> str:
        """What it saved, and how far both agree, in one line; "" before the first verdict."""
        c = self.counts
        answers = c["local"] + c["model"]
        if not answers:
            return ""
        saved = c["local"] - c["checked"]
        line = (
            f"{self.id}: settled locally {c['local']:,} of {answers:,}, the model was asked about {c['model']:,}; "
            f"{saved:,} calls saved ({saved / answers:.0%})"
        )
        if c["both"]:
            low, high = wilson(c["agreed"], c["both"]) or (0.0, 1.0)
            line += (
                f"; on {c['both']:,} settled ones that it was asked too it agreed on {c['agreed']:,} "
                f"({c['agreed'] / c['both']:.0%}, 95 % interval {low:.0%} to {high:.0%})"
            )
        return line

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """As the model's; and the model is tried on wrong answers that need no judgement.

        Raises:
            PermanentError: no server answers, or the key is refused.
            UsageError: the model calls more than one of them correct.
        """
        lines = await self.model.ready(asks)
        try:
            await self._try_model()
        finally:
            await self.model.close()
        return lines

    async def _grade_by_model(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        async with self._trial:
            if not self._tried:
                await self._try_model()
        return await self.model.grade(ask, response, answers)

    async def _try_model(self) -> None:
        """Put plain wrong answers to the model: one that calls them correct judges nothing."""
        wrong = [question_of(attack, n) for n, attack in enumerate(islice(attacks(), PLAIN_WRONG))]
        verdicts = await asyncio.gather(*(self.model.grade(*item) for item in wrong))
        correct = sum(verdict.outcome is Outcome.CORRECT for verdict in verdicts)
        if correct > MOST_CORRECT:
            raise UsageError(
                f"the model calls {correct} of {len(wrong)} plain wrong answers correct",
                item=self.id,
                cure="name a model that can grade ('demur judge attack --judge model:MODEL' tries one), or --judge local",
            )
        self._tried = True

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()
