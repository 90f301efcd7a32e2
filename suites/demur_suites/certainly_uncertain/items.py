"""The records of CertainlyUncertain: pairs of one question that a photo answers and one that it does not.

    from images    one question, two photos: in the second, what it asks about is gone          (extraneous)
    from captions  one photo, two questions that differ in whether it answers them              (any kind)

Members of a pair stay together: a pair is right when both are. A pair from images may have a *control*: the photo
with something else removed, so that the question still has its answer. An item of a published set whose partner cannot
be told is a pair with one member. Read from ``pairs.jsonl`` (one pair a line), from a folder that holds it, or from the
published rows (`hub_rows`). Why a question cannot be answered is one of five kinds under two roots; the paper defines
*extraneous* in three ways, we use the one that its data follow: the subject of the question cannot be seen. Source:
CertainlyUncertain, section 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from demur.core.records import AnswerSpec, ImageRef, Record, Sample
from demur.core.store import Problems
from demur_suites.files import folder_of, images_beside, items_by_id, items_file
from demur_suites.records import Loaded


class Root(StrEnum):
    """Whether more knowledge would help."""

    EPISTEMIC = "epistemic"
    """It would: the answerer does not know, or cannot see, something."""
    ALEATORIC = "aleatoric"
    """It would not: the question itself is open."""


class Uncertainty(StrEnum):
    """The five kinds."""

    KNOWLEDGE = "knowledge"
    COMPLEXITY = "complexity"
    EXTRANEOUS = "extraneous"
    TEMPORAL = "temporal"
    AMBIGUITY = "ambiguity"

    @classmethod
    def _missing_(cls, value: object) -> Uncertainty | None:
        return {"complex": cls.COMPLEXITY, "ambiguous": cls.AMBIGUITY}.get(
            str(value).strip().lower()
        )


class Meaning(NamedTuple):
    """A kind's root and what it means."""

    root: Root
    text: str


MEANING = {
    Uncertainty.KNOWLEDGE: Meaning(Root.EPISTEMIC, "needs facts that the picture does not hold"),
    Uncertainty.COMPLEXITY: Meaning(
        Root.EPISTEMIC, "could be worked out in principle, but is too much to work out"
    ),
    Uncertainty.EXTRANEOUS: Meaning(
        Root.EPISTEMIC, "asks about something that cannot be seen in the picture"
    ),
    Uncertainty.TEMPORAL: Meaning(
        Root.ALEATORIC, "asks what happened before or will happen after the picture"
    ),
    Uncertainty.AMBIGUITY: Meaning(
        Root.ALEATORIC, "can be understood in several ways, with several answers"
    ),
}


FILE = "pairs.jsonl"
IDK = "I don't know."
MEMBERS = ("answerable", "unanswerable", "control")
"""Last part of a question's id."""
PHOTOS = ("image", "idk_image", "control_image", "mask")
"""Fields of a pair that are images."""


class Pair(Record):
    """One pair, or a single item whose other member is unknown: its texts are then empty.

    ``*_image`` are None where the set came without its photos.

    Attributes:
        id: unique in a set.
        category: why the second question cannot be answered.
        question: the question that the first photo answers.
        answer: its answer.
        image: the first photo.
        idk_question: the question that cannot be answered; the same one in pairs from images.
        idk_answer: a form of "I don't know", or what is missing.
        idk_image: the photo of the unanswerable question; the same one in pairs from captions.
        control_image: the photo with something else removed; of pairs from images.
        mask: where the thing was removed, white on black.
        route: how the pair was made: ``caption``, ``image``, ``scene-graph``, or another word.
        split: of the set, where it has splits.
        provenance: source, object, writer, parameters.
    """

    id: str = Field(min_length=1)
    category: Uncertainty
    question: str = ""
    answer: str = ""
    image: ImageRef | None = None
    idk_question: str = ""
    idk_answer: str = IDK
    idk_image: ImageRef | None = None
    control_image: ImageRef | None = None
    mask: ImageRef | None = None
    route: str = ""
    split: str = ""
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""
    source_ref: str = ""

    @field_validator("idk_answer")
    @classmethod
    def _declines(cls, text: str) -> str:
        return text.strip() or IDK

    @model_validator(mode="after")
    def _contrasts(self) -> Self:
        if not self.question.strip() and not self.idk_question.strip():
            raise ValueError("it has no question")
        if bool(self.question.strip()) != bool(self.answer.strip()):
            raise ValueError("a question or an answer is empty")
        if not self.whole:
            return self
        same_photo = (self.image and self.image.sha256) == (
            self.idk_image and self.idk_image.sha256
        )
        if not same_photo and not self.from_images:
            raise ValueError(
                "both the question and the photo differ: a pair differs in one of them"
            )
        if same_photo and self.from_images:
            if self.route not in ("image", "scene-graph"):
                raise ValueError("both members ask the same question of the same photo")
            if self.image is not None:
                raise ValueError("both photos have the same bytes: nothing was removed")
        return self

    @property
    def whole(self) -> bool:
        """Whether it has both members."""
        return bool(self.question.strip() and self.idk_question.strip())

    @property
    def from_images(self) -> bool:
        """Whether its members differ in their photo."""
        return self.whole and folded(self.question) == folded(self.idk_question)

    @property
    def filled_offline(self) -> bool:
        """Whether the hole was filled without a model: somebody may see that, and answer by it."""
        return self.provenance.get("fill") == "opencv"

    def member(self, name: str) -> tuple[str, str, ImageRef | None]:
        """(question, right answer, photo) of a member."""
        if name == "unanswerable":
            return self.idk_question, self.idk_answer, self.idk_image
        return (
            self.question,
            self.answer,
            self.image if name == "answerable" else self.control_image,
        )

    @property
    def members(self) -> tuple[str, ...]:
        """Names of its members: the control only with its photo."""
        there = (self.question, self.idk_question, self.control_image)
        return tuple(name for name, value in zip(MEMBERS, there, strict=True) if value)

    def question_id(self, member: str) -> str:
        """Id of a member: ``x-01/unanswerable``."""
        return f"{self.id}/{member}"


def folded(text: str) -> str:
    """A question for comparison: lower case, single spaces, no closing mark."""
    return " ".join(text.casefold().split()).rstrip(" ?.!")


def questions(pairs: Iterable[Pair]) -> Iterator[Sample]:
    """The question of each member; the pair is their cluster."""
    for pair in pairs:
        for member in pair.members:
            question, answer, image = pair.member(member)
            yield Sample(
                id=pair.question_id(member),
                source="certainly_uncertain",
                question=question,
                answers=AnswerSpec(accepted=((answer,),), rule="suite"),
                images=(image,) if image is not None else (),
                answerable=member != "unanswerable",
                topic=pair.category.value,
                cluster=pair.id,
                licence=pair.licence,
                source_ref=pair.source_ref,
            )


def read(path: Path, problems: Problems) -> Loaded[Pair]:
    """Read pairs; a bad line is a problem with its place, and is left out.

    Raises:
        UsageError: there is no ``pairs.jsonl`` at ``path``.
    """
    file = items_file(path, "certainly_uncertain", FILE)
    pairs = items_by_id(file, problems, lambda place, row: _pair(row, file, place))
    return loaded(pairs, path, problems)


def loaded(pairs: dict[str, Pair], path: Path, problems: Problems) -> Loaded[Pair]:
    """Pairs by id as a suite takes them, with what is peculiar about them."""
    _drop_twins(pairs, problems)
    bare = "pairs without their photos: outputs can be scored, no system can be asked"
    single = "single items whose partner is not told: in no figure of pairs"
    offline = (
        "pairs whose photos were filled offline: the filling can be seen, and may be answered by"
    )
    notes = +Counter(
        {
            offline: sum(p.filled_offline for p in pairs.values()),
            bare: sum(p.image is None and p.idk_image is None for p in pairs.values()),
            single: sum(not p.whole for p in pairs.values()),
        }
    )
    return Loaded(tuple(pairs.values()), folder_of(path), notes=notes)


def _drop_twins(pairs: dict[str, Pair], problems: Problems) -> None:
    """Make a problem of a pair that stands there under another id or category already."""
    first: dict[tuple[str, ...], str] = {}
    for pair in list(pairs.values()):
        photos = [photo.sha256 for photo in (pair.image, pair.idk_image) if photo is not None]
        key = (folded(pair.question), folded(pair.idk_question), *photos)
        if photos and first.setdefault(key, pair.id) != pair.id:
            del pairs[pair.id]
            problems.add(
                f"{pair.source_ref} ({pair.id})",
                f"is the pair {first[key]} under another id; the first is kept",
            )


def _pair(row: Mapping[str, Any], file: Path, place: str) -> Pair:
    """The pair of a line: image paths are relative to the file; a missing ``idk_*`` is the first member's."""
    uris = [row.get(name) or "" for name in PHOTOS]
    if not all(isinstance(uri, str) for uri in uris):
        raise ValueError(f"{', '.join(PHOTOS)} are paths, as text")
    photos = dict(zip(PHOTOS, images_beside(file, uris), strict=True))
    return Pair.model_validate(
        {
            **row,
            **photos,
            "idk_image": photos["idk_image"] or photos["image"],
            "question": row.get("question") or "",
            "idk_question": row.get("idk_question") or row.get("question"),
            "source_ref": place,
        }
    )


def line_of(pair: Pair) -> dict[str, Any]:
    """The line of a pair, its photos by the paths in their references."""
    line = pair.model_dump(mode="json", exclude={"source_ref"})
    for name in PHOTOS:
        line[name] = line[name]["uri"] if line[name] else ""
    if line["idk_image"] == line["image"]:
        line["idk_image"] = ""
    if line["idk_question"] == line["question"]:
        line["idk_question"] = ""
    return {k: v for k, v in line.items() if v not in ("", {}, None)}
