"""Other names of an accepted form that say the same: "WWII" for "World War II" (``aliases.txt``)."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from demur.answers.text import normalise
from demur.core.records import AnswerSpec

_ASKS, _ONLY = "#asks:", "only:"


@cache
def _groups() -> tuple[dict[str, list[str]], list[str]]:
    """Normalised name -> all names of that thing; words of questions that ask for a name."""
    lines = files(__package__).joinpath("aliases.txt").read_text(encoding="utf-8").splitlines()
    asks = next(line.removeprefix(_ASKS).split() for line in lines if line.startswith(_ASKS))
    groups: dict[str, list[str]] = {}
    for names in (
        [name.strip() for name in line.split("=")] for line in lines if line and line[0] != "#"
    ):
        for name in names:
            groups.setdefault(normalise(name), []).extend(names)
    return groups, [word.replace("_", " ") for word in asks]


def with_aliases(spec: AnswerSpec, question: str, reply: str) -> AnswerSpec:
    """The answer with the other names that a reply may give it, unless the question has one or asks for a name.

    >>> ("World War II",) in with_aliases(AnswerSpec(accepted=(("WWII",),)), "Which war?", "World War II").accepted
    True
    """
    groups, asks = _groups()
    asked, forms = f" {normalise(question)} ", [form[0] for form in spec.accepted if len(form) == 1]
    known = dict.fromkeys(name for form in forms for name in groups.get(normalise(form), ()))
    if spec.kind in ("choice", "box") or any(f" {normalise(name)} " in asked for name in known):
        return spec
    if not known or any(f" {word}" in asked for word in asks):
        return spec
    more = [name.removeprefix(_ONLY).strip() for name in known if _says(reply, name)]
    return spec.model_copy(
        update={"accepted": spec.accepted + tuple((name,) for name in more if name not in forms)}
    )


def _says(reply: str, name: str) -> bool:
    """Whether a reply may give a name: one in capitals only in capitals, "it aids" has no AIDS."""
    if name.startswith(_ONLY):
        return reply.strip(" .") == name.removeprefix(_ONLY).strip()
    return (
        name.upper() != name
        or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", reply.replace("U.S.", "US")) is not None
    )
