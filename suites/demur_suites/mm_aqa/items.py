"""The records of MM-AQA: questions that can be answered, and twins of them that a known change made unanswerable.

A folder holds ``items.jsonl``, one `Item` a line, and the images that it names. The answerable item and its twins share
a ``pair``. Two subsets differ in what is changed: ``images`` (MMMU-like: a question and its pictures, thirteen
transformations by modality dependency) and ``documents`` (MMLongBench-like: a question and its evidence pages, nine by
evidence sufficiency). Source: "MM-AQA", section 4 and appendix D.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from demur.core.records import AnswerSpec, ImageRef, Record
from demur.core.store import Problems
from demur_suites.files import folder_of, image_beside, items_by_id, items_file
from demur_suites.records import Loaded

Subset = Literal["images", "documents"]
NAMES: dict[Subset, str] = {"images": "A-MMMU", "documents": "A-MMLBD"}
"""Subset -> what the paper calls the one that it built."""


CATEGORIES: dict[str, Subset] = {
    "missing visual information": "images",
    "occlusion ambiguity": "images",
    "semantic unanswerability": "images",
    "adversarial ambiguity": "images",
    "evidence removal": "documents",
    "evidence corruption": "documents",
    "semantic contradiction": "documents",
    "inferential impossibility": "documents",
}
"""The eight families of transformations -> the subset that each changes."""
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
        subset: the kind of evidence: images or documents.
        question: its words.
        images: pictures of the question, or evidence pages, in their order.
        answers: the right answer; of a twin the one before the change.
        transform: the transformation of a twin; "" of an answerable item.
        checked_by: who called a twin unanswerable, the panel or people; "" of one that is unchecked.
        params: of the transformation: seed, strength, measurements.
        explanation: why this transformation was chosen, and the result of verification.
    """

    id: str = Field(min_length=1)
    pair: str = Field(min_length=1)
    subset: Subset
    question: str = Field(min_length=1)
    answers: AnswerSpec
    images: tuple[ImageRef, ...] = ()
    transform: str = ""
    checked_by: Literal["panel", "people", ""] = ""
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
            raise ValueError(
                f"names no transform, so it is answerable, but its pair is {self.pair!r}"
            )
        if not self.answerable and self.pair == self.id:
            raise ValueError(
                f"is made by {self.transform!r}, but its pair is itself: name the item it was made from"
            )
        return self


def read(path: Path, problems: Problems) -> Loaded[Item]:
    """Items of a file or folder; their images must have the recorded bytes."""
    file = items_file(path, "mm_aqa")

    def made(place: str, row: dict[str, Any]) -> Item:
        item = Item.model_validate({**row, "source_ref": place})
        if (category := category_of(item.transform)) and CATEGORIES[category] != item.subset:
            raise ValueError(f"{item.transform} is no transformation of {item.subset}")
        for ref in item.images:
            image_beside(file, ref.uri, ref.sha256)
        return item

    items = items_by_id(file, problems, made)
    notes: Counter[str] = Counter()
    for item in items.values():
        if item.pair not in items:
            notes["twins without their answerable item: counted only among the unanswerable"] += 1
        if item.transform and not item.checked_by:
            notes["unchecked twins: neither a panel nor people called them unanswerable"] += 1
        if item.transform and item.transform not in CATALOGUE:
            notes["transformations that are not among the 22: in no category"] += 1
    return Loaded(tuple(items.values()), folder_of(path), notes=notes)
