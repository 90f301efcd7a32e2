"""Judge replies: strict, and the published parser with its faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.records import Outcome
from demur.judge.parse import literal, parse

C, W, D = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        ("A", C), ("B", W), ("C", D), ("b", W), (" a. ", C), ("**B**", W), ("(C)", D), ("A: CORRECT", C), ("B) INCORRECT", W),
        ("CORRECT", C), ("INCORRECT", W), ("NOT_ATTEMPTED", D), ("not attempted", D), ("Not-Attempted.", D), ("Incorrect.", W),
        ("The grade is INCORRECT because the year is wrong.", W), ("Answer: B", W), ("grade = C", D), ('{"grade": "A"}', C),
        ("Based on the target: A", C), ("Verdict: NOT_ATTEMPTED", D), ("CORRECT\nCORRECT", C), ("The label is B", W),
        ("", None), ("I cannot grade this.", None), ("A or B", None), ("A, B", None), ("Answer: A / B", None), ("CORRECT or INCORRECT", None), ("not correct", None),
        ("It isn't correct", None), ("Bananas", None), ("A, but also NOT_ATTEMPTED", None), ("INCORRECTLY", None), ("503", None),
        ("Service unavailable: upstream error", None), ("A good answer", None), ("Grade: A\nGrade: B", None),
    ],
)  # fmt: skip
def test_strict(reply: str, want: Outcome | None) -> None:
    assert parse(reply) is want


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        ("CORRECT", D),
        ("INCORRECT", D),
        ("NOT_ATTEMPTED", C),
        ("Answer: B", C),
        ("b", D),
        ("B", W),
        ("", D),
        ("Based on it: A", W),
    ],
)
def test_literal_keeps_the_published_faults(reply: str, want: Outcome) -> None:
    assert literal(reply) is want


@given(st.text())
def test_strict_never_guesses(reply: str) -> None:
    found = parse(reply)
    if found is not None:
        upper = reply.upper()
        letter, word = {C: ("A", "CORRECT"), W: ("B", "INCORRECT"), D: ("C", "ATTEMPTED")}[found]
        assert letter in upper or word in upper
