"""What was decided about every sample: ``build/decisions.jsonl``, the funnel and the drops of a release.

Decisions alone: the same command gives the same bytes, whatever was asked for them and in whichever order. What was
asked is in the journal (`demur.pipeline.panel`), and differs from run to run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from demur.curation.draw import Drawn
from demur.curation.funnel import HELD, MINING, Fate, Life, Probe, Stage
from demur.curation.gate import Label
from demur.curation.pool import LeftOut
from demur.curation.release import FunnelStep
from demur.pipeline.panel import Panel
from demur.records import Drop, Record, Sample

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


class Decision(Record):
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
    """id, title, origin, mode, rank, score, fate, skipped (as above) of each candidate, best first; of the samples that
    candidates were sought for."""


def decision(sample: Sample, life: Life, fate: Fate, panel: Panel) -> Decision:
    """What was decided about a sample."""

    def skipped(stage: Stage, shown: str = "") -> dict[str, str]:
        labels = life.of(stage, shown).items()
        return {g: panel.told[sample.id, Probe(g, stage, shown)].why for g, label in labels if label is Label.SKIPPED}

    lost, stay = dict(fate.lost), set(fate.survivors)
    by_id = {e.id: e for e in sample.negatives}
    return Decision(
        sample=sample.id, question=sample.question, topic=sample.topic, kept=fate.kept, stage=fate.stage, why=fate.why,
        skipped={s.value: found for s in (Stage.PARAMETRIC, Stage.SOLVABLE) if (found := skipped(s))},
        distractors=tuple(
            {
                "id": d, "title": by_id[d].title, "origin": by_id[d].origin, "mode": by_id[d].mode,
                "rank": by_id[d].rank, "score": by_id[d].score, "skipped": skipped(Stage.DISTRACTOR, d),
                "fate": "stays" if d in stay else lost.get(d, "the sample left"),
            }
            for d in life.distractors
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


def all_drops(mined: Iterable[Drop], fates: Mapping[str, Fate], left_out: Sequence[LeftOut] = ()) -> list[Drop]:
    """What left a build: of samples that stay the distractors, by mining and by gates; of others the sample itself.

    Args:
        mined: of mining; where one names no evidence, it says why its sample could not be mined for, and this is the
            detail of the sample's own if it was left with too few distractors.
        fates: sample -> what became of it.
        left_out: samples that never got into the pool.
    """
    drops = left_before(left_out)
    told: defaultdict[str, list[str]] = defaultdict(list)
    for drop in mined:
        if not drop.evidence:
            told[drop.sample].append(f"mining: {drop.reason}{drop.detail and ': '}{drop.detail}")
        elif fates[drop.sample].kept:
            drops.append(drop)
    for i, fate in fates.items():
        if fate.kept:
            drops += [Drop(sample=i, evidence=e, stage="distractor", reason=why) for e, why in fate.lost]
        else:
            mining = told.get(i, ()) if fate.stage in (MINING, "distractors") else ()
            drops.append(Drop(sample=i, stage=fate.stage, reason=fate.why, detail="; ".join(mining)))
    return drops


def funnel(pool: Drawn, fates: Mapping[str, Fate]) -> list[FunnelStep]:
    """Counts per stage; they add up: what a stage kept is what the next one entered with."""
    return list(_steps(pool, fates))


def _steps(pool: Drawn, fates: Mapping[str, Fate]) -> Iterator[FunnelStep]:
    total = sum(pool.sizes.values())
    if pool.left_out:
        bad = Counter(drop.reason for drop in left_before(pool.left_out))
        yield FunnelStep(stage=SOURCES, entered=total + bad.total(), kept=total, dropped=dict(sorted(bad.items())))
    chosen = len(pool.samples)
    gone_before = {
        "not drawn": total - chosen - pool.repeated,
        "an earlier source asks the same": pool.repeated,
    }
    yield FunnelStep(stage="pool", entered=total, kept=chosen, dropped={k: v for k, v in gone_before.items() if v})
    left = list(fates.values())
    for name, stages in STEPS.items():
        gone = [f for f in left if f.stage in stages]
        why = Counter(f.why for f in gone)
        yield FunnelStep(stage=name, entered=len(left), kept=len(left) - len(gone), dropped=dict(sorted(why.items())))
        left = [f for f in left if f.stage not in stages]
