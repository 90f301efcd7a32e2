"""Pairs from captions: a model writes an unanswerable and an answerable question about one photo; rules check them.

A line of a captions file holds ``id``, ``caption`` and may hold ``image``, ``split``, ``licence`` (DOCCI's
``example_id``, ``description`` and ``image_file`` are read too). Every reply becomes a pair or a `Drop` with its reason:
the writer found no question, its lines cannot be read, or the pair breaks a rule (`fault`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.records import Drop, ImageRef, Record, Response
from demur.core.store import Problems
from demur.core.strict_json import parsed_json
from demur.core.uris import read_uri
from demur.corpora.formats import inside
from demur_suites.certainly_uncertain.build.calls import Form, drop, name_of, replies
from demur_suites.certainly_uncertain.build.salient import holds_answer, stems
from demur_suites.certainly_uncertain.build.scenes import sample
from demur_suites.certainly_uncertain.items import IDK, Pair, Uncertainty, folded
from demur_suites.certainly_uncertain.refusal import declines
from demur_suites.files import items_by_id, keep_image, prompt_text

CATEGORIES = (
    Uncertainty.KNOWLEDGE,
    Uncertainty.COMPLEXITY,
    Uncertainty.TEMPORAL,
    Uncertainty.AMBIGUITY,
)
"""Kinds that a caption can give; *extraneous* needs the photo changed."""
_TELLTALE = re.compile(r"\b(?:un)?answerable\b|\bcaption|\bdescription\b|\bQ[12]\b", re.IGNORECASE)
_SMALL = stems(
    "what which where when whose who how why does did was were are has had have this that these those there the and "
    "for with from many much will would about they their its his her any can you photo "
    "picture image people someone something"
)


FORM = Form(
    ("Q1", "A1", "Q2", "A2"),
    ("Q1_nobody_can_answer", "A1_I_do_not_know_because", "Q2_the_caption_answers", "A2"),
)
"""The names of the fields repeat what belongs where, which small models forget."""


class Captioned(Record):
    """One caption with its photo, where there is one."""

    id: str = Field(min_length=1)
    caption: str = Field(pattern=r"\S")
    image: str = ""
    split: str = ""
    licence: str = ""


class Written(NamedTuple):
    """What a writer's four lines say."""

    idk_question: str
    idk_answer: str
    question: str
    answer: str


DOCCI = {"example_id": "id", "description": "caption", "image_file": "image", "license": "licence"}
"""Its names of fields -> ours."""


def read_captions(path: Path, problems: Problems) -> list[Captioned]:
    """Captions of a JSONL file; a line without id or text, or with an id that was there, is a problem."""

    def made(place: str, row: dict[str, Any]) -> Captioned:
        named = {DOCCI.get(name, name): value for name, value in row.items() if value}
        return Captioned.model_validate(
            {name: named[name] for name in Captioned.model_fields if name in named}
        )

    return list(items_by_id(path, problems, made).values())


def likeness(one: str, other: str) -> float:
    """How alike two questions are, word by word: 0 to 1.

    >>> likeness("Is the door open?", "Is the door open?"), likeness("Who is it?", "Where?")
    (1.0, 0.0)
    """
    return SequenceMatcher(None, folded(one).split(), folded(other).split(), autojunk=False).ratio()


LEAST, MOST = 0.1, 0.95
"""Likeness of the two questions of a pair, which are about one photo, and are two."""


def fault(written: Written, caption: str) -> str:
    """The first rule that a pair breaks; "" for a sound one."""
    for question in (written.idk_question, written.question):
        if not question.endswith("?") or len(question.split()) < 3:
            return "not a question"
        if _TELLTALE.search(question):
            return "a question tells how it was made"
        about = {s for s in stems(question) if len(s) > 2} - _SMALL
        other = written.idk_question if question is written.question else written.question
        if not about & (stems(caption) | stems(other)):
            return "a question is about nothing in the caption"
    if not declines(written.idk_answer, written.idk_question):
        return "the unanswerable question was answered"
    if declines(written.answer, written.question):
        return "the answerable question was not answered"
    if holds_answer(written.question, written.answer, {"yes", "the"}):
        return "a question holds its answer"
    alike = likeness(written.idk_question, written.question)
    if alike > MOST:
        return "both questions are the same"
    return "the questions have nothing in common" if alike < LEAST else ""


PACKAGE = "demur_suites.certainly_uncertain"


@cache
def examples(category: Uncertainty) -> tuple[tuple[str, Written], ...]:
    """Captions, each with a good pair of questions."""
    given = parsed_json(prompt_text(PACKAGE, "pair-examples.v2.json"))[category.value]
    return tuple((caption, Written(*texts)) for caption, *texts in given)


def prompt(category: Uncertainty, caption: str) -> tuple[str, ...]:
    """The writer's prompt: turns of a conversation in which the examples are its earlier replies.

    A small model repeats what it seems to have done before; from an example inside the instruction it took only the form.
    """
    turns = [
        "\n\n".join(
            prompt_text(PACKAGE, name) for name in (f"{category.value}.v2.md", "pair-form.v2.md")
        )
        + "\n"
    ]
    for shown, written in examples(category):
        turns[-1] += f"\nCaption: {shown}"
        turns += [json.dumps(dict(zip(FORM.fields, written, strict=True)), ensure_ascii=False), ""]
    turns[-1] += f"Caption: {' '.join(caption.split())}"
    return tuple(turn.strip() for turn in turns)


def from_captions(out: Path, options: Mapping[str, Any], *, seed: int = 0) -> list[Pair | Drop]:
    """Pairs of a captions file, and why its other replies make none, by caption and category.

    Raises:
        UsageError: no writer, or no such file.
        BadInput: captions that cannot be read.
    """
    if not options["writer"]:
        raise UsageError(
            "--writer is missing",
            cure="name the model that writes pairs: openai/gpt-4o, http://host:8000/v1#name, ...",
        )
    input_file = Path(options["input"])
    path, root, licences = (
        (input_file, input_file.parent, {}) if options["input"] else sample("captions")
    )
    if not path.is_file():
        raise UsageError(
            "no such file of captions", item=str(path), cure="give --input captions.jsonl"
        )
    problems = Problems()
    held = read_captions(path, problems)[: options["limit"] or None]
    if len(problems):  # before any call is paid
        raise BadInput(
            problems.lines, more=problems.more, cure="mend these lines, or take them out"
        )
    held = [
        captioned.model_copy(
            update={"licence": captioned.licence or licences.get(captioned.image, "")}
        )
        for captioned in held
    ]
    photos = _photos(held, Path(options["photos"]) if options["photos"] else root, out)
    prompts = [  # what a category's prompts begin with, a server reads once
        (f"{captioned.id}-{category}", prompt(category, captioned.caption), ())
        for category in CATEGORIES
        for captioned in held
        if not isinstance(photos[captioned.id], str)
    ]
    replies_by_id = replies(str(options["writer"]), prompts, out, seed=seed, schema=FORM.schema)
    pairs_and_drops: list[Pair | Drop] = []
    had: set[tuple[str, str]] = set()
    for captioned in held:
        photo = photos[captioned.id]
        for category in CATEGORIES:
            id = f"{captioned.id}-{category}"
            if isinstance(photo, str):
                pairs_and_drops.append(drop(id, "caption", "photo cannot be read", photo))
                continue
            pair = _made(
                id, captioned, category, photo, replies_by_id[id], name_of(str(options["writer"]))
            )
            if isinstance(pair, Pair):
                key = (photo.sha256 if photo else captioned.id, folded(pair.idk_question))
                if key in had:
                    why = "its unanswerable question stands under another category already"
                    pair = drop(id, "caption", why, pair.idk_question)
                had.add(key)
            pairs_and_drops.append(pair)
    return pairs_and_drops


def _made(
    id: str,
    captioned: Captioned,
    category: Uncertainty,
    photo: ImageRef | None,
    reply: Response,
    writer: str,
) -> Pair | Drop:
    texts = FORM.read(reply, id, "caption", "writer")
    if isinstance(texts, Drop):
        return texts
    written = Written(*texts)
    why = fault(written, captioned.caption)
    copied = {
        folded(q) for _, good in examples(category) for q in (good.idk_question, good.question)
    }
    if not why and copied & {folded(written.idk_question), folded(written.question)}:
        why = "a question is copied from the prompt's example"
    if why:
        return drop(
            id, "caption", why, f"{written.idk_question} | {written.question} | {written.answer}"
        )
    return Pair(
        id=id,
        category=category,
        question=written.question,
        answer=written.answer,
        image=photo,
        idk_question=written.idk_question,
        idk_answer=IDK,
        idk_image=photo,
        route="caption",
        split=captioned.split,
        licence=captioned.licence,
        provenance={"caption": captioned.caption, "writer": writer, "why": written.idk_answer},
    )


def _photos(held: Sequence[Captioned], root: Path, out: Path) -> dict[str, ImageRef | str | None]:
    """The photo of each caption, copied below ``images/``: a reference, None without one, or why it cannot be read."""
    photos: dict[str, ImageRef | str | None] = {}
    for captioned in held:
        photos[captioned.id] = None
        if captioned.image:
            try:
                data = read_uri(inside(root, captioned.image).relative_to(root).as_posix(), root)
                photos[captioned.id] = keep_image(out, data, 16)
            except (DataError, StorageError, ValueError) as error:
                photos[captioned.id] = str(error)
    return photos
