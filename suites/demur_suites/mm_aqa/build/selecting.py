"""Which transformation an item gets: features, penalties, thresholds, the least used category first; with reasons.

    score = fit of the category and of the features, 0 to 1
    hard violation   -95 %   an image transformation where the picture decorates, drift without a date, no table ...
    soft violation   -30 %   possible, and not the best for this question

Those above 0.4 are eligible; above 0.25 if none is. Among them the category that was used least comes first, then the
score. Source: appendices C and E.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from demur_suites.mm_aqa.build.routing import Dependency, Kind
from demur_suites.mm_aqa.build.transforms import transform
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, Subset, category_of

HARD, SOFT, ELIGIBLE, RELAXED = 0.95, 0.30, 0.4, 0.25
SEEN = ("blur-figure-region", "remove-visual-element")
"""Transformations of documents that remove something visible."""
PREFERRED: dict[str, tuple[Kind, ...]] = {
    "evidence removal": ("extractive", "comparative"),
    "evidence corruption": ("aggregation", "counting"),
    "inferential impossibility": ("temporal",),
    "semantic contradiction": ("descriptive", "visual"),
}


@dataclass(frozen=True)
class Features:
    """Features of an item.

    Attributes:
        dependency: of a question about images.
        kind: of a question about documents, the first by priority.
        kinds: all that its words suggest.
        images: pictures or evidence pages; of several, the question may go across pages.
        tables: legible on the pages.
        figures: pages with one.
        numbers: on the pages.
        quantitative: the answer is a number.
        visual: words of the question for something seen (`demur_suites.mm_aqa.build.routing.visual_words`).
        complexity: words of the question over 40, at most 1.
        dated: the question names a year; with a model that rewrites, any time.
        has_model: whether a model rewrites.
        others: other questions of the set.
    """

    subset: Subset
    dependency: Dependency | None = None
    kind: Kind | None = None
    kinds: tuple[Kind, ...] = ()
    images: int = 0
    tables: int = 0
    figures: int = 0
    numbers: int = 0
    quantitative: bool = False
    visual: float = 0.0
    complexity: float = 0.0
    dated: bool = False
    has_model: bool = False
    others: int = 0


class Choice(NamedTuple):
    """A transformation with its score, and why."""

    name: str
    score: float
    why: tuple[str, ...]


def rate(name: str, f: Features) -> Choice:
    """The score of one transformation for an item."""
    needs, changes, _ = transform(name)
    category = category_of(name)
    fit = 0.75
    why: list[str] = []
    if ((f.subset == "images" and changes == "image") or name in SEEN) and f.visual >= 1:
        fit, why = fit + 0.15, [*why, "the question is about something seen"]
    if name in ("remove-numeric-token", "corrupt-numeric-token") and f.quantitative:
        fit, why = fit + 0.15, [*why, "a number is asked for"]
    if name in ("column-merge", "distractor-rows") and f.tables:
        fit, why = fit + 0.1, [*why, f"{f.tables} table(s)"]
    if name == "hide-evidence-page" and f.images > 1:
        fit, why = fit + 0.1, [*why, f"{f.images} evidence pages"]
    if changes == "question":
        fit += 0.05 * f.complexity
    hard = [
        says
        for broken, says in (
            (not f.images and changes == "image", "no image"),
            ("model" in needs and not f.has_model, "no model to rewrite"),
            ("others" in needs and not (f.others or f.has_model), "no other question to borrow"),
            ("table" in needs and not f.tables, "no table"),
            ("numbers" in needs and not f.numbers, "no number on the pages"),
            ("pages" in needs and f.images < 2, "one page"),
            ("dates" in needs and not f.dated, "no date in the question"),
            (
                changes == "image" and f.dependency and not f.dependency.on_image,
                f"the picture is {f.dependency}",
            ),
        )
        if broken
    ]
    soft = []
    if name == "blur-figure-region" and not f.figures:
        soft.append("no figure: whole pages would be blurred")
    if changes == "question" and f.dependency and f.dependency.on_image:
        soft.append(f"the picture is {f.dependency}, the question would change")
    suits = PREFERRED.get(category, ())
    if suits and not {f.kind, *f.kinds} & {*suits}:
        soft.append(f"{category} suits {' and '.join(suits)} questions, this is {f.kind}")
    score = min(fit, 1.0) * (1 - HARD) ** bool(hard) * (1 - SOFT) ** len(soft)
    return Choice(name, score, (*why, *(f"hard: {h}" for h in hard), *(f"soft: {s}" for s in soft)))


class Selected(NamedTuple):
    """Transformations to try in their order, the reasons in lines, and all that were rated."""

    order: tuple[Choice, ...]
    reasons: tuple[str, ...]
    rated: tuple[Choice, ...]

    @property
    def all(self) -> tuple[Choice, ...]:
        """All that were rated, those to try first."""
        return (*self.order, *(c for c in self.rated if c not in self.order))

    def choice(self, name: str) -> Choice | None:
        """The eligible choice of a name."""
        return next((c for c in self.order if c.name == name), None)


def select(f: Features, made: Sequence[str]) -> Selected:
    """Rank the transformations of an item's subset.

    Args:
        f: its features.
        made: transformations of the twins so far: the least used category comes first, and within it the least used
            transformation.
    """
    by_name, by_category = Counter(made), Counter(map(category_of, made))
    rated = [rate(n, f) for n in CATALOGUE if CATEGORIES[category_of(n)] == f.subset]
    least = ELIGIBLE if any(c.score > ELIGIBLE for c in rated) else RELAXED
    eligible = [c for c in rated if c.score > least]
    order = sorted(
        eligible, key=lambda c: (by_category[category_of(c.name)], by_name[c.name], -c.score)
    )
    reasons = [f"dependency {f.dependency}" if f.dependency else f"kind {f.kind}"]
    reasons.append(f"{len(eligible)} of {len(rated)} eligible above {least}")
    if order:
        top, category = order[0], category_of(order[0].name)
        reasons.append(
            f"{top.name} first: {category} used {by_category[category]} times, score {top.score:.2f}"
        )
        reasons += top.why
    return Selected(tuple(order), tuple(reasons), tuple(rated))
