"""Two runs side by side: paired differences with a verdict on each, and the items that changed.

Runs are paired by context set and condition: only asks that both systems were graded on are compared, and how
many were not is told. Every test is exact McNemar on the asks where the two differ; where asks were repeated, each
counts with the mean of its draws, and a sign-flip test takes McNemar's place. Holm's correction is over two
families: right behaviour in each scenario, which decides the verdict, and the three rates behind it, which explain it.
The interval of a difference is a paired bootstrap over clusters; McNemar's test takes pairs as independent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from demur.judge.measures.paired import Paired, holm, of_means
from demur.judge.measures.power import paired
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT, Flags, Floats
from demur.judge.measures.table import Table as Columns
from demur.records import Outcome, Row, Sample, Scenario
from demur.report.cells import SCENARIOS, Headline, by_item, majority
from demur.report.data import Run
from demur.report.tables import Column, Table, plain, to_rich

PRIMARY = "right behaviour"
"""The measure that decides whether a system is worse; one test per scenario."""
ALPHA = 0.05
"""Level of the verdicts, after Holm's correction."""
SEEN = 0.05
"""The difference for which the number of pairs needed is told: 5 points."""


def is_right(row: Row) -> bool:
    """Whether a graded row shows the behaviour its scenario asks for: a right answer, or a deflection."""
    return row.outcome is (Outcome.CORRECT if row.expected == "answer" else Outcome.DEFLECTED)


def _flags(rows: Columns) -> dict[str, Flags]:
    """Measure name -> bool [rows]: which rows count for it."""
    right = np.where(rows.should_deflect, rows.result == DEFLECTED, rows.result == CORRECT)
    return {
        PRIMARY: right,
        "accuracy": rows.result == CORRECT,
        "deflection": rows.result == DEFLECTED,
        "hallucination": rows.result == INCORRECT,
    }


def _means(items: Sequence[Sequence[Row]]) -> dict[str, Floats]:
    """Measure name -> float64 [items]: the share of an item's draws that count for it."""
    sizes = np.array([len(draws) for draws in items])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    flags = _flags(Columns(r for draws in items for r in draws))
    return {name: np.add.reduceat(hit.astype(np.float64), starts) / sizes for name, hit in flags.items()}


_SIGN = {PRIMARY: 1, "accuracy": 1, "hallucination": -1}
"""+1 where more is better, -1 where less is; deflection depends on the scenario."""


class Difference(NamedTuple):
    """One paired difference, second minus first.

    Attributes:
        scenario: where.
        measure: right behaviour, accuracy, deflection or hallucination.
        n: pairs graded in both.
        first: rate of the first run over those pairs.
        second: rate of the second.
        delta: second - first, in [-1, 1].
        low: lower end of its 95 % interval.
        high: upper end.
        gained: pairs where only the second has it.
        lost: pairs where only the first has it.
        p: exact McNemar, two-sided; None when no pair is discordant.
        p_holm: corrected over its family (right behaviour, or the three rates).
    """

    scenario: Scenario
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

    @property
    def significant(self) -> bool:
        """Whether chance alone is an unlikely reason, at `ALPHA` after correction."""
        return self.p_holm is not None and self.p_holm < ALPHA

    @property
    def better(self) -> int:
        """+1 when the second is better here, -1 when worse, 0 when neither can be said."""
        wanted = 1 if self.scenario in (Scenario.PARAMETRIC, Scenario.ADVERSARIAL) else -1
        sign = _SIGN.get(self.measure, wanted)
        return 0 if not self.significant else sign * (1 if self.delta > 0 else -1)

    @property
    def verdict(self) -> str:
        """In words."""
        return {1: "better", -1: "WORSE", 0: "no difference shown"}[self.better]


class Changed(NamedTuple):
    """One ask that the two systems ended differently."""

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
    """Everything that two runs differ in."""

    first: str
    second: str
    pairs: int
    only_first: int
    only_second: int
    ungraded: int
    differences: tuple[Difference, ...]
    lost: tuple[Changed, ...]
    """Right with the first, not with the second; hallucinations first, and those before gold evidence first of all."""
    gained: tuple[Changed, ...]
    slices: tuple[Slice, ...]
    """Worst first."""
    draws: int = 1
    """Draws per ask, at most; an ask's draws are one pair, with their mean."""

    @property
    def test(self) -> str:
        """The test behind the p-values."""
        return "exact McNemar" if self.draws == 1 else "sign-flip test of the means over an ask's draws"

    @property
    def worse(self) -> bool:
        """Whether the second run is significantly worse in right behaviour somewhere."""
        return any(d.better < 0 for d in self.differences if d.measure == PRIMARY)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence or two."""
        mine = [d for d in self.differences if d.measure == PRIMARY]
        worse = [f"{d.scenario.value} ({100 * d.delta:+.1f} points)" for d in mine if d.better < 0]
        better = [f"{d.scenario.value} ({100 * d.delta:+.1f} points)" for d in mine if d.better > 0]
        parts = []
        if worse:
            parts.append(f"behaves worse than {self.first} in {', '.join(worse)}")
        if better:
            parts.append(f"behaves better than {self.first} in {', '.join(better)}")
        if not parts:
            return (
                f"{self.pairs:,} pairs show no difference in right behaviour between {self.first} and {self.second} "
                f"(at {ALPHA:g} after Holm); that is not proof that there is none."
            )
        return f"{self.second} {' and '.join(parts)}."


def compare(
    first: Run, second: Run, samples: Mapping[str, Sample] | None = None, head: Headline | None = None
) -> Comparison:
    """Compare two runs over the asks they share.

    Args:
        first: the one to compare with.
        second: the one that may be better or worse.
        samples: sample id -> sample, for the questions of the items that changed; ids are shown without.
        head: count the asks of these recipes and this prompt alone; None takes every shared ask, sweeps and all.

    Returns:
        The comparison; without a shared ask it has no differences.
    """
    left = by_item(r for r in first.rows if head is None or head.holds(r))
    right = by_item(r for r in second.rows if head is None or head.holds(r))
    shared = sorted(set(left) & set(right))
    both = [
        ([r for r in left[k] if r.outcome is not None], [r for r in right[k] if r.outcome is not None]) for k in shared
    ]
    items = [(a, b) for a, b in both if a and b]
    graded = [(majority(a), majority(b)) for a, b in items]
    raw: list[tuple[Scenario, Paired]] = []
    for scenario in SCENARIOS:
        mine = [(a, b) for a, b in items if a[0].scenario is scenario]
        if not mine:
            continue
        one, other = _means([a for a, _ in mine]), _means([b for _, b in mine])
        cluster = Columns(a[0] for a, _ in mine).cluster
        for name, means in one.items():
            raw.append((scenario, of_means(means, other[name], cluster, measure=name)))
    # Two families: the behaviour that is asked for decides; the three rates behind it explain.
    corrected: list[float | None] = [None] * len(raw)
    for first_question in (True, False):
        family = [i for i, (_, one) in enumerate(raw) if (one.measure == PRIMARY) is first_question]
        for i, p in zip(family, holm([raw[i][1].p_exact for i in family]), strict=True):
            corrected[i] = p
    differences = tuple(
        Difference(
            scenario, one.measure, one.n, one.first or 0.0, one.second or 0.0, one.difference or 0.0, one.low, one.high,
            one.only_second, one.only_first, one.p_exact, p,
        )
        for (scenario, one), p in zip(raw, corrected, strict=True)
    )  # fmt: skip

    def changed(a: Row, b: Row) -> Changed:
        sample = (samples or {}).get(a.sample)
        return Changed(
            a.sample, a.context, a.condition, a.scenario.value, a.source, sample.question if sample else a.sample,
            _word(a), _word(b), a.answer, b.answer,
        )  # fmt: skip

    order = {Outcome.INCORRECT: 0, Outcome.DEFLECTED: 1, Outcome.CORRECT: 2}
    gravity = (Scenario.ORACLE, Scenario.REALISTIC, Scenario.ADVERSARIAL, Scenario.PARAMETRIC)

    def grave(a: Row, wrong: Row) -> tuple[int, int, str, str]:
        """Made up before deflected, and with gold evidence in sight before without."""
        return order[wrong.outcome or Outcome.CORRECT], gravity.index(a.scenario), a.sample, a.context

    lost = sorted(((a, b) for a, b in graded if is_right(a) and not is_right(b)), key=lambda p: grave(p[0], p[1]))
    gained = sorted(((a, b) for a, b in graded if is_right(b) and not is_right(a)), key=lambda p: grave(p[0], p[0]))
    return Comparison(
        first=first.name,
        second=second.name,
        pairs=len(graded),
        only_first=len(left) - len(shared),
        only_second=len(right) - len(shared),
        ungraded=len(shared) - len(graded),
        differences=differences,
        lost=tuple(changed(a, b) for a, b in lost),
        gained=tuple(changed(a, b) for a, b in gained),
        slices=_slices(graded),
        draws=max((len(draws) for pair in items for draws in pair), default=1),
    )


def _word(row: Row) -> str:
    return {Outcome.CORRECT: "correct", Outcome.DEFLECTED: "deflected", Outcome.INCORRECT: "hallucinated"}[
        row.outcome or Outcome.INCORRECT
    ]


def _slices(graded: Sequence[tuple[Row, Row]]) -> tuple[Slice, ...]:
    """Sources and topics by scenario, those that lost most pairs on balance first."""
    found: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for a, b in graded:
        verdicts = (is_right(a), is_right(b))
        for part in (f"source {a.source}", f"topic {a.topic}" if a.topic else ""):
            if part:
                found.setdefault((part, a.scenario.value), []).append(verdicts)
    slices = [
        Slice(
            part, scenario, len(pairs),
            sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs),
            sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs),
        )
        for (part, scenario), pairs in found.items()
    ]  # fmt: skip
    return tuple(sorted(slices, key=lambda s: (s.gained - s.lost, -s.n, s.part, s.scenario)))


def needed(difference: Difference, seen: float) -> int | None:
    """Pairs it takes to see ``seen`` (a share, 0.05 is 5 points) with 80 % power, from how often these two differ."""
    discordant = (difference.lost + difference.gained) / difference.n if difference.n else 0.0
    return paired(seen, min(1.0, max(discordant, seen)))


def _enough(main: Sequence[Difference], seen: float) -> str:
    counts = ", ".join(f"{d.scenario.value} {needed(d, seen):,} (had {d.n:,})" for d in main)
    return f"Pairs needed to see a difference of {100 * seen:g} points in right behaviour with 80 % power: {counts}."


def table(found: Comparison, seen: float = SEEN) -> Table:
    """Paired differences per scenario and measure, with their verdicts, and how many pairs ``seen`` would take."""
    columns = (
        Column("Scenario", align="left"),
        Column("Measure", align="left"),
        Column("n"),
        Column(found.first),
        Column(found.second),
        Column("Difference", align="right"),
        Column("Lost"),
        Column("Gained"),
        Column("p (Holm)"),
        Column("Verdict", align="left"),
    )
    caption = f"{found.second} against {found.first}, paired, in per cent"
    if not found.differences:
        return Table(
            "compare", caption, columns,
            missing="two runs over the same context sets (same release, seed, recipes and prompts) with graded answers",
        )  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    rules = set()
    for number, d in enumerate(found.differences):
        if number == 0 or d.scenario is not found.differences[number - 1].scenario:
            rules.add(number)
        interval = f" [{100 * d.low:+.1f}, {100 * d.high:+.1f}]" if d.low is not None and d.high is not None else ""
        p = None if d.p_holm is None else "< 0.001" if d.p_holm < 0.001 else f"{d.p_holm:.3f}"
        rows.append(
            (d.scenario.value, d.measure, d.n, 100 * d.first, 100 * d.second, f"{100 * d.delta:+.1f}{interval}",
             d.lost, d.gained, p, d.verdict)
        )  # fmt: skip
    main = [d for d in found.differences if d.measure == PRIMARY]
    notes = (
        _enough(main, seen),
        f"{found.pairs:,} asks graded in both; {found.ungraded:,} shared but not graded in one of them; "
        f"asked of one alone: {found.only_first:,} and {found.only_second:,}.",
        f"Lost: {found.first} has it and {found.second} has not; gained: the reverse. Intervals: paired bootstrap over "
        f"clusters, 95 %. p: {found.test}, corrected by Holm over {len(main)} tests of right behaviour and "
        f"over {len(found.differences) - len(main)} of the rates; verdicts at {ALPHA:g}.",
        "Right behaviour: a right answer where gold evidence is shown, a deflection where it is not.",
    )
    return Table("compare", caption, columns, tuple(rows), frozenset(rules), notes)


def slices_table(found: Comparison, most: int = 10) -> Table:
    """The parts that lost most right behaviour."""
    columns = (
        Column("Part", align="left"),
        Column("Scenario", align="left"),
        Column("n"),
        Column(found.first),
        Column(found.second),
        Column("Lost"),
        Column("Gained"),
    )
    worst = [s for s in found.slices if s.gained < s.lost][:most]
    rows = tuple((s.part, s.scenario, s.n, 100 * s.first, 100 * s.second, s.lost, s.gained) for s in worst)
    caption = f"Worst regressions of right behaviour by part, {found.second} against {found.first}"
    return Table(
        "regressions", caption, columns, rows,
        notes=("Ordered by lost minus gained; a description of these pairs, not a test.",)
        if rows
        else ("In no source or topic was more lost than gained.",),
    )  # fmt: skip


def changed_table(found: Comparison, items: Sequence[Changed], name: str, caption: str) -> Table:
    """Items that changed, one line each."""
    columns = tuple(
        Column(title, align="left")
        for title in ("Scenario", "Sample", "Question", f"{found.first} said", f"{found.second} said")
    )
    rows = tuple(
        (
            i.scenario,
            i.sample,
            _cut(i.question, 60),
            f"{i.before}: {_cut(i.said_before, 40)}",
            f"{i.after}: {_cut(i.said_after, 40)}",
        )
        for i in items
    )
    return Table(name, caption, columns, rows)


def _cut(text: str, room: int) -> str:
    flat = plain(text)
    return flat if len(flat) <= room else flat[: room - 1] + "…"


def print_comparison(found: Comparison, *, items: int = 10, seen: float = SEEN, file: TextIO | None = None) -> None:
    """Print the verdict, the differences and the items that changed, to standard output unless told otherwise."""
    from rich.console import Console
    from rich.text import Text

    stream = file or sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else 140, highlight=False)
    parts = [table(found, seen)]
    if found.differences:
        parts.append(slices_table(found))
    for gone, name in ((found.lost, "lost"), (found.gained, "gained")):
        if gone and items:
            caption = f"{name.capitalize()} by {found.second}: {min(items, len(gone))} of {len(gone)} items"
            parts.append(changed_table(found, gone[:items], name, caption))
    for one in parts:
        if one.missing:
            console.print(Text(f"{plain(one.caption)}: not filled; it takes {plain(one.missing)}"))
        else:
            console.print(to_rich(one) if one.rows else Text(plain(one.caption), style="bold"))
        for note in one.notes:
            console.print(Text("  " + plain(note), style="dim"))
        console.print()
    if found.differences:
        console.print(Text(plain(found.sentence), style="bold"))


def as_json(found: Comparison, seen: float = SEEN) -> dict[str, Any]:
    """The comparison as JSON-safe values: what ``demur compare --json`` prints."""
    return {
        "first": found.first,
        "second": found.second,
        "pairs": found.pairs,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "ungraded": found.ungraded,
        "draws": found.draws,
        "test": found.test,
        "worse": found.worse,
        "sentence": found.sentence,
        "differences": [
            d._asdict()
            | {"scenario": d.scenario.value, "verdict": d.verdict, "significant": d.significant}
            | {"pairs_needed": needed(d, seen)}
            for d in found.differences
        ],
        "lost": [c._asdict() for c in found.lost],
        "gained": [c._asdict() for c in found.gained],
        "slices": [s._asdict() for s in found.slices],
    }
