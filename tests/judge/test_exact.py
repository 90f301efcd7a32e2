"""The exact step: each line of ``exact.jsonl`` is a reply, and what comparing decides of it."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Scenario
from demur.judge.exact import exact, probability
from demur.judge.local import LocalJudge, no_answer

HERE = Path(__file__).parent
ROWS = [
    json.loads(line)
    for line in (HERE / "exact.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]


def spec_of(row: dict[str, Any]) -> AnswerSpec:
    """The answers of a row, of which one may be several parts."""
    forms = tuple((form,) if isinstance(form, str) else tuple(form) for form in row["answers"])
    kind = "choice" if "choices" in row else "number" if "number" in row else "string"
    return AnswerSpec(
        kind=kind,
        accepted=forms,
        choices=tuple(row.get("choices", {}).items()),
        number=row.get("number"),
        unit=row.get("unit", ""),
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}: {row['response']!r}")
def test_what_comparing_decides(row: dict[str, Any]) -> None:
    decided = exact(row["question"], row["response"], spec_of(row))
    assert (decided.outcome.value if decided else "undecided") == row["expect"]


@pytest.mark.parametrize(
    ("reply", "method"),
    [
        ("353.0", Method.NUMBER),
        ("1990-05-04", Method.DATE),
        ("Yes, quite.", Method.CHOICE),
        ("Lima", Method.MATCH),
    ],
)
def test_a_decision_names_its_method(reply: str, method: Method) -> None:
    form = {Method.NUMBER: "353", Method.DATE: "4 May 1990", Method.CHOICE: "yes"}.get(
        method, reply
    )
    decided = exact("", reply, AnswerSpec(accepted=((form,),)))
    assert decided is not None
    assert (decided.outcome, decided.method) == (Outcome.CORRECT, method)


@pytest.mark.parametrize("method", [Method.CHOICE, Method.NUMBER, Method.DATE, Method.MATCH])
def test_a_comparison_is_never_certain(method: Method) -> None:
    assert 0.9 < probability(method) < 1


@pytest.mark.parametrize("kind", ["none", "unknown"])
def test_nothing_is_compared_with_an_answer_that_nobody_wrote_down(kind: Any) -> None:
    assert exact("Who?", "Ana", AnswerSpec(kind=kind)) is None


@pytest.mark.parametrize(
    ("box", "right"), [("[10, 10, 20, 20]", True), ("[0, 0, 5, 5]", False), ("no box", None)]
)
def test_a_box(box: str, right: bool | None) -> None:
    decided = exact("Where?", box, AnswerSpec(kind="box", box=(10, 10, 20, 20)))
    assert (decided and decided.outcome is Outcome.CORRECT) == right


@pytest.mark.parametrize(
    "reply", ["null", '{"answer": null}', "{}", "...", "**", "", "<thought>Hm"]
)
def test_no_usable_answer(reply: str) -> None:
    assert no_answer(Response(text=reply)) in ("malformed", "empty")


@pytest.mark.parametrize(
    "reply", ["+", "?", "€", "0", '{"answer": "Lima"}', "<thought>Hm</thought>5"]
)
def test_a_usable_answer(reply: str) -> None:
    assert not no_answer(Response(text=reply))


def test_the_judge_compares_first_and_says_how_sure_it_is() -> None:
    ask = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="How many?")
    verdict = LocalJudge().grade(ask, Response(text="42+"), AnswerSpec(accepted=(("42",),)))
    assert (verdict.outcome, verdict.method) == (Outcome.INCORRECT, Method.NUMBER)
    assert verdict.probability == pytest.approx(probability(Method.NUMBER), abs=0.001)


@pytest.mark.parametrize(
    "unit",
    [
        "a ",
        "1",
        "1 ",
        "1,",
        "$",
        "\\frac{",
        "^",
        "(",
        "- ",
        "is ",
        ": ",
        "1-",
        "x+",
        "{",
        '{"',
        "the answer is ",
        "\n",
        "٫",
        "½",
        "न्",
    ],
)
def test_time_grows_with_length_alone(unit: str) -> None:
    spec = AnswerSpec(accepted=(("12 km",), ("Paris",)))
    exact("How long is it?", unit, spec)
    start = perf_counter()
    exact("How long is it?", unit * (200_000 // len(unit)), spec)
    assert perf_counter() - start < 2
