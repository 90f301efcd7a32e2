"""Runs of suites: what is asked, who grades it, one run folder a system."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.code import code_digest
from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import AnswerSpec, Ask, ContextSet, Response, Sample, Scenario, Verdict
from demur.core.store import digest
from demur.core.uris import read_image
from demur.evaluation.asking import Opened, ask_opened, planned_tasks
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.evaluation.runner import Plan
from demur.scenarios.conditions import Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import SystemContext, SystemLike, name_of
from demur_suites.contract import Contract
from demur_suites.options import LEDGER, filled
from demur_suites.records import Grader, Loaded
from demur_suites.scoring import graded

if TYPE_CHECKING:
    from demur.models import Estimate


def tasks_of(
    suite: Contract[Any, Any],
    items: Sequence[Any],
    *,
    limit: int | None = None,
    prompts: Prompts | None = None,
) -> list[Task]:
    """What a run asks, in the order of the items.

    Args:
        suite: of the items.
        items: of the suite.
        limit: ask the questions of this many items (clusters), the first ones.
        prompts: in place of the suite's.
    """
    prompts = prompts or suite.prompts()
    tasks: list[Task] = []
    clusters: set[str] = set()
    for sample in suite.questions(items):
        cluster = sample.cluster or sample.id
        if limit is not None and cluster not in clusters and len(clusters) >= limit:
            continue
        clusters.add(cluster)
        part = suite.part(sample)
        context = ContextSet(
            id=digest([suite.name, sample.id], 16),
            sample=sample.id,
            scenario=Scenario.PARAMETRIC,
            evidence=(),
            expected="answer" if sample.answerable else "deflect",
            k_asked=0,
            k_used=0,
            recipe=f"suite({suite.name}, {part})" if part else f"suite({suite.name})",
            seed=0,
        )
        tasks.append(
            Task(sample, context, make_ask(sample, context, suite.condition(sample), prompts))
        )
    return tasks


ASKING = (
    "limit",
    "prompts",
    "system_options",
    "concurrency",
    "budget",
    "prices",
    "fresh",
    "minutes",
)
"""What a run takes besides the options of the score, by the names of `RunOptions`; ``limit`` asks the questions of so
many items, the first ones, and ``prompts`` is a file in place of the suite's, or a folder of files named as those."""


class Ready(NamedTuple):
    """A run before the first question.

    Attributes:
        loaded: its items.
        tasks: what each system is asked.
        options: how.
        values: of the options of the score.
        prompts: the words.
        systems: as they were named.
    """

    loaded: Loaded[Any]
    tasks: list[Task]
    options: RunOptions
    values: dict[str, Any]
    prompts: Prompts
    systems: list[SystemLike]

    def context(self) -> SystemContext:
        """The surroundings of one system."""
        root = self.loaded.root
        return SystemContext(
            read_image=lambda ref: read_image(ref, root),
            prompts=self.prompts,
            ledger=self.options.calls,
            concurrency=self.options.concurrency,
            prices=self.options.prices,
            options=self.options.system_options,
        )


def _ready(
    suite: Contract[Any, Any],
    path: str | Path,
    systems: SystemLike | Sequence[SystemLike],
    out: str | Path,
    skip_bad: bool,
    given: Mapping[str, Any],
) -> Ready:
    options = RunOptions.of({"out": Path(out), **{k: given[k] for k in ASKING if k in given}})
    names = {option.name for option in suite.options}
    # what both take, such as a budget, may be left open for the score
    scoring = {k: v for k, v in given.items() if k not in ASKING or (k in names and v is not None)}
    values = filled(suite.name, suite.options, scoring, ASKING)
    if values.get(LEDGER.name) == LEDGER.default:
        values[LEDGER.name] = str(options.calls)
    loaded = suite.open(path, skip_bad=skip_bad)
    prompts = suite.prompts()
    if options.prompts is not None:
        prompts.replace(options.prompts, suite.prompt_files)
    tasks = tasks_of(suite, loaded.items, limit=options.limit, prompts=prompts)
    suite.check_images(Path(path), tasks)
    several = (
        list(systems)
        if isinstance(systems, Sequence) and not isinstance(systems, str)
        else [systems]
    )
    called = [name_of(system) for system in several]
    if twice := [name for name in called if called.count(name) > 1]:
        raise UsageError("a system is named twice", item=twice[0], cure="name each once")
    return Ready(loaded, tasks, options, values, prompts, several)


def run(
    suite: Contract[Any, Any],
    path: str | Path,
    systems: SystemLike | Sequence[SystemLike],
    out: str | Path,
    *,
    skip_bad: bool = False,
    steps: Progress = QUIET,
    **options: Any,
) -> list[Path]:
    """Ask systems every question of a set of items; one run folder each under ``out``; an unfinished run resumes.

    Args:
        suite: of the items.
        path: of the items, as `Suite.open` takes it.
        systems: one or several: names, as ``demur run`` takes them, functions, or objects that answer.
        out: folder of the run folders.
        skip_bad: leave bad items out and count them.
        steps: progress of the run.
        options: `ASKING`, and those of the score: the rows of a run are graded as its tables are.

    Raises:
        DataError: a prompt is empty, or lacks a placeholder.
        UsageError: an item lacks an image, or a system or an option does not exist.
        BadInput: problems of the items.
    """
    ready = _ready(suite, path, systems, out, skip_bad, options)
    loaded, tasks, how = ready.loaded, ready.tasks, ready.options
    conditions = dict.fromkeys(suite.condition(t.sample) for t in tasks)
    about = {
        "suite": suite.name,
        "items": {"sha256": items_digest(tasks), "skipped": loaded.skipped},
        "items_path": str(Path(path).resolve()),
        "prompts": {str(c): ready.prompts.used(c) for c in conditions},
    }
    opened = [Opened.of(system, ready.context()) for system in ready.systems]
    judge = SuiteJudge(suite, loaded.items, tasks, ready.values)
    return ask_opened(opened, Plan(tasks, about), judge, how, steps=steps)


def planned(
    suite: Contract[Any, Any],
    path: str | Path,
    systems: str | Sequence[str],
    out: str | Path,
    *,
    skip_bad: bool = False,
    per_second: float | None = None,
    **options: Any,
) -> Estimate:
    """What `run` with the same arguments would cost, without a call; what a judge asks of a model is not in it.

    ``per_second`` replies give the time.
    """
    names = [systems] if isinstance(systems, str) else [*systems]
    ready = _ready(suite, path, names, out, skip_bad, options)
    plan = planned_tasks(names, ready.tasks, ready.options, ready.context, per_second=per_second)
    if ready.values.get("judge", "local") not in ("", "local"):
        note = (
            f"what the judge {ready.values['judge']} asks depends on the replies, and is not in it"
        )
        plan = plan.model_copy(update={"notes": (*plan.notes, note)})
    return plan


class SuiteJudge:
    """A suite's grades as a judge of the runner: those that its tables are counted from.

    Attributes:
        id: ``suite:NAME``, with the options that decide verdicts where they are not the default.
        version: hash of these options and the right answers, and of the code of a suite of another package: when
            any changes, stored answers are graded again.
    """

    def __init__(
        self,
        suite: Contract[Any, Any],
        items: Sequence[Any],
        tasks: Sequence[Task],
        options: Mapping[str, Any],
    ) -> None:
        deciding = {o.name: options[o.name] for o in suite.options if o.grades}
        changed = "&".join(
            f"{o.name}={options[o.name]}"
            for o in suite.options
            if o.grades and options[o.name] != o.default
        )
        self.id = f"suite:{suite.name}" + (f"?{changed}" if changed else "")
        ours = type(suite).__module__.startswith("demur_suites.")
        answers = {t.ask.id: t.sample.answers.model_dump(mode="json") for t in tasks}
        self.version = digest(["" if ours else code_digest(type(suite)), deciding, answers], 16)
        self._suite, self._items, self._options = suite, items, dict(options)
        self._questions: dict[str, Sample] = {t.ask.id: t.sample for t in tasks}
        self._opened = AsyncExitStack()
        self._grader: asyncio.Future[Grader] | None = None

    async def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; a failed call counts as the system's failure."""
        if self._grader is None:
            grading = self._suite.grading(self._items, **self._options)
            self._grader = asyncio.ensure_future(self._opened.enter_async_context(grading))
        grade = await graded(await self._grader, response, self._questions[ask.id])
        return Verdict(
            id=ask.id,
            status=grade.status,
            outcome=grade.outcome,
            reason=grade.reason,
            judge=self.id,
            raw=response.text,
        )

    async def close(self) -> None:
        """Close what the suite opened; the next run opens it again, in another event loop."""
        self._grader = None
        await self._opened.aclose()


def items_digest(tasks: Sequence[Task]) -> str:
    """Hash of everything systems are asked: equal sets of items have equal hashes, wherever their files are."""
    return digest([t.ask.id for t in tasks], 32)
