"""Confidence intervals, each with a canonical text that parses back.

``wilson(0.95)`` treats items as independent. ``cluster-bootstrap(0.95,2000,seed=7)`` draws whole clusters (what
samples share: an entity, an image), because items of one cluster are right or wrong together. ``auto(0.95)`` is
the first when no two items share a cluster and the second when some do; a `Measure` names the one that was used.

An item is one item however often it was asked: it counts with the mean over its repeats (`repeats.py`).
Wilson's interval takes the variance of an item to be p(1-p), the most that a mean within [0, 1] can have, so that it
is never too narrow for means over repeats; the bootstrap resamples the means themselves and gains from what repeats
settle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from demur.core.errors import UsageError
from demur.core.stats import Codes, Floats, cluster_sums, is_point, percentile, resampled, wilson


@dataclass(frozen=True)
class Wilson:
    """Wilson's score interval for a share of independent items (Wilson 1927).

    Args:
        level: between 0 and 1, the share of intervals that hold the true value.
    """

    level: float = 0.95

    def __str__(self) -> str:
        return f"wilson({self.level:g})"


@dataclass(frozen=True)
class ClusterBootstrap:
    """Percentile interval over resampled clusters; the same seed gives the same interval on every machine.

    Args:
        level: between 0 and 1.
        draws: resamples.
        seed: of `numpy.random.PCG64`.
    """

    level: float = 0.95
    draws: int = 2000
    seed: int = 0

    def __str__(self) -> str:
        return f"cluster-bootstrap({self.level:g},{self.draws},seed={self.seed})"


@dataclass(frozen=True)
class Auto:
    """Wilson where items are independent, cluster bootstrap where they share clusters."""

    level: float = 0.95
    draws: int = 2000
    seed: int = 0

    def __str__(self) -> str:
        return f"auto({self.level:g},{self.draws},seed={self.seed})"


Interval: TypeAlias = Wilson | ClusterBootstrap | Auto
_KINDS: dict[str, type[Wilson] | type[ClusterBootstrap] | type[Auto]] = {
    "wilson": Wilson,
    "cluster-bootstrap": ClusterBootstrap,
    "auto": Auto,
}
_TEXT = re.compile(r"\s*([a-z-]+)\s*(?:\(([^()]*)\))?\s*")


def interval(text: str | Interval) -> Interval:
    """The interval method that a text names.

    >>> str(interval("cluster-bootstrap(0.9, seed=7)"))
    'cluster-bootstrap(0.9,2000,seed=7)'
    >>> interval(str(interval("wilson"))) == Wilson(0.95)
    True

    Raises:
        UsageError: no such method, or an argument it does not take.
    """
    if not isinstance(text, str):
        return text
    match = _TEXT.fullmatch(text)
    if not match or match[1] not in _KINDS:
        raise UsageError(
            f"no interval method {text!r}",
            cure=f"one of: {', '.join(str(k()) for k in _KINDS.values())}",
        )
    kind, arguments = _KINDS[match[1]], {}
    names = ["level"] if kind is Wilson else ["level", "draws", "seed"]
    try:
        for place, word in enumerate(w.strip() for w in (match[2] or "").split(",") if w.strip()):
            name, equals, value = word.partition("=")
            name, value = (name.strip(), value) if equals else (names[place], name)
            if name not in names or name in arguments:
                raise ValueError(f"takes {', '.join(names)} once each, not {name!r}")
            arguments[name] = float(value) if name == "level" else int(value)
        method = kind(**arguments)  # type: ignore[arg-type]  # names and types were checked above
        if not 0 < method.level < 1 or (
            not isinstance(method, Wilson) and (method.draws < 1 or method.seed < 0)
        ):
            raise ValueError("level lies between 0 and 1, draws is at least 1, seed at least 0")
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"interval method {text!r}: {error}", cure=f"write it like {kind()}"
        ) from error
    return method


class Ends(NamedTuple):
    """An interval and the canonical text of the method that it came from."""

    low: float | None
    high: float | None
    method: str


FEW = 10
"""Cases, of what is counted or of the rest, below which resamples of clusters spread too little."""
NOTHING = Ends(None, None, "")
"""The interval of a share of no items."""


def of_shares(hits: Sequence[Floats], cluster: Codes, method: Interval) -> list[Ends]:
    """Intervals of several shares of the same items, from the same resamples.

    Where the resamples do not spread (a share of exactly 0 or 1, a single cluster, clusters that are all alike) the
    percentile interval would be a point, as if one were certain; from a few cases (`FEW`) it is too narrow, so that one
    hallucination would look surer than none. With ``auto`` such a share gets Wilson's interval with the clusters as its
    items, which is wide enough even if all items of a cluster go together, and no less than the percentiles.

    Args:
        hits: float64 [items] in [0, 1] for each share: how much of the item counts (the mean over its draws).
        cluster: int64 [items].
        method: how.
    """
    n = len(cluster)
    if n == 0:
        return [NOTHING] * len(hits)
    clusters = 0
    if automatic := isinstance(method, Auto):
        clusters = len(np.unique(cluster))
        every_item_alone = clusters == n
        method = (
            Wilson(method.level)
            if every_item_alone
            else ClusterBootstrap(method.level, method.draws, method.seed)
        )
    if isinstance(method, Wilson):
        return [_ends(wilson(float(h.sum()), n, method.level), str(method)) for h in hits]
    totals = resampled(cluster_sums(cluster, *hits, np.ones(n)), method.draws, method.seed)
    intervals = []
    for i, h in enumerate(hits):
        ends = percentile(totals[:, i] / totals[:, -1], method.level)
        cases = min(float(h.sum()), n - float(h.sum()))
        if automatic and (ends is None or is_point(*ends) or cases < FEW):
            share = round(float(h.sum()) / n, 12)
            low, high = wilson(share * clusters, clusters, method.level) or (0.0, 1.0)
            pair = (low, high) if ends is None else (min(low, ends[0]), max(high, ends[1]))
            intervals.append(_ends(pair, str(Wilson(method.level))))
        else:
            intervals.append(_ends(ends, str(method)))
    return intervals


def _ends(pair: tuple[float, float] | None, method: str) -> Ends:
    return NOTHING if pair is None else Ends(*pair, method)
