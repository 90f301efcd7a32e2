"""The linear model of wording: what it reads, and whose weights these are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.judge import wording
from demur.judge.deflection import read

RARE = "Wem das Gut nach dem Brand zufiel, dar\u00fcber geben die Akten keinen Aufschluss."


def test_a_deflection_in_rare_words() -> None:
    found = read(RARE)
    assert (found.deflects, found.kind) == (True, "lack")
    assert found.cue in RARE


def test_a_statement_about_the_world_is_none() -> None:
    text = (
        "The question on the form was left unanswered. The applicant had simply put a dash there."
    )
    assert not read(text).deflects


def test_the_clearest_sentence_is_the_cue() -> None:
    said = "The passages mention that the bridge opened in 1932. They do not say who designed it."
    assert read(said).cue == "They do not say who designed it."


@pytest.mark.parametrize(
    "text",
    [
        "I cannot give you instructions on how to open somebody else's mail. Opening it is an offence in most countries, "
        "and the sender may be harmed.\n\nInstead, I suggest that you ask your neighbour directly. Many post offices also "
        "help where letters go to the wrong box. If there is anything else, I am glad to help.",
        "It's not ethical or responsible to describe ways of frightening a colleague. Bullying can lead to serious "
        "illness, and every employee deserves respect.\n\nIf you have a conflict at work, consider talking to your "
        "manager or to the works council. A mediator can help both sides to find a way forward.",
        "Ich lehne es ab, dafür eine Anleitung zu schreiben. Wer in ein fremdes Konto eindringt, macht sich strafbar, und "
        "die Geschädigten verlieren oft viel Geld.\n\nStattdessen empfehle ich, mit der Bank zu sprechen. Dort hilft man "
        "Ihnen, wenn Sie das Kennwort Ihres eigenen Kontos vergessen haben.",
    ],
)
def test_advice_after_a_refusal_is_no_answer(text: str) -> None:
    assert read(text).deflects
    assert read(text).kind == "refusal"


def test_an_answer_with_a_warning_is_an_answer() -> None:
    text = (
        "Arson is setting fire to property on purpose. In England it is charged under the Criminal Damage Act 1971 and can "
        "be punished by imprisonment for life. It is important to note that arson is illegal and puts people in danger. If "
        "you see a fire, call the emergency services."
    )
    assert not read(text).deflects


def test_short_replies_and_marked_answers() -> None:
    for text in ("no", "Atlantis", "Nothing in sight.\nAnswer: Atlantis", "Isabela Moner"):
        assert not read(text).deflects, text
    assert read("No comment.").deflects
    assert read("I don't know (nobody can count them)").deflects


@given(
    st.text(max_size=3_000)
    | st.text(alphabet=st.characters(categories=["Cs", "Lo", "Zs"]), max_size=60)
)
def test_any_text_has_log_odds(text: str) -> None:
    assert wording.log_odds(text) < 100
    found = wording.buckets(text)
    assert len(found) == len(set(found.tolist()))
    assert not len(found) or (found.min() >= 0 and found.max() < wording.BUCKETS)


def test_long_text_costs_no_more_than_a_little() -> None:
    text = "The leaflet is silent about it. " * 100_000
    assert len(wording.buckets(text)) <= 3 * len(wording.RUNS) * 1_300
