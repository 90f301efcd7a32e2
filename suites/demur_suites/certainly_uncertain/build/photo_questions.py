"""The question of a pair from photos, written by a model that sees both: the first photo answers it, the second does not.

The photos' own questions (or, without any, every labelled thing) decide what is taken out; this writes a question about
it. A reply that makes no pair is a `Drop` with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import NamedTuple

from demur.core.records import Drop, Response
from demur_suites.certainly_uncertain.build.calls import Form, drop, name_of, replies
from demur_suites.certainly_uncertain.build.photo_pairs import YES_NO
from demur_suites.certainly_uncertain.build.salient import PRESENCE, holds_answer, stems
from demur_suites.certainly_uncertain.build.scenes import Asked, Scene
from demur_suites.certainly_uncertain.items import Pair
from demur_suites.certainly_uncertain.refusal import declines
from demur_suites.files import prompt_text

FORM = Form(("Q", "A1", "A2"), ("Q", "A1", "A2"))
_TELLTALE = re.compile(
    r"\b(?:first|second|other|edited|original|both|two) (?:image|photo|picture)s?\b|\b(?:image|photo|picture) [12]\b"
    r"|\bmissing\b|\bremoved\b|\bdifference\b",
    re.IGNORECASE,
)


class Asks(NamedTuple):
    """What the three lines of a model say."""

    question: str
    answer: str
    idk_answer: str


def fault(asks: Asks) -> str:
    """The first rule that a question breaks; "" for a sound one."""
    if not asks.question.endswith("?") or len(asks.question.split()) < 3:
        return "not a question"
    if _TELLTALE.search(asks.question):
        return "the question tells that there are two photos"
    if PRESENCE.search(asks.question) or asks.answer.strip().lower().rstrip(".") in YES_NO:
        return "asks for yes or no: answered without the thing too"
    if declines(asks.answer, asks.question):
        return "the first photo does not answer it"
    if not declines(asks.idk_answer, asks.question):
        return "the second photo answers it"
    return (
        "the question holds its answer" if holds_answer(asks.question, asks.answer, {"the"}) else ""
    )


def things_of(scene: Scene) -> Scene:
    """A scene; without questions of its own, as one that asks about each labelled thing."""
    if scene.questions:
        return scene
    labels = dict.fromkeys(o.label for o in scene.objects)
    return scene.model_copy(
        update={
            "questions": tuple(Asked(question="?", answer="?", object=label) for label in labels)
        }
    )


def with_new_questions(
    made: Iterable[Pair | Drop], model: str, out: Path, *, seed: int = 0
) -> Iterator[Pair | Drop]:
    """Pairs with a question by a model that saw both photos; each pair of photos is shown once."""
    prompt = Template(prompt_text("demur_suites.certainly_uncertain", "extraneous.v1.md"))
    pairs: list[Pair] = []
    for pair_or_drop in made:
        if isinstance(pair_or_drop, Drop):
            yield pair_or_drop
        else:
            pairs.append(pair_or_drop)
    prompts = [
        (p.id, (prompt.substitute(thing=p.provenance["object"]),), (p.image, p.idk_image))
        for p in pairs
        if p.image is not None and p.idk_image is not None
    ]
    reply_of = replies(model, prompts, out, root=out, seed=seed, schema=FORM.schema)
    for pair in pairs:
        yield _made(pair, reply_of[pair.id], name_of(model))


def _made(pair: Pair, reply: Response, model: str) -> Pair | Drop:
    texts = FORM.read(reply, pair.id, "question", "model")
    if isinstance(texts, Drop):
        return texts
    asks = Asks(*texts)
    if why := fault(asks):
        return drop(
            pair.id, "question", why, f"{asks.question} | {asks.answer} | {asks.idk_answer}"
        )
    gone = pair.provenance.get(
        "control", ""
    )  # chosen before the question was written: it may be what that names
    control = None if stems(gone) <= stems(f"{asks.question} {asks.answer}") else pair.control_image
    return Pair(
        **{
            **dict(pair),
            "question": asks.question,
            "idk_question": asks.question,
            "answer": asks.answer,
            "idk_answer": asks.idk_answer,
            "control_image": control,
            "provenance": {**pair.provenance, "asked by": model},
        }
    )
