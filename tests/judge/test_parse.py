"""Judge replies, read strictly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.records import Outcome
from demur.judge.parse import parse

C, W, D = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        ("A", C),
        ("B", W),
        ("C", D),
        ("b", W),
        (" a. ", C),
        ("**B**", W),
        ("(C)", D),
        ("A: CORRECT", C),
        ("B) INCORRECT", W),
        ("CORRECT", C),
        ("INCORRECT", W),
        ("NOT_ATTEMPTED", D),
        ("not attempted", D),
        ("Not-Attempted.", D),
        ("Incorrect.", W),
        ("The grade is INCORRECT because the year is wrong.", W),
        ("Answer: B", W),
        ("grade = C", D),
        ('{"grade": "A"}', C),
        ("Based on the target: A", C),
        ("Verdict: NOT_ATTEMPTED", D),
        ("CORRECT\nCORRECT", C),
        ("The label is B", W),
        ("", None),
        ("I cannot grade this.", None),
        ("A or B", None),
        ("A, B", None),
        ("Answer: A / B", None),
        ("CORRECT or INCORRECT", None),
        ("not correct", None),
        ("It isn't correct", None),
        ("Bananas", None),
        ("A, but also NOT_ATTEMPTED", None),
        ("INCORRECTLY", None),
        ("503", None),
        ("Service unavailable: upstream error", None),
        ("A good answer", None),
        ("Grade: A\nGrade: B", None),
    ],
)
def test_strict(reply: str, want: Outcome | None) -> None:
    assert parse(reply) is want


@pytest.mark.parametrize(
    "reply",
    [
        "The correct answer is Danube, but it says something else.",
        "This answer cannot be considered correct.",
        "I would not call this answer correct.",
        "far from correct",
        "Hardly correct.",
        "None of it is correct.",
        "doesn't look correct",
        "Is it correct? No.",
        "It does not give the correct answer.",
        "This contradicts the correct answer.",
        "Wrong; the correct year is 1989.",
        "The answer is partially correct.",
        "The answer is correct.",
        "Correct answer: Danube. Given: Rhine. Verdict: wrong",
        '{"correct": false}',
        "correct = no",
        "no es CORRECT",
        "The correct answer is stated first; I compare the two and find that",
        "It would be CORRECT if it said Danube.",
        "The CORRECT answer is Danube.",
        "CORRECT ANSWER: Danube. It says Rhine.",
        "CORRECT: false",
        '{"CORRECT": false}',
        "CORRECT?",
        "Is it CORRECT? No.",
        "None of it, I believe, is CORRECT.",
        "I doubt it is CORRECT.",
        "The answer claims it is CORRECT.",
        "It cannot be\nCORRECT",
        "It is CORRECT, but the year is off.",
        "It is CORRECT. No, wait, the year is off.",
        "CORRECT in part",
        "Label: correct spelling is Donau",
        "I would not give the grade: A",
        "Answer: A tall man stands there.",
        "A. Einstein is named.",
        '{"label": "INCORRECT", "label": "CORRECT"}',
        "CORRECT. On the other hand INCORRECT.",
        "Die Antwort ist nicht korrekt.",
        "\u274c CORRECT",
        "Verdict: \u2717 CORRECT",
        "\u2260 CORRECT",
        "<answer>CORRECT</answer><answer>INCORRECT</answer>",
        "| CORRECT | INCORRECT |",
        "CORRECT (or INCORRECT, if read strictly)",
        "is A: " * 3_000 + "B?",
        "\u0130NCORRECT or so",
        "CORRECT " + "x" * 400 + " INCORRECT",
    ],
)
def test_ordinary_prose_and_doubt_are_no_label(reply: str) -> None:
    assert parse(reply) is None


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        ("Label - INCORRECT", W),
        ("Label: correct", C),
        ("Final answer: not attempted", D),
        ("INCORRECT: it says Rhine", W),
        ("The answer is INCORRECT because the correct year is 1989.", W),
        ("CORRECT. The answer states the Danube.", C),
        ("The answer was compared with what is right. Label: CORRECT", C),
        ("Reasoning: does not match\nLabel: INCORRECT", W),
        ("**Verdict:** INCORRECT", W),
        ("The year does not match, so it is INCORRECT.", W),
        ("The label is **NOT_ATTEMPTED**.", D),
        ("CORRECT\n\nThe answer states it.", C),
        ("It does not name the river.\n\n**NOT_ATTEMPTED**", D),
        ("Grade: A (CORRECT)", C),
        ('{"verdict": "CORRECT", "why": "states it"}', C),
        ("Grade: B because it says Rhine", W),
        ("<label>NOT_ATTEMPTED</label>", D),
        ("<grade>B</grade>", W),
        ("INCORRECT<|im_end|>", W),
        ("<think>\n</think>\n\nGrade: C", D),
        ("\u2717 INCORRECT", W),
        ("\u2705 CORRECT", C),
        ("Label\uff1aNOT_ATTEMPTED\u3002", D),
        ("INCORRECT (certainty: high)", W),
        ("Verdict: *B*", W),
        ("| answer | label |\n|---|---|\n| label | INCORRECT |", W),
        ("INCORRECT. The answer is not correct.", W),
    ],
)
def test_a_label_that_is_stated_counts(reply: str, want: Outcome) -> None:
    assert parse(reply) is want


@given(st.text())
def test_strict_never_guesses(reply: str) -> None:
    found = parse(reply)
    if found is not None:
        upper = reply.upper()
        letter, word = {C: ("A", "CORRECT"), W: ("B", "INCORRECT"), D: ("C", "ATTEMPTED")}[found]
        assert letter in upper or word in upper
