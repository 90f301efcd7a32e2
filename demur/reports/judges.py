"""Several judges of the same answers: agreement and biases (`demur judge compare`).

The reference for every verdict is people's labels where the runs hold at least `LEAST_LABELS`, else the majority of the
*other* judges (without a majority the answer is left out). A judge's *leniency* is how much more often than the
reference it calls answers correct, in points. Biases are differences of leniency:

length           answers above the median length minus those below
position         answers with the accepted form in the first half minus those with it in the second
self-preference  answers of the judge's own model minus those of other systems

Repeat variance is the share of answers with another verdict when the same judge grades again (``--repeat``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import hypot, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from demur.answers import normalise
from demur.core.errors import UsageError
from demur.core.records import Measure, Outcome
from demur.core.store import Problems, read_jsonl
from demur.judge.measures.agreement import Rating, agreed
from demur.judge.measures.paired import tango
from demur.judge.measures.rates import share_of
from demur.reports.data import ReportData, Run, judged_rows, load, verdict_names, verdicts_file
from demur.reports.tables import Table, Tabulated, numbers, texts, to_records

PEOPLE = "people"
LEAST_LABELS = 20
"""Number of people's labels from which they are the reference."""


class JudgedAnswer(NamedTuple):
    """One answer with every judge's verdict.

    Attributes:
        system: name of its run.
        model: model of the system; "" where it is no model.
        length: characters.
        place: 0 to 1, where the accepted form begins; None where the answer does not hold it word by word.
        outcomes: judge -> outcome, without judges that gave no grade.
    """

    system: str
    model: str
    length: int
    place: float | None
    outcomes: dict[str, str]


class Bias(NamedTuple):
    """A difference of leniency, in points, with its interval of 95 %; None where a side is empty."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    others: int


class JudgeComparison(NamedTuple):
    """Every judge's verdicts of the same answers.

    Attributes:
        judges: names of the verdicts; the run's own bear its judge's.
        answers: everything that was judged.
        unjudged: judge -> answers without a grade from it (those that failed are nobody's).
        repeats: judge -> share of repeats with another verdict, the mean over answers (n) of which both have a grade.
        models: judge -> model that it asks.
        reference: ``people`` or ``other judges``.
    """

    judges: tuple[str, ...]
    answers: list[JudgedAnswer]
    unjudged: dict[str, int]
    repeats: dict[str, Measure]
    models: dict[str, str]
    reference: str


def compare_judges(paths: Sequence[Path], release: Path | None = None) -> Tabulated:
    """Agreement and biases of the judges of some runs; arguments and errors as of `read_verdicts`."""
    comparison = read_verdicts(paths, release)
    agreement, *others = tables(comparison)
    record = {
        "agreement": to_records(agreement),
        "answers": len(comparison.answers),
        "unjudged": comparison.unjudged,
        "reference": comparison.reference,
        "biases": {
            j: {k: b._asdict() for k, b in biases(comparison, j).items()} for j in comparison.judges
        },
        "repeat_variance": {j: m.model_dump(mode="json") for j, m in comparison.repeats.items()},
    }
    return Tabulated([agreement, *others], record)


def read_verdicts(paths: Sequence[Path], release: Path | None = None) -> JudgeComparison:
    """Read every judge's verdicts of some runs.

    Args:
        release: for the accepted answers; the one beside the first run when None.

    Raises:
        UsageError: fewer than two judges graded them.
    """
    data = load(paths, release)
    answers: list[JudgedAnswer] = []
    unjudged: Counter[str] = Counter()
    repeat_variances: defaultdict[str, list[float]] = defaultdict(list)
    models: dict[str, str] = {}
    names: dict[str, None] = {}
    for run in data.runs:
        columns, repeats = _outcomes_by_judge(run, models, names)
        for row in run.rows:
            if row.status.value == "failed":
                continue
            outcomes = {}
            for name, by_ask in columns.items():
                outcome = by_ask.get(row.ask)
                if outcome is None:
                    unjudged[name] += 1
                else:
                    outcomes[name] = outcome
            differs: defaultdict[str, list[bool]] = defaultdict(list)
            for name, by_ask in repeats:
                first, second = columns[name].get(row.ask), by_ask.get(row.ask)
                if (
                    first is not None and second is not None
                ):  # a repeat without a grade is no other verdict
                    differs[name].append(first != second)
            for name, variances in differs.items():
                repeat_variances[name].append(sum(variances) / len(variances))
            if row.ask in run.labels:
                outcomes[PEOPLE] = run.labels[row.ask].label.value
            place = _start_of_accepted_form(data, row.sample, row.answer)
            model = (
                run.system.partition(":")[2].rpartition("#")[2]
                if run.system.startswith("model:")
                else ""
            )
            answers.append(JudgedAnswer(run.name, model, len(row.answer), place, outcomes))
    if len(names) < 2 and not any(PEOPLE in a.outcomes for a in answers) and not repeat_variances:
        cure = "grade them with another judge: demur judge run RUN --judge J"
        raise UsageError("only one judge graded these answers", item=paths[0], cure=cure)
    people = sum(PEOPLE in a.outcomes for a in answers)
    return JudgeComparison(
        tuple(names),
        answers,
        {name: unjudged[name] for name in names},
        {
            name: share_of("repeat variance", sum(variances), len(variances))
            for name, variances in repeat_variances.items()
        },
        models,
        PEOPLE if people >= LEAST_LABELS else "other judges",
    )


_Column = dict[str, str]
"""Ask -> outcome."""


def _outcomes_by_judge(
    run: Run, models: dict[str, str], names: dict[str, None]
) -> tuple[dict[str, _Column], list[tuple[str, _Column]]]:
    """The columns of a run's judges, and those of their repeats (``NAME@2``)."""
    own_judge = ", ".join(run.judges) or "the run's judge"
    columns: dict[str, _Column] = {}
    repeats: list[tuple[str, _Column]] = []
    for name in ["", *verdict_names(run.path)]:
        rows = run.rows if not name else judged_rows(run.path, name)
        column = {row.ask: row.outcome.value for row in rows if row.outcome is not None}
        judge, is_repeat, _ = name.partition("@")
        if is_repeat:
            repeats.append((judge, column))
            continue
        columns[name or own_judge] = column
        names[name or own_judge] = None
        file = verdicts_file(run.path, name)
        if file.is_file():
            models_asked = {
                str(line.get("model") or "") for _, line in read_jsonl(file, Problems())
            } - {""}
            models[name or own_judge] = ", ".join(sorted(models_asked))
    return columns, [(name, column) for name, column in repeats if name in columns]


def _start_of_accepted_form(data: ReportData, sample: str, answer: str) -> float | None:
    sample_read = data.samples.get(sample)
    text = normalise(answer)
    if sample_read is None or not text:
        return None
    places = [
        start / len(text)
        for form in sample_read.answers.accepted
        for piece in form
        if (normalised_piece := normalise(piece))
        and (start := f" {text} ".find(f" {normalised_piece} ")) >= 0
    ]
    return min(places, default=None)


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
    """Length, position and self-preference of one judge."""
    scored = _leniency(comparison, judge)
    lengths = sorted(answer.length for answer, _ in scored)
    middle = lengths[len(lengths) // 2] if lengths else 0
    own_models = {name.strip() for name in comparison.models.get(judge, "").split(",")} - {""}
    placed = [(answer.place, value) for answer, value in scored if answer.place is not None]
    return {
        "length": _bias(
            [v for a, v in scored if a.length > middle],
            [v for a, v in scored if a.length <= middle],
        ),
        "position": _bias([v for p, v in placed if p < 0.5], [v for p, v in placed if p >= 0.5]),
        "self-preference": _bias(
            [v for a, v in scored if own_models and a.model in own_models],
            [v for a, v in scored if own_models and a.model not in own_models],
        ),
    }


def tables(comparison: JudgeComparison) -> list[Table]:
    """Agreement of every pair and of all, and the biases of each judge."""
    everybody = [
        *comparison.judges,
        *([PEOPLE] if any(PEOPLE in a.outcomes for a in comparison.answers) else []),
    ]
    ratings = [
        Rating(str(n), name, outcome)
        for n, answer in enumerate(comparison.answers)
        for name, outcome in answer.outcomes.items()
    ]
    rows: list[tuple[Any, ...]] = []
    for i, first_judge in enumerate(everybody):
        for second_judge in everybody[i + 1 :]:
            pair = agreed(r for r in ratings if r.rater in (first_judge, second_judge)).figures
            rows.append(
                (first_judge, second_judge, pair["raw"], pair["cohen"].value, pair["raw"].n)
            )
    columns = (
        *texts("Judge", "and"),
        *numbers("Agreement", interval=True),
        *numbers("Cohen kappa", decimals=2),
        *numbers("n"),
    )
    notes = []
    if len(everybody) > 2:
        agreement = agreed(ratings).figures
        measures = [
            f"{name}: {m.value:.2f}"
            for name, m in agreement.items()
            if m.value is not None and name != "cohen"
        ]
        notes = [f"All judges ({', '.join(measures)}); n = {agreement['raw'].n:,}."]
    agreement_tables = [
        Table(
            "judges",
            "Agreement of judges on the same answers",
            columns,
            tuple(rows),
            notes=tuple(notes),
        )
    ]
    lines: list[tuple[Any, ...]] = []
    for judge in comparison.judges:
        for name, bias in biases(comparison, judge).items():
            lines.append((judge, name, bias.value, bias.low, bias.high, bias.n, bias.others))
        repeated = comparison.repeats.get(judge)
        if repeated is not None:
            ends = [
                None if v is None else 100 * v
                for v in (repeated.value, repeated.low, repeated.high)
            ]
            lines.append((judge, "repeat variance", *ends, repeated.n, None))
    columns = (
        *texts("Judge", "Bias"),
        *numbers("Points", "From", "To", signed=True),
        *numbers("n", "against n"),
    )
    unjudged = ", ".join(f"{name} {n:,}" for name, n in comparison.unjudged.items())
    notes = [
        f"Leniency against {comparison.reference}. Positive: the judge too often calls correct the longer answers, those "
        "that state the answer early, or those of its own model.",
        f"Unjudged: {unjudged or 'none'}, of {len(comparison.answers):,} answers.",
    ]
    return [
        *agreement_tables,
        Table("judge_biases", "Biases of the judges", columns, tuple(lines), notes=tuple(notes)),
    ]
