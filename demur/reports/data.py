"""The input of a report: run folders and, if there is one, their release.

This module reads and checks all files; tables, figures and pages only arrange the data. Rows are columns, not records;
`MOST_ITEMS` limits the samples shown one by one, which are selected by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from demur.core.errors import DataError, UsageError
from demur.core.parquet import whole_table
from demur.core.records import ContextSet, Row, Sample, Verdict
from demur.core.store import (
    Problems,
    read_json,
    read_jsonl,
    read_records,
    seed_of,
    storage_errors,
    why_invalid,
)
from demur.core.text import brief
from demur.judge.measures.table import Table, table
from demur.reports.labels import HUMAN, Drawn, HumanLabel, drawn_labels, read_labels

if TYPE_CHECKING:
    from demur.release import Release

ROWS = "rows.parquet"
MOST_ITEMS = 50_000
"""Most questions in the sample browser; of larger runs it shows the samples with the lowest hashes."""
_REPEATED = (
    "source",
    "topic",
    "cluster",
    "query_modality",
    "gold_modality",
    "negative_modality",
    "scenario",
    "condition",
    "recipe",
    "expected",
    "status",
    "outcome",
    "reason",
    "error",
    "kind",
)
"""Columns of repeated texts, dictionary-encoded."""


@dataclass(frozen=True)
class Run:
    """One run folder, read.

    Attributes:
        name: folder name, made unique among the runs of a report.
        path: run folder.
        manifest: its manifest.
        rows: every answer, in file order; given as rows or as a `Table`.
        contexts: context id -> context set of the samples shown one by one; empty when the folder holds none.
        judges: judge ids of its verdicts, sorted; from the manifest when there is no verdicts file.
        prompts: SHA-256 of the judge prompts, sorted.
        labels: ask id -> a person's label of the answer, from ``labels.jsonl``.
    """

    name: str
    path: Path
    manifest: Mapping[str, Any]
    rows: Table
    contexts: Mapping[str, ContextSet] = field(default_factory=dict)
    judges: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    labels: Mapping[str, HumanLabel] = field(default_factory=dict)
    credit: Mapping[str, float] = field(default_factory=dict)
    """Ask id -> partial credit, where the judge rates."""
    judge_code: str = ""
    """Of the judge of these verdicts (`demur.judge.base.judge_code`); "" where it is not stated."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", table(self.rows))

    @cached_property
    def drawn(self) -> Drawn:
        """People's labels that may correct its rates."""
        return drawn_labels(self)

    @property
    def note(self) -> str:
        """The caveat that the run states (a demo-sized model, an encoder that is not CLIP)."""
        return str(self.manifest.get("note") or "")

    @property
    def system(self) -> str:
        """The system by its specification (``reader?min=0.55``); the folder's name where the run does not state it."""
        return str(self.manifest.get("system") or self.name)

    @property
    def blind(self) -> bool:
        """Whether the system does not see the prompt, so that strictness has no effect."""
        return self.manifest.get("reads_prompt") is False

    def part(self, samples: int) -> str:
        """``40 of 281, seed 0`` where the run asks only part of a release with ``samples`` samples; "" otherwise."""
        samples_asked = len(self.rows.coded("sample").labels)
        if not samples or samples_asked >= samples:
            return ""
        drawn = self.manifest.get("limit") is not None and self.manifest.get("seed") is not None
        return f"{samples_asked:,} of {samples:,}" + (
            f", seed {self.manifest['seed']}" if drawn else ""
        )


@dataclass(frozen=True)
class ReportData:
    """The input of a report."""

    runs: tuple[Run, ...]
    release: Release | None = None
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """Sample id -> sample, of the release; empty without one."""
    samples_shown: frozenset[str] | None = None
    """Samples shown one by one; None: all."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Run name -> its section of Table 4, where the user states one (`paper_tables.py`)."""

    @property
    def gates(self) -> dict[str, str]:
        """Run name -> the gate of the release that its system is, by the specification and not by the folder's name."""
        manifest = self.release.manifest if self.release is not None else {}
        models = manifest.get("gate_models") or {
            name: {"system": name} for name in manifest.get("gates") or ()
        }
        gate_of_run: dict[str, str] = {}
        for run in self.runs:
            model = (
                run.system.removeprefix("model:").removeprefix("any-llm:")
                if run.system[:6] == "model:"
                else None
            )
            for name, gate in models.items():
                if run.system == gate.get("system") or (model and model == gate.get("model")):
                    gate_of_run.setdefault(run.name, str(name))
        return gate_of_run

    def starred(self, run: Run) -> str:
        """A system's name for a table, with a star where it is a gate of the release."""
        return run.name + ("*" if run.name in self.gates else "")

    @property
    def star_note(self) -> tuple[str, ...]:
        """The note that explains the star; none without a starred system."""
        if not self.gates:
            return ()
        note = "* also a gate of the release: it decided which samples and distractors stayed, so its rates are biased."
        models = (
            (self.release.manifest.get("gate_models") or {}) if self.release is not None else {}
        )
        revisions = {
            r.name: (r.manifest.get("revision"), models.get(self.gates[r.name], {}).get("revision"))
            for r in self.runs
            if r.name in self.gates
        }
        edited = [
            name
            for name, (revision, gate_revision) in revisions.items()
            if revision and gate_revision and revision != gate_revision
        ]
        return (
            note + (f" The gate was another revision of {', '.join(edited)}." if edited else ""),
        )


def is_run(path: Path) -> bool:
    """Whether a folder looks like a run."""
    return (path / ROWS).is_file() and (path / "manifest.json").is_file()


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run folders among ``paths`` and inside them (``demo-out`` and ``demo-out/runs`` give all their runs).

    Raises:
        UsageError: a path is no folder or holds no run, or a run occurs twice.
    """
    run_folders: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(
                "no such folder",
                item=path,
                cure="give a folder that 'demur run' or 'demur demo' wrote",
            )
        if is_run(path):
            run_folders.append(path)
            continue
        with storage_errors(path):
            inner_runs = sorted(
                p
                for root in (path, path / "runs")
                if root.is_dir()
                for p in root.iterdir()
                if is_run(p)
            )
        if not inner_runs:
            files_missing = [
                name for name in (ROWS, "manifest.json") if not (path / name).is_file()
            ]
            release = (path / "data" / "samples.parquet").exists()
            message = (
                "this is a release, not a run"
                if release
                else f"not a run: it has no {' and no '.join(files_missing)}"
            )
            raise UsageError(message, item=path, cure="give a folder such as demo-out/runs/SYSTEM")
        run_folders += inner_runs
    seen: set[Path] = set()
    for path in run_folders:
        if path.resolve() in seen:
            raise UsageError("the same run is named twice", item=path, cure="name each run once")
        seen.add(path.resolve())
    return run_folders


def one_run(path: Path) -> Path:
    """The run folder at or inside ``path``.

    Raises:
        UsageError: it holds none, or several; names them.
    """
    run_folders = find_runs([path])
    if len(run_folders) > 1:
        raise UsageError(
            f"holds {len(run_folders)} runs",
            item=path,
            cure=f"name one of {brief(', '.join(map(str, run_folders)), 200)}",
        )
    return run_folders[0]


def read_rows(path: Path) -> Table:
    """The rows of a run as columns, every row checked.

    Args:
        path: ``rows.parquet``, with exactly the columns of `Row`.

    Raises:
        DataError: not Parquet, other columns, or no rows.
        BadInput: invalid rows; names all of them.
    """
    with storage_errors(path):
        rows = whole_table(path, read_dictionary=list(_REPEATED))
    expected, present = set(Row.model_fields), set(rows.column_names)
    if present != expected:
        differences = [f"lacks {c}" for c in sorted(expected - present)] + [
            f"has {c}" for c in sorted(present - expected)
        ]
        raise DataError(
            f"the columns are not those of a run: {', '.join(differences)}",
            item=path,
            cure="run the system again",
        )
    problems = Problems()
    number = 0
    for batch in rows.to_batches(max_chunksize=4096):
        names = batch.schema.names
        for row in zip(
            *map(_column_values, batch.columns), strict=True
        ):  # a third of the time of batch.to_pylist()
            number += 1
            values = dict(zip(names, row, strict=True))
            try:
                Row.model_validate(values)
            except ValidationError as error:
                problems.add(f"{path.name}:{number} ({values.get('ask')})", why_invalid(error))
    problems.settle()
    if not number:
        raise DataError(
            "the run has no rows", item=path, cure="let it finish: run the same command again"
        )
    return Table(rows)


def _column_values(column: Any) -> list[Any]:
    """The values of a pyarrow array; texts by way of numpy, which is faster than one scalar after another."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    return list(column.to_pylist())


def drawn_samples(runs: Sequence[Table], most: int) -> frozenset[str] | None:
    """Samples to show one by one: all (None) for up to ``most`` questions, else those whose ids have the lowest hashes.

    Each sample counts with all questions that any run asked about it.
    """
    asks: Counter[str] = Counter()
    for rows in runs:
        first = np.unique(rows.context_condition, return_index=True)[1]
        samples = rows.coded("sample")
        for code, n in zip(*np.unique(samples.codes[first], return_counts=True), strict=True):
            asks[samples.labels[code]] = max(asks[samples.labels[code]], int(n))
    if sum(asks.values()) <= most:
        return None
    chosen: list[str] = []
    room = most
    for sample in sorted(asks, key=lambda s: seed_of("shown", s)):
        room -= asks[sample]
        if room < 0 and chosen:
            break
        chosen.append(sample)
    return frozenset(chosen)


def read_run(
    path: Path,
    name: str = "",
    *,
    rows: Table | None = None,
    samples_shown: frozenset[str] | None = None,
    verdicts: str = "",
) -> Run:
    """Read one run folder.

    Args:
        name: name of the system; the folder's name when empty.
        samples_shown: samples whose context sets are read; None: all.
        verdicts: name of the verdicts (`verdicts_file`); "" for the run's own.

    Raises:
        DataError: a file is broken; names the file and the line.
    """
    manifest = read_json(path / "manifest.json")
    if not isinstance(manifest, dict):
        raise DataError(
            "the manifest is not a JSON object",
            item=path / "manifest.json",
            cure="run the system again",
        )
    problems = Problems()
    contexts: dict[str, ContextSet] = {}
    if (path / "contexts.jsonl").is_file():
        sets = read_records(path / "contexts.jsonl", ContextSet, problems)
        contexts = {c.id: c for c in sets if samples_shown is None or c.sample in samples_shown}
    judged_by = _read_verdicts(verdicts_file(path, verdicts), problems)
    labels = read_labels(path / HUMAN, problems) if (path / HUMAN).is_file() else {}
    problems.settle()
    stated = _provenance_of_verdicts(verdicts_file(path, verdicts)) if verdicts else manifest
    own_judge = (str(manifest["judge"]),) if manifest.get("judge") else ()
    return Run(
        name=name or path.resolve().name,
        path=path,
        manifest=manifest,
        rows=judged_rows(path, verdicts) if rows is None else rows,
        contexts=contexts,
        judges=judged_by.judges or own_judge,
        prompts=judged_by.prompts,
        labels=labels,
        credit=judged_by.credit,
        judge_code=str(stated.get("judge_code") or ""),
    )


class _JudgedBy(NamedTuple):
    """What a file of verdicts says of its judges, beside the verdicts."""

    judges: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    """SHA-256 of their prompts."""
    credit: Mapping[str, float] = {}
    """Ask id -> partial credit, where the judge rates."""


def _read_verdicts(path: Path, problems: Problems) -> _JudgedBy:
    """Read a file of verdicts; nothing where there is none."""
    if not path.is_file():
        return _JudgedBy()
    judges, prompts, credit = set[str](), set[str](), dict[str, float]()
    for _, verdict in read_jsonl(path, problems):
        judges.add(str(verdict.get("judge", "")))
        prompts.add(str(verdict.get("prompt_sha256", "")))
        rating = verdict.get("credit")
        if isinstance(rating, int | float) and 0 <= rating <= 1:
            credit[str(verdict.get("id", ""))] = float(rating)
    return _JudgedBy(tuple(sorted(judges - {""})), tuple(sorted(prompts - {""})), credit)


VERDICTS = "verdicts"
"""Folder in a run folder: the verdicts of further judges, ``NAME.jsonl`` each, with their origin in ``NAME.json``."""


def verdicts_file(run: Path, name: str = "") -> Path:
    """The file of the verdicts with a name; "" for the run's own."""
    return run / VERDICTS / f"{name}.jsonl" if name else run / "verdicts.jsonl"


def _provenance_of_verdicts(verdicts: Path) -> dict[str, Any]:
    """What stands beside the verdicts of a further judge on where they are from; {} without it."""
    file = verdicts.with_suffix(".json")
    about = read_json(file) if file.is_file() else {}
    if not isinstance(about, dict):
        raise DataError(
            "not a JSON object",
            item=file,
            cure="grade the run again: demur judge run RUN --judge J",
        )
    return about


def verdict_names(run: Path) -> list[str]:
    """Names of the verdicts of further judges in a run, sorted."""
    return sorted(p.stem for p in (run / VERDICTS).glob("*.jsonl"))


def judged_rows(run: Path, verdicts: str = "") -> Table:
    """The rows of a run with the verdicts of one judge.

    Args:
        verdicts: name given by `demur judge run`; "" for the run's own.

    Raises:
        UsageError: no verdicts have that name; lists the known names.
        DataError: the verdicts are for other answers than the run holds.
    """
    rows = read_rows(run / ROWS)
    if not verdicts:
        return rows
    file = verdicts_file(run, verdicts)
    if not file.is_file():
        names = ", ".join(verdict_names(run)) or "none"
        cure = f"known names: {names}; or grade: demur judge run RUN --judge J"
        raise UsageError(f"no verdicts named {verdicts!r}", item=run, cure=cure)
    origin = _provenance_of_verdicts(file)
    responses_digest = read_json(run / "manifest.json").get("files", {}).get("responses.jsonl", "")
    if origin.get("responses", responses_digest) != responses_digest:
        cure = "grade the run again: demur judge run RUN --judge J"
        raise DataError("these verdicts are for earlier answers", item=file, cure=cure)
    import pyarrow as pa

    problems = Problems()
    verdict_of_ask = {v.id: v for v in read_records(file, Verdict, problems)}
    problems.settle()
    asks = rows.texts("ask", np.arange(len(rows)))
    if missing := [ask for ask in asks if ask not in verdict_of_ask]:
        cure = "grade the run again: demur judge run RUN --judge J"
        raise DataError(
            f"no verdict for {len(missing):,} answers, such as {missing[0]}", item=file, cure=cure
        )
    verdicts_in_order = [verdict_of_ask[ask] for ask in asks]
    columns = {
        "status": [v.status.value for v in verdicts_in_order],
        "outcome": [v.outcome.value if v.outcome else None for v in verdicts_in_order],
        "reason": [v.reason for v in verdicts_in_order],
        "kind": [v.kind for v in verdicts_in_order],
        "method": [v.method.value if v.method else "" for v in verdicts_in_order],
        "probability": [v.probability for v in verdicts_in_order],
    }
    table = rows.arrow
    for name, values in columns.items():
        type = pa.float64() if name == "probability" else pa.string()
        table = table.set_column(table.column_names.index(name), name, pa.array(values, type))
    return Table(table)


def _unique_names(paths: Sequence[Path]) -> list[str]:
    """Folder names, with as many parents as needed to make them unique."""
    parts = [p.resolve().parts for p in paths]
    names = [p[-1] for p in parts]
    for deep in range(2, max((len(p) for p in parts), default=0) + 1):
        twice = {n for n in names if names.count(n) > 1}
        if not twice:
            break
        names = [
            "/".join(p[-deep:]) if n in twice else n for n, p in zip(names, parts, strict=True)
        ]
    return names


def release_beside(run: Path) -> Path | None:
    """The release folder of a run: beside it (``demur run SOURCE=FOLDER``), else beside ``runs`` (``demur demo``)."""
    for place in (run.resolve().parent / "release", run.resolve().parent.parent / "release"):
        if (place / "manifest.json").is_file() and (place / "data").is_dir():
            return place
    return None


def open_beside(run: Path, release: Path | None = None) -> Release:
    """Open the release of a run.

    Args:
        run: run folder.
        release: release folder; the one beside the run when None.

    Raises:
        UsageError: there is no such run, or no release beside it.
    """
    from demur.release import Release

    if not run.is_dir():
        raise UsageError("no such run folder", item=run)
    folder = release or release_beside(run)
    if folder is None:
        raise release_missing(run)
    return Release.open(folder)


def release_missing(run: Path) -> UsageError:
    """The error of a run whose release is not beside it: it says which release that is."""
    manifest = run / "manifest.json"
    release = (read_json(manifest) if manifest.is_file() else {}).get("release") or {}
    name = " ".join(str(release[key]) for key in ("name", "version") if key in release)
    return UsageError(
        f"its release {name or 'of unknown name'} is not beside it",
        item=run,
        cure="say where it is: --release DIR",
    )


def load(
    runs: Sequence[Path],
    release: Path | None = None,
    *,
    verdicts: str = "",
    needs_release: bool = False,
) -> ReportData:
    """Read everything a report needs.

    Args:
        release: release of the runs; None looks beside the first run; without one the report has no questions,
            images and funnel.
        verdicts: name of the verdicts given by `demur judge run`; "" for the runs' own.
        needs_release: refuse runs without a release.

    Raises:
        UsageError: a path is not a run or release.
        DataError: a file is broken, or a run has samples that the release does not.
    """
    paths = find_runs(runs)
    if not paths:
        raise UsageError("no run given", cure="give a folder such as demo-out/runs/SYSTEM")
    rows = [judged_rows(path, verdicts) for path in paths]
    samples_shown = drawn_samples(rows, MOST_ITEMS)
    names = _unique_names(paths)
    read = tuple(
        read_run(p, n, rows=r, samples_shown=samples_shown, verdicts=verdicts)
        for p, n, r in zip(paths, names, rows, strict=True)
    )
    folder = release or release_beside(paths[0])
    if folder is None and needs_release:
        raise release_missing(paths[0])
    if folder is None:
        return ReportData(read, samples_shown=samples_shown)
    from demur.release import Release

    opened = Release.open(folder)
    samples = {s.id: s for s in opened.samples()}
    for run in read:
        strange = sorted(set(run.rows.coded("sample").labels) - set(samples))
        if strange:
            raise DataError(
                f"the run has {len(strange)} sample(s) that the release {folder} does not have, such as {strange[0]}",
                item=run.path,
                cure="give the release of the run with --release",
            )
    return ReportData(read, opened, samples, samples_shown)
