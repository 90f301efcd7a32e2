"""VLM-DeflectionBench's figures 3-5 and two more, from any set of runs, each with its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from demur.core.errors import ReleaseError
from demur.core.records import Measure, Scenario
from demur.core.store import write_atomic
from demur.reports.cells import (
    SCENARIOS,
    Headline,
    SweepPoint,
    headline,
    main_cells,
    position_cells,
    sweep_cells,
)
from demur.reports.credit import credit_table
from demur.reports.data import ReportData
from demur.reports.figures import (
    Curve,
    OutcomeRow,
    Point,
    curves,
    outcome_bars,
    outcome_legend,
    paired_bars,
    series_legend,
)
from demur.reports.judged import notes_under
from demur.reports.paper_tables import RATES, cells_of, tables
from demur.reports.svg import OUTCOMES, Panel, standalone
from demur.reports.tables import (
    Column,
    Table,
    counted,
    numbers,
    section_starts,
    texts,
    write_tables,
)

IDEAL = {
    Scenario.PARAMETRIC: "question and image alone: should deflect",
    Scenario.ORACLE: "gold evidence: should answer",
    Scenario.REALISTIC: "gold and distractors: should answer",
    Scenario.ADVERSARIAL: "distractors alone: should deflect",
    Scenario.FULL: "own retriever, gold in its corpus: should answer",
    Scenario.GOLD_REMOVED: "own retriever, gold removed: should deflect",
    Scenario.EMPTY: "own retriever, nothing to find: should deflect",
}


def overview(data: ReportData, head: Headline) -> list[Panel]:
    """Table 4 as bars, a panel a scenario, then the legend; not a figure of the paper."""
    cells = main_cells(data, head)
    panels = []
    for scenario in SCENARIOS:
        rows = [
            OutcomeRow(data.starred(run), *cells[run.name, scenario])
            for run in data.runs
            if (run.name, scenario) in cells
        ]
        if rows:
            name = scenario.value.capitalize()
            panels.append(
                outcome_bars(name, rows, key=f"o-{scenario.value}", ideal=IDEAL[scenario])
            )
    return [*panels, outcome_legend("o-legend")]


def point(x: float, measure: Measure, *, faint: bool = False) -> Point:
    """A rate as a point of a curve, its interval as the band; of a corrected one the corrected value.

    Its count then lies outside the band, and stands in the tooltip.
    """
    note = f"n = {measure.n}" + (f" ({measure.repeats} repeats)" if measure.repeats else "")
    if measure.low is not None and measure.high is not None:
        note = f"[{100 * measure.low:.1f}, {100 * measure.high:.1f}], {note}"
    value = measure.value
    if measure.corrected is not None and value is not None:
        note, value = f"{note}, counted {100 * value:.1f}", measure.corrected
    return Point(x, value, measure.low, measure.high, note, faint)


def _sweep_panels(
    points_of_system: Mapping[str, Mapping[int, SweepPoint]], data: ReportData, x_label: str
) -> list[Panel]:
    """A panel a rate, one line a system, then the legend; nothing where nothing was found."""
    points_of_system = {
        name: points
        for name, points in points_of_system.items()
        if any(sweep_point.cell.n for sweep_point in points.values())
    }
    if not points_of_system:
        return []
    style = {run.name: number for number, run in enumerate(data.runs)}
    sizes: dict[float, set[int]] = {}
    for points in points_of_system.values():
        for x, sweep_point in points.items():
            if sweep_point.cell.n:
                sizes.setdefault(x, set()).add(sweep_point.cell.n)
    counts = {x: "–".join(f"{n:,}" for n in sorted({min(ns), max(ns)})) for x, ns in sizes.items()}
    panels = [
        curves(
            name.capitalize(),
            [
                Curve(
                    system,
                    tuple(
                        point(x, getattr(sweep_point.cell, name), faint=sweep_point.partial)
                        for x, sweep_point in points.items()
                    ),
                    style[system],
                )
                for system, points in points_of_system.items()
            ],
            x_label=x_label,
            counts=counts,
        )
        for name in OUTCOMES
    ]
    return [*panels, series_legend([(system, style[system]) for system in points_of_system])]


def figure3(data: ReportData, head: Headline) -> list[Panel]:
    """Accuracy, deflection and hallucination against the number of distractors, one line a system; 0 is the Oracle."""
    return _sweep_panels(sweep_cells(data, head), data, "distractors shown")


def positions(data: ReportData, head: Headline) -> list[Panel]:
    """Rates against the place of the gold evidence among the distractors (position bias); not a figure of the paper."""
    return _sweep_panels(position_cells(data, head), data, "distractors before the gold")


def partial_notes(
    points_of_system: Mapping[str, Mapping[int, SweepPoint]], *, places: bool = False
) -> list[str]:
    """Notes on the points of a sweep for which some or all samples have too few distractors.

    Args:
        points_of_system: system -> distractors (or places of the gold) -> point.
        places: the points are places of the gold, not numbers of distractors.
    """
    short_points: dict[int, set[str]] = {}
    empty_points: set[int] = set()
    for points in points_of_system.values():
        for at, sweep_point in points.items():
            if not sweep_point.items_shown:
                empty_points.add(at)
            elif sweep_point.partial:
                short_points.setdefault(at, set()).add(
                    f"{sweep_point.items_shown:,} of {sweep_point.items_in_all:,}"
                )
    empty_points -= {
        at
        for points in points_of_system.values()
        for at, sweep_point in points.items()
        if sweep_point.items_shown
    }
    so_many = "with the gold behind so many" if places else "so many"
    notes = []
    if short_points:
        counts_of_points = "; ".join(
            f"{at}: {', '.join(sorted(counts))}" for at, counts in sorted(short_points.items())
        )
        notes.append(
            f"Not every sample has {so_many} distractors. A point counts only the samples that do; where some lack "
            f"them, it is grey and not comparable with the points before it ({counts_of_points})."
        )
    if empty_points:
        listed = ", ".join(map(str, sorted(empty_points)))
        notes.append(f"Left out, because no sample has {so_many} distractors: {listed}.")
    return notes


class _Topic(BaseModel):
    topic: str
    before: int
    after: int


class _Topics(BaseModel):
    """Topics before and after curation, as a release states them (`demur.curation.topics.Drift`)."""

    by: str = ""
    rows: tuple[_Topic, ...] = ()


class GateRound(BaseModel):
    """A round of gates, as a release states it: what is left, and the parametric rates of the monitors."""

    gates: tuple[str, ...] = ()
    size: float
    kept: float | None = None
    """By the whole funnel; None where that is not known."""
    monitors: dict[str, dict[str, float | None]] = {}
    """Monitor -> rate by its name."""

    def rate(self, monitor: str, name: str) -> float | None:
        """A monitor's rate; None where it is unknown, and the line breaks off."""
        return self.monitors.get(monitor, {}).get(name)


Stated = TypeVar("Stated", bound=BaseModel)


def _stated(data: ReportData, key: str, kind: type[Stated]) -> list[Stated]:
    """The records that a release's manifest holds under a key; none without it.

    Raises:
        ReleaseError: they are no such records.
    """
    values = data.release.manifest.get(key) if data.release else None
    try:
        return TypeAdapter(list[kind]).validate_python(values or [])  # type: ignore[valid-type]
    except ValidationError as error:
        raise ReleaseError(
            f"{key} has another form than a build writes",
            item="manifest.json",
            cure="fetch the release again",
        ) from error


def topic_shares(data: ReportData) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """(kind of topics, [(topic, share of the pool, share of the release), most frequent first]), the source's own first."""
    shares_of_kind = []
    for drift in _stated(data, "topics", _Topics):
        before, after = sum(r.before for r in drift.rows), sum(r.after for r in drift.rows)
        if before and after:
            shares = [(r.topic or "(none)", r.before / before, r.after / after) for r in drift.rows]
            of_source = drift.by == "source"
            name = "Topics of the source" if of_source else f"Topics found by {drift.by}"
            shares_of_kind.append((not of_source, name, shares))
    shares_of_kind.sort(key=lambda kind: kind[0])
    return [(name, shares) for _, name, shares in shares_of_kind]


MOST_TOPICS = 20
"""Topics in a figure, the most frequent first; the table holds all."""


def figure4(data: ReportData) -> list[Panel]:
    """Topic distribution before and after curation, a panel for each kind of topics."""
    panels = []
    for name, shares in topic_shares(data):
        more = f", {MOST_TOPICS} of {len(shares)}" if len(shares) > MOST_TOPICS else ""
        panels.append(
            paired_bars(name + more, shares[:MOST_TOPICS], first="pool", second="release")
        )
    return panels


def gate_rounds(data: ReportData) -> list[GateRound]:
    """Rounds of gates as the release states them."""
    return _stated(data, "gate_rounds", GateRound)


def figure5(data: ReportData) -> list[Panel]:
    """Monitors' parametric rates and the pool's size as gates are added one by one."""
    rounds = gate_rounds(data)
    if not rounds:
        return []
    monitors = sorted({name for r in rounds for name in r.monitors})
    panels = []
    for measure in OUTCOMES:
        series = [
            _over_rounds(name, [r.rate(name, measure) for r in rounds], number)
            for number, name in enumerate(monitors)
        ]
        panels.append(curves(f"Parametric {measure}", series, x_label="gates"))
    sizes = [_over_rounds("samples left by Stage I", [r.size for r in rounds], 6)]
    if any(r.kept is not None for r in rounds):
        sizes.append(_over_rounds("kept by the whole funnel", [r.kept for r in rounds], 7))
    panels.append(curves("Samples left", sizes, x_label="gates", y_max=None))
    legend = [(name, number) for number, name in enumerate(monitors)]
    legend += [(size.label, size.style) for size in sizes]
    return [*panels, series_legend(legend)]


def _over_rounds(label: str, values: Sequence[float | None], style: int) -> Curve:
    return Curve(label, tuple(Point(i, value) for i, value in enumerate(values)), style)


MISSING_FIGURES = {
    "figure3": "runs over several numbers of distractors: demur sweep RELEASE --distractors 0:10",
    "figure4": "a release that states topics: a recipe with topics: bertopic",
    "figure5": "gates added one by one: demur convergence recipe.yaml --out FOLDER, beside the release",
    "positions": "runs with the gold at several positions: demur sweep RELEASE --positions 0:4 --k 4",
}


def figures(data: ReportData) -> dict[str, list[Panel]]:
    """Figures 3 to 5 and positions by name; an empty list where the data has none."""
    head = headline(data.runs)
    return {
        "figure3": figure3(data, head),
        "figure4": figure4(data),
        "figure5": figure5(data),
        "positions": positions(data, head),
    }


def figure_table(data: ReportData, name: str) -> Table:
    """The numbers behind a figure, as a table."""
    if name in ("figure3", "positions"):
        table = _sweep_table(data, places=name == "positions")
    else:
        table = {"figure4": _topics_table, "figure5": _rounds_table}[name](data)
    return table if table.rows else replace(table, notes=(), missing=MISSING_FIGURES[name])


def _sweep_table(data: ReportData, *, places: bool) -> Table:
    """A line a point of a sweep: of the number of distractors, or of the places of the gold."""
    head = headline(data.runs)
    points_of_system = position_cells(data, head) if places else sweep_cells(data, head)
    rows = [
        (
            system,
            at,
            *cells_of(point.cell if point.items_shown else None)[:3],
            counted(point.cell.accuracy),
            point.items_in_all - point.items_shown,
        )
        for system, points in points_of_system.items()
        for at, point in points.items()
    ]
    cells = [point.cell for points in points_of_system.values() for point in points.values()]
    return Table(
        "positions" if places else "figure3",
        "Distractors shown before the gold evidence, Realistic scenario"
        if places
        else "Distractors shown in the Realistic scenario; 0 is the Oracle",
        (
            *texts("System"),
            *numbers("Before the gold" if places else "Distractors"),
            *numbers("Acc", "Defl", "Hall", interval=True),
            *numbers("n", "Too few"),
        ),
        tuple(rows),
        section_starts(rows),
        (
            *partial_notes(points_of_system, places=places),
            "Too few: samples with fewer distractors; the row does not count them.",
            f"Prompt: {head.condition}.",
            *notes_under(data.runs, cells),
        ),
    )


def _topics_table(data: ReportData) -> Table:
    rows = [
        (kind, topic, 100 * before, 100 * after, 100 * (after - before))
        for kind, shares in topic_shares(data)
        for topic, before, after in shares
    ]
    columns = (
        *texts("Topics", "Topic"),
        *numbers("Pool", "Release"),
        *numbers("Change", signed=True),
    )
    caption = "Topics before and after curation, in per cent"
    return Table("figure4", caption, columns, tuple(rows), section_starts(rows))


def _rounds_table(data: ReportData) -> Table:
    rounds = gate_rounds(data)
    monitors = sorted({name for r in rounds for name in r.monitors})
    rows = []
    for r in rounds:
        rates = [r.rate(monitor, name) for monitor in monitors for name in OUTCOMES]
        rows.append(
            (
                " + ".join(r.gates) or "none",
                int(r.size),
                None if r.kept is None else int(r.kept),
                *(None if rate is None else 100 * rate for rate in rates),
            )
        )
    columns = (
        *texts("Gates"),
        *numbers("Stage I", "Kept"),
        *(Column(rate, monitor) for monitor in monitors for rate in RATES),
    )
    caption = "Parametric rates of the monitors and the pool's size as gates are added"
    return Table("figure5", caption, columns, tuple(rows))


def write_paper(data: ReportData, folder: Path) -> list[Path]:
    """Write every table in four forms and every figure as SVG.

    Args:
        folder: made if needed; files of the same names are replaced.

    Returns:
        The files, in the order written.

    Raises:
        StorageError: the folder cannot be written.
    """
    drawn = figures(data)
    rated = credit_table(data, headline(data.runs))
    written = write_tables(
        [*tables(data), *([rated] if rated else []), *(figure_table(data, name) for name in drawn)],
        folder,
    )
    for name, panels in {"overview": overview(data, headline(data.runs)), **drawn}.items():
        if panels:
            written.append(folder / f"{name}.svg")
            write_atomic(
                written[-1], standalone(panels, title=name, columns=2 if name == "overview" else 0)
            )
    return written
