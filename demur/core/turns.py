"""Earlier turns of the conversation that a question belongs to.

A sample keeps them in its attribute ``turns`` as a JSON list of ``{"role": "user" | "assistant", "content": "..."}``,
oldest first: the messages of chat APIs and logs. The question itself, the last turn, is not in the list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

ATTRIBUTE = "turns"
_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
}
"""Roles in logs -> ours."""


class Turn(NamedTuple):
    """One turn before the question."""

    role: Literal["user", "assistant"]
    content: str


def turns_of(messages: Any) -> tuple[Turn, ...]:
    """The turns in a list of messages, in its JSON, or in a list of texts by user and assistant in turn.

    Raises:
        ValueError: it is none of these; says why.

    >>> turns_of(["Is there a Team plan?", "Yes."])
    (Turn(role='user', content='Is there a Team plan?'), Turn(role='assistant', content='Yes.'))
    """
    if isinstance(messages, str):
        try:
            messages = json.loads(messages) if messages.strip() else []
        except (ValueError, RecursionError):
            raise ValueError("turns is not a JSON list of messages") from None
    if messages is None:
        return ()
    if not isinstance(messages, list | tuple):
        raise ValueError(f"turns is {type(messages).__name__}, not a list of messages")
    turns = []
    for number, message in enumerate(messages):
        role, content = ("user", "assistant")[number % 2], message
        if isinstance(message, dict):
            role, content = (
                _ROLES.get(str(message.get("role")).lower(), ""),
                message.get("content", message.get("text")),
            )
        if not role or not isinstance(content, str) or not content.strip():
            raise ValueError(
                f'turn {number + 1} is not {{"role": "user" or "assistant", "content": "..."}}'
            )
        turns.append(Turn(role, content.strip()))  # type: ignore[arg-type]  # one of the two
    return tuple(turns)


def as_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Turns as messages of a chat API."""
    return [dict(turn._asdict()) for turn in turns]


def asked_in(turns: Sequence[Turn], question: str) -> str:
    """A question after its earlier turns, as one text for a judge, a page or a search."""
    if not turns:
        return question
    return "".join(f"{turn.role}: {turn.content}\n" for turn in turns) + f"user: {question}"
