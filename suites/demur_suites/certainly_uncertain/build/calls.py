"""The model calls of a build: one for each item, kept in the set's ledger; and how a reply in a given form is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import PermanentError, TransientError
from demur.core.records import Drop, ImagePart, ImageRef, Message, Request, Response, TextPart
from demur.core.strict_json import parsed_json
from demur.core.thinking import visible
from demur.models import ModelOptions, model_id, open_model
from demur.models.lenient import LenientModel
from demur.models.names import addresses_of
from demur.models.run import complete_all, run_sync
from demur_suites.files import note_asked_without


def replies(
    model: str,
    asked: Iterable[tuple[str, tuple[str, ...], Sequence[ImageRef]]],
    out: Path,
    *,
    root: Path | None = None,
    seed: int = 0,
    max_tokens: int = 300,
    schema: dict[str, Any] | None = None,
) -> dict[str, Response]:
    """Item -> reply.

    Args:
        model: model string, or several of one model joined by commas.
        asked: (item, turns, photos). User and model take turns, the last is the user's and has the photos.
        out: folder of the set; ``calls.sqlite`` in it keeps the replies.
        root: folder that photos are relative to.
        seed: of the model's sampling.
        max_tokens: of a reply.
        schema: of a reply, for an endpoint that supports one.
    """
    addresses = addresses_of(model)

    def request(item: str, turns: tuple[str, ...], photos: Sequence[ImageRef]) -> Request:
        *before, last = (TextPart(text=text) for text in turns)
        roles = cycle(("user", "assistant"))
        messages = [Message(role=next(roles), parts=(part,)) for part in before]
        parts = (*(ImagePart(image=photo) for photo in photos), last)
        return Request(
            model=model_id(addresses[0]),
            temperature=0.0,
            max_tokens=max_tokens,
            seed=seed,
            item=item,
            messages=(*messages, Message(role="user", parts=parts)),
            json_schema=schema,
        )

    async def all_of() -> dict[str, Response]:
        requests = [request(*item_turns_photos) for item_turns_photos in asked]
        async with open_model(
            addresses, ModelOptions(ledger=out / "calls.sqlite", image_root=root)
        ) as opened:
            lenient = LenientModel(opened)
            with suppress(PermanentError, TransientError):  # reported with its item
                for first in requests[:1]:  # alone, so that all replies have the same form
                    await lenient.complete(first)
            return {q.item: reply async for q, reply in complete_all(lenient, requests)}

    reply_of = run_sync(all_of())
    note_asked_without(out, name_of(addresses[0]), *reply_of.values())
    return reply_of


def name_of(model: str) -> str:
    """A model string without its address."""
    return model.partition("#")[2] or model


_LINE = re.compile(r"^\W*(Q[12]?|A[12])\W*?:\W*?\s*(.*)$", re.IGNORECASE)
_ESCAPE = re.compile(r"\bnot a good question\b", re.IGNORECASE)


class Form(NamedTuple):
    """What a reply must look like: lines under labels, or a JSON object.

    Attributes:
        labels: of the lines, in their order.
        fields: of the object, in the order of the labels.
    """

    labels: tuple[str, ...]
    fields: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """Of the object. Each text has a limit: a small model may otherwise write on for as long as it can."""
        return {
            "type": "object",
            "properties": {name: {"type": "string", "maxLength": 200} for name in self.fields},
            "required": [*self.fields],
            "additionalProperties": False,
        }

    def parse(self, reply: str) -> tuple[str, ...] | None:
        """The texts of a reply that has each label once and in order, or just these fields; None for any other."""
        text = visible(reply).strip()
        if text.startswith("{"):
            try:
                fields = parsed_json(text)
            except ValueError:
                return None
            texts = tuple(
                " ".join(t.split())
                for name in self.fields
                if isinstance(t := fields.get(name), str)
            )
            return texts if len(fields) == len(texts) == len(self.fields) and all(texts) else None
        lines = [_LINE.match(line) for line in text.splitlines() if line.strip()]
        labelled = [(m[1].upper(), m[2].strip().strip("*").strip()) for m in lines if m]
        if (
            len(labelled) < len(lines)
            or tuple(name for name, _ in labelled) != self.labels
            or not all(t for _, t in labelled)
        ):
            return None
        return tuple(text for _, text in labelled)

    def read(self, reply: Response, id: str, stage: str, who: str) -> tuple[str, ...] | Drop:
        """The texts of a reply, or why it makes no pair.

        Args:
            reply: of the model.
            id: of the pair.
            stage: of the build.
            who: the model's part in it, in words.
        """
        if reply.error:
            return drop(id, stage, f"the {who}'s call failed", reply.error)
        if _ESCAPE.search(reply.text):
            return drop(id, stage, f"the {who} found no good question", reply.text)
        return self.parse(reply.text) or drop(
            id, stage, f"the {who}'s lines cannot be read", reply.text
        )


def drop(id: str, stage: str, reason: str, detail: str = "") -> Drop:
    """What makes no pair, and why."""
    return Drop(sample=id, stage=stage, reason=reason, detail=detail[:300])
