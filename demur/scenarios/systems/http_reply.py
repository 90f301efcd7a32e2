"""What comes back from a RAG service, read by a mapping (`demur.scenarios.systems.http`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import ItemError
from demur.core.records import Response, Retrieved, Usage
from demur.core.strict_json import parsed_json
from demur.scenarios.systems.http_mapping import CONTEXT, RagMapping, as_text, json_path
from demur.scenarios.systems.said import EMPTY, NOTHING_FOUND, see_said

if TYPE_CHECKING:
    import aiohttp

MOST = 10_000_000
"""Bytes of a reply after which it is not an answer."""
_ANSWERS = (
    "$.answer",
    "$.response",
    "$.output",
    "$.text",
    "$.result",
    "$.message.content",
    "$.choices[0].message.content",
)
"""Where an answer usually is."""
TOO_LONG = f"a reply of more than {MOST // 1_000_000} MB"


class Reply(NamedTuple):
    """A reply as it came."""

    events: list[Any]
    """Its JSON; one value, or those of a stream in order."""
    first_s: float
    """Seconds until its first byte or event, from when it was asked."""
    version: str
    gateway_cache: bool
    """A cache between us and the service says that it answered."""


def parsed(data: bytes) -> Any:
    """The JSON of a reply.

    Raises:
        ItemError: it is none.
    """
    try:
        return parsed_json(data.decode("utf-8-sig"))
    except ValueError:
        shown = data[:300].decode("utf-8", "replace")
        what = "HTML" if shown.lstrip().lower().startswith(("<!doctype", "<html")) else "no JSON"
        raise ItemError(f"the reply is {what}: {start_of(shown)}") from None


def start_of(text: str) -> str:
    """The first 120 characters of a text, in a line."""
    short = " ".join(text.encode("utf-8", "replace").decode().split())
    return short if len(short) <= 120 else short[:120] + "..."


async def events_of(content: aiohttp.StreamReader, form: str) -> AsyncIterator[Any]:
    """JSON values of a stream; what is between them (comments, names, ``[DONE]``) is passed over.

    Raises:
        ItemError: something in it is no JSON, or there is too much of it.
    """
    read = 0
    buffer = b""
    async for piece in content.iter_any():
        read += len(piece)
        if read > MOST:
            raise ItemError(TOO_LONG)
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            if (value := _event(line, form)) is not None:
                yield value
    if (value := _event(buffer, form)) is not None:
        yield value


def _event(line: bytes, form: str) -> Any:
    text = line.strip()
    if form == "sse":
        if not text.startswith(b"data:"):
            return None
        text = text[5:].strip()
    return None if text in (b"", b"[DONE]") else parsed(text)


def understood(mapping: RagMapping, reply: Reply, *, served_by: str = "", latency_s: float = 0.0) -> Response:
    """A reply as an answer, with what was retrieved, cited and said of it.

    Args:
        mapping: where in the reply these stand.
        reply: as it came.
        served_by: who answered.
        latency_s: seconds that it took.

    Raises:
        ItemError: it holds no answer, or something that is not what the mapping says.
    """
    reading = _Reading(mapping, reply.events)
    text = reading.answer()
    if text.strip().lower() in EMPTY:
        raise ItemError(NOTHING_FOUND)
    paths = CONTEXT | mapping.given.get("context", {})
    return see_said(Response(
        text=text,
        confidence=reading.number("confidence", most=1.0),
        latency_s=latency_s,
        first_s=reply.first_s,
        abstained=reading.flag("abstained"),
        served_by=served_by,
        retrieved=tuple(_context(rank, one, paths) for rank, one in enumerate(reading.all("contexts"), 1)),
        citations=tuple(as_text(c)[:500] for c in reading.all("citations", last=True)),
        usage=Usage(
            prompt=int(reading.number("prompt_tokens") or 0), completion=int(reading.number("completion_tokens") or 0)
        ),
        cost=reading.number("cost"),
        cached=reply.gateway_cache,
    ))  # fmt: skip


class _Reading:
    """The events of one reply, by the paths of a mapping."""

    def __init__(self, mapping: RagMapping, events: Sequence[Any]) -> None:
        self.given, self.events = mapping.given, events

    def all(self, key: str, *, last: bool = False) -> list[Any]:
        """What stands at the path of a key, in all events or the last; a single list is its members."""
        path = self.given.get(key)
        found = [v for event in self.events[-1 if last else 0 :] for v in _found(path, event)] if path else []
        return found[0] if len(found) == 1 and isinstance(found[0], list) else found

    def one(self, key: str) -> Any:
        """The first thing at the path of a key; of a stream the last, where it says a total at its end."""
        return next((value for value in reversed(self.all(key)) if value is not None), None)

    def flag(self, key: str) -> bool | None:
        """True or false; None where nothing is there."""
        value = self.one(key)
        if value is not None and not isinstance(value, bool):
            raise ItemError(f"{key} is {start_of(repr(value))}, not true or false")
        return value

    def number(self, key: str, most: float = 1e12) -> float | None:
        """A number from 0; None where nothing is there."""
        value = self.one(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ItemError(f"{key} is {start_of(repr(value))}, not a number from 0 to {most:g}")
        return float(value)

    def answer(self) -> str:
        """The answer; "" where the service says that it gives none."""
        path, last = self.given.get("answer"), self.events[-1]
        if path is None:
            if isinstance(last, str):
                return last
            path = next((p for p in _ANSWERS if _found(p, last)), None)
            if path is None:
                keys = ", ".join(list(last)[:10]) if isinstance(last, dict) else type(last).__name__
                raise ItemError(f"no answer under its usual names; the reply holds: {start_of(keys)}")
        found = [value for event in self.events for value in _found(path, event) if value is not None]
        if not found and self.flag("abstained"):
            return ""
        if not found or not all(isinstance(value, str) for value in found):
            what = "nothing" if not found else f"a {type(found[0]).__name__}"
            raise ItemError(f"answer ({path}) is {what} in the reply: {start_of(json.dumps(last)[:300])}")
        return "".join(found)


def _found(path: str, value: Any) -> list[Any]:
    return list(json_path(path, "").find(value).values())


def _context(rank: int, value: Any, paths: Mapping[str, str]) -> Retrieved:
    if isinstance(value, str):
        return Retrieved(rank=rank, text=value)
    found = {key: next(iter(_found(path, value)), None) for key, path in paths.items()}
    score = found["score"]
    plain = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e300
    return Retrieved(
        id=as_text(found["id"])[:500] if found["id"] is not None else "", rank=rank,
        score=float(score) if isinstance(score, int | float) and plain else None,
        text=found["text"] if isinstance(found["text"], str) else "",
    )  # fmt: skip
