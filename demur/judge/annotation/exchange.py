"""Labels to and from other tools: spreadsheets (CSV), Label Studio, inspect's scores.

Rows are matched by the item's id, which every form carries; what others made of the texts is not read back.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.core.errors import DataError
from demur.core.store import Problems, canonical, read_jsonl, read_text, write_atomic
from demur.core.strict_json import parsed_json
from demur.corpora.formats import csv_rows
from demur.judge.annotation.task import (
    ADJUDICATED,
    CANNOT,
    Item,
    Last,
    Task,
    everybody,
    last_labels,
    put_labels,
    read_task,
    wrong_name,
)

Form = Literal["csv", "label-studio", "inspect"]
_INSPECT = {"correct": "C", "incorrect": "I", "deflected": "N"}
"""inspect's letters; a label that has none is its own value."""


def exported(folder: Path, form: Form, out: Path | None = None) -> str:
    """Items and labels of a task as text of one form, written to ``out`` where that is given.

    ``csv``: one row per item and annotator, and one for items without a label. ``label-studio``: its JSON tasks, one
    per item, with an annotation per annotator. ``inspect``: JSON lines ``{"id", "epoch", "scores": {name: {"value",
    "explanation", "metadata"}}}``, one score per annotator, with inspect's letters.
    """
    task, items = read_task(folder)
    said = everybody(folder) | {ADJUDICATED: last_labels(folder, ADJUDICATED)}
    by_item = {item.id: {name: words[item.id] for name, words in said.items() if item.id in words} for item in items}
    text = {"csv": _csv, "label-studio": _label_studio, "inspect": _inspect}[form](task, items, by_item)
    if out is not None:
        write_atomic(out, text)
    return text


def _csv(task: Task, items: list[Item], said: dict[str, dict[str, Last]]) -> str:
    headings = list(dict.fromkeys(heading for item in items for heading, _ in item.shown))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["item", *headings, "images", "annotator", "label", "again", "note", "rubric"])
    for item in items:
        texts = dict(item.shown)
        for name, last in said[item.id].items() or [("", Last("", "", "", False, task.version))]:
            row = [item.id, *(texts.get(h, "") for h in headings), "; ".join(item.images), name, last.label]
            writer.writerow([_harmless(str(cell)) for cell in [*row, last.again, last.note, last.rubric]])
    return stream.getvalue()


def _harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, without control characters."""
    text = "".join(c for c in cell if c.isprintable() or c in "\n\t")
    return f"'{text}" if text and text[0] in "=+-@\t" else text


def _label_studio(task: Task, items: list[Item], said: dict[str, dict[str, Last]]) -> str:
    made = []
    for number, item in enumerate(items, start=1):
        annotations = [
            {
                "result": [
                    {
                        "id": f"{item.id}-{name}",
                        "from_name": "label",
                        "to_name": "text",
                        "type": "choices",
                        "value": {"choices": [last.label]},
                        **({"meta": {"text": [last.note]}} if last.note else {}),
                    }
                ],
                "completed_by": {"email": name},
                "ground_truth": name == ADJUDICATED,
            }
            for name, last in said[item.id].items()
        ]
        data = {"item": item.id, **dict(item.shown), "images": list(item.images)}
        made.append({"id": number, "data": data, "annotations": annotations})
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"


def _inspect(task: Task, items: list[Item], said: dict[str, dict[str, Last]]) -> str:
    lines = []
    for item in items:
        scores = {
            name: {
                "value": _INSPECT.get(last.label, last.label), "explanation": last.note,
                "metadata": {"label": last.label, "rubric": last.rubric, "human": True},
            }
            for name, last in said[item.id].items()
        }  # fmt: skip
        lines.append(canonical({"id": item.id, "epoch": 1, "scores": scores}) + "\n")
    return "".join(lines)


def imported(folder: Path, path: Path, name: str = "") -> dict[str, int]:
    """File the labels of a file as its annotators' (or as ``name``'s): CSV, Label Studio JSON, inspect's scores.

    Returns:
        Annotator -> labels filed; those that were there already are not counted.

    Raises:
        BadInput: items that are not of the task, labels that it does not have; all of them, before anything is filed.
        DataError: the file is none of the forms.
    """
    task, items = read_task(folder)
    known, labels = {item.id for item in items}, {label.name for label in task.labels} | {CANNOT}
    problems = Problems()
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for place, who, item, label, note, rubric in _rows(path, problems):
        annotator = name or who
        if not label:
            continue
        if item not in known:
            problems.add(place, f"{item or 'an empty item'} is not in this task")
        elif label not in labels:
            problems.add(f"{place} ({item})", f"label {label!r}; one of {', '.join(sorted(labels))}")
        elif rubric not in ("", task.version):
            told = f"was given under the rubric {rubric}, and this task's is {task.version}"
            problems.add(f"{place} ({item})", told)
        elif not annotator:
            problems.add(f"{place} ({item})", "no annotator; name one with --as")
        elif why := wrong_name(annotator):
            problems.add(f"{place} ({item})", f"annotator {annotator!r}; {why}")
        else:
            found.setdefault(annotator, {})[item] = (label, note)
    problems.settle()
    return {who: put_labels(folder, who, rows) for who, rows in sorted(found.items())}


class _Row(NamedTuple):
    """A label of a file."""

    place: str
    who: str
    item: str
    label: str
    note: str = ""
    rubric: str = ""
    """Version of the rubric that it was given under, where the file says so."""


def _rows(path: Path, problems: Problems) -> Iterator[_Row]:
    if path.suffix == ".jsonl":
        for place, line in read_jsonl(path, problems):
            yield from _scores(place, line)
        return
    if path.suffix != ".json":
        for place, row in csv_rows(path, problems, required=("item", "label")):
            cells = {name: text.strip() for name, text in row.items()}
            label = cells["label"].lower().replace(" ", "_")
            rubric = cells.get("rubric", "")
            yield _Row(place, cells.get("annotator", ""), cells["item"], label, cells.get("note", ""), rubric)
        return
    try:
        value = parsed_json(read_text(path))
    except ValueError as error:
        raise DataError(f"not JSON: {error}", item=str(path), cure="export it from Label Studio as JSON") from error
    if isinstance(value, dict) and isinstance(value.get("samples"), list):  # a log of inspect, as JSON
        for number, sample in enumerate(value["samples"], start=1):
            yield from _scores(f"{path.name} (sample {number})", sample if isinstance(sample, dict) else {})
        return
    if not isinstance(value, list):
        raise DataError(
            "neither Label Studio's tasks nor a log of inspect", item=str(path), cure="see docs/judging-people.md"
        )
    for number, task in enumerate(value, start=1):
        yield from _annotations(f"{path.name} (task {number})", task if isinstance(task, dict) else {})


def _scores(place: str, line: dict[str, Any]) -> Iterator[_Row]:
    back = {letter: label for label, letter in _INSPECT.items()}
    scores = line.get("scores")
    for who, score in (scores if isinstance(scores, dict) else {}).items():
        said = score if isinstance(score, dict) else {"value": score}
        value, about = str(said.get("value", "")), said.get("metadata")
        rubric = str(about.get("rubric") or "") if isinstance(about, dict) else ""
        label, note = back.get(value, value.lower()), str(said.get("explanation") or "")
        yield _Row(place, who, str(line.get("id", "")), label, note, rubric)


def _annotations(place: str, task: dict[str, Any]) -> Iterator[_Row]:
    data = task.get("data")
    item = str(data.get("item", "")) if isinstance(data, dict) else ""
    for annotation in _list(task.get("annotations")):
        by = _dict(annotation).get("completed_by")
        who = str(by.get("email", "")) if isinstance(by, dict) else "" if by is None else f"annotator-{by}"
        for result in _list(_dict(annotation).get("result")):
            if _dict(result).get("type") != "choices":
                continue
            chosen, *_ = [*_list(_dict(result.get("value")).get("choices")), ""]
            note, *_ = [*_list(_dict(result.get("meta")).get("text")), ""]
            yield _Row(place, who, item, str(chosen).strip().lower().replace(" ", "_"), str(note))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
