"""The rule judge: what it fails, what it reads as a deflection, what it grades, what it leaves ungraded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.errors import BadInput, UsageError
from demur.judge.deflection import read
from demur.judge.rules import RuleJudge, main, score, visible
from demur.plugins import find
from demur.records import AnswerSpec, Ask, Outcome, Response, Scenario, Status, Verdict

LABELLED = Path(__file__).parent / "deflections.jsonl"
ASK = Ask(id="ask-1", sample="s", context="c", scenario=Scenario.REALISTIC, question="How long is the bridge?")
LENGTH = AnswerSpec(accepted=(("1,280 m",),))
JUDGE = RuleJudge()


def grade(text: str, answers: AnswerSpec = LENGTH, **more: object) -> Verdict:
    return JUDGE.grade(ASK, Response(text=text, **more), answers)  # type: ignore[arg-type]


def outcome(text: str, answers: AnswerSpec = LENGTH) -> str:
    found = grade(text, answers)
    return found.outcome.value if found.outcome else found.status.value


def test_it_is_registered_under_its_name() -> None:
    assert find("judges", "rules") == (RuleJudge, "")
    assert JUDGE.id == "rules"
    with pytest.raises(UsageError, match="takes no argument"):
        RuleJudge("strict")


def test_a_verdict_carries_the_ask_and_its_reason() -> None:
    found = grade("It is 1.28 km long.")
    assert (found.id, found.judge, found.status, found.outcome) == ("ask-1", "rules", Status.GRADED, Outcome.CORRECT)
    assert "1,280 m" in found.reason


@pytest.mark.parametrize("text", ["", "   ", "\n", "...", "<think>The bridge", "<think>1,280 m</think>"])
def test_no_usable_answer_is_failed_never_a_deflection(text: str) -> None:
    assert grade(text).status is Status.FAILED


def test_an_error_is_failed_whatever_text_came_with_it() -> None:
    found = grade("1,280 m", error="connection reset")
    assert found.status is Status.FAILED
    assert "connection reset" in found.reason


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1280 metres", "correct"),
        ("I'm not sure, but it should be about 1,280 m.", "correct"),
        ("The passages do not state it directly; my best guess is 1,280 m.", "correct"),
        ("I'm not sure, but I think it is 900 m.", "incorrect"),
        ("900 m", "incorrect"),
        ("1,280 m or 900 m", "incorrect"),
        ("It is not 1,280 m.", "incorrect"),
        (
            "The passages mention the Golden Gate Bridge (1,280 m) but do not give the length of the one shown.",
            "deflected",
        ),
        ("I cannot tell from the context.", "deflected"),
        ("<think>Perhaps 900 m?</think>The context does not say.", "deflected"),
        ("<think>I cannot answer this.</think>1,280 m", "correct"),
        ("Final answer: I don't know", "deflected"),
        ("I don't know the bridge. Final answer: 1,280 m", "correct"),
    ],
)
def test_order_of_the_rules(text: str, want: str) -> None:
    assert outcome(text) == want


def test_an_accepted_form_that_sounds_like_a_refusal_is_correct() -> None:
    none = AnswerSpec(accepted=(("none",), ("unknown",)))
    assert outcome("None.", none) == "correct"
    assert outcome("unknown", none) == "correct"
    assert outcome("Unknown", AnswerSpec(accepted=(("Paris",),))) == "deflected"


def test_what_rules_cannot_tell_is_ungraded() -> None:
    assert outcome("Obama", AnswerSpec(accepted=(("Barack Obama",),))) == "ungraded"


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_reply_gets_a_verdict(text: str) -> None:
    found = grade(text)
    assert found == grade(text)
    assert (found.outcome is not None) == (found.status is Status.GRADED)


def test_long_replies_cost_little() -> None:
    start = time.process_time()
    for text in (
        "the context " * 3000,
        "I cannot " * 4000,
        "a" * 40_000,
        "it does not, but " * 2500,
        "'" * 20_000,
        "* " * 20_000,
    ):
        grade(text)
    assert time.process_time() - start < 60  # tells what ends from what hangs: it takes less than one


def test_hidden_thoughts_are_not_judged() -> None:
    assert visible("<think>a</think> b <thinking>c</thinking> d").split() == ["b", "d"]
    assert visible("half a thought</think>Paris") == "Paris"


def test_quotes_titles_and_others_decline_nothing() -> None:
    for text in (
        'The sign says "cannot answer".',
        "The statement is wrong.",
        "The dog in the picture cannot see.",
        "no",
    ):
        assert not read(text).deflects, text


def test_deflection_rules_on_labelled_answers() -> None:
    """The measured figures (docs/judging.md quotes them); the held-out part was never tuned on."""
    scores, wrong = score(LABELLED)
    parts = {s.part: s for s in scores}
    assert parts["all"].n >= 250
    held_out = parts["held-out"]
    assert held_out.n == 90
    assert held_out.precision is not None
    assert held_out.recall is not None
    assert held_out.precision >= 0.94
    assert held_out.recall >= 0.80
    assert parts["tuning"].precision is not None
    assert parts["tuning"].precision >= 0.98
    assert (parts["tuning"].recall or 0) >= 0.98
    assert len(wrong) == parts["all"].false_positive + parts["all"].false_negative


def test_the_command_prints_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--score", str(LABELLED), "--wrong"]) == 0
    assert "held-out" in capsys.readouterr().out
    assert main(["--score", str(LABELLED), "--json"]) == 0
    rows = {s["part"]: s for s in json.loads(capsys.readouterr().out)["scores"]}
    assert rows["held-out"]["n"] == 90


def test_bad_labels_are_named(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text('{"text": "a", "deflects": true}\n{"text": "b"}\nnot json\n')
    with pytest.raises(BadInput, match=r"labels.jsonl:2(.|\n)*labels.jsonl:3"):
        score(file)
    file.write_text('{"text": "Paris", "deflects": false}\n')
    (only,), wrong = score(file)
    assert (only.part, only.precision, only.recall, wrong) == ("all", None, None, [])
