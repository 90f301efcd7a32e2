"""Release -> run: ask a system every sample in every context set, judge what it says, keep all of it.

How a run is resumed, and when it goes aside: `demur.evaluation.run_folder`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from demur.core.errors import DemurError, UsageError
from demur.core.records import (
    Ask,
    Outcome,
    Response,
    Sample,
    Scenario,
    Status,
)
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
from demur.evaluation.caps import Caps
from demur.evaluation.run_folder import (
    Answer,
    Graded,
    Task,
    Timing,
    filed,
    read_timings,
    resume,
    row,
    timings_path,
    versions_of,
    write_rows,
)
from demur.judge.base import UNJUDGED, Judge, close_judge, judge_code
from demur.judge.grading import Grading
from demur.models.run import run_sync
from demur.release.corpora import Corpora
from demur.scenarios import contexts as making
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System

ALONGSIDE = 64
"""Asks under way at once; the limit per endpoint is `demur.models`' own."""


def plan(
    samples: Sequence[Sample],
    recipes: Sequence[making.Recipe],
    conditions: Sequence[Condition],
    prompts: Prompts,
    seed: int = 0,
    repeat: int = 1,
    corpora: Corpora | None = None,
) -> Iterator[Task]:
    """Every task, sample by sample: asks that share images and evidence lie together for the server's cache.

    Each is asked ``repeat`` times, independently. With ``corpora``, questions whose answer stands in the corpus without
    their gold are not asked where the gold is removed; without, only the gold itself is excluded.
    """
    seen: set[str] = set()
    recipes = [_over(recipe, corpora) for recipe in recipes]
    for sample, context in making.contexts(samples, recipes, seed):
        removed: tuple[str, ...] = ()
        fold = ""
        if context.scenario is Scenario.GOLD_REMOVED:
            if corpora is not None and corpora.stated(sample.id):
                continue
            own = dict.fromkeys(name for e in sample.gold for name in (e.id, e.document, e.page) if name)
            removed = tuple(own) if corpora is None else corpora.excluded(sample.id)
            fold = "" if corpora is None else corpora.fold(sample.id)
        for condition in conditions:
            for number in range(repeat):
                task = Task(sample, context, make_ask(sample, context, condition, prompts, number, removed, fold))
                if task.ask.id not in seen:  # a sweep and the four scenarios may name the same recipe
                    seen.add(task.ask.id)
                    yield task


def _over(recipe: making.Recipe, corpora: Corpora | None) -> making.Recipe:
    """The recipe as these corpora have it: over poisoned ones it says so, so that no answer is taken for another's.

    Raises:
        UsageError: instructions are asked for, and no document holds one.
    """
    poisoned = corpora is not None and bool(corpora.poisoned)
    if recipe.scenario not in making.POISONABLE or poisoned == (recipe.inject == "yes"):
        return recipe
    if not poisoned:
        raise UsageError(
            "no document of the corpora holds an instruction", item=str(recipe), cure="demur corpus export --poison"
        )
    return recipe._replace(inject="yes")


async def grade_all(
    tasks: Iterable[Task],
    system: System,
    judge: Judge,
    *,
    known: Mapping[str, Response] | None = None,
    on_answer: Callable[[Task, Response], None] = lambda task, response: None,
    alongside: int = ALONGSIDE,
    caps: Caps | None = None,
) -> list[Graded]:
    """Ask and judge all tasks, in the order given; bounded work in flight.

    Args:
        tasks: what to ask; those that the system does not take are passed over.
        system: who is asked.
        judge: who grades.
        known: answers had before, by ask id; they are judged, not asked again.
        on_answer: called once for every new answer, as it comes.
        alongside: asks in flight at once.
        caps: of time and money; checked before each new question.
    """
    known, caps = known or {}, caps or Caps()
    for had in known.values():
        caps.count(had)
    gate = asyncio.Semaphore(alongside)

    async def one(task: Task) -> Graded:
        response = known.get(task.ask.id)
        if response is None:
            await caps.begin()
            try:
                response = await answer_of(system, task.ask)
            finally:
                caps.end(response)
            on_answer(task, response)
        verdict = await grading.verdict(task.ask, response, task.sample.answers)
        gate.release()
        return Graded(task, response, verdict)

    grading = Grading(judge)
    running: list[asyncio.Task[Graded]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                if system.skip_reason(task.ask):
                    continue
                await gate.acquire()
                running.append(group.create_task(one(task)))
    except* Exception as errors:  # the group wraps what ended it; the first is what happened
        raise errors.exceptions[0] from None
    finally:
        grading.close()
    return [task.result() for task in running]


async def answer_of(system: System, ask: Ask) -> Response:
    """A system's answer; what a stranger's raises, or returns that no file can hold, is this question's error.

    Raises:
        DemurError: no question will be answered.
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


def run(
    out: Path,
    *,
    system: System,
    judge: Judge,
    tasks: Sequence[Task],
    about: dict[str, Any],
    progress: Callable[[int], None] = lambda n: None,
    note: Callable[[str], None] = lambda line: None,
    alongside: int = ALONGSIDE,
    fresh: bool = False,
    caps: Caps | None = None,
) -> Path:
    """Run one system over planned tasks into a run folder.

    Args:
        out: the run folder; one begun by the same command goes on, one of another command is refused, one of another
            revision of the system goes aside.
        system: who is asked; closed at the end.
        judge: who grades; called from one thread.
        tasks: the plan; asks that the system does not take are left out and counted in the manifest.
        about: what the manifest says beside system and judge (release, seed, prompts, recipes); JSON-safe.
        progress: told the number of answers had so far, as they come.
        note: told, a line each: what was reused and of when, what was asked, why answers failed.
        alongside: asks in flight at once.
        fresh: reuse nothing; what is in ``out`` goes aside.
        caps: of time and money.

    Returns:
        ``out``, holding manifest, contexts, responses, verdicts and rows.

    Raises:
        UsageError: ``out`` holds another run.
        StorageError: it cannot be written.
        BudgetReached: a cap is reached; what was answered is kept.
    """
    taken, skipped = _askable(tasks, system)
    identity = _identity(system, judge, taken, skipped, about)
    known, since = resume(out, identity, fresh, note)
    old = read_json(out / "manifest.json") if (out / "manifest.json").exists() else {}
    reused = sum(t.ask.id in known for t in taken)
    if "files" in old and reused == len(taken) and "unjudged" not in old:  # finished: nothing to ask or to write
        note(f"{system.id}: reused {reused:,} answers of {since}, asked 0")
        return out
    if not old:
        write_json(out / "manifest.json", identity)
    with JsonlLog(out / "journal.jsonl") as journal, ExitStack() as more:
        timings: JsonlLog | None = None
        done = reused
        progress(done)

        def on_answer(task: Task, response: Response) -> None:
            nonlocal done, timings
            journal.append({"ask": task.ask.id, "response": filed(response).model_dump(mode="json")})
            if response.latency_s:  # of those that compute their answers here nothing is measured
                timings = timings or more.enter_context(JsonlLog(timings_path(out)))
                timings.append(Timing.of(task.ask.id, response))
            done += 1
            progress(done)

        async def work() -> list[Graded]:
            try:
                return await grade_all(
                    taken, system, judge, known=known, on_answer=on_answer, alongside=alongside, caps=caps
                )
            finally:
                await system.close()
                await close_judge(judge)

        graded = run_sync(work())
        if summary := str(getattr(judge, "summary", "")):
            note(summary)
    results = _results(out, graded, system)
    write_json(out / "manifest.json", identity | results)
    with storage_errors(out):
        (out / "journal.jsonl").unlink()
    if reused:
        note(f"{system.id}: reused {reused:,} answers of {since}, asked {len(taken) - reused:,}")
    if len(versions := versions_of(system.id, read_timings(out).values())) > 1:
        told = ", ".join(f"{version}: {n:,}" for version, n in versions.items())
        note(
            f"{system.id}: redeployed during the run, so its figures are of several versions ({told} answers) - "
            "--fresh asks the last one everything"
        )
    if failed := results["counts"]["failed"]:
        reason, times = next(iter(results.get("errors", {}).items()), ("no reason given", failed))
        note(
            f"{system.id}: {failed:,} of {len(taken):,} failed, {times:,} of them so: {reason} - the same command asks "
            "them again"
        )
    if why := results.get("unjudged"):
        reason, times = next(iter(why.items()))
        note(f"{judge.id}: gave no verdict, {times:,} times so: {reason} - the same command asks it again")
    return out


def _askable(tasks: Iterable[Task], system: System) -> tuple[list[Task], dict[str, int]]:
    """The tasks that the system can be asked, and why how many others cannot."""
    taken: list[Task] = []
    skipped: Counter[str] = Counter()
    for task in tasks:
        if why := system.skip_reason(task.ask):
            skipped[why] += 1
        else:
            taken.append(task)
    return taken, dict(skipped)


def _identity(
    system: System, judge: Judge, taken: Sequence[Task], skipped: Mapping[str, int], about: Mapping[str, Any]
) -> dict[str, Any]:
    """What tells this run from another: who was asked what, by which code, and who graded."""
    code, settings = judge_code(judge), getattr(system, "settings", None)
    plain: dict[str, Any] = json.loads(canonical({
        **{k: v for k, v in about.items() if k != "caveat"},
        "demur": __version__,
        "system": system.id,
        "revision": system.revision,
        **({"settings": settings} if settings else {}),
        "note": "; ".join(filter(None, (system.note, str(about.get("caveat", ""))))),
        "judge": judge.id,
        **({"judge_code": code} if code else {}),
        "plan": digest([t.ask.id for t in taken]),
        "asks": len(taken),
        "not_asked": skipped,
    }))  # fmt: skip
    return plain


def _results(out: Path, graded: Sequence[Graded], system: System) -> dict[str, Any]:
    """Write the files of a finished run; what its manifest says of them."""
    contexts = {g.task.context.id: g.task.context for g in graded}
    files = {
        "contexts.jsonl": write_records(out / "contexts.jsonl", contexts.values()),
        "responses.jsonl": write_records(
            out / "responses.jsonl", (Answer(ask=g.task.ask.id, response=filed(g.response)) for g in graded)
        ),
        "verdicts.jsonl": write_records(out / "verdicts.jsonl", (g.verdict for g in graded)),
    }
    write_rows(out / "rows.parquet", (row(g) for g in graded))
    counts = {
        **{
            s.value: sum(g.verdict.status is s for g in graded) for s in (Status.GRADED, Status.UNGRADED, Status.FAILED)
        },
        **{o.value: sum(g.verdict.outcome is o for g in graded) for o in Outcome},
        "cut": sum(bool(g.response.cuts) for g in graded),
        "gold_cut": sum(_gold_cut(g) for g in graded),
    }
    errors = commonest(
        g.response.error or (g.verdict.reason if g.verdict.status is Status.FAILED else "") for g in graded
    )
    unjudged = commonest(g.verdict.reason for g in graded if g.verdict.kind == UNJUDGED)
    reads = getattr(system, "reads_prompt", None)
    return {
        "files": files,
        "counts": counts,
        **({"errors": errors} if errors else {}),
        **({"unjudged": unjudged} if unjudged else {}),
        **({} if reads is None else {"reads_prompt": reads}),
    }


def commonest(errors: Iterable[str], most: int = 3) -> dict[str, int]:
    """The reasons that were given most often, with how often; numbers in them count as the same.

    >>> commonest(["no reply to item 3", "", "no reply to item 14", "broken"])
    {'no reply to item 3': 2, 'broken': 1}
    """
    first: dict[str, str] = {}
    times: Counter[str] = Counter()
    for error in errors:
        if error:
            text = " ".join(error.split())[:300]
            alike = re.sub(r"\d+", "0", text)
            first.setdefault(alike, text)
            times[alike] += 1
    return {first[alike]: n for alike, n in times.most_common(most)}


def _gold_cut(graded: Graded) -> bool:
    """Whether gold evidence was not shown whole: such an answer says little about the model."""
    gold = set(graded.task.context.gold)
    return any(line.partition(":")[0] in gold for line in graded.response.cuts)
