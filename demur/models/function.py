"""``python:module:function``: a Python function as a model.

The function takes a `Request` and returns a `Response` or a string; it may be ``async``. It runs beside the loop that
asks, a plain one on one thread unless more is asked for (`demur.core.worker.Calls`). It raises
`demur.core.errors.TransientError` to be asked again and `demur.core.errors.ItemError` for an item that it cannot
answer; anything else it raises stops the run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from demur.core.code import code_digest, named
from demur.core.errors import DemurError, ItemError, PermanentError, UsageError
from demur.core.records import Request, Response
from demur.core.worker import Calls
from demur.models import wire
from demur.models.wire import Fault


class FunctionBackend:
    """A function that answers requests.

    Args:
        name: ``python:module:function``.
        function: what it names.
        most: calls at once; see `demur.core.worker.Calls`.
        revision: what the user says of it beside its code.
    """

    def __init__(
        self, name: str, function: Callable[[Request], Any], most: int | None = None, revision: str = ""
    ) -> None:
        self.name = name
        self.revision = code_digest(function, revision)
        """Which code it is: its replies hold for this alone."""
        self._calls = Calls(function, most, name)

    @property
    def most(self) -> int:
        """Calls at once."""
        return self._calls.most

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; the answer in chat-completion form."""
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._calls.call(request)
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
                f"{self.name} returned {type(answer).__name__}", cure="return a demur.core.records.Response or a string"
            )
        if answer.error:
            raise ItemError(answer.error)
        return wire.reply_of(answer, self.name)

    async def close(self) -> None:
        """Let its threads end."""
        await self._calls.close()


def open_function(text: str, most: int | None = None) -> FunctionBackend:
    """The function that ``module:function`` names, or ``module:function@REVISION``.

    Raises:
        UsageError: there is no such module or function, or it takes something else than one request.
    """
    function, revision = named(text)
    with suppress(ValueError):  # a built-in that does not say what it takes
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise UsageError(
                f"cannot be called with a request: {error}", item=f"python:{text}", cure="let it take one Request"
            ) from None
    return FunctionBackend(f"python:{text.partition('@')[0]}", function, most, revision)
