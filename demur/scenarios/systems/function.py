"""A Python function as a system: ``python:module:function``.

The function takes a dict - ``question``, ``images`` (list of bytes), ``evidence`` (list of dicts with ``title``,
``text`` and ``image`` bytes or None), ``scenario`` is *not* among them - and returns the answer as a string, or
a dict with ``answer`` and optionally ``confidence`` (0 to 1). It may be ``async``.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.errors import UsageError
from demur.records import Ask, Response

if TYPE_CHECKING:
    from demur.scenarios.systems import Kit


class Function:
    """A user's own function, called once per ask; what it raises is that ask's error and never ends the run."""

    def __init__(self, argument: str, kit: Kit) -> None:
        module, _, name = argument.partition(":")
        if not module or not name:
            raise UsageError(f"python:{argument}", cure="write python:module:function")
        if str(Path.cwd()) not in sys.path:  # as `python -m` does: the user's file lies in the current folder
            sys.path.insert(0, str(Path.cwd()))
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise UsageError(str(error), item=f"python:{argument}", cure="check the module's name and path") from error
        if not callable(function):
            raise UsageError("that is not a function", item=f"python:{argument}", cure="name a function")
        self.id = f"python:{argument}"
        self.note = ""
        self._function = function
        self._read_image = kit.read_image

    def takes(self, ask: Ask) -> str:
        """Anything."""
        return ""

    async def answer(self, ask: Ask) -> Response:
        """Call the function; a plain one runs in a thread so that others go on meanwhile."""
        given = {
            "question": ask.question,
            "choices": list(ask.choices),
            "images": [self._read_image(i) for i in ask.images],
            "evidence": [
                {"title": e.title, "text": e.text, "image": self._read_image(e.image) if e.image else None}
                for e in ask.evidence
            ],
        }
        start = time.perf_counter()
        try:
            if inspect.iscoroutinefunction(self._function):
                said: Any = await self._function(given)
            else:
                said = await asyncio.to_thread(self._function, given)
        except Exception as error:  # a stranger's code may raise anything; it is recorded on this ask
            return Response(error=f"{type(error).__name__}: {error}".splitlines()[0], served_by=self.id)
        latency = time.perf_counter() - start
        said = said if isinstance(said, dict) else {"answer": said}
        answer, confidence = said.get("answer"), said.get("confidence")
        if not isinstance(answer, str):
            return Response(error=f"returned {type(answer).__name__}, not a string", served_by=self.id)
        if confidence is not None and not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
            return Response(error=f"confidence {confidence!r} is not a number from 0 to 1", served_by=self.id)
        return Response(text=answer, confidence=confidence, latency_s=latency, served_by=self.id)

    async def close(self) -> None:
        """Nothing to let go of."""
