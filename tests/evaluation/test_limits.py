"""Caps of a run: minutes, and the money that a service says its answers cost; the same command goes on."""

from __future__ import annotations

import pytest
from errors import raises
from strategies import tiny_release

import demur
from demur.cli import main
from demur.core.errors import BudgetReached, UsageError
from demur.core.records import Response
from demur.evaluation.limits import Caps


class Priced:
    """A service that says what each answer cost."""

    id, revision, note = "priced", "1", ""

    def __init__(self):
        self.asked = []

    def skip_reason(self, ask):
        return ""

    async def answer(self, ask):
        self.asked.append(ask.id)
        return Response(text="I cannot answer this.", cost=0.01)

    async def close(self):
        pass


def test_minutes_are_counted_from_the_first_question():
    now = [100.0]
    caps = Caps(minutes=2, clock=lambda: now[0])
    caps.check()
    now[0] += 119
    caps.check()
    now[0] += 1
    with raises(BudgetReached, "2 minutes"):
        caps.check()


def test_a_service_that_says_its_price_is_stopped_and_goes_on(tmp_path):
    release, priced = tiny_release(tmp_path / "release", 12), Priced()
    given = {"scenarios": "oracle", "out": tmp_path / "runs", "concurrency": 1}
    with pytest.raises(BudgetReached, match=r"\$0.05"):
        demur.evaluate(release, priced, budget=0.05, **given)
    before = len(priced.asked)
    assert before == 5
    with pytest.raises(BudgetReached):  # what was answered counts in the next command too
        demur.evaluate(release, priced, budget=0.05, **given)
    assert len(priced.asked) == before
    assert len(demur.evaluate(release, priced, **given).to_pandas()) == 12
    assert sorted(priced.asked) == sorted(set(priced.asked))


@pytest.mark.heavy
def test_the_command_stops_in_time_and_goes_on(tmp_path, capsys):
    release = tiny_release(tmp_path / "release", 5)
    command = [
        "run",
        str(release),
        "--system",
        "prior",
        "--scenarios",
        "parametric",
        "--out",
        str(tmp_path / "runs"),
    ]
    assert main([*command, "--minutes", "1e-9"]) == 3
    assert "1e-09 minutes" in capsys.readouterr().err
    assert main(command) == 0
    with pytest.raises(UsageError):
        Caps(minutes=0)
