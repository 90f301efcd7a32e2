"""kill -9 in the middle of a run, and two processes on one ledger: nothing lost, nothing paid that need not be."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import ENDS_S

from demur.testing import running

pytestmark = pytest.mark.integration

CALLS = 2000
CONCURRENCY = 16
KILLS = int(os.environ.get("DEMUR_TEST_KILLS", "8"))
"""How often the run is killed; the full proof is DEMUR_TEST_KILLS=50."""

WORKER = f"""
import asyncio, json, pathlib, sys
from demur.models import ModelOptions, Retry, complete_all, open_model
from demur.core.records import Message, Request, TextPart

text, ledger, out = sys.argv[1:4]

def requests():
    for n in range({CALLS}):
        yield Request(model="fake", messages=(Message(role="user", parts=(TextPart(text=f"question {{n}}"),)),), item=str(n))

async def main():
    retry = Retry(timeout_s=10, backoff_s=0.01, tries=20)
    options = ModelOptions(ledger=pathlib.Path(ledger), concurrency={CONCURRENCY}, retry=retry)
    async with open_model(text, options) as model:
        print("open", flush=True)
        sys.stdin.readline()
        rows = [(int(q.item), a.text, a.error) async for q, a in complete_all(model, requests())]
        print(json.dumps({{"sent": model.counts.sent, "cached": model.counts.cached}}), flush=True)
    pathlib.Path(out).write_text("\\n".join(json.dumps(row) for row in sorted(rows)))

asyncio.run(main())
"""


def ready(text: str, ledger: Path, out: Path) -> subprocess.Popen[str]:
    """A worker that has opened its model, and begins when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, text, str(ledger), str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def begin(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def start(text: str, ledger: Path, out: Path) -> subprocess.Popen[str]:
    process = ready(text, ledger, out)
    begin(process)
    return process


def finish(process: subprocess.Popen[str]) -> dict[str, int]:
    stdout, _ = process.communicate(timeout=ENDS_S)
    assert process.returncode == 0
    return json.loads(stdout)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with running() as server:
        finish(start(server.model(), folder / "l", folder / "out"))
    return (folder / "out").read_bytes()


def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(tmp_path, undisturbed):
    chance = random.Random(20261121)
    with running("20%", latency_s=0.03, stall_s=0.05, retry_after_s=0.01, most_faults=2) as server:
        killed = 0
        for _ in range(KILLS):
            process = start(server.model(), tmp_path / "l", tmp_path / "out")
            enough = server.requests + chance.randint(0, CALLS * 4 // 5 // KILLS)
            while server.requests < enough and process.poll() is None:
                time.sleep(0.001)
            if process.poll() is None:
                killed += 1
            process.kill()
            process.communicate()
        last = finish(start(server.model(), tmp_path / "l", tmp_path / "out"))
        stats = server.stats()
    assert killed >= KILLS * 3 // 4, "the run ended before it could be killed"
    assert last["cached"] > 0
    assert (tmp_path / "out").read_bytes() == undisturbed
    assert len(server.paid) == CALLS
    assert stats["paid_twice"] <= killed * CONCURRENCY
    assert sum(stats["faults"].values()) > 100


@pytest.mark.slow
def test_two_processes_on_one_ledger_pay_each_call_once(tmp_path, undisturbed):
    faults = "429=2%,429-after=2%,500=2%,reset=2%,truncated=2%,empty=2%,stall=1%"  # none of them loses a paid reply
    with running(
        faults, latency_s=0.004, stall_s=0.05, retry_after_s=0.01, most_faults=2
    ) as server:
        both = [ready(server.model(), tmp_path / "l", tmp_path / f"out{n}") for n in range(2)]
        begin(*both)
        counts = [finish(process) for process in both]
    assert server.stats()["paid"] == CALLS
    assert server.stats()["paid_twice"] == 0
    assert [(tmp_path / f"out{n}").read_bytes() for n in range(2)] == [undisturbed] * 2
    assert all(c["sent"] > 100 for c in counts)  # they shared the work
