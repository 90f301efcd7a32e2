"""``service_tier: flex``: half the price, more time, and the same reply."""

from __future__ import annotations

import json

import pytest

from demur.core.errors import TransientError
from demur.core.records import Response, Usage
from demur.models import (
    Budget,
    Fleet,
    ModelClient,
    ModelOptions,
    Price,
    Prices,
    Retry,
    open_model,
    wire,
)
from demur.models.identity import request_key
from demur.models.wire import Fault
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.model import ModelSystem

PRICE = Price(prompt=0.0, completion=1000.0, flex=0.5)


class Server:
    """Answers with four tokens, in a tier, or fails; remembers how long it was given."""

    name = "server"

    def __init__(self, tier, fault=None):
        self.tier, self.fault, self.timeouts = tier, fault, []

    async def send(self, request, timeout_s):
        self.timeouts.append(timeout_s)
        if self.fault is not None:
            raise Fault("late", kind=self.fault, paid=True)
        raw = wire.reply_of(Response(text="yes", usage=Usage(prompt=9, completion=4)), "m")
        return json.dumps(json.loads(raw) | {"service_tier": self.tier})

    async def close(self):
        pass


async def cost(server, request):
    """US dollars of a request, or of its two attempts."""
    budget = Budget(1.0)
    retry = Retry(tries=2, backoff_s=0.0)
    client = ModelClient(
        "fake", Fleet([server], 1), ModelOptions(retry=retry, budget=budget), price=PRICE
    )
    try:
        await client.complete(request)
    except TransientError:
        assert server.fault is not None
    await client.close()
    assert client.counts.money == pytest.approx(budget.spent)
    return budget.spent


@pytest.mark.parametrize(
    ("asked", "served", "dollars"),
    [
        ("flex", "flex", 0.002),
        ("flex", "default", 0.004),  # the vendor had no room in flex, or has none at all
        ("flex", None, 0.004),
        (None, "flex", 0.004),
    ],
)
async def test_a_reply_costs_what_the_tier_costs_that_served_it(ask, asked, served, dollars):
    request = ask("q", max_tokens=4, service_tier=asked)
    assert await cost(Server(served), request) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("tier", "fault", "dollars"),
    [
        ("flex", "timeout", 0.0),
        ("flex", "504", 0.0),
        ("flex", "reset", 0.008),
        (None, "timeout", 0.008),
        (None, "504", 0.008),
    ],
)
async def test_a_time_out_in_flex_costs_nothing(ask, tier, fault, dollars):
    server = Server("flex", fault)
    request = ask("q", max_tokens=4, service_tier=tier)
    assert await cost(server, request) == pytest.approx(dollars)
    assert server.timeouts[0] == (900 if tier else 120)


def test_a_tier_is_no_part_of_a_call(ask):
    plain, flex = ask("q"), ask("q", service_tier="flex")
    assert request_key(plain, "m") == request_key(flex, "m")
    assert wire.request_body(flex, "m", str)["service_tier"] == "flex"
    assert "service_tier" not in wire.request_body(plain, "m", str)


async def test_a_reply_in_one_tier_is_the_reply_in_the_other(ask, tmp_path):
    from demur.testing import FakeEndpoint

    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        assert not (await model.complete(ask("q", service_tier="flex"))).cached
        assert (await model.complete(ask("q"))).cached
        assert server.requests == 1


def test_a_tier_is_no_setting_of_a_system():
    def system(**options):
        return ModelSystem("openai/gpt-5", SystemContext(read_image=bytes, options=options))

    flex = system(temperature=0.0, service_tier="flex")
    assert flex.settings == system(temperature=0.0).settings
    assert flex.sampling["service_tier"] == "flex"


def test_models_with_flex_are_in_the_table():
    prices = Prices()
    assert prices.find("openai/gpt-5").flex == 0.5
    assert prices.find("claude-opus-5").flex == 1.0
