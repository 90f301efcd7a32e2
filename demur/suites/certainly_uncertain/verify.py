"""P(pred): a model is asked whether its own answer is right, and the probability of "yes" is read off its tokens.

This takes one more call for each answer, with log-probabilities, in the run's ledger. Where a server sends none (the
first reply shows it), no further call is made and every answer stays without a probability: undefined, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from demur.core.errors import BudgetReached, ItemError, PermanentError, TransientError
from demur.core.records import ImagePart, ImageRef, Message, Request, Response, Sample, TextPart
from demur.core.store import canonical, write_atomic
from demur.core.uris import read_image as stored
from demur.judge.rules import visible
from demur.models import Budget, model_id, open_model
from demur.models.names import addresses_of
from demur.models.run import complete_all, run_sync
from demur.suites.files import prompt_text
from demur.suites.outputs import VERIFIED, read_outputs
from demur.suites.p_true import ONE_WORD, yes_share

NO_LOGPROBS = "the server sends no log-probabilities"


class Verified(NamedTuple):
    """One answer's probability, or why there is none."""

    id: str
    probability: float | None
    why: str = ""


class Answered(NamedTuple):
    """A question with the model's answer."""

    id: str
    question: str
    answer: str
    image: ImageRef | None


async def verified(
    addresses: Sequence[str],
    answers: Sequence[Answered],
    *,
    read_image: Callable[[ImageRef], bytes],
    ledger: Path,
    concurrency: int | None = None,
    budget: Budget | None = None,
    prices: Path | None = None,
) -> list[Verified]:
    """The probability of each answer, in their order.

    Raises:
        BudgetReached: the budget leaves no room for another call.
    """
    prompt = Template(prompt_text(__package__, "verify.v1.md"))
    name = model_id(addresses[0])

    def request(one: Answered) -> Request:
        text = TextPart(text=prompt.substitute(question=one.question, answer=visible(one.answer).strip()))
        parts = (ImagePart(image=one.image), text) if one.image is not None else (text,)
        return Request(model=name, messages=(Message(role="user", parts=parts),), item=one.id, **ONE_WORD)

    if not answers:
        return []
    found: dict[str, Verified] = {}
    async with open_model(
        addresses, ledger=ledger, read_image=read_image, concurrency=concurrency, budget=budget, prices=prices
    ) as model:
        first, *rest = [request(one) for one in answers]
        try:
            reply = await model.complete(first)
            if not reply.logprobs:
                return [Verified(one.id, None, NO_LOGPROBS) for one in answers]
            found[first.item] = _read(first.item, reply)
            async for asked, reply in complete_all(model, rest):
                found[asked.item] = _read(asked.item, reply)
        except BudgetReached:
            raise
        except (ItemError, TransientError, PermanentError) as error:  # a server that refuses the parameter says so
            why = f"could not be asked: {error.message}"
            return [found.get(one.id, Verified(one.id, None, why)) for one in answers]
    return [found[one.id] for one in answers]


def _read(id: str, reply: Response) -> Verified:
    if reply.error:
        return Verified(id, None, reply.error)
    share = yes_share(reply.logprobs)
    return Verified(id, share, "" if share is not None else "neither yes nor no is among the first word's candidates")


def verify_run(
    folder: Path, model: str, asked: Mapping[str, Sample], root: Path, ledger: Path, given: Mapping[str, Any]
) -> None:
    """Write ``verified.jsonl`` into a run folder: id, confidence (null where there is none), why.

    Args:
        folder: of the finished run.
        model: its model string, or several of one model joined by commas.
        asked: question id -> question.
        root: folder that photos are relative to.
        ledger: of the run.
        given: keywords of the run: concurrency, budget, prices.
    """
    answers = [
        Answered(id, asked[id].question, reply.text, next(iter(asked[id].images), None))
        for id, reply in next(iter(read_outputs([folder]).values())).items()
        if id in asked and not reply.error and visible(reply.text).strip()
    ]
    more = {k: given.get(k) for k in ("concurrency", "budget", "prices")}
    found = run_sync(
        verified(addresses_of(model), answers, read_image=lambda ref: stored(ref, root), ledger=ledger, **more)
    )
    lines = [{"id": one.id, "confidence": one.probability, "why": one.why} for one in found]
    write_atomic(folder / VERIFIED, "".join(canonical(line) + "\n" for line in lines))
