"""Questions, as ``plan.tsv`` lists them.

Which fact is asked of which country, and how it is shown, was drawn once so that kinds and styles come out balanced.
The plan keeps that draw: an id stays with its question however the wording, the answers or the passages are mended.
A line is an id and, for a question about colours, what it is about. Ids speak: ``q-it`` flag to passage, ``q-mt``
outline to passage, ``q-tt`` text to passage, ``q-ti`` text to flag, ``q-ii`` outline to flag, ``q-pi`` photo to photo,
``q-pt`` photo to passage, ``q-pw``, ``q-an`` and ``q-pl`` photo to a gloss.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.atlas.entities import Entity, norm
from tools.atlas.facts import Fact
from tools.atlas.flags import AMBIGUOUS, QUERY_LICENCE, VisualFact
from tools.atlas.maps import LICENCE as MAP_LICENCE
from tools.atlas.passages import Passage

LICENCE = "Apache-2.0"
"""Of the questions and captions: the project's own."""

_FLAG = (
    "the country with this flag",
    "the country represented by this flag",
    "the country whose flag is shown",
)
_OUTLINE = ("the country whose outline is shown", "the country in this outline map")
_LANDMARK = ("the country where the landmark in this photo stands",)
_STYLES = {
    "it": "image->text",
    "mt": "image->text",
    "tt": "text->text",
    "ti": "text->image",
    "ii": "image->image",
    "pt": "image->image+text",
}


def plan() -> list[tuple[str, str]]:
    """(id, what it is about) of every question that is asked, in order."""
    text = Path(__file__).with_name("plan.tsv").read_text(encoding="utf-8")
    rows = [line.partition("\t") for line in text.splitlines() if line]
    return [(name, subject) for name, _, subject in rows]


@dataclass
class Asked:
    """A row of ``questions.jsonl`` in the making."""

    id: str
    style: str
    kind: str
    question: str
    query_image: str | None
    answers: tuple[str, ...]
    entity: str
    gold_text: list[str] = field(default_factory=list)
    gold_images: list[str] = field(default_factory=list)
    support: str = ""
    number: tuple[float, float] | None = None
    unit: str = ""
    date: bool = False
    image_licence: str = ""
    ambiguous_with: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The row as it is written; optional fields are left out when empty."""
        answers = [
            answer
            for answer in self.answers
            if norm(answer) not in norm(self.question) or answer == self.answers[0]
        ]
        row: dict[str, Any] = {
            "id": self.id,
            "style": self.style,
            "kind": self.kind,
            "question": self.question,
            "query_image": self.query_image,
            "answers": answers,
            "answer_kind": "number" if self.number else "date" if self.date else "string",
            "gold_text": self.gold_text,
            "gold_images": self.gold_images,
            "support": self.support,
            "entity": self.entity,
            "licence": LICENCE
            + (f" (question); {self.image_licence} (query image)" if self.query_image else ""),
        }
        if self.number:
            row |= {"number": list(self.number), "unit": self.unit}
        if self.ambiguous_with:
            row["ambiguous_with"] = self.ambiguous_with
        return row


@dataclass(frozen=True)
class Country:
    """An entity with everything that can be asked of it."""

    entity: Entity
    passages: dict[str, Passage]
    facts: dict[str, Fact]
    visual: dict[tuple[str, str], VisualFact]
    has_query_flag: bool
    has_outline: bool


@dataclass(frozen=True)
class Thing:
    """A photographed thing: its row of ``photos.json``, its caption, and the licence of its query photo."""

    row: dict[str, Any]
    caption: str
    licence: str
    group: str
    """landmarks, animals, fish or planets."""


def ask(
    countries: dict[str, Country], things: dict[str, Thing]
) -> tuple[list[Asked], Counter[str]]:
    """The questions of the plan that can be asked, in its order, and how many could not, by reason."""
    asked: list[Asked] = []
    lost: Counter[str] = Counter()
    of_photos = {
        question.id: question for thing in things.values() for question in _photo_questions(thing)
    }
    for name, subject in plan():
        made = of_photos.get(name) or _planned(name, subject, countries, things)
        if isinstance(made, str):
            lost[made] += 1
        elif norm(made.answers[0]) in norm(made.question):
            lost["the question tells the answer"] += 1
        else:
            asked.append(made)
    return asked, lost


def _planned(
    name: str, subject: str, countries: dict[str, Country], things: dict[str, Thing]
) -> Asked | str:
    """The question of that id, or why it cannot be asked."""
    _, form, rest = name.split("-", 2)
    kind = rest.rsplit("-", 1)[1]
    if form in ("pi", "pw", "an", "pl"):
        return f"{kind if form == 'pi' else form}: not in photos.json"
    if form == "pt":
        thing = things[rest.rsplit("-", 1)[0]]
        country = countries[thing.row["country"]]
        return _of_photo(name, kind, thing, country)
    country = countries[rest[:2]]
    if form in ("ti", "ii"):
        return _of_flag(name, kind, subject, form, country)
    fact = country.facts.get(kind)
    iso = country.entity.iso
    if not fact:
        return f"{kind}: the profile has no such fact"
    image, who, licence = {
        "it": (f"queries/flags/{iso}.jpg", _FLAG, QUERY_LICENCE),
        "mt": (f"queries/maps/{iso}.png", _OUTLINE, MAP_LICENCE),
        "tt": (None, (country.entity.in_sentence,), ""),
    }[form]
    if (form == "it" and not country.has_query_flag) or (form == "mt" and not country.has_outline):
        return f"{form}: no query image"
    question = (
        fact.question.replace("the flag of {X}", "this flag") if form == "it" else fact.question
    )
    return Asked(
        id=name,
        style=_STYLES[form],
        kind=kind,
        question=question.replace("{X}", _one_of(name, who)),
        query_image=image,
        answers=fact.answers,
        entity=iso,
        gold_text=[country.passages[fact.section].id],
        number=fact.number,
        unit=fact.unit,
        date=fact.date,
        image_licence=licence,
        ambiguous_with=AMBIGUOUS.get(iso, []) if form == "it" else [],
    )


def _of_flag(name: str, kind: str, subject: str, form: str, country: Country) -> Asked | str:
    """A question about the colours of a flag, which is named or whose country's outline is shown."""
    fact = country.visual.get((kind, subject))
    iso = country.entity.iso
    if not fact:
        return f"{kind}: not asked, or not seen on the flag"
    if form == "ii" and not country.has_outline:
        return f"{form}: no query image"
    flag = country.entity.in_sentence if form == "ti" else "the country whose outline is shown"
    return Asked(
        id=name,
        style=_STYLES[form],
        kind=kind,
        question=fact.question.replace("{F}", f"the flag of {flag}"),
        query_image=f"queries/maps/{iso}.png" if form == "ii" else None,
        answers=fact.answers,
        entity=iso,
        gold_images=[f"i-flag-{iso}"] if form == "ti" else [f"i-map-{iso}", f"i-flag-{iso}"],
        support=country.entity.profile.flag()["description"],
        image_licence=MAP_LICENCE if form == "ii" else "",
    )


def _of_photo(name: str, kind: str, thing: Thing, country: Country) -> Asked | str:
    """A question about the country in which a photographed landmark stands."""
    fact = country.facts.get(kind)
    if not fact:
        return f"{kind}: the profile has no such fact"
    key = thing.row["key"]
    return Asked(
        id=name,
        style=_STYLES["pt"],
        kind=kind,
        question=fact.question.replace("{X}", _one_of(name, _LANDMARK)),
        query_image=f"queries/photos/{key}.jpg",
        answers=fact.answers,
        entity=key,
        gold_text=[country.passages[fact.section].id],
        gold_images=[f"i-photo-{key}"],
        support=thing.caption,
        number=fact.number,
        unit=fact.unit,
        date=fact.date,
        image_licence=thing.licence,
    )


def _photo_questions(thing: Thing) -> list[Asked]:
    """What ``photos.json`` asks of a thing itself: its name, its place, and what its gloss tells."""
    row, key = thing.row, thing.row["key"]
    asked: list[Asked] = []

    def photo(suffix: str, kind: str, question: str, answers: list[str]) -> None:
        asked.append(
            Asked(
                id=f"q-pi-{key}-{suffix}",
                style="image->image",
                kind=kind,
                question=question,
                query_image=f"queries/photos/{key}.jpg",
                answers=tuple(answers),
                entity=key,
                gold_images=[f"i-photo-{key}"],
                support=thing.caption,
                image_licence=thing.licence,
            )
        )

    if thing.group == "landmarks":
        where = {"us": "In which city or state is the landmark", "kp": "In which city is the tower"}
        start = where.get(row["country"], "In which place (city, town or region) is the landmark")
        photo(
            "place", "landmark_place", f"{start} in this photo?", [row["place"], *row["place_also"]]
        )
        photo(
            "name",
            "landmark_name",
            "What is the name of the landmark in this photo?",
            [row["name"], *row["also"]],
        )
    elif thing.group == "fish":
        sort = "Which species of fish" if len(row["answers"]) > 1 else "What kind of fish"
        photo("name", "species_name", f"{sort} is shown in this photo?", row["answers"])
    kind = {"landmarks": "landmark_fact", "animals": "animal_fact", "planets": "planet_fact"}.get(
        thing.group, ""
    )
    for fact in row.get("facts", []):
        number = fact.get("number")
        asked.append(
            Asked(
                id=fact["id"],
                style="image->text",
                kind=kind,
                question=fact["question"],
                query_image=f"queries/photos/{key}.jpg",
                answers=tuple(fact["answers"]),
                entity=key,
                gold_text=[f"t-wn-{key}"],
                gold_images=[] if thing.group == "landmarks" else [f"i-photo-{key}"],
                number=(number[0], number[1]) if number else None,
                unit=fact.get("unit", ""),
                image_licence=thing.licence,
            )
        )
    return asked


def _one_of(name: str, phrases: tuple[str, ...]) -> str:
    """A phrase that depends on the id alone."""
    return phrases[hashlib.sha256(name.encode()).digest()[0] % len(phrases)]
