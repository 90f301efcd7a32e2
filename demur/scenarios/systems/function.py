"""A Python function as a system: ``python:module:function``.

The function takes a dict - ``question``, ``choices`` (list of (letter, text)), ``images`` (list of bytes), ``evidence``
(list of dicts with ``title``, ``text`` and ``image`` bytes or None); the scenario is *not* among them - and returns the
answer as a string, or a dict with ``answer`` and optionally ``confidence`` (0 to 1). It may be ``async``.

A plain function is called from one thread, one question after another. One that may be called by several at once says
so (``answer.concurrency = 8``), or the command does (``--concurrency 8``). An async one has 8 questions under way
unless told otherwise, all on one thread.

Its answers are kept for its code as it is: the files of its project, see `demur.code`. Where it depends on more than
that (an index, a service), a revision after its name says so: ``python:module:function@index-of-may``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from demur.code import code_digest, named
from demur.errors import DemurError
from demur.records import Ask, Response
from demur.worker import Calls

if TYPE_CHECKING:
    from demur.scenarios.systems import Kit


class Function:
    """A user's own function, called once per ask; what it raises is that ask's error and never ends the run."""

    reads_prompt = False

    def __init__(self, argument: str, kit: Kit) -> None:
        function, revision = named(argument)
        self.id = f"python:{argument.partition('@')[0]}"
        self.note = ""
        self.revision = code_digest(function, revision)
        self._calls = Calls(function, kit.concurrency, self.id)
        self._read_image = kit.read_image

    def takes(self, ask: Ask) -> str:
        """Anything."""
        return ""

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """It was imported; no more can be known before it is asked."""
        return []

    def _given(self, ask: Ask) -> dict[str, Any]:
        return {
            "question": ask.question,
            "choices": list(ask.choices),
            "images": [self._read_image(i) for i in ask.images],
            "evidence": [
                {"title": e.title, "text": e.text, "image": self._read_image(e.image) if e.image else None}
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
            said: Any = await self._calls.call(given)
        except Exception as error:  # a stranger's code may raise anything; it is recorded on this ask
            told = " ".join(f"{type(error).__name__}: {error}".split())[:1000]
            return Response(error=told.encode("utf-8", "replace").decode(), served_by=self.id)
        latency = time.perf_counter() - start
        said = said if isinstance(said, dict) else {"answer": said}
        answer, confidence = said.get("answer"), said.get("confidence")
        if not isinstance(answer, str):
            return Response(error=f"returned {type(answer).__name__}, not a string", served_by=self.id)
        if confidence is not None and not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
            return Response(error=f"confidence {confidence!r} is not a number from 0 to 1", served_by=self.id)
        answer = answer.encode("utf-8", "replace").decode()  # half a character can be kept nowhere
        return Response(text=answer, confidence=confidence, latency_s=latency, served_by=self.id)

    async def close(self) -> None:
        """Let its threads end."""
        await self._calls.close()
