"""What a report tells of the release: funnel, retrieval modes, and the caveats that release and runs state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demur.core.records import Measure
from demur.judge.measures.rates import rates
from demur.reports.data import ReportData
from demur.reports.tables import Cell, Column, Table, titled


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
            notes.append(f"{run.name}: was asked a part of the samples: {part}.")
        not_asked = run.manifest.get("not_asked")
        if isinstance(not_asked, Mapping) and not_asked:
            reasons = "; ".join(f"{why} ({n:,})" for why, n in sorted(not_asked.items()))
            notes.append(f"{run.name}: questions that it cannot be asked: {reasons}; they count in no figure.")
        lost = int((~run.rows.graded).sum())
        if lost:
            notes.append(f"{run.name}: {lost:,} of {len(run.rows):,} answers are not graded; they count in no rate.")
        overall = rates(run.rows)
        if overall.accuracy.ungraded and overall.accuracy.bounds and overall.hallucination.bounds:
            right, wrong = overall.accuracy.bounds, overall.hallucination.bounds
            notes.append(
                f"{run.name}: its judge {run.manifest.get('judge', '')} could not decide {overall.accuracy.ungraded:,} "
                f"answers. With all of them wrong or all of them right, accuracy over all scenarios lies between "
                f"{100 * right[0]:.1f} and {100 * right[1]:.1f} %, hallucination between {100 * wrong[0]:.1f} and "
                f"{100 * wrong[1]:.1f} %."
            )
    if data.shown is not None:
        every = {s for run in data.runs for s in run.rows.coded("sample").labels}
        notes.append(
            f"The sample browser shows {len(data.shown):,} of {len(every):,} samples, drawn by the hash of their ids; "
            "every number is over all of them."
        )
    return list(dict.fromkeys(notes))


def funnel_table(data: ReportData) -> Table:
    """Stages of curation with the reasons of what they dropped."""
    columns = titled("<Stage", "Entered", "Kept", "Dropped", "<Why")
    caption = "Curation funnel"
    if data.release is None or not data.release.steps:
        return Table("funnel", caption, columns, missing="a release: give one with --release")
    rows = []
    for stage, entered, kept, dropped in ((s.stage, s.entered, s.kept, s.dropped) for s in data.release.steps):
        reasons = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
        rows.append((stage, entered, kept, entered - kept, "; ".join(f"{reason}: {n:,}" for reason, n in reasons)))
    return Table("funnel", caption, columns, tuple(rows))


def recall_table(data: ReportData) -> Table:
    """Retrieval modes by recall of gold, with the columns the release gives; rates with their intervals."""
    from demur.release.card import recall_lines

    rows = list(data.release.recall) if data.release else []
    if not rows:
        return Table(
            "recall", "Retrieval modes by recall of gold", (Column("Mode", align="left"),),
            missing="a release whose retrieval modes were measured",
        )  # fmt: skip
    heads, _ = recall_lines(rows)
    rates = {h for h in heads if "@" in h and all(isinstance(r.get(h), int | float | None) for r in rows)}
    counts = {h for h in heads if all(isinstance(r.get(h), int | None) for r in rows)} - rates

    def cell(row: Mapping[str, Any], head: str) -> Cell:
        if head in rates:
            ends = row.get(f"{head} low"), row.get(f"{head} high")
            n = row.get("n")
            return Measure(name=head, value=row.get(head), n=n if isinstance(n, int) else 0, low=ends[0], high=ends[1])
        return row.get(head) if head in counts else str(row.get(head, ""))

    columns = tuple(
        Column(_head(h), interval=True, decimals=3, percent=False)
        if h in rates
        else Column(_head(h), align="right" if h in counts or "@" in h else "left")
        for h in heads
    )
    notes = (
        "Of the questions whose gold evidence the modes can find (n), the share that found it among the first 1, 5, "
        "10 ... Intervals: 95 %.",
    )
    body = tuple(tuple(cell(row, head) for head in heads) for row in rows)
    return Table("recall", "Retrieval modes by recall of gold", columns, body, notes=notes)


def _head(key: str) -> str:
    return key if key == "n" else key[0].upper() + key[1:]
