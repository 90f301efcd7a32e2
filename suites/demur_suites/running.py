"""Runs of suites: what is asked, who grades it, one run folder a system."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from demur.core.code import code_digest
from demur.core.errors import UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import AnswerSpec, Ask, ContextSet, Response, Sample, Scenario, Verdict
from demur.core.store import digest
from demur.core.uris import read_image
from demur.evaluation.asking import Opened, ask_opened
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.evaluation.runner import Plan
from demur.scenarios.conditions import Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import SystemContext, SystemLike, name_of, split_name
from demur_suites.base import Grader, Suite
from demur_suites.scoring import graded


def tasks_of(
    suite: Suite[Any, Any],
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


def run(
    suite: Suite[Any, Any],
    path: str | Path,
    systems: SystemLike | Sequence[SystemLike],
    out: str | Path,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    sampling: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    budget: float | None = None,
    prices: Path | None = None,
    steps: Progress = QUIET,
    fresh: bool = False,
    prompt: Path | None = None,
    **options: Any,
) -> list[Path]:
    """Ask systems every question of a set of items; one run folder each under ``out``; an unfinished run resumes.

    Args:
        suite: of the items.
        path: of the items, as `Suite.open` takes it.
        systems: one or several: names, as ``demur run`` takes them, functions, or objects that answer.
        out: folder of the run folders.
        limit: ask the questions of this many items, the first ones.
        skip_bad: leave bad items out and count them.
        sampling: temperature, max_tokens ... of models.
        concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
        budget: dollars; stops the run, resumable, before it costs more.
        prices: price table that overlays the shipped one.
        steps: progress of the run.
        fresh: reuse nothing: ask everything again.
        prompt: a file in place of the suite's prompt, or a folder of files named as in its ``prompts``.
        options: of the score: the rows of a run are graded as its tables are.

    Raises:
        DataError: a prompt is empty, or lacks a placeholder.
        UsageError: an item lacks an image, or a system or an option does not exist.
        BadInput: problems of the items.
    """
    out = Path(out)
    values = suite.check_options(options)
    loaded = suite.open(path, skip_bad=skip_bad)
    prompts = suite.prompts()
    if prompt is not None:
        prompts.replace(prompt, suite.prompt_files)
    tasks = suite.tasks(loaded.items, limit=limit, prompts=prompts)
    suite.check_images(Path(path), tasks)
    several = (
        list(systems)
        if isinstance(systems, Sequence) and not isinstance(systems, str)
        else [systems]
    )
    names = [name_of(system) for system in several]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError("a system is named twice", item=twice[0], cure="name each once")
    conditions = dict.fromkeys(suite.condition(t.sample) for t in tasks)
    about = {
        "suite": suite.name,
        "items": {"sha256": items_digest(tasks), "skipped": loaded.skipped},
        "items_path": str(Path(path).resolve()),
        "prompts": {str(c): prompts.used(c) for c in conditions},
    }
    how = RunOptions(
        out=out,
        concurrency=concurrency,
        budget=budget,
        prices=prices,
        fresh=fresh,
        system_options=dict(sampling or {}),
    )
    opened = [
        Opened.of(
            system,
            SystemContext(
                read_image=lambda ref: read_image(ref, loaded.root),
                prompts=prompts,
                ledger=how.calls,
                concurrency=concurrency,
                prices=prices,
                options=how.system_options,
            ),
        )
        for system in several
    ]
    judge = SuiteJudge(suite, loaded.items, tasks, values)
    folders = ask_opened(opened, Plan(tasks, about), judge, how, steps=steps)
    for system, folder in zip(several, folders, strict=True):
        suite.finish_run(folder, split_name(system)[1], loaded, how)
    return folders


class SuiteJudge:
    """A suite's grades as a judge of the runner: those that its tables are counted from.

    Attributes:
        id: ``suite:NAME``, with the options that decide verdicts where they are not the default.
        version: hash of these options and the right answers, and of the code of a suite of another package: when
            any changes, stored answers are graded again.
    """

    def __init__(
        self,
        suite: Suite[Any, Any],
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
