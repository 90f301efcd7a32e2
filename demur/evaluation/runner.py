"""Runs one system over planned tasks: asks it, grades its answers, and writes the run folder.

How a run is resumed, and when an old one is moved aside: `demur.evaluation.run_folder`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DemurError
from demur.core.progress import QUIET, Progress
from demur.core.records import Ask, Outcome, Response, Status
from demur.core.store import (
    JsonlLog,
    canonical,
    digest,
    read_json,
    storage_errors,
    unstorable,
    write_json,
    write_records,
)
from demur.core.version import __version__
from demur.evaluation.limits import Caps
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import (
    Answer,
    Graded,
    Task,
    Timing,
    read_timings,
    resume,
    row,
    timings_path,
    versions_of,
    without_timing,
    write_rows,
)
from demur.judge.base import Judge, close_judge, judge_code
from demur.judge.grading import Grading
from demur.models.batch import in_waves
from demur.models.run import run_sync
from demur.scenarios.systems import System

MAX_IN_FLIGHT = 64
"""Asks in flight at once; `demur.models` limits the calls per endpoint."""
DEFAULTS = RunOptions()


async def grade_all(
    tasks: Iterable[Task],
    system: System,
    judge: Judge,
    *,
    known: Mapping[str, Response] | None = None,
    on_answer: Callable[[Task, Response], None] = lambda task, response: None,
    max_in_flight: int = MAX_IN_FLIGHT,
    caps: Caps | None = None,
) -> list[Graded]:
    """Ask and grade all tasks; results are in their order.

    Args:
        tasks: those that the system cannot be asked are skipped.
        known: earlier answers by ask id; they are graded, not asked again.
        on_answer: called once for every new answer, as it arrives.
        max_in_flight: asks in flight at once.
        caps: of time and money; checked before each new question.
    """
    known, caps = known or {}, caps or Caps()
    for earlier in known.values():
        caps.count(earlier)
    grading, answers = Grading(judge), dict(known)

    async def grade_task(task: Task) -> Graded:
        response = answers.get(task.ask.id)
        if response is None:
            await caps.begin()
            try:
                response = await answer_of(system, task.ask)
            finally:
                caps.end(response)
            answers[task.ask.id] = response  # a judge that waits for a batch is asked once more
            on_answer(task, response)
        return Graded(
            task, response, await grading.verdict(task.ask, response, task.sample.answers)
        )

    try:
        return await in_waves(
            grade_task, (t for t in tasks if not system.skip_reason(t.ask)), max_in_flight
        )
    finally:
        grading.close()


async def answer_of(system: System, ask: Ask) -> Response:
    """A system's answer; an exception or a malformed value of a user's system is this question's error.

    Raises:
        DemurError: the whole system fails.
    """
    try:
        response: Any = await system.answer(ask)
    except DemurError:
        raise
    except Exception as error:
        text = f"the system raised {type(error).__name__}: {error}"
        return Response(error=" ".join(text.encode("utf-8", "replace").decode().split())[:1000])
    if not isinstance(response, Response):
        return Response(error=f"the system returned {type(response).__name__}, not a response")
    why = unstorable(response)
    return Response(error=f"the answer is malformed, {why}") if why else response


async def ask_ahead(asks: Sequence[tuple[System, Ask]]) -> None:
    """Ask several models in the same waves of batches; their runs find the replies in the ledger."""
    try:
        await in_waves(lambda pair: answer_of(*pair), asks, MAX_IN_FLIGHT)
    finally:
        for system in {system for system, _ in asks}:
            await system.close()


class Plan(NamedTuple):
    """The questions of a run.

    Attributes:
        tasks: those that a system cannot be asked are skipped, and counted in the manifest.
        about: the manifest's entries besides system and judge (release, seed, prompts, recipes); JSON-safe.
        caveat: for readers of the system's figures, besides its own note.
        grows: the folder may hold a run of other questions. Its answers to those that ``tasks`` lack are kept for
            later.
    """

    tasks: Sequence[Task]
    about: Mapping[str, Any]
    caveat: str = ""
    grows: bool = False


def run(
    folder: Path,
    system: System,
    judge: Judge,
    plan: Plan,
    options: RunOptions = DEFAULTS,
    *,
    caps: Caps | None = None,
    steps: Progress = QUIET,
) -> Path:
    """Run one system over planned tasks into a run folder.

    Args:
        folder: the run folder. A run of the same command is resumed, of another revision of the system moved aside, of
            another command refused.
        system: closed at the end.
        judge: called from one thread.
        plan: what it is asked.
        options: ``fresh`` and ``concurrency`` of it.
        caps: of time and money.
        steps: receives the number of answers so far, and one line each: what was reused and from when, how much was
            asked, why answers failed.

    Returns:
        ``folder``, holding manifest, contexts, responses, verdicts and rows.

    Raises:
        UsageError: ``folder`` holds another run.
        StorageError: it cannot be written.
        BudgetReached: a cap is reached; answers so far are kept.
    """
    reasons = [system.skip_reason(t.ask) for t in plan.tasks]
    tasks_taken = [t for t, why in zip(plan.tasks, reasons, strict=True) if not why]
    skipped = dict(Counter(filter(None, reasons)))
    identity = _identity(system, judge, tasks_taken, skipped, plan)
    made_by = {"demur": __version__}
    earlier_answers, since = resume(folder, identity, options.fresh, steps.note, plan.grows)
    earlier_manifest = (
        read_json(folder / "manifest.json") if (folder / "manifest.json").exists() else {}
    )
    if plan.grows and earlier_manifest:
        for name in ("recipes", "conditions"):
            identity[name] = list(dict.fromkeys((*earlier_manifest[name], *identity[name])))
        identity["prompts"] = earlier_manifest["prompts"] | identity["prompts"]
        if repeat := max(entries.get("repeat", 0) for entries in (earlier_manifest, identity)):
            identity["repeat"] = repeat
    reused = sum(t.ask.id in earlier_answers for t in tasks_taken)
    if (
        "files" in earlier_manifest
        and (reused, identity["plan"]) == (len(tasks_taken), earlier_manifest["plan"])
        and "unjudged" not in earlier_manifest
    ):  # finished: nothing to ask or to write
        steps.note(f"{system.id}: reused {reused:,} answers of {since}, asked 0")
        return folder
    if not earlier_manifest:
        write_json(folder / "manifest.json", identity | made_by)
    with JsonlLog(folder / "journal.jsonl") as journal, ExitStack() as open_logs:
        timings: JsonlLog | None = None
        answered = reused

        def show_progress() -> None:
            label, summary = f"answers of {system.id}", str(getattr(system, "summary", ""))
            steps.count(label, answered, len(plan.tasks), summary)

        show_progress()

        def on_answer(task: Task, response: Response) -> None:
            nonlocal answered, timings
            journal.append(
                {"ask": task.ask.id, "response": without_timing(response).model_dump(mode="json")}
            )
            if response.latency_s:  # systems that compute their answers here report none
                timings = timings or open_logs.enter_context(JsonlLog(timings_path(folder)))
                timings.append(Timing.of(task.ask.id, response))
            answered += 1
            show_progress()

        async def work() -> list[Graded]:
            try:
                return await grade_all(
                    tasks_taken,
                    system,
                    judge,
                    known=earlier_answers,
                    on_answer=on_answer,
                    max_in_flight=max(MAX_IN_FLIGHT, options.concurrency or 0),
                    caps=caps,
                )
            finally:
                await system.close()
                await close_judge(judge)

        graded = run_sync(work())
        if summary := str(getattr(judge, "summary", "")):
            steps.note(summary)
    results = _write_results(folder, graded, system)
    write_json(folder / "manifest.json", identity | made_by | results)
    ids_asked = {t.ask.id for t in tasks_taken}
    other_answers = [
        Answer(ask=i, response=r) for i, r in earlier_answers.items() if i not in ids_asked
    ]
    if other_answers:
        write_records(folder / "journal.jsonl", other_answers)
    else:
        with storage_errors(folder):  # two processes with the same command may end together
            (folder / "journal.jsonl").unlink(missing_ok=True)
    if reused:
        steps.note(
            f"{system.id}: reused {reused:,} answers of {since}, asked {len(tasks_taken) - reused:,}"
        )
    if len(versions := versions_of(system.id, read_timings(folder).values())) > 1:
        answers = ", ".join(f"{version}: {n:,}" for version, n in versions.items())
        steps.note(
            f"{system.id}: redeployed during the run, so its figures mix several versions ({answers} answers) - "
            "--fresh asks the last one everything"
        )
    errors = [g.response.error for g in graded if g.response.error]
    unusable = [
        g.verdict.reason
        for g in graded
        if g.verdict.status is Status.FAILED and not g.response.error
    ]
    for reasons, event, consequence in (
        (errors, "questions failed", "the same command asks them again"),
        (
            unusable,
            "replies hold no usable answer",
            "they are kept; only --fresh asks again, and everything",
        ),
    ):
        if reasons:
            reason, times = next(
                iter(commonest(reasons).items()), ("no reason given", len(reasons))
            )
            total = f"{len(reasons):,} of {len(tasks_taken):,} {event}"
            steps.note(f"{system.id}: {total}, {times:,} of them with: {reason} - {consequence}")
    if why := results.get("unjudged"):
        reason, times = next(iter(why.items()))
        steps.note(
            f"{judge.id}: could not grade {times:,} answers: {reason} - the same command asks it again"
        )
    return folder


def _identity(
    system: System,
    judge: Judge,
    tasks_taken: Sequence[Task],
    skipped: Mapping[str, int],
    plan: Plan,
) -> dict[str, Any]:
    """What distinguishes this run from others: system, judge, their code, and the questions."""
    code, settings = judge_code(judge), getattr(system, "settings", None)
    identity: dict[str, Any] = json.loads(
        canonical(
            {
                **plan.about,
                "system": system.id,
                "revision": system.revision,
                **({"settings": settings} if settings else {}),
                "note": "; ".join(filter(None, (system.note, plan.caveat))),
                "judge": judge.id,
                **({"judge_code": code} if code else {}),
                "plan": digest([t.ask.id for t in tasks_taken]),
                "asks": len(tasks_taken),
                "not_asked": skipped,
            }
        )
    )
    return identity


def _write_results(out: Path, graded: Sequence[Graded], system: System) -> dict[str, Any]:
    """Write the files of a finished run; returns their entries in the manifest."""
    contexts = {g.task.context.id: g.task.context for g in graded}
    answers = [Answer(ask=g.task.ask.id, response=without_timing(g.response)) for g in graded]
    files = {
        "contexts.jsonl": write_records(out / "contexts.jsonl", contexts.values()),
        "responses.jsonl": write_records(out / "responses.jsonl", answers),
        "verdicts.jsonl": write_records(out / "verdicts.jsonl", [g.verdict for g in graded]),
    }
    write_rows(out / "rows.parquet", (row(g) for g in graded))
    counts = {
        **{
            s.value: sum(g.verdict.status is s for g in graded)
            for s in (Status.GRADED, Status.UNJUDGED, Status.FAILED)
        },
        **{o.value: sum(g.verdict.outcome is o for g in graded) for o in Outcome},
        "cut": sum(bool(g.response.cuts) for g in graded),
        "gold_cut": sum(
            any(line.partition(":")[0] in g.task.context.gold for line in g.response.cuts)
            for g in graded
        ),  # such an answer says little about the model
    }
    errors = commonest(
        g.response.error or (g.verdict.reason if g.verdict.status is Status.FAILED else "")
        for g in graded
    )
    unjudged = commonest(g.verdict.reason for g in graded if g.verdict.status is Status.UNJUDGED)
    reads = getattr(system, "reads_prompt", None)
    without = Counter(name for g in graded for name in g.response.asked_without)
    return {
        "files": files,
        "counts": counts,
        **({"errors": errors} if errors else {}),
        **({"unjudged": unjudged} if unjudged else {}),
        **({"asked_without": dict(sorted(without.items()))} if without else {}),
        **({} if reads is None else {"reads_prompt": reads}),
    }


def commonest(errors: Iterable[str]) -> dict[str, int]:
    """The three most frequent reasons with their counts; reasons that differ only in numbers count as one.

    >>> commonest(["no reply to item 3", "", "no reply to item 14", "broken"])
    {'no reply to item 3': 2, 'broken': 1}
    """
    first: dict[str, str] = {}
    times: Counter[str] = Counter()
    for error in errors:
        if error:
            text = " ".join(error.split())[:300]
            pattern = re.sub(r"\d+", "0", text)
            first.setdefault(pattern, text)
            times[pattern] += 1
    return {first[pattern]: n for pattern, n in times.most_common(3)}
