"""Scenes: photos with labelled boxes and questions, read from our own lines or from GQA's files.

A line of a scenes file:

    {"id": "a", "image": "photos/a.jpg", "objects": [{"label": "dog", "box": [0.1, 0.2, 0.5, 0.9]}],
     "questions": [{"question": "What colour is the dog?", "answer": "brown", "object": "dog"}], "licence": "..."}

Boxes are (x0, y0, x1, y1), as shares of width and height or in pixels; an object may name a ``mask`` file (white on
black) instead. ``objects`` may be empty, and ``object`` left out: demur then finds both (`salient`, `inpainting`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from demur.core.errors import UsageError
from demur.core.records import Drop, Record
from demur.core.store import Problems, read_jsonl, storage_errors, why_invalid
from demur.corpora.formats import json_lines
from demur.sample import atlas
from demur.suites.certainly_uncertain.build.calls import drop


class Thing(Record):
    """One object of a scene."""

    label: str = Field(min_length=1)
    box: tuple[float, float, float, float] | None = None
    mask: str = ""

    @field_validator("box")
    @classmethod
    def _has_area(cls, box: tuple[float, float, float, float] | None) -> tuple[float, float, float, float] | None:
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
    licences = {str(r["file"]): str(r["licence"]) for _, r in read_jsonl(root / "kb_images.jsonl", Problems())}
    return Path(__file__).parents[1] / "data" / f"atlas-{kind}.jsonl", root, licences


def read_scenes(path: Path, problems: Problems) -> Iterator[Scene]:
    """Scenes of a JSONL file; bad lines are problems."""
    for place, row in json_lines(path, problems):
        try:
            yield Scene.model_validate(row)
        except ValidationError as error:
            problems.add(f"{place} ({row.get('id', 'no id')})", why_invalid(error))


def unread(problems: Problems) -> Iterator[Drop]:
    """Lines of an input that cannot be read, as drops."""
    for line in problems.summary():
        yield drop(line.partition(": ")[0], "input", "line cannot be read", line)


def read_gqa(graphs: Path, questions: Path, suffix: str = ".jpg") -> Iterator[Scene | Drop]:
    """Scenes of GQA: its scene graphs (boxes of every object) and its questions, which name the objects they are about.

    A question whose annotations name no object of the graph is a `Drop`.

    Args:
        graphs: ``train_sceneGraphs.json``: image id -> width, height, objects (name, x, y, w, h).
        questions: ``train_balanced_questions.json``: id -> imageId, question, answer, annotations.
        suffix: of the photos, named by image id.
    """
    stage = "scene-graph"
    held, asked = _json(graphs), _json(questions)
    of_image: dict[str, list[Asked]] = {}
    for id, row in asked.items():
        if not (isinstance(row, dict) and all(isinstance(row.get(k), str) for k in ("question", "answer"))):
            yield drop(id, stage, "holds no question and answer")
            continue
        image = str(row.get("imageId"))
        graph = held.get(image)
        things = graph.get("objects", {}) if isinstance(graph, dict) else {}
        notes = row.get("annotations")
        notes = notes if isinstance(notes, dict) else {}
        named = [o for part in ("question", "fullAnswer", "answer") for o in (notes.get(part) or {}).values()]
        about = next((things[o] for o in named if o in things), None)
        if not isinstance(about, dict) or not about.get("name"):
            yield drop(id, stage, "about no object of the scene graph", row["question"])
            continue
        of_image.setdefault(image, []).append(
            Asked(question=row["question"], answer=row["answer"], object=about["name"])
        )
    for image, own in of_image.items():
        graph = held[image]
        try:
            yield Scene(
                id=image, image=f"{image}{suffix}", questions=tuple(own), licence="see GQA's terms",
                objects=tuple(
                    Thing(label=o["name"], box=(o["x"] / graph["width"], o["y"] / graph["height"],
                          (o["x"] + o["w"]) / graph["width"], (o["y"] + o["h"]) / graph["height"]))
                    for o in graph["objects"].values() if o["w"] > 0 and o["h"] > 0
                ),
            )  # fmt: skip
        except (ValidationError, KeyError, TypeError, ZeroDivisionError, AttributeError) as error:
            yield drop(image, stage, "objects of the scene graph cannot be read", f"{type(error).__name__} {error}")


def _json(path: Path) -> dict[str, Any]:
    with storage_errors(path):
        text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("is no JSON", item=str(path), cure="give GQA's file as it was downloaded") from error
    if not isinstance(found, dict):
        raise UsageError("is not an object of ids", item=str(path), cure="give GQA's file as it was downloaded")
    return found
