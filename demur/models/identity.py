"""The ledger's key of a call: equal for equal calls.

It is the SHA-256 of the canonical JSON of model id and revision, messages (for an image, the SHA-256 of its bytes),
sampling, seed, extra body, schema version and draw. The address, the retry options and ``Request.item`` are not part of
it: the same model at another port is the same call. Replies do not expire.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from demur.core.errors import UsageError
from demur.core.records import ImagePart, Request

KEY_VERSION = 1
"""Increased when the meaning of a field changes; a new field with a default needs no new version (see `identity`)."""

_SORTED = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
_AS_GIVEN = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)

_DEFAULTS: dict[str, Any] = {
    "temperature": None,
    "top_p": None,
    "max_tokens": None,
    "seed": None,
    "stop": (),
    "logprobs": False,
    "top_logprobs": None,
    "json_schema": None,
    "extra": {},
    "draw": 0,
}


def identity(request: Request, model: str, revision: str = "") -> dict[str, Any]:
    """The JSON value that is hashed. It omits fields with their default, so that a new field leaves old keys alone.

    Args:
        request: the call; its ``model`` and ``item`` do not count.
        model: the model's id, without its address.
        revision: of the weights, if known.
    """
    value: dict[str, Any] = {
        "v": KEY_VERSION,
        "model": model,
        "messages": [
            [
                m.role,
                [["i", p.image.sha256] if isinstance(p, ImagePart) else p.text for p in m.parts],
            ]
            for m in request.messages
        ],
    }
    if revision:
        value["revision"] = revision
    for name, default in _DEFAULTS.items():
        field_value = getattr(request, name)
        if field_value != default:
            value[name] = field_value
    return value


def request_key(request: Request, model: str, revision: str = "") -> bytes:
    """The 32-byte key of a call.

    >>> from demur.core.records import Message, TextPart
    >>> ask = Request(model="m", messages=(Message(role="user", parts=(TextPart(text="hi"),)),))
    >>> request_key(ask, "m") == request_key(ask.model_copy(update={"item": "7"}), "m")
    True
    >>> request_key(ask, "m") == request_key(ask.model_copy(update={"draw": 1}), "m")
    False

    Raises:
        UsageError: the request holds a number that is NaN or infinite.
    """
    text = as_json(identity(request, model, revision), request, _SORTED)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def as_json(value: dict[str, Any], request: Request, encoder: json.JSONEncoder = _AS_GIVEN) -> str:
    """A value made from a request, in its order: a server may fill in a JSON schema in the order of its properties.

    Raises:
        UsageError: it holds NaN or infinity.
    """
    try:
        return encoder.encode(value)
    except ValueError as error:
        raise UsageError(
            f"the request holds a number that is NaN or infinite: {error}",
            item=request.item,
            cure="give finite numbers",
        ) from error


def prefix_of(request: Request) -> tuple[str, ...]:
    """A sort key that puts calls with a common prompt prefix next to each other.

    >>> from demur.core.records import Message, TextPart
    >>> prefix_of(Request(model="m", messages=(Message(role="user", parts=(TextPart(text="a"), TextPart(text="b"))),)))
    ('user', 'ta', 'tb')
    """
    parts: list[str] = []
    for message in request.messages:
        parts.append(message.role)
        parts += [
            "i" + p.image.sha256 if isinstance(p, ImagePart) else "t" + p.text
            for p in message.parts
        ]
    return tuple(parts)
