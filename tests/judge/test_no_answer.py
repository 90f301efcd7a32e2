"""Questions that no document answers, and those whose answer nobody wrote down: what judges and scenarios make of them."""

from __future__ import annotations

import pytest

from demur.core.records import AnswerSpec, Evidence, Role, Sample
from demur.judge.model import target
from demur.scenarios.contexts import context, recipe

NONE, UNKNOWN = AnswerSpec(kind="none"), AnswerSpec(kind="unknown")


def test_an_answer_and_a_kind_that_denies_it_do_not_go_together():
    assert "made up" in target(NONE)
    for wrong in ({"kind": "none", "accepted": (("a",),)}, {"kind": "string"}):
        with pytest.raises(ValueError, match=r"kind|answer"):
            AnswerSpec(**wrong)


def test_what_nothing_answers_is_asked_where_it_must_be_declined():
    gold = Evidence(id="d", modality="text", title="", text="It takes ten days.", role=Role.GOLD)
    no = Sample(id="n", source="docs", question="Bitcoin?", answers=NONE, answerable=False)
    open_ = Sample(id="u", source="docs", question="How long?", answers=UNKNOWN, gold=(gold,))
    expected = {
        name: [c and c.expected for c in (context(s, recipe(name)) for s in (no, open_))]
        for name in ("full", "gold-removed", "empty", "parametric", "oracle")
    }
    assert expected == {
        "full": [None, "answer"],
        "gold-removed": ["deflect", "deflect"],
        "empty": ["deflect", "deflect"],
        "parametric": ["deflect", "deflect"],
        "oracle": ["deflect", "answer"],
    }
