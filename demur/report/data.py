"""What a report is made from: run folders and, where there is one, the release they were asked from.

Everything is read from files and checked here, so that tables, figures and pages only arrange it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from demur.errors import DataError, UsageError
from demur.records import ContextSet, Drop, Outcome, Row, Sample
from demur.store import Problems, read_json, read_jsonl, read_records, storage_errors, why_invalid

ROWS = "rows.parquet"


class ReleaseView(Protocol):
    """The part of `demur.curation.release.Release` that reports read."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Name, version, seeds, hashes."""

    @property
    def funnel(self) -> Sequence[Mapping[str, Any]]:
        """Stages in order: ``{"stage", "entered", "kept", "dropped": {reason: n}}``."""

    @property
    def recall(self) -> Sequence[Mapping[str, Any]]:
        """Retrieval modes by recall; empty when none was measured."""

    def samples(self) -> Iterator[Sample]:
        """The released samples."""

    def image(self, sha256: str) -> bytes:
        """The bytes of an image of the release."""

    def drops(self) -> Iterator[Drop]:
        """What left, and why."""


@dataclass(frozen=True)
class Run:
    """One run folder, read.

    Attributes:
        name: the system: its folder's name, made unique among the runs of a report.
        path: the folder.
        manifest: as the run wrote it.
        rows: every graded ask, in file order.
        contexts: context id -> context set; empty when the folder holds none.
        judges: judge ids of its verdicts, sorted; from the manifest when there is no verdicts file.
        prompts: SHA-256 of the judge prompts used, sorted.
        usage: tokens and seconds, summed over the responses.
        labels: ask id -> what a person said of the answer, from ``labels.jsonl`` where somebody put one.
    """

    name: str
    path: Path
    manifest: Mapping[str, Any]
    rows: tuple[Row, ...]
    contexts: Mapping[str, ContextSet] = field(default_factory=dict)
    judges: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """A caveat the run states of itself (a demo-sized model, an encoder that is not CLIP)."""
        return str(self.manifest.get("note") or "")


@dataclass(frozen=True)
class ReportData:
    """The whole input of a report."""

    runs: tuple[Run, ...]
    release: ReleaseView | None = None
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """Sample id -> sample, of the release; empty without one."""


def is_run(path: Path) -> bool:
    """Whether a folder looks like a run."""
    return (path / ROWS).is_file() and (path / "manifest.json").is_file()


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run folders among ``paths`` and inside them (``demo-out`` and ``demo-out/runs`` stand for all their runs).

    Raises:
        UsageError: a path is no folder, holds no run, or the same run is named twice.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(
                "no such folder", item=str(path), cure="give a folder that 'demur run' or 'demur demo' wrote"
            )
        if is_run(path):
            found.append(path)
            continue
        with storage_errors(path):
            inner = sorted(p for root in (path, path / "runs") if root.is_dir() for p in root.iterdir() if is_run(p))
        if not inner:
            raise UsageError(*_why_not_a_run(path), item=str(path), cure="give a folder such as demo-out/runs/SYSTEM")
        found += inner
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise UsageError("the same run is named twice", item=str(path), cure="name each run once")
        seen.add(path.resolve())
    return found


def _why_not_a_run(path: Path) -> tuple[str]:
    if (path / "data" / "samples.parquet").exists():
        return ("this is a release, not a run",)
    lacks = [name for name in (ROWS, "manifest.json") if not (path / name).is_file()]
    return (f"not a run: it has no {' and no '.join(lacks)}",)


def read_rows(path: Path) -> tuple[Row, ...]:
    """The rows of a run, every one checked.

    Args:
        path: ``rows.parquet``, with exactly the columns of `Row`.

    Raises:
        DataError: not Parquet, other columns, or no rows.
        BadInput: rows that are not valid, all of them told.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with storage_errors(path):
            table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"not a Parquet file: {error}", item=str(path), cure="run the system again") from error
    expected, present = set(Row.model_fields), set(table.column_names)
    if present | {"draw"} != expected:  # a run from before there were draws has no such column
        differences = [f"lacks {c}" for c in sorted(expected - present)] + [
            f"has {c}" for c in sorted(present - expected)
        ]
        raise DataError(
            f"the columns are not those of a run: {', '.join(differences)}", item=str(path), cure="run the system again"
        )
    problems = Problems()
    rows: list[Row] = []
    for batch in table.to_batches():
        for values in batch.to_pylist():
            try:
                rows.append(Row.model_validate(values))
            except ValidationError as error:
                problems.add(f"{path.name}:{len(rows) + len(problems) + 1} ({values.get('ask')})", why_invalid(error))
    problems.settle()
    if not rows:
        raise DataError("the run has no rows", item=str(path), cure="let it finish: run the same command again")
    return tuple(rows)


def read_run(path: Path, name: str = "") -> Run:
    """Read one run folder.

    Args:
        path: the folder.
        name: what to call the system; the folder's name when empty.

    Raises:
        DataError: a file of it is broken; names the file and the line.
    """
    manifest = read_json(path / "manifest.json")
    if not isinstance(manifest, dict):
        raise DataError(
            "the manifest is not a JSON object", item=str(path / "manifest.json"), cure="run the system again"
        )
    problems = Problems()
    contexts: dict[str, ContextSet] = {}
    if (path / "contexts.jsonl").is_file():
        contexts = {c.id: c for c in read_records(path / "contexts.jsonl", ContextSet, problems)}
    judges: set[str] = set()
    prompts: set[str] = set()
    if (path / "verdicts.jsonl").is_file():
        for _, verdict in read_jsonl(path / "verdicts.jsonl", problems):
            judges.add(str(verdict.get("judge", "")))
            prompts.add(str(verdict.get("prompt_sha256", "")))
    usage = {"responses": 0.0, "prompt": 0.0, "completion": 0.0, "seconds": 0.0, "cached": 0.0}
    if (path / "responses.jsonl").is_file():
        for _, line in read_jsonl(path / "responses.jsonl", problems):
            response = line.get("response") or {}
            tokens = response.get("usage") or {}
            usage["responses"] += 1
            usage["cached"] += bool(response.get("cached"))
            usage["seconds"] += float(response.get("latency_s") or 0.0)
            for key in ("prompt", "completion"):
                usage[key] += int(tokens.get(key) or 0)
    labels = _human_labels(path / "labels.jsonl", problems)
    problems.settle()
    if not judges and manifest.get("judge"):
        judges.add(str(manifest["judge"]))
    return Run(
        name=name or path.resolve().name,
        path=path,
        manifest=manifest,
        rows=read_rows(path / ROWS),
        contexts=contexts,
        judges=tuple(sorted(judges - {""})),
        prompts=tuple(sorted(prompts - {""})),
        usage=usage if usage["responses"] else {},
        labels=labels,
    )


_LABELS = {o.value: o for o in Outcome} | {"not_attempted": Outcome.DEFLECTED, "hallucinated": Outcome.INCORRECT}


def _human_labels(path: Path, problems: Problems) -> dict[str, Outcome]:
    """Lines of ``{"ask": id, "label": correct | incorrect | deflected}``; SimpleQA's NOT_ATTEMPTED is deflected."""
    found: dict[str, Outcome] = {}
    if not path.is_file():
        return found
    for place, row in read_jsonl(path, problems):
        ask, label = str(row.get("ask", "")), str(row.get("label", "")).lower()
        if label not in _LABELS or not ask:
            problems.add(f"{place} ({ask or 'no ask'})", f"label {label!r}; one of {', '.join(_LABELS)}")
        elif ask in found:
            problems.add(f"{place} ({ask})", "labelled twice")
        else:
            found[ask] = _LABELS[label]
    return found


def _unique_names(paths: Sequence[Path]) -> list[str]:
    """Folder names; where two are equal, with as many parents as it takes to tell them apart."""
    parts = [p.resolve().parts for p in paths]
    names = [p[-1] for p in parts]
    for deep in range(2, max((len(p) for p in parts), default=0) + 1):
        twice = {n for n in names if names.count(n) > 1}
        if not twice:
            break
        names = ["/".join(p[-deep:]) if n in twice else n for n, p in zip(names, parts, strict=True)]
    return names


def beside(run: Path) -> Path | None:
    """The release folder that lies where ``demur demo`` and ``demur run`` put it: ``runs/../release``."""
    for place in (run.resolve().parent.parent / "release", run.resolve().parent / "release"):
        if (place / "manifest.json").is_file() and (place / "data").is_dir():
            return place
    return None


def load(runs: Sequence[Path], release: Path | None = None) -> ReportData:
    """Read everything a report needs.

    Args:
        runs: run folders, or folders that hold runs.
        release: the release they were asked from; None looks beside the first run, and does without when
            there is none (questions, pictures and the funnel are then missing from the report).

    Raises:
        UsageError: a path is not what it should be.
        DataError: a file is broken, or a run asks samples that the release does not have.
    """
    paths = find_runs(runs)
    if not paths:
        raise UsageError("no run was named", cure="give a folder such as demo-out/runs/SYSTEM")
    read = tuple(read_run(path, name) for path, name in zip(paths, _unique_names(paths), strict=True))
    folder = release or beside(paths[0])
    if folder is None:
        return ReportData(read)
    from demur.curation.release import Release

    opened = Release.open(folder)
    samples = {s.id: s for s in opened.samples()}
    for run in read:
        strange = sorted({row.sample for row in run.rows} - set(samples))
        if strange:
            raise DataError(
                f"the run asks {len(strange)} sample(s) that the release {folder} does not have, such as {strange[0]}",
                item=str(run.path),
                cure="give the release it was run on with --release",
            )
    return ReportData(read, opened, samples)
