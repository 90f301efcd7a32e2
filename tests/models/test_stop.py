"""Runs that end before their time: what went out is paid for, so its reply is kept; nothing new goes out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from strategies import tiny_release
from waiting import ENDS_S, until

from demur.cli import main
from demur.core.errors import PermanentError
from demur.models import Ledger, ModelOptions, client, complete_all, open_model
from demur.models.client import GRACE_S, ModelClient, Retry
from demur.models.fleet import Fleet
from demur.models.function import FunctionBackend
from demur.testing import FakeEndpoint, running

N = 40


@pytest.fixture
def release(tmp_path):
    return tiny_release(tmp_path / "release", N)


def words(release, server, out):
    return [
        str(w)
        for w in (
            "run",
            release,
            "--system",
            f"model:{server.model()}",
            "--out",
            out,
            "--scenarios",
            "oracle",
        )
    ]


def kept(out):
    with Ledger(out / "calls.sqlite", read_only=True) as ledger:
        return len(list(ledger.entries()))


class Gated(FakeEndpoint):
    """A server that sends so many replies at once, and the others when its gate is opened."""

    def __init__(self, faults="", *, at_once):
        super().__init__(faults)
        self.left = at_once
        self.reached, self.opened = threading.Event(), threading.Event()

    async def _play(self, kind, *asked):
        if kind == "ok":
            self.left -= 1
            if self.left < 0:
                self.reached.set()
                while not self.opened.is_set():
                    await asyncio.sleep(0.005)
        return await super()._play(kind, *asked)

    def wait_for(self, process):
        """Until the process has sent what stands before the gate."""
        while not self.reached.wait(0.01):
            assert process.poll() is None, process.communicate()


@contextmanager
def gated(*faults, at_once):
    with running(*faults, kind=Gated, at_once=at_once) as server:
        try:
            yield server
        finally:
            server.opened.set()


def test_after_a_fatal_error_replies_under_way_are_kept_and_nothing_new_is_sent(
    release, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "runs"
    say = client._say
    with gated("ok*5,401*1", at_once=5) as server:

        def said_and_opened(line):
            say(line)
            server.opened.set()  # replies come when the client waits for them

        monkeypatch.setattr(client, "_say", said_and_opened)
        assert main(words(release, server, out)) == 1
        said = capsys.readouterr().err
        assert server.requests <= 8 + 5 * 2  # eight at first; each reply lets two more go out
        assert kept(out) == server.paid.total() == server.requests - 1
        assert " 30 s " in said
        assert "set DEMUR_API_KEY" in said
        assert main(words(release, server, out)) == 0
        assert server.stats()["paid_twice"] == 0
        assert server.paid.total() == N


async def test_the_grace_ends_and_says_what_it_gave_up(ask, tmp_path, capsys, monkeypatch):
    go, begun = threading.Event(), []  # a function has a loop of its own

    async def answers(request):
        begun.append(request)
        first = len(begun) == 1
        while first or not go.is_set():
            await asyncio.sleep(0.002)
        return "yes"

    fleet = Fleet([FunctionBackend("python:x:y", answers)], 4)
    monkeypatch.setattr("demur.models.client.GRACE_S", 1.0)
    model = ModelClient("m", fleet, ledger=Ledger(tmp_path / "l"))
    calls = [asyncio.create_task(model.complete(ask(f"{n}", model="m"))) for n in range(4)]
    await until(lambda: len(begun) == 4)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(ENDS_S):
        go.set()  # their turn comes when the client waits
        await model.close()
    said = capsys.readouterr().err
    assert " 1 s for 4 calls" in said
    assert "3 of 4 replies" in said
    assert "1 given up" in said
    with Ledger(tmp_path / "l", read_only=True) as ledger:
        assert len(list(ledger.entries())) == 3


async def test_a_call_that_nobody_waits_for_is_not_tried_again(ask, tmp_path):
    async with FakeEndpoint("500*9", latency_s=0.1) as server:
        async with open_model(
            server.model(), ModelOptions(ledger=tmp_path / "l", retry=Retry(backoff_s=0.01))
        ) as model:
            call = asyncio.create_task(model.complete(ask("q")))
            await until(lambda: server.requests == 1)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert server.requests == 1


async def test_calls_that_wait_for_their_turn_are_called_off(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.2) as server:
        async with open_model(
            server.model(), ModelOptions(ledger=tmp_path / "l", concurrency=2)
        ) as model:
            calls = [asyncio.create_task(model.complete(ask(f"{n}"))) for n in range(10)]
            await until(lambda: server.requests == 2)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert server.requests == server.paid.total() == 2
    with Ledger(tmp_path / "l", read_only=True) as ledger:
        assert len(list(ledger.entries())) == 2


async def test_whoever_joins_a_call_that_was_left_gets_its_reply(ask, tmp_path):
    async with (
        FakeEndpoint(latency_s=0.5) as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        first = asyncio.create_task(model.complete(ask("q")))
        await until(lambda: server.requests == 1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await model.complete(ask("q"))).text
        assert server.requests == 1
        assert model.counts.joined == 1


async def test_leaving_in_the_middle_of_many_keeps_what_went_out(ask, tmp_path):
    async with FakeEndpoint(latency_s=0.05) as server:
        async with open_model(
            server.model(), ModelOptions(ledger=tmp_path / "l", concurrency=8)
        ) as model:
            run = complete_all(model, [ask(f"{n}") for n in range(100)])
            for _ in range(10):
                await anext(run)
            await run.aclose()
        with Ledger(tmp_path / "l", read_only=True) as ledger:
            assert len(list(ledger.entries())) == server.paid.total() == server.requests


async def test_a_call_that_hangs_does_not_hold_up_the_end_of_a_run_that_failed(ask, monkeypatch):
    monkeypatch.setattr("demur.models.client.GRACE_S", 0.1)
    monkeypatch.setattr("demur.models.run.GRACE_S", 0.2)
    async with (
        FakeEndpoint("stall,401*99", stall_s=3 * ENDS_S) as server,
        asyncio.timeout(ENDS_S),
        open_model(
            server.model(),
            ModelOptions(concurrency=4, retry=Retry(timeout_s=2 * ENDS_S)),
        ) as model,
    ):
        with pytest.raises(PermanentError, match="401"):
            async for _ in complete_all(model, [ask(f"{n}") for n in range(50)]):
                pass


def child(release, server, out):
    # A shell lets its background jobs ignore Ctrl-C, and their children inherit that.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from demur.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words(release, server, out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENAI_API_KEY": ""},
    )


def read_until(words, process):
    """What a process says on standard error up to the line with these words."""
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, f"ended without {words!r}: {said}"
        said += line
    return said


@pytest.mark.slow
@pytest.mark.integration
def test_ctrl_c_once_keeps_what_is_paid_and_the_next_run_pays_none_twice(release, tmp_path):
    out = tmp_path / "runs"
    with gated(at_once=8) as server:
        process = child(release, server, out)
        server.wait_for(process)
        process.send_signal(signal.SIGINT)
        said = read_until("in progress, which must be paid for; Ctrl-C stops at once", process)
        server.opened.set()
        _, rest = process.communicate(timeout=ENDS_S)
        said += rest
        assert process.returncode == 130
        assert "interrupted" in said
        assert 8 < server.paid.total() == server.requests < N
        assert kept(out) == server.paid.total()
        again = child(release, server, out)
        _, said = again.communicate(timeout=ENDS_S)
        assert again.returncode == 0, said
        assert server.stats()["paid_twice"] == 0
        assert server.paid.total() == N
        (folder,) = [p for p in out.iterdir() if p.is_dir()]
        assert json.loads((folder / "manifest.json").read_text())["counts"]["failed"] == 0


@pytest.mark.integration
def test_ctrl_c_twice_stops_at_once(release, tmp_path):
    with gated(at_once=0) as server:
        process = child(release, server, tmp_path / "runs")
        server.wait_for(process)
        process.send_signal(signal.SIGINT)
        read_until("in progress", process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=ENDS_S)
        assert (
            time.monotonic() - began < GRACE_S * 0.8
        )  # no reply ever comes: it would wait for them that long
        assert process.returncode == 130
        assert "interrupted" in said
        assert "Traceback" not in said, said
