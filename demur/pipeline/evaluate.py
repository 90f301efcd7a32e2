"""Release -> run: ask a system every sample in every context set, judge what it says, keep all of it.

A run folder can be killed at any moment and run again: answers are appended to ``journal.jsonl`` as they come,
and the final files are written from it in the order of the plan, so that they are the same bytes whenever and
however often the run was stopped. Answers that were errors are asked for again by the next run of the same command.

A run folder holds what one revision of a system (its code, its file, its weights) answered. When the revision has
changed, the folder goes aside, to ``.earlier/NAME@REVISION`` beside it, and everything is asked again; when it has
changed back, the earlier folder is taken up again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import ValidationError

from demur import __version__
from demur.calls.run import run_sync
from demur.code import code_digest
from demur.errors import DemurError, UsageError
from demur.pipeline.grading import Grading
from demur.records import (
    AnswerSpec,
    Ask,
    ContextSet,
    Evidence,
    Modality,
    Outcome,
    Record,
    Response,
    Row,
    Sample,
    Status,
    Verdict,
)
from demur.scenarios import contexts as making
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System
from demur.store import (
    JsonlLog,
    Problems,
    digest,
    read_json,
    read_jsonl,
    storage_errors,
    unstorable,
    write_json,
    write_records,
)

ALONGSIDE = 64
"""Asks under way at once; the limit per endpoint is `demur.calls`' own."""


class Judge(Protocol):
    """Whoever grades; a rule judge answers at once, a model judge may be awaited."""

    id: str

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict | Awaitable[Verdict]:
        """One verdict for one response."""
        ...


class Task(NamedTuple):
    """One planned question: everything known before the system is asked."""

    sample: Sample
    context: ContextSet
    ask: Ask


class Answer(Record):
    """One line of ``responses.jsonl``."""

    ask: str
    response: Response


class Graded(NamedTuple):
    """One answered and judged question."""

    task: Task
    response: Response
    verdict: Verdict


def plan(
    samples: Sequence[Sample],
    recipes: Sequence[making.Recipe],
    conditions: Sequence[Condition],
    prompts: Prompts,
    seed: int = 0,
    repeat: int = 1,
) -> Iterator[Task]:
    """Every task, sample by sample: asks that share images and evidence lie together for the server's cache.

    Each is asked ``repeat`` times, in independent draws.
    """
    seen: set[str] = set()
    for sample, context in making.contexts(samples, recipes, seed):
        for condition in conditions:
            for draw in range(repeat):
                task = Task(sample, context, make_ask(sample, context, condition, prompts, draw))
                if task.ask.id not in seen:  # a sweep and the four scenarios may name the same recipe
                    seen.add(task.ask.id)
                    yield task


async def grade_all(
    tasks: Iterable[Task],
    system: System,
    judge: Judge,
    *,
    known: Mapping[str, Response] | None = None,
    on_answer: Callable[[Task, Response], None] = lambda task, response: None,
    alongside: int = ALONGSIDE,
) -> list[Graded]:
    """Ask and judge all tasks, in the order given; bounded work in flight.

    Args:
        tasks: what to ask; those that the system does not take are passed over.
        system: who is asked.
        judge: who grades.
        known: answers had before, by ask id; they are judged, not asked again.
        on_answer: called once for every new answer, as it comes.
        alongside: asks in flight at once.
    """
    known = known or {}
    gate = asyncio.Semaphore(alongside)

    async def one(task: Task) -> Graded:
        response = known.get(task.ask.id)
        if response is None:
            response = await answer_of(system, task.ask)
            on_answer(task, response)
        verdict = await grading.verdict(task.ask, response, task.sample.answers)
        gate.release()
        return Graded(task, response, verdict)

    grading = Grading(judge)
    running: list[asyncio.Task[Graded]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                if system.takes(task.ask):
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
        told = f"the system raised {type(error).__name__}: {error}"
        return Response(error=" ".join(told.encode("utf-8", "replace").decode().split())[:1000])
    if not isinstance(response, Response):
        return Response(error=f"the system returned {type(response).__name__}, not a response")
    why = unstorable(response)
    return Response(error=f"the answer is malformed, {why}") if why else response


def _kept(response: Response) -> Response:
    """A response as it is filed: without what differs from one run to the next (the ledger has that)."""
    return response.model_copy(update={"latency_s": 0.0, "cached": False, "served_by": ""})


def _modality(evidence: Sequence[Evidence]) -> Literal["none", "text", "image", "both"]:
    kinds = {e.modality for e in evidence}
    if len(kinds) == 2:
        return "both"
    return "image" if kinds == {Modality.IMAGE} else "text" if kinds else "none"


def row(graded: Graded) -> Row:
    """The flat row of one graded ask."""
    (sample, context, ask), response, verdict = graded
    shown = set(context.evidence)
    return Row(
        ask=ask.id,
        context=context.id,
        sample=sample.id,
        source=sample.source,
        topic=sample.topic,
        cluster=sample.cluster,
        query_modality="text+image" if sample.images else "text",
        gold_modality=_modality(sample.gold),
        negative_modality=_modality([e for e in sample.negatives if e.id in shown]),
        scenario=context.scenario,
        condition=ask.condition,
        recipe=context.recipe,
        draw=ask.draw,
        k_used=context.k_used,
        expected=context.expected,
        status=verdict.status,
        outcome=verdict.outcome,
        reason=verdict.reason,
        answer=response.text,
        confidence=response.confidence,
        error=response.error,
    )


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write ``rows.parquet``: exactly the columns of `Row`, repeated texts as dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"k_used": pa.int32(), "draw": pa.int32(), "confidence": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in Row.model_fields])
    with storage_errors(path):
        temporary = path.with_name(f".{path.name}.tmp")
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            batch: list[dict[str, Any]] = []
            for one in rows:
                batch.append(one.model_dump(mode="json"))
                if len(batch) == 50_000:
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                    batch = []
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
        temporary.replace(path)


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

    Returns:
        ``out``, holding manifest, contexts, responses, verdicts and rows.

    Raises:
        UsageError: ``out`` holds another run.
        StorageError: it cannot be written.
    """
    skipped: dict[str, int] = {}
    taken: list[Task] = []
    for task in tasks:
        why = system.takes(task.ask)
        if why:
            skipped[why] = skipped.get(why, 0) + 1
        else:
            taken.append(task)
    code = judge_code(judge)
    identity = _plain({
        **{k: v for k, v in about.items() if k != "caveat"},
        "demur": __version__,
        "system": system.id,
        "revision": system.revision,
        "note": "; ".join(filter(None, (system.note, str(about.get("caveat", ""))))),
        "judge": judge.id,
        **({"judge_code": code} if code else {}),
        "plan": digest([t.ask.id for t in taken]),
        "asks": len(taken),
        "not_asked": skipped,
    })  # fmt: skip
    known, since = _taken_up(out, identity, fresh, note)
    manifest_path = out / "manifest.json"
    old = read_json(manifest_path) if manifest_path.exists() else {}
    reused = sum(t.ask.id in known for t in taken)
    if "files" in old and reused == len(taken):  # finished: nothing to ask, nothing to write
        note(f"{system.id}: reused {reused:,} answers of {since}, asked 0")
        return out
    if not old:
        write_json(manifest_path, identity)
    with JsonlLog(out / "journal.jsonl") as journal:
        done = reused
        progress(done)

        def on_answer(task: Task, response: Response) -> None:
            nonlocal done
            journal.append({"ask": task.ask.id, "response": _kept(response).model_dump(mode="json")})
            done += 1
            progress(done)

        async def work() -> list[Graded]:
            try:
                return await grade_all(taken, system, judge, known=known, on_answer=on_answer, alongside=alongside)
            finally:
                await system.close()
                await close_judge(judge)

        graded = run_sync(work())
        if told := str(getattr(judge, "told", "")):
            note(told)
    files = {
        "contexts.jsonl": write_records(out / "contexts.jsonl", _once(g.task.context for g in graded)),
        "responses.jsonl": write_records(
            out / "responses.jsonl", (Answer(ask=g.task.ask.id, response=_kept(g.response)) for g in graded)
        ),
        "verdicts.jsonl": write_records(out / "verdicts.jsonl", (g.verdict for g in graded)),
    }
    write_rows(out / "rows.parquet", (row(g) for g in graded))
    counts = {
        "graded": sum(g.verdict.status is Status.GRADED for g in graded),
        "ungraded": sum(g.verdict.status is Status.UNGRADED for g in graded),
        "failed": sum(g.verdict.status is Status.FAILED for g in graded),
        **{o.value: sum(g.verdict.outcome is o for g in graded) for o in Outcome},
        "cut": sum(bool(g.response.cuts) for g in graded),
        "gold_cut": sum(_gold_cut(g) for g in graded),
    }
    errors = commonest(g.response.error for g in graded)
    reads = getattr(system, "reads_prompt", None)
    said = {**({"errors": errors} if errors else {}), **({} if reads is None else {"reads_prompt": reads})}
    write_json(manifest_path, identity | {"files": files, "counts": counts, **said})
    with storage_errors(out):
        (out / "journal.jsonl").unlink()
    if reused:
        note(f"{system.id}: reused {reused:,} answers of {since}, asked {len(taken) - reused:,}")
    if counts["failed"]:
        reason, times = next(iter(errors.items()), ("no reason given", counts["failed"]))
        note(
            f"{system.id}: {counts['failed']:,} of {len(taken):,} failed, {times:,} of them so: {reason} - the same "
            "command asks them again"
        )
    return out


EARLIER = ".earlier"
"""Beside the run folders: those that went aside."""
_RESULTS = frozenset({"files", "counts", "errors", "reads_prompt"})
"""What a manifest says of a run that is finished."""


def _taken_up(
    out: Path, identity: dict[str, Any], fresh: bool, note: Callable[[str], None]
) -> tuple[dict[str, Response], str]:
    """Make ``out`` ready for a run: the answers that it has, and of when they are.

    Raises:
        UsageError: it holds another run.
    """
    old = _identity_in(out)
    other = {k for k in {*old, *identity} if old.get(k) != identity.get(k)} if old else set()
    if other - {"revision", "judge_code"} and not fresh:
        told = ", ".join(sorted(other))
        raise UsageError(
            f"holds another run (they differ in: {told})", item=str(out),
            cure="choose another folder, or delete this one to start over",
        )  # fmt: skip
    graded_otherwise: dict[str, Response] = {}
    since = _date(out)
    if old and (other or fresh):
        aside = _aside(out, old)
        why = "asked afresh" if fresh else "its code or file changed" if "revision" in other else "the judge changed"
        note(f"{identity['system']}: {why}; the run of {since} is now {aside}")
        if not fresh and "revision" not in other:
            graded_otherwise = _journal(aside / "journal.jsonl") | _journal(aside / "responses.jsonl")
        earlier = _place_aside(out, identity)
        if not fresh and earlier.is_dir():
            with storage_errors(out):
                earlier.rename(out)
            note(f"{identity['system']}: it was like this before; its earlier run is taken up again")
            since = _date(out)
    return graded_otherwise | _journal(out / "journal.jsonl") | _journal(out / "responses.jsonl"), since


def known_answers(folder: Path, system: System) -> dict[str, Response]:
    """The answers by ask that a run folder has of this revision of a system; errors are none."""
    old = _identity_in(folder)
    if (old.get("system"), old.get("revision")) != (system.id, system.revision):
        return {}
    return _journal(folder / "journal.jsonl") | _journal(folder / "responses.jsonl")


def _identity_in(folder: Path) -> dict[str, Any]:
    """What a run folder's manifest says of which run it is; {} where there is none."""
    path = folder / "manifest.json"
    return {k: v for k, v in read_json(path).items() if k not in _RESULTS} if path.exists() else {}


def _place_aside(out: Path, identity: dict[str, Any]) -> Path:
    return out.parent / EARLIER / f"{out.name}@{digest(identity, 8)}"


def _aside(out: Path, identity: dict[str, Any]) -> Path:
    first = place = _place_aside(out, identity)
    again = 2
    while place.exists():
        place, again = first.with_name(f"{first.name}-{again}"), again + 1
    with storage_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        out.rename(place)
    return place


def _date(folder: Path) -> str:
    """When the last answer of a run folder came, to the minute."""
    times = [p.stat().st_mtime for name in ("journal.jsonl", "responses.jsonl") if (p := folder / name).exists()]
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(max(times))) if times else ""


def commonest(errors: Iterable[str], most: int = 3) -> dict[str, int]:
    """The reasons that were given most often, with how often; numbers in them count as the same.

    >>> commonest(["no reply to item 3", "", "no reply to item 14", "broken"])
    {'no reply to item 3': 2, 'broken': 1}
    """
    first: dict[str, str] = {}
    times: Counter[str] = Counter()
    for error in errors:
        if error:
            told = " ".join(error.split())[:300]
            alike = re.sub(r"\d+", "0", told)
            first.setdefault(alike, told)
            times[alike] += 1
    return {first[alike]: n for alike, n in times.most_common(most)}


async def close_judge(judge: Judge) -> None:
    """Let a judge that asks a model go of its connection; the next run has another event loop."""
    if hasattr(judge, "close"):
        await judge.close()


def judge_code(judge: Judge) -> str:
    """The code of a user's own judge, "" of demur's, which are told by their ids: what it decided holds for both."""
    return "" if type(judge).__module__.startswith("demur.") else code_digest(judge)


def _gold_cut(graded: Graded) -> bool:
    """Whether gold evidence was not shown whole: such an answer says little about the model."""
    gold = set(graded.task.context.gold)
    return any(line.partition(":")[0] in gold for line in graded.response.cuts)


def _plain(value: dict[str, Any]) -> Any:
    import json

    from demur.store import canonical

    return json.loads(canonical(value))


def _once(items: Iterable[ContextSet]) -> Iterator[ContextSet]:
    seen: set[str] = set()
    for item in items:
        if item.id not in seen:
            seen.add(item.id)
            yield item


def _journal(path: Path) -> dict[str, Response]:
    """Answers had before; a torn or damaged line is passed over, so that its question is asked again.

    An answer that was an error is not kept: another run may do better.
    """
    if not path.exists():
        return {}
    found: dict[str, Response] = {}
    for _, line in read_jsonl(path, Problems()):
        try:
            answer = Answer.model_validate(line)
        except ValidationError:
            continue
        if not answer.response.error and not unstorable(answer):
            found[answer.ask] = answer.response
    return found
