"""The page of a suite: the tables, and a card for each item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demur_suites.contract import Contract
from demur_suites.gallery import write_gallery
from demur_suites.records import Outputs
from demur_suites.scoring import score_models
from demur_suites.tables import pruned


def write_report(
    suite: Contract[Any, Any],
    path: str | Path,
    outputs: Outputs,
    out: str | Path,
    *,
    skip_bad: bool = False,
    **options: Any,
) -> Path:
    """One HTML page: the tables, and a card for each item.

    Args:
        suite: of the items.
        path: of the items.
        outputs: replies of models; those stored with the items are added. Without any the page shows the items.
        out: the file to write.
        skip_bad: leave bad items out.
        options: of the score.
    """
    loaded = suite.open(path, skip_bad=skip_bad)
    outputs = {**loaded.outputs, **outputs}
    results = (
        score_models(suite, loaded.items, outputs, skip_bad=skip_bad, **options) if outputs else []
    )
    scores = [result.score for result in results]
    notes = [f"{note}: {n}" for note, n in loaded.notes.items()]
    if not scores:
        notes.append("no system has been asked yet: this page shows only the items")
    if loaded.skipped:
        notes.append(f"bad items left out: {loaded.skipped}")
    replies = {
        result.model: {s.question.id: s for s in result.scored if s.grade is not None}
        for result in results
    }
    return write_gallery(
        Path(out),
        title=suite.title,
        about=suite.about,
        tables=[
            *(pruned(suite.tables(scores, loaded.items)) if scores else ()),
            *suite.statistics(loaded.items),
        ],
        notes=notes,
        cards=suite.cards(loaded.items, loaded.root, replies),
        figures=suite.figures(scores, loaded.items) if scores else [],
    )
