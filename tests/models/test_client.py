"""A call through the ledger: paid once, kept, shared by all who ask the same; and calls without await."""

from __future__ import annotations

import asyncio
import json

import pytest
from errors import raises
from waiting import until

from demur.core.errors import (
    ItemError,
    StorageError,
    TransientError,
)
from demur.core.records import Response
from demur.models import Ledger, ModelOptions, Retry, complete_all, complete_sync, open_model
from demur.testing import FakeEndpoint
from demur.testing.fake import echo

QUICK = {"backoff_s": 0.005}
"""Of an attempt's time-out nothing: a busy machine would decide which attempts are given up."""


def expected(server: FakeEndpoint) -> str:
    return echo(server.bodies[-1])


async def test_what_was_paid_is_not_paid_again(ask, tmp_path):
    async with FakeEndpoint() as server:
        for round_ in range(2):
            async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
                reply = await model.complete(ask("q", item=str(round_)))
                assert reply.cached == (round_ == 1)
                assert reply.text == expected(server)
        assert server.requests == 1
    async with (
        FakeEndpoint() as moved,
        open_model(moved.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        assert (await model.complete(ask("q"))).cached  # another port is no other model
        assert not (await model.complete(ask("q", draw=1))).cached
        assert not (await model.complete(ask("q", temperature=0.5))).cached


async def test_equal_requests_at_the_same_time_are_one_call(ask, tmp_path):
    async with (
        FakeEndpoint(latency_s=0.05) as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        replies = await asyncio.gather(*(model.complete(ask("q", item=str(n))) for n in range(20)))
        assert server.requests == 1
        assert len({r.text for r in replies}) == 1
        assert model.counts.joined == 19


async def test_equal_requests_share_a_failure_each_under_its_own_name(ask, tmp_path):
    async with (
        FakeEndpoint("too-long*1", latency_s=0.05) as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        failures = await asyncio.gather(
            *(model.complete(ask("q", item=f"i{n}")) for n in range(3)), return_exceptions=True
        )
        assert [str(f).split(":")[0] for f in failures] == ["i0", "i1", "i2"]
        assert server.requests == 1


async def test_when_the_one_who_asks_leaves_another_asks(ask, tmp_path):
    async with (
        FakeEndpoint(latency_s=0.1) as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        first = asyncio.create_task(model.complete(ask("q")))
        await asyncio.sleep(0)
        second = asyncio.create_task(model.complete(ask("q")))
        await until(lambda: server.requests == 1)
        first.cancel()
        assert (await second).text == expected(server)


async def test_two_clients_on_one_ledger_make_one_call(ask, tmp_path):
    async with (
        FakeEndpoint(latency_s=0.1) as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as one,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as two,
    ):
        replies = await asyncio.gather(one.complete(ask("q")), two.complete(ask("q")))
        assert server.requests == 1
        assert replies[0].text == replies[1].text


@pytest.mark.parametrize("fault", ["empty", "blank", "truncated", "html", "500", "reset"])
async def test_what_is_no_reply_is_never_kept(ask, tmp_path, fault):
    async with FakeEndpoint(f"{fault}*3") as server:
        async with open_model(
            server.model(), ModelOptions(ledger=tmp_path / "l", retry=Retry(tries=3, **QUICK))
        ) as model:
            with pytest.raises(TransientError):
                await model.complete(ask("q"))
        async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
            assert not (await model.complete(ask("q"))).cached


async def test_refusals_are_kept_also_empty_ones(ask, tmp_path):
    async with FakeEndpoint("filter", reply=lambda _: "I cannot answer that.") as server:
        for _ in range(2):
            async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
                with raises(ItemError, item="withheld"):
                    await model.complete(ask("withheld"))
                assert (await model.complete(ask("declined"))).text == "I cannot answer that."
        assert server.requests == 2


async def test_a_poisoned_reply_is_asked_again(ask, tmp_path):
    async with FakeEndpoint() as server:
        async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
            key = model.key(ask("q"))
            await model.complete(ask("q"))
        with Ledger(tmp_path / "l") as ledger:
            good = next(ledger.entries())
            ledger.drop(key)
            ledger.put(
                good._replace(raw='{"choices": []}')
            )  # of an older, careless version: the checksum is right
        async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
            reply = await model.complete(ask("q"))
            assert (reply.cached, reply.text) == (False, expected(server))
            assert (await model.complete(ask("q"))).cached


async def test_the_ledger_tells_what_a_reply_took(ask, tmp_path):
    async with (
        FakeEndpoint("429,reset,ok") as server,
        open_model(
            server.model(), ModelOptions(ledger=tmp_path / "l", retry=Retry(**QUICK))
        ) as model,
    ):
        await model.complete(ask("q", item="7"))
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            entry = next(ledger.entries())
    assert (entry.item, entry.attempts, json.loads(entry.faults)) == (
        "7",
        3,
        {"429": 1, "reset": 1},
    )
    assert entry.served_by == server.url
    assert entry.prompt > 0
    assert json.loads(entry.raw)["object"] == "chat.completion"


async def on_a_small_disk(text, path, requests, got):
    async with open_model(text, ModelOptions(ledger=path, concurrency=4)) as model:
        model.ledger._db.execute("PRAGMA max_page_count=30")
        async for _, reply in complete_all(model, requests):
            got.append(reply)


@pytest.mark.parametrize("temporary", ["", "missing"])
async def test_a_disk_that_fills_up_stops_the_run_and_loses_no_reply(
    ask, tmp_path, monkeypatch, temporary
):
    monkeypatch.setattr(
        "tempfile.tempdir", str(tmp_path / temporary)
    )  # if it takes no file, the ledger's folder does
    got: list[Response] = []
    async with FakeEndpoint(reply=lambda _: "x" * 3000) as server:
        with raises(StorageError, cure="demur calls recover"):
            await on_a_small_disk(
                server.model(), tmp_path / "l", [ask(f"{n}") for n in range(500)], got
            )
        assert server.requests < 100
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            kept = len(list(ledger.entries()))
        spilled = sum(len(p.read_text().splitlines()) for p in tmp_path.glob("demur-unsaved-*"))
        assert kept + spilled == server.requests
        assert len(got) == kept


def test_sync_keeps_the_order_also_of_equal_requests(ask):
    from demur.testing import running

    with running(latency_s=0.001) as server:
        requests = [ask(f"{n % 7}", item=str(n)) for n in range(40)]
        requests.append(requests[0])
        replies = complete_sync(server.model(), requests)
    assert [r.text for r in replies] == [
        echo({"messages": [{"role": "user", "content": r.messages[0].parts[0].text}]})
        for r in requests
    ]


async def test_sync_works_where_a_loop_is_running(ask):
    from demur.testing import running

    with running() as server:
        assert complete_sync(server.model(), [ask("q")])[0].text  # as in a notebook's cell
