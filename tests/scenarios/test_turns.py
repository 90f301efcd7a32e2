"""A question that comes late in a conversation: its earlier turns from a file of questions to the model, and to whoever reads it."""

import asyncio
import json

import pytest
from errors import places, raises

from demur.core.errors import BadInput
from demur.core.records import AnswerSpec, Sample
from demur.core.store import Problems
from demur.core.turns import Turn, asked_in, turns_of
from demur.curation.from_docs.make import from_docs
from demur.curation.from_docs.questions import read_questions
from demur.evaluation.asks import write_asks
from demur.evaluation.options import RunOptions
from demur.judge.model import _question_text
from demur.release import Release
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import ask, render
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.function import Function
from demur.scenarios.systems.http import HttpSystem
from demur.scenarios.systems.http_mapping import RagMapping

BEFORE = [
    {"role": "user", "content": "Is there a Team plan?"},
    {"role": "assistant", "content": "Yes, there is."},
]


@pytest.fixture
def release(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for plan, price in (("Team", 19), ("Basic", 7), ("Studio", 23)):
        (docs / f"{plan}.txt").write_text(f"The {plan} plan costs {price} euros a month.")
    questions = tmp_path / "q.jsonl"
    rows = [
        {
            "messages": [*BEFORE, {"role": "user", "content": "What does it cost a month?"}],
            "answer": "19 euros",
        },
        {"question": "What does the Basic plan cost?", "answer": "7 euros"},
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    from_docs(docs, questions, tmp_path / "mine", accept_found=True)
    return Release.open(tmp_path / "mine/release")


def late(release):
    return next(s for s in release.samples() if s.turns)


def asked(sample):
    return ask(sample, context(sample, recipe("oracle")), Condition("moderate"), Prompts())


def test_from_a_log_to_a_model(release, tmp_path):
    sample = late(release)
    assert sample.question == "What does it cost a month?"
    assert sample.turns == turns_of(BEFORE)
    assert [e.title for e in sample.gold] == [
        "Team"
    ]  # found by what was said before: the question names no plan
    one = asked(sample)
    messages = render(one, Condition("moderate"), Prompts()).messages
    assert [m.role for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[1].parts[0].text == "Is there a Team plan?"
    assert "What does it cost" in messages[3].parts[-1].text
    write_asks(release, tmp_path / "asks.jsonl", RunOptions(scenarios="oracle"))
    written = [json.loads(line) for line in (tmp_path / "asks.jsonl").read_text().splitlines()]
    assert [row["turns"] for row in written if row["turns"]] == [BEFORE]
    assert (
        _question_text(one)
        == "user: Is there a Team plan?\nassistant: Yes, there is.\nuser: What does it cost a month?"
    )


def test_the_same_question_after_other_turns_is_another(release):
    sample = late(release)
    other = sample.model_copy(update={"attributes": {}})
    assert asked(sample).id != asked(other).id
    assert other.question_with_turns == other.question


def test_services_and_functions_are_given_them(release):
    one = asked(late(release))
    around = SystemContext(read_image=lambda ref: b"")
    mapping = RagMapping.of(
        {"url": "http://h/a", "body": {"chat": "{messages}", "past": "{turns}"}}, "m"
    )
    body = asyncio.run(HttpSystem(mapping, around).request(one))
    assert body == {"chat": [*BEFORE, {"role": "user", "content": one.question}], "past": BEFORE}
    seen = []
    told = Function(lambda question, turns: seen.append(turns) or "19 euros", around)
    assert asyncio.run(told.answer(one)).text == "19 euros"
    assert seen == [BEFORE]
    deaf = Function(lambda question: "19 euros", around)
    [*_, note] = asyncio.run(deaf.ready([one]))
    assert "no parameter turns), and 1 of 1 questions" in note


def test_what_is_no_conversation(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"question": "a b?", "turns": [{"role": "system", "content": "x"}]}\n{"question": "c d?", "turns": "x"}\n'
    )
    problems = Problems()
    read_questions(path, problems)
    with raises(BadInput, item="q.jsonl:1") as caught:
        problems.settle()
    assert '{"role"' in caught.value.problems[0]
    assert places(caught.value.problems) == ["q.jsonl:1", "q.jsonl:2"]
    with pytest.raises(ValueError, match="turns"):
        Sample(
            id="s",
            source="x",
            question="q?",
            answers=AnswerSpec(accepted=(("a",),)),
            attributes={"turns": "3"},
        )


def test_texts_take_turns():
    assert turns_of('["a", "b", "c"]') == (
        Turn("user", "a"),
        Turn("assistant", "b"),
        Turn("user", "c"),
    )
    assert turns_of(None) == turns_of("") == ()
    assert asked_in((), "q?") == "q?"
