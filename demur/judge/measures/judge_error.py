"""What the judge's own errors may do to a rate: how often it calls wrong right and right wrong, as it was measured.

A rate is a plain count of verdicts. The judge errs, and not equally on all systems, so the interval of a rate holds
both sampling and that error. For each of `DRAWS` draws one of the labelled groups of answers is taken (systems differ
more than sampling does), with error shares from Jeffreys' posterior of its counts; the share that would be counted
without errors is then Rogan and Gladen's (1978)::

    p = (q - false) / (1 - false - missed)        within [0, 1]

with q the share counted, ``false`` the chance that what is not so is counted, ``missed`` that what is so is not. The
same draws serve every rate, so that rates of one table share the judge's luck. ``data/errors.json`` has the groups:
answers that people or reviewers labelled, scored by a judge that was not trained on them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from demur.core.records import Method
from demur.core.stats import Codes, Floats, z_of
from demur.core.strict_json import parsed_json
from demur.judge.measures.table import CORRECT, DEFLECTED, Flags

DRAWS = 2000
SEED = 0
EXACT = (Method.CHOICE, Method.NUMBER, Method.DATE, Method.MATCH)
"""Methods whose rare errors are counted by verdict: a share of them is wrong, whatever they say."""
MEASURED = (*EXACT, Method.DECLINED, Method.EQUIVALENCE)


class Group(NamedTuple):
    """Labelled answers of one system, or of one set: how often a step of the judge erred on them."""

    name: str
    so: int
    """Answers that are so (correct; declining)."""
    missed: int
    """Of these, counted as not so."""
    not_so: int
    false: int
    """Of those that are not so, counted as so."""


class Shares(NamedTuple):
    """float64 [draws]: chances that what is not so is counted, and that what is so is not."""

    false: Floats
    missed: Floats


@cache
def groups() -> dict[str, list[Group]]:
    """Step (``equivalence``, ``declined``, ``exact``) -> the groups that it was measured on."""
    text = files("demur.judge").joinpath("data", "errors.json").read_text(encoding="utf-8")
    return {step: [Group(*row) for row in rows] for step, rows in parsed_json(text).items()}


@cache
def shares(step: str) -> Shares:
    """Error shares of a step of `groups`, drawn from them."""
    rows = groups()[step]
    rng = np.random.Generator(np.random.PCG64([SEED, len(step)]))
    drawn_rows = rng.integers(0, len(rows), DRAWS)
    table = np.array([row[1:] for row in rows], dtype=np.float64)[drawn_rows]
    so, missed, not_so, false = table.T
    drawn_shares = (
        rng.beta(false + 0.5, not_so - false + 0.5),
        rng.beta(missed + 0.5, so - missed + 0.5),
    )
    return Shares(*(np.clip(share, 0.0, 0.45) for share in drawn_shares))


def without_errors(counted: float, chances: Shares) -> Floats:
    """float64 [draws]: the share that would be counted without errors (Rogan and Gladen 1978).

    A false share above what was counted, or a missed one above the rest, is known not to hold here: in its place stands
    no error, as much as there can be, or something between (a third of the draws each).
    """
    between = np.clip(3 * np.random.Generator(np.random.PCG64(SEED)).random(DRAWS) - 1, 0.0, 1.0)
    false = np.where(chances.false > counted, counted * between, chances.false)
    missed = np.where(chances.missed > 1 - counted, (1 - counted) * between, chances.missed)
    share: Floats = (counted - false) / (1 - false - missed)
    return np.clip(share, 0.0, 1.0)


class Shift(NamedTuple):
    """float64 [2, draws] each, of a rate without the judge's errors: how far it lies from the count, and how much more
    than the count it varies from sample to sample, as a share (where the judge blurs a difference, undoing that blows
    up chance as well).
    """

    accuracy: Floats
    deflection: Floats

    @property
    def hallucination(self) -> Floats:
        """Of answers that are neither correct nor declined: the three rates sum to one."""
        more: Floats = np.maximum(self.accuracy[1], self.deflection[1])
        return np.stack([-self.accuracy[0] - self.deflection[0], more])


def shift_of(method: Codes, result: Codes, weight: Floats) -> Shift | None:
    """How far the judge's errors may move the rates of some graded rows.

    Args:
        method: int64 [rows], an index into `Method`, or -1 where no method is known.
        result: int64 [rows]: CORRECT, INCORRECT or DEFLECTED.
        weight: float64 [rows], the part of an item that a row is.

    Returns:
        None where no row was decided by a step whose error is measured.
    """
    names = list(Method)
    total = float(weight.sum())
    measured = np.isin(method, [names.index(m) for m in MEASURED])
    if not total or not measured.any():
        return None

    def part(place: Flags) -> float:
        return float(weight[place].sum()) / total

    def moved(among: Flags, outcome: int, step: str) -> Floats:
        size, chances = part(among), shares(step)
        counted = part(among & (result == outcome)) / size
        blur = 1 - chances.false - chances.missed
        return size * np.stack([without_errors(counted, chances) - counted, 1 / blur - 1])

    accuracy = np.zeros((2, DRAWS))
    compared = method == names.index(Method.EQUIVALENCE)
    if part(compared):
        accuracy += moved(compared, CORRECT, "equivalence")
    exact = np.isin(method, [names.index(m) for m in EXACT])
    if exact.any():
        wrong = shares("exact").false
        right, not_right = part(exact & (result == CORRECT)), part(exact & (result != CORRECT))
        accuracy[0] += wrong * (not_right - right)
    return Shift(accuracy, moved(measured, DEFLECTED, "declined"))


def interval_with(
    value: float, low: float, high: float, shift: Floats, level: float
) -> tuple[float, float, float]:
    """The ends of an interval that holds sampling and the judge's error, and its median.

    Args:
        value: the count's share.
        low: of its sampling interval at ``level``.
        high: the same.
        shift: float64 [2, draws], of `shift_of`.
        level: between 0 and 1.
    """
    rng = np.random.Generator(np.random.PCG64([SEED, DRAWS]))
    normal = rng.standard_normal(shift.shape[1]) / z_of(level)
    chance = np.where(normal > 0, normal * (high - value), normal * (value - low))
    draws = np.clip(value + shift[0] + (1 + shift[1]) * chance, 0.0, 1.0)
    tail = (1 - level) / 2
    ends = np.quantile(draws, [tail, 1 - tail, 0.5]).round(4)
    return float(ends[0]), float(ends[1]), float(ends[2])
