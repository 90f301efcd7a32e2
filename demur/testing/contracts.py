"""Checks that a part keeps its contract; a plug-in's tests call them with the part.

Each raises `AssertionError` that says what was expected and what came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from demur.calls.door import Model
from demur.errors import CallError
from demur.records import Message, Request, Response, TextPart


def _ask(model: Model, text: str) -> Request:
    return Request(
        model=model.id,
        messages=(Message(role="user", parts=(TextPart(text=text),)),),
        temperature=0.0,
        max_tokens=16,
        item=text,
    )


async def check_model(model: Model, requests: Sequence[Request] = ()) -> None:
    """Check that a model answers as the one door promises.

    It has an id without an address; each reply is a `Response` with text or reasoning and without ``error``; calls
    may run at the same time and each gets its own reply; a failure is a `CallError`.

    Args:
        model: under test.
        requests: to ask; three short ones when empty.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    assert isinstance(model.id, str), "the model has no id"
    assert model.id, "the model's id is empty"
    assert "://" not in model.id, f"the model's id {model.id!r} holds an address: it would change the cache key"
    asked = list(requests) or [_ask(model, text) for text in ("Say yes.", "Say no.", "Say nothing else than blue.")]

    async def one(request: Request) -> Response | CallError:
        try:
            return await model.complete(request)
        except CallError as error:
            return error

    replies = await asyncio.gather(*(one(r) for r in asked))
    for request, reply in zip(asked, replies, strict=True):
        if isinstance(reply, CallError):
            assert str(reply), f"the failure of {request.item!r} says nothing"
            continue
        assert isinstance(reply, Response), f"{request.item!r}: expected a Response, got {type(reply).__name__}"
        assert not reply.error, f"{request.item!r}: an error is raised, not returned: {reply.error}"
        assert reply.text.strip() or reply.reasoning.strip(), f"{request.item!r}: the reply is empty"
        assert Response.model_validate_json(reply.model_dump_json()) == reply, (
            f"{request.item!r}: does not survive JSON"
        )
    assert any(isinstance(r, Response) for r in replies), f"no request was answered: {replies[0]}"
