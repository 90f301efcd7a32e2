"""VLM-DeflectionBench's figures 3-5 and two more, from any set of runs, each with its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from demur.reports.tables import Column, Table, numbers, section_starts, texts, write_tables

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


def topic_shares(data: ReportData) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """(kind of topics, [(topic, share of the pool, share of the release), most frequent first]).

    From the release's ``topics`` (`demur.curation.build.topics.Drift`): those of the source before those found in the
    questions. Empty where it states none.
    """
    drifts = data.release.manifest.get("topics") if data.release else None
    shares_of_kind = []
    for drift in [drifts] if isinstance(drifts, Mapping) else drifts or ():
        try:
            rows = [
                (str(r["topic"]) or "(none)", int(r["before"]), int(r["after"]))
                for r in drift.get("rows", ())
            ]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise _malformed("topics") from error
        before, after = sum(r[1] for r in rows), sum(r[2] for r in rows)
        if before and after:
            name = (
                "Topics of the source"
                if (by := drift.get("by", "")) == "source"
                else f"Topics found by {by}"
            )
            shares_of_kind.append((name, [(t, b / before, a / after) for t, b, a in rows]))
    return sorted(
        shares_of_kind, key=lambda kind_and_shares: kind_and_shares[0] != "Topics of the source"
    )


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


def gate_rounds(data: ReportData) -> list[Mapping[str, Any]]:
    """Rounds of gates as the release states them: ``{"gates", "size", "monitors": {name: {accuracy, ...}}}``."""
    rounds = data.release.manifest.get("gate_rounds") if data.release else None
    try:
        for gate_round in rounds or ():
            (
                " + ".join(gate_round.get("gates", [])),
                float(gate_round["size"]),
                _number_or_none(gate_round.get("kept")),
            )
            [
                _number_or_none(rates.get(measure))
                for rates in gate_round["monitors"].values()
                for measure in OUTCOMES
            ]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _malformed("gate_rounds") from error
    return list(rounds or ())


def _malformed(key: str) -> ReleaseError:
    return ReleaseError(
        f"{key} has another form than a build writes",
        item="manifest.json",
        cure="fetch the release again",
    )


def figure5(data: ReportData) -> list[Panel]:
    """Monitors' parametric rates and the pool's size as gates are added one by one."""
    rounds = gate_rounds(data)
    if not rounds:
        return []
    monitors = sorted({name for r in rounds for name in r.get("monitors", {})})
    panels = []
    for measure in OUTCOMES:
        series = [
            Curve(
                name,
                tuple(
                    Point(i, _number_or_none(r["monitors"].get(name, {}).get(measure)))
                    for i, r in enumerate(rounds)
                ),
                number,
            )
            for number, name in enumerate(monitors)
        ]
        panels.append(curves(f"Parametric {measure}", series, x_label="gates"))
    size = Curve("samples left", tuple(Point(i, float(r["size"])) for i, r in enumerate(rounds)), 6)
    sizes = [size]
    if any(r.get("kept") is not None for r in rounds):
        points = tuple(Point(i, _number_or_none(r.get("kept"))) for i, r in enumerate(rounds))
        sizes.append(Curve("kept by the whole funnel", points, 7))
    panels.append(curves("Samples left", sizes, x_label="gates", y_max=None))
    legend = [(name, number) for number, name in enumerate(monitors)]
    if len(sizes) > 1:
        legend += [("samples left by Stage I", 6), ("kept by the whole funnel", 7)]
    return [*panels, series_legend(legend)]


def _number_or_none(value: Any) -> float | None:
    """A number of a round; None where it is unknown, and the line breaks off."""
    return None if value is None else float(value)


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
    head = headline(data.runs)
    if name in ("figure3", "positions"):
        swept = name == "figure3"
        columns = (
            *texts("System"),
            *numbers("Distractors" if swept else "Before the gold"),
            *numbers("Acc", "Defl", "Hall", interval=True),
            *numbers("n", "Too few"),
        )
        points_of_system = sweep_cells(data, head) if swept else position_cells(data, head)
        rows = [
            (
                s,
                k,
                *cells_of(p.cell if p.items_shown else None)[:3],
                cells_of(p.cell)[3],
                p.items_in_all - p.items_shown,
            )
            for s, points in points_of_system.items()
            for k, p in points.items()
        ]
        notes: list[str] = []
        if points_of_system:
            notes = [
                *partial_notes(points_of_system, places=not swept),
                "Too few: samples with fewer distractors; the row does not count them.",
                f"Prompt: {head.condition}.",
                *notes_under(
                    data.runs,
                    [p.cell for points in points_of_system.values() for p in points.values()],
                ),
            ]
        return Table(
            name,
            "Distractors shown in the Realistic scenario; 0 is the Oracle"
            if swept
            else "Distractors shown before the gold evidence, Realistic scenario",
            columns,
            tuple(rows),
            section_starts(rows),
            tuple(notes),
            missing="" if rows else MISSING_FIGURES[name],
        )
    if name == "figure4":
        drifts = topic_shares(data)
        rows4 = tuple(
            (kind, t, 100 * a, 100 * b, 100 * (b - a))
            for kind, shares in drifts
            for t, a, b in shares
        )
        return Table(
            "figure4",
            "Topics before and after curation, in per cent",
            (
                *texts("Topics", "Topic"),
                *numbers("Pool", "Release"),
                *numbers("Change", signed=True),
            ),
            rows4,
            section_starts(rows4),
            missing="" if rows4 else MISSING_FIGURES[name],
        )
    rounds = gate_rounds(data)
    monitors = sorted({m for r in rounds for m in r.get("monitors", {})})
    rows5: list[tuple[Any, ...]] = []
    for gate_round in rounds:
        line: list[Any] = [
            " + ".join(gate_round.get("gates", [])) or "none",
            int(gate_round["size"]),
            gate_round.get("kept"),
        ]
        for monitor in monitors:
            rates = gate_round["monitors"].get(monitor, {})
            line += [100 * float(rates[m]) if rates.get(m) is not None else None for m in OUTCOMES]
        rows5.append(tuple(line))
    return Table(
        "figure5",
        "Parametric rates of the monitors and the pool's size as gates are added",
        (
            *texts("Gates"),
            *numbers("Stage I", "Kept"),
            *(Column(r, m) for m in monitors for r in RATES),
        ),
        tuple(rows5),
        missing="" if rows5 else MISSING_FIGURES[name],
    )


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
