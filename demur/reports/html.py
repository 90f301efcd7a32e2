"""One self-contained ``report.html``: opens from a file, makes no network requests, prints, and works on a phone.

All numbers and figures are HTML and SVG; the script only browses samples. Untrusted text (questions, answers, titles,
names) enters the page escaped in markup, or in a compressed, base64-coded data block that the script reads only as
text. A content security policy allows only the one style sheet and the one script, by hash, and images from ``data:``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from demur.core.errors import UsageError
from demur.core.store import write_atomic
from demur.core.text import brief
from demur.core.version import __version__
from demur.judge.measures.rates import Rates
from demur.reports import behaviour as right
from demur.reports import compare, compare_tables, paper_figures, paper_tables
from demur.reports.browse import payload
from demur.reports.cells import (
    SCENARIOS,
    Headline,
    Should,
    grid_cells,
    headline,
    joint_cells,
    position_cells,
    should_cells,
    strictness_cells,
    sweep_cells,
)
from demur.reports.credit import credit_table
from demur.reports.data import ReportData
from demur.reports.figures import funnel, heat
from demur.reports.judged import label_notes, notes_under
from demur.reports.markup import (
    csp_hash,
    json_html,
    more,
    notes_html,
    packed,
    panels_html,
    section,
    table_html,
    text,
    with_interval,
)
from demur.reports.release import caveats, funnel_table, recall_table
from demur.reports.svg import OUTCOMES, Panel
from demur.reports.tables import Column, Table, cell_text, plain
from demur.reports.terminal import LOOKED_AT, looked_at, results_table
from demur.scenarios.conditions import STRICTNESS

MOST_CHANGED = 12
"""Questions listed under a comparison."""
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
        groups: run name -> its section of Table 4: ``open``, ``closed`` or other words.
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
    data = replace(data, groups=paper_tables.checked_groups(groups or {}, data.runs))
    write_atomic(out, page(data, image_budget=image_budget))
    return paper_figures.write_paper(data, tables) if tables else []


def page(data: ReportData, *, image_budget: int = IMAGE_BUDGET) -> str:
    """The whole page as text; equal data gives equal text."""
    folder = files("demur.reports").joinpath("page")
    css = folder.joinpath("report.css").read_text(encoding="utf-8")
    js = folder.joinpath("report.js").read_text(encoding="utf-8")
    head = headline(data.runs)
    comparisons = _compare_pairs(data, head)
    sections = [
        ("overview", "Results", _overview(data, head)),
        ("behaviour", "Right behaviour", _behaviour(data, head)),
        ("sweep", "Distractors", _sweep(data, head)),
        ("positions", "Position", _positions(data, head)),
        ("prompts", "Strictness", _strictness(data, head)),
        ("modality", "Modality", _modality(data, head)),
        ("parts", "Parts", _parts(data, head)),
        ("confidence", "Confidence", _confidence(data, head)),
        ("credit", "Credit", _credit(data, head)),
        ("labels", "Labels", _labels(data)),
        ("compare", "Compare", _compare(data, comparisons)),
        ("samples", "Samples", folder.joinpath("browser.html").read_text(encoding="utf-8")),
        ("curation", "Curation", _curation(data)),
        ("provenance", "Provenance", _provenance(data)),
    ]
    filled_sections = [(key, name, body) for key, name, body in sections if body]
    title = _title(data)
    return Template(folder.joinpath("report.html").read_text(encoding="utf-8")).substitute(
        csp=f"default-src 'none'; script-src {csp_hash(js)}; style-src {csp_hash(css)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        version=escape(__version__),
        title=escape(title),
        css=css,
        js=js,
        header=_header(data, head, title, comparisons),
        nav="".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in filled_sections),
        body="\n".join(body for _, _, body in filled_sections),
        footer=f"<p>Written by demur {escape(__version__)} from the files named under Provenance. "
        "The page is self-contained and makes no network requests.</p>",
        data=packed(payload(data, head, image_budget=image_budget)),
    )


# --- sections ------------------------------------------------------------------------------------


def _title(data: ReportData) -> str:
    if data.release is None:
        return "demur report"
    return plain(" ".join(str(data.release.manifest.get(key, "")) for key in ("name", "version")))


def _header(
    data: ReportData, head: Headline, title: str, comparisons: Sequence[compare.Comparison]
) -> str:
    asks = sum(len(run.rows) for run in data.runs)
    judges = sorted({j for run in data.runs for j in run.judges})
    samples_asked = len({s for run in data.runs for s in run.rows.coded("sample").labels})
    of_all_samples = "" if samples_asked >= len(data.samples) else f" of {len(data.samples):,}"
    facts = [
        ("Samples", f"{samples_asked:,}{of_all_samples}"),
        ("Answers", f"{asks:,}"),
        ("Systems", ", ".join(run.name for run in data.runs)),
        ("Judge", ", ".join(judges) or "not stated"),
        ("Prompt", head.condition),
    ]
    seeds = sorted(
        {str(run.manifest["seed"]) for run in data.runs if run.manifest.get("seed") is not None}
    )
    if seeds:
        facts.append(("Seed", ", ".join(seeds)))
    box = ""
    if warnings := caveats(data):
        uncounted = sum(int((~run.rows.graded).sum()) for run in data.runs)
        count_of_warnings = "1 thing" if len(warnings) == 1 else f"{len(warnings)} things"
        graded = f"; {uncounted:,} of {asks:,} answers are in no rate" if uncounted else ""
        lines = "".join(f"<li>{text(line)}</li>" for line in warnings)
        box = (
            f'<details class="caveats"><summary>{count_of_warnings} to know before you quote these figures{graded}</summary>'
            f"<ul>{lines}</ul></details>"
        )
    return (
        f"<h1>{text(title)}</h1>"
        '<p class="lede">Where each system answers, deflects, or makes things up, under controlled evidence.</p>'
        f'<dl class="facts">{"".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in facts)}</dl>'
        f"{_answer_first_table(data, head, comparisons)}{box}"
    )


def _overview(data: ReportData, head: Headline) -> str:
    panels = paper_figures.overview(data, head)
    return section(
        "overview",
        "What the systems did",
        "The share of the answers (n) that were right (accuracy), declined to answer (deflection), or were wrong "
        "(hallucination), each with its 95 % interval. Gold evidence holds the answer; distractors look similar but "
        "do not.",
        _legend_html(panels),
        panels_html(panels[:-1], "two"),
        table_html(results_table(data, head)),
    )


def _answer_first_table(
    data: ReportData, head: Headline, comparisons: Sequence[compare.Comparison]
) -> str:
    """What is right in each scenario, what is made up, joint success, and who is better by how much.

    Nothing for more than six systems. What makes a figure doubtful (failed answers, a part of the samples) stands beside
    it.
    """
    if len(data.runs) > 6:
        return ""
    cells, joint_rates = should_cells(data, head), joint_cells(data, head)
    columns_asked = [
        (s, should)
        for s in SCENARIOS
        for should in LOOKED_AT
        if any((run.name, s, should) in cells for run in data.runs)
    ]
    mixed = {s for s, should in columns_asked if should != s.should}
    titles = [
        f"{s.value.capitalize()}{', nothing to say' if s in mixed and should == 'deflect' else ''}: "
        f"{LOOKED_AT[should][0].title.lower()}"
        for s, should in columns_asked
    ] + ["Right in all"] * bool(joint_rates)
    heads = "".join(f'<th class="l" scope="col">{title}</th>' for title in titles)
    body = ""
    for run in data.runs:
        body += f"<tr>{_name_cell(data.starred(run), run.part(len(data.samples)))}"
        for scenario, should in columns_asked:
            cell = cells.get((run.name, scenario, should))
            body += _answer_cell("not asked") if cell is None else _cell_of_rates(cell, should)
        if joint_rates:
            joint_rate = joint_rates.get(run.name)
            left_out = (
                f", {joint_rate.failed:,} left out" if joint_rate and joint_rate.failed else ""
            )
            body += (
                _answer_cell(
                    cell_text(joint_rate, _INTERVAL), f"n = {joint_rate.n:,} questions{left_out}"
                )
                if joint_rate
                else _answer_cell("not asked")
            )
        body += "</tr>"
    for number, pair in enumerate(comparisons):
        body += f"<tr{' class=rule' if not number else ''}>{_name_cell(f'{pair.second} against {pair.first}')}"
        difference_of = {d.scenario: d for d in pair.differences if d.measure == compare.PRIMARY}
        differences = [difference_of.get(scenario) for scenario, _ in columns_asked]
        for d in [*differences, *([pair.joint] if joint_rates else [])]:
            body += (
                _answer_cell(d.cell_text, d.verdict, f"n = {d.n:,} pairs")
                if d
                else _answer_cell("no pairs")
            )
        body += "</tr>"
    caption = "What is right, by scenario, in per cent of the answers (n), with 95 % intervals"
    notes = [*notes_under(data.runs, cells.values(), methods=False), *data.star_note]
    return (
        f'<p class="cap">{caption}</p><div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="answer-first"><thead><tr><th class="l" scope="col">System</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{notes_html(notes)}"
    )


_INTERVAL = Column("", interval=True)


def _cell_of_rates(cell: Rates, should: Should) -> str:
    """The rates to look at in one scenario: the first large, the others and n below it."""
    first, *others = looked_at(cell, should)
    texts = [
        f"{column.title.lower()} {cell_text(measure, Column(''))}"
        for column, measure in zip(LOOKED_AT[should][1:], others, strict=True)
    ]
    lost = ""
    if first.failed and first.bounds is not None:
        lost = f", {first.failed:,} failed: at worst {100 * first.bounds[0]:.1f}"
    return _answer_cell(
        cell_text(first, _INTERVAL),
        *texts,
        f"n = {first.n:,}{lost}",
        doubtful=first.failed + first.unjudged > (first.repeats or first.n),
    )


def _name_cell(name: str, part: str = "") -> str:
    return f'<th class="l" scope="row">{text(name)}<small>{text(part)}</small></th>'


def _answer_cell(rate: str, *about: str, doubtful: bool = False) -> str:
    mark = ' class="doubtful"' if doubtful else ""
    lines = "".join(f"<small{mark}>{text(line)}</small>" for line in about)
    return f'<td class="l">{with_interval(rate)}{lines}</td>'


def _behaviour(data: ReportData, head: Headline) -> str:
    return section(
        "behaviour",
        "Right behaviour",
        "Answer where the evidence suffices, deflect where it does not. Over-deflection: deflected although the gold "
        "evidence was there. Under-deflection: answered although it was not.",
        table_html(right.behaviour_table(data, head)),
    )


def _sweep(data: ReportData, head: Headline) -> str:
    return _curves(
        "sweep",
        "More distractors",
        "The Realistic scenario with more and more distractors beside the gold evidence; 0 is the Oracle. "
        "Bands are 95 % intervals; n below the axis: answers of samples with that many distractors.",
        paper_figures.figure3(data, head),
        paper_figures.figure_table(data, "figure3"),
        paper_figures.partial_notes(sweep_cells(data, head)),
    )


def _positions(data: ReportData, head: Headline) -> str:
    return _curves(
        "positions",
        "Position of the gold evidence",
        "The same evidence in another order: the gold after 0, 1, 2 ... distractors. A system without position bias "
        "draws flat lines.",
        paper_figures.positions(data, head),
        paper_figures.figure_table(data, "positions"),
        paper_figures.partial_notes(position_cells(data, head), places=True),
    )


def _curves(
    key: str,
    title: str,
    why: str,
    panels: Sequence[Panel],
    numbers: Table,
    partial: Sequence[str] = (),
) -> str:
    """A section of curves with their legend, the last panel; nothing without panels."""
    if not panels:
        return ""
    notes = "".join(f'<p class="why">{text(note)}</p>' for note in partial)
    folded = more("Numbers of the curves", table_html(numbers))
    return section(
        key, title, why, notes, _legend_html(panels), panels_html(panels[:-1], "three"), folded
    )


def _legend_html(panels: Sequence[Panel]) -> str:
    return f'<div class="legend">{panels[-1].svg()}</div>'


def _strictness(data: ReportData, head: Headline) -> str:
    cells = strictness_cells(data, head)
    if not cells:
        return ""
    systems = [run.name for run in data.runs if any(k[0] == run.name for k in cells)]
    labels = [paper_tables.name_with_dagger(run) for run in data.runs if run.name in systems]
    levels = [level for level in STRICTNESS if any(k[1] == level for k in cells)]
    maps = []
    for scenario in SCENARIOS:
        cells_of_scenario = [
            [cells.get((system, level, scenario)) for level in levels] for system in systems
        ]
        if not any(c for line in cells_of_scenario for c in line):
            continue
        for name in ("deflection", "hallucination"):
            values = [[getattr(c, name) if c else None for c in line] for line in cells_of_scenario]
            maps.append(heat(f"{scenario.value.capitalize()}: {name}", labels, levels, values))
    blind = any(run.blind for run in data.runs if run.name in systems)
    return section(
        "prompts",
        "Stricter prompts",
        "The same questions under increasingly strict instructions to deflect when unsure: none, soft, moderate, "
        "severe. Per cent of the answers, n in each cell.",
        f'<p class="why">{text(paper_tables.BLIND)}</p>' if blind else "",
        panels_html(maps, "two"),
        more(
            "Numbers of the maps",
            table_html(paper_tables.table6(data, head, interval=True)),
            table_html(paper_tables.table9(data, head, interval=True)),
        ),
    )


def _modality(data: ReportData, head: Headline) -> str:
    grid = grid_cells(data, head)
    if not grid.cells:
        return ""
    names = ("text", "image", "both")
    maps = []
    for run in data.runs:
        golds = [g for g in names if any(k[:2] == (run.name, g) for k in grid.cells)]
        sides = [s for s in names if any((run.name, g, s) in grid.cells for g in golds)]
        for measure in OUTCOMES if golds else ():
            values = [
                [
                    getattr(c, measure) if (c := grid.cells.get((run.name, g, s))) else None
                    for s in sides
                ]
                for g in golds
            ]
            maps.append(heat(f"{run.name}: {measure}", [f"gold {g}" for g in golds], sides, values))
    return section(
        "modality",
        "Text against image",
        "The Realistic scenario with gold evidence and distractors each restricted to text, image, or both. Rows: gold "
        "evidence; columns: distractors. The cells of a row use the same samples; n in each cell.",
        panels_html(maps, "three"),
        more("Numbers of the maps", table_html(paper_tables.table5(data, head, interval=True))),
    )


def _parts(data: ReportData, head: Headline) -> str:
    labels = {
        by: {x for run in data.runs for x in run.rows.coded(by).labels} - {""}
        for by in paper_tables.PARTS
    }
    parts_shown = [by for by in ("query_modality", "source", "topic") if len(labels[by]) > 1]
    if not parts_shown:
        return ""
    tables = {"query_modality": "queries", "source": "table8", "topic": "topics"}
    parts, seen = [], set[str]()
    for by in parts_shown:
        table = paper_tables.breakdown_table(data, head, by, tables[by])
        body = table_html(
            replace(table, notes=tuple(note for note in table.notes if note not in seen))
        )
        seen.update(table.notes)
        parts.append(more(f"By topic ({len(labels[by])})", body) if by == "topic" else body)
    return section(
        "parts",
        "Results by part",
        "The same rates by query modality (text only, or text with an image), by source and by topic. Rates of small "
        "parts vary widely: check n.",
        *parts,
    )


def _confidence(data: ReportData, head: Headline) -> str:
    panels = right.risk_panels(data, head)
    if not panels:
        return ""
    return section(
        "confidence",
        "Confidence",
        "When only the most confident answers are kept: the share of wrong ones among them (risk) against the share "
        "kept (coverage). With a useful confidence the curve rises late.",
        _legend_html(panels),
        panels_html(panels[:-1]),
        table_html(right.risk_table(data, head)),
    )


def _credit(data: ReportData, head: Headline) -> str:
    table = credit_table(data, head)
    if table is None:
        return ""
    return section("credit", "Partial credit", "The judge's ratings of answers.", table_html(table))


def _labels(data: ReportData) -> str:
    """How the judge agrees with people, where runs have labels; their rates are corrected in every table."""
    if not any(run.labels for run in data.runs):
        return ""
    about = "People's labels of some answers; where a scenario has enough drawn ones, they correct its rates."
    table = paper_tables.table7(data)
    notes = (*table.notes, *label_notes(data.runs))
    return section("labels", "Labels of people", about, table_html(replace(table, notes=notes)))


def _compare_pairs(data: ReportData, head: Headline) -> list[compare.Comparison]:
    """Up to six systems against the one with most graded answers: one tried on a few samples is no reference."""
    graded = [int(head.where(run.rows).graded.sum()) for run in data.runs]
    first = data.runs[graded.index(max(graded))]
    others = sorted(
        (run for run in data.runs if run is not first), key=lambda run: -len(head.where(run.rows))
    )
    return [
        compare.compare(first, other, data.samples, head, most_items=MOST_CHANGED)
        for other in others[:6]
    ]


def _compare(data: ReportData, compared: Sequence[compare.Comparison]) -> str:
    if not compared:
        return ""
    parts = []
    for number, comparison in enumerate(compared):
        body = (
            f"<p>{text(comparison.sentence)}</p>"
            + table_html(replace(compare_tables.table(comparison), name=f"compare-{number}"))
            + table_html(
                replace(compare_tables.slices_table(comparison), name=f"regressions-{number}")
            )
            + _changed_table(comparison, data.samples_shown)
        )
        title = f"{comparison.second} against {comparison.first}"
        parts.append(
            f"<details{' open' if number == 0 else ''}><summary>{text(title)}</summary>{body}</details>"
        )
    if len(data.runs) > 7:
        parts.append('<p class="why">More pairs: demur compare A B.</p>')
    return section(
        "compare",
        "Compare two systems",
        "Paired by context set and prompt: both systems saw the same evidence. Worst first; each question links to the "
        "sample below.",
        *parts,
    )


def _changed_table(comparison: compare.Comparison, samples_shown: frozenset[str] | None) -> str:
    """The questions that the second system lost, each linked to the sample browser where that shows it.

    The id, accepted answer and picture (which the page's script inserts) distinguish questions of equal words.
    """
    lost = comparison.lost
    if not lost:
        return ""
    rows = []
    for item in lost:
        question = text(item.question or item.sample)
        if samples_shown is None or item.sample in samples_shown:
            question = f'<a href="#ask={text(item.context)}/{text(item.condition)}">{question}</a>'
        cells = [
            f'<div class="asked"><span data-sample="{text(item.sample)}"></span>'
            f"<span>{question}<br><small>{text(item.sample)}</small></span></div>",
            text(brief(item.accepted, 70)),
            text(item.scenario),
            f"{text(item.before)}<br>{text(brief(item.said_before, 70))}",
            f"{text(item.after)}<br>{text(brief(item.said_after, 70))}",
        ]
        wide = (True, len(item.accepted) > 28, False, True, True)
        rows.append(
            [
                f'<td class="l{" long" if w else ""}">{c}</td>'
                for c, w in zip(cells, wide, strict=True)
            ]
        )
    first = (
        f" (first {len(lost)} of {comparison.lost_in_all})"
        if comparison.lost_in_all > len(lost)
        else ""
    )
    caption = text(f"Right with {comparison.first}, not with {comparison.second}{first}")
    titles = ("Question", "Accepted answer", "Scenario", comparison.first, comparison.second)
    heads = "".join(f'<th class="l" scope="col">{text(title)}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<p class="cap">{caption}</p><div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="changed"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _curation(data: ReportData) -> str:
    if data.release is None:
        return ""
    steps = [(s.stage, s.entered, s.kept) for s in data.release.steps]
    panels = ([funnel("Funnel", steps)] if steps else []) + paper_figures.figure4(data)
    rounds = paper_figures.figure5(data)
    return section(
        "curation",
        "How the release was made",
        "Samples that remained after each stage, and why the others were dropped.",
        panels_html(panels) if panels else "",
        table_html(funnel_table(data)) if steps else "",
        panels_html(rounds, "three") if rounds else "",
        table_html(recall_table(data)) if data.release.recall else "",
        more(
            "Contents of the release",
            table_html(paper_tables.table2(data)),
            table_html(paper_tables.table3(data)),
        ),
    )


def _usage_sentence(usage: Mapping[str, int]) -> str:
    """The number of responses, and what is known of their tokens and of caches."""
    sentence = f"{usage['responses']:,} responses"
    if usage["timed"]:
        sentence += f" ({usage['cached']:,} of {usage['timed']:,} timed ones from a cache)"
    if not usage["told"]:
        return f"{sentence}; none reports its tokens."
    how_many = (
        "" if usage["told"] == usage["responses"] else f", reported by {usage['told']:,} of them"
    )
    return f"{sentence}; {usage['prompt']:,} prompt and {usage['completion']:,} completion tokens{how_many}."


def _provenance(data: ReportData) -> str:
    parts = []
    if data.release is not None:
        parts.append(more("Release manifest", json_html(data.release.manifest)))
    for run in data.runs:
        usage = ""
        if run.usage:
            usage = f"<p>{_usage_sentence(run.usage)}</p>"
        prompts = (
            f"<p>Judge prompts: <code>{text(', '.join(run.prompts))}</code></p>"
            if run.prompts
            else ""
        )
        parts.append(more(f"Run {run.name}", usage, prompts, json_html(run.manifest)))
    return section(
        "provenance", "Provenance", "The systems, data, seeds and prompts of the runs.", *parts
    )
