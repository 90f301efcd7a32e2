"""What a report tells of the release: funnel, retrieval modes, and the caveats that release and runs state."""

from __future__ import annotations

from demur.report.data import ReportData
from demur.report.tables import Column, Table


def caveats(data: ReportData) -> list[str]:
    """What the release and the runs say against themselves, each once, in order."""
    notes: list[str] = []
    if data.release is None:
        notes.append(
            "No release was given: questions, pictures and the curation funnel are missing. Add --release DIR."
        )
    else:
        found = data.release.manifest.get("note") or ()
        notes += [found] if isinstance(found, str) else [str(n) for n in found]
    notes += [f"{run.name}: {run.note}" for run in data.runs if run.note]
    for run in data.runs:
        lost = sum(r.outcome is None for r in run.rows)
        if lost:
            notes.append(f"{run.name}: {lost:,} of {len(run.rows):,} answers were not graded; they are in no rate.")
    return list(dict.fromkeys(notes))


def funnel_table(data: ReportData) -> Table:
    """Stages of curation with the reasons of what they dropped."""
    columns = (
        Column("Stage", align="left"),
        Column("Entered"),
        Column("Kept"),
        Column("Dropped"),
        Column("Why", align="left"),
    )
    caption = "Curation funnel"
    if data.release is None or not data.release.funnel:
        return Table("funnel", caption, columns, missing="a release: give one with --release")
    rows = []
    for step in data.release.funnel:
        entered, kept = int(step["entered"]), int(step["kept"])
        reasons = sorted((step.get("dropped") or {}).items(), key=lambda item: (-item[1], item[0]))
        rows.append(
            (str(step["stage"]), entered, kept, entered - kept, "; ".join(f"{reason}: {n:,}" for reason, n in reasons))
        )
    return Table("funnel", caption, columns, tuple(rows))


def _natural(key: str) -> tuple[bool, str, int]:
    """Names first, then recall@1, recall@5, recall@10 in the order of their numbers."""
    name, _, number = key.partition("@")
    return "@" in key, name, int(number) if number.isdigit() else 0


def recall_table(data: ReportData) -> Table:
    """Retrieval modes by recall of gold, with the columns the release gives."""
    rows = list(data.release.recall) if data.release else []
    if not rows:
        return Table(
            "recall", "Retrieval modes by recall of gold", (Column("Mode", align="left"),),
            missing="a release whose retrieval modes were measured",
        )  # fmt: skip
    keys = sorted(dict.fromkeys(k for row in rows for k in row), key=_natural)
    numbers = {k: all(isinstance(row.get(k), int | float | None) for row in rows) for k in keys}
    whole = {k: all(isinstance(row.get(k), int | None) for row in rows) for k in keys}
    columns = tuple(
        Column(k.replace("_", " "), align="right" if numbers[k] else "left", decimals=0 if whole[k] else 3)
        for k in keys
    )
    body = tuple(tuple(row.get(k) if numbers[k] else str(row.get(k, "")) for k in keys) for row in rows)
    return Table("recall", "Retrieval modes by recall of gold", columns, body)
