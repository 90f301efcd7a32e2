"""A gate for CI: is a run good enough, and not worse than a baseline? Decided on intervals, to avoid flaking.

A run meets a limit where the whole interval lies on the right side, and breaks it where the whole interval lies on the
wrong side. Between, the gate cannot tell and says how many questions would decide. It cannot tell either where the
ungraded answers could reverse the result, or where the judge graded significantly fewer answers than of the baseline.
It decides on the recipes and the prompt of the report's headline, so that a sweep in the same run does not count.
The whole gate fails by chance in at most `BY_CHANCE` of its runs, however many limits it has: each of m limits uses the
interval of level 1 - 0.05/m, of which one side fails, and the comparison with a baseline tests at 5 % over all its
scenarios, of which again one side fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from demur.core.errors import UsageError
from demur.core.records import Measure, Sample, Scenario
from demur.core.stats import wilson
from demur.core.store import write_atomic
from demur.judge.measures.intervals import Auto
from demur.judge.measures.rates import rates_where
from demur.judge.measures.table import FAILED, UNGRADED
from demur.reports.cells import headline
from demur.reports.compare import compare
from demur.reports.data import Run, load, one_run
from demur.reports.tables import Table, titled, to_markdown

State = Literal["pass", "fail", "cannot tell"]
SAME = ("release", "corpora", "judge", "judge_code", "prompts", "recipes", "conditions")
"""Keys on which the manifests of two compared runs must agree."""
CODES = {"pass": 0, "fail": 1, "cannot tell": 4, "down": 5}
BY_CHANCE = 0.05
"""Largest share of failing gates on an unchanged system."""
MOST_NEEDED = 100_000
"""Largest number of questions that the gate suggests; beyond it, the rate lies at the limit."""


class Limit(NamedTuple):
    """``max hallucination of gold-removed is 0.15``."""

    side: Literal["max", "min"]
    rate: str
    scenario: Scenario
    value: float

    def __str__(self) -> str:
        return f"{self.rate} in {self.scenario} at {'most' if self.side == 'max' else 'least'} {100 * self.value:g} %"


class Check(NamedTuple):
    """One requirement of a gate, and the result."""

    what: str
    state: State
    why: str


class Gate(NamedTuple):
    """The result of a gate."""

    checks: tuple[Check, ...]
    advisory: str
    """Why the gate only advises; "" where it decides."""
    down: str = ""
    """Why the system counts as down; "" where it answered."""

    @property
    def state(self) -> str:
        """pass, fail, cannot tell or down."""
        states = {"down"} if self.down else {c.state for c in self.checks}
        return next((s for s in ("down", "fail", "cannot tell") if s in states), "pass")

    @property
    def exit_code(self) -> int:
        """0 pass or advisory, 1 fail, 4 cannot tell, 5 system down."""
        return CODES[self.state] if not self.advisory or self.down else 0

    def text(self) -> str:
        """Text for a terminal: the verdict, then a line per check."""
        first = {
            "pass": "passed",
            "fail": "FAILED",
            "cannot tell": "cannot tell",
            "down": "SYSTEM DOWN",
        }[self.state]
        lines = [f"gate: {first}" + (f" (advisory: {self.advisory})" if self.advisory else "")]
        lines += (
            [f"  {self.down}"]
            if self.down
            else [f"  {c.state:<11}  {c.what}: {c.why}" for c in self.checks]
        )
        return "\n".join(lines) + "\n"

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
        """JUnit XML: a test case per check; an undecided one is skipped."""
        cases = []
        for check in self.checks:
            inner = {
                "pass": "",
                "fail": f"<failure message={quoteattr(check.why)}/>",
                "cannot tell": f"<skipped message={quoteattr(check.why)}/>",
            }[check.state]
            cases.append(
                f'  <testcase classname="demur" name={quoteattr(check.what)}>{inner}</testcase>'
            )
        if self.down:
            cases = [
                f'  <testcase classname="demur" name="system"><error>{escape(self.down)}</error></testcase>'
            ]
        failed = sum(c.state == "fail" for c in self.checks)
        head = f'<testsuite name="demur gate" tests="{len(cases)}" failures="{failed}" errors="{int(bool(self.down))}">'
        return (
            "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"])
            + "\n"
        )


def limits(texts: Sequence[str], side: Literal["max", "min"], rate: str) -> list[Limit]:
    """Parse ``gold-removed=0.15`` or ``gold-removed=15%``.

    Raises:
        UsageError: an unknown scenario, or no share between 0 and 1.
    """
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        number = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", value.strip())
        if not equals or name not in set(Scenario) or not number:
            raise UsageError(
                f"--{side}-{rate} {text!r}",
                cure=f"write SCENARIO=SHARE, as in {Scenario.FULL}=0.6; "
                f"scenarios: {', '.join(Scenario)}",
            )
        share = float(number[1]) / (100 if number[2] else 1)
        if share > 1:
            raise UsageError(f"--{side}-{rate} {text!r} is above 1", cure="write 0.15 or 15%")
        found.append(Limit(side, rate, Scenario(name), share))
    return found


def decide(
    limit: Limit, measure: Measure | None, level: float = 0.95, *, unknown: int = 0
) -> Check:
    """Check a limit by the interval of a rate.

    Args:
        measure: rate of the run; None or without a value where nothing was graded.
        level: level of its interval.
        unknown: ungraded answers to questions without a reference answer, which no judge can grade.
    """
    if measure is None or measure.value is None or measure.low is None or measure.high is None:
        return Check(str(limit), "cannot tell", "no answer was graded")
    p, low, high = measure.value, measure.low, measure.high
    seen = f"{100 * p:.1f} % [{100 * low:.1f}, {100 * high:.1f}], n = {measure.n:,}"
    if measure.ungraded or measure.failed:
        seen += f", {measure.ungraded:,} ungraded, {measure.failed:,} failed"
    good, bad = (
        (high <= limit.value, low > limit.value)
        if limit.side == "max"
        else (low >= limit.value, high < limit.value)
    )
    if (good or bad) and _could_reverse(limit, measure, unknown, good=good):
        why = "the ungraded answers could reverse this; use a judge that grades more (--judge cascade:MODEL)"
        return Check(str(limit), "cannot tell", f"{seen}; {why}")
    if good or bad:
        return Check(str(limit), "pass" if good else "fail", seen)
    needed = _needed(p, limit.value, level)
    more = (
        f"about {needed:,} questions would decide"
        if needed and needed > measure.n
        else "the rate lies at the limit"
    )
    return Check(str(limit), "cannot tell", f"{seen}; {more}")


def _could_reverse(limit: Limit, measure: Measure, unknown: int, *, good: bool) -> bool:
    """Whether the result would be another one if all ungraded answers went the other way."""
    gradable = measure.model_copy(update={"ungraded": max(0, measure.ungraded - unknown)})
    least, most = gradable.bounds or (0.0, 1.0)
    return (
        (most > limit.value if good else least <= limit.value)
        if limit.side == "max"
        else (least < limit.value if good else most >= limit.value)
    )


def _needed(rate: float, limit: float, level: float) -> int | None:
    """Number of questions at which the interval of this rate excludes the limit; None above `MOST_NEEDED`."""
    n = 1.0
    while n <= MOST_NEEDED:
        low, high = wilson(round(rate * int(n)), int(n), level) or (0.0, 1.0)
        if limit <= low or high <= limit:
            return int(n)
        n *= 1.05 if n > 20 else 1 + 1 / n
    return None


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
    strict: bool = False,
) -> Gate:
    """Decide on a run.

    Args:
        run: run folder.
        asked: limits.
        baseline: run that it must not be worse than, on the questions asked of both (paired, clustered tests).
        release: release of the runs; None for the one beside the run.
        most_failed: share of failed answers above which the system counts as down.
        strict: decide even without human labels of this run (``labels.jsonl``); otherwise the gate only advises.

    Raises:
        UsageError: a folder holds several runs, no limit and no baseline, ``most_failed`` outside [0, 1], or a baseline
            with another release, corpus, judge or prompt.
    """
    if not 0 <= most_failed <= 1:
        raise UsageError(
            f"most failed answers: {most_failed:g}",
            cure="give a share between 0 and 1, such as 0.1",
        )
    if not asked and baseline is None:
        raise UsageError(
            "no limit given", cure="give --max-hallucination gold-removed=0.15, or --baseline RUN"
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
        data.runs[0], asked, other, samples=data.samples, most_failed=most_failed, strict=strict
    )


def decided(
    mine: Run,
    asked: Sequence[Limit] = (),
    baseline: Run | None = None,
    *,
    samples: Mapping[str, Sample] | None = None,
    most_failed: float = 0.1,
    strict: bool = False,
) -> Gate:
    """`gate` of runs in memory that agree on `SAME`."""
    failed = int((mine.rows.result == FAILED).sum())
    advisory = (
        ""
        if strict or mine.labels
        else "no person has labelled answers of this run; --strict decides anyway"
    )
    if failed > most_failed * len(mine.rows):
        errors = {error: n for (error,), n in mine.rows.tally("error").items() if error}
        commonest = max(errors, key=lambda e: errors[e]) if errors else "no reason was recorded"
        return Gate((), advisory, f"{failed:,} of {len(mine.rows):,} answers failed: {commonest}")
    checks = []
    head = headline([mine] if baseline is None else [mine, baseline])
    rows = head.where(mine.rows)
    untold = [s.id for s in (samples or {}).values() if s.answers.kind == "unknown"]
    level = Auto(1 - BY_CHANCE / max(1, len(asked)))
    for limit in asked:
        there = rows.is_in("scenario", [limit.scenario.value])
        unknown = int((there & rows.is_in("sample", untold) & (rows.result == UNGRADED)).sum())
        measure = getattr(rates_where(rows, there, level), limit.rate)
        checks.append(decide(limit, measure, level.level, unknown=unknown))
    if baseline is not None:
        found = compare(baseline, mine, samples, head)
        state: State = "fail" if found.worse else "pass" if found.differences else "cannot tell"
        why = found.sentence if found.differences else "no question was asked of both runs"
        if state == "pass" and found.lost_sight:
            state = "cannot tell"
            before, now = found.graded_alone
            why += (
                f" Of them {before:,} are graded only in {baseline.name}, {now:,} only in {mine.name}: what got worse "
                "may be among them; use a judge that grades more (--judge cascade:MODEL)."
            )
        checks.append(Check(f"not worse than {baseline.name}", state, why))
    return Gate(tuple(checks), advisory)
