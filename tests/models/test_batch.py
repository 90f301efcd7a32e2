"""Calls in batches: half the price, and nothing is paid twice, whatever happens to a batch or to the command."""

from __future__ import annotations

import asyncio
import json

import pytest
from errors import raises
from fake_batches import BatchEndpoint, price_table

from demur.core.errors import BudgetReached, Deferred, ItemError, PermanentError, UsageError
from demur.core.errors import TransientError as Transient
from demur.models import Budget, Ledger, ModelOptions, Retry, open_model
from demur.models import batch as batches
from demur.models.batch import batching, import_batch, in_waves
from demur.models.batch_server import BatchServer

N = 12


class Killed(BaseException):
    """The command ends here, without a goodbye."""


async def gone(*_):
    raise Killed


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_S", 0.01)


@pytest.fixture
def prices(tmp_path):
    return price_table(tmp_path, 1000.0, "fake")


class World:
    """Some calls to one fake server through one ledger, in batches."""

    def __init__(self, server, ask, tmp_path, prices):
        self.server, self.ledger, self.prices = server, tmp_path / "calls.sqlite", prices
        self.requests = [ask(f"question {n}", max_tokens=8, service_tier="flex") for n in range(N)]

    async def answers(self, *, batch=True, budget=None, requests=None):
        """Ask everything; the texts of the replies."""
        options = ModelOptions(
            ledger=self.ledger,
            budget=None if budget is None else Budget(budget, self.ledger),
            prices=self.prices,
            retry=Retry(backoff_s=0.01),
        )
        with batching(batch):
            async with open_model(self.server.model(), options) as model:
                replies = await in_waves(model.complete, requests or self.requests, 64)
                self.counts = model.counts
        return [reply.text for reply in replies]

    @property
    def paid_twice(self):
        return self.server.paid.total() - len(self.server.paid)

    def rows(self):
        with Ledger(self.ledger) as ledger:
            return [ledger.sent.calls(b.id) for b in ledger.sent.batches("fake")]


@pytest.fixture
def world(ask, tmp_path, prices):
    return lambda server: World(server, ask, tmp_path, prices)


async def plainly(world, tmp_path):
    """The replies without batches."""
    async with open_model(world.server.model(), ModelOptions()) as model:
        return [(await model.complete(request)).text for request in world.requests]


async def test_the_replies_are_those_of_single_calls_at_half_the_price(world, tmp_path):
    async with BatchEndpoint() as server:
        one = world(server)
        texts = await one.answers(budget=1.0)
        assert server.requests == 0
        [file] = [server.files[batch["input_file_id"]] for batch in server.batches.values()]
        assert "service_tier" not in file
        assert texts == await plainly(one, tmp_path)
        with Ledger(one.ledger) as ledger:
            [stats] = ledger.stats()
        tokens = [(e.prompt, e.completion) for e in Ledger(one.ledger).entries()]
    full = sum(prompt * 1e-6 + completion * 1e-3 for prompt, completion in tokens)
    assert (one.counts.sent, one.counts.replies, one.counts.cached) == (N, N, 0)
    assert stats.price == one.counts.money == pytest.approx(full / 2)
    assert Budget(None, one.ledger).spent == pytest.approx(full / 2)
    assert Budget(None, one.ledger).unreported == 0
    assert one.rows() == []


@pytest.mark.parametrize(
    ("fault", "sent"),
    [
        ("late", 1),
        ("twice", 1),
        ("down", 1),
        ("no-name", 1),
        ("lost", 2),
        ("expired", 2),
        ("half", 2),
        ("failed-lines", 2),
        ("token-limit", 3),
    ],
)
async def test_every_call_is_answered_whatever_happens_to_its_batch(world, tmp_path, fault, sent):
    async with BatchEndpoint(batch_faults=fault) as server:
        one = world(server)
        texts = await one.answers(budget=1.0)
        assert len(server.batches) == sent
        assert one.paid_twice == 0
        assert texts == await plainly(one, tmp_path)
    assert one.rows() == []


async def test_what_nobody_reported_counts_at_its_greatest_cost(world):
    """Of a lost batch nobody knows what it cost; of one that expired, what was not processed is free."""
    spent = {}
    for fault in ("ok", "expired", "lost"):
        async with BatchEndpoint(batch_faults=fault) as server:
            one = world(server)
            one.ledger = one.ledger.with_name(f"{fault}.sqlite")
            await one.answers(budget=1.0)
            spent[fault] = Budget(None, one.ledger).spent
            assert one.counts.money == pytest.approx(spent[fault])
            assert one.counts.unreported == (N if fault == "lost" else 0)
    assert spent["expired"] == pytest.approx(spent["ok"])
    assert spent["lost"] > 2 * spent["ok"]


async def test_a_refused_batch_ends_the_command_and_costs_nothing(world):
    async with BatchEndpoint(batch_faults="refused") as server:
        one = world(server)
        with raises(PermanentError, "invalid_file", item="fake", cure="--batch"):
            await one.answers(budget=1.0)
        assert Budget(None, one.ledger).spent == 0
        await one.answers(budget=1.0)


async def test_calls_that_never_get_a_reply_fail_after_some_batches(world):
    async with BatchEndpoint(batch_faults=",".join(["failed-lines"] * 8)) as server:
        with raises(Transient, cure="--batch"):
            await world(server).answers()
        assert len(server.batches) == batches.TRIES


async def test_a_call_that_is_refused_is_that_items_error(world):
    async with BatchEndpoint("ok,too-long") as server:
        with raises(ItemError, cure="less evidence"):
            await world(server).answers()


class Modern(BatchEndpoint):
    """A server that takes ``max_completion_tokens`` alone, as reasoning models do."""

    def answer_in_batch(self, body):
        if "max_tokens" in body:
            message = "Unsupported parameter: use 'max_completion_tokens' instead."
            return 400, {"error": {"message": message, "code": "unsupported_parameter"}}
        return super().answer_in_batch(body)


async def test_what_a_refusal_shows_of_the_servers_way_holds_for_the_next_batch(world):
    async with Modern() as server:
        assert len(await world(server).answers()) == N
        assert len(server.batches) == 2


async def test_a_server_without_batches_names_the_way_around(world):
    async with BatchEndpoint(has_batches=False) as server:
        one = world(server)
        with raises(PermanentError, cure="demur calls batch export"):
            await one.answers(budget=1.0)
        await one.answers(batch=False, budget=1.0)


# --- stopped, and gone on with


@pytest.mark.parametrize("moment", ["upload", "start", "state", "lines"])
async def test_a_command_killed_at_any_moment_pays_nothing_twice(world, monkeypatch, moment):
    """The batch of a killed command is adopted; one whose name it never learnt is found by its file."""
    honest = getattr(BatchServer, moment)

    async def after(self, *args):
        await honest(self, *args)
        raise Killed

    async def midway(self, *args):
        async for lines in honest(self, *args):
            yield lines[:5]
            raise Killed

    async with BatchEndpoint() as server:
        one = world(server)
        monkeypatch.setattr(BatchServer, moment, midway if moment == "lines" else after)
        with pytest.raises((Killed, BaseExceptionGroup)):
            await one.answers(budget=1.0)
        monkeypatch.setattr(BatchServer, moment, honest)
        await one.answers(budget=1.0)
        assert len(server.batches) == 1
        assert one.paid_twice == 0
        with Ledger(one.ledger) as ledger:
            assert Budget(None, one.ledger).spent == pytest.approx(ledger.stats()[0].price)
            assert ledger.stats()[0].replies == N


async def test_two_commands_send_each_call_once(world):
    async with BatchEndpoint(batch_faults="late,late") as server:
        one, two = world(server), world(server)
        two.requests = two.requests[3:]
        await asyncio.gather(one.answers(budget=1.0), two.answers(budget=1.0))
        assert sorted(server.sent) == sorted(set(server.sent))
        assert one.paid_twice == 0


async def test_without_batches_a_call_that_is_in_one_is_not_sent_again(world, monkeypatch):
    async with BatchEndpoint() as server:
        one = world(server)
        with monkeypatch.context() as patch:
            patch.setattr(BatchServer, "state", gone)
            with pytest.raises((Killed, BaseExceptionGroup)):
                await one.answers()
        with raises(UsageError, server.url, item="question 0", cure="--batch"):
            await one.answers(batch=False)
        assert server.requests == 0
        await one.answers()


async def test_a_batch_is_only_adopted_at_its_own_server(world, monkeypatch):
    async with BatchEndpoint() as server, BatchEndpoint() as other:
        one = world(server)
        with monkeypatch.context() as patch:
            patch.setattr(BatchServer, "state", gone)
            with pytest.raises((Killed, BaseExceptionGroup)):
                await one.answers()
        one.server = other
        with raises(UsageError, server.url, item="fake", cure="address"):
            await one.answers()
        assert not other.batches


# --- money


async def test_a_batch_is_as_large_as_the_budget_allows(world):
    async with BatchEndpoint() as server:
        one = world(server)
        with raises(BudgetReached, cure="larger budget"):
            await one.answers(budget=0.012)
        sizes = [
            len(server.files[b["input_file_id"]].splitlines()) for b in server.batches.values()
        ]
        assert sizes[0] < N
        assert len(sizes) > 1  # what the first left of the money went into the next
        assert Budget(None, one.ledger).spent <= 0.012
        await one.answers(budget=1.0)
        assert one.paid_twice == 0


async def test_a_large_wave_goes_in_several_files(world, monkeypatch):
    async with BatchEndpoint() as server:
        one = world(server)
        monkeypatch.setattr(batches, "MOST_BYTES", 600)
        await one.answers(budget=1.0)
        files = [server.files[b["input_file_id"]] for b in server.batches.values()]
        assert len(files) > 2
        assert all(len(file) - len(file.splitlines()[-1]) <= 601 for file in files)
        assert one.paid_twice == 0


# --- by hand


async def test_exported_calls_are_answered_elsewhere_and_imported(world, tmp_path, prices):
    """In another order, twice, with one that failed and one of somebody else."""
    file, results = tmp_path / "wave.jsonl", tmp_path / "results.jsonl"
    async with BatchEndpoint() as server:
        one = world(server)
        with raises(Deferred, f"{N} calls", str(file), cure="calls batch import"):
            await one.answers(batch=file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert {line["url"] for line in lines} == {"/v1/chat/completions"}
        replies = []
        for line in lines:
            status, body = server.answer_in_batch(line["body"])
            replies.append(
                {"custom_id": line["custom_id"], "response": {"status_code": status, "body": body}}
            )
        replies[3]["response"] = {"status_code": 500, "body": {"error": {"message": "fell over"}}}
        foreign = replies[0] | {"custom_id": "ab" * 32}
        results.write_text(
            "".join(json.dumps(r) + "\n" for r in [*replies[::-1], replies[1], foreign])
        )
        imported = import_batch(one.ledger, results, prices)
        assert (imported.replies, imported.unknown) == (N - 1, 2)
        assert imported.failed == {"fell over": 1}
        with raises(Deferred, "1 calls"):
            await one.answers(batch=file)
        assert Budget(None, one.ledger).spent > 0
        results.write_text(
            json.dumps(replies[3] | {"response": {"status_code": 200, "body": body}})
        )
        assert import_batch(one.ledger, results).replies == 1
        assert len(await one.answers(batch=file)) == N
        assert server.requests == 0
