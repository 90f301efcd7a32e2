"""The 22 transformations: a question and its images in, the same without its answer out.

Each is a function ``(original) -> Altered`` of `pictures`, `pages` or `questions` under `transformation`, which says what it
changes and what an item must have. Equal seeds give equal bytes. What a transformation guarantees is measured on its
result, in `Altered.measured`. Where it cannot do that to an item it raises `Infeasible`, and the build takes the next in
its ranking.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from demur.core.errors import DataError, UnknownPart
from demur.core.records import AnswerSpec
from demur_suites.mm_aqa.items import CATALOGUE

if TYPE_CHECKING:
    from PIL.Image import Image

Need = Literal["image", "pages", "page", "numbers", "table", "dates", "model", "answer", "others"]
"""image: a picture. page, pages: one evidence page, or two. numbers, table: legible on a page. dates: named.
model: that rewrites. answer: the right one. others: other questions of the set."""


class Infeasible(DataError):
    """This transformation cannot change this item; the message says why."""


class Word(NamedTuple):
    """A word of a page and where it stands, in pixels (x0, y0, x1, y1)."""

    text: str
    box: tuple[int, int, int, int]


@dataclass
class Original:
    """The input of a transformation.

    Attributes:
        question: its words.
        images: RGB.
        answers: the right answer.
        seed: of random choices.
        strength: 1 as in the paper; retries raise it.
        words: reads the words of an image.
        rewrite: asks a model for another question, by the name of a prompt; None without a model.
        others: (question, answer) of other items, to borrow from.
        limit: greatest length of a rewritten question, over the length of the question.
        similar: cosine of two questions' embeddings; None to compare their words.
    """

    question: str
    images: tuple[Image, ...]
    answers: AnswerSpec
    seed: int = 0
    strength: float = 1.0
    words: Callable[[Image], list[Word]] = lambda image: []
    rewrite: Callable[[str, dict[str, str]], str] | None = None
    others: tuple[tuple[str, str], ...] = ()
    limit: float = 1.2
    similar: Callable[[str, str], float] | None = None
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    @property
    def accepted(self) -> tuple[str, ...]:
        """The right answer's forms; of a choice its text."""
        return accepted(self.answers)

    def in_answer(self, word: Word) -> bool:
        """Whether a word is a word of the right answer."""
        answer = {part.casefold() for form in self.accepted for part in form.split()}
        return word.text.strip(".,:;()").casefold() in answer

    def answer_words(self, image: Image) -> list[Word]:
        """Words of an image that are words of the right answer."""
        return [w for w in self.words(image) if self.in_answer(w)]


def accepted(answers: AnswerSpec) -> tuple[str, ...]:
    """A right answer's forms; of a choice its text."""
    if answers.kind == "choice":
        right = {form[0] for form in answers.accepted}
        return tuple(text for label, text in answers.choices if label in right)
    return tuple(part for form in answers.accepted for part in form)


class Altered(NamedTuple):
    """The result of a transformation: question, images, and measurements on them."""

    question: str
    images: tuple[Image, ...]
    measured: dict[str, Any]


class Transform(NamedTuple):
    """What a transformation needs and changes, and how it is made: the item without its answer, or `Infeasible`."""

    needs: frozenset[Need]
    changes: Literal["image", "question"]
    apply: Callable[[Original], Altered]


TRANSFORMS: dict[str, Transform] = {}
"""By name, those of the modules that have been imported."""


def transformation(
    changes: Literal["image", "question"], *needs: Need, name: str = ""
) -> Callable[[Callable[[Original], Altered]], Callable[[Original], Altered]]:
    """Makes a function a transformation, by its own name (aggressive_crop -> aggressive-crop) or another."""

    def put(apply: Callable[[Original], Altered]) -> Callable[[Original], Altered]:
        TRANSFORMS[name or apply.__name__.replace("_", "-")] = Transform(
            frozenset(needs), changes, apply
        )
        return apply

    return put


def transform(name: str) -> Transform:
    """The transformation of a name.

    Raises:
        UnknownPart: there is none; the error lists those that exist.
    """
    if name not in CATALOGUE:
        raise UnknownPart(
            "transformation", name, tuple(CATALOGUE), hint="see suites/docs/mm_aqa.md"
        )
    for module in ("pictures", "pages", "questions"):
        import_module(f"{__name__}.{module}")
    return TRANSFORMS[name]
