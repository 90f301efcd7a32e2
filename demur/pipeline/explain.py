"""The whole life of one sample, from a release and, where it is still there, the build folder beside it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from demur.curation.release import Release
from demur.errors import StorageError, UsageError
from demur.pipeline.curate import LifeStory
from demur.records import GateVerdict
from demur.store import Problems, read_jsonl, read_records


class Explained(LifeStory):
    """A sample's life, and what is not known of it."""

    notes: tuple[str, ...] = ()


def explain(folder: Path, sample: str) -> Explained:
    """Tell what became of a sample and why.

    Args:
        folder: a release; its ``../build/lives.jsonl`` knows more than the release, if it belongs to it.
        sample: id.

    Raises:
        ReleaseError: not a release.
        UsageError: neither kept nor dropped by it; names the nearest id.
    """
    release = Release.open(folder)
    drops = [d for d in release.drops() if d.sample == sample]
    kept = next((s for s in release.samples() if s.id == sample), None)
    gone = next((d for d in drops if not d.evidence), None)
    if kept is None and gone is None:
        known = [*release.ids("samples"), *(d.sample for d in release.drops() if not d.evidence)]
        near = get_close_matches(sample, known, n=3, cutoff=0.6)
        raise UsageError(
            f"this release neither kept nor dropped a sample {sample!r}", item=str(folder),
            cure=f"did you mean {' or '.join(near)}?" if near else "data/samples.parquet and drops.jsonl hold the ids",
        )  # fmt: skip
    story = _story(folder.resolve().parent / "build" / "lives.jsonl", sample)
    if story is not None and story.kept == (kept is not None) and (gone is None or gone.reason == story.why):
        mined = [d for d in drops if d.stage == "mine"]
        notes = tuple(f"not taken as a distractor: {d.evidence} - {d.reason}" for d in mined)
        if gone is not None and gone.detail:
            notes = (gone.detail, *notes)
        return Explained(**story.model_dump(), notes=notes)
    note = "the build's lives.jsonl is not beside the release (or is of another build): told from the release alone"
    if kept is None:
        assert gone is not None
        return Explained(
            sample=sample, question="", kept=False, stage=gone.stage, why=gone.reason, parametric={}, solvable={},
            notes=tuple(filter(None, (note, gone.detail))),
        )  # fmt: skip
    said = list(read_records(release.folder / "gates.jsonl", GateVerdict, Problems()))
    mine = [v for v in said if v.sample == sample]
    alone = {v.evidence: v.labels for v in mine if v.stage == "distractor"}
    first = next((v for v in mine if v.stage == "parametric"), None)
    distractors: list[dict[str, Any]] = [
        {
            "id": e.id, "title": e.title, "origin": e.origin, "mode": e.mode, "rank": e.rank, "score": e.score,
            "labels": alone.get(e.id, {}), "fate": "stays",
        }
        for e in kept.negatives
    ]  # fmt: skip
    distractors += [
        {"id": d.evidence, "title": "", "origin": "", "mode": "", "rank": None, "score": None, "labels": {},
         "fate": d.reason}
        for d in drops
    ]  # fmt: skip
    return Explained(
        sample=sample, question=kept.question, topic=kept.topic, kept=True, stage="", why="kept",
        parametric=first.labels if first else {}, solvable={}, distractors=tuple(distractors),
        answers={f"parametric/{g}": a for g, a in first.answers.items()} if first else {}, notes=(note,),
    )  # fmt: skip


def _story(path: Path, sample: str) -> LifeStory | None:
    """What a build beside the release knows of a sample; None where it knows nothing that can be read."""
    try:
        for _, line in read_jsonl(path, Problems()):
            if line.get("sample") == sample:
                return LifeStory.model_validate(line)
    except (StorageError, ValidationError):
        return None
    return None
