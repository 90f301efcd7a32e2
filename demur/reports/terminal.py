"""What `demur demo` and `demur run` print at the end: results, funnel, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, TextIO

from demur.core.records import Measure, Scenario
from demur.judge.measures.rates import Rates
from demur.judge.measures.truthfulness import truthfulness
from demur.reports import paper_tables
from demur.reports.cells import (
    ASKED_BACK,
    SCENARIOS,
    Headline,
    Should,
    headline,
    joint_cells,
    main_cells,
    note_on_fewer_distractors,
    shares_asking_back,
    should_cells,
)
from demur.reports.cells import (
    cell as rates_of,
)
from demur.reports.data import ReportData
from demur.reports.judged import judge_line, notes_under
from demur.reports.paper_figures import figure_table
from demur.reports.release import caveats, funnel_table
from demur.reports.tables import (
    Cell,
    Column,
    Table,
    console_for,
    counted,
    numbers,
    plain,
    print_table,
    rate_record,
    section_starts,
    texts,
    to_records,
    without_empty,
    without_zeros,
)

LOOKED_AT: dict[Should, tuple[Column, ...]] = {
    "answer": (
        *numbers("Right", "Hallucinated", interval=True, decimals=0),
        *numbers("Declined", decimals=0),
    ),
    "deflect": (
        *numbers("Declined", interval=True, decimals=0),
        *numbers("Answered", "Right", decimals=0),
        *numbers("Hallucinated", interval=True, decimals=0),
    ),
}
"""What is right -> the rates to look at, the right one first. "Answered" is the sum of the two behind it, and like
"Declined" it needs no right answer to be known."""
CAPTIONS: dict[Should, str] = {
    "answer": "Should answer, the evidence says it: per cent of n [95 % interval]",
    "deflect": "Should decline, no evidence says it: per cent of n [95 % interval]",
}


def looked_at(cell: Rates, should: Should) -> tuple[Measure, ...]:
    """The rates of `LOOKED_AT`."""
    if should == "answer":
        return cell.accuracy, cell.hallucination, cell.deflection
    declined = cell.deflection
    values = {"value": declined.value, "corrected": declined.corrected}
    values |= {"low": declined.high, "high": declined.low}
    complements = {key: None if share is None else 1 - share for key, share in values.items()}
    answered = declined.model_copy(update={"name": "answered"} | complements)
    return declined, answered, cell.accuracy, cell.hallucination


def first_tables(data: ReportData, head: Headline) -> list[Table]:
    """What a newcomer reads: of questions to answer how many are right, of the others how many are declined.

    Fits 80 columns, and 60 with one system. Joint success has a table of its own, where systems were asked the same
    questions in several scenarios.
    """
    cells, ask_back_shares = should_cells(data, head), shares_asking_back(data, head)
    tables = [_should_table(data, cells, ask_back_shares, should) for should in LOOKED_AT]
    tables = [table for table in (*tables, joint_table(data, head)) if table and table.rows]
    notes = (*notes_under(data.runs, cells.values(), methods=False), head.note())
    notes += (*filter(None, [note_on_fewer_distractors(data, head)]), *data.star_note)
    tables[-1] = replace(tables[-1], notes=(*tables[-1].notes, *notes))
    return tables


def _should_table(
    data: ReportData,
    cells: Mapping[tuple[str, Scenario, Should], Rates],
    ask_back_shares: Mapping[tuple[str, Scenario], Measure],
    should: Should,
) -> Table:
    """A line a scenario and system over the questions for which one thing is right."""
    rows: list[tuple[Cell, ...]] = []
    for scenario, run in product(SCENARIOS, data.runs):
        cell = cells.get((run.name, scenario, should))
        if cell is None:
            continue
        first, *others = looked_at(cell, should)
        asks_back = ask_back_shares.get((run.name, scenario)) if should == "deflect" else None
        at_worst = None
        if first.failed and first.bounds:
            at_worst = Measure(name="at worst", value=first.bounds[0], n=first.n)
        n = counted(cell.accuracy)
        rows.append((scenario.value, data.starred(run), n, first, *others, asks_back, at_worst))
    columns = (
        *texts("Scenario", "System"),
        *numbers("n"),
        *LOOKED_AT[should],
        *numbers("Asks back", "At worst", decimals=0),
    )
    starts = section_starts(rows)
    table = without_empty(Table(f"should-{should}", CAPTIONS[should], columns, tuple(rows), starts))
    first_title = LOOKED_AT[should][0].title
    notes = {
        "Asks back": ASKED_BACK,
        "At worst": f"At worst: {first_title} if all failed answers counted against it.",
    }
    titles = {column.title for column in table.columns}
    return replace(table, notes=tuple(note for title, note in notes.items() if title in titles))


def joint_table(data: ReportData, head: Headline) -> Table | None:
    """Joint success, a line a system; None where no system was asked in several scenarios."""
    joint_shares = joint_cells(data, head)
    if not joint_shares:
        return None
    rows = tuple(
        (data.starred(run), counted(m), m, m.failed)
        for run in data.runs
        if (m := joint_shares.get(run.name))
    )
    caption = "Right in every scenario of the same question, in per cent of n questions"
    notes = ("Left out: questions with a failed or unjudged answer.",) * any(
        row[-1] for row in rows
    )
    columns = (
        *texts("System"),
        *numbers("n"),
        *numbers("Right in all", interval=True, decimals=0),
        *numbers("Left out"),
    )
    return without_zeros(Table("joint", caption, columns, rows, notes=notes), "Left out")


def results_table(data: ReportData, head: Headline, *, all_recipes: bool = False) -> Table:
    """The paper's three rates and truthfulness, a line per scenario and system, with intervals.

    Args:
        data: the runs.
        head: the recipes and the prompt that count.
        all_recipes: a line for each recipe and prompt of the runs instead.
    """
    lines = []
    for run in data.runs:
        rows = run.rows if all_recipes else head.where(run.rows)
        for (scenario, recipe, condition), place in rows.groups("scenario", "recipe", "condition"):
            lines.append((Scenario(scenario), recipe, condition, run, rates_of(run, rows, place)))
    lines.sort(key=lambda line: (SCENARIOS.index(line[0]), data.runs.index(line[3])))
    conditions = {condition for _, _, condition, *_ in lines}
    rows_shown = [
        (
            scenario.value,
            data.starred(run),
            *([recipe.partition("(")[2].rstrip(")")] if all_recipes else ()),
            *([condition] if all_recipes and len(conditions) > 1 else ()),
            *rates,
            truthfulness(rates),
            counted(rates.accuracy),
            rates.accuracy.unjudged,
            rates.accuracy.failed,
        )
        for scenario, recipe, condition, run, rates in lines
    ]
    columns = (
        *texts("Scenario", "System"),
        *(texts("Evidence") if all_recipes else ()),
        *(texts("Prompt") if all_recipes and len(conditions) > 1 else ()),
        *numbers("Accuracy", "Deflection", "Hallucination", interval=True),
        *numbers("Truthfulness", interval=True, signed=True),
        *numbers("n", "Unjudged", "Failed"),
    )
    notes = (
        f"Truthfulness: {paper_tables.TRUTHFULNESS}",
        *([] if all_recipes else [head.note()]),
        *filter(None, [note_on_fewer_distractors(data, head)]),
        *notes_under(data.runs, [rates for *_, rates in lines]),
        *data.star_note,
    )
    table = Table(
        "results",
        "Results by scenario, in per cent of the answers (n)",
        columns,
        tuple(rows_shown),
        section_starts(rows_shown),
        notes,
    )
    return without_zeros(table, "Unjudged", "Failed")


def times_table(times: Mapping[str, float]) -> Table:
    """Seconds per stage, in the order given, with their sum."""
    rows = [(stage, float(seconds)) for stage, seconds in times.items()]
    total = (("total", float(sum(times.values()))),)
    columns = (
        *texts("Stage"),
        *numbers("Seconds"),
    )
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
    modalities = {label for run in data.runs for label in run.rows.coded("query_modality").labels}
    if len(modalities) < 2:
        return None
    table = paper_tables.breakdown_table(data, head, "query_modality", "queries", totals=False)
    return replace(table, notes=table.notes[:1])  # the other notes are under the table above it


def summarised(data: ReportData) -> dict[str, Any]:
    """The numbers of `print_data` as JSON-safe values: what ``summary.json`` and ``--json`` hold.

    Returns:
        ``release`` (name, version, samples), ``condition``, ``recipes``, ``results`` (one object per scenario and
        system: rates and ``truthfulness`` as `demur.reports.tables.rate_record` has them, ``asks_back`` where any
        system asks back, ``n`` items, and ``repeats``, their graded repeats, where they were asked several times),
        ``joint`` (one object per system: the share of questions that it handles right in all its ``scenarios``, and how
        many were ``left_out``),
        ``judge`` (the line on how good it is), ``by_query`` (the same by query modality),
        ``sweeps`` (table -> rows: those of ``figure3``, ``positions``, ``table5``, ``table6``, ``table9`` that the runs
        fill), ``funnel``, ``caveats``.
    """
    head = headline(data.runs)
    cells, ask_back_shares = main_cells(data, head), shares_asking_back(data, head)
    joint_shares = joint_cells(data, head)
    results = []
    for scenario in SCENARIOS:
        for run in data.runs:
            cell = cells.get((run.name, scenario))
            if cell is None:
                continue
            rates = cell._asdict() | {"truthfulness": truthfulness(cell)}
            if ask_back_shares:
                rates["asks_back"] = ask_back_shares[run.name, scenario]
            repeats = {"repeats": d} if (d := cell.accuracy.repeats) else {}
            results.append(
                {
                    "scenario": scenario.value,
                    "system": run.name,
                    "n": cell.n,
                    **repeats,
                    "unjudged": cell.accuracy.unjudged,
                    "failed": cell.accuracy.failed,
                    **{name: rate_record(m) for name, m in rates.items()},
                }
            )
    release = data.release
    release_name = (
        {k: release.manifest.get(k) for k in ("name", "version")} if release is not None else {}
    )
    return {
        "release": release_name | {"samples": len(data.samples)} if release_name else None,
        "condition": head.condition,
        "recipes": {scenario.value: text for scenario, text in head.recipes.items()},
        "results": results,
        "joint": [
            {
                "system": run.name,
                "scenarios": [s.value for s in SCENARIOS if (run.name, s) in cells],
                "left_out": joint_shares[run.name].failed,
            }
            | rate_record(joint_shares[run.name])
            for run in data.runs
            if run.name in joint_shares
        ],
        "judge": judge_line(data.runs),
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
    tables = [*first_tables(data, head), *filter(None, [query_table(data, head)])]
    tables += sweep_tables(data) if sweeps else []
    if data.release is not None and data.release.steps:
        tables.append(funnel_table(data))
    if times:
        tables.append(times_table(times))
    for table in tables:
        print_table(console, table)
    for line in caveats(data):
        console.print(Text("! " + plain(line), style="yellow"))
