"""The decision about every sample: ``build/decisions.jsonl``, the funnel and the drops of a release.

The same command always writes the same bytes here. What was asked, and when, is in the journal
(`demur.curation.gates.runner`) and differs from run to run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from demur.core.records import Drop, Evidence, Modality, Record, Sample
from demur.core.store import Problems, read_records
from demur.curation.build.sample_pool import SampledPool
from demur.curation.gates.funnel import HELD, MINING, Decision, GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import GateRunner
from demur.pools.write import LeftOut
from demur.release import FunnelStep
from demur.release.layout import tally

FILE = "decisions.jsonl"
"""In the build folder."""
SOURCES = "sources"
"""Stage of bad records that were left out of the pool because the user allowed it."""
REASONS = 12
"""Kinds of bad records that a funnel names; rarer ones are counted together."""
STEPS = {
    "I parametric gate": {Stage.PARAMETRIC.value},
    "II distractors mined": {MINING},
    "III quality control": {Stage.SOLVABLE.value, "distractors"},
    "verdicts had": {HELD},
}
"""Steps of the funnel after the pool -> stages in which they drop samples."""


class Candidate(Record):
    """A distractor that was considered for a sample."""

    id: str
    title: str = ""
    modality: Modality | None = None
    origin: str = ""
    mode: str = ""
    rank: int | None = None
    score: float | None = None
    decision: str
    """``stays``, or why not."""


class SampleDecision(Record):
    """The decision about one sample."""

    sample: str
    question: str
    topic: str = ""
    kept: bool
    stage: str
    """Where it was dropped; "" when kept."""
    why: str


class CandidateLine(Candidate):
    """A candidate in ``build/decisions.jsonl``."""

    skipped: dict[str, str] = Field(default_factory=dict)
    """Gate -> why it cannot be asked."""


class DecisionLine(SampleDecision):
    """One line of ``build/decisions.jsonl``."""

    distractors: tuple[CandidateLine, ...] = ()
    """Best first; empty if none were mined."""
    skipped: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Stage (parametric, solvable) -> gate -> why it cannot be asked."""


def decision_line(
    sample: Sample, state: SampleState, decision: Decision, runner: GateRunner
) -> DecisionLine:
    """The line of a sample."""

    def skipped(stage: Stage, distractor: str = "") -> dict[str, str]:
        labels = state.labels_of(stage, distractor).items()
        return {
            g: runner.answers[sample.id, GateQuery(g, stage, distractor)].why
            for g, label in labels
            if label is Label.SKIPPED
        }

    lost, stay = dict(decision.lost), set(decision.survivors)
    by_id = {e.id: e for e in sample.negatives}
    return DecisionLine(
        sample=sample.id,
        question=sample.question,
        topic=sample.topic,
        kept=decision.kept,
        stage=decision.stage,
        why=decision.why,
        skipped={
            s.value: reason_of_gate
            for s in (Stage.PARAMETRIC, Stage.SOLVABLE)
            if (reason_of_gate := skipped(s))
        },
        distractors=tuple(
            CandidateLine(
                **found_by(by_id[d]),
                skipped=skipped(Stage.DISTRACTOR, d),
                decision="stays" if d in stay else lost.get(d, "the sample left"),
            )
            for d in state.distractors
        ),
    )


def read_decisions(build: Path) -> Iterator[DecisionLine]:
    """The decisions of a finished build; none of another. Damaged lines are left out."""
    return (
        read_records(build / FILE, DecisionLine, Problems())
        if (build / FILE).exists()
        else iter(())
    )


def found_by(e: Evidence) -> dict[str, Any]:
    """The fields of a `Candidate` that say how a distractor was found."""
    return {
        name: getattr(e, name)
        for name in ("id", "title", "modality", "origin", "mode", "rank", "score")
    }


def left_before(left_out: Sequence[LeftOut]) -> list[Drop]:
    """Drops of the bad records: the reason names the kind of problem, the detail is the full message."""
    kinds = Counter(map(_problem_kind, left_out))
    named = {
        kind for kind, _ in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:REASONS]
    }

    def drop(row: LeftOut) -> Drop:
        kind = _problem_kind(row)
        reason = f"bad record: {kind if kind in named else 'other'}"
        return Drop(sample=row.sample, stage=SOURCES, reason=reason, detail=row.reason)

    return [drop(row) for row in left_out]


def _problem_kind(row: LeftOut) -> str:
    """The kind of problem, without the record's own part of the message."""
    return row.reason.removeprefix("record: ").partition(": ")[0]


def all_drops(
    mined: Iterable[Drop], decisions: Mapping[str, Decision], left_out: Sequence[LeftOut] = ()
) -> list[Drop]:
    """The drops of a build: the lost distractors of kept samples, and the samples that were dropped.

    Args:
        mined: drops of mining. One without evidence says why its sample could not be mined for; it becomes the detail
            of the sample's drop if the sample has too few distractors.
        left_out: bad records that are not in the pool.
    """
    drops = left_before(left_out)
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for drop in mined:
        if not drop.evidence:
            reasons[drop.sample].append(f"mining: {drop.reason}{drop.detail and ': '}{drop.detail}")
        elif decisions[drop.sample].kept:
            drops.append(drop)
    for i, decision in decisions.items():
        if decision.kept:
            drops += [
                Drop(sample=i, evidence=e, stage="distractor", reason=why)
                for e, why in decision.lost
            ]
        else:
            mining = reasons.get(i, ()) if decision.stage in (MINING, "distractors") else ()
            drops.append(
                Drop(sample=i, stage=decision.stage, reason=decision.why, detail="; ".join(mining))
            )
    return drops


def funnel(pool: SampledPool, decisions: Mapping[str, Decision]) -> Iterator[FunnelStep]:
    """Counts per stage: what a stage keeps is what enters the next one."""
    total = sum(pool.sizes.values())
    if pool.left_out:
        bad = tally(drop.reason for drop in left_before(pool.left_out))
        yield FunnelStep(stage=SOURCES, entered=total + sum(bad.values()), kept=total, dropped=bad)
    chosen = len(pool.samples)
    gone_before = {
        "not drawn": total - chosen - pool.repeated,
        "an earlier source asks the same": pool.repeated,
    }
    yield FunnelStep(
        stage="pool",
        entered=total,
        kept=chosen,
        dropped={k: v for k, v in gone_before.items() if v},
    )
    remaining = list(decisions.values())
    for name, stages in STEPS.items():
        dropped_here = [f for f in remaining if f.stage in stages]
        yield FunnelStep(
            stage=name,
            entered=len(remaining),
            kept=len(remaining) - len(dropped_here),
            dropped=tally(f.why for f in dropped_here),
        )
        remaining = [f for f in remaining if f.stage not in stages]
