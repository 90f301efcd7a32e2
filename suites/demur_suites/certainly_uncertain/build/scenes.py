"""Scenes: photos with labelled boxes and questions, read from our own lines or from GQA's files.

A line of a scenes file:

    {"id": "a", "image": "photos/a.jpg", "objects": [{"label": "dog", "box": [0.1, 0.2, 0.5, 0.9]}],
     "questions": [{"question": "What colour is the dog?", "answer": "brown", "object": "dog"}], "licence": "..."}

Boxes are (x0, y0, x1, y1), as shares of width and height or in pixels; an object may name a ``mask`` file (white on
black) instead. Where ``object`` is left out, it is the label that the question names, or what ``--finder`` says; what
has neither box nor mask needs ``--mask sam``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from demur.core.errors import UsageError
from demur.core.records import Drop, Record
from demur.core.store import Problems, read_jsonl, read_text, why_invalid
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


class _Object(BaseModel):
    name: str = Field(min_length=1)
    x: float
    y: float
    w: float
    h: float


class _Graph(BaseModel):
    width: float = Field(gt=0)
    height: float = Field(gt=0)
    objects: dict[str, _Object]

    def things(self) -> Iterator[Thing]:
        """Its objects that have an area, with boxes as shares of width and height."""
        for o in self.objects.values():
            if o.w > 0 and o.h > 0:
                x0, y0, x1, y1 = (
                    o.x / self.width,
                    o.y / self.height,
                    (o.x + o.w) / self.width,
                    (o.y + o.h) / self.height,
                )
                yield Thing(label=o.name, box=(x0, y0, x1, y1))


class _Question(BaseModel, coerce_numbers_to_str=True):
    imageId: str
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    annotations: dict[str, dict[str, str]] = {}


def read_gqa(graphs: Path, questions: Path) -> Iterator[Scene | Drop]:
    """Scenes of GQA: its scene graphs (boxes of every object) and its questions, which name the objects they are about.

    A question whose annotations name no object of the graph is a `Drop`. Photos are ``<image id>.jpg``.

    Args:
        graphs: ``train_sceneGraphs.json``: image id -> width, height, objects (name, x, y, w, h).
        questions: ``train_balanced_questions.json``: id -> imageId, question, answer, annotations.
    """
    stage = "scene-graph"
    held, asked = _json(graphs), _json(questions)
    of_image: dict[str, dict[str, _Question]] = {}
    for id, row in asked.items():
        try:
            question = _Question.model_validate(row)
        except ValidationError as error:
            yield drop(id, stage, "question cannot be read", why_invalid(error))
        else:
            of_image.setdefault(question.imageId, {})[id] = question
    for image, own in of_image.items():
        things: list[Thing] = []
        names: dict[str, str] = {}
        try:
            if image in held:
                graph = _Graph.model_validate(held[image])
                things, names = (
                    list(graph.things()),
                    {id: o.name for id, o in graph.objects.items()},
                )
        except ValidationError as error:
            yield drop(
                image, stage, "objects of the scene graph cannot be read", why_invalid(error)
            )
            continue
        about = []
        for id, q in own.items():
            named = [
                o
                for part in ("question", "fullAnswer", "answer")
                for o in q.annotations.get(part, {}).values()
            ]
            subject = next((names[o] for o in named if o in names), None)
            if subject is None:
                yield drop(id, stage, "about no object of the scene graph", q.question)
            else:
                about.append(Asked(question=q.question, answer=q.answer, object=subject))
        if about:
            yield Scene(
                id=image,
                image=f"{image}.jpg",
                objects=tuple(things),
                questions=tuple(about),
                licence="see GQA's terms",
            )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "not JSON", item=str(path), cure="give GQA's file as it was downloaded"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(
            "not a JSON object with ids as keys",
            item=str(path),
            cure="give GQA's file as it was downloaded",
        )
    return found
