"""Several judges of the same answers: agreement and biases (`demur judge compare`).

The reference for every verdict is people's labels where the runs hold at least `LEAST_LABELS`, else the majority of the
*other* judges (without a majority the answer is left out). A judge's *leniency* is how much more often than the
reference it calls answers correct, in points. Biases are differences of leniency:

length           answers above the median length minus those below
self-preference  answers of the judge's own model minus those of other systems

Repeat variance is the share of answers with another verdict when the same judge grades again (``--repeat``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import hypot, sqrt
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Measure, Outcome, Status
from demur.core.store import Problems, read_jsonl
from demur.judge.measures.agreement import Rating, agreed
from demur.judge.measures.paired import tango
from demur.judge.measures.rates import share_of
from demur.reports.data import Run, judged_rows, load, verdict_names, verdicts_file
from demur.reports.tables import Cell, Table, numbers, texts

PEOPLE = "people"
LEAST_LABELS = 20
"""Number of people's labels from which they are the reference."""


class JudgedAnswer(NamedTuple):
    """One answer with every judge's verdict.

    Attributes:
        system: name of its run.
        model: model of the system; "" where it is no model.
        length: characters.
        outcomes: judge -> outcome, without judges that gave no grade.
    """

    system: str
    model: str
    length: int
    outcomes: dict[str, str]


class Bias(NamedTuple):
    """A difference of leniency, in points, with its interval of 95 %; None where a side is empty."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    others: int


class JudgeComparison(NamedTuple):
    """What `compare_judges` found.

    Attributes:
        judges: names of the verdicts; the run's own bear its judge's.
        answers: everything that was judged.
        repeats: judge -> share of repeats with another verdict, the mean over answers (n) of which both have a grade.
        models: judge -> model that it asks.
        reference: ``people`` or ``other judges``.
    """

    judges: tuple[str, ...]
    answers: list[JudgedAnswer]
    repeats: dict[str, Measure]
    models: dict[str, str]
    reference: str


_Column = dict[str, str]
"""Ask -> outcome."""


def compare_judges(paths: Sequence[Path]) -> list[Table]:
    """Agreement and biases of the judges of some runs; arguments and errors as of `read_verdicts`."""
    return tables(read_verdicts(paths))


def read_verdicts(paths: Sequence[Path]) -> JudgeComparison:
    """Read every judge's verdicts of some runs.

    Raises:
        UsageError: fewer than two judges graded them.
    """
    answers: list[JudgedAnswer] = []
    variances: defaultdict[str, list[float]] = defaultdict(list)
    models: dict[str, str] = {}
    for run in load(paths).runs:
        columns, repeats = _outcomes_by_judge(run, models)
        kind, _, name = run.system.partition(":")
        model = name.rpartition("#")[2] if kind == "model" else ""
        for row in run.rows:
            if row.status is Status.FAILED:
                continue
            outcomes = {
                judge: column[row.ask] for judge, column in columns.items() if row.ask in column
            }
            for judge, share in _shares_of_other_verdicts(row.ask, columns, repeats).items():
                variances[judge].append(share)
            if row.ask in run.labels:
                outcomes[PEOPLE] = run.labels[row.ask].label.value
            answers.append(JudgedAnswer(run.name, model, len(row.answer), outcomes))
    people = sum(PEOPLE in a.outcomes for a in answers)
    if len(models) < 2 and not people and not variances:
        cure = "grade them with another judge: demur judge run RUN --judge J"
        raise UsageError("only one judge graded these answers", item=paths[0], cure=cure)
    return JudgeComparison(
        tuple(models),
        answers,
        {
            judge: share_of("repeat variance", sum(shares), len(shares))
            for judge, shares in variances.items()
        },
        models,
        PEOPLE if people >= LEAST_LABELS else "other judges",
    )


def _shares_of_other_verdicts(
    ask: str, columns: Mapping[str, _Column], repeats: Sequence[tuple[str, _Column]]
) -> dict[str, float]:
    """Judge -> share of its repeats with another verdict on an answer; a repeat without a grade is none."""
    differs: defaultdict[str, list[bool]] = defaultdict(list)
    for judge, column in repeats:
        if ask in column and ask in columns[judge]:
            differs[judge].append(column[ask] != columns[judge][ask])
    return {judge: sum(flags) / len(flags) for judge, flags in differs.items()}


def _outcomes_by_judge(
    run: Run, models: dict[str, str]
) -> tuple[dict[str, _Column], list[tuple[str, _Column]]]:
    """The columns of a run's judges, and those of their repeats (``NAME@2``); adds the models that the judges ask."""
    columns: dict[str, _Column] = {}
    repeats: list[tuple[str, _Column]] = []
    for name in ["", *verdict_names(run.path)]:
        rows = judged_rows(run.path, name) if name else run.rows
        column = {row.ask: row.outcome.value for row in rows if row.outcome is not None}
        judge, is_repeat, _ = name.partition("@")
        if is_repeat:
            repeats.append((judge, column))
            continue
        judge = name or ", ".join(run.judges) or "the run's judge"
        columns[judge] = column
        file = verdicts_file(run.path, name)
        lines = read_jsonl(file, Problems()) if file.is_file() else ()
        models_asked = {str(line.get("model") or "") for _, line in lines} - {""}
        models[judge] = ", ".join(sorted(models_asked)) or models.get(judge, "")
    return columns, [(judge, column) for judge, column in repeats if judge in columns]


def _leniency(comparison: JudgeComparison, judge: str) -> list[tuple[JudgedAnswer, int]]:
    """(answer, 1 where the judge alone says correct, -1 where the reference alone does, else 0)."""
    scored = []
    for answer in comparison.answers:
        own_outcome = answer.outcomes.get(judge)
        if own_outcome is None:
            continue
        if comparison.reference == PEOPLE:
            reference_outcome = answer.outcomes.get(PEOPLE)
        else:
            votes = Counter(v for name, v in answer.outcomes.items() if name not in (judge, PEOPLE))
            top = votes.most_common(2)
            reference_outcome = (
                None if not top or (len(top) > 1 and top[0][1] == top[1][1]) else top[0][0]
            )
        if reference_outcome is not None:
            scored.append(
                (answer, (own_outcome == Outcome.CORRECT) - (reference_outcome == Outcome.CORRECT))
            )
    return scored


def _bias(some: Sequence[int], others: Sequence[int]) -> Bias:
    if not some or not others:
        return Bias(None, None, None, len(some), len(others))
    (mean, reach_below, reach_above), (other_mean, other_reach_below, other_reach_above) = (
        _mean_and_reaches(some),
        _mean_and_reaches(others),
    )
    gap = 100 * (mean - other_mean)
    if len(some) < 2 or len(others) < 2:
        return Bias(gap, None, None, len(some), len(others))
    # the reaches of two independent means add up like variances (MOVER: Zou and Donner 2008)
    low, high = (
        gap - 100 * hypot(reach_below, other_reach_above),
        gap + 100 * hypot(reach_above, other_reach_below),
    )
    return Bias(gap, low, high, len(some), len(others))


def _mean_and_reaches(side: Sequence[int]) -> tuple[float, float, float]:
    """The mean leniency of a side, and how far its interval of 95 % reaches below and above.

    Normal; Tango's where all values are equal, since a reach of nothing would claim certainty.
    """
    n, mean = len(side), sum(side) / len(side)
    if len(set(side)) == 1:
        low, high = tango(n * (side[0] < 0), n * (side[0] > 0), n)
        return mean, mean - low, high - mean
    reach = 1.96 * sqrt(sum((v - mean) ** 2 for v in side) / (n - 1) / n)
    return mean, reach, reach


def biases(comparison: JudgeComparison, judge: str) -> dict[str, Bias]:
    """Preference for length, and for the judge's own model."""
    scored = _leniency(comparison, judge)
    lengths = sorted(answer.length for answer, _ in scored)
    middle = lengths[len(lengths) // 2] if lengths else 0
    own_models = {name.strip() for name in comparison.models.get(judge, "").split(",")} - {""}
    return {
        "length": _bias_by(scored, lambda answer: answer.length > middle),
        "self-preference": _bias_by(scored if own_models else [], lambda a: a.model in own_models),
    }


def _bias_by(
    scored: Sequence[tuple[JudgedAnswer, int]], is_favoured: Callable[[JudgedAnswer], bool]
) -> Bias:
    some = [value for answer, value in scored if is_favoured(answer)]
    others = [value for answer, value in scored if not is_favoured(answer)]
    return _bias(some, others)


def tables(comparison: JudgeComparison) -> list[Table]:
    """Agreement of every pair and of all; the biases of each judge, and how often it changes its mind."""
    return [_agreement(comparison), _biases(comparison)]


def _agreement(comparison: JudgeComparison) -> Table:
    ratings = [
        Rating(str(n), name, outcome)
        for n, answer in enumerate(comparison.answers)
        for name, outcome in answer.outcomes.items()
    ]
    names = {rating.rater for rating in ratings}
    raters = [name for name in (*comparison.judges, PEOPLE) if name in names]
    rows: list[tuple[Cell, ...]] = []
    for first, second in combinations(raters, 2):
        pair = agreed(r for r in ratings if r.rater in (first, second)).figures
        rows.append((first, second, pair["raw"], pair["cohen"].value, pair["raw"].n))
    columns = (
        *texts("Judge", "and"),
        *numbers("Agreement", interval=True),
        *numbers("Cohen kappa", decimals=2),
        *numbers("n"),
    )
    notes: tuple[str, ...] = ()
    if len(raters) > 2:
        figures = agreed(ratings).figures
        measures = ", ".join(
            f"{name}: {m.value:.2f}"
            for name, m in figures.items()
            if m.value is not None and name != "cohen"
        )
        notes = (f"All judges ({measures}); n = {figures['raw'].n:,}.",)
    caption = "Agreement of judges on the same answers"
    return Table("judges", caption, columns, tuple(rows), notes=notes)


def _biases(comparison: JudgeComparison) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for judge in comparison.judges:
        graded = sum(judge in answer.outcomes for answer in comparison.answers)
        unjudged = len(comparison.answers) - graded
        for name, bias in biases(comparison, judge).items():
            rows.append((judge, name, *bias, unjudged))
        if repeated := comparison.repeats.get(judge):
            ends = (repeated.value, repeated.low, repeated.high)
            points = (None if end is None else 100 * end for end in ends)
            rows.append((judge, "repeat variance", *points, repeated.n, None, unjudged))
    columns = (
        *texts("Judge", "Bias"),
        *numbers("Points", "From", "To", signed=True),
        *numbers("n", "against n", "Unjudged"),
    )
    notes = (
        f"Leniency against {comparison.reference}. Positive: the judge too often calls correct the longer answers, or "
        "those of its own model.",
        f"Unjudged: of {len(comparison.answers):,} answers.",
    )
    return Table("judge_biases", "Biases of the judges", columns, tuple(rows), notes=notes)
