"""Systems under test: whatever answers an `Ask`.

A system is named by text that parses back: ``reader``, ``reader:min=0.6``, ``model:openai/gpt-4o``,
``answers:FILE``, ``python:module:function`` or ``module:Class`` for a user's own; ``NAME=`` before it says what tables
and folders call it (``mine=http:rag.yaml``). Its file has a factory
``(argument, context) -> System``.
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
from demur.core.version import __version__
from demur.core.worker import Worker
from demur.scenarios.conditions import Prompts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.models import Budget


class System(Protocol):
    """The whole contract of a system under test."""

    id: str
    """Canonical name."""
    note: str
    """One honest line for manifests and reports: what it is and what it cannot do; may be empty."""

    @property
    def revision(self) -> str:
        """What its answers depend on beside its name and what it is shown: its code, its file, its weights, its pool.

        They are kept under id and revision together: an edited system is another system. A class of a user need not
        have it; its code and all that its `SystemContext` holds are taken.
        """
        ...

    def skip_reason(self, ask: Ask) -> str:
        """Why the system cannot be asked this (``text-only model`` ...); empty when it can."""
        ...

    async def answer(self, ask: Ask) -> Response:
        """Answer once.

        An item's failure comes back as ``Response(error=...)``; only a failure of the whole system (a wrong
        key, a dead server) is raised.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and models."""
        ...

    # Optional, beside ``revision``:
    # ``own_thread = False``: it only waits for others and computes next to nothing. Else it is asked on a thread of its
    # own (`ThreadedSystem`): what computes on the common loop holds up every connection.
    # ``reads_prompt``: whether it is shown the words of the condition; False lets reports mark its rows where prompts
    # are compared, and without it nothing is said of that.
    #
    # ``settings``: a dict for manifests of what its answers depend on beside its revision (sampling, layout).
    #
    # Optional: ``async def ready(asks: Sequence[Ask]) -> list[str]`` is called before anybody is asked anything, and
    # before anything long is computed. It raises a DemurError where the system cannot answer, and returns what is
    # worth a warning. ``asks`` is all that it will be asked; empty where that is not known yet.


SystemLike = str | System | Callable[..., Any]
"""Who is asked: a system by name, a function, or an object that answers."""


@dataclass
class SystemContext:
    """What a system may need from its surroundings, given by the pipeline so that rooms stay apart."""

    read_image: Callable[[ImageRef], bytes]
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]] | None = None
    """Sentence embeddings, (n texts) -> (n, d) float32, L2-normalised. Its attribute ``fingerprint``, a string, names
    the encoder and its weights."""
    recognise: Callable[[ImageRef], list[tuple[str, float]]] | None = None
    """Names of the things that look most like an image, best first, with cosine similarities. Its attribute
    ``fingerprint`` names encoder and images."""
    pool: Sequence[Sample] = ()
    """Questions with answers that a prior may learn from."""
    prompts: Prompts = field(default_factory=Prompts)
    ledger: Path | None = None
    """Where model calls are kept and paid for once."""
    concurrency: int | None = None
    """Calls at once, of each endpoint and each function; None for what suits each: 8, of a plain function 1."""
    budget: Budget | None = None
    """Money that all models of a command share."""
    prices: Path | None = None
    """A price table that overlays the shipped one."""
    options: dict[str, Any] = field(default_factory=dict)
    """Sampling of models (temperature, max_tokens ...) and layout, as the recipe or command gave them."""

    def of_encoder(self) -> str:
        """Names what `embed` and `recognise` were made of: systems that use no more hold for it."""
        return digest([__version__, *(getattr(f, "fingerprint", "") for f in (self.embed, self.recognise))], 16)

    def of_pool(self) -> str:
        """Names that, and the questions and answers of `pool`."""
        pool = [[s.id, s.question, s.answers.model_dump(mode="json")] for s in self.pool]
        return digest([self.of_encoder(), pool], 16)


class ThreadedSystem:
    """A system on a thread of its own: what it computes holds up nobody else's connections and time-outs.

    It is asked many things at once all the same; its answers alternate wherever it awaits.

    Args:
        inner: the system.
        revision: of it.
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
        """As the system itself says."""
        return str(self.inner.skip_reason(ask))

    async def ready(self, asks: Sequence[Ask]) -> list[str]:
        """As the system itself says, if it says anything."""
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


def taken_apart(system: SystemLike) -> tuple[str, SystemLike]:
    """The name that a user gave a system, "" without one, and the system itself.

    >>> taken_apart("mine=http:rag.yaml"), taken_apart("reader:min=0.6")
    (('mine', 'http:rag.yaml'), ('', 'reader:min=0.6'))
    """
    found = _NAMED.fullmatch(system) if isinstance(system, str) else None
    return (found[1], found[2]) if found else ("", system)


def name_of(system: SystemLike) -> str:
    """What a system is called before it is opened: its name, its id, or ``python:module:function``.

    Raises:
        UsageError: it is nothing that can be asked.
    """
    from demur.scenarios.systems.function import Function

    if isinstance(system, str):
        return taken_apart(system)[0] or system
    _refuse_old_method(system)
    if hasattr(system, "skip_reason") and hasattr(system, "answer"):
        at_hand: Any = system
        return str(at_hand.id)
    return Function.name_of(_function_of(system))


def _function_of(system: Any) -> Callable[..., Any]:
    """A function, or the method ``answer`` of a user's object that is no system otherwise."""
    for one in (system, getattr(system, "answer", None)):
        if callable(one):
            return cast("Callable[..., Any]", one)
    raise UsageError(f"{type(system).__name__} is no system", cure="give a name, a function, or an object with answer")


def open_system(system: SystemLike, context: SystemContext) -> System:
    """The system that a name stands for, or one at hand: an object with its methods, or a function.

    A function is called by ``name`` of the context's options, where that is given.

    Raises:
        UnknownPart: no system has that name; lists those that exist.
        UsageError: it cannot be opened like this.
    """
    from demur.scenarios.systems.function import Function

    _, system = taken_apart(system)
    if isinstance(system, str):
        factory, argument = plugins.find("systems", system)
        return _as_asked(factory(argument, context), context, code_digest(factory))
    name_of(system)  # says what is no system
    if hasattr(system, "skip_reason") and hasattr(system, "answer"):
        return _as_asked(system, context)
    return Function(_function_of(system), context, name=str(context.options.get("name", "")))


def _as_asked(system: Any, context: SystemContext, code: str = "") -> System:
    """A system as it is asked: on a thread of its own where it computes, with a revision where it has none.

    Args:
        system: of a user, or demur's own.
        context: what it was made with.
        code: digest of what made it; of its class when empty.
    """
    from demur.scenarios.systems.function import Function
    from demur.scenarios.systems.model import ModelSystem

    _refuse_old_method(system)
    if isinstance(system, ModelSystem | Function | ThreadedSystem):  # these see to their threads themselves
        return system
    revision = getattr(system, "revision", None)
    if revision is None:
        options = canonical({k: repr(v) for k, v in context.options.items()})
        return ThreadedSystem(system, digest([code or code_digest(system), options, context.of_pool()], 16))
    return ThreadedSystem(system, revision) if getattr(system, "own_thread", True) else system


def _refuse_old_method(system: Any) -> None:
    """Raise for a system written before ``takes`` was called ``skip_reason``."""
    if hasattr(system, "takes") and hasattr(system, "answer") and not hasattr(system, "skip_reason"):
        raise UsageError(
            f"{type(system).__name__} has a method takes(), which is called skip_reason() now",
            item=str(getattr(system, "id", "")), cure="rename the method; what it returns stays the same",
        )  # fmt: skip
