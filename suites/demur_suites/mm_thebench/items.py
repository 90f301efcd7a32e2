"""The records of MM-THEBench: questions with the reference steps of a correct chain of thought, and a rubric.

A line of ``items.jsonl`` holds a question, its answer, a picture or video, reference steps (text and dimensions) and
rubric items (a question about the chain with points, a dimension, one of 17 subcategories, and the steps it is about).
Every chain also gets three base rubric items, which are not in the file. Image paths are relative to the file.
Source: "MM-THEBench: Do Reasoning MLLMs Think Reasonably?", sections 2 and 3, appendices A and B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from demur.core.records import AnswerSpec, ImageRef, Record
from demur.core.store import Problems, write_records
from demur_suites.files import copy_images, folder_of, images_beside, items_by_id, items_file
from demur_suites.records import Loaded


class Dimension(StrEnum):
    """The source of a step: facts from outside, the picture, or earlier steps."""

    KNOWLEDGE = "knowledge"
    PERCEPTION = "perception"
    REASONING = "reasoning"

    @classmethod
    def _missing_(cls, value: object) -> Dimension | None:
        name = str(value).strip().lower()
        return next((d for d in cls if name in (d.value, d.value[0])), None)


def _listed(types: Any) -> Any:
    """Dimensions in one text, as other tools write them: ``P+K``, ``perception, reasoning``."""
    if not isinstance(types, str):
        return types
    return [t for t in types.replace("+", ",").replace("/", ",").split(",") if t.strip()]


def _plain(name: Any) -> Any:
    return name.strip().lower().replace("_", " ") if isinstance(name, str) else name


SUBCATEGORIES: dict[Dimension, tuple[str, ...]] = {
    Dimension.KNOWLEDGE: ("commonsense", "world knowledge", "domain knowledge"),
    Dimension.PERCEPTION: (
        "recognition",
        "ocr",
        "spatial",
        "count",
        "audio",
        "grounding",
        "temporal",
    ),
    Dimension.REASONING: (
        "deductive",
        "inductive",
        "spatial",
        "arithmetic",
        "causal",
        "decision",
        "instructional",
    ),
}
"""The 17 subcategories; "spatial" stands under two dimensions."""


class Step(Record):
    """One step of a correct chain.

    Attributes:
        id: from 1, in order.
        types: its dimensions; naming what a picture shows is both perception and knowledge.
        description: the kind of step, in a few words.
        content: its text.
        necessary: whether every correct chain needs it.
    """

    id: int = Field(ge=1)
    types: Annotated[tuple[Dimension, ...], BeforeValidator(_listed)] = Field(min_length=1)
    description: str = ""
    content: str = Field(min_length=1)
    necessary: bool = True


class RubricItem(Record):
    """One question about a chain.

    Attributes:
        question: answered by yes or no; yes is good.
        points: for a yes.
        dimension: that it tests.
        subcategory: of the dimension; "" for base items.
        steps: ids of the reference steps it is about.
    """

    question: str = Field(min_length=1)
    points: int = Field(ge=1, le=100)
    dimension: Dimension
    subcategory: Annotated[str, BeforeValidator(_plain)] = ""
    steps: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _of_its_dimension(self) -> Self:
        if self.subcategory and self.subcategory not in SUBCATEGORIES[self.dimension]:
            known = ", ".join(SUBCATEGORIES[self.dimension])
            raise ValueError(
                f"{self.subcategory!r} is not a subcategory of {self.dimension.value}; they are {known}"
            )
        return self

    @property
    def base(self) -> bool:
        """Whether it is one of the three items that every chain gets."""
        return not self.subcategory


BASE = (
    RubricItem(
        question="Is what the chain takes from the picture or video right, and used the same way throughout?",
        points=6,
        dimension=Dimension.PERCEPTION,
    ),
    RubricItem(
        question="Does each step follow from those before it, with no gap and no contradiction?",
        points=8,
        dimension=Dimension.REASONING,
    ),
    RubricItem(
        question="Is the chain enough to arrive at the answer that it ends with?",
        points=9,
        dimension=Dimension.REASONING,
    ),
)
"""Scored for every chain, 23 points in total; not counted in the statistics of a set (Table 6)."""


class Video(Record):
    """A video by its path; ``demur suite build mm_thebench --items ITEMS`` samples its frames (extra ``video``).

    Attributes:
        path: relative to the items' file.
        start: of the relevant part, in seconds.
        end: of the relevant part, in seconds; None for the end of the video.
        frames: evenly spaced frames to sample.
    """

    path: str = Field(min_length=1)
    start: float = Field(default=0.0, ge=0)
    end: float | None = None
    frames: int = Field(default=8, ge=1, le=256)

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError(
                f"the video part ends at {self.end:g} s, not after its start at {self.start:g} s"
            )
        return self


Format = Literal["open", "choice", "grounding"]
Modality = Literal["text", "image", "multi-image", "video"]


class Item(Record):
    """A line of ``items.jsonl``, with its pictures once they are read."""

    id: str = Field(min_length=1)
    source: str = ""
    question: str = Field(min_length=1)
    format: Format = "open"
    answers: tuple[str, ...] = ()
    """Accepted forms of the correct answer, the first is shown; for a choice, its letter."""
    choices: dict[str, str] = Field(default_factory=dict)
    box: tuple[float, float, float, float] | None = None
    """For a grounding item: (y1, x1, y2, x2) in pixels of its picture."""
    images: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    pictures: tuple[ImageRef, ...] = Field(default=(), exclude=True)
    """Of ``images``; not in the file."""
    video: Video | None = None
    steps: tuple[Step, ...] = ()
    rubric: tuple[RubricItem, ...] = ()
    annotated_chain: str = ""
    """The whole reference chain, for the thinking length; by default the contents of the steps."""
    reviewed_by: str = ""
    """Who reviewed steps and rubric; "" for a draft."""
    too_complex: bool = False
    """An annotator could not judge it: systems are asked, but it is in no figure until it is reviewed."""
    licence: str = ""
    source_ref: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        ids = [s.id for s in self.steps]
        if ids != list(range(1, len(ids) + 1)):
            raise ValueError(f"the steps are numbered {ids}; number them 1, 2, 3 ...")
        for item in self.rubric:
            if item.base:
                raise ValueError(
                    "a rubric item has no subcategory; the three base items are added to every chain"
                )
            if lost := set(item.steps) - set(ids):
                raise ValueError(
                    f"a rubric item is linked to step {min(lost)}, which does not exist"
                )
        if self.format == "grounding":
            y1, x1, y2, x2 = self.box or (0, 0, 0, 0)
            if not (y1 < y2 and x1 < x2) or not self.images:
                raise ValueError(
                    "a grounding item needs a picture and a box (y1, x1, y2, x2) with y1 < y2 and x1 < x2"
                )
        elif not self.answers or not all(a.strip() for a in self.answers):
            raise ValueError("no right answer is given, or one is empty")
        if self.format == "choice" and len(self.choices) < 2:
            raise ValueError("a choice item needs at least two choices")
        if self.format == "choice" and self.answers[0] not in self.choices:
            raise ValueError(
                f"the right answer {self.answers[0]!r} is none of the letters {', '.join(self.choices)}"
            )
        return self

    @property
    def modality(self) -> Modality:
        """The kind of input."""
        if self.video is not None:
            return "video"
        return "text" if not self.images else "image" if len(self.images) == 1 else "multi-image"

    @property
    def spec(self) -> AnswerSpec:
        """What counts as right."""
        if self.format == "grounding" and self.box is not None:
            y1, x1, y2, x2 = self.box
            return AnswerSpec(kind="box", box=(x1, y1, x2, y2), tolerance=0.5, rule="suite")
        if self.format == "choice":
            return AnswerSpec(
                kind="choice",
                accepted=((self.answers[0],),),
                choices=tuple(self.choices.items()),
                rule="suite",
            )
        return AnswerSpec(accepted=tuple((a,) for a in self.answers), rule="suite")

    @property
    def full_rubric(self) -> tuple[RubricItem, ...]:
        """The base items, then its own."""
        return BASE + self.rubric

    @property
    def chain(self) -> str:
        """The annotated chain."""
        return self.annotated_chain or "\n".join(s.content for s in self.steps)


# --- reading and writing ---------------------------------------------------------------------------

_NAMES = {
    "step_id": "id",
    "step_type": "types",
    "type": "types",
    "step_description": "description",
    "step_content": "content",
    "step_necessity": "necessary",
    "necessity": "necessary",
    "criterion": "question",
    "score": "points",
    "sub_category": "subcategory",
    "step_ids": "steps",
    "linked_steps": "steps",
    "related_steps": "steps",
}
"""Other tools' names of fields of steps and rubric items -> ours."""
_NUMBERING = ("rubric_id", "rid")
BASE_REPEATED = "items whose file repeats the three base rubric items: counted once"


def read(path: Path, problems: Problems) -> Loaded[Item]:
    """Read items; a bad one, one whose id comes twice, or one whose picture cannot be read is a problem."""
    file = items_file(path, "mm_thebench")
    notes: Counter[str] = Counter()

    def made(place: str, row: dict[str, Any]) -> Item:
        item = Item.model_validate(plain_names(row, notes))
        pictures = images_beside(file, item.images)
        return item.model_copy(
            update={"pictures": pictures, "source_ref": item.source_ref or place}
        )

    items = items_by_id(file, problems, made)
    for item in items.values():
        notes.update(remarks(item))
    return Loaded(tuple(items.values()), folder_of(path), notes=notes)


def plain_names(row: Mapping[str, Any], notes: Counter[str]) -> dict[str, Any]:
    """A line with the field names of `Item` in place of other tools' (``step_type``, ``score`` ...)."""
    out = dict(row)
    for name in ("steps", "rubric"):
        if isinstance(row.get(name), list):
            out[name] = [
                {_NAMES.get(k, k): v for k, v in part.items() if k not in _NUMBERING}
                if isinstance(part, dict)
                else part
                for part in row[name]
            ]
    rubric = out.get("rubric")
    if isinstance(rubric, list) and all(isinstance(part, dict) for part in rubric):
        own = [part for part in rubric if part.get("subcategory")]
        others = [str(part.get("points")) for part in rubric if part not in own]
        if sorted(others) == [str(b.points) for b in BASE]:
            notes[BASE_REPEATED] += 1
            out["rubric"] = own
    return out


def remarks(item: Item) -> list[str]:
    """What an author may want to check; none of it excludes an item."""
    lines = []
    if not item.steps or not item.rubric:
        lines.append(
            "items without reference steps or a rubric: judged by their answer and the base items only"
        )
    if item.steps and not item.reviewed_by:
        lines.append("items whose steps and rubric nobody has reviewed yet")
    if item.too_complex:
        lines.append("items marked too complex: asked, and in no figure")
    if {s.id for s in item.steps if s.necessary} - {i for r in item.rubric for i in r.steps}:
        lines.append("items with a necessary step that no rubric item is about")
    return lines


def write_items(out: Path, items: Sequence[Item], root: Path) -> Path:
    """Write items and their pictures into a folder; returns it."""
    if root.resolve() != out.resolve():
        held = (uri for item in items for uri in item.images if not (out / uri).is_file())
        copy_images(held, root, out)
    write_records(out / "items.jsonl", items)
    return out
