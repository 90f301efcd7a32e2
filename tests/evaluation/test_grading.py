"""Strangers' judges and systems: whatever they raise, return or never return is that item's, and the run ends."""

from __future__ import annotations

import threading

import pytest
from strategies import sample

from demur.core.errors import StorageError
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Scenario, Status, Verdict
from demur.core.store import read_json
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.evaluation.runner import Plan, run
from demur.judge.grading import Grading
from demur.judge.local import LocalJudge

ASK = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="Which?")
SPEC = AnswerSpec(accepted=(("Paris",),))
PARIS = Response(text="Paris")


class Stranger:
    """A judge that does what a function does."""

    id = "stranger"

    def __init__(self, grade):
        self.grade = grade


def fails(error):
    def grade(*_):
        raise error

    return grade


@pytest.mark.parametrize(
    ("grade", "why"),
    [
        (fails(ValueError("\ud800 no")), "ValueError: ? no"),
        (fails(SystemExit(3)), "SystemExit"),
        (fails(TimeoutError("mine")), "TimeoutError: mine"),
        (fails(StopIteration()), "StopIteration"),
        (lambda *_: None, "NoneType"),
        (
            lambda *_: Verdict(id="a", status=Status.UNJUDGED, judge="x", reason="\ud800"),
            "half a character",
        ),
    ],
)
async def test_a_judge_that_gives_no_verdict_leaves_the_item_unjudged(grade, why):
    grading = Grading(Stranger(grade))
    verdict = await grading.verdict(ASK, PARIS, SPEC)
    assert verdict.status is Status.UNJUDGED
    assert why in verdict.reason
    grading.close()


async def test_a_judge_that_never_ends_is_given_up_and_the_next_item_is_graded():
    hangs = threading.Event()
    ours = LocalJudge()

    def grade(ask, response, answers):
        if response.text == "hang":
            hangs.wait(60)
        return ours.grade(ask, response, answers)

    grading = Grading(Stranger(grade), limit_s=0.05)
    stuck = await grading.verdict(ASK, Response(text="hang"), SPEC)
    assert (stuck.status, stuck.outcome, stuck.judge) == (Status.UNJUDGED, None, "stranger")
    assert stuck.reason == "the judge took longer than 0.05 s"
    grading._limit_s = 60.0
    assert (await grading.verdict(ASK, PARIS, SPEC)).outcome is Outcome.CORRECT
    hangs.set()
    grading.close()


async def test_what_ends_a_run_on_purpose_does():
    with pytest.raises(StorageError):
        await Grading(Stranger(fails(StorageError("full")))).verdict(ASK, PARIS, SPEC)


class Poisonous:
    """A system that raises, or answers with what no file can hold."""

    id, note, revision = "poison", "", ""
    kinds = (
        Response.model_construct(text="\ud800"),
        Response(text="Paris", confidence=float("nan")),
        Response(text="Paris", confidence=float("inf")),
        Response(text="Paris", usage={"prompt": 2**70}),
        Response(text="Paris", finish_reason="\udfff"),
        ValueError("\ud800"),
        "Paris",
        None,
    )

    def __init__(self):
        self.asked = 0

    def skip_reason(self, ask):
        return ""

    async def answer(self, ask):
        self.asked += 1
        said = self.kinds[self.asked % len(self.kinds)]
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self):
        pass


def test_poisonous_answers_are_failed_items_of_a_run_that_ends(tmp_path):
    tasks = questions.tasks(RunOptions(), [sample(f"s{i}", text=2) for i in range(4)])
    out = run(tmp_path / "run", Poisonous(), LocalJudge(), Plan(tasks, {}))
    assert read_json(out / "manifest.json")["counts"]["failed"] == len(tasks)
