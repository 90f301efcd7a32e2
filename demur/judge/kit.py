"""What a judge that asks a model needs from its surroundings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.calls import Budget


@dataclass
class JudgeKit:
    """Given by whoever opens a judge; one whose class says ``asks_models = True`` takes it as its second argument."""

    ledger: Path | None = None
    """Where its calls are kept and paid for once."""
    concurrency: int | None = None
    """Calls in flight per endpoint."""
    budget: Budget | None = None
    """Money that it may spend."""
    prices: Path | None = None
    """A price table that overlays the shipped one."""
