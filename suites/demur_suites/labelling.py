"""What suites put before people: tasks of `demur annotate page --out FOLDER`, and the labels that come back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from demur.core.records import ImageRef
from demur.core.store import digest, write_atomic, write_records
from demur.core.uris import read_image
from demur.judge.annotation.task import Item, Task, settle_labels, write_task

DECIDED = "decided.jsonl"
"""Labels of a judge or of a design beside the task: ``demur agree FOLDER FOLDER/decided.jsonl`` compares."""


class Question(NamedTuple):
    """One thing to be labelled.

    Attributes:
        key: what the caller knows it by.
        shown: (heading, text) in order.
        images: shown below it.
        hidden: (heading, text), shown when asked for.
        about: never shown; a task can be balanced over it.
        decided: the label that a judge or a design gave it; "" where none did.
    """

    key: str
    shown: tuple[tuple[str, str], ...]
    images: Sequence[ImageRef] = ()
    hidden: tuple[tuple[str, str], ...] = ()
    about: Mapping[str, str] = MappingProxyType({})
    decided: str = ""


def file_questions(
    folder: Path, root: Path, task: Task, questions: Sequence[Question], decider: str = "design"
) -> dict[str, str]:
    """File questions as a labelling task; those that come later join it, and no label is lost.

    Args:
        folder: of the task.
        root: that image paths are relative to.
        task: labels and rubric; used when the folder is new.
        questions: equal ones are asked once.
        decider: whose labels `Question.decided` holds.

    Returns:
        Key of a question -> the label that most people gave it, where one has.
    """
    filed: dict[str, tuple[Question, Item]] = {}
    for q in questions:
        # an opaque id: a hash of what people see
        id = digest([task.name, q.key, q.shown, [ref.sha256 for ref in q.images]], 12)
        names = []
        for n, ref in enumerate(q.images):
            names.append(f"{digest([id, n], 12)}{Path(ref.uri).suffix}")
            if not (folder / "images" / names[-1]).is_file():
                write_atomic(folder / "images" / names[-1], read_image(ref, root))
        item = Item(id=id, shown=q.shown, images=tuple(names), hidden=q.hidden, about=dict(q.about))
        filed[id] = (q, item)
    items = [item for _, item in filed.values()]
    if (folder / "task.json").is_file():
        write_records(folder / "items.jsonl", items)
    else:
        write_task(folder, task, items)
    decided = [
        {"item": id, "label": q.decided, "annotator": decider}
        for id, (q, _) in filed.items()
        if q.decided
    ]
    if decided:
        rows = (json.dumps(row, ensure_ascii=False) + "\n" for row in decided)
        write_atomic(folder / DECIDED, "".join(rows))
    labels = settle_labels(folder).labels
    return {q.key: labels[id] for id, (q, _) in filed.items() if id in labels}
