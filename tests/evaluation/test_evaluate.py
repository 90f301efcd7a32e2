"""Runs: resumable, the same bytes however often they are stopped, and honest about what failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pyarrow.parquet as pq
import pytest
from errors import raises
from strategies import sample

import demur
from demur.core.errors import StorageError, UsageError
from demur.core.progress import Progress
from demur.core.records import Response, Row, Scenario, Status
from demur.evaluation import questions
from demur.evaluation import runner as evaluate
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import all_failed
from demur.evaluation.runner import Plan, run
from demur.judge.local import LocalJudge

SAMPLES = [sample(f"s{i}", text=6, visual=2) for i in range(8)]


class Echo:
    """Answers rightly when gold is shown, and as it is told otherwise."""

    def __init__(
        self,
        otherwise: str = "I cannot answer that.",
        die_after: int | None = None,
        revision: str = "",
        up: bool = False,
    ) -> None:
        self.id, self.note, self.revision = "echo", "a test's own system", revision
        self.asked: list[str] = []
        self.otherwise, self.die_after, self.up = otherwise, die_after, up
        self.closed = False

    def skip_reason(self, ask) -> str:
        return "no s7 please" if ask.sample == "s7" else ""

    async def answer(self, ask):
        if self.die_after is not None and len(self.asked) >= self.die_after:
            raise StorageError("killed")
        self.asked.append(ask.id)
        if ask.sample == "s6" and not self.up:
            return Response(error="it broke")
        gold = any(e.id.endswith("-g0") for e in ask.evidence)
        return Response(
            text="forty-two" if gold else self.otherwise, latency_s=0.1 * len(self.asked)
        )

    async def close(self) -> None:
        self.closed = True


def tasks(**options):
    return questions.tasks(RunOptions(**options), SAMPLES)


class Notes(Progress):
    """Keeps the lines that a run tells."""

    def __init__(self, lines):
        super().__init__()
        self.note = lines.append


def go(out, system, *, judge=None, note=None, fresh=False, at_once=64, **options):
    steps = Progress() if note is None else Notes(note)
    plan = Plan(tasks(**options), {"seed": 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "MAX_IN_FLIGHT", at_once)
        return run(out, system, judge or LocalJudge(), plan, RunOptions(fresh=fresh), steps=steps)


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_a_run_holds_what_was_asked_answered_and_judged(tmp_path):
    system = Echo()
    out = go(tmp_path / "run", system)
    assert system.closed
    assert sorted(contents(out)) == [
        "contexts.jsonl",
        "manifest.json",
        "responses.jsonl",
        "rows.parquet",
        "verdicts.jsonl",
    ]
    rows = [Row.model_validate(r) for r in pq.read_table(out / "rows.parquet").to_pylist()]
    assert pq.read_schema(out / "rows.parquet").names == list(Row.model_fields)
    assert len(rows) == 7 * 4
    for row in rows:
        if row.sample == "s6":
            assert (row.status, row.outcome, row.error) == (Status.FAILED, None, "it broke")
        else:
            right = row.scenario in (Scenario.ORACLE, Scenario.REALISTIC)
            assert row.outcome == ("correct" if right else "deflected")
            assert row.expected == ("answer" if right else "deflect")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["not_asked"] == {"no s7 please": 4}
    assert manifest["counts"] == {
        "correct": 12,
        "cut": 0,
        "deflected": 12,
        "failed": 4,
        "gold_cut": 0,
        "graded": 24,
        "incorrect": 0,
        "unjudged": 0,
    }


def test_a_stopped_run_goes_on_and_ends_in_the_same_bytes(tmp_path):
    whole = contents(go(tmp_path / "whole", Echo()))
    for stop in (0, 1, 5, 20):
        out = tmp_path / f"stop{stop}"
        with pytest.raises(StorageError, match="killed"):
            go(out, Echo(die_after=stop), at_once=1)
        again = Echo()
        go(out, again)
        assert contents(out) == whole
        failed_again = sum(1 for a in again.asked if a)
        assert (
            failed_again <= 28 - stop + 4
        )  # only what was not answered, and what had failed, is asked again


def test_a_finished_run_asks_nobody_and_another_run_is_refused(tmp_path):
    out = go(tmp_path / "run", Echo(up=True))
    before = contents(out)
    again, told = Echo(), []
    go(out, again, note=told)
    assert again.asked == []
    assert contents(out) == before
    assert told[0].startswith("echo: reused 28 ")
    assert told[0].endswith(", asked 0")
    with raises(UsageError, "asks, not_asked, plan", item="run"):
        go(out, Echo(), scenarios=(), distractors=(1, 2))


def test_failures_are_asked_again_and_their_commonest_reason_is_told(tmp_path):
    told = []
    out = go(tmp_path / "run", Echo(), note=told)
    (line,) = told
    assert line.startswith("echo: 4 of 28 questions")
    assert "4 of them with: it broke" in line
    before = contents(out)
    go(out, Echo())
    assert contents(out) == before  # still down: the same bytes
    up, told = Echo(up=True), []
    go(out, up, note=told)
    assert len(up.asked) == 4
    assert "reused 24 answers" in told[0]
    assert "asked 4" in told[0]
    assert json.loads((out / "manifest.json").read_text())["counts"]["failed"] == 0


def test_a_reply_without_an_answer_is_kept_and_nobody_promises_to_ask_again(tmp_path):
    class Blank(Echo):
        async def answer(self, ask):
            self.asked.append(ask.id)
            return Response(text="<think>hm" if ask.sample != "s6" or self.up else "forty-two")

    told = []
    out = go(tmp_path / "some", Blank(), note=told)
    assert told == [
        "echo: 24 of 28 replies hold no usable answer, 24 of them with: the answer is malformed - "
        "they are kept; only --fresh asks again, and everything"
    ]
    again = Blank()
    go(out, again)
    assert again.asked == []
    (line,) = all_failed([go(tmp_path / "all", Blank(up=True))])
    assert line.endswith("--fresh")


@pytest.mark.parametrize("stop", [None, 9])
def test_an_upgrade_goes_on_with_a_run(tmp_path, monkeypatch, stop):
    out = tmp_path / "run"
    try:
        go(out, Echo(up=True, die_after=stop), at_once=1)
    except StorageError:
        assert stop
    before = contents(out)
    monkeypatch.setattr(evaluate, "__version__", "99.0")
    again = Echo(up=True)
    go(out, again)
    assert len(again.asked) == (28 - stop if stop else 0)
    assert json.loads((out / "manifest.json").read_text())["demur"] == (
        "99.0" if stop else demur.__version__
    )
    assert stop or contents(out) == before


def test_an_edited_system_is_asked_anew_and_an_earlier_one_is_found_again(tmp_path):
    out, told = tmp_path / "run", []
    go(out, Echo(revision="a", up=True))
    first = contents(out)
    edited = Echo("It is Qwxyz.", revision="b", up=True)
    go(out, edited, note=told)
    assert len(edited.asked) == 28
    assert json.loads((out / "manifest.json").read_text())["revision"] == "b"
    assert contents(out) != first
    (aside,) = (tmp_path / ".earlier").iterdir()
    assert contents(aside) == first
    assert str(aside) in told[0]
    back = Echo(revision="a", up=True)
    go(out, back)
    assert back.asked == []
    assert contents(out) == first
    afresh = Echo(revision="a", up=True)
    go(out, afresh, fresh=True)
    assert len(afresh.asked) == 28
    assert len(list((tmp_path / ".earlier").iterdir())) == 2


def test_an_edited_or_another_judge_grades_what_was_answered(tmp_path, monkeypatch):
    class Mine(LocalJudge):
        def __init__(self, id):
            super().__init__()
            self.id = id

    out, told = tmp_path / "run", []
    for id, code in (("mine", "one"), ("mine", "two"), ("other", "one"), ("mine", "one")):
        monkeypatch.setattr(evaluate, "judge_code", lambda judge, code=code: code)
        system = Echo(up=True)
        go(out, system, judge=Mine(id), note=told)
        assert len(system.asked) == (0 if told else 28)
        manifest = json.loads((out / "manifest.json").read_text())
        assert (manifest["judge"], manifest["judge_code"]) == (id, code)
    assert sum("moved" in line for line in told) == 3
    assert sum("resumed" in line for line in told) == 1


class Weak(LocalJudge):
    """Fails on what it is asked while it is down, as a service does."""

    def __init__(self, up):
        super().__init__()
        self.id, self.up, self.asked = "weak", up, 0

    def grade(self, ask, response, answers):
        self.asked += 1
        if not (self.up(ask) or response.error):
            raise ConnectionError("nobody there")
        return super().grade(ask, response, answers)


@pytest.mark.parametrize("down", [lambda ask: False, lambda ask: ask.sample != "s1"])
def test_what_a_judge_failed_on_is_judged_again_by_the_same_command(tmp_path, down):
    """A finished run asks nobody; one whose judge gave no verdict is not finished, and asks its system nothing."""
    out, told = tmp_path / "run", []

    def go_on(judge):
        system = Echo(up=True)
        go(out, system, judge=judge, note=told)
        return system.asked

    assert len(go_on(Weak(down))) == 28
    assert "weak: " in told[-1]
    assert "nobody there" in told[-1]
    silent = down(tasks()[0].ask) is False
    assert bool(all_failed([out])) is silent
    up = Weak(lambda ask: True)
    assert go_on(up) == []
    assert up.asked == 28
    manifest = json.loads((out / "manifest.json").read_text())
    assert "unjudged" not in manifest
    again = Weak(lambda ask: True)
    assert go_on(again) == []
    assert again.asked == 0
    go(tmp_path / "whole", Echo(up=True), judge=Weak(lambda ask: True))
    assert contents(tmp_path / "whole") == contents(out)


def test_a_judge_that_takes_long_holds_up_nobody(tmp_path):
    """A loop that was held up took healthy servers for dead: whatever grades does it elsewhere, one at a time."""
    threads = set()

    class Slow(LocalJudge):
        def grade(self, ask, response, answers):
            threads.add(threading.get_ident())
            return super().grade(ask, response, answers)

    go(tmp_path / "run", Echo(), judge=Slow())
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_torn_journal_costs_one_answer_and_no_more(tmp_path):
    whole = contents(go(tmp_path / "whole", Echo()))
    out = tmp_path / "torn"
    with pytest.raises(StorageError):
        go(out, Echo(die_after=9), at_once=1)
    journal = out / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-7])
    system = Echo()
    go(out, system)
    assert contents(out) == whole


def test_the_same_recipe_named_twice_is_asked_once():
    assert len(tasks(scenarios=("all", "all"))) == len(tasks())


@pytest.mark.slow
@pytest.mark.integration
def test_kill_minus_nine_then_again_gives_the_same_bytes(tmp_path):
    script = tmp_path / "go.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import asyncio, sys
            sys.path[:0] = {sys.path!r}
            sys.path.insert(0, {os.path.dirname(__file__)!r})
            from pathlib import Path
            import test_evaluate as t
            class Slow(t.Echo):
                async def answer(self, ask):
                    await asyncio.sleep(0.02)
                    return await super().answer(ask)
            t.go(Path(sys.argv[1]), Slow(), at_once=2)
            """
        )
    )
    whole = contents(go(tmp_path / "whole", Echo()))
    out = tmp_path / "killed"
    for _ in range(4):
        process = subprocess.Popen([sys.executable, str(script), str(out)])
        try:
            process.wait(timeout=1.2)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    subprocess.run([sys.executable, str(script), str(out)], check=True)
    assert contents(out) == whole


def test_what_differs_between_runs_is_not_filed(tmp_path):
    """Addresses, latencies and cache hits belong to the ledger: two runs file the same bytes."""

    class Elsewhere(Echo):
        async def answer(self, ask):
            said = await super().answer(ask)
            return said.model_copy(
                update={"served_by": f"http://127.0.0.1:{len(self.asked)}", "cached": True}
            )

    assert contents(go(tmp_path / "a", Echo())) == contents(go(tmp_path / "b", Elsewhere()))


def test_a_poisoned_journal_stops_no_run(tmp_path):
    whole = contents(go(tmp_path / "whole", Echo()))
    out = tmp_path / "run"
    with pytest.raises(StorageError, match="killed"):
        go(out, Echo(die_after=5))
    journal = out / "journal.jsonl"
    lines = journal.read_text().splitlines()
    first = json.loads(lines[0])
    for poison in (
        {},
        {"ask": 1, "response": {}},
        {"ask": "x", "response": "no"},
        first | {"response": {"text": "\ud800"}},
        first | {"response": {"text": "x", "confidence": float("nan")}},
        first | {"response": {"text": "x", "usage": {"prompt": 2**70}}},
    ):
        lines.insert(0, json.dumps(poison))
    lines.insert(0, "[" * 5000)
    journal.write_text("\n".join(lines) + "\n")
    assert contents(go(out, Echo())) == whole
