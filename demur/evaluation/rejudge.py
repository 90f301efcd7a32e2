"""Grades existing answers: rows of a file, the stored answers of a run, the attack suite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError

from demur.answers.choices import no_option
from demur.core.cells import (
    answer_texts,
    cell_text,
    list_written,
    literal,
    options_in,
    pick,
    without_positions,
)
from demur.core.errors import DataError, TransientError, UsageError, did_you_mean
from demur.core.parquet import whole_table
from demur.core.progress import QUIET, Progress
from demur.core.records import (
    AnswerSpec,
    Ask,
    ContextSet,
    Record,
    Response,
    Scenario,
    Status,
    Verdict,
)
from demur.core.store import (
    Problem,
    Problems,
    digest,
    read_json,
    read_records,
    storage_errors,
    why_invalid,
    write_json,
    write_records,
)
from demur.corpora.formats import table_rows
from demur.evaluation.run_folder import Answer, Task, is_of
from demur.evaluation.runner import MAX_IN_FLIGHT, Plan, commonest, run
from demur.judge.attacks import FamilyCounts, attacks, count_by_family, question_of
from demur.judge.base import (
    COLUMNS,
    Judge,
    answer_spec,
    close_judge,
    judge_code,
)
from demur.judge.grading import Grading
from demur.models.batch import in_waves
from demur.models.run import run_sync
from demur.release import Release
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System


class GradeRow(Record):
    """One line of a file to grade."""

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    id: str
    question: str
    answers: Annotated[
        Annotated[AnswerSpec, Tag("rules")]
        | Annotated[tuple[str, ...], Field(min_length=1), Tag("forms")],
        Discriminator(lambda v: "rules" if isinstance(v, AnswerSpec | Mapping) else "forms"),
    ]
    """Accepted forms; or all that a source can say is right: ranges, parts, dates (an object with ``kind``)."""
    response: str
    answer_type: str = "string"
    """string, number, date, choice."""
    choices: dict[str, str] = Field(default_factory=dict)
    """Letter -> text of the options."""
    finish_reason: str = ""
    """The endpoint's reason for the end of the response; "length" if the token limit cut it off."""


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
            return await in_waves(grade_item, items, MAX_IN_FLIGHT)
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


_SHAPES = {
    "deepeval": {
        "input": "question",
        "expected_output": "answers",
        "actual_output": "response",
    },
    "lm-eval": {"doc": "question", "target": "answers", "filtered_resps": "response"},
    "LangSmith": {"inputs": "question", "reference_outputs": "answers", "outputs": "response"},
}
"""Tool -> the columns of its rows -> fields; only to name the options that read such a file."""


def read_rows(
    path: Path, problems: Problems, columns: Mapping[str, str] | None = None
) -> list[GradeRow]:
    """The rows of a file to grade; malformed rows and repeated ids become problems with their place.

    Args:
        columns: column, or a path into one (``outputs.answer``), -> the field of `GradeRow` that it holds; fields that
            are not here are found by their usual names.

    Raises:
        UsageError: ``columns`` names no field.
        DataError: no row has the columns that are needed; the message says what the rows have instead.
    """
    columns = columns or {}
    if unknown := sorted(set(columns.values()) - GradeRow.model_fields.keys()):
        raise UsageError(
            f"there is no field {unknown[0]!r}; there are {', '.join(GradeRow.model_fields)}",
            item="--map",
            cure=did_you_mean(unknown[0], list(GradeRow.model_fields))
            or "write --map COLUMN=FIELD",
        )
    rows, seen = [], set()
    lacking: list[tuple[Problem, dict[str, Any]]] = []
    for place, number, line in table_rows(path, problems):
        cells, names = _fields(line, columns)
        id_ = str(line.get("id", "no id"))
        if missing := [name for name in COLUMNS if name not in cells and name != "id"]:
            lacking.append((Problem(place, f"no {', '.join(missing)}", id_), line))
            continue
        try:
            row = _grade_row(cells, names, str(number + 1))
        except ValidationError as error:
            problems.add(place, why_invalid(error), id_)
            continue
        except DataError as error:
            problems.add(place, str(error), id_)
            continue
        if row.id in seen:
            problems.add(place, "an earlier line has the same id", row.id)
            continue
        seen.add(row.id)
        rows.append(row)
    if lacking and not seen and not len(problems):
        raise _other_shape(path, lacking[0][1], columns)
    for problem, _ in lacking:
        problems.note(problem)
    return rows


def _fields(
    line: Mapping[str, Any], columns: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Field -> cell of a row, and field -> its column."""
    absent = object()
    named: dict[str, Any] = {str(name).lower(): value for name, value in line.items()}
    named |= line
    cells: dict[str, Any] = {}
    names: dict[str, str] = {}
    for column, field in columns.items():
        if (cell := pick(line, column, absent)) is not absent:
            cells[field], names[field] = cell, column
            named.pop(column, None)
    for field in GradeRow.model_fields:
        usual = COLUMNS.get(field, (field,))
        if field not in cells and (name := next((n for n in usual if n in named), "")):
            cells[field], names[field] = named.pop(name), name
    return cells, names


def _grade_row(cells: Mapping[str, Any], names: Mapping[str, str], id_: str) -> GradeRow:
    """The row of these cells.

    Raises:
        DataError: a cell holds no text, or no answer.
        ValidationError: there is no answer, or no such kind of answer.
    """
    texts = {}
    for field in cells.keys() - {"answers", "choices"}:
        cell = cells[field]
        if isinstance(cell, bool) or (field == "response" and cell is None):
            raise DataError(
                f"{names[field]!r} is {json.dumps(cell)}, not a text",
                cure='write the text of the answer, or "" where there was none',
            )
        texts[field] = cell_text(cell, names[field])
    options = options_in(list_written(cells.get("choices")), names.get("choices", "choices"))
    answers = list_written(cells["answers"])
    written = literal(answers) if isinstance(answers, str) and answers.startswith("{") else answers
    if isinstance(written, Mapping) and "kind" in written:
        choices = {"choices": dict(options.pairs)} if options.pairs else {}
        return GradeRow.model_validate(
            {**texts, "id": texts.get("id") or id_, "answers": written, **choices}
        )
    if answers is None:
        raise DataError(
            f"{names['answers']!r} is null", cure="write what is right, or leave the row out"
        )
    # a text is one answer, whatever it looks like: "[0, 1]" may be an interval
    answers = [answers] if isinstance(answers, str) else answers
    forms = without_positions(
        [(form,) for form in answer_texts(answers, names["answers"])],
        answers,
        options,
        names["answers"],
    )
    return GradeRow(
        **{
            field: text
            for field, text in texts.items()
            if text or field in ("question", "response")
        }
        | {"id": texts.get("id") or id_},
        answers=tuple(form for (form,) in forms),
        choices=dict(options.pairs),
    )


def _other_shape(path: Path, row: Mapping[str, Any], columns: Mapping[str, str]) -> DataError:
    """The error for a file whose rows lack columns: what they have, and the options that read them."""
    cells, _ = _fields(row, columns)
    tool, shape = next(
        ((tool, shape) for tool, shape in _SHAPES.items() if shape.keys() <= row.keys()), ("", {})
    )
    missing = [name for name in COLUMNS if name not in cells and name != "id"]
    paths = {_path_to_text(row, column, field): field for column, field in shape.items()}
    options = {path_: field for path_, field in paths.items() if field in missing} or {
        "COLUMN": missing[0]
    }
    renamed = "" if tool else f", or name it {' or '.join(COLUMNS[missing[0]])}"
    whose = f"the rows are {tool}'s" if tool else "the rows are of another shape"
    return DataError(
        f"{whose}: they have {', '.join(map(str, list(row)[:12]))}, and no {' or '.join(missing)}",
        item=path,
        cure=" ".join(f"--map {column}={field}" for column, field in options.items()) + renamed,
    )


def _path_to_text(row: Mapping[str, Any], column: str, field: str) -> str:
    """A column, or the path to the first text in it: under a usual name of the field, if it has one."""
    value = row[column]
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else ["0"]
        key = next((name for name in COLUMNS[field] if name in keys), str(keys[0]))
        column, value = f"{column}.{key}", pick(value, key)
    return column


def row_item(row: GradeRow) -> tuple[Ask, Response, AnswerSpec]:
    """A row as a judge's input.

    Raises:
        DataError: its answer names none of its options, or has options of its own beside the row's.
    """
    if not isinstance(row.answers, AnswerSpec):
        spec = answer_spec(row.answers, row.answer_type, row.choices)
    elif row.choices or row.answer_type != "string":
        raise DataError(
            "an answer with a kind stands beside choices or an answer_type of the row",
            item=row.id,
            cure="write these as its kind and choices",
        )
    else:
        spec = row.answers
    if unusable := no_option(spec):
        raise DataError(unusable, item=row.id, cure="write an option's label or text")
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
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    progress: Callable[[int], None] = lambda n: None,
) -> list[Verdict]:
    """Grade the rows of a file (`GradeRow`), and write the verdicts to ``out``.

    Args:
        columns: as of `read_rows`.

    Raises:
        DataError: as of `read_rows`.
        BadInput: malformed rows; lists all, before any is graded.
    """
    problems = Problems()
    rows = read_rows(path, problems, columns)
    items = []
    for row in rows:
        try:
            items.append(row_item(row))
        except ValidationError as error:
            problems.add(f"{path.name} ({row.id})", why_invalid(error))
        except DataError as error:
            problems.add(path.name, str(error))
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
    steps: Progress = QUIET,
) -> Path:
    """Grade the stored answers of a run again, into another run folder; the system is not asked.

    Args:
        folder: of the run.
        release: the one that the run asked.
        judge: grades the answers.
        out: the new run folder.
        steps: receives the progress.

    Raises:
        UsageError: the run is of another release, or not finished.
    """
    manifest, answers = _read_finished_run(folder, release)
    tasks = _remake_tasks(folder, release, answers)
    about = {
        **{key: manifest[key] for key in _CARRIED if key in manifest},
        "graded_again": {"run": folder.name, "judge": manifest.get("judge", "")},
    }
    system: Any = _Stored(manifest, answers)
    return run(out, system, judge, Plan(tasks, about), steps=steps)


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
    tasks = _remake_tasks(folder, release, answers)
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


def _remake_tasks(
    folder: Path, release: Release, known: Mapping[str, Response], prompts: Prompts | None = None
) -> list[Task]:
    """The questions of a run, made again from its rows and contexts.

    Args:
        known: the answers to them, by ask.
        prompts: of a command that asks on. It does without failed answers to what it cannot ask as it was asked, since
            an ask's id depends on prompts and corpora.
    """
    path = folder / "rows.parquet"
    with storage_errors(path):
        rows = whole_table(path).to_pylist()
    problems = Problems()
    contexts = {c.id: c for c in read_records(folder / "contexts.jsonl", ContextSet, problems)}
    problems.settle()
    samples = {s.id: s for s in release.samples()}
    tasks, lost = [], 0
    for row in rows:
        sample, context = samples.get(row.get("sample")), contexts.get(row.get("context"))
        if sample is None or context is None or row.get("ask") not in known:
            lost += 1
            continue
        ask = make_ask(
            sample,
            context,
            condition(str(row.get("condition"))),
            prompts or Prompts(),
            int(row.get("repeat") or 0),
        )
        if prompts is None or ask.id == row["ask"] or not known[row["ask"]].error:
            tasks.append(Task(sample, context, ask.model_copy(update={"id": row["ask"]})))
    if lost or len(rows) < len(known):
        raise UsageError(
            f"{max(lost, len(known) - len(rows))} of {len(known)} stored answers belong to no question of this release",
            item=str(path),
            cure="copy the run again from its origin",
        )
    return tasks


def grown_from(
    folder: Path, release: Release, system: System, tasks: Sequence[Task], prompts: Prompts
) -> list[Task]:
    """The tasks of a command, after those of the finished run of the same system in its folder."""
    path = folder / "manifest.json"
    manifest = read_json(path) if path.is_file() else {}
    plan = digest([t.ask.id for t in tasks if not system.skip_reason(t.ask)])
    same = manifest.get("release", {}).get("sha256") == release.sha256
    if "files" not in manifest or manifest.get("plan") == plan or not same:
        return list(tasks)
    if not is_of(manifest, system):
        return list(tasks)  # the run of another revision is moved aside
    earlier = _remake_tasks(folder, release, _read_finished_run(folder, release)[1], prompts)
    asked = {t.ask.id for t in earlier}
    return [*earlier, *(t for t in tasks if t.ask.id not in asked)]


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
