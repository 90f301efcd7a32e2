"""Convergence of the filter, and how what it leaves ages (VLM-DeflectionBench, appendix D and Fig. 5).

All of it follows from one table: the label of every gate and monitor on every sample of the pool, without evidence.
Gates are added weakest first (or in an order given). A *round* is the pool after some of them: how many samples are
left, and how the monitors, which decide nothing, behave on those.

The forecast asks how many samples one more gate would take. Two answers, because they assume different things:

``like these``
    The next gate is drawn from the same kind as the present ones. Then what it takes is what a gate takes that is left
    out and put in last: the mean over gates of the samples that it alone knows (the first-order jackknife of Burnham
    and Overton 1978 for species seen in one of several quadrats).
``stronger``
    The next gate is as much stronger than the strongest as each was, on average, than the one before it. Then the
    share that it takes of what is left follows the trend of the shares taken so far, on the logit scale.

Intervals are percentiles over resampled samples and, since a few gates are a small sample of all gates, over resampled
gates too: with three or four gates they are wide, and that is the honest width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from demur.curation.gate import Label, Parametric, unknown_without_evidence
from demur.errors import UsageError
from demur.records import Record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Table = Mapping[str, Mapping[str, Label]]
"""Sample -> gate or monitor -> label without evidence."""


class Rates(Record):
    """A system's behaviour on the samples left; None where it could be asked none of them."""

    accuracy: float | None
    deflection: float | None
    hallucination: float | None
    n: int


class Round(Record):
    """The pool after some gates."""

    gates: tuple[str, ...]
    size: int
    """Samples left."""
    changed: float | None
    """Share of the samples left before that the last gate took, in [0, 1]; None before the first."""
    monitors: dict[str, Rates]


class Survival(Record):
    """What is left of the pool up to a strength."""

    gate: str
    strength: float
    """Share of the whole pool that the gate answers without evidence."""
    left: float
    """Share of the pool that no gate up to it answers."""
    low: float
    high: float
    """Wilson's 95 % interval of ``left``."""


class Forecast(Record):
    """Samples that one more gate would take of those left."""

    kind: str
    """``like these`` or ``stronger``."""
    strength: float | None
    """Of the next gate, where the forecast assumes one."""
    taken: float
    share: float
    """Of the samples left."""
    low: float
    high: float
    """95 % interval of ``taken``."""


class Convergence(Record):
    """Everything about how the filter converges."""

    gates: tuple[str, ...]
    """In the order in which they were added."""
    pool: int
    rounds: tuple[Round, ...]
    threshold: float
    converged_after: int | None
    """Fewest gates after which each further one takes less than ``threshold`` of what is left; None: not yet."""
    survival: tuple[Survival, ...]
    forecasts: tuple[Forecast, ...]
    first_knew: dict[str, int]
    """Gate -> samples that it was the first to know; "" -> those that none knows."""


class _Order(NamedTuple):
    names: tuple[str, ...]
    strength: dict[str, float]


def strength(table: Table, gate: str) -> float:
    """Share of the pool that a gate answers correctly without evidence."""
    return sum(row[gate] is Label.CORRECT for row in table.values()) / max(1, len(table))


def weakest_first(table: Table, gates: Sequence[str]) -> tuple[str, ...]:
    """Gates by strength, then by name."""
    return tuple(sorted(gates, key=lambda g: (strength(table, g), g)))


def first_to_know(table: Table, order: Sequence[str]) -> dict[str, str]:
    """Sample -> the first gate that answers it without evidence; "" where none does."""
    return {s: next((g for g in order if row[g] is Label.CORRECT), "") for s, row in table.items()}


def converge(
    table: Table,
    gates: Sequence[str],
    monitors: Sequence[str],
    *,
    order: Sequence[str] | None = None,
    rule: Parametric = "not_correct",
    threshold: float = 0.02,
    draws: int = 1000,
    seed: int = 0,
) -> Convergence:
    """Add gates one by one and see what is left.

    Args:
        table: every label; a sample that lacks one is an error.
        gates: who decides.
        monitors: who is watched; may be gates.
        order: in which gates are added; weakest first when None.
        rule: of Stage I.
        threshold: share of what is left, in [0, 1], below which a further gate changes nothing that matters.
        draws: resamples for the intervals of the forecasts.
        seed: of the resamples.

    Raises:
        UsageError: no samples or gates, ``order`` is not one of the gates, or a label is missing.
    """
    if not table or not gates:
        raise UsageError("nothing to add: no samples or no gates", cure="give a pool and gates")
    if order is not None and sorted(order) != sorted(gates):
        raise UsageError(
            f"the order {', '.join(order)} is not one of the gates", cure=f"name {', '.join(gates)}, each once"
        )
    if missing := next((s for s, row in table.items() if any(g not in row for g in (*gates, *monitors))), None):
        raise UsageError("a label without evidence is missing", item=missing, cure="ask every gate everything")
    added = tuple(order) if order is not None else weakest_first(table, gates)
    rounds = []
    before: int | None = None
    for i in range(len(added) + 1):
        left = [
            s for s, row in table.items() if not i or unknown_without_evidence({g: row[g] for g in added[:i]}, rule)
        ]
        changed = None if before is None else (before - len(left)) / before if before else 0.0
        rounds.append(Round(
            gates=added[:i], size=len(left), changed=None if changed is None else round(changed, 6),
            monitors={m: _rates([table[s][m] for s in left]) for m in monitors},
        ))  # fmt: skip
        before = len(left)
    known = first_to_know(table, added)
    counts = {g: sum(first == g for first in known.values()) for g in (*added, "")}
    return Convergence(
        gates=added, pool=len(table), rounds=tuple(rounds), threshold=threshold,
        converged_after=_converged(rounds, threshold), survival=_survival(table, added),
        forecasts=forecast(table, added, draws=draws, seed=seed), first_knew=counts,
    )  # fmt: skip


def _rates(labels: Sequence[Label]) -> Rates:
    graded = [v for v in labels if v in (Label.CORRECT, Label.INCORRECT, Label.DEFLECTED)]
    n = len(graded)

    def share(label: Label) -> float | None:
        return round(sum(v is label for v in graded) / n, 6) if n else None

    return Rates(
        accuracy=share(Label.CORRECT), deflection=share(Label.DEFLECTED), hallucination=share(Label.INCORRECT), n=n
    )


def _converged(rounds: Sequence[Round], threshold: float) -> int | None:
    """A last gate that still took much shows that it has not converged: nothing after it was tried."""
    small = [r.changed is not None and r.changed < threshold for r in rounds]
    for i in range(1, len(rounds) - 1):
        if all(small[i + 1 :]):
            return i
    return None


def _survival(table: Table, order: Sequence[str]) -> tuple[Survival, ...]:
    n, out = len(table), []
    by_strength = weakest_first(table, order)
    for i, gate in enumerate(by_strength, 1):
        left = sum(all(row[g] is not Label.CORRECT for g in by_strength[:i]) for row in table.values())
        low, high = _wilson(left, n)
        out.append(
            Survival(gate=gate, strength=round(strength(table, gate), 6), left=round(left / n, 6), low=low, high=high)
        )
    return tuple(out)


def _wilson(hits: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    share, z2 = hits / n, z * z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return round(max(0.0, centre - half), 6), round(min(1.0, centre + half), 6)


# --- what the next gate would take ---------------------------------------------------------------


def forecast(table: Table, gates: Sequence[str], *, draws: int = 1000, seed: int = 0) -> tuple[Forecast, ...]:
    """How many samples one more gate would take; empty with fewer than two gates.

    Args:
        table: every label.
        gates: those there are.
        draws: resamples.
        seed: of them.
    """
    import numpy as np

    if len(gates) < 2:
        return ()
    order = weakest_first(table, gates)
    knows = np.array([[row[g] is Label.CORRECT for g in order] for row in table.values()], dtype=bool)
    n, m = knows.shape
    left = int((~knows.any(axis=1)).sum())
    alike, ahead, strong = _unique(knows), _trend(knows), _next_strength(knows)
    dice = np.random.default_rng(seed)
    many_alike, many_ahead = [], []
    for _ in range(draws):
        rows = knows[dice.integers(0, n, n)]
        some = np.sort(dice.integers(0, m, m))
        unique = rows.sum(axis=1) == 1
        alone = np.array([(rows[:, g] & unique).sum() for g in range(m)], dtype=float)
        # what a gate takes varies from gate to gate, and by chance: both are in the spread of a single future gate
        pick = alone[some].mean() + (alone[dice.integers(0, m)] - alone.mean())
        many_alike.append(max(0.0, float(pick)))
        remaining = float((~rows.any(axis=1)).sum())
        many_ahead.append(remaining * _trend(rows, some if len(set(some.tolist())) > 1 else None))
    out = []
    for kind, taken, many, at in (
        ("like these", alike, many_alike, None),
        ("stronger", left * ahead, many_ahead, strong),
    ):
        low, high = np.percentile(many, [2.5, 97.5])
        out.append(Forecast(
            kind=kind, strength=None if at is None else round(at, 6), taken=round(min(taken, left), 3),
            share=round(min(taken, left) / left, 6) if left else 0.0, low=round(float(min(low, left)), 3),
            high=round(float(min(high, left)), 3),
        ))  # fmt: skip
    return tuple(out)


def _unique(knows: npt.NDArray[np.bool_]) -> float:
    """Mean over gates of the samples that a gate alone knows."""
    return float((knows.sum(axis=1) == 1).sum() / knows.shape[1])


def _next_strength(knows: npt.NDArray[np.bool_]) -> float:
    strengths = knows.mean(axis=0)
    step = (strengths[-1] - strengths[0]) / (len(strengths) - 1)
    return float(min(1.0, strengths[-1] + step))


def _trend(knows: npt.NDArray[np.bool_], points: npt.NDArray[np.int64] | None = None) -> float:
    """Share of what is left that the next stronger gate takes: a line through the logits of the shares taken.

    The shares are those of each gate after all weaker ones, half a sample added to both sides so that none is 0 or 1.
    """
    import numpy as np

    m = knows.shape[1]
    shares, strengths = [], []
    for g in range(m):
        at_risk = ~knows[:, :g].any(axis=1)
        taken = float((knows[:, g] & at_risk).sum())
        shares.append((taken + 0.5) / (float(at_risk.sum()) + 1.0))
        strengths.append(float(knows[:, g].mean()))
    x, y = np.array(strengths), np.log(np.array(shares) / (1 - np.array(shares)))
    # the first gate meets the whole pool; the trend is of those that meet what others left
    x, y = (x[1:], y[1:]) if points is None else (x[np.maximum(points, 1)], y[np.maximum(points, 1)])
    centre = x - x.mean()
    slope = float((centre * (y - y.mean())).sum() / (np.square(centre).sum() + 0.01))  # a weak ridge: few points
    return float(1 / (1 + np.exp(-(y.mean() + slope * (_next_strength(knows) - x.mean())))))
