"""Totals over parts, every part alike: not the sample-weighted total of all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demur.core.records import Measure


def macro(values: Iterable[float | None]) -> float | None:
    """Plain mean of the values that exist; None without any."""
    known_values = [v for v in values if v is not None]
    return sum(known_values) / len(known_values) if known_values else None


def macro_total(parts: Sequence[Measure]) -> Measure:
    """The mean over parts, each counted alike whatever its size: ``macro-total(<name>)``, without an interval."""
    names = "/".join(sorted({m.name for m in parts})) or "nothing"
    sums = {
        name: sum(getattr(m, name) for m in parts)
        for name in ("n", "repeats", "unjudged", "failed")
    }
    return Measure(name=f"macro-total({names})", value=macro(m.value for m in parts), **sums)
