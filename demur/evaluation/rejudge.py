"""Grades existing answers: rows of a file, the stored answers of a run, the attack suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, field_validator

from demur.core.errors import DataError, TransientError, UsageError
from demur.core.parquet import whole_table
from demur.core.records import AnswerSpec, Ask, Record, Response, Sample, Scenario, Status, Verdict
from demur.core.store import (
    Problems,
    digest,
    read_json,
    read_records,
    storage_errors,
    why_invalid,
    write_json,
    write_records,
)
from demur.core.text import list_written
from demur.corpora.formats import table_rows
from demur.evaluation.questions import Questions
from demur.evaluation.run_folder import Answer, Task
from demur.evaluation.runner import commonest, map_in_order, run
from demur.judge.attacks import FamilyCounts, attacks, count_by_family, question_of
from demur.judge.base import (
    COLUMNS,
    Judge,
    answer_spec,
    close_judge,
    judge_code,
    lettered,
)
from demur.judge.grading import Grading
from demur.models.run import run_sync
from demur.release import Release
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe
from demur.scenarios.render import ask as make_ask


class GradeRow(Record):
    """One line of a file to grade."""

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    id: str
    question: str
    answers: tuple[str, ...] = Field(min_length=1)
    """Accepted forms; a single one may be a text or a number instead of a list."""
    response: str
    answer_type: str = "string"
    """string, number, date, choice."""
    choices: dict[str, str] = Field(default_factory=dict)
    """Letter -> text of the options; a list of texts is lettered A, B, C ..."""
    finish_reason: str = ""
    """The endpoint's reason for the end of the response; "length" if the token limit cut it off."""

    @field_validator("answers", mode="before")
    @classmethod
    def _as_several(cls, value: object) -> object:
        value = list_written(value)
        return (value,) if isinstance(value, str | int | float) else value

    @field_validator("choices", mode="before")
    @classmethod
    def _lettered(cls, value: object) -> object:
        return lettered(list_written(value))


def grade_items(
    judge: Judge,
    items: Iterable[tuple[Ask, Response, AnswerSpec]],
    progress: Callable[[int], None] = lambda n: None,
) -> list[Verdict]:
    """Verdicts in the order of the items; one that the judge could not grade is unjudged, with the reason.

    Raises:
        TransientError: the judge failed on every item.
    """
    grading = Grading(judge)
    done = 0

    async def grade_item(item: tuple[Ask, Response, AnswerSpec]) -> Verdict:
        nonlocal done
        verdict = await grading.verdict(*item)
        done += 1
        progress(done)
        return verdict

    async def work() -> list[Verdict]:
        try:
            return await map_in_order(grade_item, items)
        finally:
            grading.close()
            await close_judge(judge)

    verdicts = run_sync(work())
    failed = [v.reason for v in verdicts if v.status is Status.UNJUDGED]
    if failed and not any(v.status is Status.GRADED for v in verdicts):
        raise TransientError(
            f"could not grade any of {len(verdicts):,} answers: {next(iter(commonest(failed)))}",
            item=judge.id,
            cure="fix the judge, and run the same command again",
        )
    return verdicts


def read_rows(path: Path, problems: Problems) -> list[GradeRow]:
    """The rows of a file to grade; malformed rows and repeated ids become problems with their place."""
    rows, seen = [], set()
    for place, number, line in table_rows(path, problems):
        named = {str(name).lower(): value for name, value in line.items()} | line
        for field, names in COLUMNS.items():
            if name := next((n for n in names if n in named), ""):
                named[field] = named.pop(name)
        for optional in ("id", "answer_type", "choices", "finish_reason"):
            if named.get(optional) in (None, ""):  # an empty cell
                named.pop(optional, None)
        named.setdefault("id", number + 1)
        if lacks := [field for field in COLUMNS if field not in named]:
            also = "; ".join(
                f"no {field} (its column may be named {', '.join(COLUMNS[field])})"
                for field in lacks
            )
            problems.add(f"{place} ({line.get('id', 'no id')})", also)
            continue
        try:
            row = GradeRow.model_validate(named)
        except ValidationError as error:
            problems.add(f"{place} ({line.get('id', 'no id')})", why_invalid(error))
            continue
        if row.id in seen:
            problems.add(f"{place} ({row.id})", "an earlier line has the same id")
            continue
        seen.add(row.id)
        rows.append(row)
    return rows


def row_item(row: GradeRow) -> tuple[Ask, Response, AnswerSpec]:
    """A row as a judge's input."""
    spec = answer_spec(row.answers, row.answer_type, row.choices)
    ask = Ask(
        id=row.id,
        sample=row.id,
        context="file",
        scenario=Scenario.ORACLE,
        question=row.question,
        choices=spec.choices,
    )
    return ask, Response(text=row.response, finish_reason=row.finish_reason), spec


def judge_file(
    path: Path,
    judge: Judge,
    out: Path | None = None,
    *,
    skip_bad: bool = False,
    progress: Callable[[int], None] = lambda n: None,
) -> list[Verdict]:
    """Grade the rows of a file (`GradeRow`), and write the verdicts to ``out``.

    Raises:
        BadInput: malformed rows; lists all, before any is graded.
    """
    problems = Problems()
    rows = read_rows(path, problems)
    items = []
    for row in rows:
        try:
            items.append(row_item(row))
        except ValidationError as error:
            problems.add(f"{path.name} ({row.id})", why_invalid(error))
    problems.settle(skip_bad=skip_bad)
    if not items:
        raise UsageError(
            "holds no rows to grade", item=str(path), cure="see docs/judging.md for the layout"
        )
    if out is not None and out.resolve() == path.resolve():
        raise UsageError(
            "would be overwritten by its verdicts", item=str(path), cure="give another --out"
        )
    verdicts = grade_items(judge, items, progress)
    if out is not None:
        write_records(out, verdicts)
    return verdicts


_CARRIED = ("release", "corpora", "seed", "limit", "recipes", "conditions", "prompts", "repeat")
"""Manifest entries of a run's questions."""


class _Stored:
    """The stored answers of a run as a system."""

    def __init__(self, manifest: dict[str, Any], stored_answers: dict[str, Response]) -> None:
        self.id, self.note = str(manifest["system"]), "its stored answers, graded again"
        self.revision = digest(
            [manifest.get("revision", ""), manifest.get("files", {}).get("responses.jsonl", "")], 16
        )
        self.reads_prompt = manifest.get("reads_prompt")
        self._stored_answers = stored_answers

    def skip_reason(self, ask: Ask) -> str:
        return "" if ask.id in self._stored_answers else "not asked in the run"

    async def answer(self, ask: Ask) -> Response:
        return self._stored_answers[ask.id]

    async def close(self) -> None:
        pass


def judge_run(
    folder: Path,
    release: Release,
    judge: Judge,
    out: Path,
    *,
    progress: Callable[[int], None] = lambda n: None,
    note: Callable[[str], None] = lambda line: None,
) -> Path:
    """Grade the stored answers of a run again, into another run folder; the system is not asked.

    Args:
        folder: of the run.
        release: the one that the run asked.
        judge: grades the answers.
        out: the new run folder.
        progress: called with the number of answers graded so far.
        note: called with one line per thing to report.

    Raises:
        UsageError: the run is of another release, or not finished.
    """
    manifest, answers = _read_finished_run(folder, release)
    tasks = _remake_tasks(folder, manifest, release, answers)
    about = {
        **{key: manifest[key] for key in _CARRIED if key in manifest},
        "graded_again": {"run": folder.name, "judge": manifest.get("judge", "")},
    }
    system: Any = _Stored(manifest, answers)
    return run(
        out, system=system, judge=judge, tasks=tasks, about=about, progress=progress, note=note
    )


def _read_finished_run(
    folder: Path, release: Release
) -> tuple[dict[str, Any], dict[str, Response]]:
    """The manifest and the answers of a finished run of the release."""
    manifest = read_json(folder / "manifest.json")
    if "files" not in manifest:
        raise UsageError(
            "the run is not finished", item=str(folder), cure="run its command again, then grade it"
        )
    if manifest.get("release", {}).get("sha256") != release.sha256:
        raise UsageError(
            "the run is of another release",
            item=str(folder),
            cure="give --release, the one that the run asked",
        )
    problems = Problems()
    answers = {
        a.ask: a.response for a in read_records(folder / "responses.jsonl", Answer, problems)
    }
    problems.settle()  # the answer of a damaged line would be missing from every rate
    return manifest, answers


def judge_beside(
    folder: Path,
    release: Release,
    judge: Judge,
    name: str,
    *,
    progress: Callable[[int], None] = lambda n: None,
) -> Path:
    """Grade the stored answers of a run again, into its ``verdicts/NAME.jsonl`` (for ``demur report --verdicts NAME``).

    The file is written when all answers are graded; a model's replies are in its ledger, so that an interrupted grading
    pays for nothing twice.

    Args:
        folder: of the run.
        release: the one that the run asked.
        judge: grades the answers.
        name: of the verdicts.
        progress: called with the number of answers graded so far.

    Returns:
        The file.

    Raises:
        UsageError: the run is of another release or not finished, or the name is not a file name or another judge's.
    """
    if not re.fullmatch(r"[\w.@+-]{1,80}", name):
        raise UsageError(
            f"verdicts named {name!r}", cure="use letters, digits, dots and dashes: --name gpt"
        )
    file = folder / "verdicts" / f"{name}.jsonl"
    about = file.with_suffix(".json")
    if about.is_file() and (earlier_judge := read_json(about).get("judge")) != judge.id:
        raise UsageError(
            f"the verdicts {name!r} are of {earlier_judge}",
            item=str(file),
            cure="give another --name",
        )
    manifest, answers = _read_finished_run(folder, release)
    tasks = _remake_tasks(folder, manifest, release, answers)
    items = [(t.ask, answers[t.ask.id], t.sample.answers) for t in tasks]
    verdicts = grade_items(judge, items, progress)
    write_records(file, verdicts)
    origin = {
        "judge": judge.id,
        "responses": manifest["files"].get("responses.jsonl", ""),
        "answers": len(verdicts),
    }
    write_json(about, origin | ({"judge_code": code} if (code := judge_code(judge)) else {}))
    return file


def answered_tasks(folder: Path, release: Release) -> list[tuple[Task, Response]]:
    """The questions of a finished run, evidence included, with their answers.

    Raises:
        UsageError: the run is of another release, or not finished.
    """
    manifest, answers = _read_finished_run(folder, release)
    return [
        (task, answers[task.ask.id]) for task in _remake_tasks(folder, manifest, release, answers)
    ]


def _remake_tasks(
    folder: Path, manifest: dict[str, Any], release: Release, answers: dict[str, Response]
) -> list[Task]:
    """The questions of a run, made again from its manifest; if that is not enough, from its rows."""
    try:
        recipes = [recipe(text) for text in manifest["recipes"]]
        conditions = [condition(text) for text in manifest["conditions"]]
        seed, repeat = int(manifest.get("seed", 0)), int(manifest.get("repeat", 1))
        if repeat > max(1, len(answers)):
            raise ValueError(f"{repeat} repeats, {len(answers)} answers")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"not the manifest of a run: {type(error).__name__}: {str(error)[:200]}",
            item="manifest.json",
            cure="copy the run again from its origin",
        ) from error
    samples = list(release.samples())
    if "corpora" not in manifest:
        questions = Questions(recipes, conditions, seed, repeat=repeat)
        tasks = [t for t in questions.tasks(samples) if t.ask.id in answers]
        if len(tasks) == len(answers):
            return tasks
    return _remake_tasks_from_rows(
        folder / "rows.parquet", {s.id: s for s in samples}, answers, seed
    )


def _remake_tasks_from_rows(
    path: Path, samples: Mapping[str, Sample], answers: dict[str, Response], seed: int
) -> list[Task]:
    """The same from the rows: an ask's id depends on the user's own prompts and corpora, which are not available."""
    with storage_errors(path):
        rows = whole_table(path).to_pylist()
    tasks = []
    for row in rows:
        sample = samples.get(row.get("sample"))
        context_set = sample and context(sample, recipe(str(row.get("recipe"))), seed)
        if sample and context_set and row.get("ask") in answers:
            remade_ask = make_ask(
                sample,
                context_set,
                condition(str(row.get("condition"))),
                Prompts(),
                int(row.get("repeat") or 0),
            )
            tasks.append(
                Task(sample, context_set, remade_ask.model_copy(update={"id": row["ask"]}))
            )
    if len(tasks) < len(answers):
        raise UsageError(
            f"{len(answers) - len(tasks)} of {len(answers)} stored answers belong to no question of this release",
            item=str(path),
            cure="copy the run again from its origin",
        )
    return tasks


class AttackResult(NamedTuple):
    """A judge's result in the attack suite."""

    families: list[FamilyCounts]
    flipped: list[str]
    """The answers that flipped it."""


def put_attacks(
    judge: Judge,
    progress: Callable[[int], None] = lambda n: None,
    unmasked: Judge | None = None,
) -> AttackResult:
    """Put every attack of the suite to a judge.

    Args:
        judge: under attack.
        progress: is called with the number of attacks put to it.
        unmasked: the same judge, opened with ``JudgeContext(unmasked=True)``: it is attacked, too.
    """
    all_attacks = list(attacks())
    items = [question_of(a, n) for n, a in enumerate(all_attacks)]
    verdicts = grade_items(judge, items, progress)
    unmasked_verdicts = (
        grade_items(unmasked, items, lambda n: progress(len(all_attacks) + n)) if unmasked else None
    )
    flipped = [a.text for a, v in zip(all_attacks, verdicts, strict=True) if v.outcome == "correct"]
    return AttackResult(count_by_family(all_attacks, verdicts, unmasked_verdicts), flipped)
