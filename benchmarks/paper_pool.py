"""Label tables of any size: what gates of known strength would say to a pool, without a pool.

A gate is right where a threshold of its own lies above how hard the question is: partly for all gates alike, partly for
it alone (a one-factor probit). That is all that a funnel's cost depends on. `paper_pool` has the sizes, retentions and
gates of VLM-DeflectionBench; what the paper does not print is an argument, and `Shape` says which is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from demur.curation.gates.funnel import GateQuery, Stage
from demur.curation.gates.rules import Label

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Source(NamedTuple):
    """One source of the paper's pool."""

    name: str
    pool: int
    """Samples before: retained count over retained share, both of Table 2 (erratum: its "Filtered" is the retained)."""
    kept: int
    """Samples after, Table 2."""


SOURCES = (
    Source("InfoSeek", 29393, 1646),
    Source("WebQA", 4976, 826),
    Source("E-VQA", 3776, 185),
    Source("MMDocRAG", 3867, 58),
    Source("MRAG-Bench", 1364, 45),
    Source("ViQuAE", 1250, 15),
)


class Model(NamedTuple):
    """One of the paper's gates."""

    name: str
    size: float
    """Billions of parameters."""
    oracle: float
    """Accuracy with gold evidence on the samples kept, Table 4."""
    declines: float
    """Share of its failures without evidence that are deflections, Table 4."""


MODELS = (
    Model("Gemma3-27B", 27, 0.595, 0.071),
    Model("Qwen2.5-VL-32B", 32, 0.610, 0.045),
    Model("InternVL3-38B", 38, 0.642, 0.014),
    Model("VL-Rethinker-72B", 72, 0.626, 0.019),
)


@dataclass(frozen=True)
class Shape:
    """What the paper does not print.

    The defaults follow the usual reckoning of such a rebuild (3,000 samples left after Stage I, fifteen distractors
    each), and correlations between gates as strong as those of models trained on the same web.
    """

    candidates: int = 15
    """Distractors mined for a sample, before any is checked; Table 3 says that 11.8 stay."""
    stay: float = 11.8
    """Mean number of distractors of a kept sample, Table 3."""
    left: float | None = None
    """Share of the pool that Stage I leaves; None: what Table 2 and Stage III imply. The paper says under 10 %."""
    together: float = 0.6
    """Correlation of what lies behind two gates' answers to one question, in [0, 1]."""
    alike: float = 0.2
    """The same for one gate's answers about two distractors of one sample."""
    spread: float = 0.1
    """Step in strength (in standard deviations) from one gate to the next larger one."""


class Tables(NamedTuple):
    """All labels of a pool. n samples, G gates, C distractors each; 0 wrong, 1 right, 2 declines."""

    sources: tuple[str, ...]
    """(n,)"""
    gates: tuple[str, ...]
    parametric: npt.NDArray[np.int8]
    """(n, G)"""
    solvable: npt.NDArray[np.int8]
    """(n, G)"""
    distractors: dict[int, npt.NDArray[np.int8]]
    """Sample -> (C, G), of those that Stage III gets to."""
    candidates: int

    def label(self, sample: int, query: GateQuery) -> Label:
        """The label of a query; distractors are called "0", "1" ..."""
        at = self.gates.index(query.gate)
        if query.stage is Stage.DISTRACTOR:
            said = self.distractors[sample][int(query.distractor), at]
        else:
            said = (self.parametric if query.stage is Stage.PARAMETRIC else self.solvable)[
                sample, at
            ]
        return (Label.INCORRECT, Label.CORRECT, Label.DEFLECTED)[int(said)]


def one_factor(
    dice: np.random.Generator,
    thresholds: npt.NDArray[np.float64],
    together: float,
    alike: float = 0.0,
    each: int = 1,
) -> npt.NDArray[np.bool_]:
    """Draw who is right.

    Args:
        dice: random numbers.
        thresholds: (n, G), in standard deviations: gate g is right about a question of sample i with probability
            Phi(thresholds[i, g]).
        together: see `Shape`.
        alike: see `Shape`; ``together + alike`` at most 1.
        each: questions per sample.

    Returns:
        (n, each, G)
    """
    import numpy as np

    n, gates = thresholds.shape
    hard = np.sqrt(together) * dice.standard_normal((n, each, 1))
    whose = np.sqrt(alike) * dice.standard_normal((n, 1, gates))
    own = np.sqrt(max(0.0, 1 - together - alike)) * dice.standard_normal((n, each, gates))
    return (hard + whose + own) < thresholds[:, None, :]  # type: ignore[no-any-return]


def paper_pool(
    shape: Shape = Shape(),
    *,
    scale: float = 1.0,
    seed: int = 0,
    sources: Sequence[Source] = SOURCES,
) -> Tables:
    """A pool of VLM-DeflectionBench's shape; thresholds are found so that its printed figures come out in the mean.

    Args:
        shape: what the paper does not print.
        scale: of the pool's size.
        seed: of the draws.
        sources: with their sizes and kept counts.
    """
    import numpy as np

    cdf, at = NormalDist().cdf, NormalDist().inv_cdf
    trial = np.random.default_rng(1)  # for finding thresholds; the pool itself is drawn from `seed`
    gates = len(MODELS)
    step = shape.spread * (np.arange(gates) - (gates - 1) / 2)

    # with gold: each gate's accuracy is printed for samples that some gate solves
    some = 0.8
    for _ in range(20):
        gold = np.array([[at(m.oracle * some) for m in MODELS]])
        some = float(
            one_factor(trial, np.repeat(gold, 40_000, 0), shape.together).any(axis=2).mean()
        )

    def stays(threshold: float) -> tuple[float, float]:
        drawn = one_factor(
            np.random.default_rng(2),
            np.full((4000, gates), threshold) + step,
            shape.together,
            shape.alike,
            shape.candidates,
        )
        left = (~drawn.any(axis=2)).sum(axis=1)
        return float(left[left >= 5].mean()), float((left >= 5).mean())

    low, high = -5.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if stays(middle)[0] > shape.stay else (low, middle)
    leak, enough = low, stays(low)[1]

    def unknown(threshold: float) -> float:
        x = np.linspace(-6, 6, 601)
        weight = np.exp(-x * x / 2)
        own = max(1e-9, 1 - shape.together) ** 0.5
        misses = np.ones_like(x)
        for g in range(gates):
            misses *= [1 - cdf((threshold + step[g] - shape.together**0.5 * v) / own) for v in x]
        return float((misses * weight).sum() / weight.sum())

    sizes = [max(1, round(s.pool * scale)) for s in sources]
    implied = sum(s.kept for s in sources) / sum(s.pool for s in sources) / (some * enough)
    base = np.empty(sum(sizes))
    begin = 0
    for source, size in zip(sources, sizes, strict=True):
        share = (
            source.kept
            / source.pool
            / (some * enough)
            * (1 if shape.left is None else shape.left / implied)
        )
        low, high = -4.0, 4.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if unknown(middle) > min(0.95, share) else (low, middle)
        base[begin : begin + size] = low
        begin += size

    dice = np.random.default_rng(seed)
    n = len(base)
    knows = one_factor(dice, base[:, None] + step, shape.together)[:, 0]
    reads = one_factor(dice, np.repeat(gold, n, 0), shape.together)[:, 0]
    declines = dice.random((n, gates)) < np.array([m.declines for m in MODELS])
    reached = np.flatnonzero(~knows.any(axis=1) & reads.any(axis=1))
    helps = one_factor(
        dice,
        np.full((len(reached), gates), leak) + step,
        shape.together,
        shape.alike,
        shape.candidates,
    )
    return Tables(
        tuple(s.name for s, size in zip(sources, sizes, strict=True) for _ in range(size)),
        tuple(m.name for m in MODELS),
        np.where(knows, 1, 2 * declines).astype(np.int8),
        np.where(reads, 1, 2 * declines).astype(np.int8),
        {int(i): helps[k].astype(np.int8) for k, i in enumerate(reached)},
        shape.candidates,
    )
