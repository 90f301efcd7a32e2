"""The contract of a suite as a check, for the tests of its author."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demur.core.errors import DemurError
from demur.core.records import Response, Status
from demur.testing.contracts import HOSTILE
from demur_suites.base import Suite
from demur_suites.scoring import score_models


def check_suite(suite: Suite[Any, Any], items: Path, **options: Any) -> None:
    """Check a suite with a valid set of items.

    Args:
        suite: opened.
        items: a path for its `load`, without bad items.
        options: of the score; the others have their defaults.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    where = f"suite {suite.name!r}"
    assert all((suite.name, suite.title, suite.about)), (
        f"{where}: name, title and about must not be empty"
    )
    loaded = suite.open(items)
    again = suite.open(items)
    questions = list(suite.questions(loaded.items))
    assert questions == list(suite.questions(again.items)), (
        f"{where}: reading twice gives the same questions"
    )
    ids = [q.id for q in questions]
    assert len(set(ids)) == len(ids) > 0, f"{where}: every question needs its own id"
    assert "$question" in suite.prompts().texts["ask"], (
        f"{where}: the prompt must contain $question"
    )
    tasks = suite.tasks(loaded.items)
    assert [t.ask.id for t in tasks] == [t.ask.id for t in suite.tasks(again.items)], (
        f"{where}: asks have stable ids"
    )
    try:
        suite.open(items / "no such file or folder")
        raise AssertionError(f"{where}: a missing path must raise a DemurError")
    except DemurError:
        pass
    several = {
        "nothing": {},
        "failed": {id: Response(error="the server was down") for id in ids},
        **{
            f"hostile {n}": dict.fromkeys(ids, Response(text=text))
            for n, text in enumerate(HOSTILE)
        },
    }
    results = score_models(suite, loaded.items, several, **options)
    assert len(results) == len(several), f"{where}: one score per model, whatever its replies"
    for item in (item for result in results for item in result.scored):
        if grade := item.grade:
            assert (grade.outcome is None) == (grade.status is not Status.GRADED), (
                f"{where}: an outcome if and only if graded ({item.question.id})"
            )
    scores = [result.score for result in results]
    tables = [*suite.tables(scores, loaded.items), *suite.statistics(loaded.items)]
    assert len({t.name for t in tables}) == len(tables) > 0, (
        f"{where}: every table needs its own name"
    )
    for table in tables:
        for form in ("terminal", "markdown", "latex", "csv"):
            assert table.render(form), f"{where}: table {table.name} as {form}"
    replies = {r.model: {s.question.id: s for s in r.scored if s.grade} for r in results}
    list(suite.cards(loaded.items, loaded.root, replies))
