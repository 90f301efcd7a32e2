"""What a system says, as a user's code or file puts it: an answer, or a dict of the answer and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demur.core.errors import ItemError
from demur.core.records import Ask, Response, Retrieved, Usage

EMPTY = frozenset({"empty response"})
"""What frameworks return instead of an answer when their retriever found nothing (LlamaIndex); no answer."""
NOTHING_FOUND = "Empty Response: its retriever found nothing and its model was not asked"

SAID_NOTHING = "an empty answer"


def response_of(reply: Any, *, served_by: str = "", latency_s: float = 0.0) -> Response:
    """A reply as a response.

    Args:
        reply: the answer; or a dict with ``answer`` and optionally ``confidence`` (0 to 1), ``contexts`` (what was
            retrieved, best first: ids, texts, dicts with ``id``, ``text``, ``score``, or documents of LangChain,
            LlamaIndex or Haystack), ``citations`` (ids), ``abstained`` (true where no answer is given),
            ``prompt_tokens``, ``completion_tokens``, ``cost`` (dollars) and ``first_s`` (seconds to its first token).
        served_by: who gave it.
        latency_s: seconds that it took.

    Raises:
        ItemError: it is no answer; says why.
    """
    reply = reply if isinstance(reply, Mapping) else {"answer": reply}
    answer, abstained = reply.get("answer"), reply.get("abstained")
    if answer is None and abstained is True:
        answer = ""
    if not isinstance(answer, str):
        raise ItemError(f"returned {type(answer).__name__}, not a string")
    if answer.strip().lower() in EMPTY:
        raise ItemError(NOTHING_FOUND)
    confidence = reply.get("confidence")
    if confidence is not None and (
        isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1
    ):
        raise ItemError(f"confidence {confidence!r} is not a number from 0 to 1")
    try:
        return Response(
            text=plain(answer),
            confidence=confidence,
            latency_s=latency_s,
            first_s=_number(reply, "first_s"),
            served_by=served_by,
            abstained=abstained,
            retrieved=tuple(_retrieved(rank, one) for rank, one in enumerate(reply.get("contexts") or (), 1)),
            citations=tuple(plain(c)[:500] for c in reply.get("citations") or ()),
            usage=Usage(
                prompt=int(_number(reply, "prompt_tokens")), completion=int(_number(reply, "completion_tokens"))
            ),
            cost=_number(reply, "cost") if reply.get("cost") is not None else None,
        )
    except (TypeError, ValueError, OverflowError) as error:
        why = plain(" ".join(str(error).split())[:300])
        raise ItemError(f"contexts, citations, abstained, tokens or cost cannot be read: {why}") from None


def see_said(response: Response) -> Response:
    """The response; one that says nothing, and does not say that it abstains, as an error, so that it is asked again.

    An empty reply of a function or a service is a fault of theirs (an index that was not loaded yet), and would be kept
    for ever where it counted as an answer.
    """
    if response.text.strip() or response.abstained or response.error:
        return response
    return response.model_copy(update={"error": SAID_NOTHING})


def passed_over(system: str, asks: Sequence[Ask], *, evidence: bool, images: bool, turns: bool, how: str) -> list[str]:
    """What a system is not told of its questions, and the way that fits it: a line each, for warnings.

    Args:
        system: its name.
        asks: all that it will be asked.
        evidence: whether it is given the evidence.
        images: whether it is given the images.
        turns: whether it is given what was said before a question.
        how: what would give them to it.
    """
    notes = []
    if not evidence and any(a.evidence for a in asks):
        notes.append(
            f"{system} is not given the evidence ({how.format('evidence')}), so that every scenario asks it the same. "
            "To score it with its own retriever: demur corpus export, then --scenarios whole --corpora DIR"
        )
    if not images and (seeing := sum(bool(a.images) for a in asks)):
        notes.append(
            f"{system} is not given the images ({how.format('images')}), and {seeing:,} of {len(asks):,} questions are "
            "about one: --text-only leaves them out"
        )
    if not turns and (later := sum(bool(a.turns) for a in asks)):
        notes.append(
            f"{system} is not given earlier turns ({how.format('turns')}), and {later:,} of {len(asks):,} questions "
            "come after some"
        )
    return notes


def plain(value: Any) -> str:
    """Its text, without half characters, which no file can hold."""
    return str(value).encode("utf-8", "replace").decode()


def _number(reply: Mapping[str, Any], name: str) -> float:
    value = reply.get(name)
    number = 0.0 if value is None else float(value)
    if not 0 <= number < 1e12:
        raise ValueError(f"{name} is {value!r}")
    return number


def _retrieved(rank: int, value: Any) -> Retrieved:
    """A piece of what was retrieved: an id (a string without spaces), a text, a dict of both, or a document.

    Of LangChain's ``Document``, LlamaIndex's ``NodeWithScore`` and Haystack's ``Document`` the id of the whole document
    is taken where they tell it, else that of the piece.
    """
    if isinstance(value, str):
        value = {"text" if " " in value.strip() else "id": value}
    elif not isinstance(value, Mapping):
        value = _of_framework(value)
    score = value.get("score")
    return Retrieved(
        id=plain(value.get("id") or "")[:500], rank=rank, score=None if score is None else float(score),
        text=plain(value.get("text") or ""),
    )  # fmt: skip


def _of_framework(value: Any) -> dict[str, Any]:
    node = getattr(value, "node", value)
    about = getattr(node, "metadata", None) or getattr(node, "meta", None) or {}
    names = (about.get("id"), getattr(node, "ref_doc_id", None), about.get("source_id"), getattr(node, "id", None))
    text = getattr(node, "page_content", None) or getattr(node, "text", None) or getattr(node, "content", None)
    identity = next((name for name in (*names, getattr(node, "node_id", None)) if name), None)
    if identity is None and text is None:
        raise ValueError(f"{type(value).__name__} is no document")
    return {"id": identity, "text": text, "score": getattr(value, "score", None)}
