"""The suites' own questions to endpoints that refuse temperature 0, log-probabilities or JSON schemas."""

from __future__ import annotations

import asyncio
import json

import pytest

import demur_suites
from demur.core.records import Ask, ImageRef, Scenario
from demur.core.store import read_json
from demur.scenarios.systems import SystemContext
from demur.testing import running
from demur_suites.certainly_uncertain.build.calls import replies
from demur_suites.mm_aqa.baselines import PTrue
from demur_suites.mm_aqa.build.models import VOTE_TOKENS
from demur_suites.mm_aqa.build.pool import sample_corpus
from tests.served import refusing

QUESTION = Ask(
    id="q",
    sample="q",
    context="",
    scenario=Scenario.PARAMETRIC,
    question="Where?",
    condition="none",
)


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


@pytest.mark.parametrize("refused", [("temperature",), ("temperature", "logprobs")])
def test_p_true_of_a_model_that_takes_no_temperature(refused):
    def reply(body):
        return (
            "Yes" if body.get("max_tokens", 99) <= 8 else "EXPLANATION - so\nFINAL ANSWER - Paris"
        )

    context = SystemContext(
        read_image=lambda ref: b"", prompts=demur_suites.suite("mm_aqa:base").prompts()
    )
    with running(reply=refusing(reply, *refused)) as server:

        async def answers():
            system = PTrue(server.model("m"), context)
            try:
                return [await system.answer(QUESTION) for _ in range(2)]
            finally:
                await system.close()

        found = asyncio.run(answers())
        # a server without log-probabilities is asked for them once
        assert server.requests == (4 if "logprobs" not in refused else 3) + len(refused)
    assert (found[0].error, found[0].asked_without) == ("", tuple(sorted(refused)))
    assert {r.computed_confidence is None for r in found} == {"logprobs" in refused}


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
    monkeypatch.setattr("demur_suites.mm_aqa.build.pool.sample_corpus", lambda seed: flags)
    suite = demur_suites.suite("mm_aqa")
    with running(
        reply=refusing(lambda body: "VERDICT: UNANSWERABLE\nCONFIDENCE: HIGH", "temperature")
    ) as server:
        suite.build(tmp_path, ocr="no", verifier=server.model("m"))
        assert {b["max_tokens"] for b in server.bodies if "temperature" not in b} == {
            8 * VOTE_TOKENS
        }
    rows = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["unchecked"] * 2  # no panel saw them
    assert {a["verifier"][0] for row in rows for a in row["attempts"]} == {"unanswerable"}
    noted = (tmp_path / "asked-without.json").read_bytes()
    assert json.loads(noted) == {"m": ["temperature"]}
    suite.build(tmp_path, ocr="no", verifier=server.model("m"))  # again, and nothing is asked
    assert (tmp_path / "asked-without.json").read_bytes() == noted
