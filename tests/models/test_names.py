"""Model strings: what they open, where their keys go, and functions as models."""

from __future__ import annotations

import asyncio

import pytest
from errors import raises
from waiting import ENDS_S

from demur.core.errors import (
    ItemError,
    PermanentError,
    TransientError,
    UsageError,
)
from demur.core.records import Response
from demur.models import ModelOptions, Retry, open_model
from demur.testing import FakeEndpoint, check_model


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
    ("text", "cure"),
    [
        ("gpt-4o", "openai/MODEL"),
        ("http://host:8000/v1", "'#'"),
        ("http://user:pass@host/v1#m", "DEMUR_API_KEY_HOST"),
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("python:demur.nowhere:f", "PYTHONPATH"),
        ("python:json:nothing", "JSONDecoder"),
        ("python:json", "openai/MODEL"),
        ("any-llm:openai", "any-llm:PROVIDER"),
    ],
)
async def test_a_model_string_that_cannot_be_opened_says_what_to_write(text, cure):
    with raises(UsageError, cure=cure) as caught:
        async with open_model(text):
            pass
    assert "pass@" not in str(caught.value)


async def test_a_request_for_another_model_is_refused(ask):
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        with pytest.raises(UsageError, match="'other'"):
            await model.complete(ask("q", model="other"))
        assert (await model.complete(ask("q", model=server.model()))).text


def shout(request):
    return request.messages[0].parts[0].text.upper()


def ends(request):
    return next(iter([]))


async def grumble(request):
    if request.item == "late":
        raise TransientError("not now")
    if request.item == "bad":
        raise ItemError("not this one", cure="leave it out")
    if request.item == "its own":
        raise TimeoutError("the database")
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
        async with open_model(f"{functions}:shout", ModelOptions(ledger=tmp_path / "l")) as model:
            await check_model(model)
            assert (await model.complete(ask("hi", model=model.id))).text == "HI"
    assert model.counts.sent == 0
    async with open_model(
        f"{functions}:grumble",
        ModelOptions(ledger=tmp_path / "l", retry=Retry(tries=2, backoff_s=0.001)),
    ) as model:
        assert (await model.complete(ask("q", model=model.id))).confidence == 0.5
        for item, kind in (("late", TransientError), ("bad", ItemError), ("bug", PermanentError)):
            with pytest.raises(kind, match=item):
                await model.complete(ask(item, model=model.id, draw=1))
        with raises(TransientError, "TimeoutError"):  # no limit of demur's passed
            await model.complete(ask("its own", model=model.id))
    async with open_model(f"{functions}:ends") as model:  # its caller once waited for ever
        with pytest.raises(PermanentError, match="StopIteration"):
            await asyncio.wait_for(model.complete(ask("q", model=model.id)), ENDS_S)
