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
from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Status, Verdict
from demur.core.stats import wilson
from demur.core.store import seed_of
from demur.judge.attacks import attacks, question_of
from demur.judge.base import JudgeContext
from demur.judge.local import LocalJudge
from demur.judge.model import ModelJudge

BELOW = 0.9
"""Probability of the local verdict below which the model is asked."""
SHARE = 0.05
"""Of what the local judge is sure of, the share that the model is asked about too."""
EXACT = frozenset({Method.CHOICE, Method.NUMBER, Method.DATE, Method.MATCH})
"""Methods of which a verdict is sure though it states no probability."""
PLAIN_WRONG, MOST_CORRECT = 8, 1
"""Plain wrong answers (the carriers of `demur.judge.attacks`) that a model is tried on, and how many of them it may call
correct."""
OPTIONS = ("below", "share", "phrases")


class Cascade:
    """The local judge, then a model.

    Args:
        argument: ``MODEL?below=0.9&share=0.05&phrases=FILE``; its options stand behind the last question mark, so that
            an address may hold others.
        context: ledger, budget, prices.

    Attributes:
        counts: ``local`` settled, ``model`` asked, ``checked`` of what was settled locally, ``both``: graded of these,
            ``agreed``.
    """

    asks_models = True

    def __init__(self, argument: str, context: JudgeContext | None = None) -> None:
        model, options = options_behind(argument)
        self.below = _share(options.get("below", ""), BELOW)
        self.share = _share(options.get("share", ""), SHARE)
        self.model = ModelJudge(model, context)
        self.local = LocalJudge(f"?phrases={options['phrases']}" if "phrases" in options else "")
        own = self.local.id.removeprefix("local").replace("?", "&")
        self.id = f"{self.model.id.replace('model:', 'cascade:', 1)}?below={self.below:g}{own}"
        self.counts: Counter[str] = Counter()

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """The local verdict where it is sure, else the model's."""
        verdict = self.local.grade(ask, response, answers)
        if verdict.status is not Status.GRADED:
            return self._as_mine(verdict)
        if not self._is_sure(verdict):
            self.counts["model"] += 1
            return self._as_mine(await self.model.grade(ask, response, answers))
        self.counts["local"] += 1
        if seed_of("cascade", ask.id) % 10_000 < self.share * 10_000:
            self.counts["checked"] += 1
            second = await self.model.grade(ask, response, answers)
            if second.status is Status.GRADED:
                self.counts["both"] += 1
                self.counts["agreed"] += second.outcome is verdict.outcome
        return self._as_mine(verdict)

    def _is_sure(self, verdict: Verdict) -> bool:
        if verdict.probability is None:
            return verdict.method in EXACT
        return verdict.probability >= self.below

    def _as_mine(self, verdict: Verdict) -> Verdict:
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
        wrong = [question_of(attack, n) for n, attack in enumerate(islice(attacks(), PLAIN_WRONG))]
        try:
            verdicts = await asyncio.gather(*(self.model.grade(*item) for item in wrong))
        finally:
            await self.model.close()
        correct = sum(verdict.outcome is Outcome.CORRECT for verdict in verdicts)
        if correct > MOST_CORRECT:
            raise UsageError(
                f"the model calls {correct} of {len(wrong)} plain wrong answers correct",
                item=self.id,
                cure="name a model that can grade ('demur judge attack --judge model:MODEL' tries one), or --judge local",
            )
        return lines

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


def options_behind(argument: str) -> tuple[str, dict[str, str]]:
    """A model string and the options behind its last question mark.

    >>> options_behind("http://host/v1?key=1#m?below=0.8")
    ('http://host/v1?key=1#m', {'below': '0.8'})

    Raises:
        UsageError: an option that a cascade does not have, or one written twice.
    """
    model, mark, tail = argument.rpartition("?")
    pairs = [pair.partition("=") for pair in tail.split("&")] if mark else []
    if not mark or "#" in tail:  # the question mark is the address's
        return argument, {}
    names = [name for name, _, _ in pairs]
    if unknown := [n for n in names if n not in OPTIONS or names.count(n) > 1]:
        raise UsageError(
            f"a cascade has no option {unknown[0]!r}, or not twice",
            item=argument,
            cure="write cascade:MODEL?below=0.9&share=0.05&phrases=FILE",
        )
    return model, {name: value for name, _, value in pairs}


def _share(text: str, default: float) -> float:
    try:
        share = float(text) if text else default
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"{text!r} is no share", cure="give a number from 0 to 1: cascade:MODEL?below=0.9"
        )
    return share
