"""Reads a reply, as a user's function, service or file gives it: an answer, or a dict with an answer and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, cast

from demur.core.errors import ItemError
from demur.core.records import Ask, Response, Retrieved, Usage

EMPTY = frozenset({"empty response"})
"""What frameworks return in place of an answer when their retriever finds nothing (LlamaIndex)."""
RETRIEVED_NOTHING = (
    "Empty Response: the system's retriever found nothing, so its model was not asked"
)
EMPTY_ANSWER = "an empty answer"


def response_of(reply: Any, *, served_by: str = "", latency_s: float = 0.0) -> Response:
    """Turn a reply into a response.

    Args:
        reply: the answer; or a dict with ``answer`` and optionally ``confidence`` (0 to 1), ``contexts`` (the retrieved
            documents, best first: ids, texts, dicts with ``id``, ``text``, ``score``, or documents of LangChain,
            LlamaIndex or Haystack), ``citations`` (ids), ``abstained`` (true when the system declines to answer),
            ``prompt_tokens``, ``completion_tokens``, ``cost`` (dollars) and ``first_s`` (seconds to the first token).
        served_by: the system that replied.
        latency_s: seconds that the reply took.

    Raises:
        ItemError: the reply is malformed; says why.
    """
    reply = reply if isinstance(reply, Mapping) else {"answer": reply}
    answer, abstained = reply.get("answer"), reply.get("abstained")
    if answer is None and abstained is True:
        answer = ""
    if not isinstance(answer, str):
        raise ItemError(f"returned {type(answer).__name__}, not a string")
    if answer.strip().lower() in EMPTY:
        raise ItemError(RETRIEVED_NOTHING)
    prompt, completion = _number(reply, "prompt_tokens"), _number(reply, "completion_tokens")
    try:
        return Response(
            text=storable(answer),
            confidence=_number(reply, "confidence", most=1.0),
            latency_s=latency_s,
            first_s=_number(reply, "first_s") or 0.0,
            served_by=served_by,
            abstained=abstained,
            retrieved=tuple(
                _retrieved(rank, context)
                for rank, context in enumerate(reply.get("contexts") or (), 1)
            ),
            citations=tuple(storable(c)[:500] for c in reply.get("citations") or ()),
            usage=Usage(prompt=int(prompt or 0), completion=int(completion or 0)),
            cost=_number(reply, "cost"),
        )
    except (TypeError, ValueError, OverflowError) as error:
        why = storable(" ".join(str(error).split())[:300])
        raise ItemError(f"contexts, citations or abstained cannot be read: {why}") from None


def reject_empty(response: Response) -> Response:
    """Turn an empty answer into an error, unless the system says that it abstains.

    An empty reply is a fault of the function or service (an index that was not loaded yet). As an answer it would be
    kept and never asked for again.
    """
    if response.text.strip() or response.abstained or response.error:
        return response
    return response.model_copy(update={"error": EMPTY_ANSWER})


def unused_inputs(
    system: str, asks: Sequence[Ask], *, evidence: bool, images: bool, turns: bool, reason: str
) -> list[str]:
    """Warn about parts of the questions that a system does not receive, one line each.

    Args:
        system: its name.
        asks: all questions that it will be asked.
        evidence: whether it receives the evidence.
        images: whether it receives the images.
        turns: whether it receives the earlier turns of a conversation.
        reason: why it does not receive a part; ``{}`` stands for the part's name.
    """
    notes = []
    if not evidence and any(a.evidence for a in asks):
        notes.append(
            f"{system} does not receive the evidence ({reason.format('evidence')}), so every scenario asks it the same. "
            "To score it with its own retriever: demur corpus export, then --scenarios whole --corpora DIR"
        )
    if not images and (seeing := sum(bool(a.images) for a in asks)):
        notes.append(
            f"{system} does not receive the images ({reason.format('images')}), and {seeing:,} of {len(asks):,} questions "
            "are about one: --text-only leaves them out"
        )
    if not turns and (later := sum(bool(a.turns) for a in asks)):
        notes.append(
            f"{system} does not receive earlier turns ({reason.format('turns')}), and {later:,} of {len(asks):,} "
            "questions have some"
        )
    return notes


def storable(value: Any) -> str:
    """The value as text without lone surrogates, which no file can hold."""
    return str(value).encode("utf-8", "replace").decode()


def _number(reply: Mapping[str, Any], name: str, most: float = 1e12) -> float | None:
    value: Any = reply.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 <= cast("Any", value) <= most):
        raise ItemError(f"{name} is {storable(repr(value))[:120]}, not a number from 0 to {most:g}")
    return float(value)


def _retrieved(rank: int, value: Any) -> Retrieved:
    """One retrieved piece: an id (a string without spaces), a text, a dict of both, or a framework's document."""
    if isinstance(value, str):
        value = {"text" if " " in value.strip() else "id": value}
    elif not isinstance(value, Mapping):
        value = _of_framework(value)
    score = value.get("score")
    return Retrieved(
        id=storable(value.get("id") or "")[:500],
        rank=rank,
        score=None if score is None else float(score),
        text=storable(value.get("text") or ""),
    )


def _of_framework(value: Any) -> dict[str, Any]:
    """LangChain's ``Document``, LlamaIndex's ``NodeWithScore`` or Haystack's ``Document`` as a dict.

    The id is that of the whole document where the framework has it, else that of the piece.
    """
    node = getattr(value, "node", value)
    about = getattr(node, "metadata", None) or getattr(node, "meta", None) or {}
    names = (
        about.get("id"),
        getattr(node, "ref_doc_id", None),
        about.get("source_id"),
        getattr(node, "id", None),
    )
    text = (
        getattr(node, "page_content", None)
        or getattr(node, "text", None)
        or getattr(node, "content", None)
    )
    identity = next((name for name in (*names, getattr(node, "node_id", None)) if name), None)
    if identity is None and text is None:
        raise ValueError(f"{type(value).__name__} is no document")
    return {"id": identity, "text": text, "score": getattr(value, "score", None)}
