"""How often corrected intervals hold the truth: simulated judges with known error rates, few labels.

make bench-correction, or: python benchmarks/correction.py [WORLDS]
"""

from __future__ import annotations

import sys

import numpy as np

from demur.core.errors import DataError
from demur.judge.measures.corrected import CLASSES, corrected, differences
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT, UNJUDGED

OUTCOMES = np.array([CORRECT, DEFLECTED, INCORRECT])
VERDICTS = np.array([CORRECT, DEFLECTED, INCORRECT, UNJUDGED])
JUDGES = {
    "right in 9 of 10": [
        [0.93, 0.02, 0.03, 0.02],
        [0.03, 0.90, 0.05, 0.02],
        [0.05, 0.03, 0.88, 0.04],
    ],
    "right in 2 of 3": [
        [0.70, 0.05, 0.20, 0.05],
        [0.05, 0.60, 0.30, 0.05],
        [0.15, 0.10, 0.65, 0.10],
    ],
}
POOR = {
    "right in 9 of 10": JUDGES["right in 9 of 10"],
    "always correct": [[1, 0, 0, 0]] * 3,
    "9 of 10 unjudged": [[0.1, 0, 0, 0.9], [0, 0.1, 0, 0.9], [0, 0, 0.1, 0.9]],
}
TRUTHS = {"common": [0.60, 0.25, 0.15], "rare": [0.02, 0.01, 0.97]}
"""Shares of correct, deflected, incorrect."""


def drawn(rng: np.random.Generator, verdict: np.ndarray, n: int, *, balanced: bool) -> list[int]:
    """Which answers are labelled: as many of each verdict, or any."""
    if not balanced:
        return list(rng.choice(len(verdict), n, replace=False))
    pools = [list(rng.permutation(np.flatnonzero(verdict == v))) for v in VERDICTS]
    chosen: list[int] = []
    while len(chosen) < n:
        chosen += [pool.pop() for pool in pools if pool]
    return chosen[:n]


def main(worlds: int) -> None:
    """Print a row for each judge, truth, draw and number of labels, 300 answers a world; then of pairs and clusters."""
    rates(worlds)
    pairs(worlds)


def pairs(worlds: int) -> None:
    """Print how often rates, and differences of two systems of equal rates, hold, with and without clusters.

    Questions of a cluster share a truth in 7 of 10 cases, for each system another one.
    """
    print(
        f"\n{'judge':<18}{'answers':>8}{'labels':>7}{'cluster':>8}{'rates hold':>12}{'differences':>12}{'width':>7}"
    )
    truth = np.array(TRUTHS["common"])
    for judge, errors in POOR.items():
        for answers, labels in ((300, 40), (300, 80), (1000, 200)):
            for size in (1, 8):
                rng = np.random.default_rng(1)
                held, apart, width = np.zeros(3), np.zeros(3), 0.0
                cluster = np.arange(answers) // size
                for _ in range(worlds):
                    sides, said = [], []
                    for _side in range(2):
                        shared = rng.choice(3, size=answers, p=truth)[cluster * size]
                        own = rng.choice(3, size=answers, p=truth)
                        right = np.where(rng.random(answers) < 0.7, shared, own)
                        verdict = VERDICTS[[rng.choice(4, p=errors[k]) for k in right]]
                        label = np.full(answers, -1)
                        chosen = drawn(rng, verdict, labels, balanced=True)
                        label[chosen] = OUTCOMES[right[chosen]]
                        sides.append(corrected(verdict, label, cluster=cluster))
                        said.append(verdict)
                    for k, gap in enumerate(
                        differences(sides[0], sides[1], (said[0], said[1]), cluster=cluster)
                    ):
                        one = sides[0].rates[gap.measure]
                        held[k] += one.low <= truth[k] <= one.high
                        apart[k] += gap.low <= 0 <= gap.high
                        width += (gap.high - gap.low) / 3 / worlds
                ends = (
                    f"{side.min() / worlds:.2f}-{side.max() / worlds:.2f}" for side in (held, apart)
                )
                print(
                    f"{judge:<18}{answers:>8}{labels:>7}{size:>8}{next(ends):>12}{next(ends):>12}{width:>7.2f}"
                )


def rates(worlds: int) -> None:
    """Print how often rates hold."""
    print(
        f"{'judge':<18}{'outcomes':<9}{'labels':>7} {'draw':<9}{'naive holds':>12}{'corrected holds':>16}{'width':>7}"
    )
    for judge, errors in JUDGES.items():
        for outcomes, truth in TRUTHS.items():
            for labels in (40, 100):
                for balanced in (True, False):
                    rng = np.random.default_rng(1)
                    held, naive, width, done = np.zeros(3), np.zeros(3), 0.0, 0
                    for _ in range(worlds):
                        right = rng.choice(3, size=300, p=truth)
                        verdict = VERDICTS[[rng.choice(4, p=errors[k]) for k in right]]
                        label = np.full(300, -1)
                        chosen = drawn(rng, verdict, labels, balanced=balanced)
                        label[chosen] = OUTCOMES[right[chosen]]
                        try:
                            found = corrected(verdict, label)
                        except (
                            DataError
                        ):  # no label of a frequent verdict: 1 in 100 of 40 labels drawn at random
                            continue
                        done += 1
                        for k, name in enumerate(CLASSES):
                            one, judged = found.rates[name], found.naive[name]
                            held[k] += one.low <= truth[k] <= one.high
                            naive[k] += judged.low <= truth[k] <= judged.high
                            width += (one.high - one.low) / 3
                    draw = "balanced" if balanced else "any"
                    ends = (
                        f"{side.min() / done:.2f}-{side.max() / done:.2f}" for side in (naive, held)
                    )
                    width /= done
                    print(
                        f"{judge:<18}{outcomes:<9}{labels:>7} {draw:<9}{next(ends):>12}{next(ends):>16}{width:>7.2f}"
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
