"""Answers graded, and judges measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.checked import checked
from demur.core.errors import UsageError
from demur.core.progress import Progress, progress_if
from demur.core.records import AnswerSpec

if TYPE_CHECKING:
    from demur.core.records import Measure, Verdict
    from demur.judge.attacks import FamilyCounts
    from demur.judge.base import Judge
    from demur.reports.data import ReportData
    from demur.reports.judge_bench import JudgeBench


@dataclass(frozen=True)
class JudgeOptions:
    """Who grades, how often, and what one that asks a model is given."""

    judge: str = "local"
    """A name (`demur.judge.base.open_judge`)."""
    repeat: int = 1
    """Times to ask, past the ledger."""
    ledger: Path | None = None
    """Where the model's replies are kept and paid for once; None keeps none."""
    concurrency: int | None = None
    """Calls in flight per endpoint."""
    budget: float | None = None
    """Dollars, for all repeats; stops before exceeding them, and the same call continues."""
    prices: Path | None = None
    """Price table that overrides entries of the shipped one."""
    progress: bool = False
    """Show progress on standard error."""


class Grading(NamedTuple):
    """What a judge says of some answers, once."""

    verdicts: Sequence[Verdict]
    summary: str
    """What a cascade saved, or how far the members of a panel agree; "" of other judges."""
    bench: JudgeBench | None = None
    """Beside people's labels, where it was measured on such."""

    @property
    def counts(self) -> Counter[str]:
        """Outcome, or status where there is none -> verdicts."""
        return Counter((v.outcome or v.status).value for v in self.verdicts)

    @property
    def credit(self) -> str:
        """The mean credit, in words; "" of a judge that only labels."""
        return _mean_credit(v.credit for v in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        if self.bench:
            return _named(self.summary) | self.bench.as_dict()
        verdicts = [v.model_dump(mode="json") for v in self.verdicts]
        return _named(self.summary) | {"counts": self.counts, "verdicts": verdicts}


class Gradings(NamedTuple):
    """What a judge says of the same answers, asked once or several times."""

    first: Grading
    repeats: Sequence[Grading]

    @property
    def variance(self) -> Measure:
        """Share of the later verdicts that differ from the first."""
        from demur.judge.measures.agreement import repeat_variance

        return repeat_variance(self.first.verdicts, [g.verdicts for g in self.repeats])

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        if not self.repeats:
            return self.first.as_json()
        repeats = [grading.as_json() for grading in self.repeats]
        variance = self.variance.model_dump(mode="json")
        return self.first.as_json() | {"repeats": repeats, "repeat_variance": variance}


class Regraded(NamedTuple):
    """A run whose stored answers were graded again."""

    data: ReportData
    verdicts: str
    """Name of the verdicts beside the run's own; "" of a new run folder."""
    summary: str
    """As of `Grading`."""
    silent: Sequence[str] = ()
    """A line for each run in which every answer failed."""

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        from demur.reports.terminal import summarised

        return _named(self.verdicts, "verdicts") | _named(self.summary) | summarised(self.data)


class Attacked(NamedTuple):
    """What came of the attacks on a judge."""

    judge: str
    families: Sequence[FamilyCounts]
    flipped: Sequence[str]
    """The answers that flipped it."""
    summary: str
    """As of `Grading`."""

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        families = [family._asdict() for family in self.families]
        return _named(self.summary) | {"families": families, "flipped": self.flipped}


@checked
def grade(
    question: str,
    answers: str | Sequence[str] | AnswerSpec | Mapping[str, Any],
    response: str,
    *,
    judge: str = "local",
    choices: Mapping[str, str] | Sequence[tuple[str, str]] = (),
) -> Verdict:
    """Grade one response: correct, incorrect or deflected; failed for an empty one, unjudged where a judge's call fails.

    Args:
        question: the question.
        answers: accepted answers, any one of which is right; or an `demur.core.records.AnswerSpec`, as it is or as a
            dict of its fields: a range, parts that must all be there, a date, that nothing answers the question.
        response: the system's response. Untrusted.
        judge: who grades.
        choices: letter -> text of the options; ``answers`` are then letters or texts of the right ones.

    >>> grade("Which river is it?", answers=["Danube"], response="The Danube, I think.").outcome.value
    'correct'
    >>> feet = {"kind": "number", "number": (90, 110), "unit": "ft"}
    >>> grade("How high is it?", answers=feet, response="About 30 m.").outcome.value
    'correct'
    """
    from pydantic import ValidationError

    from demur.core.store import why_invalid
    from demur.evaluation.rejudge import GradeRow, grade_items, row_item
    from demur.judge.base import open_judge

    try:
        row = row_item(
            GradeRow(
                id="grade",
                question=question,
                answers=(answers,) if isinstance(answers, str) else answers,
                response=response,
                choices=dict(choices),
            )
        )
    except ValidationError as error:
        raise UsageError(
            why_invalid(error),
            item="grade",
            cure="give an accepted answer, not an empty one, or the fields of an AnswerSpec",
        ) from error
    [verdict] = grade_items(open_judge(judge), [row])
    return verdict


def grade_file(
    rows: Path,
    options: JudgeOptions,
    *,
    out: Path | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
) -> Gradings:
    """Grade the rows of a file: question, answers, response; ``demur judge file``.

    Args:
        rows: JSONL, JSON, CSV, TSV or Parquet.
        options: who grades.
        out: file for the verdicts; those of repeats go to OUT@2 ...; None for none.
        columns: column, or path to it -> the field that it holds (`demur.evaluation.rejudge.GradeRow`).
        skip_bad: leave out bad rows, and count them.

    Raises:
        DataError: the rows are of another shape; names the columns that would read them.
        BadInput: malformed rows; lists all, before any is graded.
    """
    from demur.evaluation.rejudge import judge_file

    gradings = []
    with _graders(options) as (graders, _):
        for number, (judge, progress) in enumerate(graders):
            file = out.with_stem(f"{out.stem}@{number + 1}") if out and number else out
            verdicts = judge_file(
                rows, judge, file, columns=columns, skip_bad=skip_bad, progress=progress
            )
            gradings.append(Grading(verdicts, _summary_of(judge)))
    return Gradings(gradings[0], gradings[1:])


def regrade(
    run: Path,
    options: JudgeOptions,
    *,
    out: Path | None = None,
    name: str = "",
    release: Path | None = None,
) -> Regraded:
    """Grade the stored answers of a run again, without asking the system; ``demur judge run``.

    Args:
        run: run folder.
        options: who grades.
        out: a new run folder; None files the verdicts beside the run's own.
        name: of the verdicts beside the run's own; those of repeats are NAME@2 ...; "" derives it from the judge's.
        release: of the run; None for the one beside it.

    Raises:
        UsageError: the run is of another release or not finished, or ``name`` is another judge's.
    """
    from demur.core.store import Problems, read_jsonl
    from demur.evaluation.rejudge import judge_beside, judge_run
    from demur.evaluation.run_folder import all_failed
    from demur.reports.data import load, open_beside

    opened = open_beside(run, release)
    if out is not None and (name or options.repeat > 1):
        raise UsageError(
            "--name and --repeat are of verdicts beside the run's own", cure="leave out --out"
        )
    with _graders(options) as (graders, steps):
        for number, (judge, progress) in enumerate(graders):
            if out is not None:
                judge_run(run, opened, judge, out, steps=steps)
                data = load([out], opened.folder)
                return Regraded(data, "", _summary_of(judge), all_failed([out]))
            name = name or re.sub(r"[^\w.+-]+", "-", judge.id).strip("-")[:60]
            verdicts_name = f"{name}@{number + 1}" if number else name
            file = judge_beside(run, opened, judge, verdicts_name, progress=progress)
            credit = _mean_credit(line.get("credit") for _, line in read_jsonl(file, Problems()))
            for line in filter(None, (str(file), credit, _summary_of(judge))):
                steps.note(line)
    return Regraded(load([run], opened.folder, verdicts=name), name, _summary_of(graders[0][0]))


def attack_judge(options: JudgeOptions, *, unmasked: bool = False) -> Attacked:
    """Send a judge answers that try to be graded right; ``demur judge attack``.

    Args:
        options: who is attacked.
        unmasked: attack its model a second time, with nothing of an answer left out: what the mask blocks.

    Raises:
        UsageError: ``unmasked`` of a judge that asks no model.
    """
    from demur.evaluation.rejudge import put_attacks
    from demur.judge.attacks import attacks

    total = sum(1 for _ in attacks()) * (1 + unmasked)
    with _graders(options, "attacks", total, unmasked=unmasked) as ([(judge, progress), *bare], _):
        if unmasked and not getattr(judge, "asks_models", False):
            raise UsageError(
                "it asks no model, and nothing is masked",
                item=judge.id,
                cure="leave out --unmasked",
            )
        families, flipped = put_attacks(
            judge, progress, *(unmasked_judge for unmasked_judge, _ in bare)
        )
        return Attacked(judge.id, families, flipped, _summary_of(judge))


def bench_judge(options: JudgeOptions, on: Path | None = None) -> Gradings:
    """Measure a judge on answers that people labelled; ``demur judge bench``.

    Args:
        options: who is measured.
        on: file or folder of labelled answers; None for those of demur.
    """
    from demur.reports.judge_bench import measure_judge

    gradings = []
    with _graders(options) as (graders, _):
        for judge, progress in graders:
            bench = measure_judge(judge, on, progress)
            gradings.append(Grading(bench.verdicts, _summary_of(judge), bench))
    return Gradings(gradings[0], gradings[1:])


@contextmanager
def _graders(
    options: JudgeOptions,
    counted: str = "answers graded",
    total: int = 0,
    *,
    unmasked: bool = False,
) -> Iterator[tuple[Sequence[tuple[Judge, Callable[[int], None]]], Progress]]:
    """The judge once for each repeat, and once more unmasked where that is wanted; each with what is told its count."""
    from demur.judge.base import JudgeContext, open_judge
    from demur.models import Budget

    budget = None if options.budget is None else Budget(options.budget)
    settings = options.ledger, options.concurrency, budget, options.prices
    contexts = [JudgeContext(*settings, repeat=number) for number in range(options.repeat)]
    if unmasked:
        contexts.append(JudgeContext(*settings, unmasked=True))
    with progress_if(options.progress) as steps:
        steps.stage("grade")

        def counting(judge: Judge) -> Callable[[int], None]:
            asks_models = options.ledger and getattr(judge, "asks_models", False)
            where_calls_are = f"calls kept in {options.ledger}" if asks_models else ""
            return lambda n: steps.count(counted, n, total, where_calls_are)

        judges = [open_judge(options.judge, context) for context in contexts]
        yield [(judge, counting(judge)) for judge in judges], steps


def _summary_of(judge: Judge) -> str:
    return str(getattr(judge, "summary", ""))


def _named(value: str, key: str = "summary") -> dict[str, Any]:
    return {key: value} if value else {}


def _mean_credit(credits: Iterable[float | None]) -> str:
    """The mean credit of a judge that rates, and how many answers it did not rate; "" for a judge that only labels."""
    all_credits = list(credits)
    rated = [c for c in all_credits if c is not None]
    if not rated:
        return ""
    return f"mean credit {sum(rated) / len(rated):.3f} of n = {len(rated):,}, {len(all_credits) - len(rated):,} not rated"
