"""A model behind any of `demur.models`' model strings as a system under test: ``model:openai/gpt-4o``.

It renders the ask, sends it, and reads the reply: "Final answer:" and "Confidence:" lines are split off where the
condition asks for them. The response records what the renderer had to cut.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from demur.core.errors import ItemError, TransientError, UsageError
from demur.core.records import (
    Ask,
    ImagePart,
    ImageRef,
    Message,
    Modality,
    Record,
    Request,
    Response,
    TextPart,
)
from demur.core.store import digest, why_invalid
from demur.scenarios.conditions import condition
from demur.scenarios.render import Layout, Rendered, render

if TYPE_CHECKING:
    from demur.models import Counts, Model
    from demur.scenarios.systems import SystemContext

_FINAL = re.compile(r"(?:^|(?<=\w))(?P<gap>\W*+)final answer\W*?:\s*+(?P<value>.*)", re.IGNORECASE)
_CONFIDENCE = re.compile(
    r"(?:^|(?<=\w))(?P<gap>\W*+)confidence(?=[^\w:]*+:)\W*+(?P<value>[1-5])(?:\s*+/\s*+5)?[^\w\n]*+(?=\n|\Z)",
    re.IGNORECASE,
)


DECODINGS: Mapping[str, Mapping[str, Any]] = {
    "vlm-deflectionbench": {
        "temperature": 0.2,
        "top_p": 1.0,
        "extra": {"repetition_penalty": 1.05},
    }
}
"""Preset -> the options that it stands for. ``vlm-deflectionbench``: section 4.1, of models behind vLLM; models of
vendors were asked with their own defaults, and most refuse a repetition penalty."""


class Sampling(Record):
    """Options that go into the request unchanged."""

    decoding: Literal["vlm-deflectionbench"] | None = None
    """A preset (`DECODINGS`) for what the others leave out."""
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    service_tier: Literal["flex"] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0)


def _with_decoding(options: dict[str, Any]) -> dict[str, Any]:
    """The options with what their preset fills in."""
    preset = DECODINGS.get(options.pop("decoding", None) or "", {})
    extra = {**preset.get("extra", {}), **options.get("extra", {})}
    return {**preset, **options, **({"extra": extra} if extra else {})}


class ModelSystem:
    """An endpoint or local model, called through the ledger, so that no answer is paid for twice.

    Args:
        argument: a model string of `demur.models`, or several of one model joined by commas.
        context: ``options`` may hold sampling (temperature, max_tokens ...) and a layout.
    """

    def __init__(self, argument: str, context: SystemContext) -> None:
        if not argument:
            raise UsageError(
                "no model given",
                item="model:",
                cure="write model:openai/gpt-4o or model:http://host/v1#name",
            )
        options: dict[str, Any] = dict(context.options)
        self.layout: Layout = options.pop("layout", None) or Layout()
        self.note = str(options.pop("note", ""))
        name = str(options.pop("name", ""))
        try:
            Sampling.model_validate(options)
        except ValidationError as error:
            raise UsageError(
                f"options of a model: {why_invalid(error)}",
                item=argument,
                cure=f"known: {', '.join(Sampling.model_fields)}",
            ) from None
        from demur.models.names import addresses_of

        self.sampling = _with_decoding(options)
        self.addresses = addresses_of(argument)
        self._context = context
        self._model: Model | None = None
        self._closing: Any = None
        self._opening = asyncio.Lock()
        from demur.models import parse_model

        for (
            address
        ) in self.addresses:  # before anything is written: a mistyped one may hold a password
            parse_model(address)
        first = self.addresses[0]
        # The id omits the address: the same model behind another port is the same system.
        self.id = name or f"model:{first.partition('#')[2] or first}"

    reads_prompt = True

    @cached_property
    def weights(self) -> str:
        """Hash of weights in a folder or of a function's code; "" if unknown (an endpoint)."""
        from demur.models.names import revision_of

        return revision_of(self.addresses[0])

    @property
    def models(self) -> tuple[str, ...]:
        """Ids of its models, as the ledger has them."""
        from demur.models import model_id

        return (model_id(self.addresses[0]),)

    @property
    def revision(self) -> str:
        """What its replies depend on besides its name."""
        return self.weights

    @property
    def settings(self) -> dict[str, Any]:
        """What its answers depend on besides the model: sampling, and what differs from the default layout.

        ``extra`` body fields appear as a digest: they may hold secrets.
        """
        usual = Layout()._asdict()
        layout = {k: v for k, v in self.layout._asdict().items() if v != usual[k]}
        sampling = {
            k: digest(v, 16) if k == "extra" else v
            for k, v in sorted(self.sampling.items())
            if k != "service_tier"  # it changes price and speed, and no answer
        }
        return {**sampling, **({"layout": layout} if layout else {})}

    def skip_reason(self, ask: Ask) -> str:
        """A text-only model is not asked about images, nor with image evidence alone."""
        if self.layout.images == "none":
            if ask.images:
                return "text-only model"
            if ask.evidence and all(e.modality is Modality.IMAGE for e in ask.evidence):
                return "text-only model"
        return ""

    def request(self, ask: Ask) -> Request:
        """The request for an ask; nothing is opened or sent.

        Raises:
            ItemError: the question alone is over the layout's token budget.
        """
        return self._request(ask, self._rendered(ask))

    def _rendered(self, ask: Ask) -> Rendered:
        how = condition(ask.condition)
        return render(ask, how, self._context.prompts, self.layout)

    def _request(self, ask: Ask, rendered: Rendered) -> Request:
        from demur.models import model_id

        options = {"draw": ask.repeat, **self.sampling}
        return Request(
            model=model_id(self.addresses[0]), messages=rendered.messages, item=ask.id, **options
        )

    @property
    def counts(self) -> Counts | None:
        """Calls sent, cached, retried and paid so far; None before the first."""
        return getattr(self._model, "counts", None)

    @property
    def summary(self) -> str:
        """The same in words; "" before the first."""
        from demur.models.client import summary

        return "" if self.counts is None else summary([self.counts])

    async def _opened(self) -> Model:
        async with self._opening:  # many asks begin at once; only one opens the model
            if self._model is None:
                from demur.models import ModelOptions, open_model
                from demur.models.ping import ping

                self._closing = open_model(
                    self.addresses,
                    ModelOptions(
                        ledger=self._context.ledger,
                        concurrency=self._context.concurrency,
                        read_image=self._context.read_image,
                        budget=self._context.budget,
                        prices=self._context.prices,
                        before_first=partial(ping, self.addresses, lists=False),
                    ),
                )
                self._model = await self._closing.__aenter__()
            return self._model

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """Check that a server answers and accepts the key, or that a function or local model exists.

        Raises:
            UsageError: there is no such function, or no key.
            PermanentError: no address answers, or the key is refused.
        """
        from demur.models.ping import ping

        return await ping(self.addresses)

    async def answer(self, ask: Ask) -> Response:
        """Render the ask, call the model, read the reply."""
        model = await self._opened()
        cuts: tuple[str, ...] = ()
        try:
            rendered = self._rendered(ask)
            cuts = rendered.cuts
            reply = await model.complete(self._request(ask, rendered))
        except (ItemError, TransientError) as error:  # this item's failure, not the system's
            return Response(error=str(error), cuts=cuts)
        return self.read(ask, reply).model_copy(update={"cuts": cuts})

    def read(self, ask: Ask, reply: Response) -> Response:
        """The answer in a reply to an ask."""
        addons = condition(ask.condition).addons
        return read_reply(reply, final="reasoning" in addons, stated="confidence" in addons)

    async def complete(self, parts: Sequence[str | ImageRef], item: str, draw: int = 0) -> Response:
        """One call with the caller's own words and images, with the same model, sampling and ledger.

        Args:
            parts: of the one message, in order.
            item: what the call is about, for errors.
            draw: which of several independent replies.
        """
        from demur.models import model_id

        message = Message(
            role="user",
            parts=tuple(
                TextPart(text=p) if isinstance(p, str) else ImagePart(image=p) for p in parts
            ),
        )
        options = {"draw": draw, **self.sampling}
        request = Request(
            model=model_id(self.addresses[0]), messages=(message,), item=item, **options
        )
        try:
            return await (await self._opened()).complete(request)
        except (ItemError, TransientError) as error:
            return Response(error=str(error))

    async def close(self) -> None:
        """Close the connection and the ledger."""
        if self._closing is not None:
            await self._closing.__aexit__(None, None, None)
            self._closing = self._model = None


def read_reply(reply: Response, *, final: bool, stated: bool) -> Response:
    """Split the final answer and the stated confidence off a reply.

    Args:
        reply: of the model.
        final: the prompt asked for a "Final answer:" line; the text before it is reasoning.
        stated: the prompt asked for a "Confidence:" line from 1 to 5; it is mapped to [0, 1].
    """
    text = reply.text
    change: dict[str, str | float] = {}
    if stated and (lines := _lines(_CONFIDENCE, text)):
        change["confidence"] = (int(lines[-1][2]) - 1) / 4
        ends = [0, *(end for _, end, _ in lines)]
        text = "\n".join(
            text[a:b]
            for a, b in zip(ends, [*(start for start, _, _ in lines), len(text)], strict=True)
        )
        text = text.strip()
    if final and (lines := _lines(_FINAL, text)):
        change["reasoning"] = (reply.reasoning + "\n" + text[: lines[-1][0]]).strip()
        text = lines[-1][2].strip()
    return reply.model_copy(update={**change, "text": text})


def _lines(pattern: re.Pattern[str], text: str) -> list[tuple[int, int, str]]:
    """Start, end and value of each line that a pattern matches; punctuation may precede it."""
    return [
        (m.start() + max(m["gap"].find("\n"), 0), m.end(), m["value"])
        for m in pattern.finditer(text)
        if m.start() == 0 or "\n" in m["gap"]
    ]
