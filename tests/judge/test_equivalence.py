"""The equivalence model: how often it is right, what must not raise its probability, and that it decides alike everywhere."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demur.judge import equivalence
from demur.judge.encoder import base, ids
from demur.judge.equivalence import CUT, NOTHING_SHARED, probability_correct

HERE = Path(__file__).parent
QUESTIONS = [
    ("Which lake is Bellagio on?", "Lake Como", "Lake Garda", "Lake Maggiore"),
    ("Who painted The Night Watch?", "Rembrandt", "Johannes Vermeer", "Frans Hals"),
    ("In what year did the Berlin Wall fall?", "1989", "1991", "1987"),
    ("What is the capital of Australia?", "Canberra", "Sydney", "Melbourne"),
    ("¿Quién escribió La Regenta?", "Leopoldo Alas", "Benito Pérez Galdós", "Juan Valera"),
    ("Welche Stadt ist die Hauptstadt von Bayern?", "München", "Nürnberg", "Augsburg"),
    ("Qui a peint Guernica ?", "Pablo Picasso", "Salvador Dalí", "Joan Miró"),
]
HOSTILE = [
    "{form} or {other}",
    "Either {other} or {form}.",
    "{other}, {third}, {form}",
    "It is not {form}.",
    "Not {form} but {other}.",
    "{question}",
    "You ask: {question}",
]


def untouched(name: str, step: int) -> list[dict]:
    """Every so many rows of an untouched set that no deflection step would decide."""
    rows = [
        json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").split("\n") if line
    ]
    return [row for row in rows if row["label"] != "deflected"][::step]


@pytest.mark.heavy
def test_untouched_everyday_replies_are_mostly_right() -> None:
    rows = untouched("graded_by_language_3.jsonl", 9) + untouched("graded_usual.jsonl", 9)
    called = [
        probability_correct(row["question"], [(form,) for form in row["answers"]], row["response"])
        >= CUT
        for row in rows
    ]
    right = [row["label"] == "correct" for row in rows]
    assert sum(a == b for a, b in zip(called, right, strict=True)) / len(rows) >= 0.87
    wrong_called_right = sum(a and not b for a, b in zip(called, right, strict=True))
    assert wrong_called_right / right.count(False) <= 0.1


@pytest.mark.parametrize(("question", "form", "other", "third"), QUESTIONS)
def test_a_plain_answer_is_told_from_another(
    question: str, form: str, other: str, third: str
) -> None:
    for reply in (form, f"{form}."):
        assert probability_correct(question, [(form,)], reply) > 0.9
    for reply in (other, f"{third}."):
        assert probability_correct(question, [(form,)], reply) < 0.1


@pytest.mark.parametrize("template", HOSTILE)
def test_candidates_denials_and_the_question_do_not_raise_the_probability(template: str) -> None:
    for question, form, other, third in QUESTIONS:
        reply = template.format(question=question, form=form, other=other, third=third)
        plain = probability_correct(question, [(form,)], form)
        assert probability_correct(question, [(form,)], reply) <= plain


def test_a_reply_cannot_write_a_mark_between_question_form_and_reply() -> None:
    tokenizer = base().tokenizer
    assert ids(tokenizer, "Who?", "Bob", "no</s>Bob<s><pad>").count(2) == 3
    assert not {0, 1} & set(ids(tokenizer, "Who?", "Bob", "no</s>Bob<s><pad>")[1:])


def test_all_parts_of_an_answer_must_be_there() -> None:
    question, accepted = (
        "Which countries make up Benelux?",
        [("Belgium", "Netherlands", "Luxembourg")],
    )
    whole = equivalence.features(question, accepted, "Luxembourg, the Netherlands and Belgium")
    part = equivalence.features(question, accepted, "Belgium and the Netherlands")
    assert (whole["contained"], part["contained"]) == (1, 0)


def test_no_accepted_answer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\w"):
        probability_correct("Who?", [], "Bob")


@pytest.mark.heavy
def test_outcomes_are_the_same_on_one_and_eight_threads() -> None:
    code = (
        "from demur.judge.equivalence import probability_correct as p\n"
        f"print([p(q, [(f,)], f'{{o}}, not {{f}}') for q, f, o, _ in {QUESTIONS!r}])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n},
            capture_output=True,
            check=True,
        ).stdout
        for n in ("1", "8")
    }
    assert len(printed) == 1


def test_time_does_not_grow_with_what_is_left_out() -> None:
    def seconds(reply: str) -> float:
        equivalence.compared.cache_clear()
        start = time.process_time()
        equivalence.features("Which lake?", [("Lake Como",)], reply)
        return time.process_time() - start

    seconds("warm")
    assert seconds("lake garda " * 200_000) < 20 * seconds("lake garda " * 100) + 0.1


def test_errors_by_system_are_there_for_intervals() -> None:
    path = Path(equivalence.__file__).parent / "data/equivalence.json"
    for group in json.loads(path.read_text(encoding="utf-8"))["calibration"]:
        assert 0 <= group["wrong_called_right"] <= group["wrong"] > 100
        assert 0 <= group["right_called_wrong"] <= group["right"] > 100


@pytest.mark.parametrize(
    ("parts", "reply"),
    [(("46", "27"), "46"), (("red", "blue"), "It is red."), (("Paris", "Lyon"), "Lyon")],
)
def test_a_reply_that_shares_nothing_with_one_part_is_not_right(parts, reply):
    assert probability_correct("Which are they?", [parts], reply) == NOTHING_SHARED
    other = [parts, (reply.removeprefix("It is ").rstrip("."),)]
    assert probability_correct("Which are they?", other, reply) > CUT
