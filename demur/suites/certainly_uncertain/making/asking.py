"""The question of a pair from photos, written by a model that is shown both: the first answers it, the second cannot.

The photos' own questions (or every labelled thing, where there are none) say what is taken out; this asks about it. A
reply that makes no pair is a `Drop` with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from demur.core.records import Drop, Response
from demur.judge.refusal import declines
from demur.suites.certainly_uncertain.items import Pair
from demur.suites.certainly_uncertain.making.calls import labelled, replies
from demur.suites.certainly_uncertain.making.images import YES_NO
from demur.suites.certainly_uncertain.making.salient import PRESENCE, stems
from demur.suites.certainly_uncertain.making.scenes import Asked, Scene

_NAMES = ("Q", "A1", "A2")
_LINE = re.compile(r"^\W*(Q|A1|A2)\W*?:\W*?\s*(.*)$", re.IGNORECASE)
_ESCAPE = re.compile(r"\bnot a good question\b", re.IGNORECASE)
_TELLTALE = re.compile(
    r"\b(?:first|second|other|edited|original|both|two) (?:image|photo|picture)s?\b|\b(?:image|photo|picture) [12]\b"
    r"|\bmissing\b|\bremoved\b|\bdifference\b",
    re.IGNORECASE,
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "string", "maxLength": 200} for name in _NAMES},
    "required": [*_NAMES],
    "additionalProperties": False,
}
"""Of the reply, where the endpoint takes one."""


class Asks(NamedTuple):
    """What a model's three lines say."""

    question: str
    answer: str
    idk_answer: str


def parse(reply: str) -> Asks | None:
    r"""The three lines of a reply, each once and in order, or an object of just these fields; None for anything else.

    >>> parse("Q: What colour is the kite?\nA1: red\nA2: I don't see any kite.").answer
    'red'
    """
    said = labelled(reply, _LINE, _NAMES, _NAMES)
    return None if said is None else Asks(*said)


def fault(asks: Asks) -> str:
    """The first rule that a question breaks; "" for a sound one."""
    if not asks.question.endswith("?") or len(asks.question.split()) < 3:
        return "not a question"
    if _TELLTALE.search(asks.question):
        return "the question tells that there are two photos"
    if PRESENCE.search(asks.question) or asks.answer.strip().lower().rstrip(".") in YES_NO:
        return "asks for yes or no: answered without the thing too"
    if declines(asks.answer):
        return "the first photo does not answer it"
    if not declines(asks.idk_answer):
        return "the second photo answers it"
    told = {s for s in stems(asks.answer) if len(s) > 2} - {"the"}
    if told and told <= stems(asks.question) and not re.search(r"\bor\b", asks.question, re.IGNORECASE):
        return "the question holds its answer"
    return ""


def things_of(scene: Scene) -> Scene:
    """A scene without questions, as one that asks about each labelled thing: what is asked of it is written anew."""
    if scene.questions:
        return scene
    labels = dict.fromkeys(o.label for o in scene.objects)
    return scene.model_copy(
        update={"questions": tuple(Asked(question="?", answer="?", object=label) for label in labels)}
    )


def asked_anew(made: Iterable[Pair | Drop], model: str, out: Path, *, seed: int = 0) -> Iterator[Pair | Drop]:
    """Pairs whose question a model wrote that saw both photos; each photo pair is shown once."""
    prompt = Template(
        files("demur.suites.certainly_uncertain")
        .joinpath("prompts/extraneous.v1.md")
        .read_text(encoding="utf-8")
        .strip()
    )
    pairs: list[Pair] = []
    for one in made:
        if isinstance(one, Drop):
            yield one
        else:
            pairs.append(one)
    asked = [
        (p.id, (prompt.substitute(thing=p.provenance["object"]),), (p.image, p.idk_image))
        for p in pairs if p.image is not None and p.idk_image is not None
    ]  # fmt: skip
    said = replies(model, asked, out, root=out, seed=seed, schema=SCHEMA)
    for pair in pairs:
        yield _made(pair, said[pair.id], model.partition("#")[2] or model)


def _made(pair: Pair, reply: Response, model: str) -> Pair | Drop:
    def drop(reason: str, detail: str) -> Drop:
        return Drop(sample=pair.id, stage="question", reason=reason, detail=detail[:300])

    if reply.error:
        return drop("the model's call failed", reply.error)
    if _ESCAPE.search(reply.text):
        return drop("the model found no good question", reply.text)
    asks = parse(reply.text)
    if asks is None:
        return drop("the model's lines cannot be read", reply.text)
    if why := fault(asks):
        return drop(why, f"{asks.question} | {asks.answer} | {asks.idk_answer}")
    gone = pair.provenance.get("control", "")  # chosen before the question was known: it may be what that names
    control = None if stems(gone) <= stems(f"{asks.question} {asks.answer}") else pair.control_image
    return Pair(**{
        **dict(pair), "question": asks.question, "idk_question": asks.question, "answer": asks.answer,
        "idk_answer": asks.idk_answer, "control_image": control,
        "provenance": {**pair.provenance, "asked by": model},
    })  # fmt: skip
