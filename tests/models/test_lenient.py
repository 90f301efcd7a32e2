"""demur's own questions to endpoints that refuse temperature 0, log-probabilities or JSON schemas."""

from __future__ import annotations

import asyncio
import json

import pytest

import demur
from demur.core.errors import ItemError
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
    return Request(model="m", messages=(Message(role="user", parts=(TextPart(text=f"hi {item}"),)),), item=item, **more)


async def asked(server, *requests, ledger=None):
    async with open_model(server.model("m"), ledger=ledger) as opened:
        lenient = LenientModel(opened)
        first = await lenient.complete(requests[0])
        others = {request.item: reply async for request, reply in complete_all(lenient, requests[1:])}
        return [first, *(others[request.item] for request in requests[1:])]


def test_what_an_endpoint_refuses_is_left_out_from_then_on_and_each_reply_says_so(tmp_path):
    full = {"temperature": 0.0, "max_tokens": 5, "logprobs": True, "top_logprobs": 3, "json_schema": {"type": "object"}}
    some = [ask("a", **full), ask("b", **full), ask("c", temperature=0.0), ask("d", max_tokens=7)]
    with running(reply=refusing(lambda body: "yes", *ALL)) as server:
        for sent in (3 + 4, 3):  # with a ledger nothing is paid twice; only what is refused is sent again
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
        assert (reply.asked_without, server.bodies[0]["temperature"], server.bodies[0]["max_tokens"]) == ((), 0.0, 5)


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


QUESTION = Ask(id="q", sample="q", context="", scenario=Scenario.PARAMETRIC, question="Where?", condition="none")


@pytest.mark.parametrize("refused", [("temperature",), ("temperature", "logprobs")])
def test_p_true_of_a_model_that_takes_no_temperature(refused):
    def reply(body):
        return "Yes" if body.get("max_tokens", 99) <= 8 else "EXPLANATION - so\nFINAL ANSWER - Paris"

    context = SystemContext(read_image=lambda ref: b"", prompts=demur.suite("mm_aqa:base").prompts())
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

    sample = Sample(id="a", source="cu", question="What?", answers=AnswerSpec(accepted=(("this",),)))
    with running(reply=refusing(lambda body: "yes", "temperature")) as server:
        found = await verified(
            [server.model("m")], {"a": "this"}, {"a": sample}, read_image=lambda ref: b"", ledger=tmp_path / "c.sqlite"
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
    with running(reply=refusing(lambda body: "VERDICT: UNANSWERABLE\nCONFIDENCE: HIGH", "temperature")) as server:
        suite.build(tmp_path, ocr="no", verifier=server.model("m"))
        assert {b["max_tokens"] for b in server.bodies if "temperature" not in b} == {8 * build.VOTE_TOKENS}
    rows = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["accepted"] * 2
    assert {a["self"]["says"] for row in rows for a in row["attempts"] if "self" in a} == {"unanswerable"}
    noted = (tmp_path / "asked-without.json").read_bytes()
    assert json.loads(noted) == {"m": ["temperature"]}
    suite.build(tmp_path, ocr="no", verifier=server.model("m"))  # again, and nothing is asked
    assert (tmp_path / "asked-without.json").read_bytes() == noted
