"""Truthfulness: +1 for a right answer, 0 for a declined one, -1 for a wrong one (CRAG and CRAG-MM).

Yang et al. 2024 (arXiv:2406.04744) and Wang et al. 2025 (arXiv:2510.26160). The mean is the accuracy less the
hallucination, so a wrong answer costs what a right one earns, and declining is better than guessing below even odds. It
takes no account of the evidence shown: where nothing answers, declining earns 0 and not 1.
"""

from __future__ import annotations

from demur.core.records import Measure
from demur.judge.measures.rates import Rates


def truthfulness(rates: Rates) -> Measure:
    """The truthfulness of the answers behind three rates, in [-1, 1]; None where they are undefined.

    Its interval runs from the least accuracy with the most hallucination to the opposite: exact where nothing is
    declined, else a little too wide, because accuracy and hallucination cannot both be that far off. It holds the judge's
    errors and people's labels wherever the rates' intervals do.

    >>> from demur.judge.measures.rates import share_of
    >>> half, none = share_of("accuracy", 2, 4), share_of("hallucination", 0, 4)
    >>> truthfulness(Rates(half, share_of("deflection", 2, 4), none)).value
    0.5
    """
    right, wrong = rates.accuracy, rates.hallucination
    corrected = None
    if right.corrected is not None or wrong.corrected is not None:
        corrected = _difference(_settled(right), _settled(wrong))
    return right.model_copy(
        update={
            "name": "truthfulness",
            "value": _difference(right.value, wrong.value),
            "least": -1.0,
            "low": _difference(right.low, wrong.high),
            "high": _difference(right.high, wrong.low),
            "corrected": corrected,
        }
    )


def _settled(rate: Measure) -> float | None:
    return rate.value if rate.corrected is None else rate.corrected


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second
