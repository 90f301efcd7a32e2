"""VLM-DeflectionBench's tables 2-9 and figures 3-5, from any set of runs.

Numbers are computed from rows, totals included; retention is kept / pool and is called Retained (the paper's
column "Filtered" holds the retained share). What the data cannot fill says which run would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.judge.measures.kappa import cohen
from demur.judge.measures.totals import macro
from demur.records import Measure, Modality, Scenario
from demur.report.cells import (
    SCENARIOS,
    Cell,
    Headline,
    grid_cells,
    headline,
    main_cells,
    part_cells,
    position_cells,
    strictness_cells,
    sweep_cells,
)
from demur.report.data import ReportData
from demur.report.figures import (
    Curve,
    OutcomeRow,
    Panel,
    Point,
    curves,
    outcome_bars,
    outcome_legend,
    paired_bars,
    series_legend,
    standalone,
)
from demur.report.tables import FORMS, Column, Form, Table, counted
from demur.scenarios.conditions import STRICTNESS
from demur.store import write_atomic

RATES = ("Acc", "Defl", "Hall")
SIDES = ("both", "image", "text")


def _three(cell: Cell | None) -> tuple[Measure | None, Measure | None, Measure | None]:
    return (None, None, None) if cell is None else (cell.accuracy, cell.deflection, cell.hallucination)


def _rate_columns(scenarios: Sequence[Scenario], *, interval: bool, n: bool) -> list[Column]:
    found = []
    for scenario in scenarios:
        group = scenario.value.capitalize()
        found += [Column(name, group, interval=interval) for name in RATES]
        found += [Column("n", group)] if n else []
    return found


def absences(cells: Sequence[Cell]) -> list[str]:
    """The footnotes every table of rates carries: how many were not graded, and how intervals were made."""
    ungraded, failed = sum(c.accuracy.ungraded for c in cells), sum(c.accuracy.failed for c in cells)
    methods = sorted({c.accuracy.interval for c in cells} - {""})
    notes = [
        f"Per cent of graded asks. Not graded, and in no rate: {ungraded:,} ungraded (the judge could not say), "
        f"{failed:,} failed (the system gave no usable answer)."
    ]
    return notes + ([f"Intervals: {', '.join(methods)}."] if methods else [])


# --- tables --------------------------------------------------------------------------------------


def _modality(text: bool, image: bool) -> str:
    return "Multi" if text and image else "Visual" if image else "Textual" if text else "None"


def table2(data: ReportData) -> Table:
    """Per source: samples kept, pool, share retained, modality of the query and of the evidence."""
    columns = (
        Column("Source", align="left"),
        Column("Samples"),
        Column("Pool"),
        Column("Retained"),
        Column("Query", align="left"),
        Column("Context", align="left"),
    )
    caption = "Samples per source, and the share of each source's pool that was retained"
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
        kept = len(samples)
        retained = Measure(name="retained", value=kept / pool, n=pool) if pool else None
        return name, kept, pool, retained, query, _modality("text" in evidence, "image" in evidence)

    for name, samples in sorted(by_source.items(), key=lambda item: (-len(item[1]), item[0])):
        rows.append(line(name, samples, pools.get(name)))
    whole = sum(pools[s] for s in by_source) if all(s in pools for s in by_source) else _pool_of_funnel(data)
    rows.append(line("Total", list(data.samples.values()), whole))
    notes = ["Retained = samples / pool. Query: Multi has an image, Textual has none, Mixed holds both kinds."]
    drawn = data.release.manifest.get("chosen_from_pool")
    if drawn and whole and drawn < whole:
        share = 100 * len(data.samples) / drawn
        notes.append(f"Only {drawn:,} of the pool were drawn for this release; of those, {share:.1f} % were retained.")
    if not pools:
        notes.append("The release does not say how large each source's pool was; the total is from the funnel.")
    last = len(rows) - 1
    return Table(
        "table2", caption, columns, tuple(rows), frozenset({last}), tuple(notes),
        bold=frozenset((last, c) for c in range(4)),
    )  # fmt: skip


def _pool_of_funnel(data: ReportData) -> int | None:
    funnel = data.release.funnel if data.release else []
    return int(funnel[0]["entered"]) if funnel else None


def table3(data: ReportData) -> Table:
    """Global statistics of the release."""
    columns = (Column("Statistic", align="left"), Column("Value"))
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
            held = [s.gold if role == "gold" else s.negatives for s in samples]
            share = sum(any(e.modality is modality for e in evidence) for evidence in held) / n
            rows.append((f"Samples with {modality.value} among the {role} contexts (%)", 100 * share))
    return Table("table3", caption, columns, tuple(rows))


def table4(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """System x scenario: accuracy, deflection, hallucination."""
    cells = main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    gates = set(data.release.manifest.get("gates") or ()) if data.release else set()
    rows = []
    for run in data.runs:
        line: list[Any] = [run.name + ("*" if run.name in gates else "")]
        for scenario in scenarios:
            one = cells.get((run.name, scenario))
            line += [*_three(one), one.counted if one else None]
        rows.append(tuple(line))
    notes = [head.told(), *absences(list(cells.values())), *(["* also a gate of the release."] if gates else [])]
    return Table(
        "table4",
        "Accuracy, deflection and hallucination by scenario",
        (Column("System", align="left"), *_rate_columns(scenarios, interval=interval, n=True)),
        tuple(rows),
        notes=tuple(notes),
    )


def table5(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Modality of gold x modality of distractors, Realistic, with n per cell."""
    cells = grid_cells(data, head)
    names = {"both": "MM", "image": "Visual", "text": "Textual"}
    columns = (
        Column("System", align="left"),
        Column("Positive", "Context", align="left"),
        Column("Negative", "Context", align="left"),
        *(Column(r, interval=interval) for r in RATES),
        Column("n"),
    )
    caption = f"Modality of gold and distractors, Realistic scenario (prompt {head.condition})"
    if not cells:
        return Table("table5", caption, columns, missing="a run over the grid: demur sweep RELEASE --modality grid")
    rows: list[tuple[Any, ...]] = []
    rules = set()
    for run in data.runs:
        mine = [(g, d) for g in ("text", "image", "both") for d in SIDES if (run.name, g, d) in cells]
        if mine:
            rules.add(len(rows))
        for gold, negatives in mine:
            one = cells[run.name, gold, negatives]
            rows.append((run.name, names[gold], names[negatives], *_three(one), one.counted))
    notes = [
        "Only samples that have evidence of both modalities asked for are in a cell.",
        *absences(list(cells.values())),
    ]
    return Table("table5", caption, columns, tuple(rows), frozenset(rules), tuple(notes))


def _strictness(data: ReportData, head: Headline, name: str, scenarios: Sequence[Scenario], interval: bool) -> Table:
    cells = strictness_cells(data, head)
    shown = [s for s in scenarios if any(k[2] is s for k in cells)]
    caption = f"Prompt strictness: {' and '.join(s.value.capitalize() for s in scenarios)} scenarios"
    columns = (
        Column("System", align="left"),
        Column("Severity", align="left"),
        *_rate_columns(shown or scenarios, interval=interval, n=True),
    )
    if not shown:
        return Table(name, caption, columns, missing="runs at several levels: demur sweep RELEASE --strictness all")
    rows: list[tuple[Any, ...]] = []
    rules = set()
    for run in data.runs:
        levels = [level for level in STRICTNESS if any((run.name, level, s) in cells for s in shown)]
        if levels:
            rules.add(len(rows))
        for level in levels:
            line: list[Any] = [run.name, level.capitalize()]
            for scenario in shown:
                one = cells.get((run.name, level, scenario))
                line += [*_three(one), one.counted if one else None]
            rows.append(tuple(line))
    used = [c for k, c in cells.items() if k[2] in shown]
    return Table(name, caption, columns, tuple(rows), frozenset(rules), tuple(absences(used)))


def table6(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Realistic and Adversarial."""
    return _strictness(data, head, "table6", (Scenario.REALISTIC, Scenario.ADVERSARIAL), interval)


def table9(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Parametric and Oracle."""
    return _strictness(data, head, "table9", (Scenario.PARAMETRIC, Scenario.ORACLE), interval)


def table7(data: ReportData) -> Table:
    """Agreement of the judge with people (``labels.jsonl`` in a run), with Cohen's kappa from the table of labels."""
    columns = (Column("System", align="left"), Column("Agreement"), Column("Cohen kappa", decimals=2), Column("n"))
    caption = "Agreement of the judge with human labels"
    rows: list[tuple[Any, ...]] = []
    unknown = 0
    for run in data.runs:
        labelled = run.rows.where(run.rows.is_in("ask", run.labels)) if run.labels else ()
        judged = {r.ask: r for r in labelled if r.outcome is not None}
        both = [(judged[ask], label.value) for ask, label in sorted(run.labels.items()) if ask in judged]
        unknown += len(run.labels) - len(both)
        if both:
            items = Counter((r.context, r.condition) for r, _ in both)
            weight = [1 / items[r.context, r.condition] for r, _ in both]
            one = cohen([str(r.outcome) for r, _ in both], [label for _, label in both], weight=weight)
            draws = len(both) if len(items) < len(both) else 0
            agreement = Measure(name="agreement", value=one.observed, n=one.n, draws=draws)
            rows.append((run.name, agreement, one.kappa, counted(one.n, draws)))
    if not rows:
        lines = '{"ask": ID, "label": "correct | incorrect | deflected"}'
        return Table(
            "table7", caption, columns, missing=f"human labels: lines of {lines} in labels.jsonl of a run folder"
        )
    if len(rows) > 1:
        kappas = [row[2] for row in rows]
        shares = [row[1].value for row in rows]
        n, draws = sum(row[1].n for row in rows), sum(row[1].draws for row in rows)
        average = Measure(name="macro-total(agreement)", value=macro(shares), n=n, draws=draws)
        rows.append(("Average", average, macro(kappas), counted(n, draws)))
    last = len(rows) - 1
    notes = [f"{unknown:,} human labels belong to no graded answer and are left out."] if unknown else []
    if last:
        notes.append("Average: every system counts alike.")
    rules = frozenset({last}) if last else frozenset()
    return Table("table7", caption, columns, tuple(rows), rules, tuple(notes))


def table8(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Per-source breakdown, with totals computed over all samples (not the mean of the rows)."""
    parts = part_cells(data, head, "source")
    wholes = main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    sources = sorted({k[1] for k in parts})
    rows: list[tuple[Any, ...]] = []
    rules, bold = set(), set()
    for run in data.runs:
        mine = [s for s in sources if any((run.name, s, c) in parts for c in scenarios)]
        rules.add(len(rows))
        for source in [*mine, None]:
            line: list[Any] = [run.name, "Total" if source is None else source]
            for scenario in scenarios:
                one = wholes.get((run.name, scenario)) if source is None else parts.get((run.name, source, scenario))
                line += [*_three(one), one.counted if one else None]
            if source is None:
                bold |= {(len(rows), c) for c in range(1, len(line))}
            rows.append(tuple(line))
    notes = ["Totals are over all asks, so they weigh sources by their samples.", head.told()]
    notes += absences(list(wholes.values()))
    return Table(
        "table8",
        "Breakdown by source",
        (
            Column("System", align="left"),
            Column("Source", align="left"),
            *_rate_columns(scenarios, interval=interval, n=True),
        ),
        tuple(rows), frozenset(rules), tuple(notes), bold=frozenset(bold),
    )  # fmt: skip


def tables(data: ReportData, *, interval: bool = False) -> list[Table]:
    """Tables 2 to 9, those that cannot be filled included (they say what would fill them)."""
    head = headline(data.runs)
    return [
        table2(data),
        table3(data),
        table4(data, head, interval=interval),
        table5(data, head, interval=interval),
        table6(data, head, interval=interval),
        table7(data),
        table8(data, head, interval=interval),
        table9(data, head, interval=interval),
    ]


# --- figures -------------------------------------------------------------------------------------


IDEAL = {
    Scenario.PARAMETRIC: "question and image alone: should deflect",
    Scenario.ORACLE: "gold evidence: should answer",
    Scenario.REALISTIC: "gold and distractors: should answer",
    Scenario.ADVERSARIAL: "distractors alone: should deflect",
}


def overview(data: ReportData, head: Headline) -> list[Panel]:
    """Table 4 as bars, a panel a scenario, then the legend; not a figure of 001."""
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


def figure3(data: ReportData, head: Headline) -> list[Panel]:
    """Accuracy, deflection and hallucination against the number of distractors, one line a system; 0 is the Oracle."""
    found = sweep_cells(data, head)
    if not found:
        return []
    style = {run.name: number for number, run in enumerate(data.runs)}
    panels = []
    for name in ("accuracy", "deflection", "hallucination"):
        series = [
            Curve(system, tuple(point(k, getattr(c, name)) for k, c in points.items() if c.n), style[system])
            for system, points in found.items()
        ]
        panels.append(curves(name.capitalize(), series, x_label="distractors"))
    return [*panels, series_legend([(system, style[system]) for system in found])]


def positions(data: ReportData, head: Headline) -> list[Panel]:
    """Rates against the place of the gold evidence among the distractors (position bias); not a figure of 001."""
    found = position_cells(data, head)
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
            x_label="distractors before the gold",
        )
        for name in ("accuracy", "deflection", "hallucination")
    ]
    return [*panels, series_legend([(system, style[system]) for system in found])]


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
    for measure in ("accuracy", "deflection", "hallucination"):
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
    "figure4": "a release whose manifest holds topics (demur.curation.topics.Drift of the pool and the release)",
    "figure5": "a release whose manifest holds gate_rounds (gates added one by one)",
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
        rows = [(s, k, *_three(c), c.counted) for s, points in found.items() for k, c in points.items()]
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
            line += [
                100 * float(rates[m]) if rates.get(m) is not None else None
                for m in ("accuracy", "deflection", "hallucination")
            ]
        rows5.append(tuple(line))
    return Table(
        "figure5", "Parametric rates of the monitors and the pool's size as gates are added",
        (Column("Gates", align="left"), Column("Stage I"), Column("Kept"),
         *(Column(r, m) for m in monitors for r in RATES)),
        tuple(rows5), missing="" if rows5 else MISSING_FIGURES[name],
    )  # fmt: skip


def write_tables(data: ReportData, folder: Path) -> list[Path]:
    """Write every table in four forms and every figure as SVG.

    Args:
        data: what to show.
        folder: made if needed; files of the same names are replaced.

    Returns:
        The files, in the order written.

    Raises:
        StorageError: the folder cannot be written.
    """
    written = []
    drawn = figures(data)
    for table in [*tables(data), *(figure_table(data, name) for name in drawn)]:
        for form, suffix in FORMS.items():
            kind: Form = form  # type: ignore[assignment]  # the keys of FORMS are the forms
            path = folder / f"{table.name}{suffix}"
            write_atomic(path, table.render(kind, width=200))
            written.append(path)
    for name, panels in {"overview": overview(data, headline(data.runs)), **drawn}.items():
        if panels:
            path = folder / f"{name}.svg"
            write_atomic(path, standalone(panels, title=name, columns=2 if name == "overview" else 0))
            written.append(path)
    return written
