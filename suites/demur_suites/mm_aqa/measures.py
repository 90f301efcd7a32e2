"""The measures of MM-AQA as pure functions over a five-way matrix, and the curves of confidence baselines.

                     answered right   answered wrong   abstained
    answerable            TP               FP             FN
    unanswerable              -- AU --                    TN

    AAC = TP/(TP+FP+FN)   UAC = TN/(TN+AU)   AR = (FN+TN)/N
    mcc_ext = (TP*TN - (FP+AU)*FN) / sqrt((TP+FP+AU)(TP+FN)(TN+FP+AU)(TN+FN))

``mcc_ext`` is the paper's: it counts wrong answers to answerable questions among the negatives, so that a system that
abstains at random is below 0 by its errors. ``mcc_abstain`` is the plain one of abstaining against being unanswerable,
0 at random. An undefined figure is None, and is never the best. Source: section 5, appendices G and J.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from demur.core.stats import Floats
from demur.judge.measures.risk import of_arrays
from demur.judge.measures.table import Flags
from demur_suites import calibration
from demur_suites.calibration import folds


class Matrix(NamedTuple):
    """The five counts (floats where they are expectations)."""

    tp: float = 0
    fp: float = 0
    fn: float = 0
    tn: float = 0
    au: float = 0

    @property
    def answerable(self) -> float:
        """Answerable items in it."""
        return self.tp + self.fp + self.fn

    @property
    def unanswerable(self) -> float:
        """Unanswerable items in it."""
        return self.tn + self.au

    @property
    def n(self) -> float:
        """All items in it."""
        return self.answerable + self.unanswerable

    @property
    def aac(self) -> float | None:
        """Right answers among the answerable."""
        return _share(self.tp, self.answerable)

    @property
    def uac(self) -> float | None:
        """Abstentions among the unanswerable."""
        return _share(self.tn, self.unanswerable)

    @property
    def ar(self) -> float | None:
        """Abstentions among all."""
        return _share(self.fn + self.tn, self.n)

    @property
    def mcc_ext(self) -> float | None:
        """The paper's MCC over five counts."""
        wrong = self.fp + self.au
        below = (self.tp + wrong) * (self.tp + self.fn) * (self.tn + wrong) * (self.tn + self.fn)
        return (self.tp * self.tn - wrong * self.fn) / math.sqrt(below) if below > 0 else None

    @property
    def mcc_abstain(self) -> float | None:
        """MCC of abstaining against being unanswerable."""
        answered, a, u = self.tp + self.fp, self.answerable, self.unanswerable
        below = a * u * (self.tn + self.fn) * (answered + self.au)
        return (answered * self.tn - self.au * self.fn) / math.sqrt(below) if below > 0 else None


def _share(hits: float, n: float) -> float | None:
    return hits / n if n else None


def se(share: float, n: float) -> float | None:
    """Standard error of a share: sqrt(p(1-p)/n)."""
    return math.sqrt(share * (1 - share) / n) if n else None


def rebuilt(aac: float, uac: float, ar: float, answerable: int, unanswerable: int) -> Matrix:
    """The matrix behind three printed shares in [0, 1]; no count is negative, whatever was rounded."""
    tp, tn = aac * answerable, uac * unanswerable
    fn = min(max(ar * (answerable + unanswerable) - tn, 0), answerable - tp)
    return Matrix(tp, answerable - tp - fn, fn, tn, unanswerable - tn)


def counts_of(share: float, n: int, half: float = 0.0005) -> range:
    """The whole numbers of n items whose share is within half a digit of a printed one.

    >>> list(counts_of(0.607, 300)), list(counts_of(0.606, 300))
    ([182], [])
    """
    low, high = (share - half) * n - 1e-9, (share + half) * n + 1e-9
    return range(max(0, math.ceil(low)), min(n, math.floor(high)) + 1)


def possible(
    aac: float, uac: float, ar: float, answerable: int, unanswerable: int, half: float = 0.0005
) -> bool:
    """Whether any whole matrix of these sizes rounds to three printed shares."""
    tp, tn = counts_of(aac, answerable, half), counts_of(uac, unanswerable, half)
    abstained = counts_of(ar, answerable + unanswerable, half)
    if not (tp and tn and abstained):
        return False
    # FN = abstained - TN is any whole number between these two; one of them must be from 0 to answerable - TP
    return abstained[-1] - tn[0] >= 0 and abstained[0] - tn[-1] <= answerable - tp[0]


def random_abstain(accuracy: float, answerable: int, unanswerable: int, p: float = 0.5) -> Matrix:
    """The expected matrix of a system of some accuracy that abstains at random."""
    a, u = answerable, unanswerable
    return Matrix((1 - p) * accuracy * a, (1 - p) * (1 - accuracy) * a, p * a, p * u, (1 - p) * u)


def oracle(aac: float, uac: float, answerable: int, unanswerable: int) -> Matrix:
    """An expert who always answers what can be answered (appendix J.2)."""
    return Matrix(
        aac * answerable, (1 - aac) * answerable, 0, uac * unanswerable, (1 - uac) * unanswerable
    )


T = TypeVar("T")


def best(candidates: Iterable[tuple[T, float | None]]) -> tuple[T, float] | None:
    """The first of the highest; what is undefined is passed over."""
    defined = [(key, value) for key, value in candidates if value is not None]
    return max(defined, key=lambda pair: pair[1]) if defined else None


# --- confidence: thresholds, curves ---------------------------------------------------------------


class Confidences(NamedTuple):
    """Answers with a confidence, as arrays over n items.

    Attributes:
        confidence: float64 [n]; higher is surer.
        correct: bool [n], of answerable items; False of others.
        answerable: bool [n].
        abstained: bool [n], by the system's own word.
        cluster: text or int [n], items of a pair share one.
    """

    confidence: Floats
    correct: Flags
    answerable: Flags
    abstained: Flags
    cluster: npt.NDArray[Any]


def counted(replies: Confidences, answered: Flags, rows: Flags | None = None) -> Matrix:
    """The matrix of some rows (all by default) when a threshold lets these be answered; their own word counts too."""
    rows = np.ones(len(answered), dtype=bool) if rows is None else rows
    a, answers = replies.answerable, answered & ~replies.abstained
    right = answers & replies.correct
    cells = (a & right, a & answers & ~right, a & ~answers, ~a & ~answers, ~a & answers)
    return Matrix(*(int((cell & rows).sum()) for cell in cells))


def least_answered(replies: Confidences, taus: Sequence[float] | None) -> Floats:
    """Thresholds as the least confidence that is answered: above each tau; or every distinct confidence.

    The least confidence as a threshold abstains on nothing: the best one is never worse than none.
    """
    return np.unique(replies.confidence) if taus is None else np.nextafter(taus, math.inf)


class Sweep(NamedTuple):
    """The matrix at each threshold, and the best by ``mcc_ext``, chosen on the same items: an upper bound."""

    matrices: tuple[Matrix, ...]
    tau: float | None
    matrix: Matrix | None
    """At the oracle's threshold; None where no threshold has a defined MCC."""


def sweep(replies: Confidences, taus: Sequence[float] | None = None) -> Sweep:
    """Every threshold of a list, up to which is abstained; or every distinct confidence, below which is."""
    least = least_answered(replies, taus)
    matrices = tuple(counted(replies, replies.confidence >= value) for value in least)
    top = best((place, m.mcc_ext) for place, m in enumerate(matrices))
    if top is None:
        return Sweep(matrices, None, None)
    return Sweep(matrices, float((least if taus is None else taus)[top[0]]), matrices[top[0]])


def cross_validated(
    replies: Confidences, taus: Sequence[float] | None = None, k: int = 5, seed: int = 0
) -> float | None:
    """`mcc_ext` when each fold of pairs takes the threshold that is best on the others: what a user would get.

    None with fewer than k pairs. A fold whose other folds define no MCC is answered throughout.
    """
    if len(np.unique(replies.cluster)) < k:
        return None
    fold = folds([str(c) for c in replies.cluster], k, seed)
    grid = least_answered(replies, taus).tolist()

    def mcc(answered: Flags, rows: Flags) -> float | None:
        return counted(replies, answered, rows).mcc_ext

    return calibration.cross_validated(replies.confidence, mcc, fold, grid)[1]


def curve(replies: Confidences) -> tuple[float | None, float | None]:
    """(AURC, RC-AUC): risk against coverage of the items that were answered; an unanswerable one of them is an error.

    AURC is the mean risk over coverages 1/n to 1, ties shared; RC-AUC the area by trapezoids from the first point to
    coverage 1.
    """
    answered = ~replies.abstained
    risks = of_arrays(
        replies.confidence[answered], (replies.correct & replies.answerable)[answered]
    )
    if risks.n == 0:
        return None, None
    x, y = np.append(0.0, risks.coverage), np.append(risks.risk[0], risks.risk)
    return risks.area, float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))
