"""What a report tells of the release: funnel, retrieval modes, and the caveats that release and runs state."""

from __future__ import annotations

from collections.abc import Mapping

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
        manifest = data.release.manifest
        encoder = manifest.get("encoder")
        if isinstance(encoder, Mapping) and encoder.get("note"):
            notes.append(f"Encoder {encoder.get('name', '')}: {encoder['note']}")
        for key in ("note", "limits"):
            found = manifest.get(key) or ()
            notes += [found] if isinstance(found, str) else [str(n) for n in found]
        built = manifest.get("sha256")
        for run in data.runs:
            asked = run.manifest.get("release")
            if isinstance(asked, Mapping) and asked.get("sha256") and asked["sha256"] != built:
                notes.append(
                    f"{run.name} was asked from another build of this release (sha256 {str(asked['sha256'])[:12]}, "
                    f"here {str(built)[:12]}): the evidence shown below may not be what it saw."
                )
    notes += [f"{run.name}: {run.note}" for run in data.runs if run.note]
    for run in data.runs:
        if part := run.part(len(data.samples)):
            notes.append(f"{run.name}: asked a part of the samples ({part}).")
        not_asked = run.manifest.get("not_asked")
        if isinstance(not_asked, Mapping) and not_asked:
            told = "; ".join(f"{why} ({n:,})" for why, n in sorted(not_asked.items()))
            notes.append(f"{run.name}: asks that were not put to it: {told}; they are in no number.")
        lost = int((~run.rows.graded).sum())
        if lost:
            notes.append(f"{run.name}: {lost:,} of {len(run.rows):,} answers were not graded; they are in no rate.")
    if data.shown is not None:
        every = {s for run in data.runs for s in run.rows.coded("sample").labels}
        notes.append(
            f"The sample browser shows {len(data.shown):,} of {len(every):,} samples, drawn by the hash of their ids; "
            "every number is over all of them."
        )
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


def _natural(key: str) -> tuple[int, int, str, int]:
    """What was asked first, then recall@1, recall@5, recall@10 in the order of their numbers, then the rest."""
    name, _, number = key.partition("@")
    first = _FIRST.index(key) if key in _FIRST else len(_FIRST)
    kind = 0 if key in _FIRST else 1 if "@" in key else 2
    return kind, first, name, int(number) if number.isdigit() else 0


_FIRST = ("queries", "mode", "n")


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
        Column(k.replace("_", " "), align="right" if numbers[k] or "@" in k else "left", decimals=0 if whole[k] else 3)
        for k in keys
    )
    body = tuple(tuple(row.get(k) if numbers[k] else str(row.get(k, "")) for k in keys) for row in rows)
    return Table("recall", "Retrieval modes by recall of gold", columns, body)
