"""``python:module:function``: a Python function as a model.

The function takes a `Request` and returns a `Response` or a string; it may be ``async``. It runs outside the caller's
event loop, a plain function on one thread by default (`demur.core.worker.Calls`). It raises
`demur.core.errors.TransientError` for another try and `demur.core.errors.ItemError` for an item that it cannot answer;
any other error stops the run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from demur.core.code import code_digest, function_named
from demur.core.errors import DemurError, ItemError, PermanentError, UsageError
from demur.core.records import Request, Response
from demur.core.worker import Calls
from demur.models import wire
from demur.models.wire import Fault


class FunctionBackend:
    """A function that answers requests.

    Args:
        name: ``python:module:function``.
        function: that function.
        most: calls at once; see `demur.core.worker.Calls`.
        revision: of the user, in addition to the code.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Request], Any],
        most: int | None = None,
        revision: str = "",
    ) -> None:
        self.name = name
        self.revision = code_digest(function, revision)
        """Digest of its code; part of the cache key."""
        self._calls = Calls(function, most, name)

    @property
    def most(self) -> int:
        """Calls at once."""
        return self._calls.most

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; the answer in chat-completion form."""
        try:
            async with asyncio.timeout(timeout_s) as clock:
                answer = await self._calls.call(request)
        except TimeoutError as error:
            reason = (
                f"no reply within {timeout_s:g} s"
                if clock.expired()
                else f"{self.name} raised TimeoutError: {error}"
            )
            raise Fault(reason, kind="timeout", paid=True) from error
        except DemurError:
            raise
        except Exception as error:
            raise PermanentError(
                f"{self.name} raised {type(error).__name__}: {error}",
                cure="fix it; for one bad item raise ItemError, for another try TransientError",
            ) from error
        if isinstance(answer, str):
            answer = Response(text=answer)
        if not isinstance(answer, Response):
            raise PermanentError(
                f"{self.name} returned {type(answer).__name__}",
                cure="return a demur.core.records.Response or a string",
            )
        if answer.error:
            raise ItemError(answer.error)
        return wire.reply_of(answer, self.name)

    async def close(self) -> None:
        """End its threads."""
        await self._calls.close()


def open_function(text: str, most: int | None = None) -> FunctionBackend:
    """The backend for ``module:function`` or ``module:function@REVISION``.

    Raises:
        UsageError: there is no such module or function, or it does not take one request.
    """
    function, revision = function_named(text)
    with suppress(ValueError):  # a built-in without a signature
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise UsageError(
                f"it cannot be called with a request: {error}",
                item=f"python:{text}",
                cure="give it one parameter",
            ) from None
    return FunctionBackend(f"python:{text.partition('@')[0]}", function, most, revision)
