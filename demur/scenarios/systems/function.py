"""A Python function as a system: ``python:module:function``, or a function given to `demur.evaluate`.

The function takes what it names of these, or one dict of them all: ``question``, ``turns`` (what was said before it, a
list of dicts with ``role`` and ``content``), ``choices`` (list of (letter, text)), ``images`` (list of bytes),
``evidence`` (list of dicts with ``id``, ``title``, ``text`` and ``image`` bytes or None), ``id`` (of the question),
``strictness`` (of the prompting condition). The scenario is *not* among them; but of a system with its own retriever
(scenarios full, gold-removed, empty) ``corpus``, the name of the one to search, and ``exclude``, the ids to leave out.
It returns the answer as a string, or a dict with ``answer`` and more (``confidence``, ``contexts``, ``citations``,
``abstained`` ...: `demur.scenarios.systems.said.response_of`). It may be ``async``.

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
from demur.core.errors import DemurError, UsageError
from demur.core.records import Ask, Response
from demur.core.turns import as_messages
from demur.core.worker import Calls, is_async
from demur.scenarios.systems.said import passed_over, plain, response_of, see_said

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a function says it takes; nothing of a built-in that does not say."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


GIVEN = ("question", "turns", "choices", "images", "evidence", "id", "strictness", "corpus", "exclude")
"""What a function may name."""


def _check_parameters(function: Callable[..., Any], name: str) -> None:
    """See that a function can be called, once, before the first question would fail, and every other after it.

    Raises:
        UsageError: it wants something that it is not given.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in that does not say what it takes
    parameters = signature.parameters
    every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    one_by_one = {n: None for n in GIVEN if every or n in parameters}
    try:
        if "question" in parameters:
            signature.bind(**one_by_one)
        else:
            signature.bind({})
    except TypeError as error:
        raise UsageError(
            f"cannot be called with a question: {error}; its parameters are {', '.join(parameters) or 'none'}",
            item=name,
            cure=f"let it take question and any of {', '.join(GIVEN[1:])} by name, or one dict of them all",
        ) from None  # fmt: skip


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
        _check_parameters(function, self.id)
        self.note = ""
        self.reads_prompt = "strictness" in _parameters(function)
        """Of the prompt it is told the strictness at most, where it names it."""
        self.revision = code_digest(function, revision)
        parameters = _parameters(function).values()
        self._names = frozenset("**" if p.kind is p.VAR_KEYWORD else p.name for p in parameters)
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
        """It was imported; what it does not name it is not given, and that is told."""
        if "question" not in self._names or "**" in self._names:
            return []  # it takes everything
        given = {name: name in self._names for name in ("evidence", "images", "turns")}
        return passed_over(self.id, asks, **given, how="it names no {}")

    def _given(self, ask: Ask) -> dict[str, Any]:
        return {
            "id": ask.sample,
            "strictness": ask.condition,
            "corpus": ask.corpus,
            "exclude": list(ask.exclude),
            "question": ask.question,
            "turns": as_messages(ask.turns),
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
            return Response(error=plain(why), served_by=self.id)
        latency = time.perf_counter() - start
        try:
            return see_said(response_of(reply, served_by=self.id, latency_s=latency))
        except DemurError as error:
            return Response(error=plain(str(error))[:1000], served_by=self.id, latency_s=latency)

    async def close(self) -> None:
        """Let its threads end."""
        await self._calls.close()
