"""Earlier turns of a conversation that a question belongs to.

A sample keeps them in its attribute ``turns``, as the JSON of a list of ``{"role": "user" | "assistant", "content":
"..."}``, oldest first: what chat APIs and logs call messages. The question itself is the turn that comes last and is
not among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

ATTRIBUTE = "turns"
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant"}
"""Names of who speaks, as logs have them."""


class Turn(NamedTuple):
    """What somebody said before the question."""

    role: Literal["user", "assistant"]
    content: str


def turns_of(given: Any) -> tuple[Turn, ...]:
    """The turns of a list of messages, of its JSON, or of texts, of which the user said the first and then every other.

    Raises:
        ValueError: it is none of these; says why.

    >>> turns_of(["Is there a Team plan?", "Yes."])
    (Turn(role='user', content='Is there a Team plan?'), Turn(role='assistant', content='Yes.'))
    """
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else []
        except (ValueError, RecursionError):
            raise ValueError("turns is no JSON list of messages") from None
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise ValueError(f"turns is {type(given).__name__}, not a list of messages")
    found = []
    for number, one in enumerate(given):
        role, content = ("user", "assistant")[number % 2], one
        if isinstance(one, dict):
            role, content = _ROLES.get(str(one.get("role")).lower(), ""), one.get("content", one.get("text"))
        if not role or not isinstance(content, str) or not content.strip():
            raise ValueError(f'turn {number + 1} is no {{"role": "user" or "assistant", "content": "..."}}')
        found.append(Turn(role, content.strip()))  # type: ignore[arg-type]  # one of the two
    return tuple(found)


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Turns as chat APIs take them."""
    return [dict(turn._asdict()) for turn in turns]


def asked_in(turns: Sequence[Turn], question: str) -> str:
    """A question with what was said before it, for whoever reads both: a judge, a page, a search."""
    if not turns:
        return question
    return "".join(f"{turn.role}: {turn.content}\n" for turn in turns) + f"user: {question}"
