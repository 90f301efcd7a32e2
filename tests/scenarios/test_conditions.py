"""Conditions and their prompts: texts that parse back, and a user's own files in their place."""

from __future__ import annotations

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import DataError, UsageError
from demur.scenarios.conditions import ADDONS, STRICTNESS, Condition, Prompts, condition

conditions = st.builds(
    Condition,
    strictness=st.sampled_from(STRICTNESS),
    addons=st.sets(st.sampled_from(ADDONS)).map(lambda s: tuple(a for a in ADDONS if a in s)),
)


@given(conditions)
def test_a_condition_parses_back(c):
    assert condition(str(c)) == c


@pytest.mark.parametrize("text", ["", "strict severe", "moderate+severe", "harsh", "severe+severe"])
def test_what_is_not_a_condition_is_refused(text):
    with raises(UsageError, repr(text), cure="severe"):
        condition(text)


@given(conditions, st.text(min_size=1))
def test_a_question_stands_in_the_prompt_whatever_it_holds(c, question):
    assert question.strip() in Prompts().ask(question, c)


def test_levels_differ_and_none_has_no_clause():
    prompts = Prompts()
    asked = {level: prompts.ask("Q?", condition(level)) for level in STRICTNESS}
    assert len(set(asked.values())) == 4
    assert min(asked, key=lambda level: len(asked[level])) == "none"
    assert prompts.system(condition("strict")) != prompts.system(condition("none"))


def test_hashes_name_exactly_the_texts_used():
    used = Prompts().used(condition("severe+strict+confidence"))
    assert set(used) == {"ask", "strict", "severe", "confidence"}
    assert all(len(h) == 64 for h in used.values())


def test_own_files_replace_one_by_one(tmp_path):
    (tmp_path / "clause-severe.v1.md").write_text("Dare not guess.")
    prompts = Prompts(tmp_path)
    assert "Dare not guess." in prompts.ask("Q?", condition("severe"))
    assert prompts.sha256["severe"] != Prompts().sha256["severe"]
    assert prompts.sha256["soft"] == Prompts().sha256["soft"]


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("clause-hard.v1.md", "x", ""),
        ("ask.v1.md", "Answer: $question", "$clause"),
        ("clause-soft.v1.md", "  ", ""),
    ],
)
def test_wrong_files_are_named(tmp_path, name, text, part):
    (tmp_path / name).write_text(text)
    with raises(DataError, part, item=tmp_path / name):
        Prompts(tmp_path)


def test_an_empty_folder_is_refused(tmp_path):
    with raises(DataError, item=tmp_path):
        Prompts(tmp_path)
