"""P(pred): a model is asked whether its own answer is right, and the probability of "yes" is read off its tokens.

This takes one more call for each answer, with log-probabilities, in the run's ledger. Where a server sends none (the
first reply shows it), no further call is made and every answer stays without a probability: undefined, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from demur.core.errors import PermanentError
from demur.core.records import ImagePart, ImageRef, Message, Request, Response, Sample, TextPart
from demur.core.store import canonical, write_atomic
from demur.core.thinking import visible
from demur.core.uris import read_image as stored
from demur.evaluation.options import RunOptions
from demur.models import Budget, ModelOptions, model_id, open_model
from demur.models.lenient import LenientModel
from demur.models.names import addresses_of
from demur.models.run import complete_all, run_sync
from demur_suites.files import prompt_text
from demur_suites.outputs import VERIFIED, read_outputs
from demur_suites.p_true import ONE_WORD, yes_share

NO_LOGPROBS = "the server sends no log-probabilities"


class Verified(NamedTuple):
    """The probability of an answer; why there is none, or how else it was asked for."""

    probability: float | None
    why: str = ""


async def verified(
    addresses: Sequence[str],
    answers: Mapping[str, str],
    asked: Mapping[str, Sample],
    *,
    read_image: Callable[[ImageRef], bytes],
    ledger: Path,
    **limits: Any,
) -> dict[str, Verified]:
    """Question id -> the probability of its answer.

    Args:
        addresses: of the model.
        answers: question id -> the model's answer.
        asked: question id -> question.
        read_image: gives the bytes of a photo.
        ledger: keeps the replies.
        limits: concurrency, budget, prices.

    Raises:
        BudgetReached: the budget leaves no room for another call.
    """
    prompt = Template(prompt_text(__package__, "verify.v1.md"))

    def request(id: str, answer: str) -> Request:
        text = TextPart(
            text=prompt.substitute(question=asked[id].question, answer=visible(answer).strip())
        )
        parts = (*(ImagePart(image=image) for image in asked[id].images), text)
        return Request(
            model=model_id(addresses[0]),
            messages=(Message(role="user", parts=parts),),
            item=id,
            **ONE_WORD,
        )

    if not answers:
        return {}
    replies: dict[str, Response] = {}
    why = ""
    async with open_model(
        addresses, ModelOptions(ledger=ledger, read_image=read_image, **limits)
    ) as model:
        requests = [request(*one) for one in answers.items()]
        try:
            lenient = LenientModel(model)
            for some in (requests[:1], requests[1:]):
                async for one, reply in complete_all(lenient, some, hopeless_after=20):
                    replies[one.item] = reply
                first = replies[requests[0].item]
                if not first.error and not first.logprobs:
                    return dict.fromkeys(answers, Verified(None, NO_LOGPROBS))
        except PermanentError as error:  # a server that refuses log-probabilities says so
            why = f"could not be asked: {error.message}"
    return {id: _read(replies.get(id, Response(error=why))) for id in answers}


def _read(reply: Response) -> Verified:
    if reply.error:
        return Verified(None, reply.error)
    share = yes_share(reply.logprobs)
    if share is None:
        return Verified(None, "neither yes nor no is among the first word's candidates")
    return Verified(
        share, "asked at the model's own temperature" * ("temperature" in reply.asked_without)
    )


def verify_run(
    folder: Path,
    model: str,
    asked: Mapping[str, Sample],
    root: Path,
    options: RunOptions,
) -> None:
    """Write ``verified.jsonl`` into a run folder: id, computed_confidence (null where there is none), why.

    Args:
        folder: of the finished run.
        model: its model string, or several of one model joined by commas.
        asked: question id -> question.
        root: folder that photos are relative to.
        options: of the run: its ledger, concurrency, budget and prices.
    """
    [replies] = read_outputs([folder]).values()
    answers = {
        id: reply.text
        for id, reply in replies.items()
        if id in asked and not reply.error and visible(reply.text).strip()
    }
    found = run_sync(
        verified(
            addresses_of(model),
            answers,
            asked,
            read_image=lambda ref: stored(ref, root),
            ledger=options.calls,
            concurrency=options.concurrency,
            budget=Budget(options.budget).recorded_in(options.calls).sub_budget(folder.name),
            prices=options.prices,
        )
    )
    lines = [
        {"id": id, "computed_confidence": answer.probability, "why": answer.why}
        for id, answer in found.items()
    ]
    write_atomic(folder / VERIFIED, "".join(canonical(line) + "\n" for line in lines))
