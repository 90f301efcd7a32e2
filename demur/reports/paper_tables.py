"""VLM-DeflectionBench's tables 2-9, from any set of runs.

Numbers are computed from rows, totals included; retention is kept / pool and is called Retained (the paper's
column "Filtered" holds the retained share). What the data cannot fill says which run would.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from demur.core.errors import UsageError, did_you_mean
from demur.core.records import Measure, Modality, Scenario
from demur.judge.measures.kappa import cohen
from demur.judge.measures.totals import macro
from demur.reports.cells import (
    ASKED_BACK,
    SCENARIOS,
    Cell,
    Grid,
    Headline,
    asking_back,
    fewer_shown,
    grid_cells,
    headline,
    main_cells,
    part_cells,
    strictness_cells,
)
from demur.reports.data import ReportData, Run
from demur.reports.tables import Column, Table, counted, titled
from demur.scenarios.conditions import STRICTNESS

RATES = ("Acc", "Defl", "Hall")
SIDES = ("both", "image", "text")


def three(cell: Cell | None) -> tuple[Measure | None, Measure | None, Measure | None]:
    """The three rates of a cell, None where there is no such cell."""
    return (None, None, None) if cell is None else (cell.accuracy, cell.deflection, cell.hallucination)


def _rate_columns(scenarios: Sequence[Scenario], *, interval: bool, n: bool, asks: bool = False) -> list[Column]:
    found = []
    for scenario in scenarios:
        group = scenario.value.capitalize()
        found += [Column(name, group, interval=interval) for name in RATES]
        found += [Column("Asks", group)] if asks else []
        found += [Column("n", group)] if n else []
    return found


def absences(cells: Sequence[Cell]) -> list[str]:
    """The footnotes every table of rates carries: how many were not graded, and how intervals were made."""
    ungraded, failed = sum(c.accuracy.ungraded for c in cells), sum(c.accuracy.failed for c in cells)
    methods = sorted({m.interval for c in cells for m in c} - {""})
    notes = [
        f"Per cent of the graded answers; n counts them. In no rate: {ungraded:,} ungraded (the judge could not "
        f"decide), {failed:,} failed (the system gave no usable answer)."
    ]
    return notes + ([f"Intervals: {', '.join(methods)}."] if methods else [])


def _modality(text: bool, image: bool) -> str:
    return "Multi" if text and image else "Visual" if image else "Textual" if text else "None"


def table2(data: ReportData) -> Table:
    """Per source: samples kept, pool, share retained, modality of the query and of the evidence."""
    columns = titled("<Source", "Samples", "Pool", "Retained", "<Query", "<Context")
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
    steps = data.release.steps if data.release else []
    return steps[0].entered if steps else None


def table3(data: ReportData) -> Table:
    """Global statistics of the release."""
    columns = titled("<Statistic", "Value")
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
    """System x scenario: accuracy, deflection, hallucination; open and closed weights apart, where both are there."""
    cells, asking = main_cells(data, head), asking_back(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    section = sections(data)
    title = "Weights" if set(section.values()) <= {OPEN, CLOSED, OTHER} else "Group"
    order = list(section) or [run.name for run in data.runs]
    rows = []
    for run in sorted(data.runs, key=lambda run: order.index(run.name)):
        line: list[Any] = [data.starred(run), *([section[run.name]] if section else [])]
        for scenario in scenarios:
            one = cells.get((run.name, scenario))
            asks = [asking.get((run.name, scenario))] if asking else []
            line += [*three(one), *asks, one.counted if one else None]
        rows.append(tuple(line))
    notes = [head.note(), *filter(None, [fewer_shown(data, head)]), *absences(list(cells.values())), *data.star_note]
    notes += [ASKED_BACK] if asking else []
    return Table(
        "table4",
        "Accuracy, deflection and hallucination by scenario",
        (
            Column("System", align="left"),
            *([Column(title, align="left")] if section else []),
            *_rate_columns(scenarios, interval=interval, n=True, asks=bool(asking)),
        ),
        tuple(rows),
        frozenset(i for i in range(1, len(order)) if section and section[order[i]] != section[order[i - 1]]),
        notes=tuple(notes),
    )


def table5(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Modality of gold x modality of distractors, Realistic, with n; one set of samples per modality of gold."""
    grid = grid_cells(data, head)
    names = {"both": "MM", "image": "Visual", "text": "Textual"}
    columns = titled(
        "<System",
        Column("Positive", "Context", align="left"),
        Column("Negative", "Context", align="left"),
        *(Column(r, interval=interval) for r in RATES),
        "n",
    )
    caption = f"Modality of gold and distractors, Realistic scenario (prompt {head.condition})"
    if not grid.cells:
        return Table("table5", caption, columns, missing="a run over the grid: demur sweep RELEASE --modality grid")
    rows: list[tuple[Any, ...]] = []
    rules = set()
    for run in data.runs:
        mine = [(g, d) for g in ("text", "image", "both") for d in SIDES if (run.name, g, d) in grid.cells]
        if mine:
            rules.add(len(rows))
        for gold, negatives in mine:
            one = grid.cells[run.name, gold, negatives]
            rows.append((run.name, names[gold], names[negatives], *three(one), one.counted))
    notes = [*grid_notes(grid), *absences(list(grid.cells.values()))]
    return Table("table5", caption, columns, tuple(rows), frozenset(rules), tuple(notes))


def grid_notes(grid: Grid) -> list[str]:
    """Which samples the cells of the modality grid are over, and which they are not."""
    notes = [
        "The cells of one system and one positive modality are over the same samples: those that have distractors of "
        f"every modality asked. MM: text and image. Evidence shown (k: distractors): {grid.recipe}."
    ]
    if grid.left_out:
        counts = "; ".join(f"{name}, gold {gold}: {n:,}" for (name, gold), n in grid.left_out.items())
        notes.append(f"Samples left out because they lack distractors of one modality: {counts}.")
    if grid.short:
        notes.append(f"{grid.short:,} questions show fewer distractors than that: their samples have no more.")
    return notes


def _strictness(data: ReportData, head: Headline, name: str, scenarios: Sequence[Scenario], interval: bool) -> Table:
    cells = strictness_cells(data, head)
    shown = [s for s in scenarios if any(k[2] is s for k in cells)]
    caption = f"Prompt strictness: {' and '.join(s.value.capitalize() for s in scenarios)} scenarios"
    columns = titled("<System", "<Severity", *_rate_columns(shown or scenarios, interval=interval, n=True))
    if not shown:
        return Table(name, caption, columns, missing="runs at several levels: demur sweep RELEASE --strictness all")
    rows: list[tuple[Any, ...]] = []
    rules = set()
    blind = [run.name for run in data.runs if run.blind and any(k[0] == run.name for k in cells)]
    for run in data.runs:
        levels = [level for level in STRICTNESS if any((run.name, level, s) in cells for s in shown)]
        if levels:
            rules.add(len(rows))
        for level in levels:
            line: list[Any] = [marked(run), level.capitalize()]
            for scenario in shown:
                one = cells.get((run.name, level, scenario))
                line += [*three(one), one.counted if one else None]
            rows.append(tuple(line))
    used = [c for k, c in cells.items() if k[2] in shown]
    notes = [*([BLIND] if blind else []), *absences(used)]
    return Table(name, caption, columns, tuple(rows), frozenset(rules), tuple(notes))


BLIND = "\u2020 is not shown the prompt: its rows are the same question asked again, and say nothing about strictness."


def marked(run: Run) -> str:
    """A system's name where prompts are compared, with a dagger where it is not shown any."""
    return run.name + ("\u2020" if run.blind else "")


def table6(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Realistic and Adversarial."""
    return _strictness(data, head, "table6", (Scenario.REALISTIC, Scenario.ADVERSARIAL), interval)


def table9(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Strictness x Parametric and Oracle."""
    return _strictness(data, head, "table9", (Scenario.PARAMETRIC, Scenario.ORACLE), interval)


def table7(data: ReportData) -> Table:
    """Agreement of the judge with people (``labels.jsonl`` in a run), with Cohen's kappa from the table of labels."""
    columns = titled("<System", "Agreement", Column("Cohen kappa", decimals=2), "n")
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
            repeats = len(both) if len(items) < len(both) else 0
            agreement = Measure(name="agreement", value=one.observed, n=one.n, repeats=repeats)
            rows.append((run.name, agreement, one.kappa, counted(one.n, repeats)))
    if not rows:
        lines = '{"ask": ID, "label": "correct | incorrect | deflected"}'
        return Table(
            "table7", caption, columns, missing=f"human labels: lines of {lines} in labels.jsonl of a run folder"
        )
    if len(rows) > 1:
        kappas = [row[2] for row in rows]
        shares = [row[1].value for row in rows]
        n, repeats = sum(row[1].n for row in rows), sum(row[1].repeats for row in rows)
        average = Measure(name="macro-total(agreement)", value=macro(shares), n=n, repeats=repeats)
        rows.append(("Average", average, macro(kappas), counted(n, repeats)))
    last = len(rows) - 1
    notes = [f"{unknown:,} human labels belong to no graded answer and are left out."] if unknown else []
    if last:
        notes.append("Average: every system counts alike.")
    rules = frozenset({last}) if last else frozenset()
    return Table("table7", caption, columns, tuple(rows), rules, tuple(notes))


def table8(data: ReportData, head: Headline, *, interval: bool = False) -> Table:
    """Per-source breakdown, with totals computed over all samples (not the mean of the rows)."""
    return breakdown_table(data, head, "source", "table8", interval=interval)


PARTS = {"source": "Source", "topic": "Topic", "query_modality": "Query"}
"""Column of rows -> its title; what breakdowns go by."""


def breakdown_table(
    data: ReportData, head: Headline, by: str, name: str, *, interval: bool = False, totals: bool = True
) -> Table:
    """Headline rates by a column of rows (``source``, ``topic``, ``query_modality``), with totals over all samples."""
    parts = part_cells(data, head, by)
    wholes = main_cells(data, head)
    scenarios = [s for s in SCENARIOS if s in head.recipes]
    labels = sorted({k[1] for k in parts})
    rows: list[tuple[Any, ...]] = []
    rules, bold = set(), set()
    for run in data.runs:
        mine = [s for s in labels if any((run.name, s, c) in parts for c in scenarios)]
        rules.add(len(rows))
        for label in [*mine, *([None] if totals and len(mine) > 1 else [])]:
            line: list[Any] = [data.starred(run), "Total" if label is None else label or "(none)"]
            for scenario in scenarios:
                one = wholes.get((run.name, scenario)) if label is None else parts.get((run.name, label, scenario))
                line += [*three(one), one.counted if one else None]
            if label is None:
                bold |= {(len(rows), c) for c in range(1, len(line))}
            rows.append(tuple(line))
    what = PARTS[by].lower()
    notes = ["Query: what the question is asked with, text alone or text and an image."] * (by == "query_modality")
    if totals:
        notes.append("Totals are over all samples: larger parts weigh more.")
    notes += [head.note(), *absences(list(wholes.values())), *data.star_note]
    return Table(
        name,
        f"Breakdown by {'query modality' if by == 'query_modality' else what}",
        (
            Column("System", align="left"),
            Column(PARTS[by], align="left"),
            *_rate_columns(scenarios, interval=interval, n=True),
        ),
        tuple(rows), frozenset(rules), tuple(notes), bold=frozenset(bold),
    )  # fmt: skip


def tables(data: ReportData, *, interval: bool = False) -> list[Table]:
    """Tables 2 to 9 and one by query modality; those that cannot be filled say what would fill them."""
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
        breakdown_table(data, head, "query_modality", "queries", interval=interval),
    ]


# --- sections of Table 4 ---------------------------------------------------------------------------
#
# A group is what the user says it is; else it follows from what was asked: a name that only its vendor serves is
# closed, a model at an address or in a folder of one's own is open, and of anything else (a function, a reader, answers
# from a file, a model under a name of its own) nobody can tell.


OPEN, CLOSED, OTHER = "open", "closed", "other"


_CLOSED = re.compile(
    r"(^|[/:.])(gpt-(?!oss|neo|j\b)|chatgpt|o[1-9](-|$)|claude|gemini|grok-(?!1\b)|nova-|command-a|palm|titan)",
    re.IGNORECASE,
)
"""Names that only their vendors serve."""


_VENDOR = re.compile(r"^(openai|anthropic|gemini|vertexai|xai|bedrock|azure\w*)/", re.IGNORECASE)
"""Services that serve models of their vendors, of which a name that is not known says nothing."""


def weights(system: str) -> str:
    """Whether a system's weights are open, by its canonical name; "" where that does not say.

    >>> weights("model:openai/gpt-4o"), weights("model:Qwen/Qwen2.5-VL-7B-Instruct"), weights("reader:min=0.5")
    ('closed', 'open', '')
    """
    kind, _, name = system.partition(":")
    if kind != "model" or not name or name.startswith("python:"):
        return ""
    if _CLOSED.search(name):
        return CLOSED
    return OPEN if name.startswith("hf:") or ("/" in name and not _VENDOR.match(name)) else ""


def sections(data: ReportData) -> dict[str, str]:
    """Run name -> its group, in the order of the sections; empty where nobody says and not both kinds are there."""
    found = {run.name: data.groups.get(run.name) or weights(run.system) or OTHER for run in data.runs}
    if not data.groups and not {OPEN, CLOSED} <= set(found.values()):
        return {}
    given = [g for g in dict.fromkeys(data.groups.values()) if g not in (OPEN, CLOSED, OTHER)]
    order = [OPEN, CLOSED, *given, OTHER]
    return {name: found[name] for name in sorted(found, key=lambda name: order.index(found[name]))}


def stated(given: Mapping[str, str], runs: tuple[Run, ...]) -> dict[str, str]:
    """Groups that a user gives; ``open`` and ``closed`` stand for the two of the paper.

    Raises:
        UsageError: there is no such run; names the nearest.
    """
    names = [run.name for run in runs]
    for name in given:
        if name not in names:
            raise UsageError(
                f"no run is called {name!r}", item="--group", cure=did_you_mean(name, names) or ", ".join(names)
            )
    return {name: group.lower() if group.lower() in (OPEN, CLOSED) else group for name, group in given.items()}
