"""Asks systems the questions of a release: what `demur run`, `demur sweep` and `demur demo` share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import Ask, ImageRef, Sample
from demur.core.spec import split_part
from demur.core.text import file_name
from demur.core.untrusted import Choice, check
from demur.evaluation import questions
from demur.evaluation.judge_cost import JudgeCost, requests_of, stored_replies
from demur.evaluation.limits import Caps
from demur.evaluation.options import RunOptions
from demur.evaluation.preflight import preflight
from demur.evaluation.rejudge import grown_from
from demur.evaluation.run_folder import Task, known_answers
from demur.evaluation.runner import Plan, ask_ahead, commonest, run
from demur.indexing.encoders import open_encoder
from demur.judge.base import Judge, JudgeContext, open_judge
from demur.models.batch import batching
from demur.models.run import run_sync
from demur.release import Release
from demur.scenarios.recognise import Embedder, Recogniser
from demur.scenarios.systems import (
    System,
    SystemContext,
    SystemLike,
    name_of,
    open_system,
    split_name,
)
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder
    from demur.models import Estimate

NEEDS_ENCODER = ("reader", "prior")
"""Systems that need sentence embeddings."""


def folder_name(system: str) -> str:
    """A system's name as a folder: letters, digits, dots and dashes; the address of a server is no part of it.

    >>> folder_name("model:http://localhost:8000/v1#qwen")
    'model-qwen'
    """
    name = re.sub(r"(?i)https?://[^\s#]*", "", system)
    return file_name(name, "system")


def system_context(
    release: Release, encoder: Encoder | None, samples: Sequence[Sample], options: RunOptions
) -> SystemContext:
    """The surroundings of systems that are asked from a release."""
    reading: dict[str, Any] = {}
    if encoder is not None:
        captioned = [
            (
                str(d["title"]),
                ImageRef(sha256=d["sha256"], uri="", width=d["width"], height=d["height"]),
            )
            for d in release.documents.values()
            if d["sha256"] and d["text"] is None
        ]
        reading = {
            "embed": Embedder(encoder),
            "recognise": Recogniser(encoder, captioned, release.read_image),
        }
    return SystemContext(
        read_image=release.read_image,
        pool=samples,
        prompts=options.prompt_texts,
        ledger=options.calls,
        options=options.system_options,
        concurrency=options.concurrency,
        prices=options.prices,
        **reading,
    )


def ask(
    release: Release,
    systems: Sequence[SystemLike],
    options: RunOptions,
    *,
    encoder: Encoder | None = None,
    caveat: str = "",
    steps: Progress = QUIET,
) -> list[Path]:
    """Run systems over a release, one run folder each under ``options.out``; an unfinished run is resumed.

    All systems are opened and checked (`demur.evaluation.preflight`) before the first question.

    Args:
        release: opened.
        systems: names (``NAME=SYSTEM`` or ``SYSTEM``), functions or objects.
        options: what is asked, and how.
        encoder: for systems that need embeddings; opened by ``options.encoder`` if None.
        caveat: for readers of the systems' figures, besides their own notes.
        steps: progress display.

    Returns:
        The run folders, in the order of ``systems``.

    Raises:
        BudgetReached: time or money is over, and questions are left.
    """
    judge_context = JudgeContext(options.calls, options.concurrency, prices=options.prices)
    grader = open_judge(options.judge, judge_context)
    samples = list(release.samples())
    tasks = questions.tasks(options, samples, release.sha256)
    _check_names(systems, options)
    if encoder is None and any(_kind(system) in NEEDS_ENCODER for system in systems):
        encoder = _encoder_of(release, options)
    opened = [
        Opened.of(system, system_context(release, encoder, samples, options), caveat=caveat)
        for system in systems
    ]
    for line in questions.left_out(options, samples):
        steps.note(line)
    plan = Plan(tasks, questions.about(options, release))

    def grown(folder: Path, system: System) -> list[Task]:
        return grown_from(folder, release, system, tasks, options.prompt_texts)

    return ask_opened(
        opened,
        plan,
        grader,
        options,
        judge_context=judge_context,
        steps=steps,
        grown=None if options.fresh else grown,
    )


def _encoder_of(release: Release, options: RunOptions) -> Encoder:
    """The encoder that was asked for, else the one that the release names."""
    if options.encoder:
        return open_encoder(options.encoder)
    name = str(release.manifest.get("encoder", {}).get("name", "offline"))
    check(release.folder / "manifest.json", [Choice("encoders", name)], instead="--encoder")
    return open_encoder(name)


def _kind(system: SystemLike) -> str:
    spec = split_name(system)[1]
    return split_part(spec)[0] if isinstance(spec, str) else ""


def _check_names(systems: Sequence[SystemLike], options: RunOptions) -> None:
    """Refuse two systems of one name, and models that would give the same answer at every repeat.

    Raises:
        UsageError: there is one of these.
    """
    names = [name_of(system) for system in systems]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError("a system is named twice", item=twice[0], cure="name each once")
    if options.repeat > 1 and options.system_options.get("temperature") == 0:
        raise UsageError(
            "repeats at temperature 0 get the same answer again",
            item=names[0],
            cure="raise the temperature",
        )


class Opened(NamedTuple):
    """An open system with its context, the name of its folder, and a caveat for readers of its figures."""

    system: System
    context: SystemContext
    label: str
    caveat: str = ""

    @classmethod
    def of(cls, system: SystemLike, context: SystemContext, *, caveat: str = "") -> Opened:
        """Open a system with a context; the name before ``=``, if any, is its name."""
        if name := split_name(system)[0]:
            context.options = {"name": name, **context.options}
        system_opened = open_system(system, context)
        label = str(context.options.get("name") or system_opened.id)
        return cls(system_opened, context, label, caveat)


def ask_opened(
    opened: Sequence[Opened],
    plan: Plan,
    judge: Judge,
    options: RunOptions,
    *,
    judge_context: JudgeContext | None = None,
    steps: Progress = QUIET,
    grown: Callable[[Path, System], list[Task]] | None = None,
) -> list[Path]:
    """Run opened systems over tasks, one run folder each under ``options.out``: shared by releases and suites.

    The systems share the budget. All are checked before the first question, and closed at the end.

    Args:
        opened: the systems.
        plan: what they are asked.
        judge: grades the answers.
        options: how they are asked.
        judge_context: that of a judge that calls a model, which gets a share of the budget.
        steps: progress display.
        grown: a run folder and its system -> the tasks, and those that the folder holds answers to; None: a run of
            other questions is refused.
    """
    caps, tasks = Caps(options.minutes, options.budget), plan.tasks
    if getattr(judge, "asks_models", False) or any(
        isinstance(opened_system.system, ModelSystem) for opened_system in opened
    ):
        from demur.models import Budget

        budget = Budget(options.budget).recorded_in(options.out / "calls.sqlite")
        for opened_system in opened:  # before the first is asked: they share the money
            opened_system.context.budget = budget.sub_budget(folder_name(opened_system.label))
        if judge_context is not None:
            judge_context.budget = budget.sub_budget("judge")
    unfinished: dict[str, System] = {}
    open_asks: dict[str, list[Ask]] = {}
    folders: dict[Path, str] = {}
    planned_for: dict[Path, Sequence[Task]] = {}
    try:
        for opened_system in opened:
            folder = options.out / folder_name(opened_system.label)
            if folder in folders:
                raise UsageError(
                    f"{folders[folder]} and {opened_system.label} would share the folder {folder}",
                    cure="name one of them otherwise, with letters a to z and digits",
                )
            folders[folder] = opened_system.label
            askable = [t.ask for t in tasks if not opened_system.system.skip_reason(t.ask)]
            if tasks and not askable:
                why = next(iter(commonest(opened_system.system.skip_reason(t.ask) for t in tasks)))
                raise UsageError(
                    f"can be asked none of {len(tasks):,} questions: {why}",
                    item=opened_system.label,
                    cure="choose other scenarios, another system, or a release that has such questions",
                )
            answers_known = {} if options.fresh else known_answers(folder, opened_system.system)
            planned_for[folder] = grown(folder, opened_system.system) if grown else tasks
            if asks := [ask for ask in askable if ask.id not in answers_known]:
                unfinished[opened_system.label], open_asks[opened_system.label] = (
                    opened_system.system,
                    asks,
                )  # a finished run does not need its server
        judges = (
            {f"the judge {judge.id}": judge} if unfinished else {}
        )  # a finished run has its verdicts

        def stored(
            name: str,
        ) -> bool:  # a judge's server may be missing if nothing is paid before its first call
            names = unfinished if name in judges else [name]
            return not options.fresh and all(
                _in_ledger(unfinished[n], open_asks[n], options.calls) for n in names
            )

        with batching(options.batch, steps, fresh=options.fresh):
            checks = preflight({**unfinished, **judges}, [t.ask for t in tasks], stored=stored)
            for line in run_sync(checks):
                steps.warn(line)
            if options.batch:
                models = [n for n, each in unfinished.items() if isinstance(each, ModelSystem)]
                run_sync(ask_ahead([(unfinished[n], ask) for n in models for ask in open_asks[n]]))
            for folder, opened_system in zip(folders, opened, strict=True):
                if options.fresh and isinstance(opened_system.system, ModelSystem):
                    _drop_cached_replies(opened_system.system, tasks, options.calls)
                own_plan = plan._replace(
                    tasks=planned_for[folder],
                    caveat=opened_system.caveat,
                    grows=grown is not None,
                )
                run(folder, opened_system.system, judge, own_plan, options, caps=caps, steps=steps)
    finally:
        for opened_system in opened:  # also those that were not asked
            run_sync(opened_system.system.close())
    return list(folders)


def _in_ledger(system: System, asks: Sequence[Ask], ledger: Path) -> bool:
    """Whether the ledger has a model's reply to each of these questions."""
    from demur.models.estimate import estimate_calls

    if type(system) is not ModelSystem:  # several calls per question, unknown beforehand
        return False
    planned = estimate_calls(
        "answers", system.addresses[0], (r for _, r in requests_of(system, asks)), ledger=ledger
    )
    return all(line.calls == line.cached for line in planned.lines)


def _drop_cached_replies(system: ModelSystem, tasks: Sequence[Task], ledger: Path) -> None:
    """Drop the cached replies of a model to these questions."""
    from demur.models.identity import request_key
    from demur.models.ledger import Ledger

    if not ledger.exists():
        return
    asks = [task.ask for task in tasks if not system.skip_reason(task.ask)]
    with Ledger(ledger) as cache:
        if type(system) is not ModelSystem:  # several calls per question, unknown beforehand
            cache.drop_items([ask.id for ask in asks], system.models)
            return
        for _, request in requests_of(system, asks):
            cache.drop(request_key(request, request.model, system.weights))


def planned(
    release: Release,
    systems: Sequence[str],
    options: RunOptions,
    *,
    per_second: float | None = None,
) -> Estimate:
    """The cost of `ask` with the same arguments; see `planned_tasks`."""
    samples = list(release.samples())
    tasks = questions.tasks(options, samples, release.sha256)
    _check_names(systems, options)
    estimate = planned_tasks(
        systems,
        tasks,
        options,
        lambda: system_context(release, None, samples, options),
        per_second=per_second,
    )
    left_out = questions.left_out(options, samples)
    return estimate.model_copy(update={"notes": (*left_out, *estimate.notes)})


def planned_tasks(
    systems: Sequence[str],
    tasks: Sequence[Task],
    options: RunOptions,
    context_of: Callable[[], SystemContext],
    *,
    per_second: float | None = None,
) -> Estimate:
    """The cost of asking systems: one line per model and per system of the user's own, and the judge's.

    The user's systems are opened, so that a wrong name fails now; their cost is unknown. The built-in systems compute
    their answers and have no line.

    Args:
        systems: names.
        tasks: what each is asked.
        options: of the run.
        context_of: a new context for a system.
        per_second: replies per second, for the time.
    """
    from demur.models import Estimate, EstimateLine
    from demur.models.estimate import estimate_calls

    total, prices = Estimate(), options.prices
    judge = JudgeCost(options, per_second)
    for system in systems:
        name_given, spec = split_name(system)
        kind = _kind(spec)
        if kind in (*NEEDS_ENCODER, "answers"):
            judge.add(tasks, dict)
            continue
        context = context_of()
        if kind == "model":
            model = ModelSystem(split_part(str(spec))[1], context)
            tasks_taken = [t for t in tasks if not model.skip_reason(t.ask)]
            total += estimate_calls(
                "run",
                model.addresses[0],
                (request for _, request in requests_of(model, (t.ask for t in tasks_taken))),
                ledger=options.calls,
                prices=prices,
                per_second=per_second,
                batch=bool(options.batch),
            )
            judge.add(tasks_taken, partial(stored_replies, model, tasks_taken, options))
            continue
        user_system = open_system(spec, context)
        answers_known = known_answers(
            options.out / folder_name(name_given or user_system.id), user_system
        )
        tasks_taken = [t for t in tasks if not user_system.skip_reason(t.ask)]
        judge.add(tasks_taken, answers_known.copy)
        cached = sum(t.ask.id in answers_known for t in tasks_taken)
        seconds = None if per_second is None else (len(tasks_taken) - cached) / per_second
        line = EstimateLine(
            stage="run",
            model=user_system.id,
            calls=len(tasks_taken),
            cached=cached,
            money=0.0,
            expected=0.0,
            seconds=seconds,
        )
        total += Estimate(
            lines=(line,), notes=(f"what {user_system.id} itself pays for is not known here",)
        )
    return total + judge.estimate()
