"""VLM-DeflectionBench's figures 3-5 and two of our own, from any set of runs, each with its numbers as a table.

What the data cannot fill says which run would (`MISSING_FIGURES`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demur.records import Measure, Scenario
from demur.report.cells import SCENARIOS, Cell, Headline, headline, main_cells, position_cells, sweep_cells
from demur.report.data import ReportData
from demur.report.figures import (
    Curve,
    OutcomeRow,
    Point,
    curves,
    outcome_bars,
    outcome_legend,
    paired_bars,
    series_legend,
)
from demur.report.paper_tables import RATES, absences, three
from demur.report.svg import OUTCOMES, Panel
from demur.report.tables import Column, Table

IDEAL = {
    Scenario.PARAMETRIC: "question and image alone: should deflect",
    Scenario.ORACLE: "gold evidence: should answer",
    Scenario.REALISTIC: "gold and distractors: should answer",
    Scenario.ADVERSARIAL: "distractors alone: should deflect",
}


def overview(data: ReportData, head: Headline) -> list[Panel]:
    """Table 4 as bars, a panel a scenario, then the legend; not a figure of the paper."""
    cells = main_cells(data, head)
    panels = []
    for scenario in SCENARIOS:
        rows = [OutcomeRow(run.name, *cells[run.name, scenario]) for run in data.runs if (run.name, scenario) in cells]
        if rows:
            name = scenario.value.capitalize()
            panels.append(outcome_bars(name, rows, key=f"o-{scenario.value}", ideal=IDEAL[scenario]))
    return [*panels, outcome_legend("o-legend")]


def point(x: float, measure: Measure) -> Point:
    """A rate as a point of a curve, its interval as the band."""
    note = f"n = {measure.n}" + (f" ({measure.draws} draws)" if measure.draws else "")
    if measure.low is not None and measure.high is not None:
        note = f"[{100 * measure.low:.1f}, {100 * measure.high:.1f}], {note}"
    return Point(x, measure.value or 0.0, measure.low, measure.high, note)


def _against(found: Mapping[str, Mapping[int, Cell]], data: ReportData, x_label: str) -> list[Panel]:
    """A panel a rate, one line a system, then the legend; nothing where nothing was found."""
    if not found:
        return []
    style = {run.name: number for number, run in enumerate(data.runs)}
    panels = [
        curves(
            name.capitalize(),
            [
                Curve(system, tuple(point(at, getattr(c, name)) for at, c in cells.items() if c.n), style[system])
                for system, cells in found.items()
            ],
            x_label=x_label,
        )
        for name in OUTCOMES
    ]
    return [*panels, series_legend([(system, style[system]) for system in found])]


def figure3(data: ReportData, head: Headline) -> list[Panel]:
    """Accuracy, deflection and hallucination against the number of distractors, one line a system; 0 is the Oracle."""
    return _against(sweep_cells(data, head), data, "distractors")


def positions(data: ReportData, head: Headline) -> list[Panel]:
    """Rates against the place of the gold evidence among the distractors (position bias); not a figure of the paper."""
    return _against(position_cells(data, head), data, "distractors before the gold")


def topic_counts(data: ReportData) -> list[tuple[str, int, int]]:
    """(topic, samples in the pool, samples in the release), most frequent first.

    From the release's ``topics``, one `demur.curation.topics.Drift` or several, of which the last (topics found in the
    questions, behind the source's own); empty where it states none.
    """
    stated = data.release.manifest.get("topics") if data.release else None
    if isinstance(stated, list):
        stated = stated[-1] if stated else None
    if not isinstance(stated, Mapping):
        return []
    return [(str(r["topic"]) or "(none)", int(r["before"]), int(r["after"])) for r in stated.get("rows", ())]


def topic_shares(data: ReportData) -> list[tuple[str, float, float]]:
    """(topic, share of the pool, share of the release)."""
    counts = topic_counts(data)
    before, after = sum(c[1] for c in counts), sum(c[2] for c in counts)
    return [(t, b / before, a / after) for t, b, a in counts] if before and after else []


def figure4(data: ReportData) -> list[Panel]:
    """Topic distribution before and after curation."""
    shares = topic_shares(data)
    return [paired_bars("Topics", shares, first="pool", second="release")] if shares else []


def gate_rounds(data: ReportData) -> list[Mapping[str, Any]]:
    """Rounds of gates as the release states them: ``{"gates", "size", "monitors": {name: {accuracy, ...}}}``."""
    rounds = data.release.manifest.get("gate_rounds") if data.release else None
    return list(rounds) if isinstance(rounds, Sequence) else []


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
                    Point(i, float(r["monitors"][name][measure]))
                    for i, r in enumerate(rounds)
                    if r["monitors"].get(name, {}).get(measure) is not None
                ),
                number,
            )
            for number, name in enumerate(monitors)
        ]
        panels.append(curves(f"Parametric {measure}", series, x_label="gates"))
    size = Curve("samples left", tuple(Point(i, float(r["size"])) for i, r in enumerate(rounds)), 6)
    sizes = [size]
    if any(r.get("kept") is not None for r in rounds):
        points = tuple(Point(i, float(r["kept"])) for i, r in enumerate(rounds) if r.get("kept") is not None)
        sizes.append(Curve("kept by the whole funnel", points, 7))
    panels.append(curves("Samples left", sizes, x_label="gates", y_max=None))
    legend = [(name, number) for number, name in enumerate(monitors)]
    if len(sizes) > 1:
        legend += [("samples left by Stage I", 6), ("kept by the whole funnel", 7)]
    return [*panels, series_legend(legend)]


MISSING_FIGURES = {
    "figure3": "runs over several numbers of distractors: demur sweep RELEASE --distractors 0:10",
    "figure4": "a release that states topics: a recipe with topics: kmeans",
    "figure5": "gates added one by one: demur convergence recipe.yaml --out FOLDER, beside the release",
    "positions": "runs with the gold at several places: demur sweep RELEASE --positions 0:4 --k 4",
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
            Column("System", align="left"),
            Column("Distractors" if swept else "Before the gold"),
            *(Column(r, interval=True) for r in RATES),
            Column("n"),
        )
        found = sweep_cells(data, head) if swept else position_cells(data, head)
        rows = [(s, k, *three(c), c.counted) for s, points in found.items() for k, c in points.items()]
        starts = [i for i, row in enumerate(rows) if i == 0 or row[0] != rows[i - 1][0]]
        notes = absences([c for points in found.values() for c in points.values()]) if found else []
        return Table(
            name, "Distractors in the Realistic scenario; 0 is the Oracle's evidence" if swept
            else "Distractors shown before the gold evidence, Realistic scenario", columns, tuple(rows),
            frozenset(starts), tuple(notes), missing="" if rows else MISSING_FIGURES[name],
        )  # fmt: skip
    if name == "figure4":
        shares = topic_shares(data)
        rows4 = tuple((t, 100 * a, 100 * b, 100 * (b - a)) for t, a, b in shares)
        return Table(
            "figure4", "Topics before and after curation, in per cent",
            (Column("Topic", align="left"), Column("Pool"), Column("Release"), Column("Change")),
            rows4, missing="" if rows4 else MISSING_FIGURES[name],
        )  # fmt: skip
    rounds = gate_rounds(data)
    monitors = sorted({m for r in rounds for m in r.get("monitors", {})})
    rows5: list[tuple[Any, ...]] = []
    for one in rounds:
        line: list[Any] = [" + ".join(one.get("gates", [])) or "none", int(one["size"]), one.get("kept")]
        for monitor in monitors:
            rates = one["monitors"].get(monitor, {})
            line += [100 * float(rates[m]) if rates.get(m) is not None else None for m in OUTCOMES]
        rows5.append(tuple(line))
    return Table(
        "figure5", "Parametric rates of the monitors and the pool's size as gates are added",
        (Column("Gates", align="left"), Column("Stage I"), Column("Kept"),
         *(Column(r, m) for m in monitors for r in RATES)),
        tuple(rows5), missing="" if rows5 else MISSING_FIGURES[name],
    )  # fmt: skip
