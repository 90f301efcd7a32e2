"""Right behaviour and confidence per system, as tables and curves (measures: `demur.judge.measures`)."""

from __future__ import annotations

from typing import Any

from demur.core.records import Measure, Scenario
from demur.judge.measures.behaviour import behaviour
from demur.judge.measures.risk import RiskCoverage, risk_coverage
from demur.reports.cells import SCENARIOS, Headline
from demur.reports.data import ReportData
from demur.reports.figures import Curve, Point, curves, series_legend
from demur.reports.judged import notes_under
from demur.reports.svg import Panel
from demur.reports.tables import Count, Table, counted, numbers, texts

MOST_POINTS = 200
"""Points drawn of a risk-coverage curve; longer curves are thinned evenly."""


def behaviour_table(data: ReportData, head: Headline) -> Table:
    """One line a system over the headline rows of all scenarios: right, balanced, over- and under-deflection."""
    columns = (
        *texts("System"),
        *numbers("Right behaviour", interval=True),
        *numbers("Balanced"),
        *numbers(
            "Answers when it can",
            "Over-deflects",
            "Deflects when it must",
            "Under-deflects",
            interval=True,
        ),
        *numbers("n"),
    )
    rows: list[tuple[Any, ...]] = []
    gaps = []
    for run in data.runs:
        headline_rows = head.where(run.rows)
        scenarios_asked = set(headline_rows.coded("scenario").labels)
        scenarios_missing = [s.value for s in head.recipes if s.value not in scenarios_asked]
        if scenarios_missing:
            gaps.append(
                f"{run.name} was not asked in: {', '.join(scenarios_missing)}; its line covers the other scenarios."
            )
        run_behaviour = behaviour(headline_rows)
        n, repeats = run_behaviour.right.n, run_behaviour.right.repeats
        balanced = Measure(name="balanced", value=run_behaviour.balanced, n=n, repeats=repeats)
        rows.append(
            (
                data.starred(run),
                run_behaviour.right,
                balanced if balanced.value is not None else None,
                run_behaviour.answered,
                run_behaviour.over_deflection,
                run_behaviour.deflected,
                run_behaviour.under_deflection,
                counted(run_behaviour.right),
            )
        )
    notes = (
        *gaps,
        *notes_under(data.runs, [row[1:2] for row in rows], methods=False),
        "Right behaviour: a correct answer where gold evidence is shown, a deflection where it is not.",
        "Balanced: the mean of answers-when-it-can and deflects-when-it-must; always deflecting gives 50.",
        f"Scenarios pooled: {', '.join(s.value for s in head.recipes)}. {head.note()}",
        *data.star_note,
    )
    return Table(
        "behaviour",
        "Right behaviour over all scenarios, in per cent",
        columns,
        tuple(rows),
        notes=notes,
    )


def _risks(data: ReportData, head: Headline) -> dict[Scenario, dict[str, RiskCoverage]]:
    """Scenario with gold evidence -> system -> curve, where the system states confidences that differ."""
    curves_of_scenario: dict[Scenario, dict[str, RiskCoverage]] = {}
    for run in data.runs:
        headline_rows = head.where(run.rows)
        for scenario in (Scenario.ORACLE, Scenario.REALISTIC):
            curve = risk_coverage(
                headline_rows.where(headline_rows.is_in("scenario", [scenario.value]))
            )
            if len(curve.coverage) > 1:
                curves_of_scenario.setdefault(scenario, {})[run.name] = curve
    return {
        scenario: curves_of_scenario[scenario]
        for scenario in SCENARIOS
        if scenario in curves_of_scenario
    }


def risk_panels(data: ReportData, head: Headline) -> list[Panel]:
    """Risk-coverage curves of the Oracle and Realistic scenarios, then their legend; empty without confidences."""
    curves_of_scenario = _risks(data, head)
    if not curves_of_scenario:
        return []
    style = {run.name: number for number, run in enumerate(data.runs)}
    panels = []
    for scenario, systems in curves_of_scenario.items():
        series = []
        for name, curve in systems.items():
            step = max(1, len(curve.coverage) // MOST_POINTS)
            points_shown = [*range(0, len(curve.coverage) - 1, step), len(curve.coverage) - 1]
            points = tuple(
                Point(100 * float(curve.coverage[point]), float(curve.risk[point]))
                for point in points_shown
            )
            series.append(Curve(name, points, style[name]))
        panels.append(
            curves(
                scenario.value.capitalize(),
                series,
                x_label="coverage, per cent",
                y_label="risk",
                whole_x=False,
            )
        )
    names = [
        run.name
        for run in data.runs
        if any(run.name in systems for systems in curves_of_scenario.values())
    ]
    return [*panels, series_legend([(name, style[name]) for name in names])]


def risk_table(data: ReportData, head: Headline) -> Table:
    """Area under each risk-coverage curve and its excess over a perfect ranking; lower is better."""
    columns = (
        *texts("System", "Scenario"),
        *numbers("AURC", "Excess", decimals=3),
        *numbers("n", "No confidence"),
    )
    rows = tuple(
        (
            name,
            scenario.value,
            curve.area,
            curve.excess,
            counted(curve),
            curve.without_confidence,
        )
        for scenario, systems in _risks(data, head).items()
        for name, curve in systems.items()
    )
    missing = "" if rows else "runs of a system that states a confidence"
    notes: tuple[str, ...] = (
        "AURC: the mean risk over all coverages; 0 is best. Excess: the part that a perfect ranking of the answers "
        "would avoid. No confidence: graded answers that state none; not counted.",
    )
    if any(isinstance(row[4], Count) for row in rows):
        notes += (
            "Each repeat of an item has an equal weight, so this is the expectation for one repeat per item. "
            "n: items (repeats).",
        )
    return Table(
        "risk", "Area under the risk-coverage curve", columns, rows, notes=notes, missing=missing
    )
