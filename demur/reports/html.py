"""One self-contained ``report.html``: opens from a file, makes no network requests, prints, and works on a phone.

All numbers and figures are HTML and SVG; the script only browses samples. Untrusted text (questions, answers, titles,
names) enters the page escaped in markup, or in a compressed, base64-coded data block that the script reads only as
text. A content security policy allows only the one style sheet and the one script, by hash, and images from ``data:``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from demur.core.errors import UsageError
from demur.core.records import Measure, Scenario
from demur.core.store import write_atomic
from demur.core.version import __version__
from demur.judge.measures.rates import Rates
from demur.reports import behaviour as right
from demur.reports import compare, compare_tables, paper_figures, paper_tables
from demur.reports.browse import payload
from demur.reports.cells import (
    SCENARIOS,
    Should,
    headline,
    joint_cells,
    position_cells,
    should_cells,
    sweep_cells,
)
from demur.reports.credit import credit_table
from demur.reports.data import ReportData
from demur.reports.judged import label_notes, notes_under
from demur.reports.markup import (
    csp_hash,
    figure,
    fold,
    json_html,
    packed,
    paragraph,
    table_html,
    templates,
)
from demur.reports.release import caveats, funnel_table, recall_table
from demur.reports.svg import Panel
from demur.reports.tables import Cell, Column, Table, counted, texts, without_empty
from demur.reports.terminal import LOOKED_AT, looked_at, results_table

MOST_CHANGED = 12
"""Questions listed under a comparison."""
MOST_COMPARED = 6
"""Systems compared with the first on the page."""
IMAGE_BUDGET = 12_000_000
"""Maximum bytes of all thumbnails in the page."""


def write_report(
    data: ReportData,
    out: Path,
    *,
    image_budget: int = IMAGE_BUDGET,
    groups: Mapping[str, str] | None = None,
    tables: Path | None = None,
) -> list[Path]:
    """Write the page of runs in memory and, where a folder is given, tables and figures for a paper.

    Args:
        image_budget: maximum bytes of all thumbnails, in base64.
        groups: run name -> its section of Table 4, such as ``open``.
        tables: folder for tables (.txt .md .tex .csv) and figures (.svg).

    Returns:
        The written tables and figures.

    Raises:
        UsageError: ``out`` is a folder, the budget is negative, or no run has the name of a group.
        StorageError: something cannot be written.
    """
    if image_budget < 0:
        raise UsageError(f"image budget {image_budget:,} bytes", cure="give 0 for no pictures")
    if out.is_dir():
        raise UsageError("is a folder", item=out, cure="name the file, such as report.html")
    paper_tables.check_groups(groups or {}, data.runs)
    data = replace(data, groups=groups or {})
    write_atomic(out, page(data, image_budget=image_budget))
    return paper_figures.write_paper(data, tables) if tables else []


def page(data: ReportData, *, image_budget: int = IMAGE_BUDGET) -> str:
    """The whole page as text; equal data gives equal text."""
    css, js = (_read(f"report.{suffix}") for suffix in ("css", "js"))
    policy = (
        f"default-src 'none'; script-src {csp_hash(js)}; style-src {csp_hash(css)}; img-src data:"
    )
    uncounted = sum(int((~run.rows.graded).sum()) for run in data.runs)
    answers = sum(len(run.rows) for run in data.runs)
    content = _Page(data)
    return (
        templates()
        .get_template("report.html")
        .render(
            policy=f"{policy}; base-uri 'none'; form-action 'none'",
            version=__version__,
            title=_title(data),
            css=css,
            js=js,
            page=content,
            caveats=caveats(data),
            uncounted=f"; {uncounted:,} of {answers:,} answers are in no rate" if uncounted else "",
            data=packed(payload(data, content.head, image_budget=image_budget)),
        )
    )


def _read(name: str) -> Markup:
    folder = files("demur.reports").joinpath("page")
    return Markup(folder.joinpath(name).read_text(encoding="utf-8"))


def _title(data: ReportData) -> str:
    if data.release is None:
        return "demur report"
    return " ".join(str(data.release.manifest.get(key, "")) for key in ("name", "version"))


Pool: TypeAlias = tuple[Scenario, Should]
Cells: TypeAlias = Mapping[tuple[str, Scenario, Should], Rates]


def _rates_to_look_at(cell: Rates | None, should: Should) -> list[Cell]:
    """What is right, what is made up, and n: of how many, where some are in no rate."""
    if cell is None:
        return [None, None, None]
    first = looked_at(cell, should)[0]
    uncounted = first.failed + first.unjudged
    n = f"{first.n:,} of {first.n + uncounted:,}" if uncounted else counted(first)
    return [first, cell.hallucination, n]


class _Page:
    """The contents of the page. A note stands under the first table that has it, and under no other."""

    def __init__(self, data: ReportData) -> None:
        self.data, self.head = data, headline(data.runs)
        self.comparisons = self._comparisons()
        self._notes: set[str] = set()

    def _comparisons(self) -> list[compare.Comparison]:
        """Systems against the one with most graded answers: one tried on a few samples is no reference."""
        graded = [int(self.head.where(run.rows).graded.sum()) for run in self.data.runs]
        first = self.data.runs[graded.index(max(graded))]
        others = [run for run in self.data.runs if run is not first]
        others.sort(key=lambda run: -len(self.head.where(run.rows)))
        return [
            compare.compare(first, other, self.data.samples, self.head, most_items=MOST_CHANGED)
            for other in others[:MOST_COMPARED]
        ]

    def table(self, table: Table) -> Markup:
        """A table without the notes that stand under a table above it."""
        notes = tuple(note for note in table.notes if note not in self._notes)
        self._notes.update(notes)
        return table_html(replace(table, notes=notes))

    # --- the first screen -------------------------------------------------------------------------

    def facts(self) -> list[tuple[str, str]]:
        """What was run, in a line."""
        runs = self.data.runs
        samples_asked = len({s for run in runs for s in run.rows.coded("sample").labels})
        in_all = (
            "" if samples_asked >= len(self.data.samples) else f" of {len(self.data.samples):,}"
        )
        seeds = {str(run.manifest["seed"]) for run in runs if run.manifest.get("seed") is not None}
        facts = {
            "Samples": f"{samples_asked:,}{in_all}",
            "Answers": f"{sum(len(run.rows) for run in runs):,}",
            "Systems": ", ".join(run.name for run in runs),
            "Judge": ", ".join(sorted({j for run in runs for j in run.judges})) or "not stated",
            "Prompt": self.head.condition,
            "Seed": ", ".join(sorted(seeds)),
        }
        return [(name, value) for name, value in facts.items() if value]

    def answers(self) -> list[Markup]:
        """What is right in each scenario and what is made up, a line a system; and who is better by how much."""
        cells, joint = should_cells(self.data, self.head), joint_cells(self.data, self.head)
        pools = [
            (scenario, should)
            for scenario in SCENARIOS
            for should in LOOKED_AT
            if any((run.name, scenario, should) in cells for run in self.data.runs)
        ]
        tables = [self._rates(cells, joint, pools)]
        if self.comparisons:
            tables.append(self._differences(pools, joint=bool(joint)))
        return [self.table(table) for table in tables]

    def _rates(self, cells: Cells, joint: Mapping[str, Measure], pools: Sequence[Pool]) -> Table:
        columns = [*texts("System")]
        for scenario, should in pools:
            name = compare.pool_name(scenario, should).capitalize()
            columns.append(replace(LOOKED_AT[should][0], group=name))
            columns.append(Column("Made up", name, interval=True, decimals=0))
            columns.append(Column("n", name))
        columns += [Column("Right", "In all", interval=True, decimals=0), Column("n", "In all")]
        rows = []
        for run in self.data.runs:
            part = run.part(len(self.data.samples))
            row: list[Cell] = [self.data.starred(run) + (f" ({part})" if part else "")]
            for scenario, should in pools:
                row += _rates_to_look_at(cells.get((run.name, scenario, should)), should)
            share = joint.get(run.name)
            row += [share, counted(share) if share else None]
            rows.append(tuple(row))
        notes = notes_under(self.data.runs, cells.values(), methods=False)
        return without_empty(
            Table(
                "answers",
                "What is right, and what is made up (hallucinated): per cent of n [95 % interval]",
                tuple(columns),
                tuple(rows),
                notes=(*notes, *self.data.star_note),
            )
        )

    def _differences(self, pools: Sequence[Pool], *, joint: bool) -> Table:
        """Who is right more often, over the same pools as the rates."""
        groups = [compare.pool_name(*pool).capitalize() for pool in pools] + ["In all"] * joint
        rows, bold = [], set[tuple[int, int]]()
        for number, comparison in enumerate(self.comparisons):
            main = [d for d in comparison.differences if d.measure == compare.PRIMARY]
            of_pool = {(d.scenario, d.should): d for d in main}
            row: list[Cell] = [f"{comparison.second} against {comparison.first}"]
            for difference in [*map(of_pool.get, pools), *[comparison.joint] * joint]:
                if difference is not None and difference.significant:
                    bold.add((number, len(row)))
                row += [difference.measured, difference.n] if difference else [None, None]
            rows.append(tuple(row))
        pairs = (
            (Column("Difference", name, interval=True, signed=True), Column("n", name))
            for name in groups
        )
        return Table(
            "differences",
            "Differences of what is right, paired, in points [95 % interval]; bold where one is shown",
            (*texts("Systems"), *(column for pair in pairs for column in pair)),
            tuple(rows),
            bold=frozenset(bold),
        )

    # --- sections: those that the runs have nothing for have no parts ------------------------------

    def overview(self) -> list[Markup]:
        """What the systems did, as bars and as numbers."""
        bars = figure(paper_figures.overview(self.data, self.head), "two", legend=True)
        return [bars, self.table(results_table(self.data, self.head))]

    def behaviour(self) -> list[Markup]:
        """Right behaviour over all scenarios."""
        return [self.table(right.behaviour_table(self.data, self.head))]

    def sweep(self) -> list[Markup]:
        """Rates by number of distractors."""
        notes = paper_figures.partial_notes(sweep_cells(self.data, self.head))
        return self._curves(paper_figures.figure3(self.data, self.head), "figure3", notes)

    def positions(self) -> list[Markup]:
        """Rates by place of the gold."""
        cells = position_cells(self.data, self.head)
        notes = paper_figures.partial_notes(cells, places=True)
        return self._curves(paper_figures.positions(self.data, self.head), "positions", notes)

    def strictness(self) -> list[Markup]:
        """Rates by prompt."""
        return self._tables(
            paper_tables.table9(self.data, self.head, interval=True),
            paper_tables.table6(self.data, self.head, interval=True),
        )

    def modality(self) -> list[Markup]:
        """Rates by modality of gold and distractors."""
        return self._tables(paper_tables.table5(self.data, self.head, interval=True))

    def confidence(self) -> list[Markup]:
        """Risk by coverage, where a system states confidences."""
        risk = right.risk_panels(self.data, self.head)
        if not risk:
            return []
        return [figure(risk, legend=True), self.table(right.risk_table(self.data, self.head))]

    def credit(self) -> list[Markup]:
        """Partial credit, where a judge rates."""
        credit = credit_table(self.data, self.head)
        return [self.table(credit)] if credit else []

    def samples(self) -> list[Markup]:
        """The sample browser."""
        return [_read("browser.html")]

    def _tables(self, *tables: Table) -> list[Markup]:
        """Those of some tables that have rows."""
        return [self.table(table) for table in tables if table.rows]

    def _curves(self, panels: Sequence[Panel], name: str, notes: Sequence[str]) -> list[Markup]:
        """Curves, what to know of their points, and their numbers."""
        if not panels:
            return []
        numbers = table_html(paper_figures.figure_table(self.data, name))
        return [
            *map(paragraph, notes),
            figure(panels, "three", legend=True),
            fold("Numbers of the curves", [numbers]),
        ]

    def parts(self) -> list[Markup]:
        """Rates by part."""
        tables = {"query_modality": "queries", "source": "table8", "topic": "topics"}
        parts = []
        for by, name in tables.items():
            labels = {x for run in self.data.runs for x in run.rows.coded(by).labels} - {""}
            if len(labels) > 1:
                table = self.table(paper_tables.breakdown_table(self.data, self.head, by, name))
                parts.append(fold(f"By topic ({len(labels)})", [table]) if by == "topic" else table)
        parts.append(self.table(paper_tables.truthfulness_table(self.data, self.head)))
        return parts

    def labels(self) -> list[Markup]:
        """How the judge agrees with people, where runs have labels."""
        if not any(run.labels for run in self.data.runs):
            return []
        agreement = paper_tables.table7(self.data)
        return [
            self.table(replace(agreement, notes=(*agreement.notes, *label_notes(self.data.runs))))
        ]

    def compared(self) -> list[Markup]:
        """Pairs of systems: differences, parts and samples that were lost."""
        parts = []
        for number, comparison in enumerate(self.comparisons):
            lost, in_all = comparison.lost, comparison.lost_in_all
            of_all = f" (first {len(lost)} of {in_all})" if in_all > len(lost) else ""
            changed = compare_tables.changed_table(
                comparison,
                lost,
                "changed",
                f"Right with {comparison.first}, not with {comparison.second}{of_all}",
                lambda sample: self.data.samples_shown is None or sample in self.data.samples_shown,
            )
            tables = (
                compare_tables.table(comparison),
                compare_tables.slices_table(comparison),
                changed,
            )
            parts.append(
                fold(
                    f"{comparison.second} against {comparison.first}",
                    [
                        paragraph(comparison.sentence),
                        *(table_html(replace(t, name=f"{t.name}-{number}")) for t in tables),
                    ],
                    opened=number == 0,
                )
            )
        if len(self.data.runs) > 1 + MOST_COMPARED:
            parts.append(paragraph("More pairs: demur compare A B."))
        return parts

    def curation(self) -> list[Markup]:
        """How the release was made."""
        data = self.data
        if data.release is None:
            return []
        figures = paper_figures.figure4(data), paper_figures.figure5(data)
        contents = paper_tables.table2(data), paper_tables.table3(data)
        return [
            *self._tables(funnel_table(data)),
            *(figure(panels, "three") for panels in figures if panels),
            *self._tables(recall_table(data)),
            fold("Contents of the release", self._tables(*contents)),
        ]

    def provenance(self) -> list[Markup]:
        """Where everything is from."""
        parts = []
        if self.data.release is not None:
            parts.append(fold("Release manifest", [json_html(self.data.release.manifest)]))
        for run in self.data.runs:
            about = [paragraph(f"Judge prompts: {', '.join(run.prompts)}")] if run.prompts else []
            parts.append(fold(f"Run {run.name}", [*about, json_html(run.manifest)]))
        return parts
