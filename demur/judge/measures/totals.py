"""Totals over parts: weighted by items, or every part alike. Two numbers with two names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demur.core.records import Measure


def weighted(parts: Sequence[tuple[float | None, float]]) -> float | None:
    """Mean of (value, weight) pairs, weighted; parts without a value are left out. None when no weight remains.

    >>> round(weighted([(62.8, 1646), (80.0, 826)]), 2)
    68.55
    """
    weighted_values = [(v, w) for v, w in parts if v is not None and w > 0]
    total = sum(w for _, w in weighted_values)
    return sum(v * w for v, w in weighted_values) / total if total else None


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
