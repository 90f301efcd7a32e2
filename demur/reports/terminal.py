"""What `demur demo` and `demur run` print at the end: results, funnel, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TextIO

from demur.core.records import Measure, Scenario
from demur.reports import paper_tables
from demur.reports.cells import (
    ASKED_BACK,
    SCENARIOS,
    Cell,
    Headline,
    asking_back,
    fewer_shown,
    headline,
    main_cells,
)
from demur.reports.data import ReportData
from demur.reports.paper_figures import figure_table
from demur.reports.paper_tables import absences
from demur.reports.release import caveats, funnel_table
from demur.reports.tables import Table, console_for, plain, print_table, titled, to_records


def results_table(data: ReportData, head: Headline) -> Table:
    """One line per scenario and system, with intervals, n, unjudged and failed answers."""
    cells, asking = main_cells(data, head), asking_back(data, head)
    rows: list[tuple[Any, ...]] = []
    rules = set()
    for scenario in SCENARIOS:
        if scenario not in head.recipes:
            continue
        start = len(rows)
        rules.add(start)
        for run in data.runs:
            one = cells.get((run.name, scenario))
            if one is None:
                continue
            named = (scenario.value, scenario.should) if len(rows) == start else ("", "")
            rows.append(
                (
                    *named,
                    data.starred(run),
                    *one,
                    *([asking[run.name, scenario]] if asking else []),
                    one.counted,
                    one.accuracy.unjudged,
                    one.accuracy.failed,
                )
            )
    asks = " | Asks back" if asking else ""
    columns = titled(
        f"<Scenario | <Should | <System | Accuracy [] | Deflection [] | Hallucination []{asks} | n | Unjudged | Failed"
    )
    fewer = fewer_shown(data, head)
    notes = (
        head.note(),
        *([ASKED_BACK] if asking else []),
        *([fewer] if fewer else []),
        *absences(list(cells.values())),
        *bounds(cells),
        *data.star_note,
    )
    return Table(
        "results", "Results by scenario, in per cent", columns, tuple(rows), frozenset(rules), notes
    )


def bounds(cells: Mapping[tuple[str, Scenario], Cell]) -> list[str]:
    """A line for each cell with unjudged answers: each rate if none or all of them counted for it."""
    lines = []
    for (system, scenario), cell in cells.items():
        ends = [(m.name, m.bounds) for m in cell if m.bounds and m.unjudged]
        if ends:
            ranges = ", ".join(
                f"{name} {100 * low:.1f} to {100 * high:.1f}" for name, (low, high) in ends
            )
            n = cell.accuracy.unjudged
            lines.append(
                f"{system}, {scenario.value}: with the {n:,} unjudged answers, the possible range is {ranges}."
            )
    return lines


def times_table(times: Mapping[str, float]) -> Table:
    """Seconds per stage, in the order given, with their sum."""
    rows = [(stage, float(seconds)) for stage, seconds in times.items()]
    total = (("total", float(sum(times.values()))),)
    columns = titled("<Stage", "Seconds")
    return Table("times", "Stage times", columns, (*rows, *total), frozenset({len(rows)}))


def sweep_tables(data: ReportData) -> list[Table]:
    """One table per sweep in the runs: number of distractors, position of the gold, modality, strictness."""
    head = headline(data.runs)
    every = [
        figure_table(data, "figure3"),
        figure_table(data, "positions"),
        paper_tables.table5(data, head, interval=True),
        paper_tables.table6(data, head, interval=True),
        paper_tables.table9(data, head, interval=True),
    ]
    return [table for table in every if table.rows]


def query_table(data: ReportData, head: Headline) -> Table | None:
    """The breakdown by query modality; None where all questions have the same."""
    asked = {label for run in data.runs for label in run.rows.coded("query_modality").labels}
    if len(asked) < 2:
        return None
    found = paper_tables.breakdown_table(data, head, "query_modality", "queries", totals=False)
    return replace(found, notes=found.notes[:1])  # the other notes are under the table above it


def summarised(data: ReportData) -> dict[str, Any]:
    """The numbers of `print_data` as JSON-safe values: what ``summary.json`` and ``--json`` hold.

    Returns:
        ``release`` (name, version, samples), ``condition``, ``recipes``, ``results`` (one object per scenario and
        system: rates as fractions in [0, 1], ``asks_back`` where any system asks back, ``n`` items, and ``repeats``,
        their graded repeats, where they were asked several times), ``by_query`` (the same by query modality),
        ``sweeps`` (table -> rows: those of ``figure3``, ``positions``, ``table5``, ``table6``, ``table9`` that the runs
        fill), ``funnel``, ``caveats``.
    """
    head = headline(data.runs)
    cells, asking = main_cells(data, head), asking_back(data, head)

    def rate(m: Measure) -> dict[str, Any]:
        bounds = {"bounds": list(m.bounds)} if m.unjudged and m.bounds else {}
        return {"value": m.value, "low": m.low, "high": m.high, "interval": m.interval, **bounds}

    results = []
    for scenario in SCENARIOS:
        for run in data.runs:
            one = cells.get((run.name, scenario))
            if one is None:
                continue
            rates = one._asdict() | ({"asks_back": asking[run.name, scenario]} if asking else {})
            repeats = {"repeats": d} if (d := one.accuracy.repeats) else {}
            results.append(
                {
                    "scenario": scenario.value,
                    "system": run.name,
                    "n": one.n,
                    **repeats,
                    "unjudged": one.accuracy.unjudged,
                    "failed": one.accuracy.failed,
                    **{name: rate(m) for name, m in rates.items()},
                }
            )
    release = data.release
    named = {k: release.manifest.get(k) for k in ("name", "version")} if release is not None else {}
    return {
        "release": named | {"samples": len(data.samples)} if named else None,
        "condition": head.condition,
        "recipes": {scenario.value: text for scenario, text in head.recipes.items()},
        "results": results,
        "by_query": to_records(by_query) if (by_query := query_table(data, head)) else [],
        "sweeps": {table.name: to_records(table) for table in sweep_tables(data)},
        "funnel": [dict(step) for step in release.funnel] if release else [],
        "caveats": caveats(data),
    }


def print_data(
    data: ReportData,
    *,
    times: Mapping[str, float] | None = None,
    sweeps: bool = False,
    file: TextIO | None = None,
) -> None:
    """Print results, funnel, caveats and stage times.

    Args:
        times: seconds per stage, in order; None prints no times.
        sweeps: also print the tables of the runs' sweeps.
        file: output; standard output when None. Only a terminal gets colour, and none under NO_COLOR.
    """
    from rich.text import Text

    console = console_for(file)
    head = headline(data.runs)
    tables = [results_table(data, head), *filter(None, [query_table(data, head)])]
    tables += sweep_tables(data) if sweeps else []
    if data.release is not None and data.release.steps:
        tables.append(funnel_table(data))
    if times:
        tables.append(times_table(times))
    for table in tables:
        print_table(console, table)
    for line in caveats(data):
        console.print(Text("! " + plain(line), style="yellow"))
