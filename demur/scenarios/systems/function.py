"""A Python function as a system: ``python:module:function``, or a function given to `demur.evaluate`.

The function takes what it names of these, or one dict of them all: ``question``, ``choices`` (list of (letter, text)),
``images`` (list of bytes), ``evidence`` (list of dicts with ``id``, ``title``, ``text`` and ``image`` bytes or None),
``id`` (of the question), ``strictness`` (of the prompting condition). The scenario is *not* among them; but of a system
with its own retriever (scenarios full, gold-removed, empty) ``corpus``, the name of the one to search, and ``exclude``,
the ids to leave out. It returns the answer as a string, or a dict with ``answer`` and optionally ``confidence`` (0 to
1), ``contexts`` (what it retrieved, best first: ids, texts, or dicts with ``id``, ``text``, ``score``), ``citations``
(ids) and ``abstained`` (true where it gives no answer). It may be ``async``.

A plain function is called from one thread, one question after another. One that may be called by several at once says
so (``answer.concurrency = 8``), or the command does (``--concurrency 8``). An async one has 8 questions under way
unless told otherwise, all on one thread.

Its answers are kept for its code as it is: the files of its project, see `demur.core.code`. Where it depends on more
than that (an index, a service), a revision after its name says so: ``python:module:function@index-of-may``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from demur.core.code import code_digest, named
from demur.core.errors import DemurError
from demur.core.records import Ask, Response, Retrieved
from demur.core.worker import Calls, is_async

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a function says it takes; nothing of a built-in that does not say."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _taking_one(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """The function as one of a single dict: one that names ``question`` is called with what it names."""
    parameters = _parameters(function)
    if "question" not in parameters:
        return function
    every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def chosen(given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if every or name in parameters}

    async def awaited(given: dict[str, Any]) -> Any:
        return await function(**chosen(given))

    def called(given: dict[str, Any]) -> Any:
        return function(**chosen(given))

    one: Callable[[dict[str, Any]], Any] = awaited if is_async(function) else called
    if hasattr(function, "concurrency"):
        one.concurrency = function.concurrency  # type: ignore[attr-defined]  # read by `demur.core.worker.Calls`
    return one


def _plain(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()[:500]


def _retrieved(rank: int, value: Any) -> Retrieved:
    """A piece of what a function says it retrieved: an id (a string without spaces), a text, or a dict of both."""
    if not isinstance(value, Mapping):
        value = {"text" if " " in str(value).strip() else "id": value}
    text = str(value.get("text") or "").encode("utf-8", "replace").decode()
    score = value.get("score")
    return Retrieved(
        id=_plain(value.get("id", "")), rank=rank, score=None if score is None else float(score), text=text
    )


class Function:
    """A user's own function, called once per ask; what it raises is that ask's error and never ends the run.

    Args:
        argument: ``module:function``, with ``@REVISION`` where it has one; or the function itself.
        context: its surroundings.
        name: instead of the one made of module and function.
    """

    def __init__(self, argument: str | Callable[..., Any], context: SystemContext, *, name: str = "") -> None:
        if isinstance(argument, str):
            function, revision = named(argument)
            self.id = name or f"python:{argument.partition('@')[0]}"
        else:
            function, revision = argument, ""
            self.id = name or self.name_of(argument)
        self.note = ""
        self.reads_prompt = "strictness" in _parameters(function)
        """Of the prompt it is told the strictness at most, where it names it."""
        self.revision = code_digest(function, revision)
        self._calls = Calls(_taking_one(function), context.concurrency, self.id)
        self._read_image = context.read_image

    @staticmethod
    def name_of(function: Callable[..., Any]) -> str:
        """``python:module:name`` of a function at hand; of one of a script or notebook its name alone."""
        owner: Any = function if hasattr(function, "__qualname__") else type(function)
        module = getattr(owner, "__module__", None) or "__main__"
        return str(owner.__qualname__) if module == "__main__" else f"python:{module}:{owner.__qualname__}"

    def skip_reason(self, ask: Ask) -> str:
        """Anything."""
        return ""

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """It was imported; no more can be known before it is asked."""
        return []

    def _given(self, ask: Ask) -> dict[str, Any]:
        return {
            "id": ask.sample,
            "strictness": ask.condition,
            "corpus": "" if ask.scenario.shows_evidence else ask.scenario.value,
            "exclude": list(ask.exclude),
            "question": ask.question,
            "choices": list(ask.choices),
            "images": [self._read_image(i) for i in ask.images],
            "evidence": [
                {"id": e.id, "title": e.title, "text": e.text, "image": self._read_image(e.image) if e.image else None}
                for e in ask.evidence
            ],
        }

    async def answer(self, ask: Ask) -> Response:
        """Call the function, beside the loop that others' answers come by."""
        try:
            given = await asyncio.to_thread(self._given, ask)
        except DemurError as error:
            return Response(error=str(error), served_by=self.id)
        start = time.perf_counter()
        try:
            reply: Any = await self._calls.call(given)
        except Exception as error:  # a stranger's code may raise anything; it is recorded on this ask
            why = " ".join(f"{type(error).__name__}: {error}".split())[:1000]
            return Response(error=why.encode("utf-8", "replace").decode(), served_by=self.id)
        latency = time.perf_counter() - start
        reply = reply if isinstance(reply, dict) else {"answer": reply}
        answer, confidence = reply.get("answer"), reply.get("confidence")
        if not isinstance(answer, str):
            return Response(error=f"returned {type(answer).__name__}, not a string", served_by=self.id)
        if confidence is not None and not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
            return Response(error=f"confidence {confidence!r} is not a number from 0 to 1", served_by=self.id)
        answer = answer.encode("utf-8", "replace").decode()  # half a character can be kept nowhere
        try:
            return Response(
                text=answer, confidence=confidence, latency_s=latency, served_by=self.id,
                abstained=reply.get("abstained"),
                retrieved=tuple(_retrieved(rank, one) for rank, one in enumerate(reply.get("contexts") or (), 1)),
                citations=tuple(map(_plain, reply.get("citations") or ())),
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:300].encode("utf-8", "replace").decode()
            return Response(error=f"contexts, citations or abstained cannot be read: {why}", served_by=self.id)

    async def close(self) -> None:
        """Let its threads end."""
        await self._calls.close()
