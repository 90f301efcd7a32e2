"""Labels to and from other tools: spreadsheets (CSV), Label Studio, inspect's scores.

Rows are matched by the item's id, which every form carries; what others made of the texts is not read back.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Sequence
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
    LastLabel,
    Task,
    last_labels,
    put_labels,
    read_all_labels,
    read_task,
    wrong_name,
)

Form = Literal["csv", "label-studio", "inspect"]
_INSPECT = {"correct": "C", "incorrect": "I", "deflected": "N"}
"""inspect's letters; a label that has none is its own value."""
_COLUMNS = ("item", "images", "annotator", "label", "again", "looked", "note", "rubric")
_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"


def export_labels(folder: Path, form: Form, out: Path | None = None) -> str:
    """Items and labels of a task as text of one form, written to ``out`` where that is given.

    ``csv``: one row per item and annotator, and one for items without a label. ``label-studio``: its JSON tasks, one
    per item, with an annotation per annotator. ``inspect``: JSON lines ``{"id", "epoch", "scores": {name: {"value",
    "explanation", "metadata"}}}``, one score per annotator, with inspect's letters. Each form also holds the label of
    the hidden repeat (``again``), and whether what is right was looked at before the label (``looked``).
    """
    task, items = read_task(folder)
    labels_by_annotator = read_all_labels(folder) | {ADJUDICATED: last_labels(folder, ADJUDICATED)}
    by_item = {
        item.id: {
            name: last_labels_of[item.id]
            for name, last_labels_of in labels_by_annotator.items()
            if item.id in last_labels_of
        }
        for item in items
    }
    text = {"csv": _as_csv, "label-studio": _as_label_studio, "inspect": _as_inspect}[form](
        task, items, by_item
    )
    if out is not None:
        write_atomic(out, text)
    return text


def _as_csv(task: Task, items: list[Item], labels_by_item: dict[str, dict[str, LastLabel]]) -> str:
    headings = list(dict.fromkeys(heading for item in items for heading in _texts(item)))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["item", *map(_harmless, headings), *_COLUMNS[1:]])
    for item in items:
        texts = _texts(item)
        for name, last in labels_by_item[item.id].items() or [
            ("", LastLabel("", "", "", False, task.version))
        ]:
            row = [
                item.id,
                *(texts.get(h, "") for h in headings),
                "; ".join(item.images),
                name,
                last.label,
            ]
            row += [last.again, "yes" if last.revealed else "", last.note, last.rubric]
            writer.writerow([_harmless(cell) for cell in row])
    return stream.getvalue()


def _texts(item: Item) -> dict[str, str]:
    """Heading -> text; equal headings share one, and none has the name of a column of ours."""
    texts: dict[str, str] = {}
    for heading, text in item.shown:
        name = heading.strip()
        name = f"{name} (shown)" if name in _COLUMNS else name
        texts[name] = f"{texts[name]}\n\n{text}" if name in texts else text
    return texts


def _harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, without control characters; `_as_it_was` undoes its guard."""
    text = "".join(c for c in cell if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs"))
    return f"'{text}" if _is_formula(text.lstrip("'")) else text


def _as_it_was(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _is_formula(cell.lstrip("'")) else cell


def _is_formula(text: str) -> bool:
    return text.startswith("\t") or text.lstrip().startswith(tuple(_FORMULA))


def _as_label_studio(
    task: Task, items: list[Item], labels_by_item: dict[str, dict[str, LastLabel]]
) -> str:
    tasks = []
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
                        "meta": {"text": [last.note] if last.note else []} | _metadata_of(last),
                    }
                ],
                "completed_by": {"email": name},
                "ground_truth": name == ADJUDICATED,
            }
            for name, last in labels_by_item[item.id].items()
        ]
        data = {"item": item.id, **_texts(item), "images": list(item.images)}
        tasks.append({"id": number, "data": data, "annotations": annotations})
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def _as_inspect(
    task: Task, items: list[Item], labels_by_item: dict[str, dict[str, LastLabel]]
) -> str:
    lines = []
    task_labels = {
        label.name for label in task.labels
    }  # a letter that is a label of the task stands for itself
    letters = {label: letter for label, letter in _INSPECT.items() if letter not in task_labels}
    for item in items:
        scores = {
            name: {
                "value": letters.get(last.label, last.label),
                "explanation": last.note,
                "metadata": {"label": last.label, "human": True} | _metadata_of(last),
            }
            for name, last in labels_by_item[item.id].items()
        }
        lines.append(canonical({"id": item.id, "epoch": 1, "scores": scores}) + "\n")
    return "".join(lines)


def _metadata_of(last: LastLabel) -> dict[str, Any]:
    """What Label Studio and inspect have no place of their own for."""
    about: dict[str, Any] = {"rubric": last.rubric, "again": last.again, "looked": last.revealed}
    return {key: value for key, value in about.items() if value}


def import_labels(folder: Path, path: Path, name: str = "") -> dict[str, int]:
    """File the labels of a file as its annotators' (or as ``name``'s): CSV, Label Studio JSON, inspect's scores.

    Returns:
        Annotator -> labels filed; those that were there already are not counted.

    Raises:
        BadInput: items that are not of the task, labels that it does not have, two labels of one annotator for one
            item; all of them, before anything is filed.
        DataError: the file is none of the forms, or holds no label of a person.
    """
    task, items = read_task(folder)
    item_ids, labels = {item.id for item in items}, [*(label.name for label in task.labels), CANNOT]
    problems = Problems()
    rows_by_annotator: dict[str, dict[str, _Row]] = {}
    models: set[str] = set()
    for row in _read_rows(path, problems, labels):
        annotator = name or row.who
        if not row.label:
            continue
        if not (row.person or name):
            models.add(row.who)
            continue
        row = row._replace(
            label=_label_meant(row.label, labels), again=_label_meant(row.again, labels)
        )
        where = f"{row.place} ({row.item})"
        earlier_row = rows_by_annotator.get(annotator, {}).get(row.item, row)
        if row.item not in item_ids:
            problems.add(row.place, f"{row.item or 'an empty item'} is not in this task")
        elif unknown_labels := [
            label for label in (row.label, row.again) if label not in ("", *labels)
        ]:
            problems.add(where, f"label {unknown_labels[0]!r}; one of {', '.join(sorted(labels))}")
        elif row.rubric not in ("", task.version):
            problems.add(
                where, f"was given under the rubric {row.rubric}, and this task's is {task.version}"
            )
        elif not annotator:
            problems.add(where, "no annotator; name one with --as")
        elif why := wrong_name(annotator):
            problems.add(where, f"annotator {annotator!r}; {why}")
        elif (row.label, row.again) != (earlier_row.label, earlier_row.again):
            conflict = (
                f"{annotator} says {row.label} here and {earlier_row.label} in {earlier_row.place}"
            )
            problems.add(
                where,
                conflict
                + (", or repeats it differently" if row.label == earlier_row.label else ""),
            )
        else:
            rows_by_annotator.setdefault(annotator, {})[row.item] = (
                row if row.note or not earlier_row.note else earlier_row
            )
    problems.settle()
    if not rows_by_annotator:
        cure = "fill in its labels; of Label Studio export JSON, not JSON-MIN"
        if models:
            cure = f"scores of {', '.join(sorted(models))} do not say metadata.human; if a person gave them: --as NAME"
        raise DataError("no labels of people in it", item=path, cure=cure)
    filed = {}
    for who in sorted(
        rows_by_annotator, key=lambda who: (who == ADJUDICATED, who)
    ):  # the last word comes last
        rows = rows_by_annotator[who]
        filed[who] = put_labels(
            folder,
            who,
            {item: (row.label, row.note) for item, row in rows.items()},
            again={item: row.again for item, row in rows.items()},
            looked={item for item, row in rows.items() if row.looked},
        )
    return filed


def _label_meant(text: str, labels: Sequence[str]) -> str:
    """The label that a text means: as it is, else the only one that is equal in lower case."""
    if text in labels:
        return text
    alike = [label for label in labels if _folded(label) == _folded(text)]
    return alike[0] if len(alike) == 1 else text


def _folded(text: str) -> str:
    return text.lower().replace(" ", "_")


class _Row(NamedTuple):
    """A label of a file."""

    place: str
    who: str
    item: str
    label: str
    note: str = ""
    rubric: str = ""
    """Version of the rubric that it was given under, where the file says so."""
    again: str = ""
    looked: bool = False
    person: bool = True
    """False for a score of inspect that does not say so: most of its scorers are models."""


def _read_rows(path: Path, problems: Problems, labels: Sequence[str]) -> Iterator[_Row]:
    if path.suffix == ".jsonl":
        for place, line in read_jsonl(path, problems):
            yield from _rows_of_scores(place, line, labels)
        return
    if path.suffix != ".json":
        for place, row in csv_rows(path, problems, required=("item", "label")):
            cells = {name: _as_it_was(text.strip()) for name, text in row.items()}
            who, note, rubric, again = (
                cells.get(key, "") for key in ("annotator", "note", "rubric", "again")
            )
            looked = cells.get("looked", "").lower() == "yes"
            yield _Row(place, who, cells["item"], cells["label"], note, rubric, again, looked)
        return
    try:
        value = parsed_json(read_text(path))
    except ValueError as error:
        raise DataError(
            f"not JSON: {error}", item=str(path), cure="export it from Label Studio as JSON"
        ) from error
    if isinstance(value, dict) and isinstance(
        value.get("samples"), list
    ):  # a log of inspect, as JSON
        for number, sample in enumerate(value["samples"], start=1):
            yield from _rows_of_scores(f"{path.name} (sample {number})", _as_dict(sample), labels)
        return
    if not isinstance(value, list):
        raise DataError(
            "neither Label Studio's tasks nor a log of inspect",
            item=str(path),
            cure="see docs/judging-people.md",
        )
    for number, task in enumerate(value, start=1):
        yield from _rows_of_annotations(f"{path.name} (task {number})", _as_dict(task), problems)


def _rows_of_scores(place: str, line: dict[str, Any], labels: Sequence[str]) -> Iterator[_Row]:
    label_of_letter = {letter: label for label, letter in _INSPECT.items() if letter not in labels}
    scores = line.get("scores")
    for who, score in (scores if isinstance(scores, dict) else {}).items():
        score_fields = score if isinstance(score, dict) else {"value": score}
        about = _as_dict(score_fields.get("metadata"))
        value, note, item = (
            str(score_fields.get("value", "")),
            str(score_fields.get("explanation") or ""),
            str(line.get("id", "")),
        )
        person = about.get("human") is True
        yield _Row(
            place,
            who,
            item,
            label_of_letter.get(value, value),
            note,
            *_read_metadata(about),
            person=person,
        )


def _read_metadata(about: dict[str, Any]) -> tuple[str, str, bool]:
    """What `_metadata_of` wrote: rubric, again, looked."""
    return (
        str(about.get("rubric") or ""),
        str(about.get("again") or ""),
        about.get("looked") is True,
    )


def _rows_of_annotations(place: str, task: dict[str, Any], problems: Problems) -> Iterator[_Row]:
    data = task.get("data")
    item = str(data.get("item", "")) if isinstance(data, dict) else ""
    for annotation in _as_list(task.get("annotations")):
        by = _as_dict(annotation).get("completed_by")
        who = (
            str(by.get("email", ""))
            if isinstance(by, dict)
            else ""
            if by is None
            else f"annotator-{by}"
        )
        if _as_dict(annotation).get(
            "was_cancelled"
        ):  # skipped: what was chosen before is no answer
            continue
        for result in _as_list(_as_dict(annotation).get("result")):
            if _as_dict(result).get("type") != "choices":
                continue
            chosen = [
                str(choice).strip()
                for choice in _as_list(_as_dict(result.get("value")).get("choices"))
            ]
            meta = _as_dict(result.get("meta"))
            note, *_ = [*_as_list(meta.get("text")), ""]
            if len(chosen) > 1:
                problems.add(
                    f"{place} ({item})",
                    f"{len(chosen)} choices ({', '.join(chosen)}); an item has one label",
                )
            elif chosen:
                yield _Row(place, who, item, chosen[0], str(note), *_read_metadata(meta))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
