"""The sources' own metrics against the vectors of their scorers."""

from __future__ import annotations

import pytest
from errors import raises

from demur.core.errors import DataError, UnknownPart
from demur.core.records import AnswerSpec, Outcome
from demur.judge.official import METRICS, evqa, infoseek, metric, mmdocrag, mragbench, viquae, webqa
from demur.judge.official.crag_mm import by_conversation
from demur.judge.official.simpleqa import simpleqa


def spec(*forms: str | tuple[str, ...], **more: object) -> AnswerSpec:
    accepted = tuple((f,) if isinstance(f, str) else f for f in forms)
    return AnswerSpec(accepted=accepted, **more)  # type: ignore[arg-type]


def test_every_metric_loads_by_name() -> None:
    for name in METRICS:
        answers = spec("B", choices=(("A", "x"), ("B", "y")))
        assert metric(name)(answers, "B") == 1.0
    assert metric("webqa:color") is metric("webqa")
    with raises(UnknownPart, "'bleu'", "evqa, infoseek"):
        metric("bleu")


@pytest.mark.parametrize(
    ("text", "want"), [("The Eiffel-Tower!", "eiffeltower"), ("U.S.A.", "usa"), ("an  A", "")]
)
def test_infoseek_normalises(text: str, want: str) -> None:
    assert infoseek.normalise(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("about 1,200 m", 1200.0),
        ("10-12", (10.0, 12.0)),
        ("12-10", 12.0),
        ("1.2.3 km", (1.2, 3.0)),
        ("-5", -5.0),
        ("no idea", (0.0, 0.0)),
        ("5 km2", 5.0),
    ],
)
def test_infoseek_parses(text: str, want: object) -> None:
    assert infoseek.parse(text) == want


@pytest.mark.parametrize(
    ("predicted", "want"),
    [
        (10.0, 1),
        (11.0, 1),
        (11.01, 0),
        ((9.5, 10.5), 1),
        ((9.0, 12.0), 1),
        ((8.0, 10.0), 0),
        ((0.0, 0.0), 0),
    ],
)
def test_infoseek_ranges(predicted: float | tuple[float, float], want: int) -> None:
    assert infoseek.in_range(predicted, 9, 11) == want


def test_infoseek_scores() -> None:
    around_zero = AnswerSpec(kind="number", number=(-1, 1))
    assert infoseek.score(around_zero, "no idea") == 1.0  # the source's fault, kept
    assert infoseek.score(spec("Freedonia", "FRD"), "the FRD!") == 1.0
    assert infoseek.score(spec("Freedonia"), "in Freedonia") == 0.0
    assert infoseek.final(0.2, 0.3) == pytest.approx(0.24)
    assert infoseek.final(0.0, 0.3) == pytest.approx(2e-12)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("The answer is Two.", "2"),
        ("true", "yes"),
        ("none", "0"),
        ("The  U.S.", "us"),
        ("<extra_id_0> Red", "red"),
    ],
)
def test_evqa_normalises(text: str, want: str) -> None:
    assert evqa.normalise(text) == want


@pytest.mark.parametrize(
    ("reference", "candidate", "want"),
    [
        (("red", "blue"), "blue and red", 1),
        (("red", "blue", "green"), "red, blue", 1),
        (("red", "blue", "green"), "red", 0),
        (("red", "blue"), "red & blue & green & black", 1),
        (("2 m",), "2 m", 1),
        (("2 m",), "2", 0),
    ],
)
def test_evqa_scores(reference: tuple[str, ...], candidate: str, want: int) -> None:
    assert evqa.score(spec(reference), candidate) == want


def test_evqa_refuses_an_empty_reference() -> None:
    with raises(DataError, item="'the'"):
        evqa.score(spec("the"), "anything")


def test_webqa() -> None:
    assert webqa.score(spec("Yes, both towers are round.", rule="webqa:YesNo"), "yes") == 1.0
    assert webqa.score(spec("red and white", rule="webqa:color"), "It is white") == pytest.approx(
        2 / 3
    )
    assert webqa.score(spec("The two towers"), "2 old towers stand") == 1.0
    assert webqa.score(spec("three", rule="webqa:number"), "There are 3 of 4") == pytest.approx(
        2 / 3
    )
    assert webqa.score(spec("puce", rule="webqa:color"), "puce") is None
    assert webqa.score(spec("puce"), "puce", "color", frozenset({"puce"})) == 1.0


def test_mmdocrag() -> None:
    assert mmdocrag.cited("<think>[9]</think> As [1] and [12] say ![x](image3)") == {
        "text1",
        "text12",
        "image3",
    }
    assert mmdocrag.citations("[1] (image2)", ["text1", "image2"]) == (1.0, 1.0, 1.0)
    assert mmdocrag.citations("none", ["text1"]) == (0.0, 0.0, 0.0)
    assert mmdocrag.score(spec(("46", "27")), "<think>1</think>27 and 46") == 1.0
    assert mmdocrag.score(spec(("46", "27")), "46") == 0.0


def test_mragbench() -> None:
    choices = (("A", "Wolf"), ("B", "Fox"), ("C", "Jackal"), ("D", "Coyote"))
    answers = spec("Fox", kind="choice", choices=choices)
    assert mragbench.score(spec("Fox"), "fox") is None
    for reply, want in {
        "(B)": 1,
        "B": 1,
        "B.": 1,
        "(A) no, (B)": 1,
        "(B) no, (A)": 0,
        "I think that it must be a fox": 1,
        "fox": 0,
    }.items():
        assert mragbench.score(answers, reply) == want, reply


def test_viquae() -> None:
    answers = spec("Springfield", "City of Springfield")
    assert viquae.exact(answers, "the Springfield.") == 1.0
    assert viquae.exact(answers, "in Springfield") == 0.0
    assert viquae.f1(answers, "old Springfield") == pytest.approx(2 / 3)
    assert viquae.f1(answers, "!") == 0.0


def test_simpleqa() -> None:
    found = simpleqa([Outcome.CORRECT] * 2 + [Outcome.INCORRECT] * 2 + [Outcome.DEFLECTED] * 4)
    assert found[:4] == (0.25, 0.25, 0.5, 0.5)
    assert found.f1 == pytest.approx(2 * 0.25 * 0.5 / 0.75)
    assert simpleqa([])[:5] == (None,) * 5
    assert simpleqa([Outcome.DEFLECTED])[3:5] == (None, None)


def test_crag_mm_ends_a_conversation_after_two_turns_that_are_not_right() -> None:
    C, W, D = Outcome.CORRECT, Outcome.INCORRECT, Outcome.DEFLECTED
    for turns, want in {
        (C, W, C, W): 0.0,
        (W, D, C, C): -0.25,  # the two right turns count as declined
        (C, D, D, W): 0.25,
        (W,): -1.0,
    }.items():
        assert by_conversation([turns]) == want, turns
    assert by_conversation([(C, C), (W,)]) == 0.0  # each conversation counts alike
    assert by_conversation([]) is None
