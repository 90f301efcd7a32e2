"""The records of MM-AQA: questions that can be answered, and twins of them that a known change made unanswerable.

A folder holds ``items.jsonl``, one `Item` a line, and the images that it names. The answerable item and its twins share
a ``pair``. Two subsets differ in what is changed: ``images`` (MMMU-like: a question and its pictures, thirteen
transformations by modality dependency) and ``documents`` (MMLongBench-like: a question and its evidence pages, nine by
evidence sufficiency). Source: "MM-AQA", section 4 and appendix D.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.records import AnswerSpec, ImageRef, Record
from demur.core.store import Problems, image_ref, read_uri, why_invalid
from demur.corpora.formats import inside, json_lines

Subset = Literal["images", "documents"]
NAMES: dict[Subset, str] = {"images": "A-MMMU", "documents": "A-MMLBD"}
"""Subset -> what the paper calls the one that it built."""


class Category(NamedTuple):
    """One of the eight families of transformations."""

    name: str
    subset: Subset


CATEGORIES = (
    Category("missing visual information", "images"),
    Category("occlusion ambiguity", "images"),
    Category("semantic unanswerability", "images"),
    Category("adversarial ambiguity", "images"),
    Category("evidence removal", "documents"),
    Category("evidence corruption", "documents"),
    Category("semantic contradiction", "documents"),
    Category("inferential impossibility", "documents"),
)
CATALOGUE: dict[str, tuple[str, str]] = {
    "aggressive-crop": ("M1", "missing visual information"),
    "multi-mask": ("M2", "missing visual information"),
    "overlay-label-mask": ("M3", "missing visual information"),
    "partial-occlusion": ("M4", "occlusion ambiguity"),
    "adaptive-darkness": ("M5", "occlusion ambiguity"),
    "blur-edge-mask": ("M6", "occlusion ambiguity"),
    "image-question-mismatch": ("M7", "semantic unanswerability"),
    "missing-context": ("M8", "semantic unanswerability"),
    "impossible-visual-task": ("M9", "semantic unanswerability"),
    "nonexistent-reference": ("M10", "semantic unanswerability"),
    "multiple-correct-answers": ("M11", "adversarial ambiguity"),
    "ambiguous-reference": ("M12", "adversarial ambiguity"),
    "contradictory-premise": ("M13", "adversarial ambiguity"),
    "remove-visual-element": ("D1", "evidence removal"),
    "blur-figure-region": ("D2", "evidence removal"),
    "hide-evidence-page": ("D3", "evidence removal"),
    "remove-numeric-token": ("D4", "evidence corruption"),
    "corrupt-numeric-token": ("D5", "evidence corruption"),
    "column-merge": ("D6", "evidence corruption"),
    "contradictory-caption": ("D7", "semantic contradiction"),
    "distractor-rows": ("D8", "inferential impossibility"),
    "temporal-drift": ("D9", "inferential impossibility"),
}
"""Transformation -> (number in the paper, category as its appendix D.2 has it)."""
APPENDIX_B = {"distractor-rows": "evidence corruption", "remove-numeric-token": "evidence removal"}
"""Where the paper's appendix B counts a transformation elsewhere."""
Grouping = Literal["catalogue", "appendix-b"]


def category_of(transform: str, grouping: str = "catalogue") -> str:
    """The category of a transformation under one of the paper's two groupings; "" of a stranger's."""
    if grouping == "appendix-b" and transform in APPENDIX_B:
        return APPENDIX_B[transform]
    return CATALOGUE.get(transform, ("", ""))[1]


class Item(Record):
    """One question: answerable as its source has it, or a twin that a transformation made unanswerable.

    Attributes:
        id: unique in a set.
        pair: id of the answerable item that it is, or was made from.
        subset: what kind of evidence its images are.
        question: as it is asked.
        images: pictures of the question, or evidence pages in their order, as they are shown.
        answers: what is right, of a twin what was right before.
        transform: of a twin, the transformation's name; "" of an answerable item.
        params: how that was done: seed, strength, what was measured.
        explanation: why this transformation was chosen, and what verification said.
    """

    id: str = Field(min_length=1)
    pair: str = Field(min_length=1)
    subset: Subset
    question: str = Field(min_length=1)
    answers: AnswerSpec
    images: tuple[ImageRef, ...] = ()
    transform: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    explanation: tuple[str, ...] = ()
    topic: str = ""
    licence: str = ""
    source_ref: str = ""

    @property
    def answerable(self) -> bool:
        """Whether it is the source's own question."""
        return not self.transform

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.question.strip():
            raise ValueError("the question is empty")
        if self.answerable and self.pair != self.id:
            raise ValueError(f"names no transform, so it is answerable, but its pair is {self.pair!r}")
        if not self.answerable and self.pair == self.id:
            raise ValueError(f"is made by {self.transform!r}, but its pair is itself: name the item it was made from")
        return self


class Items(NamedTuple):
    """What a file held: its items, and harmless peculiarities with how often they were met."""

    items: tuple[Item, ...]
    notes: Counter[str]


def file_of(path: Path) -> Path:
    """``items.jsonl`` of a folder, or the file itself.

    Raises:
        UsageError: there is none.
    """
    file = path / "items.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError("there is no items.jsonl", item=str(path), cure="make one: demur suite build mm_aqa --out DIR")
    return file


def read(path: Path, problems: Problems) -> Items:
    """Items of a file or folder; images are looked at, and must be those that were filed."""
    file = file_of(path)
    items: dict[str, Item] = {}
    notes: Counter[str] = Counter()
    for place, row in json_lines(file, problems):
        where = f"{place} ({row.get('id', 'no id')})"
        try:
            item = Item.model_validate({**row, "source_ref": place})
        except ValidationError as error:
            problems.add(where, why_invalid(error))
            continue
        if item.id in items:
            problems.add(where, f"this id stands in {items[item.id].source_ref} too; the first is kept")
        elif (category := category_of(item.transform)) and dict(CATEGORIES)[category] != item.subset:
            problems.add(where, f"{item.transform} is no transformation of {item.subset}")
        elif not (why := _lost(item, file.parent)):
            items[item.id] = item
        else:
            problems.add(where, why)
    for item in items.values():
        if item.pair not in items:
            notes["twins without their answerable item: counted among the unanswerable alone"] += 1
        if item.transform and item.transform not in CATALOGUE:
            notes["transformations that are not among the 22: in no category"] += 1
    return Items(tuple(items.values()), notes)


def _lost(item: Item, root: Path) -> str:
    """What is wrong with an item's images; "" where all are as they were filed."""
    for ref in item.images:
        try:
            found = image_ref(read_uri(inside(root, ref.uri).relative_to(root).as_posix(), root), ref.uri)
        except (DataError, StorageError, ValueError) as error:
            return f"image {ref.uri!r}: {error}"
        if found.sha256 != ref.sha256:
            return f"image {ref.uri!r} has other bytes than were filed: build the set again"
    return ""
