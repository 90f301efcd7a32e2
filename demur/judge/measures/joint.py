"""Joint success: right in *all* scenarios of the same question.

Pooled rates can look good where no question is handled well throughout: a system that answers half of the questions
always and declines the other half always is right in half of each scenario, and jointly never. Right is what
`demur.core.records.Scenario.should` asks of the row: a correct answer, or a deflection.

The interval resamples questions, whole clusters together. The judge's error enters as in `judge_error`, for every
member of a question: with w = (1 - false) / (1 - false - missed) for a member called right and -false / (1 - false -
missed) for one called wrong, the mean over questions of the product of its members' w is the share without errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from demur.core.records import Measure, Method, Scenario
from demur.core.stats import Floats
from demur.judge.measures.intervals import Auto, of_shares
from demur.judge.measures.judge_error import DRAWS, MEASURED, shares
from demur.judge.measures.rates import with_judge_error
from demur.judge.measures.repeats import gather
from demur.judge.measures.table import CORRECT, DEFLECTED, Flags, Table


class Members:
    """The answers of each question that was asked in all of some scenarios.

    Args:
        rows: of one system, one recipe of each scenario and one condition.
        scenarios: two or more.

    Attributes:
        question: int64 [questions], the sample; several repeats of a sample are several questions of one item.
        right: bool [questions, scenarios].
        step: int64 [questions, scenarios]: 0 where the judge's error is not measured, 1 equivalence, 2 declined.
        cluster: int64 [questions].
        left_out: questions with a failed or unjudged member.
    """

    def __init__(self, rows: Table, scenarios: Sequence[Scenario]) -> None:
        sample = rows.coded("sample").codes
        repeat = np.nan_to_num(rows.numbers("repeat")).astype(np.int64)
        key = sample * (int(repeat.max(initial=0)) + 1) + repeat
        scenario, keys = rows.coded("scenario"), np.unique(key)
        places = np.full((len(keys), len(scenarios)), -1, dtype=np.int64)
        for column, name in enumerate(scenarios):
            if name.value in scenario.labels:
                rows_of_scenario = np.flatnonzero(
                    scenario.codes == scenario.labels.index(name.value)
                )
                places[np.searchsorted(keys, key[rows_of_scenario]), column] = rows_of_scenario
        complete = places[(places >= 0).all(axis=1)]
        graded = rows.graded[complete].all(axis=1)
        self.left_out = int((~graded).sum())
        complete = complete[graded]
        deflect = rows.should_deflect
        right = np.where(deflect, rows.result == DEFLECTED, rows.result == CORRECT)
        methods = list(Method)
        measured = np.isin(rows.method, [methods.index(m) for m in MEASURED])
        step = np.where(deflect & measured, 2, 0)
        compared = rows.method == methods.index(Method.EQUIVALENCE)
        step = np.where(~deflect & compared, 1, step)
        first = complete[:, 0] if len(complete) else np.zeros(0, dtype=np.int64)
        self.right: Flags = right[complete]
        self.step = step[complete]
        self.question = sample[first]
        self.cluster = rows.cluster[first]

    def shift(self) -> Floats | None:
        """float64 [2, draws], as `demur.judge.measures.judge_error.Shift` has it; None where no error is measured."""
        if not self.step.any():
            return None
        draws, blur = np.zeros(DRAWS), np.zeros(DRAWS)
        patterns, counts = np.unique(self.step * 2 + self.right, axis=0, return_counts=True)
        chances = {1: shares("equivalence"), 2: shares("declined")}
        for pattern, n in zip(patterns, counts, strict=True):
            product, scales = np.ones(DRAWS), np.ones(DRAWS)
            for code in pattern:
                step, right = divmod(int(code), 2)
                if not step:
                    product *= right
                    continue
                error = chances[step]
                scale = 1 - error.false - error.missed
                product *= (1 - error.false if right else -error.false) / scale
                scales *= scale
            draws += product * n / len(self.right)
            blur += scales * n / len(self.right)
        counted = float(np.logical_and.reduce(self.right, axis=1).mean())
        return np.stack([np.clip(draws, 0.0, 1.0) - counted, 1 / blur - 1])


def joint(rows: Table, scenarios: Sequence[Scenario]) -> Measure:
    """The share of questions that are right in all of the scenarios; ``failed`` counts those left out."""
    return with_judge_error(*joint_and_shift(rows, scenarios, 0.95), 0.95)


def joint_and_shift(
    rows: Table, scenarios: Sequence[Scenario], level: float
) -> tuple[Measure, Floats | None]:
    """`joint` with sampling alone in its interval, and what the judge's errors may move it by.

    Args:
        rows: of one system, one recipe of each scenario and one condition.
        scenarios: two or more; a question counts that was asked in all of them.
        level: of the interval.

    Returns:
        The shift is float64 [2, draws]; None where no error is measured.
    """
    members = Members(rows, scenarios)
    every = np.ones(len(members.question), dtype=np.bool_)
    items = gather(members.question if rows.repeats > 1 else None, every)
    all_right: Flags = np.logical_and.reduce(members.right, axis=1)
    hits = items.mean(all_right)
    ends = of_shares([hits], items.once(members.cluster), Auto(level))[0]
    measure = Measure(
        name="joint success",
        value=float(hits.sum()) / items.n if items.n else None,
        n=items.n,
        repeats=items.repeats,
        failed=members.left_out,
        low=ends.low,
        high=ends.high,
        interval=ends.method,
    )
    return measure, members.shift()
