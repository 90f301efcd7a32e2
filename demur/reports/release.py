"""The release in a report: funnel, retrieval modes, and the caveats of release and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demur.core.records import Measure
from demur.reports.data import ReportData
from demur.reports.tables import Cell, Column, Table, numbers, texts


def caveats(data: ReportData) -> list[str]:
    """The caveats that the release and the runs state, each once, in order."""
    notes: list[str] = []
    if data.release is None:
        notes.append(
            "No release given: questions, images and the curation funnel are missing. Add --release DIR."
        )
    else:
        manifest = data.release.manifest
        encoder = manifest.get("encoder")
        if isinstance(encoder, Mapping) and encoder.get("note"):
            notes.append(f"Encoder {encoder.get('name', '')}: {encoder['note']}")
        for key in ("note", "limits"):
            stated = manifest.get(key) or ()
            notes += [stated] if isinstance(stated, str) else [str(n) for n in stated]
        release_digest = manifest.get("sha256")
        for run in data.runs:
            release_of_run = run.manifest.get("release")
            if (
                isinstance(release_of_run, Mapping)
                and release_of_run.get("sha256")
                and release_of_run["sha256"] != release_digest
            ):
                notes.append(
                    f"{run.name} used another build of this release (sha256 {str(release_of_run['sha256'])[:12]}, "
                    f"here {str(release_digest)[:12]}): it may have seen other evidence than the page shows."
                )
    notes += [f"{run.name}: {run.note}" for run in data.runs if run.note]
    for run in data.runs:
        if part := run.part(len(data.samples)):
            notes.append(f"{run.name}: asked only part of the samples: {part}.")
        not_asked = run.manifest.get("not_asked")
        if isinstance(not_asked, Mapping) and not_asked:
            reasons = "; ".join(
                f"{reason} ({n:,})" for reason, n in sorted(not_asked.items()) if isinstance(n, int)
            )
            notes.append(f"{run.name}: questions it cannot take: {reasons}; no figure counts them.")
        uncounted = int((~run.rows.graded).sum())
        if not uncounted:
            continue
        notes.append(
            f"{run.name}: {uncounted:,} of {len(run.rows):,} answers are failed or unjudged; no rate counts them."
        )
    if data.samples_shown is not None:
        all_samples = {s for run in data.runs for s in run.rows.coded("sample").labels}
        notes.append(
            f"The sample browser shows {len(data.samples_shown):,} of {len(all_samples):,} samples, selected by the hash of their "
            "ids; all numbers are over all samples."
        )
    return list(dict.fromkeys(notes))


def funnel_table(data: ReportData) -> Table:
    """Stages of curation, with the reasons for dropped samples."""
    columns = (
        *texts("Stage"),
        *numbers("Entered", "Kept", "Dropped"),
        *texts("Why", wraps=True),
    )
    caption = "Curation funnel"
    if data.release is None or not data.release.steps:
        return Table("funnel", caption, columns, missing="a release: give one with --release")
    rows = []
    for stage, entered, remaining, dropped in (
        (s.stage, s.entered, s.kept, s.dropped) for s in data.release.steps
    ):
        reasons = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
        rows.append(
            (
                stage,
                entered,
                remaining,
                entered - remaining,
                "; ".join(f"{reason}: {n:,}" for reason, n in reasons),
            )
        )
    return Table("funnel", caption, columns, tuple(rows))


def recall_table(data: ReportData) -> Table:
    """Retrieval modes by recall of gold; rates with their intervals."""
    from demur.release.card import recall_lines

    rows = list(data.release.recall) if data.release else []
    if not rows:
        return Table(
            "recall",
            "Retrieval modes by recall of gold",
            texts("Mode"),
            missing="a release whose retrieval modes were measured",
        )
    heads, _ = recall_lines(rows)
    rates = {
        h for h in heads if "@" in h and all(isinstance(r.get(h), int | float | None) for r in rows)
    }
    counts = {h for h in heads if all(isinstance(r.get(h), int | None) for r in rows)} - rates

    def cell(row: Mapping[str, Any], head: str) -> Cell:
        if head in rates:
            ends = row.get(f"{head} low"), row.get(f"{head} high")
            n = row.get("n")
            return Measure(
                name=head,
                value=row.get(head),
                n=n if isinstance(n, int) else 0,
                low=ends[0],
                high=ends[1],
            )
        return row.get(head) if head in counts else str(row.get(head, ""))

    columns = tuple(
        Column(_head(h), interval=True, decimals=3, percent=False)
        if h in rates
        else Column(_head(h), align="right" if h in counts or "@" in h else "left")
        for h in heads
    )
    notes = (
        "Share of questions whose gold evidence is among the first 1, 5, 10 ... hits; n: questions whose gold evidence "
        "the modes can find. Intervals: 95 %.",
    )
    body = tuple(tuple(cell(row, head) for head in heads) for row in rows)
    return Table("recall", "Retrieval modes by recall of gold", columns, body, notes=notes)


def _head(key: str) -> str:
    return key if key == "n" else key[0].upper() + key[1:]
