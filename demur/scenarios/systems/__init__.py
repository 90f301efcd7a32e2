"""Systems under test: whatever answers an `Ask`.

Text names a system: ``reader``, ``reader?min=0.6``, ``model:openai/gpt-4o``, ``answers:FILE``,
``python:module:function`` or ``module:Class`` for a user's own; ``NAME=`` before it sets its name in tables and folders
(``mine=http:rag.yaml``). Each kind has a factory ``(argument, context) -> System``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from demur.core import plugins
from demur.core.code import code_digest
from demur.core.errors import UsageError
from demur.core.records import Ask, ImageRef, Response, Sample
from demur.core.store import canonical, digest
from demur.core.worker import Worker
from demur.scenarios.conditions import Prompts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.models import Budget


class System(Protocol):
    """The whole contract of a system under test.

    Besides its members, a system may have:

    - ``own_thread = False``: it computes next to nothing and only waits for others. Any other system runs on a thread
      of its own (`ThreadedSystem`), so that it does not block the event loop of the connections.
    - ``reads_prompt``: whether the condition's words reach it. Reports mark a system with False where they compare
      prompts.
    - ``settings``: a dict for manifests, of what its answers depend on besides its revision (sampling, layout).
    - ``async def ready(asks: Sequence[Ask]) -> list[str]``: called before any question is asked or anything long is
      computed. It raises a DemurError when the system cannot answer, and returns warnings. ``asks`` holds all
      questions, or none if they are not known yet.
    """

    id: str
    """Canonical name."""
    note: str
    """One line for manifests and reports: what it is and what it cannot do; may be empty."""

    @property
    def revision(self) -> str:
        """What its answers depend on besides its name and input: its code, its file, its weights, its pool.

        Answers are kept under id and revision: an edited system is another system. A user's class may lack it; then
        demur hashes its code and everything in its `SystemContext`.
        """
        ...

    def skip_reason(self, ask: Ask) -> str:
        """Why the system cannot be asked this (``text-only model`` ...); empty when it can."""
        ...

    async def answer(self, ask: Ask) -> Response:
        """Answer once.

        An item's failure is returned as ``Response(error=...)``; only a failure of the whole system (a wrong
        key, a dead server) is raised.
        """
        ...

    async def close(self) -> None:
        """Release connections and models."""
        ...


SystemLike = str | System | Callable[..., Any]
"""A system by name, a function, or an object with ``answer``."""


@dataclass
class SystemContext:
    """What a system may need from its surroundings."""

    read_image: Callable[[ImageRef], bytes]
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]] | None = None
    """Sentence embeddings, (n texts) -> (n, d) float32, L2-normalised. Its attribute ``fingerprint`` identifies the
    encoder and its weights."""
    recognise: Callable[[ImageRef], list[tuple[str, float]]] | None = None
    """Captions of the images most similar to an image, best first, with cosine similarities. Its attribute
    ``fingerprint`` identifies encoder and images."""
    pool: Sequence[Sample] = ()
    """Questions with answers that a prior may learn from."""
    prompts: Prompts = field(default_factory=Prompts)
    ledger: Path | None = None
    """Ledger of model calls, so that none is paid twice."""
    concurrency: int | None = None
    """Calls at once per endpoint and function; None for 8, or 1 of a plain function."""
    budget: Budget | None = None
    """Money, shared by all models of a command."""
    prices: Path | None = None
    """Price table that overrides the built-in one."""
    options: dict[str, Any] = field(default_factory=dict)
    """Sampling of models (temperature, max_tokens ...) and layout, from the recipe or command."""

    def of_encoder(self) -> str:
        """Revision of `embed` and `recognise`."""
        return digest([getattr(f, "fingerprint", "") for f in (self.embed, self.recognise)], 16)

    def of_pool(self) -> str:
        """Revision of `embed`, `recognise` and `pool`."""
        pool = [[s.id, s.question, s.answers.model_dump(mode="json")] for s in self.pool]
        return digest([self.of_encoder(), pool], 16)


class ThreadedSystem:
    """A system on a thread of its own, so that its computation blocks no connection or time-out.

    Its answers may still interleave wherever it awaits.
    """

    def __init__(self, inner: Any, revision: str) -> None:
        self.inner = inner
        self.id: str = inner.id
        self.note: str = inner.note
        self.revision = revision
        self.reads_prompt: bool | None = getattr(inner, "reads_prompt", None)
        self.settings: dict[str, Any] | None = getattr(inner, "settings", None)
        self._worker = Worker(f"demur {inner.id}")
        self._closed = False

    def skip_reason(self, ask: Ask) -> str:
        """The system's own."""
        return str(self.inner.skip_reason(ask))

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """The system's own warnings, if it has any."""
        ask = getattr(self.inner, "ready", None)
        return [] if ask is None else list(await self._worker.run(ask(asks)))

    async def answer(self, ask: Ask) -> Response:
        """The system's answer."""
        self._closed = False
        return await self._worker.run(self.inner.answer(ask))

    async def close(self) -> None:
        """Close the system, once, and end its thread."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._worker.run(self.inner.close())
        finally:
            await self._worker.close()


_NAMED = re.compile(r"(\w[\w.-]{0,99})=(.+)", re.DOTALL)


def split_name(system: SystemLike) -> tuple[str, SystemLike]:
    """Split ``NAME=SYSTEM`` into name ("" without one) and system.

    >>> split_name("mine=http:rag.yaml"), split_name("reader?min=0.6")
    (('mine', 'http:rag.yaml'), ('', 'reader?min=0.6'))
    """
    match = _NAMED.fullmatch(system) if isinstance(system, str) else None
    return (match[1], match[2]) if match else ("", system)


def name_of(system: SystemLike) -> str:
    """The name of a system before it is opened: the user's, its id, or ``python:module:function``.

    Raises:
        UsageError: it is not a system.
    """
    from demur.scenarios.systems.function import Function

    if isinstance(system, str):
        return split_name(system)[0] or system
    if hasattr(system, "skip_reason") and hasattr(system, "answer"):
        at_hand: Any = system
        return str(at_hand.id)
    return Function.name_of(_function_of(system))


def _function_of(system: Any) -> Callable[..., Any]:
    """A function, or the method ``answer`` of an object that is not a whole system."""
    for candidate in (system, getattr(system, "answer", None)):
        if callable(candidate):
            return cast("Callable[..., Any]", candidate)
    raise UsageError(
        f"{type(system).__name__} is not a system",
        cure="give a name, a function, or an object with answer",
    )


def open_system(system: SystemLike, context: SystemContext) -> System:
    """Open a system: by name, or from an object or a function.

    The option ``name`` of the context, if given, names a function.

    Raises:
        UnknownPart: no system has that name; lists those that exist.
        UsageError: the system rejects its argument or context.
    """
    from demur.scenarios.systems.function import Function

    _, system = split_name(system)
    if isinstance(system, str):
        factory, argument = plugins.find("systems", system)
        return _prepare(factory(argument, context), context, code_digest(factory))
    name_of(system)  # rejects what is not a system
    if hasattr(system, "skip_reason") and hasattr(system, "answer"):
        return _prepare(system, context)
    return Function(_function_of(system), context, name=str(context.options.get("name", "")))


def _prepare(system: Any, context: SystemContext, code: str = "") -> System:
    """Give a system a thread of its own if it computes, and a revision if it has none.

    Args:
        system: a user's, or demur's own.
        context: what it was made with.
        code: digest of its factory; of its class when empty.
    """
    from demur.scenarios.systems.function import Function
    from demur.scenarios.systems.model import ModelSystem

    if isinstance(
        system, ModelSystem | Function | ThreadedSystem
    ):  # these manage their own threads
        return system
    revision = getattr(system, "revision", None)
    if revision is None:
        options = canonical({k: repr(v) for k, v in context.options.items()})
        return ThreadedSystem(
            system, digest([code or code_digest(system), options, context.of_pool()], 16)
        )
    return ThreadedSystem(system, revision) if getattr(system, "own_thread", True) else system
