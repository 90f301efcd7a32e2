"""A run folder: its identity, its stored answers, when it is moved aside, and its final files.

A run can be killed at any moment and resumed: answers are appended to ``journal.jsonl`` as they arrive, and the final
files are written from it in the order of the tasks, so their bytes do not depend on interruptions. The next run of the
same command asks again for answers that were errors.

A folder holds the answers of one revision of a system (its code, its file, its weights) under one sampling and layout.
When any of these changes, the folder is moved to ``.earlier/NAME@REVISION`` beside it, and everything is asked again;
when it changes back, the earlier folder is resumed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from demur.core.errors import UsageError
from demur.core.parquet import table_writer
from demur.core.records import (
    Ask,
    ContextSet,
    Evidence,
    Modality,
    Record,
    Response,
    Row,
    Sample,
    Verdict,
)
from demur.core.store import Problems, digest, read_json, read_jsonl, storage_errors, unstorable
from demur.judge.measures.table import row_schema
from demur.scenarios.systems import System

EARLIER = ".earlier"
"""Folder beside the run folders, for those moved aside."""

_MOVED_IF_CHANGED = {
    "revision": "its code or file changed",
    "settings": "its sampling or layout changed",
    "judge": "the judge changed",
    "judge_code": "the judge changed",
}
"""Manifest entries whose change moves a run aside, with the reason; other changes make it another run."""
_QUESTIONS = frozenset(
    "seed limit recipes conditions prompts repeat corpora plan asks not_asked".split()
)
"""Manifest entries that say what is asked: a run that may grow is asked more."""
_RESULTS = ("files", "counts", "errors", "unjudged", "asked_without", "reads_prompt")
_NOT_IDENTITY = frozenset({"demur", *_RESULTS, "items_path"})
"""Manifest entries that do not identify a run: its results, the version of demur (an upgrade resumes a run), and where
the items of a suite are."""


class Task(NamedTuple):
    """One planned question."""

    sample: Sample
    context: ContextSet
    ask: Ask


class Answer(Record):
    """One line of ``responses.jsonl``."""

    ask: str
    response: Response


def timings_path(folder: Path) -> Path:
    """``NAME.timings.jsonl`` beside a run folder: measurements, which differ from run to run."""
    return folder.with_name(f"{folder.name}.timings.jsonl")


class Timing(Record):
    """One line of `timings_path`; the last line of an ask counts."""

    ask: str
    latency_s: float
    first_s: float = 0.0
    served_by: str = ""
    """The system, with its version if it reports one: ``my-rag@7``."""
    cached: bool = False
    """From the ledger or a cache in front of the service: the time is not the service's."""

    @classmethod
    def of(cls, ask: str, response: Response) -> Timing:
        """The timing of a new answer."""
        return cls(
            ask=ask,
            latency_s=round(response.latency_s, 4),
            first_s=round(response.first_s, 4),
            served_by=response.served_by,
            cached=response.cached,
        )


def read_timings(folder: Path) -> dict[str, Timing]:
    """The timings of a run folder by ask. Skips damaged lines."""
    path, timings = timings_path(folder), {}
    if path.is_file():
        for _, line in read_jsonl(path, Problems()):
            with suppress(ValidationError):
                timing = Timing.model_validate(line)
                timings[timing.ask] = timing
    return timings


def versions_of(system: str, timings: Iterable[Timing]) -> dict[str, int]:
    """Version -> number of answers, of a system that reports its version (``my-rag@7``)."""
    versions = (
        t.served_by.removeprefix(f"{system}@")
        for t in timings
        if t.served_by.startswith(f"{system}@")
    )
    return dict(Counter(versions).most_common())


class Graded(NamedTuple):
    """One answered and graded question."""

    task: Task
    response: Response
    verdict: Verdict


def resume(
    out: Path,
    identity: dict[str, Any],
    fresh: bool,
    note: Callable[[str], None],
    grows: bool = False,
) -> tuple[dict[str, Response], str]:
    """Prepare ``out`` for a run: its stored answers, and the time of the last one.

    Raises:
        UsageError: it holds another run; with ``grows``, one of other questions is not another.
    """
    earlier_identity = _identity_in(out)
    identity = {k: v for k, v in identity.items() if k not in _NOT_IDENTITY}
    changed_keys = (
        {k for k in {*earlier_identity, *identity} if earlier_identity.get(k) != identity.get(k)}
        if earlier_identity
        else set()
    )
    earlier_prompts, prompts = (d.get("prompts") or {} for d in (earlier_identity, identity))
    if grows and all(
        earlier_prompts[c] == prompts[c] for c in earlier_prompts.keys() & prompts.keys()
    ):
        changed_keys -= _QUESTIONS
    if changed_keys - _MOVED_IF_CHANGED.keys() and not fresh:
        raise UsageError(
            f"holds another run (they differ in: {', '.join(sorted(changed_keys))})",
            item=str(out),
            cure="give this run a name or a folder of its own: no reply is paid twice",
        )
    regraded: dict[str, Response] = {}
    since = _time_of_last_answer(out)
    if earlier_identity and (changed_keys or fresh):
        aside = _move_aside(out, earlier_identity)
        why = (
            "asked afresh"
            if fresh
            else next(why for name, why in _MOVED_IF_CHANGED.items() if name in changed_keys)
        )
        note(f"{identity['system']}: {why}; moved the run of {since} to {aside}")
        if not fresh and changed_keys <= {"judge", "judge_code"}:
            regraded = _answers_in(aside)
        earlier = _aside_path(out, identity)
        if not fresh and earlier.is_dir():
            with storage_errors(out):
                earlier.rename(out)
            note(f"{identity['system']}: it was like this before; its earlier run is resumed")
            since = _time_of_last_answer(out)
    return regraded | _answers_in(out), since


def known_answers(folder: Path, system: System) -> dict[str, Response]:
    """The stored answers of a system in this revision with these settings, by ask, without errors."""
    return _answers_in(folder) if is_of(_identity_in(folder), system) else {}


def _answers_in(folder: Path) -> dict[str, Response]:
    return read_answers(folder / "journal.jsonl") | read_answers(folder / "responses.jsonl")


def is_of(manifest: Mapping[str, Any], system: System) -> bool:
    """Whether a run is of a system in this revision with these settings."""
    settings = getattr(system, "settings", None) or None
    ran = (manifest.get("system"), manifest.get("revision"), manifest.get("settings"))
    return ran == (system.id, system.revision, settings)


def _identity_in(folder: Path) -> dict[str, Any]:
    """The entries of a manifest that identify its run; {} without a manifest."""
    path = folder / "manifest.json"
    return (
        {k: v for k, v in read_json(path).items() if k not in _NOT_IDENTITY}
        if path.exists()
        else {}
    )


def _aside_path(out: Path, identity: dict[str, Any]) -> Path:
    return out.parent / EARLIER / f"{out.name}@{digest(identity, 8)}"


def _move_aside(out: Path, identity: dict[str, Any]) -> Path:
    first = place = _aside_path(out, identity)
    again = 2
    while place.exists():
        place, again = first.with_name(f"{first.name}-{again}"), again + 1
    with storage_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        out.rename(place)
    return place


def _time_of_last_answer(folder: Path) -> str:
    """Time of a run folder's last answer, to the minute."""
    times = [
        p.stat().st_mtime
        for name in ("journal.jsonl", "responses.jsonl")
        if (p := folder / name).exists()
    ]
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(max(times))) if times else ""


def read_answers(path: Path) -> dict[str, Response]:
    """Stored answers by ask; skips damaged lines and errors, so that their questions are asked again."""
    if not path.exists():
        return {}
    answers: dict[str, Response] = {}
    for _, line in read_jsonl(path, Problems()):
        try:
            answer = Answer.model_validate(line)
        except ValidationError:
            continue
        if not answer.response.error and not unstorable(answer):
            answers[answer.ask] = answer.response
    return answers


def without_timing(response: Response) -> Response:
    """A response without what differs from run to run (`Timing` and the ledger have that)."""
    return response.model_copy(
        update={"latency_s": 0.0, "first_s": 0.0, "cached": False, "served_by": ""}
    )


def row(graded: Graded) -> Row:
    """The flat row of one graded ask."""
    (sample, context, ask), response, verdict = graded
    evidence_ids = set(context.evidence)
    return Row(
        ask=ask.id,
        context=context.id,
        sample=sample.id,
        source=sample.source,
        topic=sample.topic,
        cluster=sample.cluster,
        query_modality="text+image" if sample.images else "text",
        gold_modality=_modality(sample.gold),
        negative_modality=_modality([e for e in sample.negatives if e.id in evidence_ids]),
        scenario=context.scenario,
        condition=ask.condition,
        recipe=context.recipe,
        repeat=ask.repeat,
        k_used=context.k_used,
        expected=context.expected,
        status=verdict.status,
        outcome=verdict.outcome,
        reason=verdict.reason,
        answer=response.text,
        confidence=response.confidence,
        error=response.error,
        kind=verdict.kind,
        method=verdict.method.value if verdict.method else "",
        probability=verdict.probability,
    )


def _modality(evidence: Sequence[Evidence]) -> Literal["none", "text", "image", "both"]:
    kinds = {e.modality for e in evidence}
    if len(kinds) == 2:
        return "both"
    return "image" if kinds == {Modality.IMAGE} else "text" if kinds else "none"


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write ``rows.parquet``: exactly the columns of `Row`."""
    with table_writer(path, row_schema()) as add:
        for row in rows:
            add(row.model_dump(mode="json"))


def all_failed(folders: Iterable[Path]) -> list[str]:
    """A line with the commonest reason for each run without a usable answer or without a verdict."""
    lines = []
    for folder in folders:
        manifest = read_json(folder / "manifest.json")
        if manifest["asks"] and manifest["counts"]["failed"] == manifest["asks"]:
            reason = next(iter(manifest.get("errors", {})), "no reason given")
            fresh_option = " with --fresh" if read_answers(folder / "responses.jsonl") else ""
            lines.append(
                f"{manifest['system']}: all {manifest['asks']:,} questions failed: {reason} - fix that and run the "
                f"same command again{fresh_option}"
            )
        elif (
            manifest["asks"]
            and not manifest["counts"]["graded"]
            and (why := manifest.get("unjudged"))
        ):
            lines.append(
                f"{manifest['judge']}: could not grade any answer of {manifest['system']}: {next(iter(why))} - fix "
                "that and run the same command again"
            )
    return lines
