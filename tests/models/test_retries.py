"""When a call is tried again, when it is given up, and what stops it at once."""

from __future__ import annotations

import asyncio

import pytest
from errors import raises
from waiting import ENDS_S

from demur.core.errors import (
    ItemError,
    PermanentError,
    TransientError,
)
from demur.core.records import Response
from demur.models import ModelOptions, open_model, wire
from demur.models.client import ModelClient, Retry
from demur.models.fleet import Fleet
from demur.models.wire import Fault
from demur.testing import FakeEndpoint
from demur.testing.fake import INJECTION, RETRYABLE, echo

QUICK = {"backoff_s": 0.005}
"""Of an attempt's time-out nothing: a busy machine would decide which attempts are given up."""


def expected(server: FakeEndpoint) -> str:
    return echo(server.bodies[-1])


@pytest.mark.parametrize("fault", [f for f in RETRYABLE if f != "stall"])
async def test_a_passing_fault_is_tried_again(ask, fault):
    async with (
        FakeEndpoint(f"{fault}*2,ok") as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK))) as model,
    ):
        reply = await model.complete(ask("q"))
        assert reply.text == expected(server)
        assert server.requests == 3
        assert model.counts.retries == 2
        assert model.counts.sent == 3


async def test_a_stall_is_given_up_after_the_time_out(ask):
    async with (
        FakeEndpoint("stall,ok", stall_s=2 * ENDS_S) as server,
        open_model(
            server.model(), ModelOptions(retry=Retry(**QUICK | {"timeout_s": 0.5}))
        ) as model,
    ):
        reply = await asyncio.wait_for(model.complete(ask("q")), ENDS_S)
        assert reply.text == expected(server)
        assert model.counts.faults["timeout"] >= 1  # the second attempt may meet a busy machine


async def test_a_drip_slower_than_the_time_out_is_given_up(ask):
    async with (
        FakeEndpoint("drip*99") as server,
        open_model(
            server.model(), ModelOptions(retry=Retry(timeout_s=0.004, tries=3, backoff_s=0.001))
        ) as model,  # the third has four times that
    ):
        with raises(TransientError, "3 attempts"):
            await model.complete(ask("q"))
        assert (
            model.counts.faults["timeout"] >= 1
        )  # a busy machine may not connect in so short a time
        assert model.counts.replies == 0


async def test_a_server_that_needs_longer_than_the_time_out_is_given_longer(ask):
    class Slow:
        name = "slow"
        given = ()

        async def send(self, request, timeout_s):
            self.given = (*self.given, round(timeout_s))
            if timeout_s < 400:
                raise Fault("no whole reply", kind="timeout")
            return wire.reply_of(Response(text="yes"), self.name)

        async def close(self):
            pass

    server = Slow()
    model = ModelClient("m", Fleet([server], 1), ModelOptions(retry=Retry(backoff_s=0.0)))
    assert (await model.complete(ask("q", model="m"))).text == "yes"
    assert server.given == (120, 240, 480)
    with pytest.raises(TransientError) as raised:
        await ModelClient(
            "m", Fleet([server], 1), ModelOptions(retry=Retry(backoff_s=0.0, tries=2))
        ).complete(ask("r", model="m"))
    assert "--concurrency 1" in raised.value.cure


async def test_an_injection_is_only_text(ask):
    async with (
        FakeEndpoint("injection") as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK))) as model,
    ):
        assert (await model.complete(ask("q"))).text == INJECTION


async def test_tries_run_out_with_what_was_seen(ask):
    async with (
        FakeEndpoint("500,reset,truncated,empty") as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK | {"tries": 4}))) as model,
    ):
        with raises(Fault, "4 attempts (1x 500, 1x broken, 1x empty, 1x reset)", item="7"):
            await model.complete(ask("q", item="7"))
        assert model.counts.failed == 1


async def test_retry_after_is_honoured_and_does_not_use_up_tries(ask):
    async with (
        FakeEndpoint("429-after*4,ok", retry_after_s=0.05) as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK | {"tries": 2}))) as model,
    ):
        clock = asyncio.get_running_loop().time
        began = clock()
        await model.complete(ask("q"))
        assert clock() - began >= 0.199  # never too early; how much later is the machine's affair
        assert server.requests == 5


async def test_retry_after_beyond_the_deadline_ends_at_once(ask):
    async with (
        FakeEndpoint("429-after*9", retry_after_s=3600) as server,
        open_model(server.model(), ModelOptions(retry=Retry(deadline_s=ENDS_S, **QUICK))) as model,
    ):
        with raises(TransientError, "3600 s", f"{ENDS_S:g} s"):
            await model.complete(ask("q"))
        assert server.requests == 1
        with raises(TransientError, f"{ENDS_S:g} s"):
            await asyncio.wait_for(model.complete(ask("next")), ENDS_S)
        assert server.requests == 1


async def test_a_limit_per_day_fails_also_the_calls_that_wait_for_their_turn(ask):
    """They waited for as long as the server asks: a run was silent for a day."""
    async with (
        FakeEndpoint("ok*8,429-after*999", retry_after_s=86400, latency_s=0.01) as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK))) as model,
    ):
        calls = (model.complete(ask(str(n))) for n in range(60))
        found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), ENDS_S)
        assert sum(isinstance(one, TransientError) and " 86" in str(one) for one in found) == 52
        assert server.requests <= 24


async def test_the_deadline_bounds_all_attempts(ask):
    """An endless 429 does not use up tries: without the deadline this call would not end."""
    async with (
        FakeEndpoint("429*9999") as server,
        open_model(
            server.model(),
            ModelOptions(retry=Retry(deadline_s=0.3, tries=2, backoff_s=0.02, timeout_s=60)),
        ) as model,
    ):
        with raises(TransientError, "attempts"):
            await asyncio.wait_for(model.complete(ask("q")), ENDS_S)
        assert model.counts.failed == 1
        assert model.counts.replies == 0


@pytest.mark.parametrize(
    ("fault", "kind", "cure"),
    [
        ("too-long", ItemError, "less evidence"),
        ("413", ItemError, "smaller"),
        ("filter", ItemError, "model"),
        ("401", PermanentError, "DEMUR_API_KEY"),
        ("404", PermanentError, "lists them"),
        ("text-only", PermanentError, "--mmproj"),
        ("quota", PermanentError, "money"),
    ],
)
async def test_a_permanent_refusal_stops_at_once_with_its_cure(ask, fault, kind, cure):
    async with (
        FakeEndpoint(f"{fault}*9") as server,
        open_model(server.model(), ModelOptions(retry=Retry(**QUICK))) as model,
    ):
        with pytest.raises(kind, match="7: ") as caught:
            await model.complete(ask("q", item="7"))
        assert type(caught.value) is kind
        assert cure in str(caught.value)
        assert server.requests == 1


async def test_a_server_that_is_not_there(ask):
    async with FakeEndpoint() as gone:
        text = gone.model()
    async with open_model(text, ModelOptions(retry=Retry(tries=3, backoff_s=0.001))) as model:
        with raises(TransientError, "3x connect", item="q"):
            await model.complete(ask("q"))
