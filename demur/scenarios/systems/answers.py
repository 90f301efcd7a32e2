"""A file of answers as a system, for systems that demur does not run: ``answers:FILE`` (``docs/answers.md``).

JSONL, CSV, TSV or Parquet, one row per question; or a log of inspect (``.eval``) or of lmms-eval (``--log_samples``).
`demur asks` writes the questions; add an ``answer`` to each row. A row names its question by ``ask``, or by ``sample``
and ``scenario``, with as many of ``k``, ``recipe``, ``condition`` and ``repeat`` as are needed to tell the questions of
that sample and scenario apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.cells import list_written
from demur.core.errors import DataError, ItemError, StorageError, UsageError, importing
from demur.core.records import Ask, Response, Scenario
from demur.core.store import Problems, file_digest
from demur.core.strict_json import parsed_json
from demur.scenarios.contexts import recipe
from demur.scenarios.systems.replies import RETRIEVED_NOTHING, response_of

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext

KEYS = ("k", "recipe", "condition", "repeat")
"""What tells the questions of a sample and scenario apart; a file may use ``draw``, the former name of ``repeat``."""
REPORTED = (
    "confidence",
    "contexts",
    "citations",
    "abstained",
    "prompt_tokens",
    "completion_tokens",
    "cost",
)
"""Optional columns besides the answer (`demur.scenarios.systems.replies.response_of`)."""
_WHOLE = re.compile(r"(\d{1,9})(?:\.0+)?", re.ASCII)
"""A whole number, as other programs may write one: pandas writes 2.0 in a column with gaps."""
SHOWN = 3
"""Rows or questions that a message lists; it counts the others."""


class Row(NamedTuple):
    """One answer."""

    place: str
    """``file:line``."""
    ask: str
    """Id of its question; "" if the fields below name it."""
    sample: str
    scenario: str
    keys: tuple[tuple[str, str | int], ...]
    """Those of `KEYS` that the row has, with their values."""
    response: bytes
    """A `Response` as JSON: a million records would take gigabytes."""

    def answers(self, ask: Ask) -> bool:
        """Whether the row is for this question."""
        if self.ask:
            return self.ask == ask.id
        same_question = (self.sample, self.scenario) == (ask.sample, ask.scenario.value)
        return same_question and all(getattr(ask, name) == value for name, value in self.keys)


class AnswersFile:
    """Answers from a file, all checked before anything is graded.

    Raises:
        BadInput: malformed rows, or two rows for one question; lists all, with their place.
        StorageError: the file cannot be read.
    """

    def __init__(self, argument: str, context: SystemContext) -> None:
        if not argument:
            raise UsageError(
                "no file given", item="answers:", cure="write answers:my-answers.jsonl"
            )
        path = Path(argument)
        self.path = path
        self.id = f"answers:{path.name}"
        self.note = "answers read from a file"
        if not path.is_file():
            raise StorageError(
                "no such file",
                item=str(path),
                cure="check the path; 'demur asks' writes the questions",
            )
        self.revision = file_digest(path)[:16]
        self._by_ask: dict[str, Row] = {}
        self._by_sample: dict[tuple[str, str], dict[tuple[tuple[str, str | int], ...], Row]] = (
            defaultdict(dict)
        )
        self.rows = 0
        problems = Problems()
        for place, fields in _read_rows(path, problems):
            row = _checked_row(place, fields, problems, self.id)
            if row is None:
                continue
            self.rows += 1
            rows_of_question = {} if row.ask else self._by_sample[row.sample, row.scenario]
            if row.ask in self._by_ask or row.keys in rows_of_question:
                problems.add(place, "a second answer to the same question")
            elif row.ask:
                self._by_ask[row.ask] = row
            else:
                rows_of_question[row.keys] = row
        problems.settle()

    def skip_reason(self, ask: Ask) -> str:
        """Nothing is skipped: a question without a row is a failure of the system."""
        return ""

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """Warn about questions without a row and rows without a question.

        Raises:
            UsageError: one row fits several questions, or no question has a row.
        """
        if not asks:
            return []
        ask_of_row: dict[Row, Ask] = {}
        missing: list[Ask] = []
        for ask in asks:
            row = self._row_of(ask)
            if row is None:
                missing.append(ask)
            elif row in ask_of_row:
                raise UsageError(
                    f"{row.place} fits several questions: {_describe_ask(ask_of_row[row])} and {_describe_ask(ask)}",
                    item=str(self.path),
                    cure=f"add {', '.join(KEYS)} or ask to the row; 'demur asks' writes them",
                )
            else:
                ask_of_row[row] = ask
        unused = [row for row in self._all_rows() if row not in ask_of_row]
        notes = []
        if missing:
            notes.append(
                f"{len(missing):,} of {len(asks):,} questions have no answer: {_first_names(map(_describe_ask, missing))}"
            )
        if unused:
            names = _first_names(
                f"{r.place} ({r.ask or f'{r.sample} in {r.scenario}'})" for r in unused
            )
            notes.append(
                f"{len(unused):,} of {self.rows:,} rows answer no question of this run: {names}"
            )
        if not ask_of_row:
            raise UsageError(
                "; ".join(notes),
                item=str(self.path),
                cure="use answers to this release: 'demur asks' with the same options writes its questions",
            )
        return notes

    def _all_rows(self) -> Iterator[Row]:
        yield from self._by_ask.values()
        for rows in self._by_sample.values():
            yield from rows.values()

    def _row_of(self, ask: Ask) -> Row | None:
        """The row for a question; the most specific of several."""
        if ask.id in self._by_ask:
            return self._by_ask[ask.id]
        rows_of_sample = self._by_sample.get((ask.sample, ask.scenario.value), {})
        rows = [row for row in rows_of_sample.values() if row.answers(ask)]
        return max(rows, key=lambda row: len(row.keys), default=None)

    async def answer(self, ask: Ask) -> Response:
        """The row for this question, else an error."""
        row = self._row_of(ask)
        return (
            Response(error=f"the file has no answer for {_describe_ask(ask)}")
            if row is None
            else Response.model_validate_json(row.response)
        )

    async def close(self) -> None:
        """Nothing to close."""


def _describe_ask(ask: Ask) -> str:
    repeat = f", repeat {ask.repeat}" if ask.repeat else ""
    return f"sample {ask.sample} in {ask.scenario.value} (k={ask.k}, {ask.condition}{repeat})"


def _first_names(names: Any) -> str:
    names = list(names)
    return ", ".join(names[:SHOWN]) + (
        f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    )


def _read_rows(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a table with their places; drops empty cells."""
    from demur.corpora.formats import table_rows

    if path.suffix.lower() == ".eval":
        yield from _inspect_log(path)
        return
    for place, _, row in table_rows(path, problems):
        row = _from_lmms_eval(row)
        by_lower_name = {str(k).lower(): v for k, v in row.items()} | row
        yield (
            place,
            {k: v for k, v in by_lower_name.items() if k == "answer" or v not in ("", None)},
        )


def _from_lmms_eval(row: dict[str, Any]) -> dict[str, Any]:
    """A line of lmms-eval's log of samples as a row; any other row unchanged.

    The log holds the question's id in what our task functions return, and before 0.7 in the document.
    """
    answer = row.get("filtered_resps", row.get("resps"))
    ids = [
        part["id"]
        for part in (row.get("doc"), row.get("accuracy"))
        if isinstance(part, dict) and "id" in part
    ]
    if answer is None or not ids:
        return row
    while isinstance(answer, list) and answer:
        answer = answer[0]
    return {"ask": ids[0], "answer": answer}


def _inspect_log(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of an inspect log; a sample that ended in an error has none.

    Raises:
        MissingExtra: inspect-ai is not installed.
        DataError: the file is not such a log, or holds several epochs.
    """
    with importing("a log of inspect", extra="inspect", module="inspect-ai", broken=True):
        from inspect_ai.log import read_eval_log
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # the reader may raise anything for a foreign file
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DataError(
            f"not a log of inspect ({why})",
            item=str(path),
            cure="give the .eval file as inspect wrote it",
        ) from None
    for sample in log.samples or ():
        if sample.epoch > 1:
            raise DataError(
                "the log holds several epochs, whose samples share ids",
                item=str(path),
                cure="run it with --epochs 1; 'demur export inspect --repeat N' exports repeats with ids of their own",
            )
        if sample.error is None and sample.output.completion:
            yield (
                f"{path.name}:{sample.id}",
                {"ask": str(sample.id), "answer": sample.output.completion},
            )


def _with_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Parse a row's cells: a CSV has texts where JSONL has numbers, true and lists."""
    reply: dict[str, Any] = {"answer": row.get("answer")}
    for name in REPORTED:
        value = list_written(row.get(name))
        if isinstance(value, str):
            try:
                value = (
                    value.replace(",", ".") if name == "confidence" else value
                )  # 0,9 of a German sheet
                value = parsed_json(value.lower() if value in ("True", "False") else value)
            except ValueError:
                value = [value] if name in ("contexts", "citations") else value
        if name in ("contexts", "citations") and value is not None and not isinstance(value, list):
            value = [value]
        if value is not None:
            reply[name] = value
    return reply


def _checked_row(place: str, row: dict[str, Any], problems: Problems, system: str) -> Row | None:
    """A checked row; None if it is malformed, and ``problems`` says why."""
    ask, sample, scenario = row.get("ask"), row.get("sample"), row.get("scenario")
    answer = row.get("answer")
    before = len(problems)
    if ask is not None and not isinstance(ask, str):
        problems.add(place, f"ask is {ask!r}, not a question's id")
    if ask is None and (
        not isinstance(sample, str)
        or not isinstance(scenario, str)
        or scenario not in set(Scenario)
    ):
        scenario_names = ", ".join(s.value for s in Scenario)
        problems.add(
            place, f"names no question: give ask, or sample and scenario ({scenario_names})"
        )
    if not isinstance(answer, str):
        problems.add(place, "has no answer (a string, empty if the system gave none)")
    elif answer.encode("utf-8", "replace").decode() != answer:
        problems.add(place, "its answer holds a lone surrogate")
    response = Response(served_by=system)
    try:
        response = response_of(_with_values(row), served_by=system)
    except ItemError as error:
        if error.message == RETRIEVED_NOTHING:
            response = Response(error=RETRIEVED_NOTHING, served_by=system)
        elif isinstance(answer, str):
            problems.add(place, error.message)
    keys: list[tuple[str, str | int]] = []
    for name in KEYS if ask is None else ():
        value = row.get(name, row.get("draw") if name == "repeat" else None)
        if value is None:
            continue
        if name in ("k", "repeat"):
            number = _WHOLE.fullmatch(str(value))
            if number is None:
                problems.add(place, f"{name} is {value!r}, not a whole number")
                continue
            value = int(number[1])
        elif name == "recipe":
            try:
                value = str(recipe(str(value)))
            except UsageError as error:
                problems.add(place, str(error))
        keys.append((name, value))
    if len(problems) > before:
        return None
    stored = response.model_dump_json(exclude_defaults=True).encode()
    return Row(place, ask or "", str(sample), str(scenario), tuple(keys), stored)
