"""A comparison as tables, as the output of ``demur compare``, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TextIO

from demur.core.text import brief
from demur.judge.measures.corrected import LEAST
from demur.judge.measures.power import paired
from demur.reports.compare import ALPHA, PRIMARY, RATES, SEEN, Changed, Comparison, Difference
from demur.reports.tables import (
    Column,
    Link,
    Table,
    console_for,
    numbers,
    plain,
    print_table,
    section_starts,
    texts,
    tidy,
    without_zeros,
)

MOST_SLICES = 10
"""Parts in the table of regressions."""


def pairs_needed(difference: Difference, effect: float) -> int | None:
    """Pairs needed to detect a difference of ``effect`` (a share: 0.05 is 5 points) with 80 % power."""
    return paired(effect, min(1.0, max(difference.spread, effect)))


def _power_note(main: Sequence[Difference], effect: float) -> str:
    counts = ", ".join(f"{d.where} {pairs_needed(d, effect):,} (had {d.n:,})" for d in main)
    return f"Pairs needed to detect a difference of {100 * effect:g} points in right behaviour with 80 % power: {counts}."


def _judge_note(comparison: Comparison, main: Sequence[Difference]) -> str:
    """What labels decide, or how far unequal errors of the judge could shift the differences."""
    if corrected := [d for d in main if d.labels != (0, 0)]:
        counts = ", ".join("{} {:,} and {:,}".format(d.where, *d.labels) for d in corrected)
        return f"Rates, differences and p by labels of people: {counts}."
    unused = ""
    if any(comparison.unused_labels):
        unused_of_first, unused_of_second = comparison.unused_labels
        unused = f" Labels ({unused_of_first:,} and {unused_of_second:,}) correct nothing: {LEAST} of either would."
    shifts = [f"{100 * d.judge_shift:.0f} ({d.where})" for d in main if d.judge_shift is not None]
    if not shifts:
        return (
            f"How unequally the judge errs on the two is unknown without labels of people.{unused}"
        )
    return f"If the judge errs unequally on the two, right behaviour shifts by up to {', '.join(shifts)} points.{unused}"


def table(comparison: Comparison, effect: float = SEEN) -> Table:
    """Paired differences per scenario and measure, with verdicts, and the pairs needed to detect ``effect``."""
    columns = (
        *texts("Scenario", "Measure"),
        *numbers("n"),
        Column(comparison.first),
        Column(comparison.second),
        *numbers("Difference", interval=True, signed=True),
        *numbers("Lost", "Gained", "p (Holm)"),
        *texts("Verdict"),
    )
    caption = f"{comparison.second} against {comparison.first}, paired, in per cent"
    if not comparison.differences:
        return Table(
            "compare",
            caption,
            columns,
            missing="two runs over the same context sets (same release, seed, recipes and prompts) with graded answers",
        )
    rows: list[tuple[Any, ...]] = []
    for d in comparison.differences:
        p = None if d.p_holm is None else "< 0.001" if d.p_holm < 0.001 else f"{d.p_holm:.3f}"
        rows.append(
            (
                d.where,
                d.measure,
                d.n,
                100 * d.first,
                100 * d.second,
                d.measured,
                d.lost,
                d.gained,
                p,
                d.verdict,
            )
        )
    main = [d for d in comparison.differences if d.measure == PRIMARY]
    repeats = (
        " (with {:,} and {:,} repeats)".format(*comparison.answers)
        if comparison.repeats > 1
        else ""
    )
    ungraded = (
        f", {comparison.unjudged:,} pairs failed or unjudged in one or both"
        if comparison.unjudged
        else ""
    )
    notes = (
        _judge_note(comparison, main),
        _power_note(main, effect),
        f"n: pairs of answers to the same question, evidence and prompt: {comparison.pairs:,} in all{repeats}. "
        f"Left out: {comparison.only_first:,} and {comparison.only_second:,} questions asked of only one{ungraded}.",
        f"Lost: only {comparison.first} has it; gained: only {comparison.second} has it. Intervals, 95 %: paired bootstrap over "
        "clusters, or Tango's score interval where all pairs are alike; to 0 where no difference is shown.",
        f"p: {comparison.test}, with Holm's correction over {len(main)} tests of right behaviour and over "
        f"{sum(d.measure in RATES for d in comparison.differences)} tests of the rates; a difference is shown below {ALPHA:g}, if its interval leaves out 0.",
        "Right behaviour: a correct answer where gold evidence is shown, a deflection where it is not. Truthfulness: "
        "right answers less wrong ones, by a sign-flip test of its own. Joint success: right in all scenarios of the "
        "same question.",
    )
    return Table("compare", caption, columns, tuple(rows), section_starts(rows), notes)


def slices_table(comparison: Comparison) -> Table:
    """The parts with the largest loss of right behaviour."""
    columns = (
        *texts("Part", "Scenario"),
        *numbers("n"),
        Column(comparison.first),
        Column(comparison.second),
        *numbers("Lost", "Gained"),
    )
    worst = [s for s in comparison.slices if s.gained < s.lost][:MOST_SLICES]
    rows = tuple(
        (s.part, s.scenario, s.n, 100 * s.first, 100 * s.second, s.lost, s.gained) for s in worst
    )
    caption = f"Worst regressions of right behaviour by part, {comparison.second} against {comparison.first}"
    return Table(
        "regressions",
        caption,
        columns,
        rows,
        notes=("Ordered by lost minus gained; a description of these pairs, not a test.",)
        if rows
        else ("No source or topic lost more than it gained.",),
    )


def changed_table(
    comparison: Comparison,
    items: Sequence[Changed],
    name: str,
    caption: str,
    is_linked: Callable[[str], bool] = lambda sample: False,
) -> Table:
    """Items that changed, one line each; the samples that the page shows are linked to it."""
    columns = (
        *texts("Scenario", "Sample"),
        *texts("Question", "Answer", wraps=True),
        *texts(f"{comparison.first} answered", f"{comparison.second} answered", wraps=True),
    )
    rows = tuple(
        (
            i.scenario,
            Link(i.sample, f"#ask={i.context}/{i.condition}") if is_linked(i.sample) else i.sample,
            brief(i.question, 300),
            brief(i.accepted, 60),
            f"{i.before}: {brief(i.said_before, 80)}",
            f"{i.after}: {brief(i.said_after, 80)}",
        )
        for i in items
    )
    changed = Table(name, caption, columns, rows)
    if any(i.question for i in items):
        return changed
    return replace(
        without_zeros(changed, "Question", "Answer"),
        notes=("Questions and answers are in the release: add --release DIR.",),
    )


def print_comparison(
    comparison: Comparison, *, items: int = 10, effect: float = SEEN, file: TextIO | None = None
) -> None:
    """Print the verdict, the differences and the changed items to ``file``, or to standard output."""
    from rich.text import Text

    console = console_for(file)
    parts = [table(comparison, effect)]
    if comparison.differences:
        parts.append(slices_table(comparison))
    for changed, name, all_ in (
        (comparison.lost, "lost", comparison.lost_in_all),
        (comparison.gained, "gained", comparison.gained_in_all),
    ):
        if changed and items:
            caption = f"{name.capitalize()} by {comparison.second}: {min(items, len(changed))} of {all_} items"
            parts.append(changed_table(comparison, changed[:items], name, caption))
    for part in parts:
        print_table(console, part)
    if comparison.differences:
        console.print(Text(plain(comparison.sentence), style="bold"))


def as_json(comparison: Comparison, effect: float = SEEN) -> dict[str, Any]:
    """The comparison as JSON-safe values: what ``demur compare --json`` prints."""
    differences = []
    for d in comparison.differences:
        record = {k: tidy(v) if isinstance(v, float) else v for k, v in d._asdict().items()}
        stated = {"verdict": d.verdict, "significant": d.significant}
        differences.append(record | stated | {"pairs_needed": pairs_needed(d, effect)})
    lists = {
        name: [entry._asdict() for entry in getattr(comparison, name)]
        for name in ("lost", "gained", "slices")
    }
    stated_of_all = {name: getattr(comparison, name) for name in ("test", "worse", "sentence")}
    return comparison._asdict() | lists | stated_of_all | {"differences": differences}
