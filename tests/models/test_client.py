"""The one door: every fault, the ledger behind it, single flight, limits, fleets, keys."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback

import pytest
from waiting import ENDS_S, until

from demur.core.errors import (
    BudgetReached,
    ItemError,
    PermanentError,
    StorageError,
    TransientError,
    UsageError,
)
from demur.core.records import Response
from demur.models import Budget, Ledger, complete_all, complete_sync, open_model, wire
from demur.models.client import ModelClient, Retry
from demur.models.fleet import EndpointSlot, Fleet
from demur.models.function import FunctionBackend
from demur.models.wire import Fault
from demur.testing import FakeEndpoint, check_model
from demur.testing.fake import INJECTION, RETRYABLE, echo

QUICK = {"backoff_s": 0.005}
"""Of an attempt's time-out nothing: a busy machine would decide which attempts are given up."""


def expected(server: FakeEndpoint) -> str:
    return echo(server.bodies[-1])


# --- faults


@pytest.mark.parametrize("fault", [f for f in RETRYABLE if f != "stall"])
async def test_a_passing_fault_is_tried_again(ask, fault):
    async with FakeEndpoint(f"{fault}*2,ok") as server, open_model(server.model(), **QUICK) as model:
        reply = await model.complete(ask("q"))
        assert reply.text == expected(server)
        assert server.requests == 3
        assert model.counts.retries == 2
        assert model.counts.sent == 3


async def test_a_stall_is_given_up_after_the_time_out(ask):
    async with (
        FakeEndpoint("stall,ok", stall_s=2 * ENDS_S) as server,
        open_model(server.model(), **QUICK | {"timeout_s": 0.5}) as model,
    ):
        reply = await asyncio.wait_for(model.complete(ask("q")), ENDS_S)
        assert reply.text == expected(server)
        assert model.counts.faults["timeout"] >= 1  # the second attempt may meet a busy machine


async def test_a_drip_slower_than_the_time_out_is_given_up(ask):
    async with (
        FakeEndpoint("drip*99") as server,
        open_model(server.model(), timeout_s=0.004, tries=3, backoff_s=0.001) as model,  # the third has four times that
    ):
        with pytest.raises(TransientError, match=r"no reply after 3 attempts"):
            await model.complete(ask("q"))
        assert model.counts.faults["timeout"] >= 1  # a busy machine may not connect in so short a time
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
    model = ModelClient("m", Fleet([server], 1), ledger=None, retry=Retry(backoff_s=0.0))
    assert (await model.complete(ask("q", model="m"))).text == "yes"
    assert server.given == (120, 240, 480)
    with pytest.raises(TransientError) as raised:
        await ModelClient("m", Fleet([server], 1), ledger=None, retry=Retry(backoff_s=0.0, tries=2)).complete(
            ask("r", model="m")
        )
    assert "--concurrency 1" in raised.value.cure


@pytest.mark.parametrize("fault", ["duplicate", "duplicate-late"])
async def test_a_reply_sent_twice_never_answers_the_next_request(ask, fault):
    async with (
        FakeEndpoint(f"{fault}*200", latency_s=0.002) as server,
        open_model(server.model(), concurrency=2, **QUICK) as model,
    ):
        for n in range(25):
            await asyncio.gather(*(self_check(model, ask(f"{n} {k}"), server) for k in range(2)))


def test_a_mangled_reply_and_a_connection_behind_say_nothing_about_ids():
    """Either once switched the check off, and replies of other requests were taken from then on."""
    from demur.models.endpoint import StaleReplies

    stale = StaleReplies()
    one, two, three = object(), object(), object()
    a, b = '{"id": "a1", "choices": []}', '{"id": "b1", "choices": []}'
    mangled = '{"id": "cmpl-HTTP/1.1 200 OK\\r\\n\\r\\n{"id": "a1", "choices'
    assert not stale.is_stale(a, 1, one)
    assert stale.is_stale(a, 2, one)  # the copy of a1 answers request 2
    assert stale.is_stale(b, 3, one)  # and the reply to request 2 answers request 3
    assert not stale.is_stale(b, 2, two)  # request 2 again, elsewhere
    assert not stale.is_stale(mangled.replace("a1", "c1"), 4, two)
    assert not stale.is_stale(mangled.replace("a1", "d1"), 5, three)
    assert stale.is_stale(b, 6, two)  # still on


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_copies_between_slow_bodies_never_answer_another_request(ask, seed):
    async with (
        FakeEndpoint("duplicate=15%,duplicate-late=10%,drip=40%,reset=5%", seed=seed, most_faults=50) as server,
        open_model(server.model(), concurrency=32, **QUICK) as model,
    ):
        replies = {q.item: a async for q, a in complete_all(model, (ask(f"q{n}") for n in range(600)))}
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
        open_model(server.model(), concurrency=2, **QUICK) as model,
    ):
        replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(60)])]
    assert [a.text for a in replies] == ["yes"] * 60
    assert server.requests <= 62


async def self_check(model, request, server):
    reply = await model.complete(request)
    body = {"messages": [{"role": "user", "content": request.messages[0].parts[0].text}]}
    assert reply.text == echo(body)


async def test_an_injection_is_only_text(ask):
    async with FakeEndpoint("injection") as server, open_model(server.model(), **QUICK) as model:
        assert (await model.complete(ask("q"))).text == INJECTION


async def test_tries_run_out_with_what_was_seen(ask):
    async with (
        FakeEndpoint("500,reset,truncated,empty") as server,
        open_model(server.model(), **QUICK | {"tries": 4}) as model,
    ):
        with pytest.raises(Fault, match=r"7: no reply after 4 attempts \(1x 500, 1x broken, 1x empty, 1x reset\)"):
            await model.complete(ask("q", item="7"))
        assert model.counts.failed == 1


async def test_retry_after_is_honoured_and_does_not_use_up_tries(ask):
    async with (
        FakeEndpoint("429-after*4,ok", retry_after_s=0.05) as server,
        open_model(server.model(), **QUICK | {"tries": 2}) as model,
    ):
        clock = asyncio.get_running_loop().time
        began = clock()
        await model.complete(ask("q"))
        assert clock() - began >= 0.199  # never too early; how much later is the machine's affair
        assert server.requests == 5


async def test_retry_after_beyond_the_deadline_ends_at_once(ask):
    async with (
        FakeEndpoint("429-after*9", retry_after_s=3600) as server,
        open_model(server.model(), deadline_s=ENDS_S, **QUICK) as model,
    ):
        with pytest.raises(TransientError, match="asks to wait 3600 s, longer than the deadline"):
            await model.complete(ask("q"))
        assert server.requests == 1


async def test_the_deadline_bounds_all_attempts(ask):
    """An endless 429 does not use up tries: without the deadline this call would not end."""
    async with (
        FakeEndpoint("429*9999") as server,
        open_model(server.model(), deadline_s=0.3, tries=2, backoff_s=0.02, timeout_s=60) as model,
    ):
        with pytest.raises(TransientError, match=r"no reply after \d+ attempts"):
            await asyncio.wait_for(model.complete(ask("q")), ENDS_S)
        assert model.counts.failed == 1
        assert model.counts.replies == 0


@pytest.mark.parametrize(
    ("fault", "kind", "cure"),
    [
        ("too-long", ItemError, "less evidence"),
        ("413", ItemError, "smaller"),
        ("filter", ItemError, "another model"),
        ("401", PermanentError, "DEMUR_API_KEY"),
        ("404", PermanentError, "this server has fake"),
        ("text-only", PermanentError, "--mmproj"),
        ("quota", PermanentError, "money"),
    ],
)
async def test_a_permanent_refusal_stops_at_once_with_its_cure(ask, fault, kind, cure):
    async with FakeEndpoint(f"{fault}*9") as server, open_model(server.model(), **QUICK) as model:
        with pytest.raises(kind, match="7: ") as caught:
            await model.complete(ask("q", item="7"))
        assert type(caught.value) is kind
        assert cure in str(caught.value)
        assert server.requests == 1


async def test_a_server_that_is_not_there(ask):
    async with FakeEndpoint() as gone:
        text = gone.model()
    async with open_model(text, tries=3, backoff_s=0.001) as model:
        with pytest.raises(TransientError, match="cannot connect"):
            await model.complete(ask("q"))


# --- ledger


async def test_what_was_paid_is_not_paid_again(ask, tmp_path):
    async with FakeEndpoint() as server:
        for round_ in range(2):
            async with open_model(server.model(), ledger=tmp_path / "l") as model:
                reply = await model.complete(ask("q", item=str(round_)))
                assert reply.cached == (round_ == 1)
                assert reply.text == expected(server)
        assert server.requests == 1
    async with FakeEndpoint() as moved, open_model(moved.model(), ledger=tmp_path / "l") as model:
        assert (await model.complete(ask("q"))).cached  # another port is no other model
        assert not (await model.complete(ask("q", draw=1))).cached
        assert not (await model.complete(ask("q", temperature=0.5))).cached


async def test_equal_requests_at_the_same_time_are_one_call(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.05) as server, open_model(server.model(), ledger=tmp_path / "l") as model:
        replies = await asyncio.gather(*(model.complete(ask("q", item=str(n))) for n in range(20)))
        assert server.requests == 1
        assert len({r.text for r in replies}) == 1
        assert model.counts.joined == 19


async def test_equal_requests_share_a_failure_each_under_its_own_name(ask, tmp_path):
    async with (
        FakeEndpoint("too-long*1", latency_s=0.05) as server,
        open_model(server.model(), ledger=tmp_path / "l") as model,
    ):
        failures = await asyncio.gather(
            *(model.complete(ask("q", item=f"i{n}")) for n in range(3)), return_exceptions=True
        )
        assert [str(f).split(":")[0] for f in failures] == ["i0", "i1", "i2"]
        assert server.requests == 1


async def test_when_the_one_who_asks_leaves_another_asks(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.1) as server, open_model(server.model(), ledger=tmp_path / "l") as model:
        first = asyncio.create_task(model.complete(ask("q")))
        await asyncio.sleep(0)
        second = asyncio.create_task(model.complete(ask("q")))
        await until(lambda: server.requests == 1)
        first.cancel()
        assert (await second).text == expected(server)


async def test_two_doors_on_one_ledger_make_one_call(ask, tmp_path):
    async with (
        FakeEndpoint(latency_s=0.1) as server,
        open_model(server.model(), ledger=tmp_path / "l") as one,
        open_model(server.model(), ledger=tmp_path / "l") as two,
    ):
        replies = await asyncio.gather(one.complete(ask("q")), two.complete(ask("q")))
        assert server.requests == 1
        assert replies[0].text == replies[1].text


@pytest.mark.parametrize("fault", ["empty", "blank", "truncated", "html", "500", "reset"])
async def test_what_is_no_reply_is_never_kept(ask, tmp_path, fault):
    async with FakeEndpoint(f"{fault}*3") as server:
        async with open_model(server.model(), ledger=tmp_path / "l", **QUICK | {"tries": 3}) as model:
            with pytest.raises(TransientError):
                await model.complete(ask("q"))
        async with open_model(server.model(), ledger=tmp_path / "l") as model:
            assert not (await model.complete(ask("q"))).cached


async def test_refusals_are_kept_also_empty_ones(ask, tmp_path):
    async with FakeEndpoint("filter", reply=lambda _: "I cannot answer that.") as server:
        for _ in range(2):
            async with open_model(server.model(), ledger=tmp_path / "l") as model:
                with pytest.raises(ItemError, match="content filter"):
                    await model.complete(ask("withheld"))
                assert (await model.complete(ask("declined"))).text == "I cannot answer that."
        assert server.requests == 2


async def test_a_poisoned_reply_is_asked_again(ask, tmp_path):
    async with FakeEndpoint() as server:
        async with open_model(server.model(), ledger=tmp_path / "l") as model:
            key = model.key(ask("q"))
            await model.complete(ask("q"))
        with Ledger(tmp_path / "l") as ledger:
            good = next(ledger.entries())
            ledger.drop(key)
            ledger.put(good._replace(raw='{"choices": []}'))  # of an older, careless version: the checksum is right
        async with open_model(server.model(), ledger=tmp_path / "l") as model:
            reply = await model.complete(ask("q"))
            assert (reply.cached, reply.text) == (False, expected(server))
            assert (await model.complete(ask("q"))).cached


async def test_the_ledger_tells_what_a_reply_took(ask, tmp_path):
    async with (
        FakeEndpoint("429,reset,ok") as server,
        open_model(server.model(), ledger=tmp_path / "l", **QUICK) as model,
    ):
        await model.complete(ask("q", item="7"))
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            entry = next(ledger.entries())
    assert (entry.item, entry.attempts, json.loads(entry.faults)) == ("7", 3, {"429": 1, "reset": 1})
    assert entry.served_by == server.url
    assert entry.prompt > 0
    assert json.loads(entry.raw)["object"] == "chat.completion"


async def on_a_small_disk(text, path, requests, got):
    async with open_model(text, ledger=path, concurrency=4) as model:
        for connection in (model.ledger._db, model.ledger._no_wait):
            connection.execute("PRAGMA max_page_count=30")
        async for _, reply in complete_all(model, requests):
            got.append(reply)


async def test_a_disk_that_fills_up_stops_the_run_and_loses_no_reply(ask, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    got: list[Response] = []
    async with FakeEndpoint(reply=lambda _: "x" * 3000) as server:
        with pytest.raises(StorageError, match="demur calls recover"):
            await on_a_small_disk(server.model(), tmp_path / "l", [ask(f"{n}") for n in range(500)], got)
        assert server.requests < 100
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            kept = len(list(ledger.entries()))
        spilled = sum(len(p.read_text().splitlines()) for p in tmp_path.glob("demur-unsaved-*"))
        assert kept + spilled == server.requests
        assert len(got) == kept


# --- keys


SECRET = "sk-very-secret-0123456789"


async def test_a_key_is_sent_and_shown_nowhere(ask, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("DEMUR_API_KEY_127_0_0_1", SECRET)
    async with FakeEndpoint(key=SECRET, reply=lambda _: f"your key is {SECRET}") as server:
        async with open_model(server.model(), ledger=tmp_path / "l") as model:
            reply = await model.complete(ask("q"))
            assert server.headers[-1]["Authorization"] == f"Bearer {SECRET}"
            assert reply.text == "your key is ***"
            shown = [repr(model), repr(vars(model)), repr(vars(model._fleet.slots[0].backend)), reply.model_dump_json()]
        monkeypatch.setenv("DEMUR_API_KEY_127_0_0_1", SECRET + "-wrong")
        async with open_model(server.model(), ledger=tmp_path / "l") as model:
            with pytest.raises(PermanentError, match="DEMUR_API_KEY_127_0_0_1") as caught:  # the server echoes it
                await model.complete(ask("other"))
            shown.append(
                "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
            )
    shown.append(caplog.text)
    shown += [p.read_bytes().decode("latin-1") for p in tmp_path.iterdir()]
    assert not [line for text in shown for line in text.splitlines() if SECRET in line]


async def test_no_key_leaves_for_another_host(ask, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("DEMUR_API_KEY_ELSEWHERE", "sk-elsewhere")
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        await model.complete(ask("q"))
        assert "Authorization" not in server.headers[-1]


async def test_openai_goes_where_its_variables_say(ask, monkeypatch):
    async with FakeEndpoint(key="sk-1") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with open_model("openai/gpt-4o") as model:
            await model.complete(ask("q", model="openai/gpt-4o"))
        assert server.bodies[-1]["model"] == "gpt-4o"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpt-4o", "write one of: openai/MODEL"),
        ("http://host:8000/v1", "name the model after '#'"),
        ("http://user:pass@host/v1#m", "DEMUR_API_KEY_HOST"),
        ("openai/gpt-4o", "set OPENAI_API_KEY"),
        ("python:demur.nowhere:f", "no module"),
        ("python:json:nothing", "has no 'nothing'"),
        ("python:json", "write one of"),
        ("any-llm:openai", "write one of"),
    ],
)
async def test_a_model_string_that_cannot_be_opened_says_what_to_write(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        async with open_model(text):
            pass
    assert "pass@" not in str(caught.value)


async def test_a_request_for_another_model_is_refused(ask):
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        with pytest.raises(UsageError, match="'other'"):
            await model.complete(ask("q", model="other"))
        assert (await model.complete(ask("q", model=server.model()))).text


# --- images


@pytest.fixture
def hashed(monkeypatch):
    """The images whose bytes were read and held against their hash, in that order."""
    from demur.models import images

    read, seen = images.read_image, []
    monkeypatch.setattr(images, "read_image", lambda image, root: (seen.append(image), read(image, root))[1])
    return seen


async def test_images_are_sent_as_they_are_and_hashed_once(ask, tmp_path, picture, hashed):
    import base64

    refs = [picture(name) for name in "ab"]
    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        for n in range(20):
            await model.complete(ask(f"q{n}", refs[0], "then", refs[1]))
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text", "image_url"]
        for part, ref in zip(parts[1::2], refs, strict=True):
            head, data = part["image_url"]["url"].split(",")
            assert head == "data:image/png;base64"
            assert base64.b64decode(data) == (tmp_path / ref.uri).read_bytes()
        assert hashed == refs


async def test_images_past_the_memory_are_read_again_but_not_hashed_again(tmp_path, picture, hashed):
    from demur.models.images import ImageUrls

    refs = [picture(name) for name in "abc"]
    urls = ImageUrls(tmp_path, most_bytes=1)
    first = [await urls.of(r) for r in refs]
    assert [await urls.of(r) for r in refs] == first
    assert hashed == refs
    (tmp_path / refs[0].uri).write_bytes(b"changed")
    with pytest.raises(ItemError, match="the image changed"):
        await urls.of(refs[0])


async def test_a_missing_image_is_its_items_error_alone(ask, tmp_path, picture):
    good, bad = picture("a"), picture("b")
    (tmp_path / bad.uri).unlink()
    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        found = {
            r.item: a async for r, a in complete_all(model, [ask("q", good, item="good"), ask("q", bad, item="bad")])
        }
        assert found["good"].text
        assert "b.png" in found["bad"].error
        assert server.requests == 1


async def test_an_image_by_address_is_left_to_the_server(ask, picture):
    ref = picture("a").model_copy(update={"uri": "https://example.org/a.png"})
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        await model.complete(ask("q", ref))
        assert server.bodies[-1]["messages"][0]["content"][1]["image_url"]["url"] == "https://example.org/a.png"


async def test_a_text_cannot_smuggle_an_image_in(ask, tmp_path, picture):
    from demur.models import endpoint

    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        await model.complete(ask('"}, {"type": "image_url"', picture("a"), "data:image/png;base64,xx"))
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text"]
        assert len(endpoint._MARK) == 32


# --- limits and fleets


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
    model = ModelClient("m", fleet, ledger=None, retry=Retry(backoff_s=0.0))
    replies = await gathered(model, [ask(f"{n}", model="m") for n in range(600)])
    assert [a.text for a in replies] == ["yes"] * 600
    assert fleet.slots[0].limit < 32
    assert 0 < model.counts.faults["429"] < 120
    assert 12 < server.most < 32


@pytest.mark.parametrize("kind", ["429", "timeout"])
def test_a_lane_halves_once_per_round_trip_and_grows_back(kind):
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
    async with Waits() as server, open_model(server.model(), concurrency=5) as model:
        run = asyncio.create_task(gathered(model, [ask(f"{n}") for n in range(60)]))
        await until(lambda: server.in_flight == 5)
        server.go.set()
        assert len(await run) == 60
        assert server.in_flight_most == 5


async def test_a_dead_endpoint_does_not_stop_the_run(ask):
    async with FakeEndpoint() as gone:
        dead = gone.model()
    async with FakeEndpoint() as one, FakeEndpoint() as two:
        async with open_model([dead, one.model(), two.model()], **QUICK) as model:
            replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(300)])]
        assert not [a.error for a in replies if a.error]
        assert {a.served_by for a in replies} == {one.url, two.url}
        assert model.counts.faults["connect"] < 60


async def test_an_endpoint_that_dies_in_the_middle(ask):
    one, two = FakeEndpoint(latency_s=0.005), FakeEndpoint(latency_s=0.005)
    async with two:
        await one.start()
        async with open_model([one.model(), two.model()], **QUICK) as model:
            done = 0
            async for _, reply in complete_all(model, [ask(f"{n}") for n in range(400)]):
                assert not reply.error
                done += 1
                if done == 100:
                    await one.stop()
            assert done == 400


async def test_an_endpoint_with_a_wrong_key_leaves_the_fleet(ask):
    async with FakeEndpoint(key="other") as locked, FakeEndpoint() as open_:
        async with open_model([locked.model(), open_.model()], **QUICK) as model:
            replies = [a async for _, a in complete_all(model, [ask(f"{n}") for n in range(50)])]
        assert {a.served_by for a in replies} == {open_.url}
        assert locked.requests <= 8
        async with open_model([locked.model(), locked.model()], **QUICK) as model:
            with pytest.raises(PermanentError, match="401"):
                await model.complete(ask("q"))


@pytest.mark.heavy
async def test_load_goes_to_the_endpoint_that_is_quicker(ask):
    async with Waits() as slow, FakeEndpoint() as quick:
        async with open_model([slow.model(), quick.model()], concurrency=4) as model:
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


# --- functions as models


def shout(request):
    return request.messages[0].parts[0].text.upper()


async def grumble(request):
    if request.item == "late":
        raise TransientError("not now")
    if request.item == "bad":
        raise ItemError("not this one", cure="leave it out")
    if request.item == "bug":
        raise KeyError("oops")
    return Response(text="fine", confidence=0.5)


@pytest.fixture
def functions(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "calls_functions", sys.modules[__name__])
    return "python:calls_functions"


async def test_a_function_is_a_model_like_any_other(ask, functions, tmp_path):
    for _ in range(2):
        async with open_model(f"{functions}:shout", ledger=tmp_path / "l") as model:
            await check_model(model)
            assert (await model.complete(ask("hi", model=model.id))).text == "HI"
    assert model.counts.sent == 0
    async with open_model(f"{functions}:grumble", ledger=tmp_path / "l", tries=2, backoff_s=0.001) as model:
        assert (await model.complete(ask("q", model=model.id))).confidence == 0.5
        for item, kind in (("late", TransientError), ("bad", ItemError), ("bug", PermanentError)):
            with pytest.raises(kind, match=item):
                await model.complete(ask(item, model=model.id, draw=1))


# --- budgets


def price_table(tmp_path, prompt=1000.0, completion=1000.0):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"fake": {"prompt": prompt, "completion": completion}}}))
    return path


async def spend(text, requests, got, **options):
    async with open_model(text, **options) as model:
        async for _, reply in complete_all(model, requests):
            got.append(reply)


@pytest.mark.heavy
@pytest.mark.parametrize("faults", ["", "30%"])
async def test_a_budget_is_never_passed_and_the_run_goes_on_with_more(ask, tmp_path, faults):
    requests = [ask(f"question {n}", max_tokens=4) for n in range(300)]
    options = {"ledger": tmp_path / "l", "prices": price_table(tmp_path), **QUICK}
    async with FakeEndpoint(faults, stall_s=0.01) as server:
        budget = Budget(1.0)
        got: list[Response] = []
        with pytest.raises(BudgetReached, match=r"of \$1\.0000.*larger budget"):
            await spend(server.model(), requests, got, budget=budget, **options)
        assert 0 < len(got) < 300
        assert not any(a.error for a in got)
        assert 0.8 < budget.spent <= 1.0  # as much as fits, and no more
        if not faults:
            with Ledger(tmp_path / "l", read_only=True) as ledger:
                assert budget.spent == pytest.approx(ledger.stats()[0].price)
        again = Budget(1000.0)
        async with open_model(server.model(), budget=again, **options) as model:
            replies = [a async for _, a in complete_all(model, requests)]
        assert len(replies) == 300
        assert sum(a.cached for a in replies) >= len(got)


async def test_a_budget_without_a_price_is_refused():
    async with FakeEndpoint() as server:
        with pytest.raises(UsageError, match="no price is known for 'fake'"):
            async with open_model(server.model(), budget=Budget(1.0)):
                pass


# --- without await


def test_sync_keeps_the_order_also_of_equal_requests(ask):
    from demur.testing import running

    with running(latency_s=0.001) as server:
        requests = [ask(f"{n % 7}", item=str(n)) for n in range(40)]
        requests.append(requests[0])
        replies = complete_sync(server.model(), requests)
    assert [r.text for r in replies] == [
        echo({"messages": [{"role": "user", "content": r.messages[0].parts[0].text}]}) for r in requests
    ]


async def test_sync_works_where_a_loop_is_running(ask):
    from demur.testing import running

    with running() as server:
        assert complete_sync(server.model(), [ask("q")])[0].text  # as in a notebook's cell
