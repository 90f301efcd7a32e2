"""Limits on calls in flight, and several endpoints of one model."""

from __future__ import annotations

import asyncio

import pytest
from waiting import ENDS_S, until

from demur.core.errors import (
    PermanentError,
    UsageError,
)
from demur.core.records import Response
from demur.models import ModelOptions, complete_all, open_model, wire
from demur.models.client import ModelClient, Retry
from demur.models.fleet import EndpointSlot, Fleet
from demur.models.function import FunctionBackend
from demur.models.wire import Fault
from demur.testing import FakeEndpoint

QUICK = {"backoff_s": 0.005}
"""Of an attempt's time-out nothing: a busy machine would decide which attempts are given up."""


async def test_the_limit_starts_low_and_finds_what_the_server_takes(ask):
    """Counted in turns of the loop: over HTTP the machine's load would decide how many are there at once."""

    class TakesTwelve:
        name = "takes twelve"
        there = most = 0

        async def send(self, request, timeout_s):
            self.there += 1
            self.most = max(self.most, self.there)
            try:
                full = self.there > 12
                for _ in range(4):
                    await asyncio.sleep(0)
                if full:
                    raise Fault("slow down", kind="429")
                return wire.reply_of(Response(text="yes"), self.name)
            finally:
                self.there -= 1

        async def close(self):
            pass

    server = TakesTwelve()
    fleet = Fleet([server], 64)
    model = ModelClient("m", fleet, ModelOptions(retry=Retry(backoff_s=0.0)))
    replies = await gathered(model, [ask(f"{n}", model="m") for n in range(600)])
    assert [a.text for a in replies] == ["yes"] * 600
    assert fleet.slots[0].limit < 32
    assert 0 < model.counts.faults["429"] < 120
    assert 12 < server.most < 32


@pytest.mark.parametrize("kind", ["429", "timeout"])
def test_a_limit_halves_once_per_round_trip_and_grows_back(kind):
    """On a time-out too: a server with one slot says no 429, it lets calls queue until all time out."""
    slot = EndpointSlot(backend=None, most=64)
    for _ in range(100):
        slot.worked()
    assert slot.limit == 64
    for started in (1.0, 1.0, 1.0):  # three calls that were in flight together
        slot.failed(Fault("", kind=kind), started, now=2.0)
    assert slot.limit == 32
    slot.failed(Fault("", kind=kind, retry_after=5.0), 3.0, now=4.0)
    assert slot.limit == 16
    assert not slot.free(8.9)
    assert slot.free(9.0)
    slot.worked()
    assert slot.limit == 16 + 1 / 16


class Waits(FakeEndpoint):
    """A server that answers when ``go`` is set."""

    def __init__(self, **options):
        super().__init__(**options)
        self.go = asyncio.Event()

    async def _play(self, *asked):
        await self.go.wait()
        return await super()._play(*asked)


async def gathered(model, requests):
    return [reply async for _, reply in complete_all(model, requests)]


async def test_concurrency_is_never_passed(ask):
    async with Waits() as server, open_model(server.model(), ModelOptions(concurrency=5)) as model:
        run = asyncio.create_task(gathered(model, [ask(f"{n}") for n in range(60)]))
        await until(lambda: server.in_flight == 5)
        server.go.set()
        assert len(await run) == 60
        assert server.in_flight_most == 5


async def test_a_dead_endpoint_does_not_stop_the_run(ask):
    async with FakeEndpoint() as gone:
        dead = gone.model()
    async with FakeEndpoint() as one, FakeEndpoint() as two:
        async with open_model(
            [dead, one.model(), two.model()], ModelOptions(retry=Retry(**QUICK))
        ) as model:
            replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(300)])]
        assert not [a.error for a in replies if a.error]
        assert {a.served_by for a in replies} == {one.url, two.url}
        assert model.counts.faults["connect"] < 60


async def test_an_endpoint_that_dies_in_the_middle(ask):
    one, two = FakeEndpoint(latency_s=0.005), FakeEndpoint(latency_s=0.005)
    async with two:
        await one.start()
        async with open_model(
            [one.model(), two.model()], ModelOptions(retry=Retry(**QUICK))
        ) as model:
            done = 0
            async for _, reply in complete_all(model, [ask(f"{n}") for n in range(400)]):
                assert not reply.error
                done += 1
                if done == 100:
                    await one.stop()
            assert done == 400


async def test_an_endpoint_with_a_wrong_key_leaves_the_fleet(ask):
    async with FakeEndpoint(key="other") as locked, FakeEndpoint() as open_:
        async with open_model(
            [locked.model(), open_.model()], ModelOptions(retry=Retry(**QUICK))
        ) as model:
            replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(50)])]
        assert {a.served_by for a in replies} == {open_.url}
        assert locked.requests <= 8
        async with open_model(
            [locked.model(), locked.model()], ModelOptions(retry=Retry(**QUICK))
        ) as model:
            with pytest.raises(PermanentError, match="401"):
                await model.complete(ask("q"))


@pytest.mark.heavy
async def test_load_goes_to_the_endpoint_that_is_quicker(ask):
    async with Waits() as slow, FakeEndpoint() as quick:
        async with open_model([slow.model(), quick.model()], ModelOptions(concurrency=4)) as model:
            run = asyncio.create_task(gathered(model, [ask(f"{n}") for n in range(300)]))
            await until(lambda: quick.paid.total() == 296)
            slow.go.set()
            assert len(await run) == 300
        assert (slow.requests, quick.requests) == (4, 296)


async def test_a_fleet_serves_one_model():
    with pytest.raises(UsageError, match="a, b"):
        async with open_model(["http://h/v1#a", "http://h/v1#b"]):
            pass


async def test_calls_are_served_in_the_order_in_which_they_came():
    """Also those that come while others are being woken: the server's prefix cache lives on the order."""
    fleet = Fleet([FunctionBackend("python:x:y", lambda _: "yes")], 2)
    came, served = [], []

    async def call(n):
        for _ in range(n % 7):
            await asyncio.sleep(0)
        came.append(n)
        slot = await fleet.take()
        served.append(n)
        for _ in range(1 + n % 3):
            await asyncio.sleep(0)
        fleet.give_back(slot)

    calls = []
    for n in range(200):
        calls.append(asyncio.create_task(call(n)))
        if n % 3 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*calls), ENDS_S)
    assert served == came


async def test_whoever_waits_for_an_endpoint_and_leaves_wakes_the_next():
    fleet = Fleet([FunctionBackend("python:x:y", lambda _: "yes")], 1)
    slot = await fleet.take()
    first, second = asyncio.create_task(fleet.take()), asyncio.create_task(fleet.take())
    await asyncio.sleep(0)
    fleet.give_back(slot)
    first.cancel()
    assert await asyncio.wait_for(second, ENDS_S) is slot
    await asyncio.gather(first, return_exceptions=True)
