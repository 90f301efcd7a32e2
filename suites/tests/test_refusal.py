"""Whether a reply declines, asked of a model."""

from __future__ import annotations

import asyncio

from demur.core.records import AnswerSpec, Ask, Response, Scenario
from demur.judge.untrusted_answer import forms_of
from demur.testing import running
from demur_suites.certainly_uncertain.refusal import RefusalJudge

ASK = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="Which river is it?")
GRADE = AnswerSpec(accepted=(("A",),))


def test_whether_a_reply_declines_is_not_asked_where_its_answer_is_hidden():
    with running(reply=lambda body: "1") as server:
        judge = RefusalJudge(f"http://127.0.0.1:{server.port}/v1#m")
        said = asyncio.run(judge.declines(ASK, Response(text="The rating is A."), forms_of(GRADE)))
        assert server.requests == 0
    assert said[0] is None
    assert "may be the answer" in said[1]
