"""Systems under test: whatever answers an `Ask`.

A system is named by text that parses back: ``reader``, ``reader:min=0.6``, ``model:openai/gpt-4o``,
``answers:FILE`` or ``module:Class`` for a user's own. Its file has a factory ``(argument, kit) -> System``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from demur import plugins
from demur.records import Ask, ImageRef, Response, Sample
from demur.scenarios.conditions import Prompts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.calls import Budget


class System(Protocol):
    """The whole contract of a system under test."""

    id: str
    """Canonical name; the key under which its answers are kept."""
    note: str
    """One honest line for manifests and reports: what it is and what it cannot do; may be empty."""

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


@dataclass
class Kit:
    """What a system may need from its surroundings, given by the pipeline so that rooms stay apart."""

    read_image: Callable[[ImageRef], bytes]
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]] | None = None
    """Sentence embeddings, (n texts) -> (n, d) float32, L2-normalised."""
    recognise: Callable[[ImageRef], list[tuple[str, float]]] | None = None
    """Names of the things that look most like an image, best first, with cosine similarities."""
    pool: Sequence[Sample] = ()
    """Questions with answers that a prior may learn from."""
    prompts: Prompts = field(default_factory=Prompts)
    ledger: Path | None = None
    """Where model calls are kept and paid for once."""
    concurrency: int = 8
    """Calls in flight per endpoint."""
    budget: Budget | None = None
    """Money that all models of a command share."""
    prices: Path | None = None
    """A price table that overlays the shipped one."""
    options: dict[str, Any] = field(default_factory=dict)
    """Sampling of models (temperature, max_tokens ...) and layout, as the recipe or command gave them."""


def open_system(text: str, kit: Kit) -> System:
    """The system that a name stands for.

    Raises:
        UnknownPart: no system has that name; lists those that exist.
    """
    factory, argument = plugins.find("systems", text)
    system: System = factory(argument, kit)
    return system
