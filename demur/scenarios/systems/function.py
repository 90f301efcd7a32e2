"""A Python function as a system: ``python:module:function``, or a function given to `demur.evaluate`.

The function takes any of these by name, or one dict of them all: ``question``, ``turns`` (the conversation before it, a
list of dicts with ``role`` and ``content``), ``choices`` (list of (letter, text)), ``images`` (list of bytes),
``evidence`` (list of dicts with ``id``, ``title``, ``text`` and ``image`` bytes or None), ``id`` (of the question),
``strictness`` (of the prompting condition). The scenario is *not* among them; but a system with its own retriever
(scenarios full, gold-removed, empty) gets ``corpus``, the name of the one to search, and ``exclude``, the ids to leave
out. It returns the answer as a string, or a dict with ``answer`` and more (``confidence``, ``contexts``,
``citations``, ``abstained`` ...: `demur.scenarios.systems.replies.response_of`). It may be ``async``.

A plain function is called from one thread, one question after another. A thread-safe one says so
(``answer.concurrency = 8``), or the command does (``--concurrency 8``). An async one has 8 questions in flight unless
told otherwise, all on one thread.

Answers are cached under the function's code: the files of its project, see `demur.core.code`. If it depends on more
than that (an index, a service), add a revision to its name: ``python:module:function@index-of-may``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from demur.core.code import code_digest, function_named
from demur.core.errors import DemurError, UsageError
from demur.core.records import Ask, Response
from demur.core.turns import as_messages
from demur.core.worker import Calls, is_async
from demur.scenarios.systems.replies import reject_empty, response_of, storable, unused_inputs

if TYPE_CHECKING:
    from demur.scenarios.systems import SystemContext


GIVEN = (
    "question",
    "turns",
    "choices",
    "images",
    "evidence",
    "id",
    "strictness",
    "corpus",
    "exclude",
)
"""Parameters that a function may have."""


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function; None of a built-in without one."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _check_call(
    signature: inspect.Signature, parameter_names: Sequence[str] | None, name: str
) -> None:
    """Check once, before the first question, that a function can be called.

    Raises:
        UsageError: it has a parameter that demur does not know.
    """
    try:
        if parameter_names is None:
            signature.bind({})
        else:
            signature.bind(**dict.fromkeys(parameter_names))
    except TypeError as error:
        names = ", ".join(signature.parameters) or "none"
        raise UsageError(
            f"cannot be called with a question: {error}; its parameters are {names}",
            item=name,
            cure=f"let it take question and any of {', '.join(GIVEN[1:])} by name, or one dict of them all",
        ) from None


def _with_one_argument(
    function: Callable[..., Any], parameter_names: Sequence[str] | None
) -> Callable[[dict[str, Any]], Any]:
    """The function as one that takes a single dict; ``parameter_names``: what it takes by name, None if it takes a dict."""
    if parameter_names is None:
        return function

    async def awaited(arguments: dict[str, Any]) -> Any:
        return await function(**{name: arguments[name] for name in parameter_names})

    def called(arguments: dict[str, Any]) -> Any:
        return function(**{name: arguments[name] for name in parameter_names})

    with_one_argument: Callable[[dict[str, Any]], Any] = awaited if is_async(function) else called
    if hasattr(function, "concurrency"):
        with_one_argument.concurrency = function.concurrency  # type: ignore[attr-defined]  # read by `demur.core.worker.Calls`
    return with_one_argument


class Function:
    """A user's own function, called once per ask; what it raises is that ask's error and never ends the run.

    Args:
        argument: ``module:function``, optionally with ``@REVISION``; or the function itself.
        context: its surroundings.
        name: instead of the one made of module and function.
    """

    def __init__(
        self, argument: str | Callable[..., Any], context: SystemContext, *, name: str = ""
    ) -> None:
        if isinstance(argument, str):
            function, revision = function_named(argument)
            self.id = name or f"python:{argument.partition('@')[0]}"
        else:
            function, revision = argument, ""
            self.id = name or self.name_of(argument)
        signature = _signature(function)
        parameters = signature.parameters if signature else {}
        takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._wanted = (
            [n for n in GIVEN if takes_any_name or n in parameters]
            if parameters.keys() & set(GIVEN)
            else None
        )
        if signature:
            _check_call(signature, self._wanted, self.id)
        self.note = ""
        self.reads_prompt = "strictness" in parameters
        """Of the prompt a function gets at most the strictness."""
        self.revision = code_digest(function, revision)
        self._calls = Calls(
            _with_one_argument(function, self._wanted), context.concurrency, self.id
        )
        self._read_image = context.read_image

    @staticmethod
    def name_of(function: Callable[..., Any]) -> str:
        """``python:module:name`` of a function object; its name alone when a script or notebook defines it.

        Lambdas and partial functions have a digest of their code behind it, so that no two share a run folder.
        """
        owner: Any = function if hasattr(function, "__qualname__") else type(function)
        module = getattr(owner, "__module__", None) or "__main__"
        name = str(owner.__qualname__)
        if name.endswith("<lambda>") or isinstance(function, partial):  # many have this name
            name += f"-{code_digest(function)[:8]}"
        return name if module == "__main__" else f"python:{module}:{name}"

    def skip_reason(self, ask: Ask) -> str:
        """It is asked everything."""
        return ""

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """Warn about parts of the questions that the function has no parameter for."""
        if self._wanted is None:
            return []  # it takes everything
        inputs_taken = {name: name in self._wanted for name in ("evidence", "images", "turns")}
        return unused_inputs(self.id, asks, **inputs_taken, reason="it has no parameter {}")

    def _arguments_of(self, ask: Ask) -> dict[str, Any]:
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
                {
                    "id": e.id,
                    "title": e.title,
                    "text": e.text,
                    "image": self._read_image(e.image) if e.image else None,
                }
                for e in ask.evidence
            ],
        }

    async def answer(self, ask: Ask) -> Response:
        """Call the function, outside the event loop of other systems."""
        try:
            arguments = await asyncio.to_thread(self._arguments_of, ask)
        except DemurError as error:
            return Response(error=str(error), served_by=self.id)
        start = time.perf_counter()
        try:
            reply: Any = await self._calls.call(arguments)
        except Exception as error:  # user code may raise anything; it is recorded on this ask
            why = " ".join(f"{type(error).__name__}: {error}".split())[:1000]
            return Response(error=storable(why), served_by=self.id)
        latency = time.perf_counter() - start
        try:
            return reject_empty(response_of(reply, served_by=self.id, latency_s=latency))
        except DemurError as error:
            return Response(error=storable(str(error))[:1000], served_by=self.id, latency_s=latency)

    async def close(self) -> None:
        """End its threads."""
        await self._calls.close()
