"""A run folder: what it says of itself, the answers that it has, when it goes aside, and the files that it ends with.

A run folder can be killed at any moment and run again: answers are appended to ``journal.jsonl`` as they come, and the
final files are written from it in the order of the tasks, so that they are the same bytes whenever and however often
the run was stopped. Answers that were errors are asked for again by the next run of the same command.

It holds what one revision of a system (its code, its file, its weights) answered under one sampling and layout. When
any of them has changed, the folder goes aside, to ``.earlier/NAME@REVISION`` beside it, and everything is asked again;
when it has changed back, the earlier folder is taken up again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from demur.core.errors import UsageError
from demur.core.records import Ask, ContextSet, Evidence, Modality, Record, Response, Row, Sample, Verdict
from demur.core.store import Problems, digest, read_json, read_jsonl, storage_errors, unstorable
from demur.scenarios.systems import System

EARLIER = ".earlier"
"""Beside the run folders: those that went aside."""


_ASIDE = {
    "revision": "its code or file changed",
    "settings": "its sampling or layout changed",
    "judge_code": "the judge changed",
}
"""What may differ between two runs of one folder, and why it goes aside then; of another run it is refused."""
_RESULTS = frozenset({"files", "counts", "errors", "unjudged", "reads_prompt"})
"""What a manifest says of a run that is finished."""


class Task(NamedTuple):
    """One planned question: everything known before the system is asked."""

    sample: Sample
    context: ContextSet
    ask: Ask


class Answer(Record):
    """One line of ``responses.jsonl``."""

    ask: str
    response: Response


def timings_path(folder: Path) -> Path:
    """``NAME.timings.jsonl`` beside a run folder: what was measured when its answers came, never the same twice."""
    return folder.with_name(f"{folder.name}.timings.jsonl")


class Timing(Record):
    """One line of `timings_path`; an ask that was asked again has several, the last of them counts."""

    ask: str
    latency_s: float
    first_s: float = 0.0
    served_by: str = ""
    """The system, and its version where it tells one: ``my-rag@7``."""
    cached: bool = False
    """Kept by the ledger or by a cache in front of the service: the time is not the service's."""

    @classmethod
    def of(cls, ask: str, response: Response) -> Timing:
        """Of an answer that has just come."""
        return cls(
            ask=ask,
            latency_s=round(response.latency_s, 4),
            first_s=round(response.first_s, 4),
            served_by=response.served_by,
            cached=response.cached,
        )


def read_timings(folder: Path) -> dict[str, Timing]:
    """The timings of a run folder by ask; {} of one that has none. Damaged lines are passed over."""
    path, found = timings_path(folder), {}
    if path.is_file():
        for _, line in read_jsonl(path, Problems()):
            with suppress(ValidationError):
                timing = Timing.model_validate(line)
                found[timing.ask] = timing
    return found


def versions_of(system: str, timings: Iterable[Timing]) -> dict[str, int]:
    """Version -> answers of a system that tells its version (``my-rag@7``)."""
    told = (t.served_by.removeprefix(f"{system}@") for t in timings if t.served_by.startswith(f"{system}@"))
    return dict(Counter(told).most_common())


class Graded(NamedTuple):
    """One answered and judged question."""

    task: Task
    response: Response
    verdict: Verdict


def resume(
    out: Path, identity: dict[str, Any], fresh: bool, note: Callable[[str], None]
) -> tuple[dict[str, Response], str]:
    """Make ``out`` ready for a run: the answers that it has, and of when they are.

    Raises:
        UsageError: it holds another run.
    """
    old = _identity_in(out)
    other = {k for k in {*old, *identity} if old.get(k) != identity.get(k)} if old else set()
    if other - _ASIDE.keys() and not fresh:
        names = ", ".join(sorted(other))
        raise UsageError(
            f"holds another run (they differ in: {names})", item=str(out),
            cure="choose another folder, or delete this one to start over",
        )  # fmt: skip
    graded_otherwise: dict[str, Response] = {}
    since = _date(out)
    if old and (other or fresh):
        aside = _aside(out, old)
        why = "asked afresh" if fresh else next(said for name, said in _ASIDE.items() if name in other)
        note(f"{identity['system']}: {why}; the run of {since} is now {aside}")
        if not fresh and other == {"judge_code"}:
            graded_otherwise = read_answers(aside / "journal.jsonl") | read_answers(aside / "responses.jsonl")
        earlier = _place_aside(out, identity)
        if not fresh and earlier.is_dir():
            with storage_errors(out):
                earlier.rename(out)
            note(f"{identity['system']}: it was like this before; its earlier run is taken up again")
            since = _date(out)
    return graded_otherwise | read_answers(out / "journal.jsonl") | read_answers(out / "responses.jsonl"), since


def known_answers(folder: Path, system: System) -> dict[str, Response]:
    """The answers by ask that a run folder has of this revision of a system, so set; errors are none."""
    old, settings = _identity_in(folder), getattr(system, "settings", None) or None
    if (old.get("system"), old.get("revision"), old.get("settings")) != (system.id, system.revision, settings):
        return {}
    return read_answers(folder / "journal.jsonl") | read_answers(folder / "responses.jsonl")


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


def read_answers(path: Path) -> dict[str, Response]:
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


def filed(response: Response) -> Response:
    """A response as it is filed: without what differs from one run to the next (`Timing` and the ledger have that)."""
    return response.model_copy(update={"latency_s": 0.0, "first_s": 0.0, "cached": False, "served_by": ""})


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
    )


def _modality(evidence: Sequence[Evidence]) -> Literal["none", "text", "image", "both"]:
    kinds = {e.modality for e in evidence}
    if len(kinds) == 2:
        return "both"
    return "image" if kinds == {Modality.IMAGE} else "text" if kinds else "none"


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write ``rows.parquet``: exactly the columns of `Row`, repeated texts as dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"k_used": pa.int32(), "repeat": pa.int32(), "confidence": pa.float64()}
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


def all_failed(folders: Iterable[Path]) -> list[str]:
    """A line for each run in which the system gave no usable answer, or its judge no verdict: the commonest reason."""
    lines = []
    for folder in folders:
        manifest = read_json(folder / "manifest.json")
        if manifest["asks"] and manifest["counts"]["failed"] == manifest["asks"]:
            reason = next(iter(manifest.get("errors", {})), "no reason given")
            lines.append(
                f"{manifest['system']}: all {manifest['asks']:,} questions failed: {reason} - fix that and run the "
                "same command again"
            )
        elif manifest["asks"] and not manifest["counts"]["graded"] and (why := manifest.get("unjudged")):
            lines.append(
                f"{manifest['judge']}: no answer of {manifest['system']} could be judged: {next(iter(why))} - fix that "
                "and run the same command again"
            )
    return lines
