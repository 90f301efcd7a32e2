"""A release and systems by name -> runs: what `demur run`, `demur sweep` and `demur demo` have in common."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.calls.run import run_sync
from demur.curation.release import Release
from demur.errors import UsageError
from demur.indexing.encoders import open_encoder
from demur.judge.kit import JudgeKit
from demur.pipeline.evaluate import ALONGSIDE, Task, known_answers, plan, run
from demur.pipeline.parts import Embedder, Recogniser, open_judge
from demur.pipeline.preflight import see_ready
from demur.pipeline.steps import QUIET, Steps
from demur.records import ImageRef, Sample
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.contexts import Recipe
from demur.scenarios.systems import Kit, System, open_system
from demur.scenarios.systems.model import ModelSystem
from demur.store import seed_of

if TYPE_CHECKING:
    from demur.calls import Budget, Plan
    from demur.indexing.encoders import Encoder

NEEDS_ENCODER = ("reader", "prior")
"""Systems that read with sentence embeddings."""


def drawn(samples: Sequence[Sample], limit: int | None, seed: int, *, text_only: bool = False) -> list[Sample]:
    """All samples, or ``limit`` of them drawn by the seed, in the order of the release.

    Args:
        samples: of a release.
        limit: how many; None for all.
        seed: decides which.
        text_only: draw among those alone that a text-only model can be asked in every scenario.
    """
    possible = [s for s in samples if not text_only or (not s.images and all(e.image is None for e in s.gold))]
    if limit is None or limit >= len(possible):
        return possible
    chosen = {s.id for s in random.Random(seed_of(seed, "limit")).sample(possible, limit)}
    return [s for s in possible if s.id in chosen]


def folder_name(system: str) -> str:
    """A system's name as a folder: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", system).strip("-.") or "system"


def kit_of(release: Release, encoder: Encoder | None, samples: Sequence[Sample], prompts: Prompts, **more: Any) -> Kit:
    """What systems need from their surroundings when they are asked from a release."""
    if encoder is None:
        return Kit(read_image=release.read_image, pool=samples, prompts=prompts, **more)
    known = [
        (str(d["title"]), ImageRef(sha256=d["sha256"], uri="", width=d["width"], height=d["height"]))
        for d in release.documents.values()
        if d["sha256"] and d["text"] is None
    ]
    return Kit(
        read_image=release.read_image,
        embed=Embedder(encoder),
        recognise=Recogniser(encoder, known, release.read_image),
        pool=samples,
        prompts=prompts,
        **more,
    )


def tasks_of(
    samples: Sequence[Sample],
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    prompts: Prompts,
    seed: int,
    repeat: int = 1,
) -> list[Task]:
    """The plan of a run.

    Raises:
        UsageError: no sample can be asked this way.
    """
    tasks = list(plan(samples, recipes, conditions, prompts, seed, repeat))
    if not tasks:
        raise UsageError(
            "no sample of the release can be asked this way",
            item=", ".join(map(str, recipes)),
            cure="choose other scenarios, fewer distractors or another modality",
        )
    return tasks


def ask(
    release: Release,
    systems: Sequence[str],
    out: Path,
    *,
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    judge: str = "rules",
    seed: int = 0,
    limit: int | None = None,
    text_only: bool = False,
    repeat: int = 1,
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
    steps: Steps = QUIET,
    fresh: bool = False,
    made: Mapping[str, Callable[[Kit], System]] | None = None,
) -> list[Path]:
    """Run systems over a release, one run folder each under ``out``; what was begun goes on.

    Before the first is asked, all of them are opened, and seen to be ready (`demur.pipeline.preflight`).

    Args:
        release: opened.
        systems: by name.
        out: folder of the run folders.
        recipes: context sets to ask in.
        conditions: prompting conditions.
        judge: by name.
        seed: of whatever is drawn.
        limit: ask a random part of the samples; None for all.
        text_only: draw that part among samples that a text-only model can be asked.
        repeat: independent answers to each question.
        prompts: texts; the package's when None.
        encoder: for systems that read with embeddings; opened by ``encoder_name`` when they need one.
        encoder_name: the release's own encoder when empty.
        options: system -> sampling, layout, ``name``, ``note``.
        notes: system -> what a reader of its figures must know besides its own note.
        ledger: where model calls are kept.
        alongside: asks in flight at once.
        concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
        budget: stops the run, resumable, before its money is passed; what earlier commands spent on the same run
            folders counts. What is spent is noted in ``out/spent.log``, also without a budget.
        prices: price table that overlays the shipped one.
        steps: told what happens.
        fresh: ask everything again: run folders that are there go aside, and kept replies of models to these questions
            are forgotten, so that they are paid again.
        made: system -> what opens it, for systems that no name stands for (a function at hand).

    Returns:
        The run folders, in the order of ``systems``.
    """
    prompts = prompts or Prompts()
    of_judge = JudgeKit(ledger or out / "calls.sqlite", concurrency, prices=prices)
    grader = open_judge(judge, of_judge)
    everything = list(release.samples())
    tasks = tasks_of(drawn(everything, limit, seed, text_only=text_only), recipes, conditions, prompts, seed, repeat)
    if encoder is None and any(s.partition(":")[0] in NEEDS_ENCODER for s in systems):
        stated = str(release.manifest.get("encoder", {}).get("name", "offline"))
        encoder = open_encoder(encoder_name or stated, from_file=not encoder_name)
    about = {
        "release": {"name": release.name, "version": release.version, "sha256": release.sha256},
        "seed": seed,
        "limit": limit,
        "recipes": [str(r) for r in recipes],
        "conditions": [str(c) for c in conditions],
        "prompts": {str(c): prompts.used(c) for c in conditions},
        **({"repeat": repeat} if repeat > 1 else {}),
    }
    opened = []
    for name in systems:
        given = dict((options or {}).get(name, {}))
        kit = kit_of(
            release, encoder, everything, prompts, ledger=ledger or out / "calls.sqlite", options=given,
            concurrency=concurrency, prices=prices,
        )  # fmt: skip
        system = made[name](kit) if made and name in made else open_system(name, kit)
        opened.append((name, kit, system, str(given.get("name") or system.id)))
    if getattr(grader, "asks_models", False) or any(isinstance(system, ModelSystem) for _, _, system, _ in opened):
        from demur.calls import Budget

        budget = (budget or Budget(None)).noted(out / "spent.log")
        for _, kit, _, label in opened:  # all of them before the first is asked: they share the money
            kit.budget = budget.purse(folder_name(label))
        of_judge.budget = budget.purse("judge")
    left: dict[str, System] = {}
    for _, _, system, label in opened:
        had = {} if fresh else known_answers(out / folder_name(label), system)
        if any(t.ask.id not in had and not system.takes(t.ask) for t in tasks):
            left[label] = system  # a finished run can be looked at when its server is gone
    for line in see_ready(left, [t.ask for t in tasks]):
        steps.warn(line)
    folders = []
    try:
        for name, _, system, label in opened:
            if fresh and isinstance(system, ModelSystem):
                _forget(system, tasks, ledger or out / "calls.sqlite")
            folders.append(
                run(
                    out / folder_name(label),
                    system=system,
                    judge=grader,
                    tasks=tasks,
                    about={**about, "caveat": (notes or {}).get(name, "")},
                    progress=_progress(steps, system, label, len(tasks)),
                    note=steps.note,
                    alongside=max(alongside, concurrency or 0),
                    fresh=fresh,
                )
            )
    finally:
        for _, _, system, _ in opened:  # also those that had nothing to be asked, or whose turn did not come
            run_sync(system.close())
    return folders


def _forget(system: ModelSystem, tasks: Sequence[Task], ledger: Path) -> None:
    """Drop the kept replies of a model to these questions."""
    from demur.calls.identity import request_key
    from demur.calls.ledger import Ledger

    if not ledger.exists():
        return
    with Ledger(ledger) as book:
        for task in tasks:
            if not system.takes(task.ask):
                request = system.request(task.ask)
                book.drop(request_key(request, request.model, system.revision))


def _progress(steps: Steps, system: System, label: str, total: int) -> Callable[[int], None]:
    return lambda n: steps.count(f"answers of {label}", n, total, str(getattr(system, "told", "")))


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
    prompts: Prompts | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    ledger: Path,
    prices: Path | None = None,
    per_second: float | None = None,
) -> Plan:
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
        prompts: texts; the package's when None.
        options: as for `ask`.
        ledger: what is kept there is not paid again.
        prices: price table that overlays the shipped one.
        per_second: replies a second, for the time.
    """
    from demur.calls import Plan, PlanLine
    from demur.calls import plan as calls_plan

    prompts = prompts or Prompts()
    samples = drawn(list(release.samples()), limit, seed, text_only=text_only)
    tasks = tasks_of(samples, recipes, conditions, prompts, seed, repeat)
    total = Plan()
    for name in systems:
        kind = name.partition(":")[0]
        if kind in (*NEEDS_ENCODER, "answers"):
            continue
        if kind != "model":
            own = open_system(name, kit_of(release, None, samples, prompts))
            had = known_answers(ledger.parent / folder_name(own.id), own)
            calls = [t.ask.id for t in tasks if not own.takes(t.ask)]
            cached = sum(i in had for i in calls)
            seconds = None if per_second is None else (len(calls) - cached) / per_second
            line = PlanLine(stage="run", model=own.id, calls=len(calls), cached=cached, money=0.0, seconds=seconds)
            total += Plan(lines=(line,), notes=(f"what {own.id} itself pays for is not known here",))
            continue
        system = ModelSystem(
            name.partition(":")[2],
            Kit(read_image=release.read_image, prompts=prompts, options=dict((options or {}).get(name, {}))),
        )
        requests = (system.request(t.ask) for t in tasks if not system.takes(t.ask))
        total += calls_plan("run", system.addresses[0], requests, ledger=ledger, prices=prices, per_second=per_second)
    return total
