"""Nothing that computes holds up the loop: while it computes, the loop does what it waits for.

Each part here blocks until the loop lets it go on. On the loop itself it would wait in vain, and say so.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading

import numpy as np
import pytest
from strategies import sample

from demur.core.records import Response
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.evaluation.runner import answer_of, grade_all
from demur.judge.local import LocalJudge
from demur.models import ModelOptions
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import ask
from demur.scenarios.systems import SystemContext, open_system

WAITS_S = 10.0
"""Far beyond what a loop that is free needs, on a machine that is busy too."""


class Computing:
    """What computes for long: it has begun, and it ends when the loop says so."""

    def __init__(self):
        self.began, self.go_on, self.held_up = threading.Event(), threading.Event(), False

    def __call__(self, *_):
        self.began.set()
        self.held_up = self.held_up or not self.go_on.wait(WAITS_S)


async def beside(computing, work):
    """Await work that computes; meanwhile the loop sees that it has begun, and lets it go on."""
    task = asyncio.create_task(work)
    while not computing.began.is_set() and not task.done():
        await asyncio.sleep(0.002)
    computing.go_on.set()
    done = await task
    assert computing.began.is_set()
    assert not computing.held_up, "it computed on the loop"
    return done


def asked(scenario="oracle"):
    s = sample("q")
    return ask(s, context(s, recipe(scenario)), condition("moderate"), Prompts())


OWN = """
from demur.core.records import Response
COMPUTING = None

def plain(given):
    COMPUTING()
    return "x"

async def later(given):
    COMPUTING()
    return "x"

class System:
    id, note = "own", ""

    def __init__(self, argument, context):
        pass

    def skip_reason(self, ask):
        return ""

    async def answer(self, ask):
        COMPUTING()
        return Response(text="x")

    async def close(self):
        pass
"""


@pytest.fixture
def computing(tmp_path, monkeypatch):
    (tmp_path / "my_computing.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_computing", None)
    importlib.invalidate_caches()
    found = Computing()
    importlib.import_module("my_computing").COMPUTING = found
    return found


@pytest.mark.parametrize(
    "name", ["python:my_computing:plain", "python:my_computing:later", "my_computing:System"]
)
async def test_a_system_of_the_user(computing, name):
    system = open_system(name, SystemContext(read_image=lambda r: b""))
    assert (await beside(computing, system.answer(asked()))).text == "x"
    await system.close()


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize(
    "name", ["python:my_computing:plain", "python:my_computing:later", "my_computing:System"]
)
async def test_a_system_of_the_user_that_would_end_the_process_fails_on_that_question(
    computing, name, stop
):
    def stops():
        raise stop("no key")

    sys.modules["my_computing"].COMPUTING = stops
    system = open_system(name, SystemContext(read_image=lambda r: b""))
    response = await asyncio.wait_for(answer_of(system, asked()), WAITS_S)
    assert f"{stop.__name__}('no key')" in response.error
    await system.close()


@pytest.mark.parametrize("name", ["reader", "prior"])
async def test_a_built_in_system(name):
    computing = Computing()

    def embed(texts):
        computing()
        return np.ones((len(texts), 4), np.float32) / 2

    system = open_system(
        name, SystemContext(read_image=lambda r: b"", embed=embed, pool=[sample("q"), sample("p")])
    )
    assert (await beside(computing, system.answer(asked()))).text
    await system.close()


async def test_a_function_as_a_model(computing, tmp_path):
    from demur.core.records import Message, Request, TextPart
    from demur.models import open_model

    async with open_model(
        "python:my_computing:plain", ModelOptions(ledger=tmp_path / "calls.sqlite")
    ) as model:
        request = Request(
            model=model.id, messages=(Message(role="user", parts=(TextPart(text="Yes?"),)),)
        )
        assert (await beside(computing, model.complete(request))).text == "x"


async def test_a_ledger_that_another_process_writes_to(tmp_path):
    """A reply that cannot be kept at once waits by itself, and the event loop goes on."""
    import sqlite3

    from demur.core.records import Message, Request, TextPart
    from demur.models import open_model
    from demur.testing import FakeEndpoint

    def request(text):
        return Request(model="m", messages=(Message(role="user", parts=(TextPart(text=text),)),))

    endpoint = FakeEndpoint(latency_s=0.5)
    async with (
        endpoint as server,
        open_model(server.model("m"), ModelOptions(ledger=tmp_path / "calls.sqlite")) as model,
    ):
        await model.complete(request("before"))
        other = sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None)
        task = asyncio.create_task(model.complete(request("meanwhile")))
        while server.requests < 2:  # it is claimed, and under way
            await asyncio.sleep(0.002)
        other.execute("BEGIN IMMEDIATE")
        while not model.ledger.unsaved:
            await asyncio.sleep(0.002)  # the loop goes on, though the reply cannot be written
        assert not task.done()
        other.execute("ROLLBACK")
        other.close()
        await task
        assert (await model.complete(request("before"))).cached
        assert not model.ledger.unsaved
        assert (await model.complete(request("meanwhile"))).cached


async def test_a_judge():
    computing = Computing()

    class Slow(LocalJudge):
        def grade(self, ask, response, answers):
            computing()
            return super().grade(ask, response, answers)

    class Echo:
        id, note, revision = "echo", "", ""

        def skip_reason(self, ask):
            return ""

        async def answer(self, ask):
            return Response(text="forty-two")

    tasks = questions.tasks(RunOptions(scenarios="oracle"), [sample("q")])
    (graded,) = await beside(computing, grade_all(tasks, Echo(), Slow()))
    assert graded.verdict.outcome == "correct"


async def test_a_worker_is_cancelled_and_ends():
    from demur.core.worker import Worker

    worker, began, cancelled = Worker("test"), threading.Event(), threading.Event()

    async def work():
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(worker.run(work()))
    while not began.is_set():
        await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await worker.close()
    assert cancelled.is_set()
    assert not any(t.name == "test" for t in threading.enumerate())
