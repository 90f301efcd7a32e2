"""Panels and ratings; and whatever fails, in a judge or on its way, is no grade and leaves no denominator silently."""

from __future__ import annotations

import asyncio
import json

import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import PermanentError, TransientError, UsageError
from demur.core.records import (
    AnswerSpec,
    Ask,
    Method,
    Outcome,
    Response,
    Row,
    Scenario,
    Status,
    Verdict,
)
from demur.judge.base import open_judge
from demur.judge.cascade import Cascade
from demur.judge.grading import Grading
from demur.judge.measures.rates import rates
from demur.judge.model import ModelJudge
from demur.judge.panel import Panel, decided
from demur.judge.rating import RatingJudge

DANUBE = AnswerSpec(accepted=(("Danube",),))


def ask(id: str = "a") -> Ask:
    return Ask(
        id=id, sample="s", context="c", scenario=Scenario.ORACLE, question="Which river is it?"
    )


class Says:
    """A member that says one thing, raises it, or never keeps to the contract."""

    def __init__(self, what: object, id: str) -> None:
        self.what, self.id = what, id

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> object:
        if isinstance(self.what, Exception):
            raise self.what
        if isinstance(self.what, Outcome):
            return Verdict(id=ask.id, status=Status.GRADED, outcome=self.what, judge=self.id)
        if self.what == "unjudged":
            return Verdict(id=ask.id, status=Status.UNJUDGED, judge=self.id)
        return self.what


def panel(*members: object) -> Panel:
    made = Panel("local,demur.judge.local:LocalJudge")
    made.members = [Says(what, f"m{n}") for n, what in enumerate(members)]  # type: ignore[assignment]
    made.names = [m.id for m in made.members]
    made._doors = [Grading(m) for m in made.members]
    return made


def graded(judge: object, *texts: str) -> list[Verdict]:
    async def work() -> list[Verdict]:
        try:
            return [
                await judge.grade(ask(f"a{n}"), Response(text=text), DANUBE)
                for n, text in enumerate(texts)
            ]
        finally:
            await judge.close()

    return asyncio.run(work())


RIGHT, WRONG, AWAY = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED


@pytest.mark.parametrize(
    ("members", "outcome"),
    [
        ((RIGHT, RIGHT, WRONG), RIGHT),
        ((WRONG, RIGHT, RIGHT), RIGHT),
        ((RIGHT, RIGHT, "unjudged"), RIGHT),  # a third vote turns nothing
        ((RIGHT, "unjudged", ValueError("x")), None),
        ((RIGHT, WRONG, "unjudged"), None),
        ((RIGHT, RIGHT, 7, ValueError("x")), None),
        ((RIGHT, WRONG, AWAY), RIGHT),
        ((WRONG, RIGHT), WRONG),  # the first named
        ((AWAY, WRONG, RIGHT, RIGHT, WRONG), WRONG),
        ((None, None), None),
    ],
)
def test_what_a_panel_decides(members, outcome):
    judge = panel(*members)
    [verdict] = graded(judge, "The Danube.")
    assert verdict.outcome is outcome
    assert verdict.status is (Status.GRADED if outcome else Status.UNJUDGED)
    assert verdict.method is (Method.MODEL if outcome else None)
    assert verdict.probability is None
    assert set(json.loads(verdict.raw)) == {f"m{n}" for n in range(len(members))}
    assert bool(judge.disagreements) == (len({m for m in members if isinstance(m, Outcome)}) > 1)


def test_its_text_parses_and_agreement_is_told():
    judge = open_judge("panel:local,(cascade:http://127.0.0.1:9/v1?x=1#m?share=0.2)")
    assert (len(judge.members), judge.members[1].share) == (2, 0.2)
    fleet = open_judge("panel:local,(model:http://a/v1#m,http://b/v1#m)")
    assert len(fleet.members) == 2
    with pytest.raises(UsageError):  # whose option it is would be a guess
        open_judge("panel:local,cascade:openai/m?share=0.2")
    for wrong in ("panel:local", "panel:local,local", "panel:local,panel:local"):
        with pytest.raises(UsageError) as told:
            open_judge(wrong)
        assert told.value.cure
    found = panel(RIGHT, WRONG, RIGHT)
    graded(found, "a", "b", "c")
    assert "m0 and m2: agreement 100.0% [43.9%, 100.0%], kappa undefined, n = 3" in found.summary
    assert "m0 and m1: agreement 0.0% [0.0%, 56.1%]" in found.summary
    assert "3 answers on which members disagree" in found.summary
    [empty] = graded(panel(RIGHT, RIGHT), "")
    assert empty.status is Status.FAILED


@pytest.mark.parametrize(
    ("reply", "outcome", "credit"),
    [
        ("3", RIGHT, 1.0),
        ('{"rating": 2}', WRONG, 0.5),
        ("Rating: 1.", WRONG, 0.0),
        ("0", AWAY, 0.0),
        ("4", None, None),
        ("2 or 3", None, None),
        ('{"rating": 1, "rating": 3}', None, None),
        ("-3", None, None),
        ("Rating: -1", None, None),
        ("Rating - 1", WRONG, 0.0),
        ('{"rating": true}', None, None),
        ("", None, None),
        ("[" * 3000, None, None),
    ],
)
def test_ratings_are_read_strictly(reply, outcome, credit):
    judge = RatingJudge("openai/x")
    assert (judge.read(reply)[0], judge.credit(reply)) == (outcome, credit)


class Scripted:
    """A model whose calls end as the script says."""

    def __init__(self, script: list[object]) -> None:
        self.script = script

    async def complete(self, request: object) -> Response:
        what = self.script.pop(0) if self.script else ""
        if isinstance(what, Exception):
            raise what
        return Response(text=str(what))


SAID = ["CORRECT", "INCORRECT", "NOT_ATTEMPTED", "3", '{"label": "CORRECT"}']
REPLIES = st.one_of(
    st.sampled_from(SAID),
    st.text(max_size=40),
    st.builds(TransientError, st.just("timed out")),
    st.builds(
        lambda: __import__("demur.core.errors", fromlist=["ItemError"]).ItemError(
            "refused", item="a"
        )
    ),
)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["model", "lave", "cascade", "panel"]),
    st.lists(REPLIES, min_size=2, max_size=8),
    st.sampled_from(["The Rhine, long known.", "It may be", ""]),
)
def test_no_failure_becomes_a_grade_or_leaves_a_denominator(kind, script, answer):
    judges = {"model": ModelJudge("openai/x"), "lave": RatingJudge("openai/x")}
    judge = judges.get(kind) or (
        Cascade("openai/x") if kind == "cascade" else Panel("local,model:openai/x")
    )
    model = judge if kind in judges else judge.model if kind == "cascade" else judge.members[1]
    model._opened = Scripted(list(script))  # type: ignore[assignment]
    model._closing = None
    model.schema = None
    verdicts = graded(judge, *[answer] * 4)
    rows = [
        Row(
            ask=v.id,
            context=v.id,
            sample=v.id,
            source="s",
            scenario=Scenario.ORACLE,
            condition="moderate",
            recipe="oracle",
            k_used=0,
            expected="answer",
            status=v.status,
            outcome=v.outcome,
        )
        for v in verdicts
    ]
    found = rates(rows).accuracy
    assert found.n + found.unjudged + found.failed == 4
    for verdict in verdicts:
        if not answer:
            assert verdict.status is Status.FAILED
        elif verdict.status is Status.GRADED and kind in judges:  # of a reply that states a label
            assert verdict.raw in map(str, script)
            assert judge.read(verdict.raw)[0] is verdict.outcome
        elif kind in judges:
            assert verdict.status is Status.UNJUDGED
    told = [what for what in script if isinstance(what, str) and model.read(what)[0]]
    if kind in judges:
        assert sum(v.status is Status.GRADED for v in verdicts) <= len(told)
    assert decided([None, None]) is None


def test_a_key_that_is_wrong_ends_it_and_grades_nothing():
    judge = Panel("local,model:openai/x")
    judge.members[1]._opened = Scripted([PermanentError("401")])  # type: ignore[assignment]
    judge.members[1].schema = None
    with pytest.raises(PermanentError):
        graded(judge, "The Danube.")


def test_a_member_that_is_down_is_told_by_its_name_before_anything_is_asked():
    from demur.evaluation.preflight import preflight

    judge = Panel("local,model:http://127.0.0.1:9/v1#m")
    with raises(PermanentError, item="127.0.0.1:9") as told:
        asyncio.run(preflight({judge.id: judge}, [ask()]))
    assert "model:m" in str(told.value)
    assert (
        asyncio.run(preflight({"local": Panel("local,demur.judge.local:LocalJudge")}, [ask()]))
        == []
    )


@pytest.mark.parametrize(
    ("rating", "outcome", "credit"),
    [(3, AWAY, 1.0), (0, AWAY, 1.0), (2, WRONG, 0.0), (1, WRONG, 0.0)],
)
def test_where_declining_is_right_whoever_declines_has_the_whole_credit(rating, outcome, credit):
    judge = RatingJudge("openai/x")
    judge._opened = Scripted([rating])  # type: ignore[assignment]
    made = asyncio.run(
        judge.grade(ask(), Response(text="It is the Rhine, or so."), AnswerSpec(kind="none"))
    )
    assert (made.outcome, made.credit) == (outcome, credit)


def test_a_check_that_gets_no_grade_was_asked_all_the_same():
    judge = Cascade("openai/x?share=1")
    judge._tried = True
    judge.model._opened = Scripted(["CORRECT", TransientError("down"), "perhaps", "perhaps"])  # type: ignore[assignment]
    assert {v.outcome for v in graded(judge, *["It is the Danube."] * 3)} == {RIGHT}
    assert judge.counts == {"local": 3, "checked": 3, "both": 1, "agreed": 1}
    assert "0 calls saved" in judge.summary
