"""What a build works with: pool, knowledge bases, judge, gates and monitors, opened before the first call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack

from demur.core.errors import DemurError, UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import ImageRef, Sample
from demur.core.spec import split_part
from demur.core.store import locked, storage_errors
from demur.core.uris import read_image
from demur.curation.build.decisions import FILE as DECISIONS
from demur.curation.build.folder import FolderRecipe, record_recipe
from demur.curation.build.inputs import Inputs, read_inputs
from demur.curation.build.knowledge_bases import KnowledgeBase
from demur.curation.build.recipe import BuildRecipe
from demur.curation.build.sample_pool import SampledPool
from demur.curation.build.topics import need_bertopic
from demur.curation.gates.funnel import GateQuery, SampleState, Stage
from demur.curation.gates.rules import Label
from demur.curation.gates.runner import GateQuestions, GateRunner, model_options
from demur.curation.gates.scheduler import ask_in_waves, ask_states
from demur.curation.gates.spec import GateSpec
from demur.evaluation.preflight import preflight
from demur.indexing.encoders import Encoder, check_encoder_name, open_encoder
from demur.indexing.gpu import load_faiss
from demur.judge.base import Judge, JudgeContext, open_judge
from demur.models.batch import batches_of_command
from demur.models.run import run_sync
from demur.scenarios.conditions import Prompts
from demur.scenarios.recognise import Embedder, Recogniser, captioned
from demur.scenarios.systems import System, SystemContext, open_system
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.indexing.ray import RayEngine
    from demur.models import Budget

JUDGE = "the judge"
"""Its name where it is checked beside the gates."""


T = TypeVar("T")


class BuildContext(NamedTuple):
    """Everything that a build works with, open."""

    recipe: BuildRecipe
    out: Path
    skip_bad: bool
    steps: Progress
    pool: SampledPool
    judge: Judge
    encoder: Encoder
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]]
    runner: GateRunner
    prompts: Prompts
    bases: Mapping[str, KnowledgeBase]
    """Source -> its knowledge base."""
    namer: ModelSystem | None = None
    """The model that names topics."""

    def read(self, ref: ImageRef) -> bytes:
        """Bytes behind an image reference of the pool."""
        return read_image(ref, self.pool.root)


class Work(TypedDict, total=False):
    """Options of any work on a build folder: of `curate`, `measure_convergence` and `open_context`."""

    base: Path
    """Folder that the recipe's relative paths start from; default: the current one."""
    skip_bad: bool
    """Leave bad records out and count them."""
    steps: Progress
    """Receives progress and warnings."""
    encoder: Encoder | None
    """An open encoder; None opens the recipe's."""
    models: Mapping[str, Mapping[str, Any]] | None
    """Gate name -> options that override its spec (the address of a server that was started just now)."""
    budget: Budget | None
    """Stops the work, resumable, before the limit is passed; earlier spending in the same folder counts. Spending is
    recorded in ``build/calls.sqlite``, also without a budget."""
    prices: Path | None
    """Price table that overlays the shipped one."""
    engine: RayEngine | None
    """Embeds and searches knowledge bases; None is this process."""
    concurrency: int | None
    """Calls at once to each endpoint and function; None: 8, and 1 for a plain function."""


def open_inputs(recipe: BuildRecipe, out: Path, work: Work) -> tuple[Encoder, Inputs]:
    """Record the recipe in the build folder, open its encoder, and read its sources."""
    for need in _packages(recipe).values():  # reported before the sources are read
        need()
    steps = work.get("steps", QUIET)
    steps.stage("read the sources")
    stated = FolderRecipe(recipe, work.get("base", Path()), work.get("skip_bad", False), out)
    record_recipe(recipe, out, base=stated.base, skip_bad=stated.skip_bad)
    encoder = work.get("encoder") or open_encoder(recipe.retrieval.encoder)
    return encoder, read_inputs(stated, encoder=encoder, engine=work.get("engine"), steps=steps)


@asynccontextmanager
async def open_context(
    recipe: BuildRecipe, out: Path, **work: Unpack[Work]
) -> AsyncIterator[BuildContext]:
    """Read the sources, and open judge, encoder, gates and monitors."""
    steps, folder = work.get("steps", QUIET), out / "build"
    judge_context = JudgeContext(
        folder / "calls.sqlite", work.get("concurrency"), prices=work.get("prices")
    )
    judge = open_judge(recipe.judge, judge_context)
    encoder, (pool, bases) = open_inputs(recipe, out, work)
    embed = Embedder(encoder)
    context = replace(_system_context(pool, encoder, folder, work), embed=embed)
    judge_context.budget = context.budget
    specs = {s.id: s for s in (*recipe.gates, *recipe.monitors)}
    async with AsyncExitStack() as stack:
        runner = GateRunner(
            GateQuestions(specs, recipe.seed, context.prompts),
            gate_opener(specs, context, work.get("models") or {}),
            judge,
            folder / "journal.jsonl",
            max_in_flight=context.concurrency or 8,
        )
        stack.push_async_callback(runner.close)
        # report systems that cannot be opened or asked before anything is indexed
        parts: dict[str, Any] = {name: runner.system(name) for name in specs} | {JUDGE: judge}
        namer = None
        if (spec := recipe.topic_names) is not None:
            options = model_options(spec.options)
            namer = ModelSystem(split_part(spec.system)[1], replace(context, options=options))
            stack.push_async_callback(namer.close)
            parts["topic_names"] = namer
        stored = runner.met | {JUDGE} if runner.met else runner.met
        for line in await preflight(parts, stored=stored.__contains__):
            steps.warn(line)
        yield BuildContext(
            recipe=recipe,
            out=out,
            skip_bad=work.get("skip_bad", False),
            steps=steps,
            pool=pool,
            judge=judge,
            encoder=encoder,
            embed=embed,
            runner=runner,
            prompts=context.prompts,
            bases=bases,
            namer=namer,
        )


def _system_context(pool: SampledPool, encoder: Encoder, folder: Path, work: Work) -> SystemContext:
    """What gates and monitors are opened with."""
    from demur.models import Budget

    ledger, read = folder / "calls.sqlite", partial(read_image, root=pool.root)
    return SystemContext(
        read_image=read,
        pool=pool.samples,
        prompts=Prompts(),
        recognise=Recogniser(encoder, captioned(pool.full_pool.documents()), read),
        ledger=ledger,
        concurrency=work.get("concurrency"),
        budget=(work.get("budget") or Budget(None)).recorded_in(ledger),
        prices=work.get("prices"),
    )


def _packages(recipe: BuildRecipe) -> dict[str, Callable[[], object]]:
    """What needs packages that a plain install lacks -> a function that raises `MissingExtra` if they are missing."""
    retrievals = map(recipe.retrieval_of, recipe.sources)
    needs: dict[str, Callable[[], object]] = {}
    if recipe.topics == "bertopic":
        needs["topics"] = need_bertopic
    if any(r.negatives in ("mined", "both") for r in retrievals):
        needs["indexes"] = load_faiss
    return needs


async def unready(recipe: BuildRecipe) -> list[str]:
    """What a build would refuse to start for, a line each: packages, encoders, and the keys and servers of models.

    Nothing is embedded, no weights are loaded, and servers are asked for their lists of models alone. Gates that are
    no models are opened, and refused, by the estimate.
    """
    specs = {s.id: s for s in (*recipe.gates, *recipe.monitors) if s.system.startswith("model:")}
    open_gate = gate_opener(specs, SystemContext(read_image=read_image, prompts=Prompts()), {})
    retrievals = [
        recipe.retrieval,
        *(s.retrieval for s in recipe.sources if s.retrieval is not None),
    ]
    encoders = {name for each in retrievals for name in (each.encoder, each.text_encoder) if name}
    checks: dict[str, Callable[[], Any]] = {
        **{name: partial(check_encoder_name, name) for name in sorted(encoders)},
        **{name: partial(open_gate, name, 0) for name in specs},
        JUDGE: partial(open_judge, recipe.judge),
        **_packages(recipe),
    }
    lines = []
    for name, check in checks.items():
        try:
            part = check()
            lines += await preflight({name: part}) if hasattr(part, "ready") else []
        except DemurError as error:
            lines.append(str(error) if name in str(error) else f"{name}: {error}")
    return lines


def gate_opener(
    specs: Mapping[str, GateSpec], context: SystemContext, models: Mapping[str, Mapping[str, Any]]
) -> Callable[[str, int], System]:
    """A function that opens the system of a gate for a repeat: ``(name, repeat) -> System``.

    Args:
        models: name -> options that override the recipe's (``system``: another address).
    """

    def opened(name: str, draw: int) -> System:
        options = {**specs[name].options, **models.get(name, {})}
        address = str(options.pop("system", specs[name].system))
        if (
            specs[name].name
            and "name" not in options
            and not address.startswith(("prior", "reader", "answers"))
        ):
            options["name"] = name
        kind = split_part(address)[0]
        if kind == "model":
            options = model_options(options)
        elif kind in ("python", "answers", "reader", "prior") and (
            strange := sorted(set(options) - {"name"})
        ):
            raise UsageError(
                f"{kind} takes no options, but the recipe gives {', '.join(strange)}",
                item=f"gate {name}",
                cure="leave them out; a class given as module:Class reads its own from context.options",
            )
        system = open_system(address, replace(context, options=options))
        if isinstance(system, ModelSystem) and draw:
            system.sampling = {**system.sampling, "draw": draw}
        elif hasattr(inner := getattr(system, "inner", system), "draw"):
            inner.draw = draw
        return system

    return opened


async def ask_gates(
    ctx: BuildContext,
    samples: Mapping[str, Sample],
    states: Mapping[str, SampleState],
    stages: frozenset[Stage],
    *,
    hurry: bool = False,
) -> None:
    """Ask the gates everything that is still wanted in these stages (`demur.curation.gates.scheduler.ask_states`)."""
    runner = ctx.runner

    async def ask(sample: str, query: GateQuery) -> Label:
        label = await runner.label(samples[sample], query)
        ctx.steps.count(
            "questions to the gating models",
            sum(runner.questions_to_gate.values()),
            0,
            runner.so_far,
        )
        return label

    def known_label(sample: str, query: GateQuery) -> Label | None:
        return runner.known_label(samples[sample], query)

    if batches_of_command() is not None:
        plan = ctx.out / "build" / "wave.jsonl"
        await ask_in_waves(states, ask, plan, known_label=known_label, stages=stages)
        return
    await ask_states(
        states,
        ask,
        known_label=known_label,
        stages=stages,
        is_busy=runner.is_busy if hurry else None,
    )


def run_alone(work: Callable[[], Coroutine[Any, Any, T]], folder: Path, *, fresh: bool) -> T:
    """Run work on a build's folder while no other process works on it.

    Args:
        fresh: set earlier verdicts and replies aside first.

    Raises:
        UsageError: another process works on it.
    """
    with locked(folder / "lock", "building there"):
        if fresh:
            set_aside(folder)
        return run_sync(work())


def set_aside(folder: Path) -> None:
    """Move the verdicts, replies and decisions of earlier runs to a new folder in ``.earlier``."""
    had = [
        p
        for p in (folder / "journal.jsonl", folder / DECISIONS, *folder.glob("calls.sqlite*"))
        if p.exists()
    ]
    if not had:
        return
    number = 1
    while (folder / ".earlier" / str(number)).exists():
        number += 1
    with storage_errors(folder):
        (folder / ".earlier" / str(number)).mkdir(parents=True)
        for path in had:
            path.rename(folder / ".earlier" / str(number) / path.name)
