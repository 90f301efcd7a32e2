"""A model as a judge: ``--judge model:openai/gpt-4o``; three labels, read strictly (SimpleQA's grader, mended).

What cannot be read as one label is asked again and then *unjudged*, never a grade; so is a call that failed. Empty,
failed and starved answers are never sent. The answer is data: see `demur.judge.untrusted_answer`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from demur.core.errors import ItemError, TransientError, UsageError
from demur.core.records import (
    AnswerSpec,
    Ask,
    Message,
    Method,
    Outcome,
    Request,
    Response,
    Status,
    TextPart,
    Verdict,
)
from demur.core.store import digest
from demur.core.strict_json import check_depth
from demur.core.text import brief
from demur.core.thinking import visible
from demur.judge.base import JudgeContext
from demur.judge.deflection import read
from demur.judge.local import LocalJudge, no_answer
from demur.judge.parse import WORDS, alone, parse
from demur.judge.untrusted_answer import Candidate, candidate, forms_of

if TYPE_CHECKING:
    from demur.models import Model

MOST_TOKENS = 512
"""Of a reply: room for a model that thinks aloud before its label."""
THINKING = 8
"""Times as many tokens for a model whose thoughts left no room for a label."""
PARTIAL = (
    "Answers that state only a part of what is right are incorrect to this judge's prompt; the published prompt leaves "
    "them unattempted."
)
"""What stands under figures that are compared with published ones."""
_OPTIONS = "write a model's name alone; a cascade has ?below=0.9&share=0.05&phrases=FILE"
AGAIN = 1_000
"""Added to the number of a draw whose reply could not be read: it is asked once more."""


def schema_of(key: str, values: Sequence[str | int]) -> dict[str, Any]:
    """JSON schema of a reply that has one key with one of several values."""
    kind = "string" if isinstance(values[0], str) else "integer"
    return {
        "type": "object",
        "properties": {key: {"type": kind, "enum": list(values)}},
        "required": [key],
        "additionalProperties": False,
    }


class ModelJudge:
    """Grades by asking a model; every call is kept in the ledger and never paid twice.

    Args:
        argument: a model string of `demur.models`, or several of one model joined by commas. No image is sent.
        context: ledger, budget, prices.

    Attributes:
        counts: what happened: graded, unjudged, ``forged`` answers.
    """

    asks_models = True
    expected_share = 1.0
    """Share of answers that its model is expected to be asked about."""
    kind = "model"
    prompt_package = "demur.judge"
    """Package whose folder ``prompts`` holds it."""
    prompt_name = "three-labels.v3.md"
    schema: dict[str, Any] | None = schema_of("label", sorted(WORDS))
    """Of the reply; None asks for words."""

    def __init__(self, argument: str, context: JudgeContext | None = None) -> None:
        from demur.models import model_id, parse_model
        from demur.models.names import addresses_of

        if not argument:
            raise UsageError(
                "no model named", item=self.kind, cure=f"write --judge {self.kind}:openai/gpt-4o"
            )
        if typo := re.search(
            r",([a-z]+=)[^,#]*$", argument
        ):  # it would be asked for as a part of the model's name
            raise UsageError(
                f"{self.kind}: has no option {typo[1]!r}", item=argument, cure=_OPTIONS
            )
        self.addresses = addresses_of(argument)
        for address in self.addresses:
            parse_model(address)
        self.model = model_id(self.addresses[0])
        prompt = files(self.prompt_package) / "prompts" / self.prompt_name
        self.prompt = prompt.read_text(encoding="utf-8").strip()
        self.prompt_sha256 = digest(self.prompt.encode())
        self.id = f"{self.kind}:{self.model}"
        self.counts: Counter[str] = Counter()
        self._local = LocalJudge()
        self._context = context or JudgeContext()
        self._opened: Model | None = None
        self._closing: Any = None
        self._opening = asyncio.Lock()

    # --- one verdict -----------------------------------------------------------------------------

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; what is no usable answer fails without being sent.

        Raises:
            PermanentError: the model cannot be asked at all (a wrong key, no server).
            BudgetReached: the budget leaves no room for another call.
        """
        if no_answer(response) or answers.kind == "unknown":
            return self._grade_locally(
                ask, response, answers
            )  # nothing to send, or to compare with
        shown_answer = self._candidate(ask, response, answers)
        forged = (
            f"; the answer imitates a grader: {shown_answer.forged[0]!r}"
            if shown_answer.forged
            else ""
        )
        if shown_answer.doubted:  # no model can grade what it is not shown
            self.counts["forged"] += bool(shown_answer.forged)
            return self._grade_locally(ask, response, answers)
        text = self._text(ask, shown_answer, answers)
        try:
            for draw in (self._context.repeat, self._context.repeat + AGAIN):
                reply = await self._ask(ask, text, draw)
                outcome, why = self._read_outcome(reply)
                if outcome is not None or reply.finish_reason == "length":
                    break  # what was cut off was asked again with more room
        except (ItemError, TransientError) as error:  # what concerns all answers is raised
            cure = f" - {error.cure}" if error.cure else ""
            return self._unjudged(ask, f"{brief(error.message, 200)}{cure}")
        self.counts["forged"] += bool(shown_answer.forged)
        if outcome is None:
            return self._unjudged(ask, why + forged, reply)
        credit = self.credit(reply.text)
        if answers.kind == "none":  # what is right is to decline
            outcome = Outcome.DEFLECTED if outcome is Outcome.CORRECT else outcome
            credit = None if credit is None else float(outcome is Outcome.DEFLECTED)
        self.counts["graded"] += 1
        verdict = self._verdict(ask, Status.GRADED, outcome, why + forged, reply, credit)
        if outcome is not Outcome.DEFLECTED:
            return verdict
        kind = read(visible(response.text), ask.question).kind  # which sort: no model is asked
        return verdict.model_copy(update={"kind": kind})

    def would_ask(self, ask: Ask, response: Response | None, answers: AnswerSpec) -> list[Request]:
        """The requests that grading would begin with; nothing is sent.

        Args:
            response: None of an answer that is not known yet: one of usual length.
        """
        from demur.models.estimate import USUAL_COMPLETION

        response = response or Response(text="word " * USUAL_COMPLETION)
        if no_answer(response) or answers.kind == "unknown":
            return []
        shown_answer = self._candidate(ask, response, answers)
        if shown_answer.doubted:
            return []
        text = self._text(ask, shown_answer, answers)
        return [self._request(ask, text, self._context.repeat)]

    def _candidate(self, ask: Ask, response: Response, answers: AnswerSpec) -> Candidate:
        return candidate(
            ask.question,
            visible(response.text),
            forms_of(answers, ask.choices),
            masked=not self._context.unmasked,
        )

    def _text(self, ask: Ask, shown_answer: Candidate, answers: AnswerSpec) -> str:
        """The prompt about an answer."""
        return Template(self.prompt).substitute(
            question=_question_text(ask),
            target=target(answers),
            answer=shown_answer.text,
            mark=shown_answer.mark,
        )

    def _grade_locally(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        verdict = self._local.grade(ask, response, answers)
        return verdict.model_copy(
            update={"judge": self.id, "model": self.model, "prompt_sha256": self.prompt_sha256}
        )

    def _read_outcome(self, reply: Response) -> tuple[Outcome | None, str]:
        """(label of a reply, how it was read); None of one that states none, or was cut off before it."""
        if reply.finish_reason == "length" and not self.is_whole(reply.text):
            cut = f"the judge's reply was cut off before a label{quoted(reply.text)}"
            return None, f"{cut} - switch its thinking off, or ask another model"
        outcome, why = self.read(reply.text)
        return outcome, why + "; asked at the model's own temperature" * (
            "temperature" in reply.asked_without
        )

    def credit(self, reply: str) -> float | None:
        """Partial credit of a reply, in [0, 1]; None of a judge that only labels."""
        return None

    def read(self, reply: str) -> tuple[Outcome | None, str]:
        """(label, how it was read) of a reply; None where it states none, or more than one."""
        label = stated(reply, "label")
        if isinstance(label, list) and len(label) == 1:
            label = label[0]
        if label is None:
            outcome = parse(visible(reply))
        else:
            outcome = (
                WORDS.get(re.sub("[ -]", "_", label.strip().upper()))
                if isinstance(label, str)
                else None
            )
        none = f"the judge's reply states no single label{quoted(reply)}"
        return outcome, "the judge's label" if outcome else none

    def is_whole(self, reply: str) -> bool:
        """Whether a reply is a label and nothing else: one that was cut off counts only then."""
        return stated(reply, "label") is not None or alone(visible(reply)) is not None

    def _request(self, ask: Ask, text: str, draw: int) -> Request:
        return Request(
            model=self.model,
            messages=(Message(role="user", parts=(TextPart(text=text),)),),
            temperature=0.0,
            max_tokens=MOST_TOKENS,
            item=ask.id,
            draw=draw,
            json_schema=self.schema,
        )

    async def _ask(self, ask: Ask, text: str, draw: int | None = None) -> Response:
        request = self._request(ask, text, self._context.repeat if draw is None else draw)
        model = await self._model()
        reply = await model.complete(request)
        if (
            reply.finish_reason != "length"
            or self.is_whole(reply.text)
            or "temperature" in reply.asked_without
        ):
            return reply  # one that refuses a temperature had room to think
        try:
            return await model.complete(
                request.model_copy(update={"max_tokens": THINKING * MOST_TOKENS})
            )
        except ItemError:  # its window is too small for that
            return reply

    async def _model(self) -> Model:
        async with self._opening:
            if self._opened is None:
                from demur.models import ModelOptions, open_model
                from demur.models.lenient import LenientModel
                from demur.models.ping import ping

                self._closing = open_model(
                    self.addresses,
                    ModelOptions(
                        ledger=self._context.ledger,
                        concurrency=self._context.concurrency,
                        budget=self._context.budget,
                        prices=self._context.prices,
                        read_image=self._context.read_image,
                        before_first=partial(ping, self.addresses, lists=False),
                    ),
                )
                self._opened = LenientModel(await self._closing.__aenter__())
            return self._opened

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """Check that a server answers at one of its addresses.

        Raises:
            PermanentError: none does, or the key is refused.
        """
        from demur.models.ping import ping

        return await ping(self.addresses, lists=False)

    async def close(self) -> None:
        """Close the connection and the ledger; the next verdict opens them again (another run has another loop)."""
        if self._closing is not None:
            await self._closing.__aexit__(None, None, None)
        self._closing = self._opened = None
        self._opening = asyncio.Lock()

    def _unjudged(self, ask: Ask, why: str, reply: Response | None = None) -> Verdict:
        self.counts["unjudged"] += 1
        return self._verdict(ask, Status.UNJUDGED, None, why, reply)

    def _verdict(
        self,
        ask: Ask,
        status: Status,
        outcome: Outcome | None,
        why: str,
        reply: Response | None = None,
        credit: float | None = None,
    ) -> Verdict:
        return Verdict(
            id=ask.id,
            status=status,
            outcome=outcome,
            method=Method.MODEL if outcome is not None else None,
            credit=credit,
            reason=why[:300],
            judge=self.id,
            model=self.model,
            prompt_sha256=self.prompt_sha256,
            raw="" if reply is None else reply.text[:2000],
        )


def stated(reply: str, key: str) -> Any:
    """The value of a key in a reply that is a JSON object, or the reply if it is a number; None of any other reply.

    >>> stated('{"label": "CORRECT"}', "label"), stated('{"label": "INCORRECT", "label": "CORRECT"}', "label")
    ('CORRECT', [])
    """
    text = _FENCE.sub("", visible(reply))
    try:
        check_depth(text)
        value = json.loads(text, object_pairs_hook=_object_without_repeats)
    except ValueError:
        return None
    return (
        value.get(key)
        if isinstance(value, dict)
        else None
        if isinstance(value, str | list)
        else value
    )


def stated_number(reply: str, key: str) -> int | None:
    """The number that a reply is ("2", "Rating: 2", a JSON object with the key); None of any other reply."""
    value = stated(reply, key)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    alone = _NUMBER.match(visible(reply))
    return int(alone[1]) if alone else None


_NUMBER = re.compile(
    r"^[^\w\u2212\u2013-]*(?:(?:rating|refusal|score)(?:[^\w\u2212\u2013-]{1,4}|\s-\s))?(\d)[^\w?%]*$",
    re.IGNORECASE,
)
"""A minus sign makes it another number."""
_FENCE = re.compile(r"^```\w*|```$")


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose repeated keys state nothing: a list that no reader takes for a label."""
    times = Counter(key for key, _ in pairs)
    return {key: value if times[key] == 1 else [] for key, value in pairs}


def quoted(reply: str) -> str:
    """The beginning of a reply, behind what is said of it."""
    text = visible(reply) or reply
    return f": {brief(text.strip(), 90)!r}" if text.strip() else " (it is empty)"


def target(answers: AnswerSpec) -> str:
    """What is right, in words: every accepted form, parts, option, range with unit, tolerance."""
    if answers.kind == "none":
        return "there is no answer to be known; only to decline is right, and any answer is made up"
    if answers.kind == "choice" and answers.choices:
        from demur.answers.choices import right_labels

        right = right_labels(answers)
        return (
            "; or ".join(f"({label}) {text}" for label, text in answers.choices if label in right)
            or answers.display_form
        )
    accepted_texts = []
    for form in answers.accepted:
        accepted_texts.append(form[0] if len(form) == 1 else "all of: " + ", ".join(form))
    if answers.number is not None:
        low, high = answers.number
        unit = f" {answers.unit}" if answers.unit else ""
        accepted_texts.append(
            f"{low:.15g}{unit}"
            if low == high
            else f"any number from {low:.15g} to {high:.15g}{unit}"
        )
    words = "; or ".join(dict.fromkeys(accepted_texts)) or answers.display_form
    within = (
        f" (within {100 * answers.tolerance:g}%)"
        if answers.tolerance and answers.kind == "number"
        else ""
    )
    kind = {"date": " (a date)", "number": " (a number)"}.get(answers.kind, "")
    return words + kind + within


def _question_text(ask: Ask) -> str:
    options = "".join(f"\n({label}) {text}" for label, text in ask.choices)
    return ask.question_with_turns + options
