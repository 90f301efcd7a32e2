"""Every request of a build, by its item: paid for once, kept in the set's ledger; and how its reply is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from demur.core.errors import PermanentError, TransientError
from demur.core.records import ImagePart, ImageRef, Message, Request, Response, TextPart
from demur.core.strict_json import parsed_json
from demur.judge.rules import visible
from demur.models import model_id, open_model
from demur.models.run import complete_all, run_sync


def replies(
    model: str, asked: Iterable[tuple[str, tuple[str, ...], Sequence[ImageRef]]], out: Path, *,
    root: Path | None = None, seed: int = 0, max_tokens: int = 300, schema: dict[str, Any] | None = None,
) -> dict[str, Response]:  # fmt: skip
    """Item -> reply.

    Args:
        model: model string, or several of one model joined by commas.
        asked: (item, what is said, photos), in the order in which they are put. User and model speak by turns, the user
            last, with the photos.
        out: folder of the set; ``calls.sqlite`` in it keeps the replies.
        root: folder that photos are relative to.
        seed: of the model's sampling.
        max_tokens: of a reply.
        schema: of a reply, where the endpoint takes one: the first request tells.
    """
    addresses = re.split(r",(?=[a-z-]+:|[a-z-]+/)", model)

    def request(item: str, turns: tuple[str, ...], photos: Sequence[ImageRef]) -> Request:
        *before, last = (TextPart(text=text) for text in turns)
        roles = cycle(("user", "assistant"))
        messages = [Message(role=next(roles), parts=(part,)) for part in before]
        parts = (*(ImagePart(image=photo) for photo in photos), last)
        return Request(model=model_id(addresses[0]), temperature=0.0, max_tokens=max_tokens, seed=seed, item=item,
                       messages=(*messages, Message(role="user", parts=parts)))  # fmt: skip

    async def all_of() -> dict[str, Response]:
        requests = [request(*one) for one in asked]
        async with open_model(addresses, ledger=out / "calls.sqlite", image_root=root) as opened:
            if requests and schema is not None:
                held = [one.model_copy(update={"json_schema": schema}) for one in requests]
                with suppress(PermanentError):  # it may not know schemas: all are asked for words
                    with suppress(TransientError):  # told with its item
                        await opened.complete(held[0])
                    requests = held
            return {q.item: reply async for q, reply in complete_all(opened, requests)}

    return run_sync(all_of())


def labelled(
    reply: str, line: re.Pattern[str], labels: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[str, ...] | None:
    """What a reply says under its labels, each once and in order, or as an object of just these fields; else None.

    Args:
        reply: of a model, its thinking included.
        line: a line's (label, text), in its two groups.
        labels: of the lines, in capitals.
        fields: of the object, in the order of the labels.
    """
    text = visible(reply).strip()
    if text.startswith("{"):
        try:
            given = parsed_json(text)
        except ValueError:
            return None
        texts = tuple(" ".join(t.split()) for name in fields if isinstance(t := given.get(name), str))
        return texts if len(given) == len(texts) == len(fields) and all(texts) else None
    lines = [line.match(one) for one in text.splitlines() if one.strip()]
    found = [(m[1].upper(), m[2].strip().strip("*").strip()) for m in lines if m]
    if len(found) < len(lines) or tuple(name for name, _ in found) != labels or not all(said for _, said in found):
        return None
    return tuple(said for _, said in found)
