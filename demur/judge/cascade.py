"""Rules where they can prove, a model for the rest: ``--judge cascade:openai/gpt-4o``.

On answers of real systems some two in three are settled by rules, which are right in 98 of 100 of them, and cost
nothing. A random share of those is put to the model too, so that the agreement of both is measured on every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Response, Status, Verdict
from demur.core.stats import wilson
from demur.core.store import seed_of
from demur.judge.base import JudgeContext
from demur.judge.model import ModelJudge, no_answer, options_of
from demur.judge.rules import RuleJudge

SHARE = 0.05
"""Of what rules settle, the share that the model is asked about too."""


def _share(text: str) -> float:
    try:
        share = float(text) if text else SHARE
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"share={text!r} is no share", cure="a number from 0 to 1: cascade:MODEL,share=0.1"
        )
    return share


class Cascade:
    """Rules, then a model.

    Args:
        argument: a model string; ``MODEL,images=yes`` shows it images; ``MODEL,share=0.1`` checks another share of what
            rules settle; ``MODEL,phrases=FILE`` gives the rules sentences by which your product declines
            (`demur.judge.own_phrases`).
        context: ledger, budget, prices.

    Attributes:
        counts: ``rules`` settled, ``model`` asked, ``checked`` of what rules settled, ``both``: graded of these,
            ``agreed``.
    """

    asks_models = True

    def __init__(self, argument: str, context: JudgeContext | None = None) -> None:
        argument, given = options_of(argument, "share|phrases|images")
        self.share = _share(given.get("share", ""))
        self.model = ModelJudge(
            argument + (f",images={given['images']}" if "images" in given else ""), context
        )
        self.rules = RuleJudge(f"?phrases={given['phrases']}" if "phrases" in given else "")
        own = self.rules.id.removeprefix("rules").replace("?", ",").replace("&", ",")
        self.id = self.model.id.replace("model:", "cascade:", 1) + own
        self.counts: Counter[str] = Counter()

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """The rules' verdict where it is a proof, else the model's; its reason begins with who gave it."""
        if no_answer(response):  # nothing is sent
            return self._as(await self.model.grade(ask, response, answers), "")
        first = self.rules.grade(ask, response, answers)
        if first.status is Status.UNGRADED:
            self.counts["model"] += 1
            return self._as(await self.model.grade(ask, response, answers), "model")
        self.counts["rules"] += 1
        if seed_of("cascade", ask.id) % 10_000 < self.share * 10_000:
            self.counts["checked"] += 1
            second = await self.model.grade(ask, response, answers)
            if second.status is Status.GRADED:
                self.counts["both"] += 1
                self.counts["agreed"] += second.outcome is first.outcome
        return self._as(first, "rules")

    def _as(self, verdict: Verdict, who: str) -> Verdict:
        reason = f"{who}: {verdict.reason}"[:300] if who else verdict.reason
        return verdict.model_copy(update={"judge": self.id, "reason": reason})

    @property
    def summary(self) -> str:
        """What it saved, and how far both agree, in one line; "" before the first verdict."""
        c = self.counts
        if not c["rules"] + c["model"]:
            return ""
        answers = c["rules"] + c["model"]
        saved = c["rules"] - c["checked"]
        line = (
            f"{self.id}: rules settled {c['rules']:,} of {answers:,}, the model was asked about {c['model']:,}; "
            f"{saved:,} calls saved ({saved / answers:.0%})"
        )
        if c["checked"]:
            line += f"; on {c['checked']:,} of what rules settled the model was asked too"
            line += (
                f" and gave no grade for {failed:,}" if (failed := c["checked"] - c["both"]) else ""
            )
        if c["both"]:
            low, high = wilson(c["agreed"], c["both"]) or (0.0, 1.0)
            share = c["agreed"] / c["both"]
            of = f" of {c['both']:,}" if c["both"] < c["checked"] else ""
            line += f", and agreed on {c['agreed']:,}{of} ({share:.0%}, 95 % interval {low:.0%} to {high:.0%})"
        return line

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """As the model's."""
        return await self.model.ready(asks)

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()
