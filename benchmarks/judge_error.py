"""How often a rate's interval holds the truth, on systems that the judge's error was not measured on.

make bench-judge_error, or: python benchmarks/judge_error.py [WORLDS]

A world is a system of known true rate with N answers. The judge's errors on it are drawn from one group of
``errors.json``, which is left out when the interval is built; a second run doubles them. Printed per step and true rate:
how often intervals of sampling alone hold it, how often those with the judge's error do, their width, and the mean count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from demur.core.records import Method
from demur.core.stats import wilson
from demur.judge.measures import judge_error
from demur.judge.measures.judge_error import Group, groups, interval_with, shift_of
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT

RATES = (0.05, 0.2, 0.5, 0.9)
ANSWERS = (60, 300)
WORSE = (1, 2)
STEPS = {"equivalence": (Method.EQUIVALENCE, CORRECT), "declined": (Method.DECLINED, DEFLECTED)}
"""Step -> the method that its verdicts state, and what it counts."""
LEVEL = 0.95


class Held(NamedTuple):
    """Of the worlds of one step, true rate and size."""

    sampling: float
    """Share of intervals of sampling alone that hold the true rate."""
    with_error: float
    """Share of those that hold the judge's error, too."""
    width: float
    """Mean width of the latter."""
    counted: float
    """Mean count, beside the true rate."""


def left_out(step: str) -> Iterator[tuple[Group, list[Group]]]:
    """Each group of a step with those that its interval may know."""
    every = groups()[step]
    for place, group in enumerate(every):
        yield group, every[:place] + every[place + 1 :] or every


def held(step: str, rate: float, n: int, worse: float, worlds: int) -> Held:
    """Simulate systems of one true rate."""
    rng, held_by, widths, counts = np.random.default_rng(0), np.zeros(2), [], []
    method, hit = STEPS[step]
    pairs, measured = list(left_out(step)), groups()
    for group, others in pairs:
        known = measured | {step: others}
        judge_error.groups = lambda known=known: known  # type: ignore[assignment]
        judge_error.shares.cache_clear()
        for _ in range(max(1, worlds // len(pairs))):
            missed = min(1, worse * rng.beta(group.missed + 0.5, group.so - group.missed + 0.5))
            false = min(1, worse * rng.beta(group.false + 0.5, group.not_so - group.false + 0.5))
            so = rng.random(n) < rate
            counted = int(np.where(so, rng.random(n) >= missed, rng.random(n) < false).sum())
            low, high = wilson(counted, n, LEVEL) or (0.0, 1.0)
            codes = np.array([list(Method).index(m) for m in (method, Method.EQUIVALENCE)])
            weight = np.array([counted, n - counted], dtype=np.float64)
            shift = shift_of(codes, np.array([hit, INCORRECT]), weight)
            assert shift is not None
            moved = shift.accuracy if hit == CORRECT else shift.deflection
            ends = interval_with(counted / n, low, high, moved, LEVEL)
            held_by += (low <= rate <= high, ends[0] <= rate <= ends[1])
            widths.append(ends[1] - ends[0])
            counts.append(counted / n)
    judge_error.groups = groups  # type: ignore[assignment]
    judge_error.shares.cache_clear()
    return Held(*(held_by / len(counts)), float(np.mean(widths)), float(np.mean(counts)))


def main(worlds: int) -> None:
    """Print a row for each step, size and true rate, and a JSON object of all."""
    alone = {step: len(rows) for step, rows in groups().items() if len(rows) < 2}
    if alone:
        print(f"measured on one group, which cannot be left out: {', '.join(alone)}")
    print(
        f"{'step':<12}{'errs':>5}{'answers':>8}{'true':>6}{'counted':>9}{'sampling':>9}{'with error':>11}{'width':>7}"
    )
    everything = []
    for step in STEPS:
        for worse in WORSE:
            for n in ANSWERS:
                for rate in RATES:
                    found = held(step, rate, n, worse, worlds)
                    print(
                        f"{step:<12}{worse:>4}x{n:>8}{rate:>6.2f}{found.counted:>9.3f}{found.sampling:>9.2f}"
                        f"{found.with_error:>11.2f}{found.width:>7.2f}"
                    )
                    everything.append(
                        {"step": step, "worse": worse, "answers": n, "true": rate}
                        | {name: round(value, 4) for name, value in found._asdict().items()}
                    )
    usual = [row["with_error"] for row in everything if row["worse"] == 1]
    twice = [row["with_error"] for row in everything if row["worse"] == 2]
    summary = {"worlds": worlds, "level": LEVEL, "lowest": min(usual), "lowest_twice": min(twice)}
    print(json.dumps(summary))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
