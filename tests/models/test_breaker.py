"""A server that dies in the middle of a run costs the patience of a few questions, not of all that are left."""

from __future__ import annotations

import asyncio
import socket

import pytest
from errors import raises

from demur.core.errors import CallError, ItemError
from demur.core.records import Ask, Response, Scenario
from demur.models import ModelOptions, open_model, run_sync, wire
from demur.models import fleet as fleets
from demur.models.breaker import ENOUGH, PROBE_S, Breaker
from demur.models.client import ModelClient, Retry
from demur.models.fleet import Fleet
from demur.models.images import UnreadableImage
from demur.models.wire import Fault
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.http import HttpSystem
from demur.scenarios.systems.http_mapping import RagMapping


def test_a_server_is_gone_when_enough_questions_in_a_row_found_nobody_and_looked_for_now_and_then():
    now = [0.0]
    breaker = Breaker("there", lambda: now[0])
    for _ in range(ENOUGH):
        assert breaker.refusal() is None
        breaker.gave_up(0.0)
    refused = breaker.refusal()
    assert refused is not None
    assert refused.kind == "connect"
    now[0] = PROBE_S + 1
    assert [breaker.refusal() is None for _ in range(3)] == [True, False, False]  # one looks
    breaker.heard()
    assert breaker.refusal() is None
    for started in (0.0, 0.0, 0.0):  # it spoke after these had begun
        breaker.gave_up(started)
    assert breaker.refusal() is None


class Dying:
    """Answers so many calls, then nobody is there."""

    name = "http://there"

    def __init__(self, lives: int) -> None:
        self.lives, self.sent = lives, 0

    async def send(self, request: object, timeout_s: float) -> str:
        self.sent += 1
        if self.sent > self.lives:
            raise Fault("cannot connect", kind="connect")
        return wire.reply_of(Response(text="yes"), self.name)

    async def close(self) -> None:
        pass


async def test_what_is_left_fails_at_once_when_the_server_has_died(ask, monkeypatch):
    monkeypatch.setattr(fleets, "_DOWN_MOST_S", 0.001)
    backend = Dying(lives=20)
    client = ModelClient(
        "fake", Fleet([backend], 4), ModelOptions(retry=Retry(tries=5, backoff_s=0.001))
    )

    room = asyncio.Semaphore(8)  # as runs ask

    async def one(number: int) -> str:
        try:
            async with room:
                return (await client.complete(ask(f"q{number}"))).text
        except CallError as error:
            return f"{error} of {error.item}"

    said = await asyncio.gather(*(one(number) for number in range(200)))
    assert said.count("yes") == 20
    assert all(line == "yes" or line.endswith(f"of q{number}") for number, line in enumerate(said))
    assert sum("http://there " in line for line in said) >= 150
    assert backend.sent <= 20 + 5 * (
        ENOUGH + 8
    )  # those under way when it was found gone end their patience
    await client.close()


async def test_a_server_that_says_no_is_there(ask):
    class Refuses(Dying):
        async def send(self, request: object, timeout_s: float) -> str:
            self.sent += 1
            raise Fault("busy", kind="503")

    backend = Refuses(0)
    client = ModelClient(
        "fake", Fleet([backend], 2), ModelOptions(retry=Retry(tries=2, backoff_s=0.001))
    )
    for number in range(8):
        with pytest.raises(CallError, match="after 2 attempts"):
            await client.complete(ask(f"q{number}"))
    assert backend.sent == 16
    await client.close()


@pytest.mark.parametrize(
    ("error", "is_back"),
    [
        (ItemError("the context is too long"), True),
        (UnreadableImage("an image cannot be read"), False),
    ],
)
async def test_a_test_call_that_the_server_refuses_shows_that_it_is_back(
    ask, monkeypatch, error, is_back
):
    monkeypatch.setattr(fleets, "_DOWN_MOST_S", 0.001)
    backend = Dying(lives=0)
    client = ModelClient("fake", Fleet([backend], 1), ModelOptions(retry=Retry(tries=1)))
    for number in range(ENOUGH):
        with raises(CallError, "1x connect"):
            await client.complete(ask(f"q{number}"))
    with raises(Fault, cure="server"):
        await client.complete(ask("too early"))
    client._fleet.breaker._next_probe = 0.0

    async def refuses(request: object, timeout_s: float) -> str:
        raise error

    backend.send, send = refuses, backend.send  # type: ignore[method-assign]
    with pytest.raises(ItemError, match=str(error)):
        await client.complete(ask("the test call"))
    backend.send, backend.lives = send, 100  # type: ignore[method-assign]
    if is_back:
        assert (await client.complete(ask("next"))).text == "yes"
    else:
        with raises(Fault, cure="server"):
            await client.complete(ask("next"))
    await client.close()


def test_a_service_that_died_is_not_tried_for_every_question(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mapping = {
        "url": f"http://127.0.0.1:{port}/ask",
        "body": {"q": "{question}"},
        "answer": "$.a",
        "retries": 0,
    }
    system = HttpSystem(
        RagMapping.of(mapping, "rag.yaml"), SystemContext(read_image=lambda ref: b"")
    )

    async def work() -> list[str]:
        asks = [
            Ask(
                id=f"a{n}",
                sample="s",
                context="c",
                scenario=Scenario.ORACLE,
                question="Which river?",
            )
            for n in range(ENOUGH + 2)
        ]

        async def refuses(*_: object) -> None:
            raise ItemError("HTTP 404")

        try:
            said = [(await system.answer(one)).error for one in asks]
            system._breaker._next_probe = 0.0
            monkeypatch.setattr(system, "_send", refuses)  # it is back
            return said + [(await system.answer(one)).error for one in asks]
        finally:
            await system.close()

    said = run_sync(work())
    assert all(line and "not sent" not in line for line in said[:ENOUGH])
    assert all("not sent" in line for line in said[ENOUGH : ENOUGH + 2])
    assert said[ENOUGH + 2 :] == ["HTTP 404"] * (ENOUGH + 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "raised", [KeyError("usage"), TypeError("no such field"), RuntimeError("?")]
)
async def test_what_an_sdk_raises_on_one_item_is_that_items_error(ask, monkeypatch, raised):
    pytest.importorskip("any_llm")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    async with open_model(
        "any-llm:openai/fake", ModelOptions(retry=Retry(backoff_s=0.001))
    ) as model:

        async def raises(**_: object) -> None:
            raise raised

        for backend in (slot.backend for slot in model._fleet.slots):
            monkeypatch.setattr(backend._client, "acompletion", raises)
        with pytest.raises(ItemError, match=type(raised).__name__) as caught:
            await model.complete(ask("q", model=model.id, item="it"))
        assert caught.value.item == "it"
        assert caught.value.paid  # it may have been a reply that the SDK could not read
