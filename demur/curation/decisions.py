"""What was decided about every sample: ``build/decisions.jsonl``, the funnel and the drops of a release.

Decisions alone: the same command gives the same bytes, whatever was asked for them and in whichever order. What was
asked is in the journal (`demur.curation.gates.runner`), and differs from run to run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from demur.core.records import Drop, Record, Sample
from demur.curation.gates.funnel import HELD, MINING, Decision, GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import GateRunner
from demur.curation.pool import LeftOut
from demur.curation.sample_pool import SampledPool
from demur.release import FunnelStep

FILE = "decisions.jsonl"
"""In the build folder."""
SOURCES = "sources"
"""Stage of what left before there was a pool: bad records that the user allowed to be left out."""
REASONS = 12
"""Kinds of bad records that a funnel names; the rarer ones are one."""
STEPS = {
    "I parametric gate": {Stage.PARAMETRIC.value},
    "II distractors mined": {MINING},
    "III quality control": {Stage.SOLVABLE.value, "distractors"},
    "verdicts had": {HELD},
}
"""Steps of the funnel behind the pool, and the stages in which a sample leaves there."""


class DecisionLine(Record):
    """One line of ``build/decisions.jsonl``."""

    sample: str
    question: str
    topic: str = ""
    kept: bool
    stage: str
    """Where it left; "" when kept."""
    why: str
    skipped: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Stage -> gate -> why it cannot be asked; parametric and solvable."""
    distractors: tuple[dict[str, Any], ...] = ()
    """id, title, origin, mode, rank, score, decision, skipped (as above) of each candidate, best first; empty for
    samples that no candidates were sought for."""


def decision_line(sample: Sample, state: SampleState, decision: Decision, runner: GateRunner) -> DecisionLine:
    """What was decided about a sample."""

    def skipped(stage: Stage, shown: str = "") -> dict[str, str]:
        labels = state.of(stage, shown).items()
        return {
            g: runner.answers[sample.id, GateQuery(g, stage, shown)].why
            for g, label in labels
            if label is Label.SKIPPED
        }

    lost, stay = dict(decision.lost), set(decision.survivors)
    by_id = {e.id: e for e in sample.negatives}
    return DecisionLine(
        sample=sample.id, question=sample.question, topic=sample.topic, kept=decision.kept, stage=decision.stage,
        why=decision.why,
        skipped={s.value: found for s in (Stage.PARAMETRIC, Stage.SOLVABLE) if (found := skipped(s))},
        distractors=tuple(
            {
                "id": d, "title": by_id[d].title, "origin": by_id[d].origin, "mode": by_id[d].mode,
                "rank": by_id[d].rank, "score": by_id[d].score, "skipped": skipped(Stage.DISTRACTOR, d),
                "decision": "stays" if d in stay else lost.get(d, "the sample left"),
            }
            for d in state.distractors
        ),
    )  # fmt: skip


def left_before(left_out: Sequence[LeftOut]) -> list[Drop]:
    """Samples that never got into the pool; the reason is of a kind, the detail says it in full."""
    kinds = Counter(map(_kind, left_out))
    named = {kind for kind, _ in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:REASONS]}

    def drop(row: LeftOut) -> Drop:
        kind = _kind(row)
        reason = f"bad record: {kind if kind in named else 'other'}"
        return Drop(sample=row.sample, stage=SOURCES, reason=reason, detail=row.reason)

    return [drop(row) for row in left_out]


def _kind(row: LeftOut) -> str:
    """What is wrong with a record, without saying with which."""
    return row.reason.removeprefix("record: ").partition(": ")[0]


def all_drops(mined: Iterable[Drop], decisions: Mapping[str, Decision], left_out: Sequence[LeftOut] = ()) -> list[Drop]:
    """What left a build: of samples that stay the distractors, by mining and by gates; of others the sample itself.

    Args:
        mined: of mining; where one names no evidence, it says why its sample could not be mined for, and this is the
            detail of the sample's own if it was left with too few distractors.
        left_out: samples that never got into the pool.
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
            drops += [Drop(sample=i, evidence=e, stage="distractor", reason=why) for e, why in decision.lost]
        else:
            mining = reasons.get(i, ()) if decision.stage in (MINING, "distractors") else ()
            drops.append(Drop(sample=i, stage=decision.stage, reason=decision.why, detail="; ".join(mining)))
    return drops


def funnel(pool: SampledPool, decisions: Mapping[str, Decision]) -> list[FunnelStep]:
    """Counts per stage; they add up: what a stage kept is what the next one entered with."""
    return list(_steps(pool, decisions))


def _steps(pool: SampledPool, decisions: Mapping[str, Decision]) -> Iterator[FunnelStep]:
    total = sum(pool.sizes.values())
    if pool.left_out:
        bad = Counter(drop.reason for drop in left_before(pool.left_out))
        yield FunnelStep(stage=SOURCES, entered=total + bad.total(), kept=total, dropped=dict(sorted(bad.items())))
    chosen = len(pool.samples)
    gone_before = {"not drawn": total - chosen - pool.repeated, "an earlier source asks the same": pool.repeated}
    yield FunnelStep(stage="pool", entered=total, kept=chosen, dropped={k: v for k, v in gone_before.items() if v})
    left = list(decisions.values())
    for name, stages in STEPS.items():
        gone = [f for f in left if f.stage in stages]
        why = Counter(f.why for f in gone)
        yield FunnelStep(stage=name, entered=len(left), kept=len(left) - len(gone), dropped=dict(sorted(why.items())))
        left = [f for f in left if f.stage not in stages]
