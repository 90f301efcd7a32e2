"""The rule judge: what it fails, what it reads as a deflection, what it grades, what it leaves ungraded."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

import demur
from demur.core.errors import UsageError
from demur.core.plugins import find
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Scenario, Status, Verdict
from demur.core.thinking import visible
from demur.judge import encoder
from demur.judge.deflection import read
from demur.judge.local import LocalJudge

ASK = Ask(
    id="ask-1",
    sample="s",
    context="c",
    scenario=Scenario.REALISTIC,
    question="How long is the bridge?",
)
LENGTH = AnswerSpec(accepted=(("1,280 m",),))
JUDGE = LocalJudge()


def grade(text: str, answers: AnswerSpec = LENGTH, **more: object) -> Verdict:
    return JUDGE.grade(ASK, Response(text=text, **more), answers)  # type: ignore[arg-type]


def outcome(text: str, answers: AnswerSpec = LENGTH) -> str:
    found = grade(text, answers)
    return found.outcome.value if found.outcome else found.status.value


def test_it_is_registered_under_its_name() -> None:
    assert find("judges", "rules") == (LocalJudge, "")
    assert JUDGE.id == "rules"
    with pytest.raises(UsageError, match="takes no argument"):
        LocalJudge("strict")
    with pytest.raises(UsageError, match="guess"):
        LocalJudge("?guess=perhaps")


def test_a_verdict_carries_the_ask_and_its_reason() -> None:
    found = grade("It is 1.28 km long.")
    assert (found.id, found.judge, found.status, found.outcome) == (
        "ask-1",
        "rules",
        Status.GRADED,
        Outcome.CORRECT,
    )
    assert "1,280 m" in found.reason


@pytest.mark.parametrize(
    "text", ["", "   ", "\n", "...", "<think>The bridge", "<think>1,280 m</think>"]
)
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
        ("1,280 m or 900 m", "unjudged"),
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


def test_that_no_form_is_stated_proves_nothing() -> None:
    name = AnswerSpec(accepted=(("Neuschwanstein",),))
    assert (outcome("Neuschwanstien", name), grade("Neuschwanstien", name).kind) == (
        "unjudged",
        "near",
    )
    assert (outcome("Hohenzollern", name), grade("Hohenzollern", name).kind) == (
        "unjudged",
        "other",
    )
    factory, argument = find("judges", "rules?guess=yes")
    guessing = factory(argument)
    assert guessing.id == "rules?guess=yes"
    assert guessing.grade(ASK, Response(text="Hohenzollern"), name).outcome is Outcome.INCORRECT
    assert guessing.grade(ASK, Response(text="Neuschwanstien"), name).status is Status.UNJUDGED


@pytest.mark.parametrize(
    ("question", "text", "accepted", "want", "kind"),
    [
        ("Is there a mug?", "There is no mug.", "yes", "incorrect", "opposite"),
        ("Is there a mug?", "There is no mug.", "no", "correct", "stated"),
        ("Is there a mug in the picture?", "I don't see a mug.", "no", "correct", "stated"),
        ("Is there a mug?", "There is no information about it.", "no", "deflected", "lack"),
        ("¿Es rojo?", "Sí, es rojo.", "yes", "correct", "stated"),
        ("Where is it?", "It is found in Norway.", "Norway", "correct", "stated"),
        ("Where is it?", "It is found in Sweden.", "Norway", "incorrect", "other of a kind"),
        ("Who is it?", "Obama", "Barack Obama", "correct", "surname"),
        ("Who is it?", "Michelle Obama", "Barack Obama", "unjudged", "other"),
        ("Who wrote it?", "It was written by Ann Lee.", "John Smith", "incorrect", "other person"),
        ("Which colours?", "blue and red", "red and blue", "correct", "parts in any order"),
        ("What share?", "0.46", "46%", "correct", "stated"),
        ("When was it?", "'50", "1950", "correct", "stated"),
        ("How many moons?", "3: Io, Europa, Callisto", "3", "correct", "stated"),
        ("Where is the old mill?", "Where is the old mill?", "Norway", "deflected", "echo"),
        ("Who is it?", "Could you share the photo?", "Ann Lee", "deflected", "asks back"),
        (
            "Which bridge is it?",
            "Could you tell me which city you mean?",
            "Tower Bridge",
            "deflected",
            "asks back",
        ),
        ("Who is it?", "I won't answer that.", "Ann Lee", "deflected", "refusal"),
        ("Who is it?", "No puedo saberlo con estos datos.", "Ann Lee", "deflected", "lack"),
        ("Who is it?", "Δεν ξέρω τίποτα για αυτό το θέμα", "Ann Lee", "unjudged", "language"),
    ],
)
def test_kinds(question: str, text: str, accepted: str, want: str, kind: str) -> None:
    ask = ASK.model_copy(update={"question": question})
    found = JUDGE.grade(ask, Response(text=text), AnswerSpec(accepted=((accepted,),)))
    assert (found.outcome.value if found.outcome else found.status.value, found.kind) == (
        want,
        kind,
    )


LAYOUTS = [
    "{}.",
    "**{}**",
    "_{}_",
    "`{}`",
    "# {}",
    "- {}",
    "> {}",
    '"{}"',
    "«{}»",
    "({})",
    "<p>{}</p>",
    "```text\n{}\n```",
    "Answer: {}",
    "**Answer:** {}",
    "Final answer: {}",
    "Sure! {}",
    "{} [1]",
    "{} (Source 2)",
    "\ufeff{}",
    "\r\n{}\r\n",
]
SAID = [
    ("Which river is it?", ["Danube", "Donau"], "It is the Danube", "correct"),
    ("Which river is it?", ["Danube"], "Not the Danube, but the Rhine", "incorrect"),
    ("Who wrote it?", ["Ann Lee"], "Not Ann Lee but John Smith", "incorrect"),
    (
        "Who wrote it?",
        ["Leonardo da Vinci"],
        "Raffaello Sanzio, rather than Leonardo da Vinci",
        "incorrect",
    ),
    ("Is there a mug?", ["yes"], "I don't see any mug", "incorrect"),
    ("How long is it?", ["1.2 km"], "1.2 miles", "incorrect"),
    ("When was it built?", ["1957"], "I cannot tell from the passages", "deflected"),
    ("¿Es verdadero?", ["falso"], "Verdadero", "incorrect"),
    ("Combien d'exemplaires ?", ["3 000"], "Trois mille exemplaires", "correct"),
    ("كم كتابًا على الرف؟", ["2"], "خمسة كتب", "incorrect"),
    ("首都はどこですか？", ["東京"], "東京ではなく、京都です", "incorrect"),
    ("El seu autor?", ["no"], "No t'ho sabria dir", "deflected"),
]


@pytest.mark.parametrize(("question", "accepted", "text", "want"), SAID)
def test_layout_decides_nothing(question: str, accepted: list[str], text: str, want: str) -> None:
    """Bold type, bullets, tags, quotes, sources, blanks and line ends leave each certain verdict as it is."""
    ask, answers = (
        ASK.model_copy(update={"question": question}),
        AnswerSpec(accepted=tuple((a,) for a in accepted)),
    )
    first, *rest = text.split(" ", 1)
    laid = [layout.format(text) for layout in LAYOUTS] + [
        " ".join([f"**{first}**", *rest]),
        text.replace(" ", "  "),
        text.replace(" ", "\u00a0"),
        text.replace(" ", " \u200b"),
    ]
    for one in (text, *laid):
        found = JUDGE.grade(ask, Response(text=one), answers)
        assert found.outcome is not None, (one, found.reason)
        assert found.outcome.value == want, (one, found.reason)
    for forms in (answers.accepted[::-1], answers.accepted * 2):
        again = JUDGE.grade(
            ask, Response(text=text), answers.model_copy(update={"accepted": forms})
        )
        assert again.outcome is Outcome(want), (forms, again.reason)


def test_a_starved_answer_is_no_deflection() -> None:
    assert (grade("", finish_reason="length").status, grade("", finish_reason="length").kind) == (
        Status.FAILED,
        "starved",
    )
    assert grade("The bridge, which was built to", finish_reason="length").kind == "starved"
    assert grade("It is 1,280 m long, as the", finish_reason="length").outcome is Outcome.CORRECT


@settings(max_examples=examples(200), deadline=None)
@given(st.text())
def test_any_reply_gets_a_verdict(text: str) -> None:
    found = grade(text)
    assert found == grade(text)
    assert (found.outcome is not None) == (found.status is Status.GRADED)


@pytest.mark.heavy
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
    assert (
        time.process_time() - start < 60
    )  # tells what ends from what hangs: it takes less than one


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














@pytest.mark.parametrize(
    "line",
    [
        "In which country was Einstein born? | Germany | Ulm, Germany",
        "How far is it in kilometres? | 161 km | 100 miles, which is 161 km",
        "What is the square root of 144? | 12 | 12, since 12 × 12 = 144.",
        "What language do they speak? | Dutch | Flemish (Dutch)",
    ],
)
def test_what_says_the_same_again_is_in_no_other_role(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the encoder says."""
    question, answer, reply = line.split(" | ")
    monkeypatch.setattr(encoder, "commits", lambda *_: -9.0)
    assert demur.grade(question, [answer], reply).outcome is None
    assert (
        demur.grade(question, [answer], f"Near {answer} lies something.").outcome
        is Outcome.INCORRECT
    )


def test_of_several_accepted_forms_one_must_be_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        encoder, "commits", lambda question, form, text: 4.0 if form.startswith("Mary") else -9.0
    )
    said = "It was written by Mary Ann Evans, who used the pen name George Eliot."
    assert (
        demur.grade("Who wrote it?", ["George Eliot", "Mary Ann Evans"], said).outcome
        is Outcome.CORRECT
    )


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("¿El perro es negro? | sí | El perro es negro.", Outcome.CORRECT),
        ("Le chat est noir ? | non | Le chat est noir.", Outcome.INCORRECT),
        ("¿El perro es negro? | sí | ¿El perro es negro?", Outcome.DEFLECTED),
        ("Is the dog black? | yes | Is the dog black", Outcome.DEFLECTED),
        ("How many cats are there? | 2 | None", None),
        ("Who won? | Anna | None", Outcome.DEFLECTED),
    ],
)
def test_statements_and_none(line: str, outcome: Outcome | None) -> None:
    question, answer, reply = line.split(" | ")
    assert demur.grade(question, [answer], reply).outcome is outcome


@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.parametrize(
    "line",
    [
        "Did the law pass? | No idea.",
        "Did the law pass? | No information is available.",
        "Did the law pass? | No mention of that in the text.",
        "Did the law pass? | No, I can't tell you that.",
        "Did the law pass? | No context was given.",
        "Did the law pass? | Yes, I can help, but the text does not say.",
        "Did the law pass? | Yes or no? I can't say.",
        "Is there a mug on the table? | I cannot see the table.",
        "Is there a mug on the table? | No image was provided.",
        "¿Fue aprobada la ley? | No, no puedo decirlo.",
        "Wurde das Gesetz verabschiedet? | Nein, dazu kann ich nichts sagen.",
        "Is de wet aangenomen? | Nee, dat weet ik niet.",
        "法律通过了吗？ | 没有相关信息。",
        "Is it big? | No doubt.",
        "Is it big? | No question about it.",
    ],
)
def test_a_deflection_answers_no_yes_or_no_question(line: str, answer: str) -> None:
    question, text = line.split(" | ")
    ask, spec = ASK.model_copy(update={"question": question}), AnswerSpec(accepted=((answer,),))
    assert JUDGE.grade(ask, Response(text=text), spec).outcome in (None, Outcome.DEFLECTED)


@pytest.mark.parametrize(
    "text",
    [
        "The constitution says nothing about political parties.",
        "El tratado no menciona Malta; solo abarca Gozo.",
        "Itunak ez du Malta aipatzen; Gozo bakarrik hartzen du.",
        "Aucune des trois sœurs ne s'est mariée.",
        "Traktat nie wspomina o Malcie; obejmuje tylko Gozo.",
        "Договор не упоминает Мальту; он касается только Гоцо.",
        "条约没有提到马耳他，只涵盖戈佐岛。",
        "조약은 몰타를 언급하지 않으며 고조섬만 다룹니다.",
    ],
)
def test_what_something_in_the_world_does_not_say_is_a_fact(text: str) -> None:
    assert not read(text).deflects


@pytest.mark.parametrize(
    "text",
    [
        "The passage about the treaty does not mention Malta.",
        "El pasaje sobre el tratado no menciona Malta.",
        "Фрагмент закона ничего не говорит о штрафах.",
        "关于条约的段落没有提到马耳他。",
    ],
)
def test_what_the_evidence_on_it_does_not_say_is_not(text: str) -> None:
    assert read(text).deflects




