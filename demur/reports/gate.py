"""A gate for CI: is a run good enough, and not worse than a baseline? It fails closed.

A run meets a limit where the whole interval of its rate lies on the right side, and breaks it where the whole interval
lies on the wrong side; the interval holds sampling and the judge's error, or rests on people's labels where there are
enough of them. Between, the gate is *undecided*, which is red: it says what would decide, more questions, or labels and
another judge where only the judge's error leaves it open. `plan` says before anything is asked which limits so many
questions cannot decide. It decides on the recipes and the prompt of the report's headline, so that a sweep in the same
run does not count.

The whole gate fails by chance in at most `BY_CHANCE` of its runs, however many limits it has: each of m limits uses the
interval of level 1 - 0.05/m, of which one side fails, and the comparison with a baseline tests at 5 % over all its
scenarios, of which again one side fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import Measure, Method, Sample, Scenario
from demur.core.stats import wilson
from demur.core.store import write_atomic
from demur.judge.measures.intervals import Auto
from demur.judge.measures.joint import joint
from demur.judge.measures.judge_error import shift_of
from demur.judge.measures.rates import Rates, rates_where, with_judge_error
from demur.judge.measures.table import CORRECT, DEFLECTED, FAILED, INCORRECT, UNJUDGED
from demur.judge.measures.table import Table as Rows
from demur.reports.cells import headline
from demur.reports.compare import compare
from demur.reports.data import Run, load, one_run
from demur.reports.tables import Table, titled, to_markdown

State = Literal["pass", "fail", "undecided"]
SAME = ("release", "corpora", "judge", "judge_code", "prompts", "recipes", "conditions")
"""Keys on which the manifests of two compared runs must agree."""
CODES = {"pass": 0, "fail": 1, "undecided": 4, "down": 5}
BY_CHANCE = 0.05
"""Largest share of failing gates on an unchanged system."""
MOST_NEEDED = 100_000
"""Largest number of questions that the gate suggests; beyond it, the rate lies at the limit."""


LIMITS: tuple[tuple[Literal["max", "min"], str], ...] = (
    ("min", "declined"),
    ("max", "hallucination"),
    ("min", "accuracy"),
    ("max", "deflection"),
)
"""What can be limited in a scenario. ``declined`` concerns the questions of a scenario that it is right to decline, and
needs no right answer to be known: it is the first to use where a system should not know."""


class Limit(NamedTuple):
    """``max hallucination of gold-removed is 0.15``; ``min joint`` is of all scenarios that were asked together."""

    side: Literal["max", "min"]
    rate: str
    scenario: Scenario | None
    value: float

    def __str__(self) -> str:
        where = f" in {self.scenario}" if self.scenario else " success"
        side = "most" if self.side == "max" else "least"
        return f"{self.rate}{where} at {side} {100 * self.value:g} %"


class Check(NamedTuple):
    """One requirement of a gate, and the result."""

    what: str
    state: State
    why: str


class Gate(NamedTuple):
    """The result of a gate."""

    checks: tuple[Check, ...]
    down: str = ""
    """Why the system counts as down; "" where it answered."""
    allow_undecided: bool = False

    @property
    def state(self) -> str:
        """pass, fail, undecided or down."""
        states = {"down"} if self.down else {c.state for c in self.checks}
        return next((s for s in ("down", "fail", "undecided") if s in states), "pass")

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 4 undecided (0 where that is allowed), 5 system down."""
        return 0 if self.state == "undecided" and self.allow_undecided else CODES[self.state]

    def text(self) -> str:
        """Text for a terminal: the verdict, then a line per check."""
        first = {
            "pass": "passed",
            "fail": "FAILED",
            "undecided": "UNDECIDED" + ", which is allowed" * self.allow_undecided,
            "down": "SYSTEM DOWN",
        }[self.state]
        checks = [f"  {c.state:<9}  {c.what}: {c.why}" for c in self.checks]
        return "\n".join([f"gate: {first}", *([f"  {self.down}"] if self.down else checks)]) + "\n"

    def write(self, *, junit: Path | None = None, markdown: Path | None = None) -> None:
        """Write JUnit XML and Markdown files for a CI."""
        if junit:
            write_atomic(junit, self.junit())
        if markdown:
            write_atomic(markdown, self.markdown())

    def markdown(self) -> str:
        """Markdown for a pull request."""
        columns = titled("<Requirement | <Result | <Found")
        rows = tuple((c.what, c.state, c.why) for c in self.checks) or (
            ("the system", "down", self.down),
        )
        return to_markdown(Table("gate", self.text().splitlines()[0], columns, rows))

    def junit(self) -> str:
        """JUnit XML: a test case per check; an undecided one fails, unless that is allowed."""
        cases = []
        for check in self.checks:
            red = check.state == "fail" or (check.state == "undecided" and not self.allow_undecided)
            mark = "failure" if red else "skipped"
            why = f"<{mark} message={quoteattr(f'{check.state}: {check.why}')}/>"
            inner = "" if check.state == "pass" else why
            cases.append(
                f'  <testcase classname="demur" name={quoteattr(check.what)}>{inner}</testcase>'
            )
        if self.down:
            cases = [
                f'  <testcase classname="demur" name="system"><error>{escape(self.down)}</error></testcase>'
            ]
        failed = sum("<failure" in case for case in cases)
        head = f'<testsuite name="demur gate" tests="{len(cases)}" failures="{failed}" errors="{int(bool(self.down))}">'
        return (
            "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"])
            + "\n"
        )


def limits(texts: Sequence[str], side: Literal["max", "min"], rate: str) -> list[Limit]:
    """Parse ``gold-removed=0.15`` or ``gold-removed=15%``; of ``joint`` the share alone.

    Raises:
        UsageError: an unknown scenario, or no share between 0 and 1.
    """
    parsed = []
    for text in texts:
        name, equals, value = text.partition("=") if rate != "joint" else ("", "=", text)
        number = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", value.strip())
        if not equals or (name and name not in set(Scenario)) or not number:
            raise UsageError(
                f"--{side}-{rate} {text!r}",
                cure="write a share, as in 0.6"
                if rate == "joint"
                else f"write SCENARIO=SHARE, as in {Scenario.FULL}=0.6; "
                f"scenarios: {', '.join(Scenario)}",
            )
        share = float(number[1]) / (100 if number[2] else 1)
        if share > 1:
            raise UsageError(f"--{side}-{rate} {text!r} is above 1", cure="write 0.15 or 15%")
        scenario = Scenario(name) if name else None
        parsed.append(Limit(side, rate, scenario, share))
    return parsed


def decide(limit: Limit, measure: Measure, sampling: Measure, level: float = 0.95) -> Check:
    """Check a limit by the interval of a rate.

    Args:
        limit: what is wanted.
        measure: rate of the run, its interval with the judge's error.
        sampling: the same with an interval of sampling alone.
        level: level of the intervals.
    """
    if measure.value is None or measure.low is None or measure.high is None:
        return Check(str(limit), "undecided", "no answer was graded: look at the run's errors")
    counts = f"n = {measure.n:,}" + "".join(
        f", {n:,} {what}"
        for n, what in ((measure.unjudged, "unjudged"), (measure.failed, "failed"))
        if n
    )
    corrected = measure.corrected
    shown = f"{100 * measure.value:.1f} %" + (
        f", {100 * corrected:.1f} without the judge's errors" if corrected is not None else ""
    )
    shown += f" [{100 * measure.low:.1f}, {100 * measure.high:.1f}], {counts}"
    state = _side(limit, measure)
    if (
        state != "undecided"
        and measure.unjudged
        and _side(limit, _worst(measure, state, limit)) != state
    ):
        why = f"{measure.unjudged:,} unjudged answers could turn this; run the command again"
        return Check(str(limit), "undecided", f"{shown}; {why}")
    if state != "undecided":
        return Check(str(limit), state, shown)
    if _side(limit, sampling) != "undecided":
        why = "only the judge's error leaves this open: label 40 answers of the scenario (demur annotate draw), or use another judge"
        return Check(str(limit), "undecided", f"{shown}; {why}")
    needed = _needed(measure.value, limit.value, level)
    more = (
        f"about {needed:,} questions would decide"
        if needed and needed > measure.n
        else "the rate lies at the limit"
    )
    return Check(str(limit), "undecided", f"{shown}; {more}")


def _side(limit: Limit, measure: Measure) -> State:
    """On which side of a limit the whole interval of a rate lies."""
    low, high = measure.low or 0.0, 1.0 if measure.high is None else measure.high
    if limit.side == "max":
        return "pass" if high <= limit.value else "fail" if low > limit.value else "undecided"
    return "pass" if low >= limit.value else "fail" if high < limit.value else "undecided"


def _worst(measure: Measure, state: State, limit: Limit) -> Measure:
    """The rate if all unjudged answers spoke against what the gate would decide."""
    graded = measure.repeats or measure.n
    every = graded + measure.unjudged
    against = (state == "pass") == (limit.side == "max")
    moved = ((measure.value or 0.0) * graded + (measure.unjudged if against else 0)) / every
    step = moved - (measure.value or 0.0)
    ends = {"low": (measure.low or 0.0) + step, "high": (measure.high or 0.0) + step}
    return measure.model_copy(update=ends)


def _needed(rate: float, limit: float, level: float) -> int | None:
    """Number of questions at which the interval of this rate excludes the limit; None above `MOST_NEEDED`."""
    n = 1.0
    while n <= MOST_NEEDED:
        low, high = wilson(round(rate * int(n)), int(n), level) or (0.0, 1.0)
        if limit <= low or high <= limit:
            return int(n)
        n *= 1.05 if n > 20 else 1 + 1 / n
    return None


def plan(asked: Sequence[Limit], n: Mapping[Scenario, int]) -> list[str]:
    """Which limits so many questions cannot decide, and how many can, before anything is asked.

    Args:
        asked: the limits.
        n: scenario -> questions that will be asked.

    Returns:
        A line for each limit that even the best run cannot meet.

    Raises:
        UsageError: a limit on a scenario that will not be asked.
    """
    level = 1 - BY_CHANCE / max(1, len(asked))
    lines = []
    for limit in asked:
        if limit.scenario is not None and limit.scenario not in n:
            raise _not_asked(limit, n)
        most = n[limit.scenario] if limit.scenario is not None else min(n.values(), default=0)
        if _best(limit, most, level) == "pass":
            continue
        if _best(limit, MOST_NEEDED, level) != "pass":
            why = "no number of questions can: the local judge errs more than this limit allows; label answers, or use another judge"
        else:
            enough = next(k for k in range(most, MOST_NEEDED) if _best(limit, k, level) == "pass")
            why = f"{enough:,} can, where all answers are right"
        lines.append(f"{limit}: {most:,} questions cannot meet it; {why}")
    return lines


def plan_of(release: Path, asked: Sequence[Limit], questions: int | None = None) -> list[str]:
    """`plan` for a release of which all, or so many, questions will be asked in each scenario."""
    from demur.release import Release

    samples = sum(1 for _ in Release.open(release).samples())
    n = min(questions or samples, samples)
    return plan(asked, dict.fromkeys(Scenario, n))


def _best(limit: Limit, n: int, level: float) -> State:
    """What a gate says of a run that does everything right, as the local judge sees it."""
    if not n:
        return "undecided"
    hits = 0.0 if limit.side == "max" else 1.0
    low, high = wilson(hits * n, n, level) or (0.0, 1.0)
    measure = Measure(name=limit.rate, value=hits, n=n, low=low, high=high)
    result = CORRECT if limit.rate in ("accuracy", "joint") else DEFLECTED
    if limit.rate == "deflection":
        result = INCORRECT
    method = Method.DECLINED if result == DEFLECTED else Method.EQUIVALENCE
    shift = shift_of(np.array([list(Method).index(method)]), np.array([result]), np.ones(1))
    rate = "deflection" if limit.rate in ("declined", "deflection") else limit.rate
    moved = getattr(shift, "accuracy" if rate == "joint" else rate)
    return _side(limit, with_judge_error(measure, moved, level))


def _not_asked(limit: Limit, scenarios: Iterable[Scenario]) -> UsageError:
    return UsageError(
        "a limit on a scenario that is not asked",
        item=str(limit),
        cure=f"ask it too (--scenarios), or limit one of: {', '.join(scenarios)}",
    )


def differences(run: Run, baseline: Run) -> list[str]:
    """The keys of `SAME` in which two runs differ."""
    return [key for key in SAME if run.manifest.get(key) != baseline.manifest.get(key)]


def gate(
    run: Path,
    asked: Sequence[Limit] = (),
    *,
    baseline: Path | None = None,
    release: Path | None = None,
    most_failed: float = 0.1,
    allow_undecided: bool = False,
) -> Gate:
    """Decide on a run.

    Args:
        run: run folder.
        asked: limits.
        baseline: run that it must not be worse than, on the questions asked of both (paired, clustered tests).
        release: release of the runs; None for the one beside the run.
        most_failed: share of failed answers above which the system counts as down.
        allow_undecided: an undecided gate is green.

    Raises:
        UsageError: a folder holds several runs, no limit and no baseline, ``most_failed`` outside [0, 1], a limit on a
            scenario that was not asked, or a baseline with another release, corpus, judge or prompt.
    """
    if not 0 <= most_failed <= 1:
        raise UsageError(
            f"most failed answers: {most_failed:g}",
            cure="give a share between 0 and 1, such as 0.1",
        )
    if not asked and baseline is None:
        raise UsageError(
            "no limit given", cure="give --min-declined gold-removed=0.85, or --baseline RUN"
        )
    data = load([one_run(path) for path in (run, baseline) if path is not None], release)
    other = None
    if baseline is not None:
        other = data.runs[1]
        if unlike := differences(data.runs[0], other):
            raise UsageError(
                f"the baseline differs in {', '.join(unlike)}",
                item=str(baseline),
                cure="run both in the same way",
            )
    return decided(
        data.runs[0],
        asked,
        other,
        samples=data.samples,
        most_failed=most_failed,
        allow_undecided=allow_undecided,
    )


def decided(
    run: Run,
    asked: Sequence[Limit] = (),
    baseline: Run | None = None,
    *,
    samples: Mapping[str, Sample] | None = None,
    most_failed: float = 0.1,
    allow_undecided: bool = False,
) -> Gate:
    """`gate` of runs in memory that agree on `SAME`."""
    failed = int((run.rows.result == FAILED).sum())
    if failed > most_failed * len(run.rows):
        errors = {error: n for (error,), n in run.rows.tally("error").items() if error}
        commonest = max(errors, key=lambda e: errors[e]) if errors else "no reason was recorded"
        return Gate((), f"{failed:,} of {len(run.rows):,} answers failed: {commonest}")
    head = headline([run] if baseline is None else [run, baseline])
    rows = head.where(run.rows)
    level = 1 - BY_CHANCE / max(1, len(asked))
    checks = [_checked(limit, rows, level) for limit in asked]
    if baseline is not None:
        comparison = compare(baseline, run, samples, head)
        state: State = (
            "fail" if comparison.worse else "pass" if comparison.differences else "undecided"
        )
        why = comparison.sentence if comparison.differences else "no question was asked of both"
        unjudged = int((run.rows.result == UNJUDGED).sum())
        if state == "pass" and comparison.lost_sight:
            state = "undecided"
            why += f" {unjudged:,} answers are unjudged; run the command again."
        checks.append(Check(f"not worse than {baseline.name}", state, why))
    return Gate(tuple(checks), allow_undecided=allow_undecided)


def _checked(limit: Limit, rows: Rows, level: float) -> Check:
    scenarios = [Scenario(label) for label in rows.coded("scenario").labels]
    if limit.scenario is None:
        if len(scenarios) < 2:
            raise UsageError(
                "joint success is of two scenarios or more",
                item=str(limit),
                cure="run more scenarios",
            )
        measure = joint(rows, scenarios, level)
        return decide(limit, measure, measure, level)
    if limit.scenario not in scenarios:
        raise _not_asked(limit, scenarios)
    there = rows.is_in("scenario", [limit.scenario.value])
    rate = limit.rate
    if rate == "declined":
        there, rate = there & rows.should_deflect, "deflection"
    measures: list[Rates] = [
        rates_where(rows, there, Auto(level), judge_error=errors) for errors in (True, False)
    ]
    with_errors, sampling = (getattr(one, rate) for one in measures)
    return decide(limit, with_errors, sampling, level)
