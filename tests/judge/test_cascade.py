"""The cascade: the local judge where it is sure, a model where it is not, and no model that cannot grade."""

from __future__ import annotations

import asyncio
import json

import pytest
from strategies import tiny_release

import demur
from demur.core.errors import UsageError
from demur.core.records import (
    AnswerSpec,
    Ask,
    Method,
    Outcome,
    Response,
    Scenario,
    Status,
    Verdict,
)
from demur.judge.attacks import CARRIERS
from demur.judge.base import JudgeContext, open_judge
from demur.judge.cascade import PLAIN_WRONG, Cascade
from demur.testing import running

ASK = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="Which river is it?")
DANUBE = AnswerSpec(accepted=(("Danube",),))
WRONG = [wrong for _, _, wrong in CARRIERS]


def verdict_of(judge: Cascade, text: str) -> Verdict:
    async def work() -> Verdict:
        try:
            return await judge.grade(ASK, Response(text=text), DANUBE)
        finally:
            await judge.close()

    return asyncio.run(work())


def local(monkeypatch, judge: Cascade, method: Method, probability: float | None) -> None:
    verdict = Verdict(
        id="a",
        status=Status.GRADED,
        outcome=Outcome.CORRECT,
        method=method,
        probability=probability,
        judge="local",
    )
    monkeypatch.setattr(judge.local, "grade", lambda *_: verdict)


@pytest.mark.parametrize(
    ("method", "probability", "below", "asked"),
    [
        (Method.EQUIVALENCE, 0.89, "", True),
        (Method.EQUIVALENCE, 0.9, "", False),
        (Method.EQUIVALENCE, 0.9, "below=0.95&", True),
        (Method.NUMBER, 0.89, "", True),  # measured, and not sure
        (Method.NUMBER, None, "", False),
        (Method.MATCH, None, "", False),
        (Method.DECLINED, None, "", True),
        (Method.EQUIVALENCE, None, "", True),
    ],
)
def test_the_model_is_asked_where_the_local_judge_is_not_sure(
    monkeypatch, method, probability, below, asked
):
    with running(reply=lambda body: '{"label": "INCORRECT"}') as server:
        judge = Cascade(f"{server.model('m')}?{below}share=0")
        local(monkeypatch, judge, method, probability)
        verdict = verdict_of(judge, "The Danube, or so.")
        assert server.requests == (PLAIN_WRONG + 1 if asked else 0)  # it is tried first
    assert verdict.outcome is (Outcome.INCORRECT if asked else Outcome.CORRECT)
    assert verdict.method is (Method.MODEL if asked else method)
    assert verdict.judge == judge.id
    assert judge.counts == ({"model": 1} if asked else {"local": 1})


def test_a_share_of_what_is_settled_locally_is_checked(monkeypatch):
    with running(reply=lambda body: '{"label": "INCORRECT"}') as server:
        judge = Cascade(f"{server.model('m')}?share=1")
        local(monkeypatch, judge, Method.MATCH, 0.99)
        assert verdict_of(judge, "The Danube.").outcome is Outcome.CORRECT
        assert server.requests == PLAIN_WRONG + 1
    assert judge.counts == {"local": 1, "checked": 1, "both": 1, "agreed": 0}


def answer_of(body: dict) -> str:
    content = body["messages"][-1]["content"]
    return (
        content
        if isinstance(content, str)
        else next(part["text"] for part in content if part["type"] == "text")
    )


def careless(times: int):
    """A model that calls so many of the plain wrong answers correct."""

    def reply(body: dict) -> str:
        asked = answer_of(body)
        easy = any(f"\nWhat is right: {right}\n" in asked for _, right, _ in CARRIERS[:times])
        return json.dumps({"label": "CORRECT" if easy else "INCORRECT"})

    return reply


def test_it_is_refused_at_every_door():
    with running(reply=careless(8)) as server, pytest.raises(UsageError) as refusal:
        demur.grade(
            "Which river is it?",
            answers=["Danube"],
            response="Blue.",
            judge=f"cascade:{server.model('m')}?below=1",
        )
    assert refusal.value.item.startswith("cascade:")
    assert refusal.value.cure


@pytest.mark.parametrize(("times", "refused"), [(0, False), (1, False), (2, True), (8, True)])
def test_a_model_that_calls_plain_wrong_answers_correct_is_refused(times, refused, tmp_path):
    with running(reply=careless(times)) as server:
        judge = open_judge(f"cascade:{server.model('m')}", JudgeContext(tmp_path / "calls.sqlite"))
        if refused:
            with pytest.raises(UsageError) as told:
                asyncio.run(judge.ready([ASK]))
            assert told.value.item == judge.id
            assert told.value.cure
        else:
            asyncio.run(judge.ready([ASK]))
        assert server.requests == PLAIN_WRONG
        asked = "".join(map(answer_of, server.bodies))
        assert all(f"\n{wrong[:1].upper()}{wrong[1:]}.\n" in asked for wrong in WRONG[:PLAIN_WRONG])
    assert not judge.counts


def test_a_run_refuses_it_before_its_system_is_asked(tmp_path):
    questions = []

    def system(question):
        questions.append(question)
        return "Something blue."

    release = tiny_release(tmp_path / "release", 2)
    with running(reply=careless(8)) as server, pytest.raises(UsageError):
        demur.evaluate(
            release,
            system,
            scenarios="oracle",
            judge=f"cascade:{server.model('m')}",
            out=tmp_path / "runs",
        )
    assert not questions


@pytest.mark.parametrize("options", ["below=2", "share=x", "shar=1", "below=1&below=0"])
def test_an_option_that_is_none_is_told(options):
    with pytest.raises(UsageError) as told:
        Cascade(f"http://127.0.0.1:9/v1#m?{options}")
    assert told.value.cure
