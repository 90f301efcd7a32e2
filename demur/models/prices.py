"""The cost of a call: a table of prices, and estimates of the tokens from text and image sizes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path

from pydantic import Field, ValidationError

from demur.core.errors import DataError
from demur.core.records import ImagePart, Record, Request, Usage
from demur.core.store import read_json, why_invalid

_PER = 1e-6
_MESSAGE = 4
"""Tokens that a chat template adds to a message."""


class Price(Record):
    """US dollars per million tokens of one model, and its rule for images."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """For prompt tokens in the server's prefix cache; None: the prompt price."""
    images: str = "patches28"
    """One of `IMAGE_RULES`."""
    flex: float = Field(default=1.0, ge=0, le=1)
    """Times the price in the service tier ``flex``; 1 of a model that has none."""
    batch: float = Field(default=1.0, ge=0, le=1)
    """Times the price of a call in a batch; 1 of a model that has none."""
    checked: str = ""
    """Date of the price, as YYYY-MM-DD; "" if unknown."""

    def old(self) -> bool:
        """Whether the price is more than `OLD_DAYS` days old."""
        try:
            return (
                bool(self.checked)
                and (date.today() - date.fromisoformat(self.checked)).days > OLD_DAYS
            )
        except ValueError:
            return True

    def cost_of(self, usage: Usage, tier: str = "") -> float:
        """US dollars of one reply.

        Args:
            usage: its tokens.
            tier: the service tier that answered, or ``batch``.
        """
        cached = min(usage.cached, usage.prompt)
        cheap = self.prompt if self.cached is None else self.cached
        return (
            (usage.prompt - cached) * self.prompt
            + cached * cheap
            + usage.completion * self.completion
        ) * self.per_token(tier)

    def per_token(self, tier: str | None) -> float:
        """What the prices are multiplied by for one token, in a service tier or a ``batch``."""
        return _PER * {"flex": self.flex, "batch": self.batch}.get(tier or "", 1.0)


def cost_if_known(price: Price | None, usage: Usage, tier: str) -> float | None:
    """US dollars of one reply; None where the price is unknown, or the server reported no usage."""
    return price.cost_of(usage, tier) if price is not None and usage.reported else None


OLD_DAYS = 183
"""Days after which an estimate warns that a price is old."""

FREE = Price(prompt=0.0, completion=0.0)
"""The price of a model in this process."""


class Prices:
    """The shipped price table, with the user's entries in place of its own.

    Args:
        file: JSON ``{"models": {name: {"prompt": .., "completion": .., "cached": .., "images": ..}}}`` in US dollars
            per million tokens. None: the file that ``DEMUR_PRICES`` names, if it is set.

    Raises:
        DataError: the file is not such a table.
    """

    def __init__(self, file: Path | None = None) -> None:
        shipped = json.loads(
            files("demur.models").joinpath("prices.json").read_text(encoding="utf-8")
        )
        self._models = _read_price_table(shipped, "prices.json")
        chosen = file or (
            Path(os.environ["DEMUR_PRICES"]) if os.environ.get("DEMUR_PRICES") else None
        )
        if chosen is not None:
            self._models |= _read_price_table(read_json(chosen), str(chosen))

    def find(self, model: str) -> Price | None:
        """The price of a model id; None if unknown. ``"*"`` in a table is the price of all other models.

        >>> Prices().find("openai/gpt-4o").prompt
        2.5
        >>> Prices().find("my-own-model") is None
        True
        >>> Prices().find("python:mine:answer").prompt
        0.0
        """
        if model in self._models:
            return self._models[model]
        if model.startswith(("hf:", "python:")):
            return FREE
        tail = model
        while "/" in tail or ":" in tail:
            tail = tail[min(i for i in (tail.find("/"), tail.find(":")) if i >= 0) + 1 :]
            if tail in self._models:
                return self._models[tail]
        return self._models.get("*")


def _read_price_table(value: object, place: str) -> dict[str, Price]:
    models = value.get("models") if isinstance(value, Mapping) else None
    if not isinstance(models, Mapping):
        raise DataError(
            'a price table is {"models": {name: {"prompt": .., "completion": ..}}}',
            item=place,
            cure="correct the file",
        )
    table = {}
    for name, entry in models.items():
        try:
            table[str(name)] = Price.model_validate(entry)
        except ValidationError as error:
            raise DataError(
                f"the price of {name}: {why_invalid(error)}", item=place, cure="correct the file"
            ) from error
        if table[str(name)].images not in IMAGE_RULES:
            raise DataError(
                f"the price of {name}: no image rule {entry['images']!r}; known: {', '.join(IMAGE_RULES)}",
                item=place,
                cure="name one of them",
            )
    return table


# --- tokens before the call ----------------------------------------------------------------------


def _count_by_tiles512(base: int, per_tile: int) -> Callable[[int, int], int]:
    def count(width: int, height: int) -> int:
        scale = min(1.0, 2048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        return base + per_tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)

    return count


def _count_by_patches(size: int, most: int, times: float = 1.0) -> Callable[[int, int], int]:
    def count(width: int, height: int) -> int:
        return math.ceil(min(math.ceil(width / size) * math.ceil(height / size), most) * times)

    return count


def _count_by_area(width: int, height: int) -> int:
    scale = min(1.0, 1568 / max(width, height))
    return math.ceil(width * scale * height * scale / 750)


def _count_by_tiles768(width: int, height: int) -> int:
    return (
        258 if max(width, height) <= 384 else 258 * math.ceil(width / 768) * math.ceil(height / 768)
    )


IMAGE_RULES: dict[str, Callable[[int, int], int]] = {
    "tiles512": _count_by_tiles512(85, 170),
    "tiles512-mini": _count_by_tiles512(2833, 5667),
    "patches28": _count_by_patches(28, 16384),
    "patches32": _count_by_patches(32, 1536),
    "patches32x1.62": _count_by_patches(32, 1536, 1.62),
    "patches32x1.72": _count_by_patches(32, 1536, 1.72),
    "patches32x2.46": _count_by_patches(32, 1536, 2.46),
    "area750": _count_by_area,
    "tiles768": _count_by_tiles768,
    "cautious": lambda width, height: max(
        *(IMAGE_RULES[rule](width, height) for rule in ("tiles512", "patches32x2.46", "tiles768")),
        math.ceil(width * height / 750),
        1120,
    ),
}
"""Tokens of an image of (width, height) pixels, by the vendors' published rules: tiles of 512 pixels or patches of 32
times a factor (OpenAI), merged patches of 28 (Qwen-VL), pixels over 750 (Anthropic), tiles of 768 (Gemini);
``cautious`` is the largest of the hosted ones, for a model whose rule is unknown."""


def text_tokens(text: str) -> int:
    """Estimated tokens of a text: four ASCII characters, or one other character, per token.

    >>> text_tokens("What is the capital of France?")
    8
    """
    plain = len(text) if text.isascii() else sum(c < "\x80" for c in text)
    return -(-plain // 4) + len(text) - plain


def prompt_tokens(request: Request, images: str = "patches28", *, at_most: bool = False) -> int:
    """Estimated prompt tokens of a call.

    Args:
        request: the call.
        images: one of `IMAGE_RULES`.
        at_most: an upper bound for byte-level tokenizers instead: one token per UTF-8 byte, images half as much again.
    """
    rule = IMAGE_RULES[images]
    total = (2 if at_most else 1) * _MESSAGE * len(request.messages) + (64 if at_most else 0)
    for part in (part for message in request.messages for part in message.parts):
        if isinstance(part, ImagePart):
            tokens = rule(part.image.width, part.image.height)
            total += tokens * 3 // 2 if at_most else tokens
        else:
            total += (
                len(part.text.encode("utf-8", "replace")) if at_most else text_tokens(part.text)
            )
    return total


DEFAULT_COMPLETION = 4096
"""Tokens reserved for a reply if the request sets no ``max_tokens``."""


def price_at_most(request: Request, price: Price, tier: str = "") -> float:
    """Upper bound of a call's cost in US dollars, for budgets: at the full price, until a reply names a cheaper tier."""
    completion = request.max_tokens or DEFAULT_COMPLETION
    return (
        prompt_tokens(request, price.images, at_most=True) * price.prompt
        + completion * price.completion
    ) * price.per_token(tier)
