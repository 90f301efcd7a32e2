"""Everything known about one sample: the decision, and the gates' answers.

Reads a release and, if it is still there, the build folder beside it: its decisions, its journal, its pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import Field

from demur.core.errors import UsageError
from demur.core.records import Drop, GateVerdict, Sample
from demur.core.store import Problems, read_records
from demur.core.text import command
from demur.curation.build.decisions import (
    SOURCES,
    Candidate,
    DecisionLine,
    SampleDecision,
    found_by,
    read_decisions,
)
from demur.curation.build.sample_pool import kept_pool
from demur.curation.gates.funnel import HELD, MINING, GateQuery, Stage
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import GateAnswer, last_answers
from demur.pools.read import Pool
from demur.release import Release

WAYS_OUT = {
    SOURCES: "mend the row in its source, or leave it; then build again",
    "pool": "raise per_topic or limit of its source in the recipe, or leave them out",
    Stage.PARAMETRIC.value: "it measures memory, not reading: keep it out, or build without the gate that knows it",
    Stage.SOLVABLE.value: "see whether its gold evidence answers it and its accepted answers are complete; "
    "or add a gate that reads better, and run 'demur rebuild'",
    MINING: "raise retrieval.text, lexical or visual in the recipe, add documents, or lower rules.k_min",
    "distractors": "raise retrieval.text, lexical or visual in the recipe, or lower rules.k_min",
    HELD: "run the build's command again: it asks what is missing",
}
"""Stage that a sample was dropped in -> what would keep it."""


class ExplainedCandidate(Candidate):
    """A candidate with the gates' labels."""

    labels: dict[str, str] = Field(default_factory=dict)
    """As `Explained.parametric`."""


class Explained(SampleDecision):
    """A sample, the decision about it and the answers behind it."""

    distractors: tuple[ExplainedCandidate, ...] = ()
    """Best first; empty if none were mined."""
    parametric: dict[str, str] = Field(default_factory=dict)
    """gate -> label; ``not asked`` where the answer could not change the decision, ``cannot be asked: ...``."""
    solvable: dict[str, str] = Field(default_factory=dict)
    answers: dict[str, str] = Field(default_factory=dict)
    """``stage/gate`` (or ``distractor/ID/gate``) -> the first 300 characters of its answer."""
    notes: tuple[str, ...] = ()

    @property
    def way_out(self) -> str:
        """What would keep a dropped sample; "" for a kept one."""
        return "" if self.kept else WAYS_OUT.get(self.stage, WAYS_OUT[SOURCES])


def explain(folder: Path, sample: str) -> Explained:
    """Explain the decision about a sample.

    Args:
        folder: a release; the ``build`` folder beside it is read too, if it belongs to the release.

    Raises:
        ReleaseError: not a release.
        UsageError: neither the release nor the pool has such a sample; names the nearest ids.
    """
    release = Release.open(folder)
    build = folder.resolve().parent / "build"
    drops = [d for d in release.drops() if d.sample == sample]
    kept_sample = next((s for s in release.samples() if s.id == sample), None)
    sample_drop = next((d for d in drops if not d.evidence), None)
    if sample_drop is not None and sample_drop.stage == SOURCES:
        return _explain_drop(sample_drop, sample_drop.detail)
    if kept_sample is None and sample_drop is None:
        return _explain_undrawn(release, build, sample)
    decided = next((d for d in read_decisions(build) if d.sample == sample), None)
    is_same_build = (
        decided is not None
        and decided.kept == (kept_sample is not None)
        and (sample_drop is None or sample_drop.reason == decided.why)
    )
    if decided is not None and is_same_build:
        mined = [d for d in drops if d.stage == "mine"]
        notes = [f"not used as a distractor: {d.evidence} - {d.reason}" for d in mined]
        if sample_drop is not None and sample_drop.detail:
            notes.insert(0, sample_drop.detail)
        answers = last_answers(build / "journal.jsonl", sample).get(sample, {})
        return _explain_from_build(release, decided, answers, notes)
    note = "read from the release alone: decisions.jsonl of its build is not beside it, or is of another build"
    if kept_sample is not None:
        return _explain_from_release(release, kept_sample, drops, note)
    assert sample_drop is not None
    return _explain_drop(sample_drop, note, sample_drop.detail)


def _explain_drop(drop: Drop, *notes: str) -> Explained:
    """What a drop alone says about a sample."""
    return Explained(
        sample=drop.sample,
        question="",
        kept=False,
        stage=drop.stage,
        why=drop.reason,
        notes=tuple(filter(None, notes)),
    )


def _explain_undrawn(release: Release, build: Path, sample: str) -> Explained:
    """A sample of the pool that the build did not draw.

    Raises:
        UsageError: the pool has no such sample either; names the nearest ids.
    """
    place = kept_pool(build / "pool")
    for pooled in Pool(place).samples() if place is not None else ():
        if pooled.id == sample:
            return Explained(
                sample=sample,
                question=pooled.question,
                topic=pooled.topic,
                kept=False,
                stage="pool",
                why="not drawn from the pool (per_topic, limit), or an earlier source has the same question",
            )
    known_ids = [
        *release.column("samples", "id"),
        *(d.sample for d in release.drops() if not d.evidence),
    ]
    near = get_close_matches(sample, known_ids, n=3, cutoff=0.6)
    show = command("release", "show", release.folder)
    raise UsageError(
        f"this release has no sample {sample!r}, kept or dropped",
        item=release.folder,
        cure=f"did you mean {' or '.join(near)}?"
        if near
        else f"'{show}' prints samples; drops.jsonl in it names those dropped",
    )


def _explain_from_build(
    release: Release,
    decided: DecisionLine,
    answers: Mapping[GateQuery, GateAnswer],
    notes: list[str],
) -> Explained:
    """A decision with the gates' labels and answers."""
    models: Mapping[str, Any] = release.manifest.get("gate_models") or {}

    def labels(stage: Stage, distractor: str, skipped: Mapping[str, str]) -> dict[str, str]:
        label_of_gate = {}
        for gate in release.manifest.get("gates") or ():
            if stage.value in models.get(gate, {}).get("stages", ()):
                answer = answers.get(GateQuery(gate, stage, distractor))
                label_of_gate[gate] = "not asked" if answer is None else answer.label.value
                if answer is not None and answer.label is Label.MISSING and answer.why:
                    label_of_gate[gate] += f": {answer.why}"
                if gate in skipped:
                    label_of_gate[gate] = f"cannot be asked: {skipped[gate]}"
        return label_of_gate

    distractors = tuple(
        ExplainedCandidate(
            **d.model_dump(exclude={"skipped"}), labels=labels(Stage.DISTRACTOR, d.id, d.skipped)
        )
        for d in decided.distractors
    )
    distractor_ids = {d.id for d in decided.distractors}
    return Explained(
        **decided.model_dump(exclude={"skipped", "distractors"}),
        distractors=distractors,
        notes=tuple(notes),
        parametric=labels(Stage.PARAMETRIC, "", decided.skipped.get(Stage.PARAMETRIC.value, {})),
        solvable=labels(Stage.SOLVABLE, "", decided.skipped.get(Stage.SOLVABLE.value, {})),
        answers=dict(
            sorted(
                (
                    f"{p.stage.value}{'/' + p.distractor if p.distractor else ''}/{p.gate}",
                    answer.text,
                )
                for p, answer in answers.items()
                if answer.text and (not p.distractor or p.distractor in distractor_ids)
            )
        ),
    )


def _explain_from_release(
    release: Release, sample: Sample, drops: list[Drop], note: str
) -> Explained:
    """What the release alone says about a kept sample."""
    all_verdicts = list(read_records(release.folder / "gates.jsonl", GateVerdict, Problems()))
    sample_verdicts = [v for v in all_verdicts if v.sample == sample.id]
    alone = {v.evidence: v.labels for v in sample_verdicts if v.stage == "distractor"}
    first = next((v for v in sample_verdicts if v.stage == "parametric"), None)
    distractors = [
        ExplainedCandidate(**found_by(e), labels=alone.get(e.id, {}), decision="stays")
        for e in sample.negatives
    ]
    distractors += [ExplainedCandidate(id=d.evidence, decision=d.reason) for d in drops]
    return Explained(
        sample=sample.id,
        question=sample.question,
        topic=sample.topic,
        kept=True,
        stage="",
        why="kept",
        parametric=first.labels if first else {},
        distractors=tuple(distractors),
        answers={f"parametric/{g}": a for g, a in first.answers.items()} if first else {},
        notes=(note,),
    )
