"""Which thing in a photo is a question about? A label that it names, or what a model names that sees the photo.

A question about whether something is there is about no thing: it is answered without it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from demur.core.errors import DataError, StorageError
from demur.core.records import Response
from demur.core.thinking import visible
from demur_suites.certainly_uncertain.build.calls import replies
from demur_suites.certainly_uncertain.build.scenes import Scene
from demur_suites.files import image_in, prompt_text

PRESENCE = re.compile(
    r"^\W*(?:(?:is|are|was|were) there|(?:do|can) you see|does (?:the|this) (?:photo|picture|image) show)\b",
    re.IGNORECASE,
)
"""Asks whether something is there."""


def stems(text: str) -> set[str]:
    """Words without the s of a plural."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return {w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in words}


def holds_answer(question: str, answer: str, but: set[str]) -> bool:
    """Whether the words of an answer, ``but`` some that say nothing, all stand in the question, which offers no choice."""
    words = {s for s in stems(answer) if len(s) > 2} - but
    return (
        bool(words)
        and words <= stems(question)
        and not re.search(r"\bor\b", question, re.IGNORECASE)
    )


def salient(question: str, answer: str, labels: Sequence[str]) -> str | None:
    """The thing that a question is about: the longest label that it names, else one that its answer names.

    >>> salient("What colour is the old car?", "red", ["car", "old car"]), salient("Is there a car?", "yes", ["car"])
    ('old car', None)
    """
    if PRESENCE.search(question):
        return None
    for text in (question, answer):
        named_there = [label for label in labels if stems(label) <= stems(text)]
        if named_there:
            return max(named_there, key=len)
    return None


class Named(NamedTuple):
    """The thing that a model names, or why it names none that can be taken out."""

    label: str = ""
    why: str = ""
    detail: str = ""


_NONE = re.compile(r"\W*(?:na|n/a|none|nothing)\W*", re.IGNORECASE)
_NAME = re.compile(
    r"\W*(?:(?:relevant )?(?:object|thing)\W+)?(?:the |an? )?([a-z][a-z' -]{0,40}?)\W*",
    re.IGNORECASE,
)


def named_by(reply: Response) -> Named:
    """What a reply names: one line of one to four words.

    >>> named_by(Response(text="The red cup.")).label, named_by(Response(text="NA")).why
    ('red cup', 'the model names nothing that can be taken out')
    """
    if reply.error:
        return Named(why="the model's call failed", detail=reply.error)
    text = visible(reply.text).strip()
    if _NONE.fullmatch(text):
        return Named(why="the model names nothing that can be taken out", detail=text)
    found = _NAME.fullmatch(text)
    if found is None or len(found[1].split()) > 4:
        return Named(why="the model's reply is no name", detail=text)
    return Named(found[1].lower())


def named(
    model: str, scenes: Sequence[Scene], root: Path, out: Path, *, seed: int = 0
) -> dict[str, Named]:
    """Which thing each question of some scenes is about, by a model that sees the photo: ``SCENE-NUMBER`` -> name.

    Questions whose object is given, and those of photos that cannot be read, are not asked.
    """
    prompt = Template(prompt_text("demur_suites.certainly_uncertain", "salient.v1.md"))
    asked = []
    for scene in scenes:
        try:
            photo = image_in(root, scene.image)
        except (DataError, StorageError, ValueError):
            continue  # its questions are dropped for that
        labels = ", ".join(dict.fromkeys(o.label for o in scene.objects))
        things = f"Name one of these, or na: {labels}" if labels else ""
        asked += [
            (
                f"{scene.id}-{n}",
                (prompt.substitute(things=things, question=q.question, answer=q.answer),),
                (photo,),
            )
            for n, q in enumerate(scene.questions, start=1)
            if not q.object
        ]
    found = replies(model, asked, out, root=root, seed=seed, max_tokens=20)
    return {item: named_by(reply) for item, reply in found.items()}
