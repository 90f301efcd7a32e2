"""Many requests: none vanishes, memory stays, order serves the prefix cache, hopeless runs end."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import textwrap

import pytest
from errors import raises

from benchmarks.prefix_cache import CachingEndpoint
from demur.core.errors import ItemError, PermanentError
from demur.core.records import Response
from demur.models import ModelOptions, Retry, complete_all, open_model
from demur.testing import FakeEndpoint
from demur.testing.fake import INJECTION, echo


class Instant:
    """A model in this process that answers at once."""

    id = "instant"
    concurrency = 16

    def __init__(self):
        self.asked = 0
        self.in_flight = 0
        self.in_flight_most = 0

    async def complete(self, request):
        self.asked += 1
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        if request.item.endswith("7"):
            raise ItemError("seven", item=request.item)
        return Response(text=request.item)


async def gather_into(got, model, requests, **options):
    async for _, reply in complete_all(model, requests, **options):
        got.append(reply)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 511, 512, 513, 1500])
async def test_each_request_comes_back_once(ask, n):
    model, seen = Instant(), []
    async for request, response in complete_all(model, (ask(str(k)) for k in range(n))):
        seen.append(request)
        assert response.text == request.item or response.error == f"{request.item}: seven"
    assert sorted(int(r.item) for r in seen) == list(range(n))
    assert model.in_flight_most <= 16


async def test_requests_are_taken_only_as_needed(ask):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield ask(str(taken * 10))

    run = complete_all(Instant(), endless())
    for _ in range(50):
        await anext(run)
    await run.aclose()
    assert taken <= 2 * 512
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]


@pytest.mark.slow
async def test_with_30_percent_faults_of_all_kinds_every_item_ends(ask, tmp_path):
    """Each of 1,500 items ends with its own reply or its own recorded error, and the ledger has just the replies."""
    shares = "30%,injection=2%,too-long=2%,413=1%,filter=1%"
    async with (
        FakeEndpoint(shares, stall_s=0.05, retry_after_s=0.01, most_faults=50) as server,
        open_model(
            server.model(),
            ModelOptions(
                ledger=tmp_path / "l", concurrency=32, retry=Retry(tries=4, backoff_s=0.005)
            ),
        ) as model,
    ):
        found = {
            q.item: a async for q, a in complete_all(model, (ask(f"q{n}") for n in range(1500)))
        }
        entries = {e.item for e in model.ledger.entries()}
    assert len(found) == 1500
    failed = {item: a.error for item, a in found.items() if a.error}
    for item, reply in found.items():
        if item not in failed:
            assert reply.text in (
                echo({"messages": [{"role": "user", "content": item}]}),
                INJECTION,
            )
        else:
            assert failed[item].startswith(f"{item}: ")
    assert set(server.hurt) >= {
        "429",
        "429-after",
        "500",
        "502",
        "503",
        "reset",
        "truncated",
        "empty",
        "duplicate",
        "stall",
    }
    assert 0 < len(failed) < 150
    filtered = {item for item, error in failed.items() if "content filter" in error}
    assert entries == found.keys() - failed.keys() | filtered
    assert any("too long" in e for e in failed.values())
    assert any("4 attempts" in e for e in failed.values())


async def test_a_refusal_that_no_item_survives_stops_the_run_after_what_was_under_way(ask):
    async with FakeEndpoint("ok*20,401*99999", latency_s=0.002) as server:
        got = []
        async with open_model(server.model(), ModelOptions(concurrency=4)) as model:
            with pytest.raises(PermanentError, match="set DEMUR_API_KEY"):
                await gather_into(got, model, [ask(f"{n}") for n in range(1000)])
        assert len(got) == 20
        assert server.requests < 30


async def test_a_hopeless_run_ends_instead_of_failing_item_by_item(ask):
    async with FakeEndpoint("500*99999", most_faults=9) as server:
        async with open_model(server.model(), ModelOptions(retry=Retry(tries=1))) as model:
            got = []
            with raises(PermanentError, "100 calls"):
                await gather_into(got, model, [ask(f"{n}") for n in range(5000)])
        assert 100 <= len(got) < 120
        assert all(a.error for a in got)


async def test_a_bug_in_a_model_is_raised_not_swallowed(ask):
    class Broken:
        id = "broken"

        async def complete(self, request):
            raise ZeroDivisionError("bug")

    with pytest.raises(ZeroDivisionError):
        async for _ in complete_all(Broken(), [ask("q")]):
            pass


@pytest.mark.heavy
async def test_order_serves_the_servers_prefix_cache(ask, picture, tmp_path):
    """Questions over shared images and contexts, shuffled: the order doubles the tokens that need no computing."""
    refs = [picture(f"p{n}") for n in range(24)]
    context = [f"Context {n}: " + "words of evidence " * 60 for n in range(24)]
    requests = [
        ask(refs[n], context[n], f"question {k} about it", item=f"{n}/{k}")
        for n in range(24)
        for k in range(8)
    ]
    random.Random(0).shuffle(requests)
    rates = {}
    for name, ordered in (("shuffled", False), ("ordered", True)):
        async with (
            CachingEndpoint(400) as server,  # room for a few of the 24 contexts at a time
            open_model(server.model(), ModelOptions(concurrency=4, image_root=tmp_path)) as model,
        ):
            if ordered:
                async for _ in complete_all(model, requests):
                    pass
            else:
                for start in range(0, len(requests), 4):
                    await asyncio.gather(*(model.complete(r) for r in requests[start : start + 4]))
            rates[name] = server.prefix.hit_rate
            assert model.counts.prefix_cached == server.prefix.cached
    assert rates["ordered"] > 0.75
    assert rates["shuffled"] < rates["ordered"] / 2


async def test_progress_is_told(ask, capsys):
    async with (
        FakeEndpoint("429,ok") as server,
        open_model(server.model(), ModelOptions(retry=Retry(backoff_s=0.001))) as model,
    ):
        async for _ in complete_all(model, [ask(f"{n}") for n in range(30)], progress="gate"):
            pass
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("gate: 30/30, ")
    assert "1 retries, 0 failed" in line


@pytest.mark.heavy
def test_progress_on_a_terminal():
    """Under a pseudo-terminal the live bar shows the label and the count."""
    import os
    import pty

    code = textwrap.dedent("""
        import asyncio, sys
        sys.path.insert(0, "tests/models")
        from demur.models import complete_all
        from demur.core.records import Message, Request, Response, TextPart
        class M:
            id = "m"
            async def complete(self, request):
                await asyncio.sleep(0.001)
                return Response(text="x")
        async def main():
            one = Request(model="m", messages=(Message(role="user", parts=(TextPart(text="q"),)),))
            async for _ in complete_all(M(), [one] * 50, progress="gate"):
                pass
        asyncio.run(main())
    """)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait() == 0
    os.close(ours)
    assert b"gate" in shown
    assert b"50/50" in shown


@pytest.mark.slow
def test_100k_calls_hold_a_constant_memory():
    """After 20,000 and after 100,000 calls no more requests and replies are held than are looked up at a time."""
    code = textwrap.dedent("""
        import asyncio, gc
        from demur.models import complete_all
        from demur.core.records import Message, Request, Response, TextPart
        class M:
            id = "m"
            concurrency = 64
            async def complete(self, request):
                await asyncio.sleep(0)
                return Response(text=request.item * 200)
        def asks():
            for n in range(100_000):
                parts = (TextPart(text=f"{n} " * 200),)
                yield Request(model="m", messages=(Message(role="user", parts=parts),), item=str(n))
        async def main():
            done = 0
            async for _ in complete_all(M(), asks()):
                done += 1
                if done in (20_000, 100_000):
                    gc.collect()
                    print(sum(isinstance(one, (Request, Response)) for one in gc.get_objects()))
        asyncio.run(main())
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    early, late = map(int, done.stdout.split())
    assert early < 2_000
    assert late < 2_000
