"""VLM-DeflectionBench's tables 2-9, from any set of runs.

All numbers, including totals, come from the rows. Retained is kept / pool (the paper's column "Filtered" holds this
share). A table that the data cannot fill names the run that would fill it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.core.errors import UsageError, did_you_mean
from demur.core.records import Measure, Modality, Row, Scenario
from demur.judge.measures.kappa import cohen
from demur.judge.measures.rates import Rates
from demur.judge.measures.totals import macro
from demur.judge.measures.truthfulness import truthfulness
from demur.reports.cells import (
    SCENARIOS,
    Grid,
    Headline,
    grid_cells,
    headline,
    main_cells,
    note_on_fewer_distractors,
    part_cells,
    strictness_cells,
)
from demur.reports.data import ReportData, Run
from demur.reports.judged import notes_under
from demur.reports.tables import Column, Table, counted, numbers, section_starts, texts
from demur.scenarios.conditions import STRICTNESS

RATES = ("Acc", "Defl", "Hall")
TRUTHFULNESS = "accuracy less hallucination, from -100 to 100; declining earns 0."


def cells_of(cell: Rates | None) -> tuple[Any, ...]:
    """The three rates of a cell and its n; four dashes without a cell."""
    return (*cell, counted(cell.accuracy)) if cell else (None,) * 4


def _rate_columns(scenarios: Sequence[Scenario], *, interval: bool = False) -> list[Column]:
    return [
        Column(name, scenario.value.capitalize(), interval=interval)
        for scenario in scenarios
        for name in (*RATES, "n")
    ]


def _modality(text: bool, image: bool) -> str:
    return "Multi" if text and image else "Visual" if image else "Textual" if text else "None"


def table2(data: ReportData) -> Table:
    """Per source: samples kept, pool, share retained, modality of the query and of the evidence."""
    columns = (
        *texts("Source"),
        *numbers("Samples", "Pool", "Retained"),
        *texts("Query", "Context", wraps=True),
    )
    caption = "Samples per source, and the retained share of each source's pool"
    if not data.samples or data.release is None:
        return Table("table2", caption, columns, missing="a release: give one with --release")
    pools = data.release.manifest.get("pools") or {}
    rows: list[tuple[Any, ...]] = []
    by_source: dict[str, list[Any]] = {}
    for sample in data.samples.values():
        by_source.setdefault(sample.source, []).append(sample)

    def line(name: str, samples: Sequence[Any], pool: int | None) -> tuple[Any, ...]:
        evidence = [e.modality.value for s in samples for e in (*s.gold, *s.negatives)]
        with_image = sum(bool(s.images) for s in samples)
        query = "Multi" if with_image == len(samples) else "Textual" if not with_image else "Mixed"
        sample_count = len(samples)
        retained = Measure(name="retained", value=sample_count / pool, n=pool) if pool else None
        return (
            name,
            sample_count,
            pool,
            retained,
            query,
            _modality("text" in evidence, "image" in evidence),
        )

    for name, samples in sorted(by_source.items(), key=lambda item: (-len(item[1]), item[0])):
        rows.append(line(name, samples, pools.get(name)))
    pool_in_all = data.release.steps[0].entered if data.release.steps else None
    pool_in_all = (
        sum(pools[s] for s in by_source) if all(s in pools for s in by_source) else pool_in_all
    )
    rows.append(line("Total", list(data.samples.values()), pool_in_all))
    notes = [
        "Retained = samples / pool. Query: Multi has an image, Textual has none, Mixed has both kinds."
    ]
    drawn_count = data.release.manifest.get("chosen_from_pool")
    if drawn_count and pool_in_all and drawn_count < pool_in_all:
        share = 100 * len(data.samples) / drawn_count
        notes.append(
            f"This release drew {drawn_count:,} samples from the pool and retained {share:.1f} % of them."
        )
    if not pools:
        notes.append(
            "The release does not state the pool size of each source; the total is from the funnel."
        )
    last = len(rows) - 1
    return Table(
        "table2",
        caption,
        columns,
        tuple(rows),
        frozenset({last}),
        tuple(notes),
        bold=frozenset((last, c) for c in range(4)),
    )


def table3(data: ReportData) -> Table:
    """Global statistics of the release."""
    columns = (
        *texts("Statistic"),
        *numbers("Value"),
    )
    caption = "Global statistics of the release"
    samples = list(data.samples.values())
    if not samples:
        return Table("table3", caption, columns, missing="a release: give one with --release")
    n = len(samples)
    rows: list[tuple[str, int | float]] = [
        ("Total samples", n),
        ("Unique questions", len({s.question for s in samples})),
        ("Unique query images", len({i.sha256 for s in samples for i in s.images})),
        ("Avg. question length (words)", sum(len(s.question.split()) for s in samples) / n),
        ("Avg. gold contexts per sample", sum(len(s.gold) for s in samples) / n),
        ("Avg. negative contexts per sample", sum(len(s.negatives) for s in samples) / n),
    ]
    for role in ("gold", "negative"):
        for modality in Modality:
            evidence_of_samples = [s.gold if role == "gold" else s.negatives for s in samples]
            share = (
                sum(
                    any(e.modality is modality for e in evidence)
                    for evidence in evidence_of_samples
                )
                / n
            )
            rows.append(
                (f"Samples with {modality.value} among the {role} contexts (%)", 100 * share)
            )
    return Table("table3", caption, columns, tuple(rows))


def table4(data: ReportData, head: Headline) -> Table:
    """System x scenario: accuracy, deflection, hallucination; in the sections that the user states (open weights ...)."""
    cells = main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    section = sections(data)
    runs = {run.name: run for run in data.runs}
    rows: list[tuple[Any, ...]] = []
    for name in section or runs:
        rates = (cells_of(cells.get((name, scenario))) for scenario in scenarios)
        group = [section[name]] if section else []
        rows.append((data.starred(runs[name]), *group, *(cell for four in rates for cell in four)))
    groups = list(section.values())
    return Table(
        "table4",
        "Accuracy, deflection and hallucination by scenario",
        (*texts("System", *["Group"] * bool(section)), *_rate_columns(scenarios)),
        tuple(rows),
        frozenset(i for i in range(1, len(groups)) if groups[i] != groups[i - 1]),
        notes=(
            head.note(),
            *filter(None, [note_on_fewer_distractors(data, head)]),
            *notes_under(data.runs, cells.values(), methods=False),
            *data.star_note,
        ),
    )


def table5(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Modality of gold x modality of distractors, Realistic; one set of samples per modality of gold."""
    grid = grid_cells(data, head)
    names = {"both": "MM", "image": "Visual", "text": "Textual"}
    sides = (Column(side, "Context", align="left") for side in ("Positive", "Negative"))
    columns = (
        *texts("System"),
        *sides,
        *(Column(r, interval=interval) for r in RATES),
        *numbers("n"),
    )
    caption = f"Modality of gold and distractors, Realistic scenario (prompt {head.condition})"
    if not grid.cells:
        return Table(
            "table5",
            caption,
            columns,
            missing="a run over the grid: demur sweep RELEASE --modality grid",
        )
    rows = [
        (run.name, names[gold], names[side], *cell, counted(cell.accuracy))
        for run in data.runs
        for gold in ("text", "image", "both")
        for side in ("both", "image", "text")
        if (cell := grid.cells.get((run.name, gold, side))) is not None
    ]
    notes = [*_grid_notes(grid), *notes_under(data.runs, grid.cells.values(), methods=interval)]
    return Table("table5", caption, columns, tuple(rows), section_starts(rows), tuple(notes))


def _grid_notes(grid: Grid) -> list[str]:
    """The samples behind the cells of the modality grid, and those left out."""
    notes = [
        "All cells of one system and one positive modality use the same samples: those with distractors of every "
        f"modality asked. MM: text and image. Evidence shown (k: distractors): {grid.recipe}."
    ]
    if grid.left_out:
        counts = "; ".join(
            f"{name}, gold {gold}: {n:,}" for (name, gold), n in grid.left_out.items()
        )
        notes.append(f"Samples left out because they lack distractors of one modality: {counts}.")
    if grid.short:
        notes.append(
            f"{grid.short:,} questions show fewer distractors, because their samples have no more."
        )
    return notes


def _strictness(
    data: ReportData, head: Headline, name: str, scenarios: Sequence[Scenario], interval: bool
) -> Table:
    cells = strictness_cells(data, head)
    scenarios_shown = [s for s in scenarios if any(k[2] is s for k in cells)]
    caption = (
        f"Prompt strictness: {' and '.join(s.value.capitalize() for s in scenarios)} scenarios"
    )
    columns = (
        *texts("System", "Severity"),
        *_rate_columns(scenarios_shown or scenarios, interval=interval),
    )
    if not scenarios_shown:
        return Table(
            name,
            caption,
            columns,
            missing="runs at several levels: demur sweep RELEASE --strictness all",
        )
    rows = [
        (
            name_with_dagger(run),
            level.capitalize(),
            *(cell for s in scenarios_shown for cell in cells_of(cells.get((run.name, level, s)))),
        )
        for run in data.runs
        for level in STRICTNESS
        if any((run.name, level, s) in cells for s in scenarios_shown)
    ]
    blind = any(run.blind for run in data.runs if any(k[0] == run.name for k in cells))
    notes = [
        *([BLIND] if blind else []),
        *notes_under(
            data.runs, [c for k, c in cells.items() if k[2] in scenarios_shown], methods=interval
        ),
    ]
    return Table(name, caption, columns, tuple(rows), section_starts(rows), tuple(notes))


BLIND = "\u2020 does not see the prompt: its rows repeat the same questions, and say nothing about strictness."


def name_with_dagger(run: Run) -> str:
    """A system's name for a comparison of prompts, with a dagger where it sees none."""
    return run.name + ("\u2020" if run.blind else "")


def table6(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Realistic and Adversarial."""
    return _strictness(data, head, "table6", (Scenario.REALISTIC, Scenario.ADVERSARIAL), interval)


def table9(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Parametric and Oracle."""
    return _strictness(data, head, "table9", (Scenario.PARAMETRIC, Scenario.ORACLE), interval)


class _AgreementWithPeople(NamedTuple):
    """How the judge of a run agrees with people."""

    share: Measure
    kappa: float | None
    uneven: bool
    """Whether the labels are drawn otherwise than evenly over the graded answers."""


def table7(data: ReportData) -> Table:
    """Agreement and Cohen's kappa of the judge and people (``labels.jsonl`` in a run).

    Labels are often drawn evenly over verdicts, so each counts by what it stands for: the graded answers of its
    scenario, condition, recipe and verdict, over those with a label.
    """
    columns = (
        *texts("System"),
        *numbers("Agreement"),
        *numbers("Cohen kappa", decimals=2),
        *numbers("n"),
    )
    caption = "Agreement of the judge with human labels"
    labelled = [(run, _labelled_rows(run)) for run in data.runs]
    by_system = {run.name: _agreement_with_people(run, rows) for run, rows in labelled if rows}
    if not by_system:
        lines = '{"ask": ID, "label": "correct | incorrect | deflected"}'
        missing = f"human labels: lines of {lines} in labels.jsonl of a run folder"
        return Table("table7", caption, columns, missing=missing)
    rows = [(name, a.share, a.kappa, counted(a.share)) for name, a in by_system.items()]
    notes = []
    if ungraded := sum(len(run.labels) - len(rows_of_run) for run, rows_of_run in labelled):
        notes.append(f"Left out: {ungraded:,} human labels without a graded answer.")
    if any(a.uneven for a in by_system.values()):
        notes.append(
            "Verdicts weighted by their share of the graded answers, not of the labels; n counts labels."
        )
    rules = frozenset[int]()
    if len(rows) > 1:
        shares = [a.share for a in by_system.values()]
        average = Measure(
            name="macro-total(agreement)",
            value=macro([share.value for share in shares]),
            n=sum(share.n for share in shares),
            repeats=sum(share.repeats for share in shares),
        )
        kappa = macro([a.kappa for a in by_system.values()])
        rules = frozenset({len(rows)})
        rows.append(("Average", average, kappa, counted(average)))
        notes.append("Average: unweighted mean over systems.")
    return Table("table7", caption, columns, tuple(rows), rules, tuple(notes))


def _labelled_rows(run: Run) -> list[Row]:
    """The graded rows that people labelled, by ask."""
    if not run.labels:
        return []
    labelled = run.rows.where(run.rows.is_in("ask", run.labels))
    return sorted((r for r in labelled if r.outcome is not None), key=lambda r: r.ask)


def _agreement_with_people(run: Run, rows: Sequence[Row]) -> _AgreementWithPeople:
    items = Counter((r.context, r.condition) for r in rows)
    graded = run.rows.where(run.rows.graded).tally("scenario", "condition", "recipe", "outcome")
    drawn = Counter(map(_stratum, rows))
    stands_for = {stratum: graded[stratum] / n for stratum, n in drawn.items()}
    answers = [stands_for[_stratum(r)] / items[r.context, r.condition] for r in rows]
    agreement = cohen(
        [str(r.outcome) for r in rows],
        [run.labels[r.ask].label.value for r in rows],
        weight=[n * len(items) / sum(answers) for n in answers],
    )
    repeats = len(rows) if len(items) < len(rows) else 0
    share = Measure(name="agreement", value=agreement.observed, n=agreement.n, repeats=repeats)
    return _AgreementWithPeople(share, agreement.kappa, len(set(stands_for.values())) > 1)


def _stratum(row: Row) -> tuple[str, ...]:
    return row.scenario.value, row.condition, row.recipe, row.outcome.value if row.outcome else ""


PARTS = {
    "source": "Source",
    "topic": "Topic",
    "query_modality": "Query",
    "gold_modality": "Gold",
    "negative_modality": "Distractors",
}
"""Column of the rows -> its title, for breakdowns."""


def breakdown_table(
    data: ReportData, head: Headline, column: str, name: str, *, totals: bool = True
) -> Table:
    """Headline rates by a column of the rows (``source``, for Table 8; ``topic``, ``query_modality``).

    Totals are over all samples, not the mean of the rows.
    """
    parts = part_cells(data, head, column)
    wholes = main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    labels = sorted({k[1] for k in parts})
    rows: list[tuple[Any, ...]] = []
    bold = set()
    for run in data.runs:
        labels_of_run = [s for s in labels if any((run.name, s, c) in parts for c in scenarios)]
        for label in [*labels_of_run, *([None] if totals and len(labels_of_run) > 1 else [])]:
            line: list[Any] = [data.starred(run), "Total" if label is None else label or "(none)"]
            for scenario in scenarios:
                cell = (
                    wholes.get((run.name, scenario))
                    if label is None
                    else parts.get((run.name, label, scenario))
                )
                *rates, n = cells_of(cell)
                line += [*rates, n]
            if label is None:
                bold |= {(len(rows), c) for c in range(1, len(line))}
            rows.append(tuple(line))
    notes = ["Query: the modality of the question, text only or text with an image."] * (
        column == "query_modality"
    )
    if totals:
        notes.append("Totals are over all samples, so larger parts weigh more.")
    notes += [head.note(), *notes_under(data.runs, wholes.values(), methods=False), *data.star_note]
    return Table(
        name,
        f"Breakdown by {column.replace('_', ' ')}",
        (
            *texts("System", PARTS[column]),
            *(
                Column(name, scenario.value.capitalize())
                for scenario in scenarios
                for name in (*RATES, "n")
            ),
        ),
        tuple(rows),
        section_starts(rows),
        tuple(notes),
        bold=frozenset(bold),
    )


def truthfulness_table(data: ReportData, head: Headline) -> Table:
    """Truthfulness of the headline cells by source and in all."""
    parts, wholes = part_cells(data, head, "source"), main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    sources = sorted({source for _, source, _ in parts})
    rows: list[tuple[Any, ...]] = []
    for run in data.runs:
        for source in (*sources, *([None] if len(sources) > 1 else [])):
            cells = [
                wholes.get((run.name, s)) if source is None else parts.get((run.name, source, s))
                for s in scenarios
            ]
            if any(cells):
                name = "Total" if source is None else source or "(none)"
                rows.append((data.starred(run), name, *(c and truthfulness(c) for c in cells)))
    return Table(
        "truthfulness",
        "Truthfulness by source",
        (
            *texts("System", "Source"),
            *numbers(*(s.value.capitalize() for s in scenarios), interval=True, signed=True),
        ),
        tuple(rows),
        section_starts(rows),
        (f"Truthfulness: {TRUTHFULNESS}", head.note()),
    )


def tables(data: ReportData) -> list[Table]:
    """Tables 2 to 9, the breakdown by query modality, and truthfulness."""
    head = headline(data.runs)
    return [
        table2(data),
        table3(data),
        table4(data, head),
        table5(data, head),
        table6(data, head),
        table7(data),
        breakdown_table(data, head, "source", "table8"),
        table9(data, head),
        breakdown_table(data, head, "query_modality", "queries"),
        truthfulness_table(data, head),
    ]


# --- sections of Table 4 ---------------------------------------------------------------------------

OTHER = "other"
"""The section of the runs for which the user states none."""


def sections(data: ReportData) -> dict[str, str]:
    """Run name -> its section, in the order in which the user states them; empty where none is stated."""
    if not data.groups:
        return {}
    order = list(dict.fromkeys([*data.groups.values(), OTHER]))
    section_of_run = {run.name: data.groups.get(run.name, OTHER) for run in data.runs}
    return dict(sorted(section_of_run.items(), key=lambda item: order.index(item[1])))


def check_groups(groups: Mapping[str, str], runs: Sequence[Run]) -> None:
    """Check the sections that a user states.

    Raises:
        UsageError: no run has that name; suggests the nearest.
    """
    names = [run.name for run in runs]
    for name in groups:
        if name not in names:
            raise UsageError(
                f"no run is called {name!r}",
                item="--group",
                cure=did_you_mean(name, names) or ", ".join(names),
            )
