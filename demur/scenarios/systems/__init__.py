"""Systems under test: whatever answers an `Ask`.

A system is named by text that parses back: ``reader``, ``reader:min=0.6``, ``model:openai/gpt-4o``,
``answers:FILE``, ``python:module:function`` or ``module:Class`` for a user's own. Its file has a factory
``(argument, kit) -> System``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from demur import __version__, plugins
from demur.code import code_digest
from demur.records import Ask, ImageRef, Response, Sample
from demur.scenarios.conditions import Prompts
from demur.store import canonical, digest
from demur.worker import Worker

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.calls import Budget


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
        have it; its code and all that its `Kit` holds are taken.
        """
        ...

    def takes(self, ask: Ask) -> str:
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

    # Optional, beside ``revision``: ``aside = False`` says that it only waits for others and computes next to nothing.
    # ``reads_prompt``: whether it is shown the words of the condition; False lets reports mark its rows where prompts
    # are compared, and without it nothing is said of that.
    # Else it is asked on a thread of its own (`Aside`): what computes on the common loop holds up every connection.
    #
    # Optional: ``async def ready(asks: Sequence[Ask]) -> list[str]`` is called before anybody is asked anything, and
    # before anything long is computed. It raises a DemurError where the system cannot answer, and returns what is
    # worth a warning. ``asks`` is all that it will be asked; empty where that is not known yet.


@dataclass
class Kit:
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


class Aside:
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
        self._worker = Worker(f"demur {inner.id}")
        self._closed = False

    def takes(self, ask: Ask) -> str:
        """As the system itself says."""
        return str(self.inner.takes(ask))

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


def open_system(text: str, kit: Kit) -> System:
    """The system that a name stands for.

    Raises:
        UnknownPart: no system has that name; lists those that exist.
        UsageError: it cannot be opened like this.
    """
    factory, argument = plugins.find("systems", text)
    return beside(factory(argument, kit), kit, code_digest(factory))


def beside(system: Any, kit: Kit, code: str = "") -> System:
    """A system as it is asked: on a thread of its own where it computes, with a revision where it has none.

    Args:
        system: of a user, or demur's own.
        kit: what it was made with.
        code: digest of what made it; of its class when empty.
    """
    from demur.scenarios.systems.function import Function
    from demur.scenarios.systems.model import ModelSystem

    if isinstance(system, ModelSystem | Function | Aside):  # these see to their threads themselves
        return system
    revision = getattr(system, "revision", None)
    if revision is None:
        options = canonical({k: repr(v) for k, v in kit.options.items()})
        return Aside(system, digest([code or code_digest(system), options, kit.of_pool()], 16))
    return Aside(system, revision) if getattr(system, "aside", True) else system
