"""Scenes: photos with labelled boxes and questions.

A line of a scenes file:

    {"id": "a", "image": "photos/a.jpg", "objects": [{"label": "dog", "box": [0.1, 0.2, 0.5, 0.9]}],
     "questions": [{"question": "What colour is the dog?", "answer": "brown", "object": "dog"}], "licence": "..."}

Boxes are (x0, y0, x1, y1), as shares of width and height or in pixels; an object may name a ``mask`` file (white on
black, by any segmenter) instead. Where ``object`` is left out, it is the label that the question names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, field_validator

from demur.core.records import Drop, Record
from demur.core.store import Problems, read_jsonl
from demur.sample import atlas
from demur_suites.certainly_uncertain.build.calls import drop
from demur_suites.files import items_by_id


class Thing(Record):
    """One object of a scene."""

    label: str = Field(min_length=1)
    box: tuple[float, float, float, float] | None = None
    mask: str = ""

    @field_validator("box")
    @classmethod
    def _has_area(
        cls, box: tuple[float, float, float, float] | None
    ) -> tuple[float, float, float, float] | None:
        if box is not None and not (box[0] < box[2] and box[1] < box[3] and min(box) >= 0):
            raise ValueError(f"box {box} has no area; give x0, y0, x1, y1 with x0 < x1 and y0 < y1")
        return box


class Asked(Record):
    """One question about a scene; ``object`` is the label of its subject."""

    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    object: str = ""


class Scene(Record):
    """One photo with its objects and questions."""

    id: str = Field(min_length=1)
    image: str = Field(min_length=1)
    objects: tuple[Thing, ...] = ()
    questions: tuple[Asked, ...] = ()
    licence: str = ""
    split: str = ""


def sample(kind: str) -> tuple[Path, Path, dict[str, str]]:
    """The sample corpus's ``scenes`` or ``captions``: their file, the folder of the photos, photo -> licence."""
    root = atlas()
    licences = {
        str(r["file"]): str(r["licence"])
        for _, r in read_jsonl(root / "kb_images.jsonl", Problems())
    }
    return Path(__file__).parents[1] / "data" / f"atlas-{kind}.jsonl", root, licences


def read_scenes(path: Path, problems: Problems) -> Iterator[Scene]:
    """Scenes of a JSONL file; bad lines, and ids that come twice, are problems."""
    yield from items_by_id(path, problems, lambda place, row: Scene.model_validate(row)).values()


def unread(problems: Problems) -> Iterator[Drop]:
    """Lines of an input that cannot be read, as drops."""
    for line in problems.summary():
        yield drop(line.partition(": ")[0], "input", "line cannot be read", line)
