"""What gates have in common: a one-factor probit.

A gate is right about a question where hard + own < its probit; `hard` is the same for all gates and has the share
``together`` of the variance. Estimates and the forecast of convergence reckon with it.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def probits(knows: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Strengths of gates in probits; half a sample added to both sides keeps them finite."""
    import numpy as np

    inverse = NormalDist().inv_cdf
    return np.array([inverse((float(hits) + 0.5) / (len(knows) + 1)) for hits in knows.sum(axis=0)])


def _normal(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Normal distribution function to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    import numpy as np

    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = tail * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    found: npt.NDArray[np.float64] = np.where(x > 0, 1 - tail, tail)
    return found


def left_by(at: npt.NDArray[np.float64], together: float) -> float:
    """Share of questions that no gate knows."""
    import numpy as np

    hard = np.linspace(-5, 5, 81)
    weight = np.exp(-hard * hard / 2)
    own = math.sqrt(max(1e-6, 1 - together))
    fails = 1 - _normal((at[None, :] - math.sqrt(together) * hard[:, None]) / own)
    return float((fails.prod(axis=1) * weight).sum() / weight.sum())


def together_that_leaves(at: npt.NDArray[np.float64], left: float) -> float:
    """The correlation with which gates of these strengths (in probits) leave that share of questions unsettled."""
    low, high = 0.0, 0.999
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if left_by(at, middle) < left else (low, middle)
    return (low + high) / 2


def taken_by(at: npt.NDArray[np.float64], further: float, together: float) -> float:
    """Share of what gates leave that a further one knows."""
    import numpy as np

    before = left_by(at, together)
    return 1 - left_by(np.append(at, further), together) / before if before > 0 else 0.0
