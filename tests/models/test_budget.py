"""A budget holds over kills, resumes, systems and processes: what a folder's work cost never passes it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st
from waiting import ENDS_S, until

from demur.core.errors import BudgetReached, ItemError, StorageError, UsageError
from demur.models import Budget, Ledger, ModelOptions, Retry, complete_all, open_model
from demur.testing import FakeEndpoint, running


def spending(amounts, budget):
    """Reserve and settle (most, cost) one after the other, until the budget stops it."""

    async def work():
        for most, cost in amounts:
            await budget.reserve(most)
            budget.settle(most, cost)

    asyncio.run(work())


def test_the_next_command_begins_with_what_the_earlier_ones_spent(tmp_path):
    log = tmp_path / "runs" / "calls.sqlite"
    spending([(0.5, 0.3), (0.5, 0.3)], Budget(1.0, log))
    again = Budget(1.0, log)
    assert again.spent == pytest.approx(0.6)
    with raises(BudgetReached, "$0.6000", "$1.0000"):
        spending([(0.5, 0.3)], again)
    assert Budget(1.0, log).spent == pytest.approx(0.6)  # what was not sent was not spent
    spending([(0.5, 0.3)], Budget(2.0, log))
    assert Budget(None, log).spent == pytest.approx(0.9)


def test_spending_without_a_limit_counts_for_the_command_that_has_one(tmp_path):
    spending([(4.0, 2.5)], Budget(None, tmp_path / "log"))
    with pytest.raises(BudgetReached):
        spending([(0.1, 0.1)], Budget(2.0, tmp_path / "log"))


def test_what_was_under_way_at_a_kill_counts_with_the_most_that_it_can_have_cost(tmp_path):
    asyncio.run(Budget(1.0, tmp_path / "log").reserve(0.4))  # and no settle
    assert Budget(1.0, tmp_path / "log").spent == pytest.approx(0.4)


def test_systems_of_a_command_share_the_money_and_others_do_not(tmp_path):
    log = tmp_path / "log"
    command = Budget(1.0).recorded_in(log)
    spending([(0.4, 0.4)], command.sub_budget("system a"))
    spending([(0.4, 0.4)], command.sub_budget("system b"))
    with pytest.raises(BudgetReached):
        spending([(0.4, 0.4)], command.sub_budget("system b"))
    other = Budget(1.0).recorded_in(
        log
    )  # only b again, with a new budget: what a cost is not its doing
    spending([(0.4, 0.4)], other.sub_budget("system b"))
    assert other.spent == pytest.approx(0.8)


async def test_two_processes_that_reserve_at_the_same_moment_do_not_both_get_it(tmp_path):
    one, two = Budget(1.0, tmp_path / "log"), Budget(1.0, tmp_path / "log")
    assert (one.spent, two.spent) == (0.0, 0.0)  # both have looked
    await one.reserve(0.6)
    with pytest.raises(BudgetReached):
        await two.reserve(0.6)
    assert Budget(None, tmp_path / "log").spent == pytest.approx(0.6)


async def test_that_a_server_charges_more_than_was_asked_for_is_known_to_the_next_command(tmp_path):
    budget = Budget(9.0, tmp_path / "l")
    budget.settle(await budget.reserve(0.1), 0.6, 0.1)
    assert await Budget(9.0, tmp_path / "l").reserve(0.1) == pytest.approx(0.6)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30), st.floats(0, 5))
def test_a_budget_is_never_passed(pairs, money):
    budget = Budget(money)
    try:
        spending([(max(p), min(p)) for p in pairs], budget)
    except BudgetReached:
        pass
    else:
        assert budget.spent == pytest.approx(sum(min(p) for p in pairs), abs=1e-7)
    assert budget.spent <= money + 1e-9


def test_a_budget_that_is_no_money_is_refused():
    for money in (-1.0, float("nan"), float("inf")):
        with raises(UsageError, "$"):
            Budget(money)


def test_a_disk_that_takes_nothing_is_told_before_anything_is_sent(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        asyncio.run(Budget(1.0, tmp_path / "file" / "l").reserve(0.1))
    (tmp_path / "l").mkdir()
    with pytest.raises(StorageError, match="ledger"):
        Budget(1.0, tmp_path / "l")


async def test_a_content_filter_and_a_cancelled_call_are_paid_for(ask, tmp_path, monkeypatch):
    monkeypatch.setattr("demur.models.client.GRACE_S", 0.1)
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"models": {"fake": {"prompt": 0.0, "completion": 1000.0}}}))
    async with FakeEndpoint("filter,stall", stall_s=2 * ENDS_S) as server:
        budget = Budget(1.0)
        async with open_model(
            server.model(), ModelOptions(budget=budget, prices=prices, ledger=tmp_path / "l")
        ) as model:
            with pytest.raises(ItemError, match="withheld"):
                await model.complete(ask("q", max_tokens=4))
            assert 0 < budget.spent <= 0.004  # the filter's empty reply has a bill
            was = budget.spent
            call = asyncio.create_task(model.complete(ask("other", max_tokens=4)))
            await until(lambda: server.requests == 2)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert budget.spent == pytest.approx(was + 0.004)  # the server goes on writing it


CHILD = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from demur.models import Budget, ModelOptions, complete_all, open_model
    from demur.core.errors import BudgetReached
    from demur.core.records import Message, Request, TextPart

    text, folder, money = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    asks = [Request(model="fake", max_tokens=4, messages=(Message(role="user", parts=(TextPart(text=f"q{n}"),)),))
            for n in range(2000)]

    async def work():
        budget = Budget(money, folder / "l.sqlite")
        options = ModelOptions(
            ledger=folder / "l.sqlite", budget=budget, prices=folder / "prices.json", concurrency=16)
        async with open_model(text, options) as model:
            async for _ in complete_all(model, asks):
                pass

    try:
        asyncio.run(work())
    except BudgetReached:
        sys.exit(3)
""")


@pytest.mark.slow
@pytest.mark.integration
def test_kills_and_resumes_and_two_processes_never_pass_the_budget(tmp_path):
    """What the server charged for, over nine commands of which seven are killed, stays under one budget."""
    (tmp_path / "prices.json").write_text(
        json.dumps({"models": {"fake": {"prompt": 0.0, "completion": 1000.0}}})
    )
    money, rng = 1.5, random.Random(7)
    with running("503=5%,429=5%", latency_s=0.02) as server:

        def start():
            return subprocess.Popen(
                [sys.executable, "-c", CHILD, server.model(), str(tmp_path), str(money)]
            )

        for _ in range(7):
            child = start()
            before = server.requests
            while server.requests == before and child.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.15))
            child.send_signal(signal.SIGKILL)
            child.wait()
        pair = [start(), start()]
        assert [child.wait(timeout=ENDS_S) for child in pair] == [3, 3]
        charged = server.paid.total() * 2 * 0.001  # every reply is two tokens
    assert charged <= money
    assert charged > money - 7 * 16 * 0.004 - 0.2  # and it was used, but for what nobody knows
    with Ledger(tmp_path / "l.sqlite", read_only=True) as ledger:
        assert ledger.stats()[0].price <= Budget(None, tmp_path / "l.sqlite").spent <= money


async def test_a_server_that_charges_more_than_was_asked_for_passes_the_budget_by_what_was_in_flight():
    """A budget of $0.50 once stopped at $1.44: every batch of calls passed it anew."""
    budget, most, cost, flights = Budget(0.5), 0.005, 0.03, 4
    in_flight = sent = 0

    async def call():
        nonlocal in_flight, sent
        reserved = await budget.reserve(most)
        in_flight, sent = in_flight + 1, sent + 1
        await asyncio.sleep(0)
        in_flight -= 1
        budget.settle(reserved, cost, most)

    async def worker():
        while True:
            await call()

    workers = [asyncio.create_task(worker()) for _ in range(flights)]
    for worker_ in workers:
        with raises(BudgetReached, "6.0 times"):
            await worker_
    assert in_flight == 0
    assert budget.spent == pytest.approx(sent * cost)
    assert 0.4 < budget.spent <= 0.5 + flights * (cost - most)


async def test_what_is_in_flight_before_the_first_reply_is_all_that_can_pass_a_budget():
    budget = Budget(0.5)
    reserved = [await budget.reserve(0.05) for _ in range(8)]
    for one in reserved:
        budget.settle(one, 0.2, 0.05)
    with raises(BudgetReached, "$1.6000", "$0.5000", "4.0 times"):
        await budget.reserve(0.05)


def price_table(tmp_path, prompt=1000.0, completion=1000.0):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"fake": {"prompt": prompt, "completion": completion}}}))
    return path


async def spend(text, requests, got, **options):
    async with open_model(text, ModelOptions(**options)) as model:
        async for _, reply in complete_all(model, requests):
            got.append(reply)


@pytest.mark.heavy
@pytest.mark.parametrize("faults", ["", "30%"])
async def test_a_budget_is_never_passed_and_the_run_goes_on_with_more(ask, tmp_path, faults):
    requests = [ask(f"question {n}", max_tokens=4) for n in range(300)]
    options = {
        "ledger": tmp_path / "l",
        "prices": price_table(tmp_path),
        "retry": Retry(backoff_s=0.005),
    }
    async with FakeEndpoint(faults, stall_s=0.01) as server:
        budget = Budget(1.0)
        got = []
        with raises(BudgetReached, "$1.0000", cure="budget"):
            await spend(server.model(), requests, got, budget=budget, **options)
        assert 0 < len(got) < 300
        assert not any(a.error for a in got)
        assert 0.8 < budget.spent <= 1.0  # as much as fits, and no more
        if not faults:
            with Ledger(tmp_path / "l", read_only=True) as ledger:
                assert budget.spent == pytest.approx(ledger.stats()[0].price)
        again = Budget(1000.0)
        async with open_model(server.model(), ModelOptions(budget=again, **options)) as model:
            replies = [a async for _, a in complete_all(model, requests)]
        assert len(replies) == 300
        assert sum(a.cached for a in replies) >= len(got)


async def test_a_budget_without_a_price_is_refused():
    async with FakeEndpoint() as server:
        with raises(UsageError, "'fake'"):
            async with open_model(server.model(), ModelOptions(budget=Budget(1.0))):
                pass
