"""Read questions: a list or a log, with answers if they are known.

JSONL, JSON, CSV, TSV or Parquet with the usual column names (`USUAL`) in any case, or a text file with one question per
line. Answer, gold and id may be missing. A repeated question (a log) counts once. A question within a conversation has
a list of the messages before it (`demur.core.turns`), which may end with the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from demur.answers import normalise
from demur.core.cells import answer_texts, is_empty, list_written, listed
from demur.core.errors import DataError, UsageError
from demur.core.store import Problems, digest, read_text
from demur.core.turns import Turn, asked_in, turns_of
from demur.corpora.formats import table_rows
from demur.judge.base import COLUMNS
from demur.sources.native import read_truth

USUAL = {
    **COLUMNS,
    "answers": (
        *(name for name in COLUMNS["answers"] if name != "reference"),
        "output",
        "reference",
    ),
    "answerable": ("answerable", "is_answerable"),
    "unanswerable": ("unanswerable", "is_impossible", "no_answer"),
    "gold": ("gold", "gold_ids", "doc_ids", "document_ids", "doc_id", "document_id", "source_id"),
    "turns": ("turns", "messages", "history", "chat_history", "conversation"),
    "topic": ("topic", "category", "tag", "intent"),
}
"""Content of a column -> its possible names; the first that is there counts. A ``reference`` beside an answer may be
the section that has it."""
SEPARATOR = "|"
"""Between several answers, or several gold ids, in one cell."""


class Question(NamedTuple):
    """A question with what its owner knows about it."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    answerable: bool | None = None
    """False: no document answers it. None: unknown."""
    gold: tuple[str, ...] = ()
    """Ids of documents that answer it."""
    topic: str = ""
    place: str = ""
    turns: tuple[Turn, ...] = ()
    """The messages before it."""

    @property
    def question_with_turns(self) -> str:
        """The question, with the messages before it."""
        return asked_in(self.turns, self.text)


class Questions(NamedTuple):
    """The questions of a file."""

    distinct: list[Question]
    repeated: int
    """Rows that repeat an earlier question."""


def read_questions(path: Path, problems: Problems) -> Questions:
    """The questions of a file, each once, in its order.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet``; any other file has one question per line.
        problems: takes rows that cannot be used.

    Raises:
        UsageError: there is no such file, or no column that holds a question.
        DataError: the file holds no question.
    """
    if not path.is_file():
        raise UsageError(
            "there is no such file of questions", item=str(path), cure="check the path"
        )
    question_of_key: dict[str, Question] = {}
    ids: set[str] = set()
    repeated = 0
    for question in _read_rows(path, problems):
        key = normalise(question.question_with_turns) or question.question_with_turns
        if key in question_of_key:
            repeated += 1
        elif question.id in ids:
            problems.add(
                f"{question.place} ({question.id})", "this id stands in an earlier row too"
            )
        else:
            question_of_key[key] = question
            ids.add(question.id)
    if not question_of_key and not len(problems):
        raise DataError(
            "the file holds no question", item=str(path), cure="write one question per line"
        )
    return Questions(list(question_of_key.values()), repeated)


def _read_rows(path: Path, problems: Problems) -> Iterator[Question]:
    ending = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if ending not in ("jsonl", "json", "csv", "tsv", "parquet"):
        for number, line in enumerate(read_text(path).splitlines(), 1):
            if text := line.strip().lstrip("\ufeff"):
                yield Question(_id_of(text), text, place=f"{path.name}:{number}")
        return
    first_row = None
    for place, _, cells in table_rows(path, problems):
        row = {str(name).lower(): value for name, value in cells.items()}
        first_row = first_row or row
        try:
            question = _question_of_row(row, place)
        except (DataError, ValueError) as error:
            problems.add(place, str(error))
            continue
        if question is not None:
            yield question
    if first_row is not None and not any(
        name in first_row for name in (*USUAL["question"], *USUAL["turns"])
    ):
        raise UsageError(
            f"no column holds a question; there are {', '.join(map(str, first_row)) or 'none'}",
            item=str(path),
            cure=f"call one of them {', '.join(USUAL['question'])}",
        )


def _question_of_row(row: Mapping[str, Any], place: str) -> Question | None:
    """The question of a row; None if it has none."""
    cells = {
        field: next((row[n] for n in names if n in row), None) for field, names in USUAL.items()
    }
    turns, text = turns_of(cells["turns"]), cells["question"]
    if (
        turns
        and turns[-1].role == "user"
        and (text is None or normalise(turns[-1].content) == normalise(str(text)))
    ):
        turns, text = turns[:-1], turns[-1].content  # a log's messages end with the question
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    if not isinstance(text, str):
        raise ValueError(f"the question is {type(text).__name__}, not text")
    answerable = read_truth(cells["answerable"], "answerable")
    if answerable is None and (no := read_truth(cells["unanswerable"], "unanswerable")) is not None:
        answerable = not no
    answers, gold = (
        _texts_of_cell(cells["answers"], "answers"),
        _texts_of_cell(cells["gold"], "gold"),
    )
    if answerable is False and gold:
        raise ValueError(f"it is unanswerable, but {gold[0]} is its gold: remove one of them")
    return Question(
        str(cells["id"]) if cells["id"] not in (None, "") else _id_of(asked_in(turns, text)),
        text.strip(),
        () if answerable is False else answers,
        answerable,
        gold,
        str(cells["topic"] or ""),
        place,
        turns,
    )


def _texts_of_cell(cell: Any, name: str) -> tuple[str, ...]:
    """The texts of a cell: a list, a text with `SEPARATOR` between them, or objects with a text or an id."""
    cell = list_written(cell)
    cells = cell.split(SEPARATOR) if isinstance(cell, str) else listed(cell)
    named = [
        item["id"] if isinstance(item, dict) and "id" in item and "text" not in item else item
        for item in cells
    ]
    return tuple(text for text in dict.fromkeys(answer_texts(named, name)) if not is_empty(text))


def _id_of(text: str) -> str:
    return f"q-{digest(normalise(text) or text, 12)}"
