"""demur's own questions to endpoints that refuse temperature 0, log-probabilities or JSON schemas."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from errors import raises

from demur.core.errors import ItemError, PermanentError
from demur.core.records import Message, Request, TextPart
from demur.models import ModelOptions, complete_all, open_model
from demur.models.lenient import LenientModel
from demur.testing import running
from tests.served import refusing

ALL = ("temperature", "logprobs", "response_format")


def ask(item="", **more):
    return Request(
        model="m",
        messages=(Message(role="user", parts=(TextPart(text=f"hi {item}"),)),),
        item=item,
        **more,
    )


async def asked(server, *requests, ledger=None):
    async with open_model(server.model("m"), ModelOptions(ledger=ledger)) as opened:
        lenient = LenientModel(opened)
        first = await lenient.complete(requests[0])
        others = {
            request.item: reply async for request, reply in complete_all(lenient, requests[1:])
        }
        return [first, *(others[request.item] for request in requests[1:])]


def test_what_an_endpoint_refuses_is_left_out_from_then_on_and_each_reply_says_so(tmp_path):
    full = {
        "temperature": 0.0,
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 3,
        "json_schema": {"type": "object"},
    }
    some = [ask("a", **full), ask("b", **full), ask("c", temperature=0.0), ask("d", max_tokens=7)]
    with running(reply=refusing(lambda body: "yes", *ALL)) as server:
        for sent in (
            3 + 4,
            0,
        ):  # with a ledger nothing is paid twice, and what was refused is not sent again
            before = server.requests
            found = asyncio.run(asked(server, *some, ledger=tmp_path / "calls.sqlite"))
            assert server.requests - before == sent
        bodies = {body["messages"][0]["content"]: body for body in server.bodies}
    without = ("json_schema", "logprobs", "temperature")
    assert [reply.asked_without for reply in found] == [without, without, ("temperature",), ()]
    assert bodies["hi b"].keys().isdisjoint({*ALL, "top_logprobs"})
    assert [bodies[f"hi {item}"].get("max_tokens") for item in "abcd"] == [40, 40, None, 7]


def test_an_endpoint_that_refuses_nothing_is_asked_for_all_of_it():
    with running(reply=lambda body: "yes") as server:
        [reply] = asyncio.run(asked(server, ask(temperature=0.0, max_tokens=5)))
        assert (
            reply.asked_without,
            server.bodies[0]["temperature"],
            server.bodies[0]["max_tokens"],
        ) == ((), 0.0, 5)


SCHEMA = {"type": "object"}


@pytest.mark.parametrize("said", ["invalid grammar for this input", "bad thing"])
@pytest.mark.parametrize("taken", [True, False])
def test_what_was_refused_for_one_item_is_asked_for_of_the_others(said, taken, tmp_path):
    """Whether the error names a schema or not: an endpoint that took one before refuses it for that item alone."""

    def reply(body):
        if "response_format" in body and "bad" in body["messages"][0]["content"]:
            raise web.HTTPBadRequest(
                text=json.dumps({"error": {"message": said}}), content_type="application/json"
            )
        return "yes"

    names = ["a", "bad", "b"] if taken else ["bad", "a", "b"]
    some = [ask(name, json_schema=SCHEMA) for name in names]

    async def one_by_one(server):
        async with open_model(
            server.model("m"), ModelOptions(ledger=tmp_path / "calls.sqlite")
        ) as opened:
            lenient = LenientModel(opened)
            return [(await lenient.complete(one)).asked_without for one in some]

    with running(reply=reply) as server:
        found = asyncio.run(one_by_one(server))
        assert server.requests == 4
        assert asyncio.run(one_by_one(server)) == found
        assert server.requests == 4
    if taken or said == "bad thing":
        assert found == [("json_schema",) if name == "bad" else () for name in names]
    else:  # nothing tells this from an endpoint without schemas
        assert found == [("json_schema",)] * 3


def test_a_run_whose_replies_are_kept_needs_no_server(tmp_path):
    some = [ask(name, temperature=0.0, json_schema=SCHEMA) for name in "ab"]
    ledger = tmp_path / "calls.sqlite"
    with running(reply=refusing(lambda body: "yes", "temperature", "response_format")) as server:
        first = asyncio.run(asked(server, *some, ledger=ledger))
    again = asyncio.run(asked(server, *some, ledger=ledger))  # it has stopped
    assert [r.text for r in again] == [r.text for r in first] == ["yes"] * 2
    assert {r.asked_without for r in again} == {("json_schema", "temperature")}


def test_an_error_that_concerns_no_schema_is_not_met_twice():
    with running("401", reply=lambda body: "yes") as server:
        with pytest.raises(PermanentError, match="401"):
            asyncio.run(asked(server, ask(json_schema=SCHEMA)))
        assert server.requests == 1


def test_another_refusal_is_the_callers():
    with (
        running("too-long", reply=lambda body: "yes") as server,
        raises(ItemError, "4096 tokens"),
    ):
        asyncio.run(asked(server, ask(temperature=0.0)))
