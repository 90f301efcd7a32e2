"""demur's own questions to endpoints that refuse temperature 0, log-probabilities or JSON schemas."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

import demur
from demur.core.errors import ItemError, PermanentError
from demur.core.records import Ask, ImageRef, Message, Request, Scenario, TextPart
from demur.core.store import read_json
from demur.models import complete_all, open_model
from demur.models.lenient import LenientModel
from demur.scenarios.systems import SystemContext
from demur.suites.certainly_uncertain.build.calls import replies
from demur.suites.certainly_uncertain.verify import verified
from demur.suites.mm_aqa import build
from demur.suites.mm_aqa.baselines import PTrue
from demur.suites.mm_aqa.pool import sample_corpus
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
    async with open_model(server.model("m"), ledger=ledger) as opened:
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
        async with open_model(server.model("m"), ledger=tmp_path / "calls.sqlite") as opened:
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
        pytest.raises(ItemError, match="context is too long"),
    ):
        asyncio.run(asked(server, ask(temperature=0.0)))


def test_a_users_own_sampling_is_never_left_out():
    context = SystemContext(read_image=lambda ref: b"", options={"temperature": 0.0})
    with running(reply=refusing(lambda body: "FINAL ANSWER - Paris", "temperature")) as server:

        async def answer():
            system = PTrue(server.model("m"), context)
            try:
                return await system.answer(QUESTION)
            finally:
                await system.close()

        reply = asyncio.run(answer())
    assert "temperature" in reply.error


QUESTION = Ask(
    id="q",
    sample="q",
    context="",
    scenario=Scenario.PARAMETRIC,
    question="Where?",
    condition="none",
)


@pytest.mark.parametrize("refused", [("temperature",), ("temperature", "logprobs")])
def test_p_true_of_a_model_that_takes_no_temperature(refused):
    def reply(body):
        return (
            "Yes" if body.get("max_tokens", 99) <= 8 else "EXPLANATION - so\nFINAL ANSWER - Paris"
        )

    context = SystemContext(
        read_image=lambda ref: b"", prompts=demur.suite("mm_aqa:base").prompts()
    )
    with running(reply=refusing(reply, *refused)) as server:

        async def answers():
            system = PTrue(server.model("m"), context)
            try:
                return [await system.answer(QUESTION) for _ in range(2)]
            finally:
                await system.close()

        found = asyncio.run(answers())
        assert server.requests == 4 + len(refused)
    assert [(r.error, r.asked_without) for r in found] == [("", tuple(sorted(refused)))] * 2
    assert {r.confidence is None for r in found} == {"logprobs" in refused}


async def test_certainly_uncertain_reads_the_probability_without_temperature(tmp_path):
    from demur.core.records import AnswerSpec, Sample

    sample = Sample(
        id="a", source="cu", question="What?", answers=AnswerSpec(accepted=(("this",),))
    )
    with running(reply=refusing(lambda body: "yes", "temperature")) as server:
        found = await verified(
            [server.model("m")],
            {"a": "this"},
            {"a": sample},
            read_image=lambda ref: b"",
            ledger=tmp_path / "c.sqlite",
        )
    assert found["a"].probability is not None
    assert found["a"].why == "asked at the model's own temperature"


def test_the_calls_of_certainly_uncertains_build(tmp_path):
    photos: tuple[ImageRef, ...] = ()
    words = [(f"i{n}", (f"Write {n}",), photos) for n in range(5)]
    with running(reply=refusing(lambda body: "Q: yes", "temperature", "response_format")) as server:
        found = replies(server.model("m"), words, tmp_path, schema={"type": "object"})
        assert server.requests == 2 + 5
    assert [r.text for r in found.values()] == ["Q: yes"] * 5
    assert read_json(tmp_path / "asked-without.json") == {"m": ["json_schema", "temperature"]}


def test_a_set_of_mm_aqa_is_checked_by_a_model_that_takes_no_temperature(tmp_path, monkeypatch):
    flags = [a for a in sample_corpus(0) if a.topic == "flags"][:2]
    monkeypatch.setattr("demur.suites.mm_aqa.pool.sample_corpus", lambda seed: flags)
    suite = demur.suite("mm_aqa")
    with running(
        reply=refusing(lambda body: "VERDICT: UNANSWERABLE\nCONFIDENCE: HIGH", "temperature")
    ) as server:
        suite.build(tmp_path, ocr="no", verifier=server.model("m"))
        assert {b["max_tokens"] for b in server.bodies if "temperature" not in b} == {
            8 * build.VOTE_TOKENS
        }
    rows = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["accepted"] * 2
    assert {a["self"]["says"] for row in rows for a in row["attempts"] if "self" in a} == {
        "unanswerable"
    }
    noted = (tmp_path / "asked-without.json").read_bytes()
    assert json.loads(noted) == {"m": ["temperature"]}
    suite.build(tmp_path, ocr="no", verifier=server.model("m"))  # again, and nothing is asked
    assert (tmp_path / "asked-without.json").read_bytes() == noted
