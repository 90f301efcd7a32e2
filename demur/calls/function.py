"""``python:module:function``: a Python function as a model.

The function takes a `Request` and returns a `Response` or a string; it may be ``async``. A plain one runs in a
thread, so that slow ones do not hold up the others. It raises `demur.errors.TransientError` to be asked again and
`demur.errors.ItemError` for an item that it cannot answer; anything else it raises stops the run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from demur.calls import wire
from demur.calls.wire import Fault
from demur.errors import DemurError, ItemError, PermanentError, UsageError
from demur.records import Request, Response


class FunctionBackend:
    """A function that answers requests.

    Args:
        name: ``python:module:function``.
        function: what it names.
    """

    def __init__(self, name: str, function: Callable[[Request], Any]) -> None:
        self.name = name
        self._function = function
        self._awaits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an instance with an async __call__
        )

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; the answer in chat-completion form."""
        try:
            async with asyncio.timeout(timeout_s):
                answer = (
                    await self._function(request) if self._awaits else await asyncio.to_thread(self._function, request)
                )
                if isinstance(answer, Awaitable):
                    answer = await answer
        except TimeoutError as error:
            raise Fault(f"no reply within {timeout_s:g} s", kind="timeout", paid=True) from error
        except DemurError:
            raise
        except Exception as error:
            raise PermanentError(
                f"{self.name} raised {type(error).__name__}: {error}",
                cure="mend it; for one bad item it raises ItemError, to be asked again TransientError",
            ) from error
        if isinstance(answer, str):
            answer = Response(text=answer)
        if not isinstance(answer, Response):
            raise PermanentError(
                f"{self.name} returned {type(answer).__name__}", cure="return a demur.records.Response or a string"
            )
        if answer.error:
            raise ItemError(answer.error)
        return wire.reply_of(answer, self.name)

    async def close(self) -> None:
        """Nothing is held."""


def open_function(text: str) -> FunctionBackend:
    """The function that ``module:function`` names.

    Raises:
        UsageError: there is no such module or function.
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise UsageError(
            f"expected python:module:function, got 'python:{text}'", cure="name a module and a function in it"
        )
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not module.startswith(error.name):
            raise
        raise UsageError(f"there is no module {module!r}", cure="check the name and PYTHONPATH") from error
    try:
        for step in name.split("."):
            found = getattr(found, step)
    except AttributeError as error:
        raise UsageError(f"module {module!r} has no {name!r}", cure="check the spelling") from error
    if not callable(found):
        raise UsageError(f"{name!r} in {module!r} cannot be called", cure="name a function")
    return FunctionBackend(f"python:{text}", found)
