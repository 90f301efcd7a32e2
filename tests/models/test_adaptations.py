"""Servers that want a request in another way say so once; what they answer is read."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from demur.core.errors import ItemError
from demur.core.records import Usage
from demur.models import ModelOptions, Retry, open_model

NUMBERS = itertools.count()
USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
PLAIN = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": USAGE}


def stream(body):
    """The reply in events; the usage is there only for those who ask for it."""
    deltas = [{"content": "y"}, {"content": "es"}]
    name = next(NUMBERS)
    chunks = [{"id": f"x{name}", "choices": [{"delta": d, "finish_reason": None}]} for d in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    if body.get("stream_options"):
        chunks.append({"id": f"x{name}", "choices": [], "usage": USAGE})
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return web.Response(text=events, content_type="text/event-stream")


def refusal(message):
    return web.json_response({"error": {"message": message}}, status=400)


def openai(body):
    if "max_tokens" in body:
        return refusal(
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
        )
    assert body["max_completion_tokens"] == 5
    return web.json_response(PLAIN)


def only_streams(body):
    if not body.get("stream"):
        return refusal("This model only support stream mode, please enable the stream parameter")
    return stream(body)


def both(body):
    return openai(body) if "max_tokens" in body else only_streams(body)


def no_options(body):
    if "stream_options" in body:
        return refusal("unknown field: stream_options")
    return only_streams(body)


@asynccontextmanager
async def serving(answer):
    bodies = []

    async def take(request):
        bodies.append(await request.json())
        return answer(bodies[-1])

    app = web.Application()
    app.router.add_post("/v1/chat/completions", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1#fake", bodies
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "refused", "usage"),
    [
        (stream, 0, Usage()),
        (openai, 1, Usage(prompt=9, completion=2)),
        (only_streams, 1, Usage(prompt=9, completion=2)),
        (both, 2, Usage(prompt=9, completion=2)),
        (no_options, 2, Usage()),
    ],
)
async def test_what_a_server_wants_is_learnt_from_its_refusal(
    ask, tmp_path, answer, refused, usage
):
    ledger = tmp_path / "l"
    async with serving(answer) as (url, bodies):
        async with open_model(url, ModelOptions(ledger=ledger, retry=Retry(tries=1))) as model:
            first = await model.complete(ask("q0", max_tokens=5))
            assert (first.text, first.usage) == ("yes", usage)
            assert len(bodies) == 1 + refused
            later = [model.complete(ask(f"q{n}", max_tokens=5)) for n in range(1, 9)]
            assert {reply.text for reply in await asyncio.gather(*later)} == {"yes"}
            assert len(bodies) == 9 + refused
            assert model.counts.retries == 0
        async with open_model(
            url, ModelOptions(ledger=ledger)
        ) as again:  # the same call, however it was sent
            assert (await again.complete(ask("q3", max_tokens=5))).cached
        assert len(bodies) == 9 + refused


async def test_calls_that_are_refused_together_learn_together(ask):
    async with serving(both) as (url, bodies), open_model(url) as model:
        replies = await asyncio.gather(
            *(model.complete(ask(f"{n}", max_tokens=5)) for n in range(8))
        )
    assert {reply.text for reply in replies} == {"yes"}
    assert len(bodies) <= 3 * 8


async def test_a_server_that_refuses_whatever_way_is_not_asked_for_ever(ask):
    def never(body):
        return refusal("no stream, no max_completion_tokens, no stream_options")

    async with serving(never) as (url, bodies), open_model(url) as model:
        with pytest.raises(ItemError):
            await model.complete(ask("q", max_tokens=5))
    assert len(bodies) == 2
