"""What a RAG service replies, read by its mapping (`demur.scenarios.systems.http`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import ItemError
from demur.core.records import Response
from demur.core.strict_json import parsed_json
from demur.scenarios.systems.http_mapping import ContextPaths, RagMapping, as_text, json_path
from demur.scenarios.systems.replies import reject_empty, response_of, storable

if TYPE_CHECKING:
    import aiohttp

MAX_BYTES = 10_000_000
"""Longest reply that is read."""
TOO_LONG = f"the reply is longer than {MAX_BYTES // 1_000_000} MB"
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


class Reply(NamedTuple):
    """A reply before the mapping is applied."""

    events: list[Any]
    """One JSON value, or those of a stream in order."""
    first_s: float
    """Seconds from the request to the first byte or event."""
    version: str
    gateway_cache: bool
    """Whether a cache in front of the service answered."""


def parse_json(data: bytes) -> Any:
    """Parse the JSON of a reply.

    Raises:
        ItemError: it is not JSON.
    """
    try:
        return parsed_json(data.decode("utf-8-sig"))
    except ValueError:
        beginning = data[:300].decode("utf-8", "replace")
        kind = (
            "HTML" if beginning.lstrip().lower().startswith(("<!doctype", "<html")) else "no JSON"
        )
        raise ItemError(f"the reply is {kind}: {excerpt(beginning)}") from None


def excerpt(text: str) -> str:
    """The first 120 characters of a text, on one line."""
    short = " ".join(storable(text).split())
    return short if len(short) <= 120 else short[:120] + "..."


async def events_of(content: aiohttp.StreamReader, form: str) -> AsyncIterator[Any]:
    """The JSON values of a stream; skips what is between them (comments, event names, ``[DONE]``).

    Raises:
        ItemError: an event is not JSON, or the stream is too long.
    """
    read = 0
    buffer = b""
    async for piece in content.iter_any():
        read += len(piece)
        if read > MAX_BYTES:
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
    return None if text in (b"", b"[DONE]") else parse_json(text)


def read_response(
    mapping: RagMapping, reply: Reply, *, served_by: str = "", latency_s: float = 0.0
) -> Response:
    """Apply a mapping to a reply: the answer, and what the service retrieved, cited and reported.

    Raises:
        ItemError: the reply has no answer, or a value of the wrong kind.
    """
    reading = _Reading(mapping, reply.events)
    fields = {
        "answer": reading.answer(),
        "abstained": reading.abstained(),
        "first_s": reply.first_s,
        "contexts": [_context(piece, mapping.context) for piece in reading.all("contexts")],
        "citations": [as_text(c) for c in reading.all("citations", last=True)],
        **{
            key: reading.last_value(key)
            for key in ("confidence", "prompt_tokens", "completion_tokens", "cost")
        },
    }
    response = response_of(fields, served_by=served_by, latency_s=latency_s)
    return reject_empty(response.model_copy(update={"cached": reply.gateway_cache}))


class _Reading:
    """The events of one reply, looked up by the paths of a mapping."""

    def __init__(self, mapping: RagMapping, events: Sequence[Any]) -> None:
        self.mapping, self.events = mapping, events

    def all(self, key: str, *, last: bool = False) -> list[Any]:
        """All values at a key's path, in all events or the last one; a single list counts as its members."""
        path = getattr(self.mapping, key)
        values = (
            [v for event in self.events[-1 if last else 0 :] for v in _values_at(path, event)]
            if path
            else []
        )
        return values[0] if len(values) == 1 and isinstance(values[0], list) else values

    def last_value(self, key: str) -> Any:
        """The last value at a key's path (a stream gives its totals at the end); None without one."""
        return next((value for value in reversed(self.all(key)) if value is not None), None)

    def abstained(self) -> bool | None:
        """Whether the service says that it declines; None if it does not say."""
        value = self.last_value("abstained")
        if value is not None and not isinstance(value, bool):
            raise ItemError(f"abstained is {excerpt(repr(value))}, not true or false")
        return value

    def answer(self) -> str:
        """The answer; "" when the service says that it abstains."""
        path, last = self.mapping.answer, self.events[-1]
        if path is None:
            if isinstance(last, str):
                return last
            path = next((p for p in _ANSWERS if _values_at(p, last)), None)
            if path is None:
                keys = ", ".join(list(last)[:10]) if isinstance(last, dict) else type(last).__name__
                raise ItemError(
                    f"no answer under its usual names; the reply holds: {excerpt(keys)}"
                )
        answer_parts = [
            value for event in self.events for value in _values_at(path, event) if value is not None
        ]
        if not answer_parts and self.abstained():
            return ""
        if not answer_parts or not all(isinstance(value, str) for value in answer_parts):
            kind = "nothing" if not answer_parts else f"a {type(answer_parts[0]).__name__}"
            raise ItemError(
                f"answer ({path}) is {kind} in the reply: {excerpt(json.dumps(last)[:300])}"
            )
        return "".join(answer_parts)


def _values_at(path: str, value: Any) -> list[Any]:
    return list(json_path(path).find(value).values())


def _context(value: Any, paths: ContextPaths) -> dict[str, Any]:
    """One retrieved piece; a part of it that is not of the usual kind counts as missing."""
    if isinstance(value, str):
        return {"text": value}
    values = {key: next(iter(_values_at(path, value)), None) for key, path in paths}
    score, text = values["score"], values["text"]
    usable = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e300
    return {
        "id": as_text(values["id"]) if values["id"] is not None else "",
        "text": text if isinstance(text, str) else "",
        "score": score if usable else None,
    }
