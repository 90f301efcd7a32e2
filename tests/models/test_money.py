"""What a server charges never passes the budget, whatever the server says of it, or where it says nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from errors import raises
from waiting import ENDS_S

from demur.core.errors import BudgetReached
from demur.models import Budget, ModelOptions, Retry, complete_all, open_model
from demur.models.client import summary

ANSWER = {"choices": [{"message": {"content": "It is Paris."}, "finish_reason": "stop"}]}
SHAPES = {
    "no usage": {},
    "null": {"usage": None},
    "zeros": {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
    "other names": {"usage": {"input_tokens": 9, "output_tokens": 4}},
    "text": {"usage": "none"},
    "negative": {"usage": {"prompt_tokens": 9, "completion_tokens": -4}},
    "numbers in words": {"usage": {"prompt_tokens": "9", "completion_tokens": "4"}},
}
BREAKS = ("reset", "500", "502", "504", "cut off", "no choices", "not JSON")


class Server:
    """Charges $0.004 for every request that it has read, and then answers in one of the ways above."""

    def __init__(self, way):
        self.way, self.charged, self.url = way, 0, ""

    async def answer(self, request):
        await request.json()
        self.charged += 1
        if self.way == "reset":
            request.transport.abort()
        if self.way.isdigit():
            return web.json_response({"error": {"message": "late"}}, status=int(self.way))
        if self.way in ("cut off", "not JSON"):
            return web.Response(text=json.dumps(ANSWER)[:20] if self.way == "cut off" else "<html>")
        if self.way == "no choices":
            return web.json_response({"choices": []})
        return web.json_response(ANSWER | SHAPES[self.way])


@asynccontextmanager
async def serving(way):
    server = Server(way)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1#fake"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"fake": {"prompt": 0.0, "completion": 1000.0}}}))
    return path


async def command(server, requests, budget, prices, ledger):
    """One command; its counts."""
    async with open_model(
        server.url,
        ModelOptions(
            ledger=ledger, budget=budget, prices=prices, retry=Retry(backoff_s=0.001, tries=3)
        ),
    ) as model:
        with suppress(BudgetReached):
            async for _ in complete_all(model, requests):
                pass
        return model.counts


@pytest.mark.parametrize("way", [*SHAPES, *BREAKS])
async def test_what_nobody_reported_counts_with_its_maximum_cost(ask, prices, tmp_path, way):
    """Two commands at once, and one that repeats them: $0.10 are 25 calls, and the server charges for no more."""
    ledger = tmp_path / "l.sqlite"
    requests = [ask(f"q{n}", max_tokens=4) for n in range(60)]
    async with serving(way) as server:
        commands = (
            command(server, asked, Budget(0.1, ledger), prices, ledger)
            for asked in (requests, requests[::-1])
        )
        counts = await asyncio.gather(*commands)
        assert server.charged == 25
        more = [ask(f"r{n}", max_tokens=4) for n in range(9)]
        await command(server, more, Budget(0.1, ledger), prices, ledger)
        assert server.charged == 25
    assert Budget(None, ledger).spent == pytest.approx(0.1)
    assert Budget(None, ledger).unreported == pytest.approx(0.1)
    assert sum(c.unreported for c in counts) == 25
    assert "at most $0.10" in summary(counts)  # it says that the spend is an upper bound


@pytest.mark.parametrize("status", ["503", "529", "400", "413"])
async def test_what_the_server_refused_costs_nothing(ask, prices, tmp_path, status):
    budget = Budget(0.1, tmp_path / "l")
    async with serving(status) as server:
        requests = [ask(f"q{n}", max_tokens=4) for n in range(2)]
        counts = await command(server, requests, budget, prices, tmp_path / "l")
    assert (budget.spent, budget.unreported) == (0, 0)
    assert (counts.unreported, counts.money) == (0, 0)


async def test_the_error_of_a_reached_budget_says_which_part_nobody_reported(tmp_path):
    budget = Budget(1.0, tmp_path / "l")
    budget.settle(await budget.reserve(0.5), 0.25)
    budget.settle(await budget.reserve(0.5), None)
    with raises(BudgetReached, "$0.7500", "$1.0000", "$0.5000"):
        await budget.reserve(0.5)
    assert (budget.spent, budget.unreported) == (0.75, 0.5)


CHILD = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from demur.core.errors import BudgetReached
    from demur.core.records import Message, Request, TextPart
    from demur.models import Budget, ModelOptions, Retry, complete_all, open_model

    url, folder, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

    def request(n):
        parts = (TextPart(text=f"{name} {n}"),)
        return Request(model="fake", max_tokens=4, messages=(Message(role="user", parts=parts),))

    async def work():
        budget = Budget(0.1, folder / "l.sqlite")
        retry = Retry(backoff_s=0.001, tries=3)
        options = ModelOptions(ledger=folder / "l.sqlite", budget=budget, retry=retry, prices=folder / "prices.json")
        async with open_model(url, options) as model:
            async for _ in complete_all(model, [request(n) for n in range(60)]):
                pass

    try:
        asyncio.run(work())
    except BudgetReached:
        sys.exit(3)
""")


@pytest.mark.integration
async def test_two_processes_share_the_bound(prices, tmp_path):
    async with serving("reset") as server:

        async def child(name):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, server.url, str(tmp_path), name
            )
            return await asyncio.wait_for(process.wait(), ENDS_S)

        assert await asyncio.gather(child("a"), child("b")) == [3, 3]
        assert server.charged == 25
