"""The default judge: every usable answer is correct, incorrect or deflected, offline, and says by what."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.errors import UsageError
from demur.core.plugins import find
from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Scenario, Status, Verdict
from demur.judge.local import ECHO, LocalJudge

JUDGE = LocalJudge()
LENGTH = AnswerSpec(accepted=(("1,280 m",),))
COUNT = AnswerSpec(accepted=(("66",),))
NAME = AnswerSpec(accepted=(("Neuschwanstein",),))
OPTIONS = AnswerSpec(kind="choice", accepted=(("b",),), choices=(("a", "Rhine"), ("b", "Danube")))
RANGE = AnswerSpec(kind="number", number=(3.0, 4.0))
NONE, UNKNOWN = AnswerSpec(kind="none"), AnswerSpec(kind="unknown")


def grade(
    text: str,
    answers: AnswerSpec = LENGTH,
    question: str = "How long is the bridge?",
    scenario: Scenario = Scenario.REALISTIC,
    **more: object,
) -> Verdict:
    ask = Ask(id="ask-1", sample="s", context="c", scenario=scenario, question=question)
    return JUDGE.grade(ask, Response(text=text, **more), answers)  # type: ignore[arg-type]


def test_it_is_registered_under_its_name() -> None:
    assert find("judges", "local") == (LocalJudge, "")
    assert JUDGE.id == "local"
    for wrong in ("strict", "?guess=yes"):
        with pytest.raises(UsageError) as told:
            LocalJudge(wrong)
        assert told.value.cure


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n"}, "empty"),
        ({"text": "..."}, "malformed"),
        ({"text": "<think>1,280 m</think>"}, "malformed"),
        ({"text": "<think>The bridge", "finish_reason": "length"}, "starved"),
        ({"text": "1,280 m", "error": "connection reset"}, "error"),
    ],
)
def test_no_usable_answer_is_failed_never_a_deflection(response: dict[str, str], kind: str) -> None:
    verdict = grade(**response)  # type: ignore[arg-type]
    assert (verdict.status, verdict.kind, verdict.outcome) == (Status.FAILED, kind, None)


@pytest.mark.parametrize(
    ("text", "answers", "outcome", "method"),
    [
        ("It is 1.28 km long.", LENGTH, "correct", Method.NUMBER),
        ("900 m", LENGTH, "incorrect", Method.NUMBER),
        ("<think>I cannot answer this.</think>1,280 m", LENGTH, "correct", Method.NUMBER),
        ("(a)", OPTIONS, "incorrect", Method.CHOICE),
        ("The Danube.", OPTIONS, "correct", Method.CHOICE),
        ("Neuschwanstein", NAME, "correct", Method.MATCH),
        ("None.", AnswerSpec(accepted=(("none",), ("unknown",))), "correct", Method.MATCH),
        ("It is Neuschwanstein, a castle of King Ludwig II.", NAME, "correct", Method.EQUIVALENCE),
        ("It is Hohenzollern, a castle of the kings.", NAME, "incorrect", Method.EQUIVALENCE),
        ("<think>900 m?</think>The context does not say.", LENGTH, "deflected", Method.DECLINED),
        ("I cannot tell from the context.", NAME, "deflected", Method.DECLINED),
        ("No puedo saberlo con estos datos.", NAME, "deflected", Method.DECLINED),
        ("It is 3.5.", RANGE, "correct", Method.NUMBER),
        ("66. Let me know if you need more details!", COUNT, "correct", Method.NUMBER),
    ],
)
def test_the_step_that_decides(
    text: str, answers: AnswerSpec, outcome: str, method: Method
) -> None:
    verdict = grade(text, answers)
    assert (verdict.id, verdict.judge, verdict.status) == ("ask-1", "local", Status.GRADED)
    assert (verdict.outcome and verdict.outcome.value, verdict.method) == (outcome, method)
    assert verdict.probability is not None
    assert 0.5 <= verdict.probability < 1 or method is Method.EQUIVALENCE


def test_the_question_handed_back_gives_no_answer() -> None:
    verdict = grade("How long is the bridge?!", NAME)
    assert (verdict.outcome, verdict.kind) == (Outcome.DEFLECTED, ECHO)


@pytest.mark.parametrize(
    ("answers", "text", "scenario", "outcome"),
    [
        (NONE, "I cannot find that in the documents.", Scenario.FULL, Outcome.DEFLECTED),
        (NONE, "Yes, you can.", Scenario.FULL, Outcome.INCORRECT),
        (UNKNOWN, "I don't know.", Scenario.GOLD_REMOVED, Outcome.DEFLECTED),
        (UNKNOWN, "Ten days.", Scenario.GOLD_REMOVED, Outcome.INCORRECT),  # it should decline
        (UNKNOWN, "I don't know.", Scenario.FULL, Outcome.DEFLECTED),
        (UNKNOWN, "Ten days.", Scenario.FULL, None),
    ],
)
def test_without_an_answer_to_compare_with(
    answers: AnswerSpec, text: str, scenario: Scenario, outcome: Outcome | None
) -> None:
    verdict = grade(text, answers, "How long does it take?", scenario)
    status = Status.GRADED if outcome else Status.UNJUDGED
    assert (verdict.outcome, verdict.status) == (outcome, status)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                ["I", "don't", "know", "1,280 m", "900", "Danube", "or", "not", "yes", "(b)", "?"]
            ),
            min_size=1,
            max_size=8,
        ).map(" ".join),
    ),
    st.sampled_from([LENGTH, NAME, OPTIONS, RANGE, NONE]),
)
def test_every_usable_answer_gets_one_of_three_outcomes_and_the_same_one_again(
    text: str, answers: AnswerSpec
) -> None:
    verdict = grade(text, answers)
    assert verdict == grade(text, answers)
    if verdict.status is not Status.FAILED:
        assert verdict.status is Status.GRADED
        assert verdict.outcome is not None
        assert verdict.method is not None
        assert verdict.probability is not None
        assert 0 <= verdict.probability < 1


def test_long_replies_take_time_that_grows_with_their_length() -> None:
    def seconds(n: int) -> float:
        began = time.process_time()
        grade("The bridge opened in 1932, and 4 km on stands a tower. " * n, NAME)
        return time.process_time() - began

    seconds(1)
    assert seconds(2_000) < 40 * max(seconds(200), 0.05)


def test_thoughts_between_tags_of_ones_own_are_not_judged() -> None:
    ask = Ask(
        id="a", sample="s", context="c", scenario=Scenario.REALISTIC, question="Which castle?"
    )
    reply = Response(
        text="[PLAN] Is it Linderhof? [/PLAN] <plan>Or Hohenzollern?</plan> Neuschwanstein"
    )
    judge = LocalJudge("?thinking=plan,[PLAN] [/PLAN]")
    assert judge.grade(ask, reply, NAME).method is Method.MATCH
    assert JUDGE.grade(ask, reply, NAME).method is not Method.MATCH
    unfinished = Response(text="<plan>Let me look for castles")
    assert judge.grade(ask, unfinished, NAME).kind == "malformed"
    assert judge.id == "local?thinking=plan,[PLAN] [/PLAN]"
