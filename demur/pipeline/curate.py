"""Sources -> release: the three stages of VLM-DeflectionBench, asking only what can still matter.

    pool -> Stage I (gates without evidence) -> Stage II (mine distractors) -> Stage III (quality) -> freeze

What every gate said is kept in ``build/journal.jsonl`` as it is said, keyed by gate, question content and
judge: a killed build goes on where it was, and a later build with more gates asks only what is new. The
release itself holds nothing that depends on the order of work.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from demur.answers import holds
from demur.curation.funnel import HELD, Fate, Gate, Life, Probe, Stage
from demur.curation.gate import Label, unknown_without_evidence
from demur.curation.mine import mine_text, mine_visual
from demur.curation.near import looks_of
from demur.curation.recipe import BuildRecipe, GateSpec
from demur.curation.release import FunnelStep, Release, freeze, verify
from demur.errors import ReleaseError, UsageError
from demur.indexing.build import build_index
from demur.indexing.encoders import Encoder, open_encoder
from demur.indexing.pixels import rgb
from demur.pipeline.evaluate import Judge
from demur.pipeline.parts import Recogniser, captioned, embedder, open_judge
from demur.pipeline.pool import Pool, load_pool
from demur.pipeline.steps import QUIET, Steps
from demur.records import Ask, Document, Drop, Hit, ImageRef, Modality, Response, Sample, Status, Verdict
from demur.retrieval.recall import Choice, best_mode
from demur.retrieval.search import Query, Searcher
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe, single
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import Kit, System, open_system
from demur.store import JsonlLog, Problems, digest, read_image, read_jsonl

IMAGE_MODES = ("image->title", "image->title+summary", "image->image")
"""How a query image may find pages (001, appendix H: titles, titles and summaries, page images)."""
TEXT_MODES = ("text->text", "lexical", "fused")
"""How a text question may find passages."""
ALONGSIDE = 64


class Built(NamedTuple):
    """A finished build."""

    release: Release
    funnel: list[FunnelStep]
    recall: list[dict[str, Any]]
    asked: dict[str, int]
    """gate -> questions put to it by this run (those answered before are not asked again)."""


class _Told(NamedTuple):
    label: Label
    answer: str
    why: str


class _Panel:
    """The gates of a build, asked through one journal."""

    def __init__(
        self, systems: Mapping[str, System], specs: Mapping[str, GateSpec], judge: Judge, journal: Path
    ) -> None:
        self.systems = systems
        self.asked: Counter[str] = Counter()
        self._prompts = Prompts()
        self._conditions = {name: condition(spec.condition) for name, spec in specs.items()}
        self._judge = judge
        self._known: dict[str, _Told] = {}
        if journal.exists():
            for _, line in read_jsonl(journal, Problems()):
                self._known[line["key"]] = _Told(Label(line["label"]), line["answer"], line["why"])
        self._journal = JsonlLog(journal)
        self._free = asyncio.Semaphore(ALONGSIDE)

    def close(self) -> None:
        self._journal.close()

    async def label(self, sample: Sample, probe: Probe, seed: int) -> Label:
        """One gate's label for one probe; asked at most once in the life of a build folder."""
        system = self.systems[probe.gate]
        ask = self._ask(sample, probe, seed)
        if system.takes(ask):
            return Label.SKIPPED
        key = digest([system.id, self._judge.id, ask.id], 24)
        if key not in self._known:
            async with self._free:
                told = await self._put(system, ask, sample)
            self.asked[probe.gate] += 1
            if told is None:  # no answer could be had; the next run of the build asks again
                return Label.UNGRADED
            self._known[key] = told
            self._journal.append({
                "key": key, "gate": probe.gate, "sample": sample.id, "stage": probe.stage.value,
                "evidence": probe.distractor, "label": told.label.value, "answer": told.answer, "why": told.why,
            })  # fmt: skip
        return self._known[key].label

    async def _put(self, system: System, ask: Ask, sample: Sample) -> _Told | None:
        for _ in range(2):  # an answer that cannot be graded is asked for once more, then the sample is held out
            response: Response = await system.answer(ask)
            said = self._judge.grade(ask, response, sample.answers)
            verdict: Verdict = await said if inspect.isawaitable(said) else said
            if verdict.status is Status.GRADED and verdict.outcome is not None:
                return _Told(Label(verdict.outcome.value), response.text[:300], verdict.reason)
        return None if response.error else _Told(Label.UNGRADED, response.text[:300], _why(verdict))

    def _ask(self, sample: Sample, probe: Probe, seed: int) -> Ask:
        if probe.stage is Stage.DISTRACTOR:
            made = single(sample, probe.distractor, seed)
        else:
            text = "parametric" if probe.stage is Stage.PARAMETRIC else "oracle"
            found = context(sample, recipe(text), seed)
            if found is None:
                raise UsageError("has no gold evidence", item=sample.id, cure="leave it out of the source")
            made = found
        return make_ask(sample, made, self._conditions[probe.gate], self._prompts)


def _why(verdict: Verdict) -> str:
    return verdict.reason or verdict.status.value


def curate(
    plan: BuildRecipe,
    out: Path,
    *,
    base: Path = Path(),
    skip_bad: bool = False,
    steps: Steps = QUIET,
    encoder: Encoder | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
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

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: the recipe names parts that do not exist, or nothing survived.
        ReleaseError: the frozen folder did not pass its own verification (a defect of demur).
    """
    return asyncio.run(_curate(plan, out, base, skip_bad, steps, encoder, dict(models or {})))


async def _curate(
    plan: BuildRecipe,
    out: Path,
    base: Path,
    skip_bad: bool,
    steps: Steps,
    encoder: Encoder | None,
    models: dict[str, Mapping[str, Any]],
) -> Built:
    steps.stage("read the sources")
    pool = load_pool(plan.sources, base=base, links=out / "build" / "images", seed=plan.seed, skip_bad=skip_bad)
    judge = open_judge(plan.judge)
    encoder = encoder or open_encoder(plan.retrieval.encoder)

    def read(ref: ImageRef) -> bytes:
        return read_image(ref, pool.root)

    kit = Kit(
        read_image=read,
        embed=embedder(encoder),
        recognise=Recogniser(encoder, captioned(pool.documents), read),
        pool=pool.samples,
        ledger=out / "build" / "calls.sqlite",
    )
    specs = {spec.name or spec.system: spec for spec in plan.gates}
    async with AsyncExitStack() as stack:
        systems = {}
        for name, spec in specs.items():
            options = {**spec.options, **models.get(name, {})}
            address = str(options.pop("system", spec.system))
            system = open_system(address, Kit(**{**vars(kit), "options": options}))
            stack.push_async_callback(system.close)
            systems[name] = system
        panel = _Panel(systems, specs, judge, out / "build" / "journal.jsonl")
        stack.callback(panel.close)
        gates = [Gate(name, frozenset(spec.stages), spec.cost) for name, spec in specs.items()]
        lives = {s.id: Life(gates, (), plan.rules.rules()) for s in pool.samples}
        samples = {s.id: s for s in pool.samples}

        # Stage I needs no index: the gates are asked while another thread embeds the knowledge base.
        steps.stage("index, and ask the gates without evidence")
        index = asyncio.create_task(asyncio.to_thread(_index, pool, encoder, out / "index", skip_bad, steps))
        try:
            await _waves(panel, samples, lives, plan.seed, steps, {Stage.PARAMETRIC})
        finally:
            await index
        survivors = [s for s in pool.samples if lives[s.id].passed(Stage.PARAMETRIC)]

        steps.stage("mine distractors")
        searcher = Searcher(out / "index", encoder)
        documents = {d.id: d for d in pool.documents}
        choices, mined, drops = await asyncio.to_thread(_mine, plan, pool, survivors, documents, searcher, steps)
        for sample in survivors:
            samples[sample.id] = mined[sample.id]
            lives[sample.id].distractors = [e.id for e in mined[sample.id].negatives]

        steps.stage("quality control")
        await _waves(panel, samples, lives, plan.seed, steps, set(Stage))

    fates = {i: _certain(life.fate()) for i, life in lives.items()}
    kept = [_finished(samples[i], fate) for i, fate in fates.items() if fate.kept]
    drops = [d for d in drops if fates[d.sample].kept]
    for i, fate in fates.items():
        if fate.kept:
            drops += [Drop(sample=i, evidence=e, stage="distractor", reason=why) for e, why in fate.lost]
        else:
            drops.append(Drop(sample=i, stage=fate.stage, reason=fate.why))
    funnel = _funnel(pool, fates)
    recall = [row for choice in choices for row in _recall_rows(choice)]
    steps.stage("freeze and verify the release")
    about = _about(plan, pool, encoder, searcher, systems, judge, lives, choices)
    freeze(
        out / "release", name=plan.name, version=plan.version, samples=kept, read_image=read, drops=drops,
        funnel=funnel, recall=recall, about=about,
    )  # fmt: skip
    release = Release.open(out / "release")
    wrong = verify(release, holds=holds)
    if wrong:
        raise ReleaseError(
            f"the frozen release does not verify: {'; '.join(wrong[:5])}", item=str(out / "release"), cure="report this"
        )
    return Built(release, funnel, recall, dict(panel.asked))


async def _waves(
    panel: _Panel,
    samples: Mapping[str, Sample],
    lives: Mapping[str, Life],
    seed: int,
    steps: Steps,
    stages: set[Stage],
) -> None:
    """Ask, wave by wave, all that is still wanted in these stages; each wave holds probes of every sample."""
    done = 0
    while True:
        wanted = [(i, p) for i, life in lives.items() for p in life.wanted() if p.stage in stages]
        if not wanted:
            return

        async def one(sample: str, probe: Probe) -> None:
            nonlocal done
            lives[sample].tell(probe, await panel.label(samples[sample], probe, seed))
            done += 1
            steps.count("questions to gates", done, 0)

        try:
            async with asyncio.TaskGroup() as group:
                for i, probe in wanted:
                    group.create_task(one(i, probe))
        except* Exception as errors:  # the group wraps what ended it; the first is what happened
            raise errors.exceptions[0] from None


def _index(pool: Pool, encoder: Encoder, out: Path, skip_bad: bool, steps: Steps) -> None:
    build_index(
        pool.documents, encoder, out, image_root=pool.root, skip_bad=skip_bad,
        progress=lambda what, done, total: steps.count(what, done, total),
    )  # fmt: skip


# --- Stage II ------------------------------------------------------------------------------------


def _mine(
    plan: BuildRecipe,
    pool: Pool,
    survivors: Sequence[Sample],
    documents: Mapping[str, Document],
    searcher: Searcher,
    steps: Steps,
) -> tuple[list[Choice], dict[str, Sample], list[Drop]]:
    """Choose the best retrieval modes on the whole pool, then mine for the survivors."""
    spec = plan.retrieval
    looks = looks_of(pool.root)
    choices: list[Choice] = []
    mined: dict[str, Sample] = {}
    drops: list[Drop] = []
    for source in dict.fromkeys(s.source for s in pool.samples):
        mine = [s for s in pool.samples if s.source == source]
        by_image = _choose(source, "image", [s for s in mine if s.images], spec, documents, searcher, pool.root)
        by_text = _choose(
            source,
            "text",
            [s for s in mine if not s.images and _gold(s, Modality.TEXT)],
            spec,
            documents,
            searcher,
            pool.root,
        )
        choices += [c for c in (by_image, by_text) if c is not None]
        todo = [s for s in survivors if s.source == source]
        done = 0
        for batch in _batches(todo, 64):
            text_hits = _text_hits(batch, by_image, by_text, spec.pages, spec.text * 4, searcher, pool.root)
            look_hits = _look_hits(batch, spec.visual * 6, searcher, pool.root)
            for sample in batch:
                taken = list(sample.negatives) if spec.native else []
                base = sample.model_copy(update={"negatives": tuple(taken)})
                for found in (
                    mine_text(base, text_hits.get(sample.id, ()), documents, limit=spec.text) if spec.text else None,
                    mine_visual(base, look_hits.get(sample.id, ()), documents, looks=looks, limit=spec.visual)
                    if spec.visual
                    else None,
                ):
                    if found is not None:
                        taken += found.negatives
                        drops += found.drops
                mined[sample.id] = sample.model_copy(update={"negatives": tuple(taken)})
            done += len(batch)
            steps.count("samples mined", done, len(todo))
    return choices, mined, drops


def _gold(sample: Sample, modality: Modality) -> bool:
    return any(e.modality is modality for e in sample.gold)


def _batches(items: Sequence[Sample], size: int) -> Iterable[Sequence[Sample]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _query(sample: Sample, root: Path) -> Query:
    image = rgb(read_image(sample.images[0], root), sample.images[0].uri) if sample.images else None
    return Query(text=sample.question, image=image)


def _choose(
    source: str,
    kind: str,
    samples: Sequence[Sample],
    spec: Any,
    documents: Mapping[str, Document],
    searcher: Searcher,
    root: Path,
) -> Choice | None:
    """Recall of gold for every mode that this kind of question can be asked in; the best is chosen."""
    modes: tuple[str, ...] = IMAGE_MODES if kind == "image" else TEXT_MODES
    if spec.modes != "best":
        modes = tuple(m for m in modes if m in spec.modes) or modes
    modes = tuple(m for m in modes if m in searcher.modes)
    if not samples or not modes:
        return None
    found: dict[str, list[list[str]]] = {m: [] for m in modes}
    for batch in _batches(samples, 64):
        queries = [_query(s, root) for s in batch]
        for mode in modes:
            hits = searcher.search(queries, mode, 40 if mode == "image->image" else 20)
            ids = [[h.document for h in line] for line in hits]
            found[mode] += [searcher.pages_of(line) for line in ids] if mode == "image->image" else ids
    if kind == "image":
        gold = [{documents[e.id].page or e.id for e in s.gold if e.id in documents} for s in samples]
    else:
        gold = [{e.id for e in s.gold} for s in samples]
    label = f"{source}: {'pages by query image' if kind == 'image' else 'passages by question'}"
    return best_mode(label, found, gold, at=spec.pages if kind == "image" else 10)


def _text_hits(
    batch: Sequence[Sample],
    by_image: Choice | None,
    by_text: Choice | None,
    pages: int,
    k: int,
    searcher: Searcher,
    root: Path,
) -> dict[str, list[Hit]]:
    """Passages for each sample: image -> pages -> passages by the question; or the question -> passages."""
    if k < 1:
        return {}
    hits: dict[str, list[Hit]] = {}
    with_image = [s for s in batch if s.images and by_image is not None]
    if with_image and by_image is not None:
        queries = [_query(s, root) for s in with_image]
        found = searcher.search(queries, f"{by_image.mode}/text->text", k, pages=pages)
        hits |= dict(zip((s.id for s in with_image), found, strict=True))
    rest = [s for s in batch if s.id not in hits]
    if rest:
        found = searcher.search([Query(text=s.question) for s in rest], by_text.mode if by_text else "text->text", k)
        hits |= dict(zip((s.id for s in rest), found, strict=True))
    return hits


def _look_hits(batch: Sequence[Sample], k: int, searcher: Searcher, root: Path) -> dict[str, list[Hit]]:
    """Images that look like the query image; like the gold image, where the question is text."""
    if k < 1 or "image->image" not in searcher.modes:
        return {}
    asked: list[tuple[str, ImageRef]] = []
    for sample in batch:
        gold = [e.image for e in sample.gold if e.image is not None]
        image = sample.images[0] if sample.images else gold[0] if gold else None
        if image is not None:
            asked.append((sample.id, image))
    queries = [Query(image=rgb(read_image(image, root), image.uri)) for _, image in asked]
    found = searcher.search(queries, "image->image", k)
    return dict(zip((i for i, _ in asked), found, strict=True))


# --- what is said of it --------------------------------------------------------------------------


def _certain(fate: Fate | None) -> Fate:
    if fate is None:
        raise ReleaseError("a sample's fate is open although nothing more is asked", cure="report this")
    return fate


def _finished(sample: Sample, fate: Fate) -> Sample:
    stay = set(fate.survivors)
    return sample.model_copy(update={"negatives": tuple(e for e in sample.negatives if e.id in stay)})


def _funnel(pool: Pool, fates: Mapping[str, Fate]) -> list[FunnelStep]:
    """Counts per stage; they add up: what a stage kept is what the next one entered with."""
    total = sum(pool.sizes.values())
    chosen = len(pool.samples)
    steps = [FunnelStep(stage="pool", entered=total, kept=chosen, dropped=_some({"not drawn": total - chosen}))]
    left = list(fates.values())
    for name, stages in (
        ("I parametric gate", {"parametric"}),
        ("III solvable with gold", {"solvable"}),
        ("III distractors", {"distractors"}),
        ("verdicts had", {HELD}),
    ):
        gone = [f for f in left if f.stage in stages]
        steps.append(
            FunnelStep(
                stage=name, entered=len(left), kept=len(left) - len(gone), dropped=dict(Counter(f.why for f in gone))
            )
        )
        left = [f for f in left if f.stage not in stages]
    return steps


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {k: v for k, v in counts.items() if v}


def _recall_rows(choice: Choice) -> list[dict[str, Any]]:
    rows = []
    for mode, measures in choice.table:
        row: dict[str, Any] = {"queries": choice.source, "mode": mode, "n": measures[0].n if measures else 0}
        for m in measures:
            value = "-" if m.value is None else f"{m.value:.3f} [{m.low or 0:.3f}, {m.high or 0:.3f}]"
            row[m.name] = value
        rows.append(row | {"chosen": "yes" if mode == choice.mode else ""})
    return rows


def _about(
    plan: BuildRecipe,
    pool: Pool,
    encoder: Encoder,
    searcher: Searcher,
    systems: Mapping[str, System],
    judge: Judge,
    lives: Mapping[str, Life],
    choices: Sequence[Choice],
) -> dict[str, Any]:
    stage_one = [life.of(Stage.PARAMETRIC) for life in lives.values() if life.passed(Stage.PARAMETRIC)]
    return {
        "recipe": plan.model_dump(mode="json", exclude={"gates": {"__all__": {"options"}}}),
        "seed": plan.seed,
        "pools": pool.sizes,
        "chosen_from_pool": len(pool.samples),
        "skipped_bad": pool.skipped,
        "encoder": {"name": encoder.name, "note": encoder.note, "fingerprint": encoder.fingerprint()},
        "index": searcher.id,
        "retrieval_modes": {c.source: c.mode for c in choices},
        "judge": judge.id,
        "models": {name: system.note or system.id for name, system in systems.items()} | {encoder.name: encoder.note},
        "prompts": Prompts().sha256,
        "stage_one": {
            "kept": len(stage_one),
            "kept_by_the_literal_rule": sum(
                unknown_without_evidence(labels, "literal") is True for labels in stage_one
            ),
        },
        "limits": list(plan.limits),
        "authors": list(plan.authors),
    }
