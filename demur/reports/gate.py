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
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from demur.core.errors import UsageError
from demur.core.records import Measure, Method, Sample, Scenario
from demur.core.stats import Floats, wilson
from demur.core.store import write_atomic
from demur.evaluation import questions
from demur.judge.measures.corrected import LEAST
from demur.judge.measures.intervals import Auto
from demur.judge.measures.joint import joint_and_shift
from demur.judge.measures.judge_error import interval_with, shares, shift_of
from demur.judge.measures.rates import rates_where, with_judge_error
from demur.judge.measures.repeats import gather
from demur.judge.measures.table import CORRECT, DEFLECTED, FAILED, INCORRECT, UNJUDGED
from demur.judge.measures.table import Table as Rows
from demur.reports.cells import Should, headline, labelled_rates
from demur.reports.compare import compare
from demur.reports.data import Run, load, one_run
from demur.reports.tables import Table, texts, to_markdown

if TYPE_CHECKING:
    from demur.evaluation.options import RunOptions
    from demur.release import Release

State = Literal["pass", "fail", "undecided"]
SAME = ("release", "corpora", "judge", "judge_code", "prompts", "recipes", "conditions")
"""Keys on which the manifests of two compared runs must agree."""
CODES = {"pass": 0, "fail": 1, "undecided": 4, "down": 5}
BY_CHANCE = 0.05
"""Largest share of failing gates on an unchanged system."""
MOST_NEEDED = 100_000
"""Largest number of questions that the gate suggests; beyond it, the rate lies at the limit."""
OTHERWISE = "label {missing} answers of {where} (demur annotate draw), or use another judge"
"""What decides where the judge's error does not let questions decide."""


LIMITS: tuple[tuple[Literal["max", "min"], str], ...] = (
    ("min", "declined"),
    ("max", "hallucination"),
    ("min", "accuracy"),
    ("max", "deflection"),
)
"""What can be limited in a scenario. ``declined`` needs no right answer to be known: it is the first to use where a
system should not know."""
LIMITED_TO: dict[str, Should] = {
    "declined": "deflect",
    "accuracy": "answer",
    "deflection": "answer",
}
"""Rate -> the questions of a scenario that it is taken over, by what is right; all questions where it is not here."""


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
        verdict = {
            "pass": "passed",
            "fail": "FAILED",
            "undecided": "UNDECIDED" + ", which is allowed" * self.allow_undecided,
            "down": "SYSTEM DOWN",
        }[self.state]
        checks = [f"{c.state:<9}  {c.what}: {c.why}" for c in self.checks]
        lines = [folded(line) for line in ([self.down] if self.down else checks)]
        return "\n".join([f"gate: {verdict}", *lines]) + "\n"

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        state = {"state": self.state, "exit": self.exit_code, "down": self.down}
        return state | {"checks": [check._asdict() for check in self.checks]}

    def write(self, *, junit: Path | None = None, markdown: Path | None = None) -> None:
        """Write JUnit XML and Markdown files for a CI."""
        if junit:
            write_atomic(junit, self.junit())
        if markdown:
            write_atomic(markdown, self.markdown())

    def markdown(self) -> str:
        """Markdown for a pull request."""
        columns = (
            *texts("Requirement", "Result"),
            *texts("Found", wraps=True),
        )
        rows = tuple((c.what, c.state, c.why) for c in self.checks) or (
            ("the system", "down", self.down),
        )
        return to_markdown(Table("gate", self.text().splitlines()[0], columns, rows))

    def junit(self) -> str:
        """JUnit XML: a test case per check; an undecided one fails, unless that is allowed."""
        cases = []
        for check in self.checks:
            red = check.state == "fail" or (check.state == "undecided" and not self.allow_undecided)
            tag = "failure" if red else "skipped"
            outcome_tag = f"<{tag} message={quoteattr(f'{check.state}: {check.why}')}/>"
            content = "" if check.state == "pass" else outcome_tag
            cases.append(
                f'  <testcase classname="demur" name={quoteattr(check.what)}>{content}</testcase>'
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


def folded(line: str) -> str:
    """A line indented by 2, in lines of at most 80 columns of which the later ones stand further in."""
    whole = line.replace("n = ", "n\xa0=\xa0")  # what must not be broken
    lines = fill(whole, 80, initial_indent="  ", subsequent_indent=" " * 13, break_on_hyphens=False)
    return lines.replace("\xa0", " ")


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


class Reading(NamedTuple):
    """What a run says of the rate that is limited."""

    measure: Measure
    """Its interval holds sampling and the judge's error, or is that of ``corrected``, by people's labels."""
    shift: Floats | None = None
    """float64 [2, draws], what the judge's errors may move the rate by; None where that is not known or labels decide."""
    sampling: Measure | None = None
    """The same rate with an interval of sampling alone; None where labels decide."""
    labels: int = 0
    """Drawn labels of the scenario."""

    @property
    def corrected(self) -> bool:
        """Whether they decide."""
        return self.measure.labels > 0


Shares: TypeAlias = Mapping[str, float] | Sequence[str] | None
"""Scenario -> share, or the same as texts: ``full=0.6``, ``full=60%``."""


class Demands(TypedDict, total=False):
    """What a gate wants of a run."""

    min_declined: Shares
    """Lowest share declined of the questions that it is right to decline."""
    min_accuracy: Shares
    """Lowest share of right answers among the questions to answer."""
    max_hallucination: Shares
    """Highest share of wrong answers."""
    max_deflection: Shares
    """Highest share of deflections among the questions to answer."""
    min_joint: float | str | None
    """Lowest share of questions that are right in all scenarios of the run."""


def limits_of(**demands: Unpack[Demands]) -> list[Limit]:
    """The limits of these demands, in the order of `LIMITS`."""
    shares_of_limit: Mapping[str, Any] = demands
    stated_limits = []
    for side, rate in (*LIMITS, ("min", "joint")):
        shares = shares_of_limit.get(f"{side}_{rate}")
        if isinstance(shares, Mapping):
            shares = [f"{scenario}={share:f}" for scenario, share in shares.items()]
        elif isinstance(shares, float | int | str):
            shares = [shares if isinstance(shares, str) else f"{shares:f}"]
        stated_limits += limits(shares or (), side, rate)
    return stated_limits


def decide(limit: Limit, reading: Reading, level: float = 0.95) -> Check:
    """Check a limit by the interval of a rate.

    Args:
        limit: what is wanted.
        reading: of the run.
        level: level of the intervals.
    """
    measure = reading.measure
    if measure.value is None or measure.low is None or measure.high is None:
        return Check(str(limit), "undecided", "no answer was graded: look at the run's errors")
    counts = [f"n = {measure.n:,}"] + [
        f"{n:,} {state_of_answers}"
        for n, state_of_answers in ((measure.unjudged, "unjudged"), (measure.failed, "failed"))
        if n
    ]
    rate_text = f"{100 * measure.value:.1f} %"
    if measure.corrected is not None:
        rate_text += f", {100 * measure.corrected:.1f} without the judge's errors"
    rate_text += f" [{100 * measure.low:.1f}, {100 * measure.high:.1f}], {', '.join(counts)}"
    if reading.corrected:
        rate_text += f", corrected by {reading.labels:,} labels"
    elif reading.shift is None:
        rate_text += ", the judge's error is unknown"
    state = _state_by_interval(limit, measure)
    if state == "undecided":
        return Check(str(limit), state, f"{rate_text}; {_what_would_decide(limit, reading, level)}")
    if turning := _could_turn(limit, reading, state):
        return Check(str(limit), "undecided", f"{rate_text}; {turning}")
    return Check(str(limit), state, rate_text)


def _state_by_interval(limit: Limit, measure: Measure) -> State:
    """On which side of a limit the whole interval of a rate lies."""
    low, high = measure.low or 0.0, 1.0 if measure.high is None else measure.high
    return _state_between(limit, low, high)


def _state_between(limit: Limit, low: float, high: float) -> State:
    if limit.side == "max":
        return "pass" if high <= limit.value else "fail" if low > limit.value else "undecided"
    return "pass" if low >= limit.value else "fail" if high < limit.value else "undecided"


def _could_turn(limit: Limit, reading: Reading, state: State) -> str:
    """Which answers that are in no rate could turn a decision, and what to do; "" if they could not.

    Unjudged answers may be anything, unless people's labels are of them, too. Failed ones count against a pass alone:
    nobody passes by failing where it is hard.
    """
    measure = reading.measure
    uncounted = [] if reading.corrected else [(measure.unjudged, "unjudged")]
    if state == "pass":
        uncounted.append((measure.failed, "failed"))
    uncounted_in_all = sum(n for n, _ in uncounted)
    if not uncounted_in_all:
        return ""
    graded = measure.repeats or measure.n
    counted_against = uncounted_in_all if (state == "pass") == (limit.side == "max") else 0
    value = (measure.corrected if reading.corrected else measure.value) or 0.0
    step = (value * graded + counted_against) / (graded + uncounted_in_all) - value
    if _state_between(limit, (measure.low or 0.0) + step, (measure.high or 0.0) + step) == state:
        return ""
    answers_in_words = " and ".join(f"{n:,} {kind}" for n, kind in uncounted if n)
    return f"{answers_in_words} answers could turn a {state}: mend the cause and run the same command again"


def _what_would_decide(limit: Limit, reading: Reading, level: float) -> str:
    """What would decide an undecided limit: questions, or labels and another judge."""
    measure, shift = reading.measure, reading.shift
    value = measure.value or 0.0
    if reading.corrected:
        return "more labels of the scenario (demur annotate draw), then more questions"
    if shift is not None and _questions_needed(value, limit, level) is not None:
        low, high, _ = interval_with(value, value, value, shift, level)
        if _state_between(limit, low, high) == "undecided":
            scenario_text = str(limit.scenario) if limit.scenario else "each scenario"
            labels_missing = f"{LEAST - reading.labels} more" if reading.labels < LEAST else "more"
            cure = OTHERWISE.format(
                missing=labels_missing if reading.labels else LEAST, where=scenario_text
            )
            return f"the judge's error leaves it open, however many questions are asked: {cure}"
    questions_needed = _questions_needed(value, limit, level, shift)
    if questions_needed is None:
        return "the rate lies at the limit"
    sampling = reading.sampling or measure
    sampling_alone = wilson(value * measure.n, measure.n, level) or (0.0, 1.0)
    widening = ((sampling.high or 1.0) - (sampling.low or 0.0)) / (
        sampling_alone[1] - sampling_alone[0]
    )
    return f"about {round(questions_needed * max(1.0, widening) ** 2):,} questions would decide"


def _questions_needed(
    rate: float, limit: Limit, level: float, shift: Floats | None = None
) -> int | None:
    """Number of questions at which the interval of this rate excludes the limit; None above `MOST_NEEDED`."""
    n = 1.0
    while n <= MOST_NEEDED:
        low, high = wilson(round(rate * int(n)), int(n), level) or (0.0, 1.0)
        if shift is not None:
            low, high, _ = interval_with(rate, min(low, rate), max(high, rate), shift, level)
        if _state_between(limit, low, high) != "undecided":
            return int(n)
        n *= 1.05 if n > 20 else 1 + 1 / n
    return None


def plan(
    limits: Sequence[Limit],
    n: Mapping[Scenario, int],
    unanswerable: int = 0,
    judge: str = "local",
) -> list[Check]:
    """Which limits so many questions cannot decide, and how many can, before anything is asked.

    Args:
        limits: to decide on.
        n: scenario -> questions that will be asked.
        unanswerable: of these, so many are right to decline where the evidence is there, and not right to answer.
        judge: who will grade; the errors of the local one are measured.

    Returns:
        An undecided check for each limit that not even a system without a fault could meet, as the local judge sees it.

    Raises:
        UsageError: no limit, or one on a scenario or on declining where no question asks for it.
    """
    if not limits:
        raise UsageError("no limit to plan for", cure="give --min-declined gold-removed=0.85")
    level = 1 - BY_CHANCE / len(limits)
    checks = []
    for limit in limits:
        if limit.scenario is not None and limit.scenario not in n:
            raise _not_asked_error(limit, n)
        most_questions = (
            n[limit.scenario] if limit.scenario is not None else min(n.values(), default=0)
        )
        if limit.scenario is not None and limit.rate in LIMITED_TO:
            to_decline = unanswerable if limit.scenario.should == "answer" else most_questions
            to_answer = most_questions - min(most_questions, to_decline)
            should = LIMITED_TO[limit.rate]
            most_questions = to_answer if should == "answer" else min(most_questions, to_decline)
            if not most_questions:
                raise _no_such_questions_error(limit)
        if _can_be_met(limit, most_questions, level, judge):
            continue
        numbers_of_questions = range(most_questions, MOST_NEEDED)
        questions_needed = most_questions + bisect_left(
            numbers_of_questions, True, key=lambda k: _can_be_met(limit, k, level, judge)
        )
        reason = f"{most_questions:,} questions cannot decide it, {questions_needed:,} can"
        if questions_needed == MOST_NEEDED:
            reason = f"no number of questions can decide it, the judge errs too often: {OTHERWISE}"
        checks.append(
            Check(str(limit), "undecided", reason.format(missing=LEAST, where="each scenario"))
        )
    return checks


def plan_gate(
    release: Release,
    *,
    scenarios: str | Sequence[str] | None = None,
    questions: int | None = None,
    judge: str = "local",
    allow_undecided: bool = False,
    **demands: Unpack[Demands],
) -> Gate:
    """`plan` for a release, before anything is asked.

    Args:
        release: of the run.
        scenarios: as `demur.evaluate` takes them; None where they are not known yet.
        questions: of each scenario, if not all of the release.
        judge: who will grade.
        allow_undecided: what cannot be decided is green.
        demands: to decide on (`Demands`).
    """
    from demur.scenarios.contexts import recipes

    texts = [scenarios] if isinstance(scenarios, str) else scenarios
    scenarios_planned = (
        Scenario if texts is None else [recipe.scenario for recipe in recipes(texts)]
    )
    answerable = [s.answerable for s in release.samples()]
    n = min(questions or len(answerable), len(answerable))
    limits = limits_of(**demands)
    checks = plan(limits, dict.fromkeys(scenarios_planned, n), answerable.count(False), judge)
    return Gate(tuple(checks), allow_undecided=allow_undecided)


def tightest_limits(n: int, judge: str) -> list[Limit]:
    """Of each kind of limit the tightest, in whole per cent, that ``n`` questions graded by a judge can decide alone."""
    limits = []
    for side, rate in LIMITS:
        percents = range(101) if side == "max" else range(100, -1, -1)
        candidates = (Limit(side, rate, None, share / 100) for share in percents)
        limits.append(next(limit for limit in candidates if _can_be_met(limit, n, 0.95, judge)))
    return limits


def limits_not_decidable(options: RunOptions, release: Release) -> str:
    """Which limits the questions of a run cannot decide."""
    tasks = questions.tasks(options, list(release.samples()), release.sha256)
    questions_of_cell = Counter((t.ask.scenario, t.ask.recipe, t.ask.condition) for t in tasks)
    fewest = min(questions_of_cell.values()) // options.repeat
    limits = ", ".join(
        f"--{side}-{rate} {'above' if side == 'min' else 'below'} {100 * share:.0f}%"
        for side, rate, _, share in tightest_limits(fewest, options.judge)
    )
    return (
        f"{fewest:,} questions of a scenario cannot decide {limits}; "
        "how many can: demur gate RELEASE --plan"
    )


def _can_be_met(limit: Limit, n: int, level: float, judge: str) -> bool:
    """Whether the gate passes a system without a fault, as the judge sees it: the local one errs on it, too."""
    if not n:
        return False
    declines = limit.rate in ("declined", "hallucination")
    measured = judge.partition("?")[0] == "local"
    missed = float(shares("declined" if declines else "equivalence").missed.mean()) * measured
    value = {"deflection": 0.0, "hallucination": missed}.get(limit.rate, 1 - missed)
    low, high = wilson(value * n, n, level) or (0.0, 1.0)
    if measured:
        method, right = (Method.DECLINED, DEFLECTED) if declines else (Method.EQUIVALENCE, CORRECT)
        codes = [list(Method).index(m) for m in (method, Method.EQUIVALENCE)]
        shift = shift_of(
            np.array(codes), np.array([right, INCORRECT]), np.array([1 - missed, missed])
        )
        rate = {"declined": "deflection", "joint": "accuracy"}.get(limit.rate, limit.rate)
        low, high, _ = interval_with(value, low, high, getattr(shift, rate), level)
    return _state_between(limit, low, high) == "pass"


def _not_asked_error(limit: Limit, scenarios: Iterable[Scenario]) -> UsageError:
    return UsageError(
        "a limit on a scenario that is not asked",
        item=str(limit),
        cure=f"ask it too (--scenarios), or limit one of: {', '.join(scenarios)}",
    )


def _no_such_questions_error(limit: Limit) -> UsageError:
    should = LIMITED_TO[limit.rate]
    other = "declined" if should == "answer" else "accuracy"
    return UsageError(
        f"no question of this scenario is right to {should}", item=str(limit), cure=f"limit {other}"
    )


def aspects_that_differ(run: Run, baseline: Run) -> list[str]:
    """The keys of `SAME` in which two runs differ."""
    return [key for key in SAME if run.manifest.get(key) != baseline.manifest.get(key)]


def gate(
    run: Path,
    limits: Sequence[Limit] = (),
    *,
    baseline: Path | None = None,
    release: Path | None = None,
    most_failed: float = 0.1,
    allow_undecided: bool = False,
) -> Gate:
    """Decide on a run.

    Args:
        run: run folder.
        limits: to decide on.
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
    if not limits and baseline is None:
        raise UsageError(
            "no limit given", cure="give --min-declined gold-removed=0.85, or --baseline RUN"
        )
    data = load([one_run(path) for path in (run, baseline) if path is not None], release)
    baseline_run = None
    if baseline is not None:
        baseline_run = data.runs[1]
        if aspects_unlike := aspects_that_differ(data.runs[0], baseline_run):
            raise UsageError(
                f"the baseline differs in {', '.join(aspects_unlike)}",
                item=str(baseline),
                cure="run both in the same way",
            )
    return gate_of_runs(
        data.runs[0],
        limits,
        baseline_run,
        samples=data.samples,
        most_failed=most_failed,
        allow_undecided=allow_undecided,
    )


def gate_of_runs(
    run: Run,
    limits: Sequence[Limit] = (),
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
    level = 1 - BY_CHANCE / max(1, len(limits))
    checks = [_check(limit, run, rows, level) for limit in limits]
    if baseline is not None:
        comparison = compare(baseline, run, samples, head)
        state: State = (
            "fail" if comparison.worse else "pass" if comparison.differences else "undecided"
        )
        reason = comparison.sentence if comparison.differences else "no question was asked of both"
        unjudged = int((run.rows.result == UNJUDGED).sum())
        if state == "pass" and comparison.lost_sight:
            state = "undecided"
            reason += f" {unjudged:,} answers are unjudged; run the command again."
        checks.append(Check(f"not worse than {baseline.name}", state, reason))
    return Gate(tuple(checks), allow_undecided=allow_undecided)


def _check(limit: Limit, run: Run, rows: Rows, level: float) -> Check:
    scenarios = [Scenario(label) for label in rows.coded("scenario").labels]
    if limit.scenario is None:
        return decide(limit, _joint_reading(limit, rows, scenarios, level), level)
    if limit.scenario not in scenarios:
        raise _not_asked_error(limit, scenarios)
    in_scenario = rows.is_in("scenario", [limit.scenario.value])
    if should := LIMITED_TO.get(limit.rate):
        in_scenario = in_scenario & (rows.should_deflect == (should == "deflect"))
        if not in_scenario.any():
            raise _no_such_questions_error(limit)
    rate = "deflection" if limit.rate == "declined" else limit.rate
    rates, labels = labelled_rates(run, rows, in_scenario, level)
    measure: Measure = getattr(rates, rate)
    if measure.labels:
        return decide(limit, Reading(measure, labels=labels), level)
    sampling: Measure = getattr(
        rates_where(rows, in_scenario, Auto(level), judge_error=False), rate
    )
    graded = in_scenario & rows.graded
    shifts = shift_of(rows.method[graded], rows.result[graded], gather(rows.item, graded).weight())
    shift = None if shifts is None else getattr(shifts, rate)
    return decide(limit, Reading(measure, shift, sampling, labels), level)


def _joint_reading(
    limit: Limit, rows: Rows, scenarios: Sequence[Scenario], level: float
) -> Reading:
    if len(scenarios) < 2:
        raise UsageError(
            "joint success is of two scenarios or more", item=str(limit), cure="run more scenarios"
        )
    sampling, shift = joint_and_shift(rows, scenarios, level)
    return Reading(with_judge_error(sampling, shift, level), shift, sampling)
