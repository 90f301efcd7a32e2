"""The records of CertainlyUncertain: pairs of one question that a photo answers and one that it does not.

    from images    one question, two photos: in the second, what it asks about is gone          (extraneous)
    from captions  one photo, two questions that differ in whether it answers them              (any kind)

Members of a pair are never parted: a pair is right when both are. A pair from images may have a *control*: the photo
with something else removed, so that the same question is still answered. Read from ``pairs.jsonl`` (a line a pair), or
a folder that holds it. Source: CertainlyUncertain, section 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from demur.core.records import ImageRef, Record
from demur.core.store import Problems
from demur.core.taxonomy import Uncertainty
from demur.suites.base import image_beside, items_by_id, items_file

FILE = "pairs.jsonl"
IDK = "I don't know."
MEMBERS = ("answerable", "unanswerable", "control")
"""Last part of a question's id."""


class Pair(Record):
    """One pair; ``*_image`` are None where the set came without its photos.

    Attributes:
        id: unique in a set.
        category: why the second question cannot be answered.
        question: that the first photo answers.
        answer: to it.
        image: the first photo.
        idk_question: that cannot be answered; the same in pairs from images.
        idk_answer: a form of "I don't know", or what is missing.
        idk_image: what it is asked of; the same photo in pairs from captions.
        control_image: the photo with something else removed; of pairs from images.
        mask: of what was removed, white on black.
        route: how it was made: ``caption``, ``image``, ``scene-graph``, or another word.
        split: of the set, where it has some.
        provenance: source, object, writer, parameters.
    """

    id: str = Field(min_length=1)
    category: Uncertainty
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    image: ImageRef | None = None
    idk_question: str = Field(min_length=1)
    idk_answer: str = IDK
    idk_image: ImageRef | None = None
    control_image: ImageRef | None = None
    mask: ImageRef | None = None
    route: str = ""
    split: str = ""
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""
    source_ref: str = ""

    @model_validator(mode="after")
    def _contrasts(self) -> Self:
        if not self.answer.strip() or not self.question.strip() or not self.idk_question.strip():
            raise ValueError("a question or an answer is empty")
        same_photo = (self.image and self.image.sha256) == (self.idk_image and self.idk_image.sha256)
        if (
            same_photo
            and folded(self.question) == folded(self.idk_question)
            and self.route not in ("image", "scene-graph")
        ):
            raise ValueError("both members ask the same question of the same photo")
        if same_photo and self.image is not None and folded(self.question) == folded(self.idk_question):
            raise ValueError("both photos have the same bytes: nothing was removed")
        if not same_photo and folded(self.question) != folded(self.idk_question):
            raise ValueError("both the question and the photo differ: a pair differs in one of them")
        return self

    @property
    def from_images(self) -> bool:
        """Whether its members differ in their photo."""
        return folded(self.question) == folded(self.idk_question)

    def member(self, name: str) -> tuple[str, str, ImageRef | None]:
        """(question, right answer, photo) of a member."""
        if name == "unanswerable":
            return self.idk_question, self.idk_answer, self.idk_image
        return self.question, self.answer, self.image if name == "answerable" else self.control_image

    @property
    def members(self) -> tuple[str, ...]:
        """Members that it has: the control only with its photo."""
        return MEMBERS if self.control_image is not None else MEMBERS[:2]

    def question_id(self, member: str) -> str:
        """Id of a member: ``x-01/unanswerable``."""
        return f"{self.id}/{member}"


class PairLine(Record):
    """A line of ``pairs.jsonl``; image paths are relative to the file, what is left out is that of the first member."""

    id: str
    category: Uncertainty
    question: str
    answer: str
    image: str = ""
    idk_question: str = ""
    idk_answer: str = IDK
    idk_image: str = ""
    control_image: str = ""
    mask: str = ""
    route: str = ""
    split: str = ""
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""


class Read(NamedTuple):
    """What a file held, and harmless peculiarities with their number."""

    pairs: tuple[Pair, ...]
    notes: Counter[str]


def folded(text: str) -> str:
    """A question as it is compared: small letters, single spaces, no closing mark."""
    return " ".join(text.casefold().split()).rstrip(" ?.!")


def read(path: Path, problems: Problems) -> Read:
    """Read pairs; a bad line is a problem with its place, and is left out.

    Raises:
        UsageError: nothing of that kind is at ``path``.
    """
    file = items_file(path, "certainly_uncertain", FILE)
    pairs = items_by_id(file, problems, lambda place, row: _pair(PairLine.model_validate(row), file, place))
    bare = "pairs without their photos: outputs can be scored, nobody can be asked"
    return Read(tuple(pairs.values()), +Counter({bare: sum(p.image is None for p in pairs.values())}))


def _pair(line: PairLine, file: Path, place: str) -> Pair:
    def photo(name: str) -> ImageRef | None:
        return image_beside(file, name) if name else None

    image = photo(line.image)
    given = line.model_dump(exclude={"image", "idk_image", "control_image", "mask"})
    return Pair(**{
        **given, "idk_question": line.idk_question or line.question, "image": image,
        "idk_image": photo(line.idk_image) if line.idk_image else image,
        "control_image": photo(line.control_image), "mask": photo(line.mask), "source_ref": place,
    })  # fmt: skip


def line_of(pair: Pair) -> dict[str, Any]:
    """The line of a pair, its photos by the paths in their references."""
    line = pair.model_dump(mode="json", exclude={"source_ref"})
    for name in ("image", "idk_image", "control_image", "mask"):
        line[name] = line[name]["uri"] if line[name] else ""
    if line["idk_image"] == line["image"]:
        line["idk_image"] = ""
    if line["idk_question"] == line["question"]:
        line["idk_question"] = ""
    return {k: v for k, v in line.items() if v not in ("", {}, None)}


def statistics(pairs: Iterable[Pair]) -> Mapping[Uncertainty, dict[str, int]]:
    """Photos made, photos given and questions by category, like Table 1."""
    table = {c: {"pairs": 0, "questions": 0, "controls": 0, "made photos": 0, "photos": 0} for c in Uncertainty}
    made: dict[Uncertainty, set[str]] = {c: set() for c in Uncertainty}
    given: dict[Uncertainty, set[str]] = {c: set() for c in Uncertainty}
    for pair in pairs:
        row = table[pair.category]
        row["pairs"] += 1
        row["questions"] += 2
        row["controls"] += pair.control_image is not None
        if pair.image is not None:
            given[pair.category].add(pair.image.sha256)
        if pair.from_images and pair.idk_image is not None:
            made[pair.category].add(pair.idk_image.sha256)
    for category, row in table.items():
        row["made photos"], row["photos"] = len(made[category]), len(given[category])
    return table
