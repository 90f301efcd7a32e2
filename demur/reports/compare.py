"""Compare two runs: paired differences, each with a verdict, and the items that changed.

Runs are paired by context set and condition; only questions graded for both systems count, and the result states how
many do not. The test is exact McNemar on the questions where the two differ; repeated questions count with the mean of
their repeats, and a sign-flip test replaces McNemar's. Holm's correction covers right behaviour in each scenario,
which decides the verdict, and by itself the three rates behind it, which explain it; joint success is one test. The
interval of a difference is a paired bootstrap over clusters (Tango's score interval where that is a point); McNemar's
test assumes independent pairs. A difference is shown where both leave out 0; where they do not, the interval reaches 0
(as intervals compatible with Holm's procedure do: Strassburger and Bretz 2008), so that it never contradicts the verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import DataError
from demur.core.records import Measure, Outcome, Row, Sample, Scenario
from demur.core.stats import Codes, Floats
from demur.judge.measures.corrected import corrected, differences
from demur.judge.measures.joint import Members
from demur.judge.measures.judge_error import DRAWS, shift_of
from demur.judge.measures.paired import Paired, holm, mcnemar, of_means
from demur.judge.measures.repeats import gather
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT, Flags
from demur.judge.measures.table import Table as Columns
from demur.reports.cells import SCENARIOS, Headline, Should, headline
from demur.reports.data import Run
from demur.reports.tables import Column, cell_text

PRIMARY = "right behaviour"
"""The measure that decides whether a system is worse; one test per scenario, and two where some of its questions are to
be answered and others to be declined."""
JOINT = "joint success"
"""Right in all scenarios of the same question (`demur.judge.measures.joint`)."""
TRUTHFULNESS = "truthfulness"
"""`demur.judge.measures.truthfulness`; a family of tests of its own."""
ALPHA = 0.05
"""Level of the verdicts, after Holm's correction."""
SEEN = 0.05
"""Difference for which the result states the number of pairs needed: 5 points."""


def _hits_by_measure(rows: Columns) -> dict[str, Flags | Floats]:
    """Measure name -> [rows]: which rows count for it, or how much (truthfulness: 0, 1/2 or 1)."""
    right = np.where(rows.should_deflect, rows.result == DEFLECTED, rows.result == CORRECT)
    return {
        PRIMARY: right,
        "accuracy": rows.result == CORRECT,
        "deflection": rows.result == DEFLECTED,
        "hallucination": rows.result == INCORRECT,
        TRUTHFULNESS: (1.0 + (rows.result == CORRECT) - (rows.result == INCORRECT)) / 2,
    }


RATES = ("accuracy", "deflection", "hallucination")
_SIGN = {PRIMARY: 1, JOINT: 1, TRUTHFULNESS: 1, "accuracy": 1, "hallucination": -1}
"""+1 where more is better, -1 where less is; deflection depends on the scenario."""


def pool_name(scenario: Scenario, should: str) -> str:
    """A scenario, and which of its questions are meant where others are right to do the opposite."""
    return scenario.value + (f", to {should}" if should != scenario.should else "")


class Difference(NamedTuple):
    """One paired difference, second minus first.

    Attributes:
        scenario: where; None of joint success, which concerns several.
        measure: right behaviour, accuracy, deflection, hallucination, truthfulness or joint success.
        n: pairs graded in both.
        first: rate of the first run over those pairs.
        second: rate of the second.
        delta: second - first, in [-1, 1]; of truthfulness in [-2, 2], as its rates are in [-1, 1].
        low: lower end of its 95 % interval, which holds 0 where no difference is shown.
        high: upper end.
        gained: pairs where only the second has it.
        lost: pairs where only the first has it.
        p: exact McNemar, two-sided; None when no pair is discordant.
        p_holm: corrected over its family (right behaviour, or the three rates).
        spread: mean square of the pairs' differences; with one repeat each the share of pairs that differ.
        judge_shift: right behaviour alone: by how much it could shift, a share, if the judge erred as unequally on the
            two systems as between the sets that it was measured on; None where that is unknown.
        labels: of people, of either run, where they decide; then the rates, the difference and its interval are
            corrected, and p is that of the interval.
        should: right behaviour alone: what is right for the questions that it is over.
    """

    scenario: Scenario | None
    measure: str
    n: int
    first: float
    second: float
    delta: float
    low: float | None
    high: float | None
    gained: int
    lost: int
    p: float | None
    p_holm: float | None
    spread: float
    judge_shift: float | None = None
    labels: tuple[int, int] = (0, 0)
    should: Should | None = None

    @property
    def where(self) -> str:
        """The scenario, and which of its questions where others are right to do the opposite; or "all"."""
        if self.scenario is None:
            return "all"
        return pool_name(self.scenario, self.should or self.scenario.should)

    @property
    def cell_text(self) -> str:
        """In points, with its interval: ``-38.8 [-46.8, -31.1]``."""
        return cell_text(self.measured, Column("", interval=True, signed=True))

    @property
    def measured(self) -> Measure:
        """The difference with its interval, as a cell of a table."""
        return Measure(name="difference", value=self.delta, n=self.n, low=self.low, high=self.high)

    @property
    def significant(self) -> bool:
        """Whether the difference is shown: the test rejects at `ALPHA` after correction, and the interval leaves out 0."""
        rejected = self.p_holm is not None and self.p_holm < ALPHA
        return rejected and not (self.low or 0.0) <= 0.0 <= (self.high or 0.0)

    @property
    def better(self) -> int:
        """+1 when the second run is significantly better here, -1 when worse, else 0."""
        sign_when_right = 1 if self.scenario and self.scenario.should == "deflect" else -1
        sign = _SIGN.get(self.measure, sign_when_right)
        return 0 if not self.significant else sign * (1 if self.delta > 0 else -1)

    @property
    def verdict(self) -> str:
        """In words."""
        return {1: "better", -1: "WORSE", 0: "no difference shown"}[self.better]


class Changed(NamedTuple):
    """One question with different outcomes of the two systems."""

    sample: str
    context: str
    condition: str
    scenario: str
    source: str
    question: str
    before: str
    after: str
    said_before: str
    said_after: str
    accepted: str = ""
    """The accepted answer; "" without a release."""


class Slice(NamedTuple):
    """Change of right behaviour in one part: a source or topic in a scenario."""

    part: str
    scenario: str
    n: int
    first: float
    second: float
    lost: int
    gained: int


class Comparison(NamedTuple):
    """The result of a comparison of two runs."""

    first: str
    second: str
    pairs: int
    only_first: int
    only_second: int
    unjudged: int
    """Shared questions not graded in one or both runs."""
    graded_alone: tuple[int, int]
    """Of those, the numbers graded only in the first run and only in the second."""
    differences: tuple[Difference, ...]
    lost: tuple[Changed, ...]
    """Right only with the first run; hallucinations first, and among them those with gold evidence."""
    gained: tuple[Changed, ...]
    slices: tuple[Slice, ...]
    """Worst first."""
    lost_in_all: int
    """Number of lost items; ``lost`` may hold only the worst of them."""
    gained_in_all: int
    repeats: int = 1
    """Largest number of repeats per question; they form one pair, with their mean."""
    answers: tuple[int, int] = (0, 0)
    """Graded repeats behind the pairs, of each run."""
    unused_labels: tuple[int, int] = (0, 0)
    """Drawn labels of either run that decide nothing, because the other run has too few in the scenario."""

    @property
    def shared(self) -> int:
        """Questions asked of both."""
        return self.pairs + self.unjudged

    @property
    def joint(self) -> Difference | None:
        """The difference of joint success; None where no question was asked of both in several scenarios."""
        return next((d for d in self.differences if d.measure == JOINT), None)

    @property
    def test(self) -> str:
        """The test behind the p-values."""
        return (
            "McNemar's exact test"
            if self.repeats == 1
            else "sign-flip test of the means over each answer's repeats"
        )

    @property
    def worse(self) -> bool:
        """Whether the second run is significantly worse in right behaviour somewhere."""
        return any(d.better < 0 for d in self.differences if d.measure == PRIMARY)

    @property
    def lost_sight(self) -> bool:
        """Whether significantly more questions are graded only in the first run than only in the second, so that losses
        may be among those that no rate counts.
        """
        before, now = self.graded_alone
        return before > now and (mcnemar(before, now) or 1.0) < ALPHA

    @property
    def sentence(self) -> str:
        """The verdict in a sentence or two: where, by how many points with their interval, on how many pairs."""
        parts = []
        for sign, word in ((-1, "worse"), (1, "better")):
            places = [
                f"{d.where} ({d.cell_text} points, n = {d.n:,})"
                for d in self.differences
                if d.measure == PRIMARY and d.better == sign
            ]
            if places:
                parts.append(f"{word} than {self.first} in {', '.join(places)}")
        omitted = (
            f" Left out: {self.unjudged:,} pairs not graded in one or both."
            if self.unjudged
            else ""
        )
        if not parts:
            return (
                f"{self.pairs:,} pairs show no difference in right behaviour between {self.first} and {self.second} "
                f"(at {ALPHA:g} after Holm); this does not prove that there is none.{omitted}"
            )
        return f"{self.second} behaves {', and '.join(parts)}.{omitted}"


class _Side(NamedTuple):
    """One run's graded items among those asked of both; arrays over its items."""

    key: Codes
    """int64: equal for the same context set and condition on both sides."""
    representative: Codes
    """int64: the item's representative row, the first repeat of its most frequent outcome."""
    repeats: Codes
    """int64: its graded repeats."""
    means: Mapping[str, Floats]
    """Measure name -> the share of its repeats that count."""
    right: Flags
    """bool: whether the representative row shows the right behaviour."""

    def take(self, items: Codes) -> _Side:
        """Some of its items, in this order."""
        return _Side(
            self.key[items],
            self.representative[items],
            self.repeats[items],
            {name: shares[items] for name, shares in self.means.items()},
            self.right[items],
        )


class _Pairs(NamedTuple):
    """The questions of two runs; arrays over the pairs of which both sides are graded."""

    rows: tuple[Columns, Columns]
    sides: tuple[_Side, _Side]
    asked_of_one: tuple[int, int]
    """Questions asked of the first alone, and of the second alone."""
    graded_alone: tuple[int, int]
    """Shared questions graded in the first alone, and in the second alone."""
    shared: int
    """Questions asked of both."""
    keys: tuple[Codes, Codes]
    """int64 [rows] of either: equal for the same context set and condition on both sides."""

    def places(self, pairs: Flags) -> tuple[Codes, Codes]:
        """int64 of either side: the rows of some pairs."""
        first, second = self.sides
        return first.representative[pairs], second.representative[pairs]

    def difference(
        self, scenario: Scenario, measure: str, pairs: Flags, should: Should | None = None
    ) -> Difference:
        """The difference of one measure over some pairs."""
        first, second = (side.means[measure][pairs] for side in self.sides)
        cluster = self.rows[0].cluster[self.places(pairs)[0]]
        paired = of_means(first, second, cluster, measure=measure)
        return _difference(scenario, paired, first, second)._replace(should=should)


def _paired(first_rows: Columns, second_rows: Columns) -> _Pairs:
    keys = _item_keys(first_rows, second_rows)
    keys_asked = np.unique(keys[0]), np.unique(keys[1])
    shared = np.intersect1d(*keys_asked, assume_unique=True)
    first = _graded_side(first_rows, keys[0], shared)
    second = _graded_side(second_rows, keys[1], shared)
    _, in_first, in_second = np.intersect1d(
        first.key, second.key, assume_unique=True, return_indices=True
    )
    return _Pairs(
        (first_rows, second_rows),
        (first.take(in_first), second.take(in_second)),
        (len(keys_asked[0]) - len(shared), len(keys_asked[1]) - len(shared)),
        (len(first.key) - len(in_first), len(second.key) - len(in_first)),
        len(shared),
        keys,
    )


def _graded_side(rows: Columns, key: Codes, shared: Codes) -> _Side:
    compared = np.flatnonzero(rows.graded & np.isin(key, shared))
    items = gather(key, rows.graded & np.isin(key, shared))
    hits = {name: hit[compared] for name, hit in _hits_by_measure(rows).items()}
    representative = items.first
    if items.of is not None and items.n < len(compared):
        place = items.of * 3 + rows.result[compared]
        times_given = np.bincount(place, minlength=3 * items.n)[place]
        order = np.lexsort((rows.numbers("repeat")[compared], -times_given, items.of))
        representative = order[np.unique(items.of[order], return_index=True)[1]]
    means = {name: items.mean(hit) for name, hit in hits.items()}
    return _Side(
        key[compared][items.first],
        compared[representative],
        items.size,
        means,
        hits[PRIMARY][representative] > 0,
    )


def _item_keys(first: Columns, second: Columns) -> tuple[Codes, Codes]:
    """int64 [rows] of each side: equal for the same context set under the same condition."""
    context_codes = first.coded_with(second, "context")
    condition_codes = first.coded_with(second, "condition")
    conditions = 1 + max((int(c.max(initial=0)) for c in condition_codes), default=0)
    first_key, second_key = (
        context * conditions + condition
        for context, condition in zip(context_codes, condition_codes, strict=True)
    )
    return first_key, second_key


def compare(
    first: Run,
    second: Run,
    samples: Mapping[str, Sample] | None = None,
    head: Headline | None = None,
    most_items: int | None = None,
) -> Comparison:
    """Compare two runs over the questions they share.

    Args:
        first: run to compare with.
        second: run that may be better or worse.
        samples: sample id -> sample, for the questions of changed items; "" without it.
        head: count only these recipes and this prompt; None counts every shared question, including sweeps.
        most_items: most lost and most gained items to list, the worst first; None: all.

    Returns:
        The comparison; it has no differences without a shared question.
    """
    runs = first, second
    pairs = _paired(*(run.rows if head is None else head.where(run.rows) for run in runs))
    differences, unused_labels = _differences(runs, pairs)
    joint_head = head or headline(runs)
    differences += _joint_difference(
        *(
            joint_head.where(rows.where(np.isin(key, np.intersect1d(*pairs.keys))))
            for rows, key in zip(pairs.rows, pairs.keys, strict=True)
        )
    )
    before, after = pairs.sides
    is_lost, is_gained = before.right & ~after.right, after.right & ~before.right
    lost, gained = (
        _changed_items(pairs.rows, pairs.places(changed), wrong, samples or {}, most_items)
        for changed, wrong in ((is_lost, 1), (is_gained, 0))
    )
    return Comparison(
        first=first.name,
        second=second.name,
        pairs=len(before.key),
        only_first=pairs.asked_of_one[0],
        only_second=pairs.asked_of_one[1],
        unjudged=pairs.shared - len(before.key),
        graded_alone=pairs.graded_alone,
        differences=_tested(differences),
        lost=lost,
        gained=gained,
        slices=_slices_by_part(
            pairs.rows[0], before.representative, before.means[PRIMARY], after.means[PRIMARY]
        ),
        lost_in_all=int(is_lost.sum()),
        gained_in_all=int(is_gained.sum()),
        repeats=max(int(side.repeats.max(initial=1)) for side in pairs.sides),
        answers=(int(before.repeats.sum()), int(after.repeats.sum())),
        unused_labels=unused_labels,
    )


def _differences(runs: tuple[Run, Run], pairs: _Pairs) -> tuple[list[Difference], tuple[int, int]]:
    """Right behaviour by scenario and by what is right there, and the three rates and truthfulness by scenario; unused
    labels of either. Where labels decide the rates, truthfulness is left out: they do not pair right with wrong.
    """
    rows, _ = pairs.rows
    place = rows.coded("scenario")
    scenario_codes = place.codes[pairs.sides[0].representative]
    to_decline = rows.should_deflect[pairs.sides[0].representative]
    differences: list[Difference] = []
    unused = np.zeros(2, dtype=np.int64)
    for scenario in SCENARIOS:
        if scenario.value not in place.labels:
            continue
        in_scenario = scenario_codes == place.labels.index(scenario.value)
        pools: dict[Should, Flags] = {
            "answer": in_scenario & ~to_decline,
            "deflect": in_scenario & to_decline,
        }
        by_people: dict[str, dict[str, Any]] = {}
        for should, pool in pools.items():
            if not pool.any():
                continue
            by_people, unused_here = _corrected_differences(runs, pairs.rows, pairs.places(pool))
            unused += unused_here
            judge_shift = _judge_shift(*pairs.rows, pairs.places(pool))
            differences.append(
                pairs.difference(scenario, PRIMARY, pool, should)._replace(
                    judge_shift=judge_shift, **by_people.get(PRIMARY, {})
                )
            )
        if all(pool.any() for pool in pools.values()):
            by_people = {}  # labels of either pool say nothing of both
        for name in RATES if in_scenario.any() else ():
            difference = pairs.difference(scenario, name, in_scenario)
            differences.append(difference._replace(**by_people.get(name, {})))
        if in_scenario.any() and not by_people:
            differences.append(
                _from_minus_one(pairs.difference(scenario, TRUTHFULNESS, in_scenario))
            )
    return differences, (int(unused[0]), int(unused[1]))


def _tested(differences: list[Difference]) -> tuple[Difference, ...]:
    """The differences with Holm's correction: right behaviour decides, the rates explain it, joint success is one test."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    for i, d in enumerate(differences):
        families["rates" if d.measure in RATES else d.measure].append(i)
    tested = list(differences)
    for family in families.values():
        for i, p in zip(family, holm([differences[i].p for i in family]), strict=True):
            tested[i] = _reaching_zero_unless_shown(differences[i]._replace(p_holm=p))
    return tuple(tested)


def _difference(
    where: Scenario | None, paired: Paired, first: Floats, second: Floats
) -> Difference:
    return Difference(
        where,
        paired.measure,
        paired.n,
        paired.first or 0.0,
        paired.second or 0.0,
        paired.difference or 0.0,
        paired.low,
        paired.high,
        paired.only_second,
        paired.only_first,
        paired.p_exact,
        None,
        float(((second - first) ** 2).mean()),
    )


def _from_minus_one(difference: Difference) -> Difference:
    """A difference of means in [0, 1] as one of means in [-1, 1]."""
    low, high = difference.low, difference.high
    return difference._replace(
        first=2 * difference.first - 1,
        second=2 * difference.second - 1,
        delta=2 * difference.delta,
        low=None if low is None else 2 * low,
        high=None if high is None else 2 * high,
        spread=4 * difference.spread,
    )


def _reaching_zero_unless_shown(difference: Difference) -> Difference:
    """The difference, its interval widened to 0 where no difference is shown."""
    if difference.significant or difference.low is None or difference.high is None:
        return difference
    return difference._replace(low=min(difference.low, 0.0), high=max(difference.high, 0.0))


def _corrected_differences(
    runs: tuple[Run, Run], rows: tuple[Columns, Columns], items: tuple[Codes, Codes]
) -> tuple[dict[str, dict[str, Any]], tuple[int, int]]:
    """Corrected differences of one scenario by their measure, where both runs have enough drawn labels.

    A corrected run is never compared with an uncorrected one: without enough labels of both the verdicts decide.

    Args:
        runs: first and second.
        rows: of either.
        items: int64 [pairs] of either: the row of each pair.

    Returns:
        The corrections, and how many labels of either run decide nothing.
    """
    sides = list(zip(rows, items, strict=True))
    same = [
        len(np.unique(side.coded(name).codes[row_numbers])) == 1
        for side, row_numbers in sides
        for name in ("recipe", "condition", "expected")
    ]
    asks = [
        side.texts("ask", row_numbers)
        for side, row_numbers in sides
        if any(r.drawn.codes for r in runs)
    ]
    labels = [
        np.array([run.drawn.codes.get(ask, -1) for ask in row_numbers], dtype=np.int64)
        for run, row_numbers in zip(runs, asks, strict=False)
    ]
    if not labels or not all(same) or any(side.repeats > 1 for side in rows):
        return {}, (0, 0)
    verdicts = rows[0].result[items[0]], rows[1].result[items[1]]
    cluster = rows[0].cluster[items[0]]
    counts = int((labels[0] >= 0).sum()), int((labels[1] >= 0).sum())
    try:
        first_rates, second_rates = (
            corrected(verdict, label, cluster=cluster)
            for verdict, label in zip(verdicts, labels, strict=True)
        )
    except DataError:  # one of them has too few
        return {}, counts
    difference_of = {
        d.measure: d for d in differences(first_rates, second_rates, verdicts, cluster=cluster)
    }
    difference_of[PRIMARY] = difference_of[
        "deflection" if rows[0].should_deflect[items[0]].any() else "accuracy"
    ]
    return {
        name: {
            "first": float(first_rates.rates[d.measure].value or 0.0),
            "second": float(second_rates.rates[d.measure].value or 0.0),
            "delta": d.difference,
            "low": d.low,
            "high": d.high,
            "p": d.p,
            "labels": d.labelled,
        }
        for name, d in difference_of.items()
    }, (0, 0)


def _judge_shift(
    first_rows: Columns, second_rows: Columns, items: tuple[Codes, Codes]
) -> float | None:
    """By how much right behaviour could differ because the judge errs unequally; None where its error is unknown.

    Each system takes a set of labelled answers of its own, so that one may be as easy to judge as the easiest and the
    other as hard as the hardest; 19 of 20 such pairs shift the difference by no more.
    """
    shifts = []
    for rows, row_numbers in zip((first_rows, second_rows), items, strict=True):
        shift_in_all, is_known = np.zeros(DRAWS), False
        deflect = rows.should_deflect[row_numbers]
        for name, rows_of_part in (
            ("accuracy", row_numbers[~deflect]),
            ("deflection", row_numbers[deflect]),
        ):
            shift = shift_of(
                rows.method[rows_of_part], rows.result[rows_of_part], np.ones(len(rows_of_part))
            )
            if shift is not None:
                shift_in_all, is_known = (
                    shift_in_all + getattr(shift, name)[0] * len(rows_of_part) / len(row_numbers),
                    True,
                )
        if not is_known:
            return None
        shifts.append(shift_in_all)
    permutation = np.random.Generator(np.random.PCG64(0)).permutation(DRAWS)
    gap = shifts[1][permutation] - shifts[0]
    return float(np.quantile(np.abs(gap - gap.mean()), 0.95))


def _joint_difference(first: Columns, second: Columns) -> list[Difference]:
    """The difference of joint success over the questions that both handle in all their common scenarios.

    Args:
        first: rows of one run with one recipe a scenario, of context sets asked of both.
        second: the same of the other.
    """
    common = set(first.coded("scenario").labels) & set(second.coded("scenario").labels)
    scenarios = [s for s in SCENARIOS if s.value in common]
    if len(scenarios) < 2:
        return []
    sides = [_joint_hits(rows, scenarios) for rows in (first, second)]
    _, in_first, in_second = np.intersect1d(
        sides[0].sample, sides[1].sample, assume_unique=True, return_indices=True
    )
    if not len(in_first):
        return []
    first_hits, second_hits = sides[0].hits[in_first], sides[1].hits[in_second]
    paired = of_means(first_hits, second_hits, sides[0].cluster[in_first], measure=JOINT)
    return [_difference(None, paired, first_hits, second_hits)]


class _JointHits(NamedTuple):
    """The samples of one run that were asked in all of some scenarios."""

    sample: np.ndarray[Any, np.dtype[np.str_]]
    hits: Floats
    """Share of its repeats that are right in all scenarios."""
    cluster: Codes


def _joint_hits(rows: Columns, scenarios: Sequence[Scenario]) -> _JointHits:
    members = Members(rows, scenarios)
    every = np.ones(len(members.question), dtype=np.bool_)
    items = gather(members.question if rows.repeats > 1 else None, every)
    names = np.array(rows.coded("sample").labels, dtype=np.str_)
    hits = items.mean(np.logical_and.reduce(members.right, axis=1))
    return _JointHits(names[items.once(members.question)], hits, items.once(members.cluster))


_GRAVE = {INCORRECT: 0, DEFLECTED: 1, CORRECT: 2}
_GRAVITY = (
    Scenario.ORACLE,
    Scenario.FULL,
    Scenario.REALISTIC,
    Scenario.ADVERSARIAL,
    Scenario.GOLD_REMOVED,
    Scenario.PARAMETRIC,
    Scenario.EMPTY,
)


def _changed_items(
    rows: tuple[Columns, Columns],
    places: tuple[Codes, Codes],
    wrong: int,
    samples: Mapping[str, Sample],
    most_items: int | None,
) -> tuple[Changed, ...]:
    """Changed items: hallucinations before deflections, those with gold evidence first.

    Args:
        rows: of either run.
        places: int64 of either: the row of each item.
        wrong: which of the two is wrong, 0 or 1.
    """
    (first_rows, second_rows), (before, after) = rows, places
    outcome = rows[wrong].result[places[wrong]]
    columns = [
        first_rows.texts(name, before) for name in ("scenario", "sample", "context", "condition")
    ]
    gravity = {s.value: i for i, s in enumerate(_GRAVITY)}
    order = sorted(
        range(len(before)),
        key=lambda i: (
            _GRAVE[int(outcome[i])],
            gravity[columns[0][i]],
            *(c[i] for c in columns[1:]),
        ),
    )[:most_items]
    changed = []
    for start in range(0, len(order), 1024):
        block = order[start : start + 1024]
        for row_before, row_after in zip(
            first_rows.take(before[block]), second_rows.take(after[block]), strict=True
        ):
            sample = samples.get(row_before.sample)
            changed.append(
                Changed(
                    row_before.sample,
                    row_before.context,
                    row_before.condition,
                    row_before.scenario.value,
                    row_before.source,
                    sample.question_with_turns if sample else "",
                    _outcome_word(row_before),
                    _outcome_word(row_after),
                    row_before.answer,
                    row_after.answer,
                    sample.answers.display_form if sample else "",
                )
            )
    return tuple(changed)


def _outcome_word(row: Row) -> str:
    return {
        Outcome.CORRECT: "correct",
        Outcome.DEFLECTED: "deflected",
        Outcome.INCORRECT: "hallucinated",
    }[row.outcome or Outcome.INCORRECT]


def _slices_by_part(
    rows: Columns, place: Codes, first: Floats, second: Floats
) -> tuple[Slice, ...]:
    """Sources and topics by scenario, those with the largest net loss first; shares are means over repeats."""
    slices = []
    scenario = rows.coded("scenario")
    for kind in ("source", "topic"):
        part = rows.coded(kind)
        joint = part.codes[place] * max(1, len(scenario.labels)) + scenario.codes[place]
        for code in np.unique(joint):
            label, scenario_code = divmod(int(code), max(1, len(scenario.labels)))
            if not part.labels[label]:
                continue
            first_values, second_values = first[joint == code], second[joint == code]
            slices.append(
                Slice(
                    f"{kind} {part.labels[label]}",
                    scenario.labels[scenario_code],
                    len(first_values),
                    float(first_values.sum()) / len(first_values),
                    float(second_values.sum()) / len(first_values),
                    int((first_values > second_values).sum()),
                    int((second_values > first_values).sum()),
                )
            )
    return tuple(sorted(slices, key=lambda s: (s.gained - s.lost, -s.n, s.part, s.scenario)))
