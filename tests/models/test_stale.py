"""No reply ever answers another request than its own, whatever a server or proxy sends twice."""

from __future__ import annotations

import asyncio
import json
import random
import re
from contextlib import suppress

import pytest

from demur.models import ModelOptions, Retry, complete_all, open_model
from demur.models.endpoint import StaleReplies
from demur.testing import FakeEndpoint
from demur.testing.fake import echo

QUICK = {"backoff_s": 0.005}
"""Of an attempt's time-out nothing: a busy machine would decide which attempts are given up."""


@pytest.mark.parametrize("fault", ["duplicate", "duplicate-late"])
async def test_a_reply_sent_twice_never_answers_the_next_request(ask, fault):
    async with (
        FakeEndpoint(f"{fault}*200", latency_s=0.002) as server,
        open_model(server.model(), ModelOptions(concurrency=2, retry=Retry(**QUICK))) as model,
    ):
        for n in range(25):
            await asyncio.gather(*(self_check(model, ask(f"{n} {k}"), server) for k in range(2)))


def test_texts_that_are_no_replies_say_nothing_about_ids():
    """Such a text once switched the check off, and replies of other requests were taken from then on."""
    stale = StaleReplies()
    one, two, three = range(3)
    mangled = '{"id": "cmpl-HTTP/1.1 200 OK\\r\\n\\r\\n{"id": "c1", "choices'
    page = '<html><script>{"id": "login"}</script></html>'
    assert not stale.is_stale('{"id": "a1"}', 1, one)
    assert stale.is_stale('{"id": "a1"}', 2, one)
    for text in (mangled, page):
        assert not stale.is_stale(text, 4, two)
        assert not stale.is_stale(text, 5, three)
    assert stale.is_stale('{"id": "a1"}', 6, one)  # still on


class SendsTwice:
    """A server behind a proxy that sends any reply, also an error, a second time within milliseconds."""

    KINDS = ("ok",) * 6 + ("429", "500", "html", "empty", "cut")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.talk, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1#fake"

    async def __aexit__(self, *_):
        self.server.close()

    async def talk(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = await reader.readexactly(
                    int(re.search(rb"(?i)content-length: (\d+)", head)[1])
                )
                data = self.reply(json.loads(body)["messages"][0]["content"])
                await asyncio.sleep(self.random.uniform(0, 0.004))
                cut = self.random.choice([0, 0, len(data) // 2])  # some bodies are slow
                writer.write(data[:cut])
                await asyncio.sleep(0.002 if cut else 0)
                writer.write(data[cut:])
                if self.random.random() < 0.25:
                    later = self.random.choice([0, 0.001, 0.003, 0.006])
                    asyncio.get_running_loop().call_later(later, writer.write, data)
        writer.close()

    def reply(self, asked: str) -> bytes:
        kind = self.random.choice(self.KINDS)
        name = f"id-{self.random.getrandbits(64)}"  # of their own, as all vendors give them
        good = json.dumps({"id": name, "choices": [{"message": {"content": f"answer to {asked}"}}]})
        other = {
            "429": "{}",
            "500": "{}",
            "html": "<p>Sign in</p>",
            "empty": '{"choices": []}',
            "cut": good[30:],
        }
        data = other.get(kind, good).encode()
        status = kind if kind.isdigit() else 200
        return f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


@pytest.mark.parametrize("seed", range(2))
async def test_a_second_copy_of_an_error_lets_no_later_reply_answer_another_request(ask, seed):
    """A copy of an error has no id: the request that it answered was asked again, and its reply answered the next."""
    async with (
        SendsTwice(seed) as text,
        open_model(
            text, ModelOptions(concurrency=24, retry=Retry(tries=30, backoff_s=0.002))
        ) as model,
    ):
        replies = {
            q.item: a async for q, a in complete_all(model, (ask(f"q{n}") for n in range(400)))
        }
    assert {item: a.text or a.error for item, a in replies.items()} == {
        f"q{n}": f"answer to q{n}" for n in range(400)
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_copies_between_slow_bodies_never_answer_another_request(ask, seed):
    async with (
        FakeEndpoint(
            "duplicate=15%,duplicate-late=10%,drip=40%,reset=5%", seed=seed, most_faults=50
        ) as server,
        open_model(server.model(), ModelOptions(concurrency=32, retry=Retry(**QUICK))) as model,
    ):
        replies = {
            q.item: a async for q, a in complete_all(model, (ask(f"q{n}") for n in range(600)))
        }
    right = {item: echo({"messages": [{"role": "user", "content": item}]}) for item in replies}
    assert {i: a.text for i, a in replies.items() if not a.error and a.text != right[i]} == {}


@pytest.mark.parametrize("name", ["", "same"])
async def test_a_server_without_telling_ids_is_believed(ask, name, monkeypatch):
    """Replies that are alike to the letter, under one id or none, are no sign of a stale connection."""
    from demur.testing import fake

    def completion(self, body, text):
        value = original(self, body, text)
        return value | {"id": name} if name else {k: v for k, v in value.items() if k != "id"}

    original = fake.FakeEndpoint._completion
    monkeypatch.setattr(fake.FakeEndpoint, "_completion", completion)
    async with (
        FakeEndpoint(reply=lambda _: "yes") as server,
        open_model(server.model(), ModelOptions(concurrency=2, retry=Retry(**QUICK))) as model,
    ):
        replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(60)])]
    assert [a.text for a in replies] == ["yes"] * 60
    assert server.requests <= 62


async def self_check(model, request, server):
    reply = await model.complete(request)
    body = {"messages": [{"role": "user", "content": request.messages[0].parts[0].text}]}
    assert reply.text == echo(body)
