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
from demur.reports.tables import Table, numbers, texts

PEOPLE = "people"
LEAST_LABELS = 20
"""Number of people's labels from which they are the reference."""


class Judged(NamedTuple):
    """One answer with every judge's verdict.

    Attributes:
        system: name of its run.
        model: model of the system; "" where it is no model.
        length: characters.
        place: 0 to 1, where the accepted form begins; None where the answer does not hold it word by word.
        said: judge -> outcome, without judges that gave no grade.
    """

    system: str
    model: str
    length: int
    place: float | None
    said: dict[str, str]


class Bias(NamedTuple):
    """A difference of leniency, in points, with its interval of 95 %; None where a side is empty."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    others: int


class Compared(NamedTuple):
    """What `compare_judges` found.

    Attributes:
        judges: names of the verdicts; the run's own bear its judge's.
        answers: everything that was judged.
        unjudged: judge -> answers without a grade from it (those that failed are nobody's).
        repeats: judge -> share of repeats with another verdict, the mean over answers (n) of which both have a grade.
        models: judge -> model that it asks.
        reference: ``people`` or ``other judges``.
    """

    judges: tuple[str, ...]
    answers: list[Judged]
    unjudged: dict[str, int]
    repeats: dict[str, Measure]
    models: dict[str, str]
    reference: str


def compare_judges(paths: Sequence[Path], release: Path | None = None) -> Compared:
    """Read every judge's verdicts of some runs.

    Args:
        release: for the accepted answers; the one beside the first run when None.

    Raises:
        UsageError: fewer than two judges graded them.
    """
    data = load(paths, release)
    answers: list[Judged] = []
    unjudged: Counter[str] = Counter()
    again: defaultdict[str, list[float]] = defaultdict(list)
    models: dict[str, str] = {}
    names: dict[str, None] = {}
    for run in data.runs:
        columns, repeats = _verdicts(run, models, names)
        for row in run.rows:
            if row.status.value == "failed":
                continue
            said = {}
            for name, by_ask in columns.items():
                outcome = by_ask.get(row.ask)
                if outcome is None:
                    unjudged[name] += 1
                else:
                    said[name] = outcome
            different: defaultdict[str, list[bool]] = defaultdict(list)
            for name, by_ask in repeats:
                first, second = columns[name].get(row.ask), by_ask.get(row.ask)
                if (
                    first is not None and second is not None
                ):  # a repeat without a grade is no other verdict
                    different[name].append(first != second)
            for name, each in different.items():
                again[name].append(sum(each) / len(each))
            if row.ask in run.labels:
                said[PEOPLE] = run.labels[row.ask].label.value
            place = _place(data, row.sample, row.answer)
            model = (
                run.system.partition(":")[2].rpartition("#")[2]
                if run.system.startswith("model:")
                else ""
            )
            answers.append(Judged(run.name, model, len(row.answer), place, said))
    if len(names) < 2 and not any(PEOPLE in a.said for a in answers) and not again:
        cure = "grade them with another judge: demur judge run RUN --judge J"
        raise UsageError("only one judge graded these answers", item=paths[0], cure=cure)
    people = sum(PEOPLE in a.said for a in answers)
    return Compared(
        tuple(names),
        answers,
        {name: unjudged[name] for name in names},
        {name: share_of("repeat variance", sum(each), len(each)) for name, each in again.items()},
        models,
        PEOPLE if people >= LEAST_LABELS else "other judges",
    )


_Column = dict[str, str]
"""Ask -> outcome."""


def _verdicts(
    run: Run, models: dict[str, str], names: dict[str, None]
) -> tuple[dict[str, _Column], list[tuple[str, _Column]]]:
    """The columns of a run's judges, and those of their repeats (``NAME@2``)."""
    own = ", ".join(run.judges) or "the run's judge"
    columns: dict[str, _Column] = {}
    repeats: list[tuple[str, _Column]] = []
    for name in ["", *verdict_names(run.path)]:
        rows = run.rows if not name else judged_rows(run.path, name)
        column = {row.ask: row.outcome.value for row in rows if row.outcome is not None}
        first, mark, _ = name.partition("@")
        if mark:
            repeats.append((first, column))
            continue
        columns[name or own] = column
        names[name or own] = None
        file = verdicts_file(run.path, name)
        if file.is_file():
            asked = {str(line.get("model") or "") for _, line in read_jsonl(file, Problems())} - {
                ""
            }
            models[name or own] = ", ".join(sorted(asked))
    return columns, [(name, column) for name, column in repeats if name in columns]


def _place(data: ReportData, sample: str, answer: str) -> float | None:
    known = data.samples.get(sample)
    text = normalise(answer)
    if known is None or not text:
        return None
    places = [
        at / len(text)
        for form in known.answers.accepted
        for part in form
        if (words := normalise(part)) and (at := f" {text} ".find(f" {words} ")) >= 0
    ]
    return min(places, default=None)


def _leniency(found: Compared, judge: str) -> list[tuple[Judged, int]]:
    """(answer, 1 where the judge alone says correct, -1 where the reference alone does, else 0)."""
    scored = []
    for answer in found.answers:
        mine = answer.said.get(judge)
        if mine is None:
            continue
        if found.reference == PEOPLE:
            right = answer.said.get(PEOPLE)
        else:
            votes = Counter(v for name, v in answer.said.items() if name not in (judge, PEOPLE))
            top = votes.most_common(2)
            right = None if not top or (len(top) > 1 and top[0][1] == top[1][1]) else top[0][0]
        if right is not None:
            scored.append((answer, (mine == Outcome.CORRECT) - (right == Outcome.CORRECT)))
    return scored


def _bias(some: Sequence[int], others: Sequence[int]) -> Bias:
    if not some or not others:
        return Bias(None, None, None, len(some), len(others))
    (one, fall, rise), (other, its_fall, its_rise) = _with_reach(some), _with_reach(others)
    gap = 100 * (one - other)
    if len(some) < 2 or len(others) < 2:
        return Bias(gap, None, None, len(some), len(others))
    # the reaches of two independent means add up like variances (MOVER: Zou and Donner 2008)
    low, high = gap - 100 * hypot(fall, its_rise), gap + 100 * hypot(rise, its_fall)
    return Bias(gap, low, high, len(some), len(others))


def _with_reach(side: Sequence[int]) -> tuple[float, float, float]:
    """The mean leniency of a side, and how far its interval of 95 % reaches below and above.

    Normal; Tango's where all values are equal, since a reach of nothing would claim certainty.
    """
    n, mean = len(side), sum(side) / len(side)
    if len(set(side)) == 1:
        low, high = tango(n * (side[0] < 0), n * (side[0] > 0), n)
        return mean, mean - low, high - mean
    reach = 1.96 * sqrt(sum((v - mean) ** 2 for v in side) / (n - 1) / n)
    return mean, reach, reach


def biases(found: Compared, judge: str) -> dict[str, Bias]:
    """Length, position and self-preference of one judge."""
    scored = _leniency(found, judge)
    lengths = sorted(answer.length for answer, _ in scored)
    middle = lengths[len(lengths) // 2] if lengths else 0
    own = {name.strip() for name in found.models.get(judge, "").split(",")} - {""}
    placed = [(answer.place, value) for answer, value in scored if answer.place is not None]
    return {
        "length": _bias(
            [v for a, v in scored if a.length > middle],
            [v for a, v in scored if a.length <= middle],
        ),
        "position": _bias([v for p, v in placed if p < 0.5], [v for p, v in placed if p >= 0.5]),
        "self-preference": _bias(
            [v for a, v in scored if own and a.model in own],
            [v for a, v in scored if own and a.model not in own],
        ),
    }


def tables(found: Compared) -> list[Table]:
    """Agreement of every pair and of all, and the biases of each judge."""
    everybody = [*found.judges, *([PEOPLE] if any(PEOPLE in a.said for a in found.answers) else [])]
    ratings = [
        Rating(str(n), name, said)
        for n, answer in enumerate(found.answers)
        for name, said in answer.said.items()
    ]
    rows: list[tuple[Any, ...]] = []
    for i, one in enumerate(everybody):
        for other in everybody[i + 1 :]:
            pair = agreed(r for r in ratings if r.rater in (one, other)).figures
            rows.append((one, other, pair["raw"], pair["cohen"].value, pair["raw"].n))
    columns = (
        *texts("Judge", "and"),
        *numbers("Agreement", interval=True),
        *numbers("Cohen kappa", decimals=2),
        *numbers("n"),
    )
    notes = []
    if len(everybody) > 2:
        whole = agreed(ratings).figures
        each = [
            f"{name}: {m.value:.2f}"
            for name, m in whole.items()
            if m.value is not None and name != "cohen"
        ]
        notes = [f"All judges ({', '.join(each)}); n = {whole['raw'].n:,}."]
    made = [
        Table(
            "judges",
            "Agreement of judges on the same answers",
            columns,
            tuple(rows),
            notes=tuple(notes),
        )
    ]
    lines: list[tuple[Any, ...]] = []
    for judge in found.judges:
        for name, bias in biases(found, judge).items():
            lines.append((judge, name, bias.value, bias.low, bias.high, bias.n, bias.others))
        repeated = found.repeats.get(judge)
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
    unjudged = ", ".join(f"{name} {n:,}" for name, n in found.unjudged.items())
    notes = [
        f"Leniency against {found.reference}. Positive: the judge too often calls correct the longer answers, those "
        "that state the answer early, or those of its own model.",
        f"Unjudged: {unjudged or 'none'}, of {len(found.answers):,} answers.",
    ]
    return [
        *made,
        Table("judge_biases", "Biases of the judges", columns, tuple(lines), notes=tuple(notes)),
    ]
