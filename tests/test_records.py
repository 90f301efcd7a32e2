"""Records: frozen, strict, equal by value, and the same again after JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from strategies import evidence, sample, samples

from demur.core.records import (
    AnswerSpec,
    Document,
    Evidence,
    Modality,
    Outcome,
    Role,
    Sample,
    Status,
    Verdict,
)
from demur.core.store import canonical, digest

words = st.text(min_size=1, max_size=12).filter(str.strip)
answers = st.one_of(
    st.builds(
        AnswerSpec,
        accepted=st.lists(
            st.lists(words, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3
        ).map(tuple),
    ),
    st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e6)).map(
        lambda p: AnswerSpec(kind="number", number=(p[0], p[0] + p[1]))
    ),
)


@given(samples())
def test_a_sample_is_the_same_again_after_json(s):
    assert Sample.model_validate_json(s.model_dump_json()) == s
    assert Sample.model_validate_json(canonical(s)) == s


@given(answers)
def test_an_answer_is_the_same_again_after_json_and_shows_something(a):
    assert AnswerSpec.model_validate_json(a.model_dump_json()) == a
    assert a.display_form.strip()


@given(samples(), samples())
def test_ids_by_content_differ_exactly_when_contents_do(a, b):
    assert (digest(a) == digest(b)) == (a == b)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"question": "  "}, "question"),
        ({"gold": (evidence("x", Role.DISTRACTOR),)}, "distractor"),
        ({"negatives": (evidence("x", Role.GOLD),)}, "negatives"),
        ({"negatives": (evidence("s1-g0", Role.DISTRACTOR),)}, "s1-g0"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_a_sample_that_contradicts_itself_is_refused(change, named):
    with pytest.raises(ValidationError, match=named):
        Sample.model_validate(sample("s1").model_dump() | change)


@pytest.mark.parametrize(
    "given",
    [{}, {"accepted": ((),)}, {"accepted": ((" ",),)}, {"kind": "number", "number": (3, 1)}],
)
def test_an_answer_that_says_nothing_is_refused(given):
    with pytest.raises(ValidationError):
        AnswerSpec(**given)


def test_records_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        sample().question = "another"


def test_a_verdict_has_an_outcome_exactly_when_it_is_graded():
    Verdict(id="a", status=Status.GRADED, outcome=Outcome.DEFLECTED, judge="j")
    for status, outcome in (
        (Status.GRADED, None),
        (Status.UNJUDGED, Outcome.CORRECT),
        (Status.FAILED, Outcome.DEFLECTED),
    ):
        with pytest.raises(ValidationError, match="outcome"):
            Verdict(id="a", status=status, outcome=outcome, judge="j")


def test_a_document_holds_text_or_an_image():
    with pytest.raises(ValidationError, match="neither"):
        Document(id="d", title="t")
    made = Evidence.of(Document(id="d", title="t", text="x"), Role.GOLD, origin="mined", rank=3)
    assert (made.modality, made.origin, made.rank, made.level) == (
        Modality.TEXT,
        "mined",
        3,
        "passage",
    )
