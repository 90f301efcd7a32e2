"""The OpenAI chat-completions wire format: a `Request` as a body, a reply as a `Response`, a refusal as an error.

Every model answers in this format, local ones and other vendors' included: so the ledger keeps one kind of raw reply,
and reads it back with the same checks as a fresh one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar

from demur.core.errors import CallError, ItemError, PermanentError, TransientError, UsageError
from demur.core.records import (
    ImagePart,
    ImageRef,
    Message,
    Request,
    Response,
    TextPart,
    TokenLogprob,
    Usage,
)
from demur.core.store import seed_of
from demur.core.strict_json import loose_json
from demur.core.thinking import split_thinking

_T = TypeVar("_T")
_OURS = frozenset({"model", "messages", "stream", "n", "service_tier"})
_FLOOR_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON cannot hold; servers use the same value."""


class Fault(TransientError):
    """A failed attempt that may be repeated.

    Args:
        kind: for counts: ``429``, ``500``, ``connect``, ``reset``, ``timeout``, ``broken``, ``empty``.
        paid: whether the server may have charged for it; budgets count it at its maximum cost.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "error",
        paid: bool = False,
        cure: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, cure=cure, retry_after=retry_after)
        self.kind, self.paid = kind, paid


# --- out -----------------------------------------------------------------------------------------


def _wire_content(message: Message, image_url: Callable[[ImageRef], str]) -> Any:
    if all(isinstance(p, TextPart) for p in message.parts):
        return "".join(p.text for p in message.parts if isinstance(p, TextPart))
    return [
        {"type": "image_url", "image_url": {"url": image_url(p.image)}}
        if isinstance(p, ImagePart)
        else {"type": "text", "text": p.text}
        for p in message.parts
    ]


def request_body(
    request: Request, wire_model: str, image_url: Callable[[ImageRef], str]
) -> dict[str, Any]:
    """The request as a chat-completions body.

    The content of a message with only text is one string (every server accepts it); with images it is a list of parts
    in their order.

    Args:
        request: what to ask.
        wire_model: the model's name at this server.
        image_url: an image's data URI, its address, or a placeholder.

    Raises:
        UsageError: ``extra`` sets the model, the messages, the number of choices, streaming or the service tier.
    """
    clash = sorted(_OURS & request.extra.keys())
    if clash:
        raise UsageError(
            f"extra sets {', '.join(clash)}",
            item=request.item,
            cure="leave it out; draws and the service tier have options of their own",
        )
    value: dict[str, Any] = {
        "model": wire_model,
        "messages": [
            {"role": m.role, "content": _wire_content(m, image_url)} for m in request.messages
        ],
    }
    options = {name: getattr(request, name) for name in ("temperature", "top_p", "max_tokens")}
    value |= {name: option for name, option in options.items() if option is not None}
    if request.seed is not None:
        # the same seed would give the same answer: every further draw has its own
        value["seed"] = (
            seed_of(request.seed, request.draw) % 2**31 if request.draw else request.seed
        )
    if request.stop:
        value["stop"] = list(request.stop)
    if request.logprobs or request.top_logprobs is not None:
        value["logprobs"] = True
    if request.top_logprobs is not None:
        value["top_logprobs"] = request.top_logprobs
    if request.json_schema is not None:
        value["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": request.json_schema},
        }
    if request.service_tier:
        value["service_tier"] = request.service_tier
    value.update(request.extra)
    return value


# --- back ----------------------------------------------------------------------------------------


def _finite_logprob(value: Any) -> float:
    number = float(value)
    return number if math.isfinite(number) else _FLOOR_LOGPROB


def _read_logprobs(choice: Mapping[str, Any]) -> tuple[TokenLogprob, ...]:
    content = (choice.get("logprobs") or {}).get("content") or ()
    return tuple(
        TokenLogprob(
            token=_mend_text(str(entry["token"])),
            logprob=_finite_logprob(entry["logprob"]),
            top=tuple(
                (_mend_text(str(t["token"])), _finite_logprob(t["logprob"]))
                for t in entry.get("top_logprobs") or ()
            ),
        )
        for entry in content
    )


_MOST_TOKENS = 10**12
"""More than any model reads; the sum over a million replies still fits 64 bits."""


def _token_count(value: Any) -> int:
    """A number of tokens; 0, which is no number of tokens, of anything else."""
    counts = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if counts and 0 <= value <= _MOST_TOKENS else 0


def _read_usage(reply: Mapping[str, Any]) -> Usage:
    usage = reply.get("usage") or {}
    prompt, completion = (
        usage.get(f"{name}_tokens_details") or {} for name in ("prompt", "completion")
    )
    return Usage(
        prompt=_token_count(usage.get("prompt_tokens")),
        completion=_token_count(usage.get("completion_tokens")),
        cached=_token_count(prompt.get("cached_tokens")),
        reasoning=_token_count(completion.get("reasoning_tokens")),
    )


_ODD = (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)
"""Errors of a field of another shape than the wire format's."""


def _read_or_default(read: Callable[[Any], _T], value: Any, otherwise: _T) -> _T:
    """What a reply holds beside its answer; ``otherwise`` if it is malformed: the answer was paid for and stays."""
    try:
        return read(value)
    except _ODD:
        return otherwise


def usage_of(raw: str) -> Usage:
    """The tokens of a raw reply that has no answer but was paid for (the content filter's)."""
    return _read_or_default(_read_usage, loose_json(raw), Usage())


def tier_of(raw: str) -> str:
    """The service tier that a raw reply says it was served in; "" if it does not say."""
    return str(_read_or_default(lambda text: loose_json(text).get("service_tier"), raw, None) or "")


def _mend_text(text: str) -> str:
    """A text that every file can hold: half a character, where the server cut an answer off, becomes a "?"."""
    return text.encode("utf-8", "replace").decode()


def _split_thoughts(content: Any) -> tuple[str, str]:
    """(thoughts, text) of a content: a string, one part, or a list of parts, some of which are thoughts."""
    if isinstance(content, str):
        return "", _mend_text(content)
    if isinstance(content, list):
        pairs = [_split_thoughts(part) for part in content]
        return "".join(thought for thought, _ in pairs), "".join(text for _, text in pairs)
    if not isinstance(content, dict):
        return "", ""
    for name in ("thinking", "reasoning"):
        if name in content or str(content.get("type")).startswith(name):
            thoughts = content.get(name) or content.get("text")
            return "".join(_split_thoughts(thoughts)), ""
    return _split_thoughts(content.get("text") or content.get("content"))


def _read_confidence(value: Any) -> float | None:
    return float(value) if not isinstance(value, bool) and 0 <= value <= 1 else None


def read_response(
    raw: str, *, served_by: str = "", latency_s: float = 0.0, cached: bool = False
) -> Response:
    """Read a raw reply, fresh or from the ledger, with the same checks.

    A refusal is an answer. A reply that was cut off while thinking, seen or hidden, has empty ``text`` and its
    ``finish_reason``: to ask again would only cost again. What stands beside a readable answer and is malformed (usage,
    log-probabilities, confidence, thoughts) is left out. What is read here can be written to any file.

    Raises:
        Fault: not JSON, or not a chat completion (``broken``); without a choice, or with one that has neither text,
            refusal nor thinking (``empty``).
        ItemError: the content filter removed the answer, or the server put all of it among the thoughts.
    """
    try:
        reply = loose_json(raw)
        choices = reply["choices"]
        choice = choices[0] if choices else None
        message = {} if choice is None else choice["message"]
        content = message.get("content")
    except _ODD as error:
        raise Fault(
            f"the reply is not a chat completion: {_excerpt(raw)!r}", kind="broken", paid=True
        ) from error
    if choice is None:
        raise Fault("the reply has no choices", kind="empty", paid=True)
    reason = choice.get("finish_reason")
    finish = _mend_text(reason[:100]) if isinstance(reason, str) else ""
    in_parts, text = _split_thoughts(content)
    in_tags, text = split_thinking(text)
    beside = "".join(_split_thoughts(message.get("reasoning_content") or message.get("reasoning")))
    reasoning = beside or in_parts or in_tags
    if not text.strip() and message.get("refusal"):
        text, finish = _split_thoughts(message["refusal"])[1], finish or "refusal"
    if not text.strip() and finish != "length":
        if finish == "content_filter" and not reasoning:
            raise ItemError(
                "the content filter withheld the answer",
                cure="leave the item out, or ask another model",
            )
        if beside:
            raise ItemError(
                "the server put the whole reply among the thoughts and left no answer",
                cure="start it with this model's reasoning parser or with none (vLLM and SGLang: --reasoning-parser; "
                "llama.cpp: --reasoning-format), or switch thinking off; then ask again with --fresh",
            )
        if not reasoning:
            raise Fault(
                f"the reply is empty (finish reason: {finish or 'none'})", kind="empty", paid=True
            )
    cuts = message.get("cuts")
    no_logprobs: tuple[TokenLogprob, ...] = ()
    return Response(
        text=text,
        reasoning=reasoning,
        confidence=_read_or_default(_read_confidence, message.get("confidence"), None),
        logprobs=_read_or_default(_read_logprobs, choice, no_logprobs),
        usage=_read_or_default(_read_usage, reply, Usage()),
        finish_reason=finish,
        served_by=served_by,
        latency_s=latency_s,
        cached=cached,
        cuts=tuple(_mend_text(str(cut)) for cut in cuts) if isinstance(cuts, list) else (),
    )


def read_paid(
    raw: str, *, served_by: str, latency_s: float = 0.0
) -> tuple[Response, ItemError | None]:
    """A reply that was paid for, and why it holds no answer, if so: it is kept all the same.

    Raises:
        Fault: as `read_response`; such a reply is not kept.
    """
    try:
        return read_response(raw, served_by=served_by, latency_s=latency_s), None
    except ItemError as error:
        return Response(
            finish_reason="no answer",
            usage=usage_of(raw),
            served_by=served_by,
            latency_s=latency_s,
        ), error


_STREAM = re.compile(r"\s*(?:data|event|id|retry)?:")


def join_stream(stream: str) -> str:
    """An event stream as one raw reply, any other text as it is: some servers stream although nobody asked for it.

    Raises:
        Fault: the stream is cut off, or holds no chat completion (``broken``).
    """
    if not _STREAM.match(stream):
        return stream
    reply: dict[str, Any] = {}
    parts: dict[str, list[Any]] = {"content": [], "reasoning_content": [], "refusal": []}
    logprobs: list[Any] = []
    finish = ended = None
    try:
        for line in re.split(r"[\r\n]+", stream):
            name, _, event = line.partition(":")
            if name != "data":
                continue
            if event.strip() == "[DONE]":
                ended = True
                break
            chunk = loose_json(event)
            reply |= {key: value for key, value in chunk.items() if value is not None}
            for choice in chunk.get("choices") or ():
                delta = dict(choice.get("delta") or choice.get("message") or {})
                delta.setdefault("reasoning_content", delta.get("reasoning"))
                for key, pieces in parts.items():
                    value = delta.get(key)
                    pieces += value if isinstance(value, list) else [value]
                logprobs += _read_or_default(lambda c: list(c["logprobs"]["content"]), choice, [])
                finish = choice.get("finish_reason") or finish
        if "error" in reply or not (finish or ended) or "choices" not in reply:
            raise ValueError("it ends before the reply does")
    except _ODD as error:
        raise Fault(
            f"the event stream holds no whole reply: {_excerpt(stream)!r}", kind="broken", paid=True
        ) from error
    answer = {"index": 0, "message": parts, "finish_reason": finish}
    if logprobs:
        answer["logprobs"] = {"content": logprobs}
    return json.dumps(reply | {"object": "chat.completion", "choices": [answer]})


def reply_of(answer: Response, model: str) -> str:
    """A `Response` of a model in this process as a raw reply; `read_response` reads it back."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.confidence is not None:
        message["confidence"] = answer.confidence
    if answer.cuts:
        message["cuts"] = list(answer.cuts)
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": answer.finish_reason or "stop",
    }
    if answer.logprobs:
        choice["logprobs"] = {
            "content": [
                {
                    "token": t.token,
                    "logprob": t.logprob,
                    "top_logprobs": [{"token": token, "logprob": value} for token, value in t.top],
                }
                for t in answer.logprobs
            ]
        }
    usage = answer.usage
    reply_text = json.dumps(
        {
            "object": "chat.completion",
            "model": model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": usage.prompt,
                "completion_tokens": usage.completion,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
            },
        },
        ensure_ascii=False,
    )
    return _mend_text(reply_text)


# --- refusals of the server ----------------------------------------------------------------------

_TOO_LONG = re.compile(
    r"context[ _](length|size|window)|maximum context|too many (input )?tokens|(prompt|input) (is )?too long"
    r"|exceeds? the (available )?context|longer than the maximum model length|max_model_len",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _]?filter|content management policy|content policy|safety system", re.IGNORECASE
)
_TEXT_ONLY = re.compile(
    r"image input is not supported|not a multimodal model|does(n't| not) support (image|vision|multimodal)"
    r"|at most 0 image|no (image|vision) support|images? (is|are) not supported",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
"""Some servers say the same of a limit per minute, but then also how long to wait."""
_RETRY_IN = re.compile(
    r"(?:retry|try again) in (?:(\d{1,3})m)?(\d{1,6}(?:\.\d{1,9})?)\d* ?(ms|s)\b", re.IGNORECASE
)


def _excerpt(text: str, most: int = 160) -> str:
    return " ".join(text[:most].encode("utf-8", "replace").decode().split())


def error_message(raw: str) -> str:
    """The message in a server's error body, as one line of at most 300 characters."""
    try:
        body = loose_json(raw)
        if isinstance(body, dict):
            inner = body.get("error", body)
            if isinstance(inner, dict):
                code = inner.get("code") or inner.get("type") or ""
                message = str(inner.get("message") or inner.get("detail") or inner)
                return _excerpt(
                    f"{message} [{code}]" if isinstance(code, str) and code else message, 300
                )
            return _excerpt(str(inner), 300)
    except ValueError:
        pass
    return _excerpt(raw)


def retry_after(headers: Mapping[str, str], reply_text: str = "") -> float | None:
    """Seconds that the server asks the client to wait.

    By ``Retry-After`` (seconds or a date), ``retry-after-ms``, or else the text of its reply.

    >>> retry_after({"Retry-After": "2.5"})
    2.5
    >>> retry_after({}, "Rate limit reached. Please try again in 1m20s.")
    80.0
    >>> retry_after({"Retry-After": "soon"}) is None
    True
    """
    milliseconds = headers.get("retry-after-ms")
    header = headers.get("Retry-After")
    for text, unit in ((milliseconds, 1e-3), (header, 1.0)):
        if text:
            try:
                seconds = float(text) * unit
            except ValueError:
                continue
            return seconds if math.isfinite(seconds) and seconds >= 0 else None
    if header:
        try:
            return max(parsedate_to_datetime(header).timestamp() - time(), 0.0)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    if match := _RETRY_IN.search(reply_text):
        minutes, amount, suffix = match.groups()
        return 60.0 * int(minutes or 0) + float(amount) * (1e-3 if suffix.lower() == "ms" else 1.0)
    return None


def refusal(
    status: int, headers: Mapping[str, str], raw: str, *, key_env: str, wire_model: str
) -> CallError:
    """The error for an HTTP status and its body, with its cure.

    Args:
        status: the HTTP status, not 200.
        headers: of the reply.
        raw: its body.
        key_env: name of the environment variable for the key.
        wire_model: the model's name at this server.

    Returns:
        `Fault` if another try can help, `ItemError` if this one item is the cause, else `PermanentError`.
    """
    message = error_message(raw)
    wait = retry_after(headers, raw)
    if _TEXT_ONLY.search(message):
        return PermanentError(
            f"{wire_model} does not take images: {message}",
            cure="serve a vision-language model (llama.cpp: add --mmproj)",
        )
    if status in (400, 413, 422, 500) and _TOO_LONG.search(message):
        return ItemError(
            f"the context is too long: {message}",
            cure="show less evidence, or serve a larger window",
        )
    if status == 413:
        return ItemError(
            f"the request is too large: {message}", cure="send fewer or smaller images"
        )
    if status in (400, 403, 422) and _FILTERED.search(message):
        return ItemError(
            f"the content filter refused: {message}",
            cure="leave the item out, or ask another model",
        )
    if status in (401, 403):
        return PermanentError(
            f"HTTP {status}: {message}",
            cure=f"set {key_env} to a key that is valid for this endpoint",
        )
    if status == 402 or (status == 429 and wait is None and _QUOTA.search(message)):
        return PermanentError(
            f"HTTP {status}: {message}", cure="the account is out of money; top it up and run again"
        )
    if status == 404:
        return PermanentError(
            f"no model {wire_model!r} at this address: {message}",
            cure="check the path (/v1) and the model's name; GET /v1/models lists them",
        )
    if status in (408, 409, 425, 429) or (status >= 500 and status not in (501, 505)):
        # whoever answers 4xx, 503 or 529 refused before it began; behind any other, a model may have worked
        paid = status >= 500 and status not in (503, 529)
        return Fault(f"HTTP {status}: {message}", kind=str(status), paid=paid, retry_after=wait)
    if status in (400, 422):
        return ItemError(
            f"the server refuses the request (HTTP {status}): {message}",
            cure="change what it names",
        )
    if 300 <= status < 400:
        return PermanentError(
            f"HTTP {status}: the server redirects to {headers.get('Location', 'another address')}",
            cure="give the final address",
        )
    return PermanentError(f"HTTP {status}: {message}", cure="check the endpoint's address")
