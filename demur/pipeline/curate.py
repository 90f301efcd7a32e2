"""Sources -> release: the three stages of VLM-DeflectionBench, asking only what can still matter.

    pool -> Stage I (gates without evidence) -> Stage II (mine distractors) -> Stage III (quality) -> freeze

What every gate said is kept in ``build/journal.jsonl`` as it is said (`demur.pipeline.panel`): a killed build goes
on where it was, and a later build with more gates asks only what is new. ``build/decisions.jsonl`` says what was
decided about every sample (`demur.pipeline.decisions`). The release itself holds nothing that depends on the order of
work, nor on which of the unneeded questions were asked: a lazy, an exhaustive, a resumed and a rebuilt one are the same
bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.answers import holds
from demur.calls.run import run_sync
from demur.curation.costs import naive_calls
from demur.curation.draw import Drawn, draw
from demur.curation.experience import Experience
from demur.curation.funnel import HELD, Fate, Gate, Life, Probe, Stage
from demur.curation.gate import Label
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.curation.release import FunnelStep, Release, freeze, verify
from demur.curation.topics import need_bertopic
from demur.errors import ReleaseError, UsageError
from demur.indexing.encoders import Encoder, open_encoder
from demur.judge.kit import JudgeKit
from demur.pipeline.askable import all_can_be_asked
from demur.pipeline.bases import Base, gold_at_the_cut, index_bases, open_bases, settled
from demur.pipeline.decisions import FILE as DECISIONS
from demur.pipeline.decisions import all_drops, decision, funnel
from demur.pipeline.evaluate import Judge, commonest
from demur.pipeline.made_by import note
from demur.pipeline.panel import RETESTED, Panel, Told, model_options
from demur.pipeline.parts import Embedder, Recogniser, captioned, open_judge
from demur.pipeline.preflight import preflight
from demur.pipeline.provenance import about, verdicts
from demur.pipeline.queries import modes_of
from demur.pipeline.slots import LIVES_ALONGSIDE, Slots, ask_lives, at_once
from demur.pipeline.stage_two import mine_pool
from demur.pipeline.steps import QUIET, Steps
from demur.pipeline.topics import drifts
from demur.records import ImageRef, Sample
from demur.retrieval.recall import Choice
from demur.scenarios.conditions import Prompts
from demur.scenarios.systems import Kit, System, open_system
from demur.scenarios.systems.model import ModelSystem
from demur.store import locked, read_image, seed_of, storage_errors, write_records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.calls import Budget


class Built(NamedTuple):
    """A finished build."""

    release: Release
    funnel: list[FunnelStep]
    recall: list[dict[str, Any]]
    asked: dict[str, int]
    """gate -> questions put to it by this run (those answered before are not asked again)."""
    used: int
    """Verdicts that the release rests on; those that were not asked for by this run were there already."""
    algorithm1: int
    """Calls that Algorithm 1 makes for the same release, run naively."""
    held: int
    """Samples held out because a verdict could not be had; the same command asks again where no answer came."""
    reused: int = 0
    """Verdicts of earlier runs that were used."""
    since: str = ""
    """When the last of these came, to the minute."""
    errors: Mapping[str, int] = MappingProxyType({})
    """``gate: why`` -> answers of this run that were such errors; the commonest."""


class Workshop(NamedTuple):
    """What a build works with, opened."""

    pool: Drawn
    judge: Judge
    encoder: Encoder
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]]
    panel: Panel
    prompts: Prompts
    bases: Mapping[str, Base]
    """Source -> its knowledge base."""
    namer: ModelSystem | None = None
    """Names topics."""

    def read(self, ref: ImageRef) -> bytes:
        """Bytes behind an image reference of the pool."""
        return read_image(ref, self.pool.root)


def curate(
    plan: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    steps: Steps = QUIET,
    encoder: Encoder | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    exhaustive: bool = False,
    learn: bool = True,
    hurry: bool = False,
    budget: Budget | None = None,
    prices: Path | None = None,
    concurrency: int | None = None,
    fresh: bool = False,
) -> Built:
    """Build the release of a recipe into ``out/release``; working files go to ``out/build`` and ``out/index``.

    Args:
        plan: the recipe.
        out: folder; a build that was stopped there goes on.
        base: folder that the recipe's relative paths start from.
        skip_bad: leave bad records out and count them.
        steps: told what happens.
        encoder: opened already; by the recipe's name when None.
        models: gate name -> options to add to its spec (the address of a server that was started just now).
        exhaustive: ask every gate everything; the release is the same.
        learn: let answers decide which gate is asked first; False: always the cheapest.
        hurry: keep every endpoint busy, for some more calls (`demur.pipeline.slots.ask_lives`).
        budget: stops the build, resumable, before its money is passed; what earlier commands spent on the same folder
            counts. What is spent is noted in ``build/spent.log``, also without a budget.
        prices: price table that overlays the shipped one.
        concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
        fresh: ask everything again, and pay for it again: verdicts and replies that are there go aside, to
            ``build/.earlier``. Pool and index stay, as they follow from their files.

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: the recipe names parts that do not exist, nothing survived, or another build is at work in ``out``.
        BudgetReached: the budget leaves no room for another call.
        CallError: a model cannot be reached at all; what was answered is kept.
        ReleaseError: the frozen folder did not pass its own verification (a defect of demur).
    """

    async def work() -> Built:
        async with opened(
            plan, out, base=base, skip_bad=skip_bad, steps=steps, encoder=encoder, models=models, budget=budget,
            prices=prices, concurrency=concurrency,
        ) as shop:  # fmt: skip
            return await _curate(
                plan, out, shop, steps, skip_bad=skip_bad, exhaustive=exhaustive, learn=learn, hurry=hurry
            )

    with locked(out / "build" / "lock", "building there"):
        if fresh:
            _set_aside(out / "build")
        return run_sync(work())


def _set_aside(folder: Path) -> None:
    """Begin without the verdicts and replies of earlier runs; they are kept in a folder of their own."""
    had = [p for p in (folder / "journal.jsonl", *sorted(folder.glob("calls.sqlite*"))) if p.exists()]
    if not had:
        return
    number = 1
    while (folder / ".earlier" / str(number)).exists():
        number += 1
    with storage_errors(folder):
        (folder / ".earlier" / str(number)).mkdir(parents=True)
        for path in had:
            path.rename(folder / ".earlier" / str(number) / path.name)


@asynccontextmanager
async def opened(
    plan: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    steps: Steps = QUIET,
    encoder: Encoder | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    budget: Budget | None = None,
    prices: Path | None = None,
    concurrency: int | None = None,
) -> AsyncIterator[Workshop]:
    """Read the sources and open judge, encoder, gates and monitors; the arguments are those of `curate`."""
    steps.stage("read the sources")
    folder = out / "build"
    note(plan, out, base=base, skip_bad=skip_bad)
    if plan.topics == "bertopic":  # what is missing is told before the sources are read
        need_bertopic()
    encoder = encoder or open_encoder(plan.retrieval.encoder)
    pool = draw(plan.sources, folder / "pool", base=base, seed=plan.seed, skip_bad=skip_bad, for_build=True)
    of_judge = JudgeKit(folder / "calls.sqlite", concurrency, prices=prices)
    judge = open_judge(plan.judge, of_judge)
    bases = open_bases(plan, pool, base=base, encoder=encoder)
    enough_candidates(plan, pool)
    pool = gold_at_the_cut(pool, bases, steps)
    prompts = Prompts()

    def read(ref: ImageRef) -> bytes:
        return read_image(ref, pool.root)

    embed = Embedder(encoder)
    from demur.calls import Budget

    budget = (budget or Budget(None)).noted(folder / "spent.log")
    of_judge.budget = budget
    kit = Kit(
        read_image=read, embed=embed, recognise=Recogniser(encoder, captioned(pool.documents), read), pool=pool.samples,
        prompts=prompts, ledger=folder / "calls.sqlite", concurrency=concurrency, budget=budget, prices=prices,
    )  # fmt: skip
    specs = {s.name or s.system: s for s in (*plan.gates, *plan.monitors)}
    async with AsyncExitStack() as stack:
        panel = Panel(
            specs,
            gate_opener(specs, kit, models or {}),
            judge,
            folder / "journal.jsonl",
            seed=plan.seed,
            prompts=prompts,
            each=concurrency or 8,
        )
        stack.push_async_callback(panel.close)
        namer = None
        if (spec := plan.topic_names) is not None:
            options = model_options(spec.options)
            namer = ModelSystem(spec.system.partition(":")[2], Kit(**{**vars(kit), "options": options}))
            stack.push_async_callback(namer.close)
        # whoever cannot be opened or asked is told before anything is indexed
        systems: dict[str, System] = {name: panel.system(name) for name in specs}
        for line in await preflight(systems | ({} if namer is None else {"topic_names": namer}), perhaps=panel.met):
            steps.warn(line)
        yield Workshop(pool, judge, encoder, embed, panel, prompts, bases, namer)


def gate_opener(
    specs: Mapping[str, GateSpec], kit: Kit, models: Mapping[str, Mapping[str, Any]]
) -> Callable[[str, int], System]:
    """What opens the system of a gate for a draw: ``(name, draw) -> System``.

    Args:
        specs: name -> what the recipe says of it.
        kit: what systems are given; ``options`` are each gate's own.
        models: name -> options that go before the recipe's (``system``: another address).
    """

    def opened(name: str, draw: int) -> System:
        options = {**specs[name].options, **models.get(name, {})}
        address = str(options.pop("system", specs[name].system))
        if specs[name].name and "name" not in options and not address.startswith(("prior", "reader", "answers")):
            options["name"] = name
        kind = address.partition(":")[0]
        if kind == "model":
            options = model_options(options)
        elif kind in ("python", "answers", "reader", "prior") and (strange := sorted(set(options) - {"name"})):
            raise UsageError(
                f"takes no options, and is given {', '.join(strange)}", item=f"gate {name}",
                cure="leave them out; a class named module:Class reads its own from kit.options",
            )  # fmt: skip
        system = open_system(address, Kit(**{**vars(kit), "options": options}))
        if isinstance(system, ModelSystem) and draw:
            system.sampling = {**system.sampling, "draw": draw}
        elif hasattr(inner := getattr(system, "inner", system), "draw"):
            inner.draw = draw
        return system

    return opened


def gates_of(specs: Mapping[str, GateSpec]) -> list[Gate]:
    """The gates as the funnel takes them."""
    return [Gate(name, frozenset(spec.stages), spec.cost) for name, spec in specs.items()]


def enough_candidates(plan: BuildRecipe, pool: Drawn) -> None:
    """See that distractors can be mined as the recipe says, and enough of them, before anybody is asked.

    Raises:
        UsageError: no sample can have as many as the rules ask for, or a retrieval mode does not exist.
    """
    most = 0
    for source, how in settled(plan, pool).items():
        own = max((len(s.negatives) for s in pool.samples if s.source == source), default=0) if how.adopts else 0
        most = max(most, (how.wanted if how.mines else 0) + own)
        modes_of(how)  # says what is wrong with its modes
    if most < plan.rules.k_min:
        raise UsageError(
            f"k_min={plan.rules.k_min} distractors per sample, but no sample has more than {most} candidates",
            item=plan.name, cure="lower rules.k_min, or raise retrieval.text, lexical and visual",
        )  # fmt: skip


async def _curate(
    plan: BuildRecipe,
    out: Path,
    shop: Workshop,
    steps: Steps,
    *,
    skip_bad: bool,
    exhaustive: bool,
    learn: bool,
    hurry: bool,
) -> Built:
    pool, panel = shop.pool, shop.panel
    experience = Experience(learn=learn)
    gates = gates_of(plan.specs())
    lives = {
        s.id: Life(gates, (), plan.rules.rules(), exhaustive=exhaustive, experience=experience, group=s.source)
        for s in pool.samples
    }
    samples = {s.id: s for s in pool.samples}
    if not skip_bad:
        all_can_be_asked(plan, pool, gates, panel.skipped)
    for sample in pool.samples:
        for stage in (Stage.PARAMETRIC, Stage.SOLVABLE):
            _skip(panel, sample, lives[sample.id], Probe("", stage))

    # What is asked without evidence or with gold needs no index: another thread embeds the knowledge base meanwhile.
    steps.stage("index, and ask the gates without evidence and with gold")
    unwanted = threading.Event()
    indexes = partial(
        index_bases, pool, shop.bases, out / "index", skip_bad=skip_bad, steps=steps, stopped=unwanted.is_set
    )
    index = asyncio.create_task(asyncio.to_thread(indexes))
    try:
        await ask_all(panel, samples, lives, frozenset({Stage.PARAMETRIC, Stage.SOLVABLE}), steps, hurry=hurry)
    except BaseException:
        unwanted.set()  # an index that is begun goes on where it was, in the next run
        with suppress(Exception):
            await index
        raise
    await index
    passed = (Stage.PARAMETRIC, Stage.SOLVABLE)
    survivors = [s for s in pool.samples if exhaustive or all(lives[s.id].passed(stage) for stage in passed)]

    steps.stage("mine distractors")
    choices, mined, drops = await asyncio.to_thread(mine_pool, plan, pool, survivors, shop.bases, steps)
    for sample in survivors:
        samples[sample.id] = mined[sample.id]
        lives[sample.id].distractors = [e.id for e in mined[sample.id].negatives]
        for shown in lives[sample.id].distractors:
            _skip(panel, samples[sample.id], lives[sample.id], Probe("", Stage.DISTRACTOR, shown))

    steps.stage("quality control")
    await ask_all(panel, samples, lives, frozenset(Stage), steps, hurry=hurry)

    fates = {i: _certain(life.fate()) for i, life in lives.items()}
    decided = (decision(samples[i], lives[i], fates[i], panel) for i in sorted(fates))
    write_records(out / "build" / DECISIONS, decided)
    kept = [_finished(samples[i], fate) for i, fate in fates.items() if fate.kept]
    if not kept:
        why = Counter(f.why for f in fates.values()).most_common()
        raise UsageError(
            f"none of {len(fates)} samples stays: " + "; ".join(f"{w} ({n})" for w, n in why),
            item=plan.name,
            cure="lower rules.k_min, mine more distractors (retrieval.text, retrieval.visual), or change the gates",
        )
    drops = all_drops(drops, fates, pool.left_out)
    steps_taken = funnel(pool, fates)
    recall = [row for choice in choices for row in _recall_rows(choice)]

    steps.stage("ask kept samples again")
    retest = await _retest(plan, panel, kept, gates)
    steps.stage("freeze and verify the release")
    topics = await drifts(plan, pool.samples, [fates[s.id].kept for s in pool.samples], shop.embed, shop.namer)
    said = await asyncio.to_thread(about, plan, shop, lives, fates, kept, choices, retest, topics)
    freeze(
        out / "release", name=plan.name, version=plan.version, samples=kept, read_image=shop.read, drops=drops,
        funnel=steps_taken, recall=recall, about=said,
        gates=[v for s in kept for v in verdicts(s, lives[s.id], panel)],
    )  # fmt: skip
    release = Release.open(out / "release")
    wrong = verify(release, holds=holds)
    if wrong:
        raise ReleaseError(
            f"the frozen release does not verify: {'; '.join(wrong[:5])}", item=str(out / "release"), cure="report this"
        )
    held = sum(f.stage == HELD for f in fates.values())
    used = sum(label is not Label.SKIPPED for life in lives.values() for label in life.labels.values())
    naive = sum(map(naive_calls, lives.values()))
    errors = commonest(panel.errors)
    return Built(
        release, steps_taken, recall, dict(panel.asked), used, naive, held, len(panel.reused), panel.since, errors
    )  # fmt: skip


def _skip(panel: Panel, sample: Sample, life: Life, question: Probe) -> None:
    """Tell a sample's state which gates cannot be asked a question, so that none is counted on."""
    taking_part = {g.name for g in life.gates}
    for gate, why in panel.skipped(sample, question.stage, question.distractor).items():
        if gate in taking_part:
            probe = question._replace(gate=gate)
            panel.told[sample.id, probe] = Told(Label.SKIPPED, "", why)
            life.tell(probe, Label.SKIPPED)


async def ask_all(
    panel: Panel,
    samples: Mapping[str, Sample],
    lives: Mapping[str, Life],
    stages: frozenset[Stage],
    steps: Steps,
    *,
    hurry: bool = False,
) -> None:
    """Ask the panel all that is still wanted in these stages (`demur.pipeline.slots.ask_lives`)."""

    async def tell(sample: str, probe: Probe) -> Label:
        label = await panel.label(samples[sample], probe)
        steps.count("questions to gates", sum(panel.asked.values()), 0, panel.so_far)
        return label

    def known(sample: str, probe: Probe) -> Label | None:
        return panel.known(samples[sample], probe)

    await ask_lives(lives, tell, Slots(panel.names, panel.each), known=known, stages=stages, hurry=hurry)


async def _retest(
    plan: BuildRecipe, panel: Panel, kept: Sequence[Sample], gates: Sequence[Gate]
) -> dict[str, dict[str, int]]:
    """Ask the gates some kept samples again, without evidence, in an independent draw.

    By construction no gate was right the first time; those that are now were kept by luck (the paper's own gates come
    to 3 to 5 % in its Table 4).
    """
    drawn = sorted(kept, key=lambda s: (seed_of(plan.seed, "retest", s.id), s.id))[: plan.retest]
    found = {g.name: Counter[str]() for g in gates if Stage.PARAMETRIC in g.stages}

    async def one(sample: Sample, gate: str) -> None:
        probe = Probe(gate, Stage.PARAMETRIC)
        first, again = await panel.label(sample, probe), await panel.label(sample, probe, RETESTED)
        if again is not Label.SKIPPED:
            found[gate].update({"asked": 1, "same": int(again is first), again.value: 1})

    await at_once([lambda s=s, g=g: one(s, g) for s in drawn for g in found], LIVES_ALONGSIDE)  # type: ignore[misc]
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}


# --- what became of everything -------------------------------------------------------------------


def _certain(fate: Fate | None) -> Fate:
    if fate is None:
        raise ReleaseError("a sample's fate is open although nothing more is asked", cure="report this")
    return fate


def _finished(sample: Sample, fate: Fate) -> Sample:
    stay = set(fate.survivors)
    return sample.model_copy(update={"negatives": tuple(e for e in sample.negatives if e.id in stay)})


def _recall_rows(choice: Choice) -> list[dict[str, Any]]:
    """Rows of ``recall.json``: numbers as numbers, shares in [0, 1], None where no gold can be found."""
    rows = []
    for mode, measures in choice.table:
        row: dict[str, Any] = {"queries": choice.source, "mode": mode, "n": measures[0].n if measures else 0}
        for m in measures:
            for name, value in ((m.name, m.value), (f"{m.name} low", m.low), (f"{m.name} high", m.high)):
                row[name] = None if value is None else round(value, 6)
        chosen = "yes" if choice.n else "by default"
        rows.append(row | {"gold out of reach": choice.lacking, "chosen": chosen if mode == choice.mode else ""})
    return rows
