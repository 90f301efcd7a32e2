"""Sources -> release: the three stages of VLM-DeflectionBench, asking only what can still matter.

    pool -> Stage I (gates without evidence) -> Stage II (mine distractors) -> Stage III (quality) -> freeze

Every verdict goes to ``build/journal.jsonl`` at once (`demur.curation.gates.runner`): a killed build continues where it
was, and a later build with more gates asks only what is new. ``build/decisions.jsonl`` has the decision about every
sample (`demur.curation.build.decisions`). Nothing in the release depends on the order of work or on which unneeded questions
were asked: a lazy, an exhaustive, a resumed and a rebuilt release are the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack

from demur.core.errors import ReleaseError, UsageError
from demur.core.progress import QUIET
from demur.core.records import Drop, Sample
from demur.core.store import seed_of, write_records
from demur.curation.build.askable import all_can_be_asked, gates_of
from demur.curation.build.context import (
    BuildContext,
    Work,
    ask_gates,
    open_context,
    open_inputs,
    run_alone,
)
from demur.curation.build.decisions import FILE as DECISIONS
from demur.curation.build.decisions import all_drops, decision_line, funnel
from demur.curation.build.distractors import mine_pool
from demur.curation.build.knowledge_bases import index_bases
from demur.curation.build.provenance import BuildOutcome, describe_build, gate_verdicts
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.topics import compare_all_topics
from demur.curation.gates.costs import algorithm1_calls
from demur.curation.gates.funnel import HELD, Decision, GateQuery, SampleState, Stage
from demur.curation.gates.order import SuccessCounter
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import RETESTED, GateAnswer
from demur.curation.gates.scheduler import MAX_IN_FLIGHT
from demur.evaluation.for_hub import scenario_rows
from demur.evaluation.runner import commonest
from demur.models.batch import in_waves
from demur.release import Draft, FunnelStep, Release, check_target, freeze, open_sound
from demur.retrieval.recall import Choice


class Built(NamedTuple):
    """A finished build."""

    release: Release
    funnel: list[FunnelStep]
    recall: list[dict[str, Any]]
    questions_to_gate: dict[str, int]
    """gate -> questions that this run asked it (those answered before are not asked again)."""
    used: int
    """Verdicts that the release is based on, of this run and of earlier ones."""
    algorithm1: int
    """Calls that Algorithm 1 would make for the same release."""
    held: int
    """Samples that a missing answer leaves open; the same command asks again."""
    reused: int = 0
    """Verdicts of earlier runs that were used."""
    since: str = ""
    """Time of the last of these, to the minute."""
    errors: Mapping[str, int] = MappingProxyType({})
    """``gate: why`` -> number of such errors in this run; the most frequent."""


def curate(
    recipe: BuildRecipe,
    out: Path,
    *,
    exhaustive: bool = False,
    hurry: bool = False,
    fresh: bool = False,
    **work: Unpack[Work],
) -> Built:
    """Build the release of a recipe into ``out/release``; working files go to ``out/build`` and ``out/index``.

    Args:
        out: folder; a build that was stopped there continues.
        exhaustive: ask every gate everything; the release is the same.
        hurry: keep every endpoint busy, for a few more calls (`demur.curation.gates.scheduler.ask_states`).
        fresh: ask and pay for everything again: verdicts and replies move to ``build/.earlier``. Pool and index stay.
        work: see `Work`.

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: the recipe names parts that do not exist, no sample survives, ``out`` holds another release, or
            another build is using it.
        BudgetReached: the budget leaves no room for another call.
        CallError: a model cannot be reached; answers so far are kept.
        ReleaseError: the release fails its own verification (a defect of demur).
    """

    async def build() -> Built:
        async with open_context(recipe, out, **work) as ctx:
            return await _run_stages(ctx, exhaustive=exhaustive, hurry=hurry)

    check_target(out / "release", recipe.name, recipe.version)
    return run_alone(build, out / "build", fresh=fresh)


def build_indexes(recipe: BuildRecipe, out: Path, **work: Unpack[Work]) -> list[Path]:
    """Build the knowledge bases' indexes alone, below ``out/index``; a build in the same folder uses them.

    No gate is asked or need be there, so that its GPUs can be the encoder's meanwhile.

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: an index of something else is in the way, or a build is using the folder.
    """

    async def build() -> None:
        _, (pool, bases) = open_inputs(recipe, out, work)
        steps = work.get("steps", QUIET)
        steps.stage("index")
        skip_bad = work.get("skip_bad", False)
        await asyncio.to_thread(
            index_bases, pool, bases, out / "index", skip_bad=skip_bad, steps=steps
        )

    run_alone(build, out / "build", fresh=False)
    return sorted(path.parent for path in (out / "index").glob("*/manifest.json"))


async def _run_stages(ctx: BuildContext, *, exhaustive: bool, hurry: bool) -> Built:
    """Stages I, II and III, then the release."""
    recipe, pool, steps = ctx.recipe, ctx.pool, ctx.steps
    states = _fresh_states(ctx, exhaustive=exhaustive)
    if not ctx.skip_bad:
        all_can_be_asked(recipe, pool, ctx.runner.skipped)

    steps.stage("index, and ask the gates without evidence and with gold")
    await _stage_one(ctx, states, hurry=hurry)
    passed = (Stage.PARAMETRIC, Stage.SOLVABLE)
    survivors = [
        s for s in pool.samples if exhaustive or all(states[s.id].passed(stage) for stage in passed)
    ]

    steps.stage("mine distractors")
    choices, mined, mining_drops = await asyncio.to_thread(
        mine_pool, recipe, pool, survivors, ctx.bases, steps
    )
    samples = {s.id: s for s in pool.samples} | mined

    steps.stage("quality control")
    await _stage_three(ctx, samples, mined, states, hurry=hurry)
    decisions = {i: _require_decision(state.decision()) for i, state in states.items()}
    lines = (
        decision_line(samples[i], states[i], decisions[i], ctx.runner) for i in sorted(decisions)
    )
    write_records(ctx.out / "build" / DECISIONS, lines)
    kept_samples = _finish_kept_samples(recipe, samples, decisions, ctx.runner.errors)

    steps.stage("ask kept samples again")
    retest = await _ask_kept_again(ctx, kept_samples)

    steps.stage("freeze and verify the release")
    is_kept = [decisions[s.id].kept for s in pool.samples]
    [topics] = await in_waves(
        lambda samples: compare_all_topics(recipe, samples, is_kept, ctx.embed, ctx.namer),
        [pool.samples],
        1,
    )
    outcome = BuildOutcome(states, decisions, kept_samples, choices, retest, topics)
    return await _freeze_release(ctx, outcome, mining_drops)


def _fresh_states(ctx: BuildContext, *, exhaustive: bool) -> dict[str, SampleState]:
    gates, order = gates_of(ctx.recipe.specs()), SuccessCounter()
    return {
        s.id: SampleState(
            gates, (), ctx.recipe.rules, exhaustive=exhaustive, order=order, group=s.source
        )
        for s in ctx.pool.samples
    }


async def _freeze_release(
    ctx: BuildContext, outcome: BuildOutcome, mining_drops: Sequence[Drop]
) -> Built:
    """Write and verify the release."""
    runner, states, decisions = ctx.runner, outcome.states, outcome.decisions
    facts = await asyncio.to_thread(describe_build, ctx, outcome)
    steps_taken = list(funnel(ctx.pool, decisions))
    recall = [row for choice in outcome.choices for row in _recall_rows(choice)]
    freeze(
        ctx.out / "release",
        Draft(
            name=ctx.recipe.name,
            version=ctx.recipe.version,
            samples=outcome.kept_samples,
            read_image=ctx.read,
            drops=all_drops(mining_drops, decisions, ctx.pool.left_out),
            funnel=steps_taken,
            recall=recall,
            about=facts,
            scenarios=scenario_rows(sorted(outcome.kept_samples, key=lambda s: s.id)),
            gates=[v for s in outcome.kept_samples for v in gate_verdicts(s, states[s.id], runner)],
        ),
    )
    return Built(
        open_sound(ctx.out / "release"),
        steps_taken,
        recall,
        dict(runner.questions_to_gate),
        used=sum(
            label is not Label.SKIPPED
            for state in states.values()
            for label in state.labels.values()
        ),
        algorithm1=sum(algorithm1_calls(state).total() for state in states.values()),
        held=sum(d.stage == HELD for d in decisions.values()),
        reused=len(runner.reused),
        since=runner.since,
        errors=commonest(runner.errors),
    )


async def _stage_one(ctx: BuildContext, states: Mapping[str, SampleState], *, hurry: bool) -> None:
    """Ask the gates without evidence and with gold while another thread indexes the knowledge bases."""
    samples = {s.id: s for s in ctx.pool.samples}
    for sample in ctx.pool.samples:
        for stage in (Stage.PARAMETRIC, Stage.SOLVABLE):
            _note_skipped(ctx, sample, states[sample.id], GateQuery("", stage))
    unwanted = threading.Event()
    indexes = partial(
        index_bases,
        ctx.pool,
        ctx.bases,
        ctx.out / "index",
        skip_bad=ctx.skip_bad,
        steps=ctx.steps,
        stopped=unwanted.is_set,
    )
    index = asyncio.create_task(asyncio.to_thread(indexes))
    try:
        await ask_gates(
            ctx, samples, states, frozenset({Stage.PARAMETRIC, Stage.SOLVABLE}), hurry=hurry
        )
    except BaseException:
        unwanted.set()  # the next run continues the index where it was
        with suppress(Exception):
            await index
        raise
    await index


async def _stage_three(
    ctx: BuildContext,
    samples: Mapping[str, Sample],
    mined: Mapping[str, Sample],
    states: Mapping[str, SampleState],
    *,
    hurry: bool,
) -> None:
    """Ask whether a gate can answer with each distractor alone."""
    for id, sample in mined.items():
        states[id].distractors = [e.id for e in sample.negatives]
        for distractor in states[id].distractors:
            _note_skipped(ctx, sample, states[id], GateQuery("", Stage.DISTRACTOR, distractor))
    await ask_gates(ctx, samples, states, frozenset(Stage), hurry=hurry)


def _note_skipped(
    ctx: BuildContext, sample: Sample, state: SampleState, question: GateQuery
) -> None:
    """Mark the gates that cannot be asked a question."""
    taking_part = {g.name for g in state.gates}
    for gate, why in ctx.runner.skipped(sample, question.stage, question.distractor).items():
        if gate in taking_part:
            query = question._replace(gate=gate)
            ctx.runner.answers[sample.id, query] = GateAnswer(Label.SKIPPED, "", why)
            state.tell(query, Label.SKIPPED)


def _finish_kept_samples(
    recipe: BuildRecipe,
    samples: Mapping[str, Sample],
    decisions: Mapping[str, Decision],
    errors: Sequence[str],
) -> list[Sample]:
    """The kept samples with their surviving distractors."""
    kept_samples = [
        _with_survivors(samples[i], decision) for i, decision in decisions.items() if decision.kept
    ]
    if not kept_samples:
        reasons = Counter(d.why for d in decisions.values()).most_common()
        failures = "".join(
            f"; {n:,} answers were errors: {reason}" for reason, n in commonest(errors).items()
        )
        raise UsageError(
            f"the gates and rules drop all {len(decisions)} samples: {'; '.join(f'{w} ({n})' for w, n in reasons)}{failures}",
            item=recipe.name,
            cure="mend the gates that fail, and run the same command again"
            if failures
            else "lower rules.k_min, mine more distractors (retrieval.text, retrieval.visual), or change the gates",
        )
    return kept_samples


async def _ask_kept_again(
    ctx: BuildContext, kept_samples: Sequence[Sample]
) -> dict[str, dict[str, int]]:
    """Ask the gates some kept samples again, without evidence, in an independent repeat.

    No gate was right the first time; a sample that one gets right now was kept by luck (3 to 5 % for the paper's gates,
    Table 4).
    """
    retested = sorted(kept_samples, key=lambda s: (seed_of(ctx.recipe.seed, "retest", s.id), s.id))[
        : ctx.recipe.retest
    ]
    specs = ctx.recipe.specs().items()
    counts_of_gate = {
        name: Counter[str]() for name, spec in specs if Stage.PARAMETRIC in spec.stages
    }

    async def ask_again(pair: tuple[Sample, str]) -> None:
        sample, gate = pair
        query = GateQuery(gate, Stage.PARAMETRIC)
        first, second = (
            await ctx.runner.label(sample, query),
            await ctx.runner.label(sample, query, RETESTED),
        )
        if second is not Label.SKIPPED:
            counts_of_gate[gate].update({"asked": 1, "same": int(second is first), second.value: 1})

    await in_waves(ask_again, product(retested, counts_of_gate), MAX_IN_FLIGHT)
    return {name: dict(sorted(counts.items())) for name, counts in counts_of_gate.items()}


def _require_decision(decision: Decision | None) -> Decision:
    if decision is None:
        raise ReleaseError(
            "a sample has no decision although every gate was asked", cure="report this bug"
        )
    return decision


def _with_survivors(sample: Sample, decision: Decision) -> Sample:
    stay = set(decision.survivors)
    return sample.model_copy(
        update={"negatives": tuple(e for e in sample.negatives if e.id in stay)}
    )


def _recall_rows(choice: Choice) -> list[dict[str, Any]]:
    """Rows of ``recall.json``: shares in [0, 1], None where no gold can be found."""
    rows = []
    for mode, measures in choice.table:
        row: dict[str, Any] = {
            "queries": choice.source,
            "mode": mode,
            "n": measures[0].n if measures else 0,
        }
        for m in measures:
            for name, value in (
                (m.name, m.value),
                (f"{m.name} low", m.low),
                (f"{m.name} high", m.high),
            ):
                row[name] = None if value is None else round(value, 6)
        chosen = "yes" if choice.n else "by default"
        rows.append(
            row
            | {"gold out of reach": choice.lacking, "chosen": chosen if mode == choice.mode else ""}
        )
    return rows
