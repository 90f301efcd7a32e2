"""A release and systems by name -> runs: what `demur run`, `demur sweep` and `demur demo` have in common."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import ImageRef, Sample
from demur.core.store import file_digest, seed_of
from demur.evaluation.caps import Caps
from demur.evaluation.preflight import require_ready
from demur.evaluation.run_folder import Task, known_answers
from demur.evaluation.runner import ALONGSIDE, plan, run
from demur.indexing.encoders import open_encoder
from demur.judge.base import Judge, JudgeContext, open_judge
from demur.models.run import run_sync
from demur.release import Release
from demur.release.corpora import Corpora
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.contexts import Recipe
from demur.scenarios.recognise import Embedder, Recogniser
from demur.scenarios.systems import System, SystemContext, SystemLike, name_of, open_system, split_name
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder
    from demur.models import Budget, Estimate

NEEDS_ENCODER = ("reader", "prior")
"""Systems that read with sentence embeddings."""


def drawn(samples: Sequence[Sample], limit: int | None, seed: int, *, text_only: bool = False) -> list[Sample]:
    """All samples, or ``limit`` of them drawn by the seed, in the order of the release.

    Args:
        samples: of a release.
        limit: how many; None for all.
        seed: decides which.
        text_only: draw among those alone that a text-only model can be asked in every scenario.

    Raises:
        UsageError: ``limit`` is below 1.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}", cure="leave it out to ask all")
    possible = [s for s in samples if not text_only or (not s.images and all(e.image is None for e in s.gold))]
    if limit is None or limit >= len(possible):
        return possible
    chosen = {s.id for s in random.Random(seed_of(seed, "limit")).sample(possible, limit)}
    return [s for s in possible if s.id in chosen]


def folder_name(system: str) -> str:
    """A system's name as a folder: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", system).strip("-.") or "system"


def system_context(
    release: Release, encoder: Encoder | None, samples: Sequence[Sample], prompts: Prompts, **more: Any
) -> SystemContext:
    """What systems need from their surroundings when they are asked from a release."""
    if encoder is None:
        return SystemContext(read_image=release.read_image, pool=samples, prompts=prompts, **more)
    known = [
        (str(d["title"]), ImageRef(sha256=d["sha256"], uri="", width=d["width"], height=d["height"]))
        for d in release.documents.values()
        if d["sha256"] and d["text"] is None
    ]
    return SystemContext(
        read_image=release.read_image,
        embed=Embedder(encoder),
        recognise=Recogniser(encoder, known, release.read_image),
        pool=samples,
        prompts=prompts,
        **more,
    )


MOST_ASKED = 20_000_000
"""Questions of a command; more are a slip of the hand, and their plan alone would fill the memory."""


def tasks_of(
    samples: Sequence[Sample],
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    prompts: Prompts,
    seed: int,
    repeat: int = 1,
    corpora: Corpora | None = None,
) -> list[Task]:
    """The plan of a run; ``corpora`` as for `ask`.

    Raises:
        UsageError: no sample can be asked this way, or ``repeat`` is below 1.
    """
    if repeat < 1:
        raise UsageError(f"repeat {repeat}", cure="give 1 or more")
    most = len(samples) * len(recipes) * len(conditions) * repeat
    if most > MOST_ASKED:
        raise UsageError(
            f"{len(samples):,} samples in {len(recipes):,} scenarios, {len(conditions):,} conditions and {repeat:,} "
            f"repeats are {most:,} questions, more than {MOST_ASKED:,}",
            cure="ask a part: --limit, fewer scenarios, fewer repeats",
        )
    tasks = list(plan(samples, recipes, conditions, prompts, seed, repeat, corpora))
    if not tasks:
        raise UsageError(
            "no sample of the release can be asked this way",
            item=", ".join(map(str, recipes)),
            cure="choose other scenarios, fewer distractors or another modality",
        )
    return tasks


def ask(
    release: Release,
    systems: Sequence[SystemLike],
    out: Path,
    *,
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    judge: str = "rules",
    seed: int = 0,
    limit: int | None = None,
    text_only: bool = False,
    repeat: int = 1,
    corpora: Path | None = None,
    prompts: Prompts | None = None,
    encoder: Encoder | None = None,
    encoder_name: str = "",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Mapping[str, str] | None = None,
    ledger: Path | None = None,
    alongside: int = ALONGSIDE,
    concurrency: int | None = None,
    budget: Budget | None = None,
    prices: Path | None = None,
    steps: Progress = QUIET,
    fresh: bool = False,
    minutes: float | None = None,
) -> list[Path]:
    """Run systems over a release, one run folder each under ``out``; what was begun goes on.

    Before the first is asked, all of them are opened, and seen to be ready (`demur.evaluation.preflight`).

    Args:
        release: opened.
        systems: by name, with ``NAME=`` before it or without, or at hand (a function, an object); called by `name_of`
            in ``options`` and ``notes``.
        out: folder of the run folders.
        recipes: context sets to ask in.
        conditions: prompting conditions.
        judge: by name.
        seed: of whatever is drawn.
        limit: ask a random part of the samples; None for all.
        text_only: draw that part among samples that a text-only model can be asked.
        repeat: independent answers to each question.
        corpora: what `demur.release.corpora.export` wrote for the scenarios full, gold-removed and empty; without it
            nothing is known of what else states an answer, and gold alone is to be left out.
        prompts: texts; the package's when None.
        encoder: for systems that read with embeddings; opened by ``encoder_name`` when they need one.
        encoder_name: the release's own encoder when empty.
        options: system -> sampling, layout, ``name``, ``note``.
        notes: system -> what a reader of its figures must know besides its own note.
        ledger: where model calls are kept.
        alongside: asks in flight at once.
        concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
        budget: stops the run, resumable, before its money is passed; what earlier commands spent on the same run
            folders counts. What is spent is counted in ``out/calls.sqlite``, also without a budget.
        prices: price table that overlays the shipped one.
        steps: told what happens.
        fresh: ask everything again: run folders that are there go aside, and kept replies of models to these questions
            are forgotten, so that they are paid again.
        minutes: after which no new question is asked; the same call goes on.

    Returns:
        The run folders, in the order of ``systems``.

    Raises:
        BudgetReached: minutes or money are over, and questions are left.
    """
    caps = Caps(minutes, None if budget is None else budget.money)
    prompts = prompts or Prompts()
    kept = ledger or out / "calls.sqlite"
    judge_context = JudgeContext(kept, concurrency, prices=prices, read_image=release.read_image)
    grader = open_judge(judge, judge_context)
    everything = list(release.samples())
    tasks = tasks_of(
        drawn(everything, limit, seed, text_only=text_only), recipes, conditions, prompts, seed, repeat,
        None if corpora is None else Corpora(corpora, release.sha256),
    )  # fmt: skip
    names = _names(systems, repeat, options or {})
    if encoder is None and any(_kind(system) in NEEDS_ENCODER for system in systems):
        stated = str(release.manifest.get("encoder", {}).get("name", "offline"))
        encoder = open_encoder(encoder_name or stated, from_file=not encoder_name)
    about = {
        "release": {"name": release.name, "version": release.version, "sha256": release.sha256},
        "seed": seed,
        "limit": limit,
        "recipes": [str(r) for r in recipes],
        "conditions": [str(c) for c in conditions],
        **({} if corpora is None else {"corpora": file_digest(corpora / "corpora.json")}),
        "prompts": {str(c): prompts.used(c) for c in conditions},
        **({"repeat": repeat} if repeat > 1 else {}),
    }
    opened = []
    for name, system in zip(names, systems, strict=True):
        called = split_name(system)[0]
        given = {**({"name": called} if called else {}), **(options or {}).get(name, {})}
        context = system_context(
            release, encoder, everything, prompts, ledger=kept, options=given, concurrency=concurrency, prices=prices,
        )  # fmt: skip
        opened.append(Opened.of(system, context, caveat=(notes or {}).get(name, "")))
    return ask_opened(
        opened, tasks, grader, out, about=about, ledger=kept, budget=budget, judge_context=judge_context, steps=steps,
        fresh=fresh, alongside=max(alongside, concurrency or 0), caps=caps,
    )  # fmt: skip


def _kind(system: SystemLike) -> str:
    spec = split_name(system)[1]
    return spec.partition(":")[0] if isinstance(spec, str) else ""


def _names(systems: Sequence[SystemLike], repeat: int, options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the systems are called, each once.

    Raises:
        UsageError: one is named twice, or would give the same answer at every repeat.
    """
    names = [name_of(system) for system in systems]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError("a system is named twice", item=twice[0], cure="name each once")
    if same := [name for name in names if repeat > 1 and options.get(name, {}).get("temperature") == 0]:
        raise UsageError(
            "repeats at temperature 0 get the same answer again", item=same[0], cure="raise the temperature"
        )
    return names


class Opened(NamedTuple):
    """A system that is open, what it was opened with, what its folder is called, and what its figures' readers must
    know.
    """

    system: System
    context: SystemContext
    label: str
    caveat: str = ""

    @classmethod
    def of(cls, system: SystemLike, context: SystemContext, *, caveat: str = "") -> Opened:
        """Open a system with a context."""
        made = open_system(system, context)
        return cls(made, context, str(context.options.get("name") or made.id), caveat)


def ask_opened(
    opened: Sequence[Opened],
    tasks: Sequence[Task],
    judge: Judge,
    out: Path,
    *,
    about: Mapping[str, Any],
    ledger: Path,
    budget: Budget | None = None,
    judge_context: JudgeContext | None = None,
    steps: Progress = QUIET,
    fresh: bool = False,
    alongside: int = ALONGSIDE,
    caps: Caps | None = None,
) -> list[Path]:
    """Run opened systems over tasks, one run folder each under ``out``: what releases and suites have in common.

    All of them share the money and are seen to be ready before the first is asked; all are closed at the end.

    Args:
        opened: who is asked.
        tasks: what.
        judge: who grades.
        out: folder of the run folders.
        about: what manifests say beside system and judge.
        ledger: where model calls are kept.
        budget: of all of them together.
        judge_context: the context of a judge that asks a model; it gets its share of the money.
        steps: told what happens.
        fresh: reuse nothing.
        alongside: asks in flight at once.
        caps: of time, and of money that services say they cost.
    """
    if getattr(judge, "asks_models", False) or any(isinstance(one.system, ModelSystem) for one in opened):
        from demur.models import Budget

        budget = (budget or Budget(None)).recorded_in(out / "calls.sqlite")
        for one in opened:  # all of them before the first is asked: they share the money
            one.context.budget = budget.sub_budget(folder_name(one.label))
        if judge_context is not None:
            judge_context.budget = budget.sub_budget("judge")
    left: dict[str, System] = {}
    for one in opened:
        had = {} if fresh else known_answers(out / folder_name(one.label), one.system)
        if any(t.ask.id not in had and not one.system.skip_reason(t.ask) for t in tasks):
            left[one.label] = one.system  # a finished run can be looked at when its server is gone
    others = {f"the judge {judge.id}": judge} if left else {}  # of a finished run the verdicts are kept
    for line in require_ready(left, [t.ask for t in tasks], others):
        steps.warn(line)
    folders = []
    try:
        for one in opened:
            if fresh and isinstance(one.system, ModelSystem):
                _forget(one.system, tasks, ledger)
            folders.append(
                run(
                    out / folder_name(one.label),
                    system=one.system,
                    judge=judge,
                    tasks=tasks,
                    about={**about, "caveat": one.caveat},
                    progress=_progress(steps, one.system, one.label, len(tasks)),
                    note=steps.note,
                    alongside=alongside,
                    fresh=fresh,
                    caps=caps,
                )
            )
    finally:
        for one in opened:  # also those that had nothing to be asked, or whose turn did not come
            run_sync(one.system.close())
    return folders


def _forget(system: ModelSystem, tasks: Sequence[Task], ledger: Path) -> None:
    """Drop the kept replies of a model to these questions."""
    from demur.models.identity import request_key
    from demur.models.ledger import Ledger

    if not ledger.exists():
        return
    asked = [task.ask for task in tasks if not system.skip_reason(task.ask)]
    with Ledger(ledger) as opened:
        if type(system) is not ModelSystem:  # several calls a question, known when they are made
            opened.drop_items([ask.id for ask in asked], system.models)
            return
        for ask in asked:
            request = system.request(ask)
            opened.drop(request_key(request, request.model, system.weights))


def _progress(steps: Progress, system: System, label: str, total: int) -> Callable[[int], None]:
    return lambda n: steps.count(f"answers of {label}", n, total, str(getattr(system, "summary", "")))


def planned(
    release: Release,
    systems: Sequence[str],
    *,
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    seed: int = 0,
    limit: int | None = None,
    text_only: bool = False,
    repeat: int = 1,
    corpora: Path | None = None,
    prompts: Prompts | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    ledger: Path,
    prices: Path | None = None,
    per_second: float | None = None,
) -> Estimate:
    """What `ask` would ask with the same arguments: a line per model, and one per system of the user's own.

    The latter are opened, so that a name that does not exist is told now. They cost no money that is known here, and
    their time is known from ``per_second`` alone. The built-in systems compute their answers, and have no line.

    Args:
        release: opened.
        systems: by name.
        recipes: context sets to ask in.
        conditions: prompting conditions.
        seed: of whatever is drawn.
        limit: as for `ask`.
        text_only: as for `ask`.
        repeat: as for `ask`.
        corpora: as for `ask`.
        prompts: texts; the package's when None.
        options: as for `ask`.
        ledger: what is kept there is not paid again.
        prices: price table that overlays the shipped one.
        per_second: replies a second, for the time.
    """
    from demur.models import Estimate, EstimateLine
    from demur.models.estimate import estimate_calls

    prompts = prompts or Prompts()
    samples = drawn(list(release.samples()), limit, seed, text_only=text_only)
    of = None if corpora is None else Corpora(corpora, release.sha256)
    tasks = tasks_of(samples, recipes, conditions, prompts, seed, repeat, of)
    total = Estimate()
    for name, system_text in zip(_names(systems, repeat, options or {}), systems, strict=True):
        called, spec = split_name(system_text)
        kind = _kind(spec)
        if kind in (*NEEDS_ENCODER, "answers"):
            continue
        if kind != "model":
            own = open_system(spec, system_context(release, None, samples, prompts))
            had = known_answers(ledger.parent / folder_name(called or own.id), own)
            calls = [t.ask.id for t in tasks if not own.skip_reason(t.ask)]
            cached = sum(i in had for i in calls)
            seconds = None if per_second is None else (len(calls) - cached) / per_second
            line = EstimateLine(stage="run", model=own.id, calls=len(calls), cached=cached, money=0.0, seconds=seconds)
            total += Estimate(lines=(line,), notes=(f"what {own.id} itself pays for is not known here",))
            continue
        system = ModelSystem(
            str(spec).partition(":")[2],
            SystemContext(read_image=release.read_image, prompts=prompts, options=dict((options or {}).get(name, {}))),
        )
        requests = (system.request(t.ask) for t in tasks if not system.skip_reason(t.ask))
        total += estimate_calls(
            "run", system.addresses[0], requests, ledger=ledger, prices=prices, per_second=per_second
        )
    return total
