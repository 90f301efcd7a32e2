"""Runs that end before their time: what went out is paid for, so its reply is kept; nothing new goes out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from strategies import Images, sample

from demur.calls import Ledger, complete_all, open_model
from demur.cli import main
from demur.curation.release import FunnelStep, freeze
from demur.errors import PermanentError
from demur.records import AnswerSpec
from demur.testing import FakeEndpoint, running

N = 40


@pytest.fixture
def release(tmp_path):
    made = [
        sample(f"s{i}", text=3).model_copy(update={"answers": AnswerSpec(accepted=((f"answer {i}",),))})
        for i in range(N)
    ]
    step = FunnelStep(stage="pool", entered=N, kept=N)
    return freeze(
        tmp_path / "release", name="tiny", version="1.0.0", samples=made, read_image=Images().read, funnel=[step]
    )


def words(release, server, out):
    return [
        str(w)
        for w in ("run", release, "--system", f"model:{server.model()}", "--out", out, "--scenarios", "oracle")
    ]  # fmt: skip


def kept(out):
    with Ledger(out / "calls.sqlite", read_only=True) as ledger:
        return len(list(ledger.entries()))


def test_after_a_fatal_error_replies_under_way_are_kept_and_nothing_new_is_sent(release, tmp_path, capsys):
    out = tmp_path / "runs"
    with running("ok*5,401*1", latency_s=0.3) as server:
        assert main(words(release, server, out)) == 1
        said = capsys.readouterr().err
        assert server.requests <= 16  # a round that the refusal is among, and the one under way when it is read
        assert kept(out) == server.paid.total() == server.requests - 1
        assert "waiting up to 30 s for" in said
        assert "and are kept" in said
        assert "set DEMUR_API_KEY" in said
        assert main(words(release, server, out)) == 0
        assert server.stats()["paid_twice"] == 0
        assert server.paid.total() == N


def test_the_grace_ends_and_says_what_it_gave_up(ask, tmp_path, capsys):
    async def work(server):
        async with open_model(server.model(), ledger=tmp_path / "l", grace_s=0.2) as model:
            calls = [asyncio.create_task(model.complete(ask(f"{n}"))) for n in range(4)]
            await asyncio.sleep(0.1)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    with running("stall,ok", stall_s=20, latency_s=0.2) as server:
        began = time.monotonic()
        asyncio.run(work(server))
        assert time.monotonic() - began < 5
    assert "waiting up to 0 s for 4 calls under way" in capsys.readouterr().err
    with Ledger(tmp_path / "l", read_only=True) as ledger:
        assert len(list(ledger.entries())) == 3


async def test_a_call_that_nobody_waits_for_is_not_tried_again(ask, tmp_path):
    async with FakeEndpoint("500*9", latency_s=0.1) as server:
        async with open_model(server.model(), ledger=tmp_path / "l", backoff_s=0.01) as model:
            call = asyncio.create_task(model.complete(ask("q")))
            await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert server.requests == 1


async def test_calls_that_wait_for_their_turn_are_called_off(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.2) as server:
        async with open_model(server.model(), ledger=tmp_path / "l", concurrency=2) as model:
            calls = [asyncio.create_task(model.complete(ask(f"{n}"))) for n in range(10)]
            await asyncio.sleep(0.1)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert server.requests == server.paid.total() == 2
    with Ledger(tmp_path / "l", read_only=True) as ledger:
        assert len(list(ledger.entries())) == 2


async def test_whoever_joins_a_call_that_was_left_gets_its_reply(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.2) as server, open_model(server.model(), ledger=tmp_path / "l") as model:
        first = asyncio.create_task(model.complete(ask("q")))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await model.complete(ask("q"))).text
        assert server.requests == 1
        assert model.counts.joined == 1


async def test_leaving_in_the_middle_of_many_keeps_what_went_out(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.05) as server:
        async with open_model(server.model(), ledger=tmp_path / "l", concurrency=8) as model:
            run = complete_all(model, [ask(f"{n}") for n in range(100)])
            for _ in range(10):
                await anext(run)
            await run.aclose()
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            assert len(list(ledger.entries())) == server.paid.total() == server.requests


async def test_a_call_that_hangs_does_not_hold_up_the_end_of_a_run_that_failed(ask):
    async with FakeEndpoint("stall,401*99", stall_s=20) as server:
        began = time.monotonic()
        async with open_model(server.model(), concurrency=4, grace_s=0.1) as model:
            with pytest.raises(PermanentError, match="401"):
                async for _ in complete_all(model, [ask(f"{n}") for n in range(50)], grace_s=0.2):
                    pass
        assert time.monotonic() - began < 5


def child(release, server, out):
    # A shell lets its background jobs ignore Ctrl-C, and their children inherit that.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from demur.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words(release, server, out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OPENAI_API_KEY": ""},
    )  # fmt: skip


def until(true, process, seconds=30.0):
    end = time.monotonic() + seconds
    while not true() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert true(), process.communicate()


@pytest.mark.integration
def test_ctrl_c_once_keeps_what_is_paid_and_the_next_run_pays_none_twice(release, tmp_path):
    out = tmp_path / "runs"
    with running(latency_s=1.0) as server:
        process = child(release, server, out)
        until(lambda: server.paid.total() >= 8 and server.in_flight >= 4, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "calls under way, which will be paid for; Ctrl-C stops at once" in said
        assert "and are kept" in said
        assert "interrupted; run the same command again to go on" in said
        assert 8 < server.paid.total() == server.requests < N
        assert kept(out) == server.paid.total()
        again = child(release, server, out)
        _, said = again.communicate(timeout=60)
        assert again.returncode == 0, said
        assert server.stats()["paid_twice"] == 0
        assert server.paid.total() == N
        (folder,) = [p for p in out.iterdir() if p.is_dir()]
        assert json.loads((folder / "manifest.json").read_text())["counts"]["failed"] == 0


@pytest.mark.integration
def test_ctrl_c_twice_stops_at_once(release, tmp_path):
    with running(latency_s=25.0) as server:
        process = child(release, server, tmp_path / "runs")
        until(lambda: server.in_flight >= 4, process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        line = ""
        while "under way" not in line:
            line = process.stderr.readline()
            assert line, "ended without waiting"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert time.monotonic() - began < 5
        assert process.returncode == 130
        assert "interrupted" in said
        assert "Traceback" not in said
