"""What a call costs: a table of prices, and tokens estimated from text and image sizes before anything is sent."""

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
"""Tokens that a chat template puts around a message."""


class Price(Record):
    """US dollars per million tokens of one model, and how it counts an image."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Of prompt tokens that the server had in its prefix cache; the prompt price when not given."""
    images: str = "patches28"
    checked: str = ""
    """Day on which the row was looked up, as YYYY-MM-DD; "" in a table that does not say."""

    def old(self, today: date | None = None) -> bool:
        """Whether the row was looked up more than `OLD_DAYS` days ago."""
        try:
            return bool(self.checked) and ((today or date.today()) - date.fromisoformat(self.checked)).days > OLD_DAYS
        except ValueError:
            return True

    def of(self, usage: Usage) -> float:
        """US dollars of one reply."""
        cached = min(usage.cached, usage.prompt)
        cheap = self.prompt if self.cached is None else self.cached
        return ((usage.prompt - cached) * self.prompt + cached * cheap + usage.completion * self.completion) * _PER


OLD_DAYS = 183
"""Days after which a price is told to be old."""

FREE = Price(prompt=0.0, completion=0.0)
"""The price of a model in this process."""


class Prices:
    """A price table: the shipped one, overlaid with the user's.

    Args:
        file: JSON ``{"models": {name: {"prompt": .., "completion": .., "cached": .., "images": ..}}}`` in US dollars
            per million tokens; its entries replace shipped ones. None: what ``DEMUR_PRICES`` names, if anything.

    Raises:
        DataError: the file does not hold such a table.
    """

    def __init__(self, file: Path | None = None) -> None:
        shipped = json.loads(files("demur.models").joinpath("prices.json").read_text(encoding="utf-8"))
        self._models = _table(shipped, "prices.json")
        chosen = file or (Path(os.environ["DEMUR_PRICES"]) if os.environ.get("DEMUR_PRICES") else None)
        if chosen is not None:
            self._models |= _table(read_json(chosen), str(chosen))

    def find(self, model: str) -> Price | None:
        """The price of a model id; None when no price is known. ``"*"`` in a table is the price of all others.

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


def _table(value: object, where: str) -> dict[str, Price]:
    models = value.get("models") if isinstance(value, Mapping) else None
    if not isinstance(models, Mapping):
        raise DataError(
            'a price table is {"models": {name: {"prompt": .., "completion": ..}}}', item=where, cure="mend the file"
        )
    table = {}
    for name, entry in models.items():
        try:
            table[str(name)] = Price.model_validate(entry)
        except ValidationError as error:
            raise DataError(f"the price of {name}: {why_invalid(error)}", item=where, cure="mend the file") from error
        if table[str(name)].images not in IMAGE_RULES:
            raise DataError(
                f"the price of {name}: no image rule {entry['images']!r}; known: {', '.join(IMAGE_RULES)}",
                item=where,
                cure="name one of them",
            )
    return table


# --- tokens before the call ----------------------------------------------------------------------


def _tiles(size: int, base: int, per_tile: int, longest: int, shortest: int) -> Callable[[int, int], int]:
    def count(width: int, height: int) -> int:
        scale = min(1.0, longest / max(width, height))
        scale *= min(1.0, shortest / (min(width, height) * scale))
        return base + per_tile * math.ceil(width * scale / size) * math.ceil(height * scale / size)

    return count


def _patches(size: int, most: int, times: float = 1.0) -> Callable[[int, int], int]:
    def count(width: int, height: int) -> int:
        return math.ceil(min(math.ceil(width / size) * math.ceil(height / size), most) * times)

    return count


def _area(width: int, height: int) -> int:
    scale = min(1.0, 1568 / max(width, height))
    return math.ceil(width * scale * height * scale / 750)


def _tiles768(width: int, height: int) -> int:
    return 258 if max(width, height) <= 384 else 258 * math.ceil(width / 768) * math.ceil(height / 768)


IMAGE_RULES: dict[str, Callable[[int, int], int]] = {
    "tiles512": _tiles(512, 85, 170, 2048, 768),
    "tiles512-mini": _tiles(512, 2833, 5667, 2048, 768),
    "patches28": _patches(28, 16384),
    "patches32": _patches(32, 1536),
    "patches32x1.62": _patches(32, 1536, 1.62),
    "patches32x1.72": _patches(32, 1536, 1.72),
    "patches32x2.46": _patches(32, 1536, 2.46),
    "area750": _area,
    "tiles768": _tiles768,
    "cautious": lambda width, height: max(
        _tiles(512, 85, 170, 2048, 768)(width, height),
        _patches(32, 1536, 2.46)(width, height),
        math.ceil(width * height / 750),
        _tiles768(width, height),
        1120,
    ),
}
"""How many tokens an image of (width, height) pixels is, by the vendors' published rules: tiles of 512 pixels or
patches of 32 times a factor (OpenAI), merged patches of 28 (Qwen-VL), pixels over 750 (Anthropic), tiles of 768
(Gemini); ``cautious`` is the largest of the hosted ones, for a model whose rule we do not know."""


def text_tokens(text: str) -> int:
    """Tokens of a text, estimated: four ASCII characters, or one other character, per token.

    >>> text_tokens("What is the capital of France?")
    8
    """
    plain = len(text) if text.isascii() else sum(c < "\x80" for c in text)
    return -(-plain // 4) + len(text) - plain


def prompt_tokens(request: Request, images: str = "patches28") -> int:
    """Prompt tokens of a call, estimated; ``images`` names one of `IMAGE_RULES`."""
    rule = IMAGE_RULES[images]
    total = 0
    for message in request.messages:
        total += _MESSAGE
        for part in message.parts:
            if isinstance(part, ImagePart):
                total += rule(part.image.width, part.image.height)
            else:
                total += text_tokens(part.text)
    return total


def prompt_tokens_at_most(request: Request, images: str = "patches28") -> int:
    """Prompt tokens that a byte-level tokenizer cannot pass: one per UTF-8 byte, images counted half as much again."""
    rule = IMAGE_RULES[images]
    total = 64
    for message in request.messages:
        total += 8
        for part in message.parts:
            if isinstance(part, ImagePart):
                total += rule(part.image.width, part.image.height) * 3 // 2
            else:
                total += len(part.text.encode("utf-8", "replace"))
    return total


DEFAULT_COMPLETION = 4096
"""Tokens reserved for a reply whose request sets no ``max_tokens``."""


def price_at_most(request: Request, price: Price) -> float:
    """US dollars that a call cannot pass, for budgets."""
    completion = request.max_tokens or DEFAULT_COMPLETION
    return (prompt_tokens_at_most(request, price.images) * price.prompt + completion * price.completion) * _PER
