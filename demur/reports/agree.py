"""How far labellers and judges agree, and what labels make of a judge's rates: the tables of `demur agree`.

Labels hold for the answers that were labelled, under one rubric, beside the verdicts of one judge: a label says which
(``labels.jsonl`` of a run as `demur annotate take` writes it). When judge, prompt, rubric or answer is another one, the
correction is *stale* and refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import DataError, UsageError
from demur.core.records import Measure, Scenario
from demur.core.stats import Codes
from demur.core.store import Problems, digest, read_jsonl
from demur.corpora.formats import sheet_rows
from demur.judge.annotation import task as labelling
from demur.judge.measures.agreement import Agreed, Rating, agreed
from demur.judge.measures.corrected import CLASSES, LEAST, Corrected, Population, corrected, differences
from demur.judge.measures.table import CORRECT, DEFLECTED, INCORRECT
from demur.reports.cells import SCENARIOS, Headline, headline
from demur.reports.data import HUMAN, LABELS, ReportData, Run, is_run
from demur.reports.tables import Column, Table, titled

_CODES = {"correct": CORRECT, "incorrect": INCORRECT, "deflected": DEFLECTED}


class Stale(UsageError):
    """Labels that were given beside another judge, prompt or rubric, or of other answers."""


# --- ratings from files ---------------------------------------------------------------------------


def read_ratings(paths: Sequence[Path]) -> list[Rating]:
    """Who gave which label to what.

    Args:
        paths: folders of labelling tasks; run folders (the judge's verdicts, and people's ``labels.jsonl``); ``.jsonl``
            or ``.csv`` files with ``item`` (or ``ask``, ``id``), ``label`` and, where they hold several labellers,
            ``annotator``; files of verdicts (``id``, ``outcome``, ``judge``).

    Raises:
        UsageError: nothing of that is there.
        BadInput: rows without an item, all of them told.
    """
    problems = Problems()
    found: list[Rating] = []
    several = sum((path / "verdicts.jsonl").is_file() for path in paths) > 1
    for path in paths:
        if (path / "task.json").is_file():
            found += labelling.ratings(path)
        elif (path / "verdicts.jsonl").is_file():
            mine = _of_rows(path / "verdicts.jsonl", problems)
            if (path / HUMAN).is_file():
                mine += [r._replace(rater="people") for r in _of_rows(path / HUMAN, problems)]
            # systems share the ids of asks: an answer of another run is another item
            found += [r._replace(item=f"{path.resolve()}/{r.item}") for r in mine] if several else mine
        elif path.is_file():
            found += _of_rows(path, problems)
        else:
            cure = "give a labelling folder, a run, or a .jsonl or .csv file of labels"
            raise UsageError("holds no labels", item=path, cure=cure)
    problems.settle()
    return found


def _of_rows(path: Path, problems: Problems) -> list[Rating]:
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    rows = read_jsonl(path, problems) if path.suffix == ".jsonl" else sheet_rows(path, problems)
    found: list[Rating] = []
    counted: Counter[tuple[str, str]] = Counter()
    for place, row in rows:
        item = next((str(row[k]) for k in ("item", "ask", "id") if row.get(k)), "")
        label = str(row.get("label") or row.get("outcome") or "").strip().lower().replace(" ", "_")
        rater = str(row.get("annotator") or row.get("rater") or row.get("judge") or path.stem)
        if "outcome" in row and "label" not in row:
            rater = str(row.get("judge") or path.stem)
        elif row.get("judge") and not row.get("annotator"):
            rater = path.stem  # a label that is bound to a judge is still people's
        if not item:
            problems.add(place, "no item, ask or id")
            continue
        if not label or label == labelling.CANNOT:
            continue  # ungraded, failed, blank: no label
        label = LABELS[label].value if label in LABELS else label
        counted[item, rater] += 1
        if counted[item, rater] <= 2:
            found.append(Rating(item, rater, label, again=counted[item, rater] == 2))
    return found


# --- tables of agreement --------------------------------------------------------------------------


def agreement_tables(found: Agreed) -> list[Table]:
    """Figures, base rates with self-consistency, and a confusion matrix per pair of labellers."""
    figures = tuple((name, m.value, m.low, m.high, m.n) for name, m in found.figures.items())
    columns: tuple[Column, ...] = titled(
        "<Figure", Column("Value", decimals=3), Column("from", decimals=3), Column("to", decimals=3), "n"
    )
    notes = ["Intervals: 95 %, items resampled. raw: share of equal pairs of labels."]
    if len(found.raters) > 2:
        notes.append("cohen: the plain mean over pairs of labellers.")
    if found.single:
        notes.append(f"{found.single:,} items have one label and are in no figure.")
    tables = [Table("agreement", "Agreement", columns, figures, notes=tuple(notes))]
    rates = [
        (
            rater, *(found.base_rates[rater][label] for label in found.labels),
            sum(round((m.value or 0) * m.n) for m in found.base_rates[rater].values()),
            found.consistency.get(rater), found.consistency[rater].n if rater in found.consistency else 0,
        )
        for rater in found.raters
    ]  # fmt: skip
    shares = tuple(Column(label, interval=True) for label in found.labels)
    columns = titled("<Labeller", *shares, "n", Column("Same again", interval=True), "repeats")
    tables.append(Table("base_rates", "Base rates, in per cent, and self-consistency", columns, tuple(rates)))
    for pair in found.confusion[:10]:
        rows: tuple[tuple[Any, ...], ...] = tuple(
            (label, *(int(cell) for cell in line), int(line.sum()))
            for label, line in zip(found.labels, pair.table, strict=True)
        )
        columns = titled("<", *(Column(label) for label in found.labels), "all")
        caption = f"Items by label: {pair.first} (rows) against {pair.second} (columns)"
        tables.append(Table(f"confusion-{pair.first}-{pair.second}", caption, columns, rows))
    return tables


# --- rates, corrected -----------------------------------------------------------------------------


class BoundLabel(NamedTuple):
    """A person's label of one answer, and what it holds for; "" where nothing is said."""

    label: str
    answer: str
    judge: str
    prompt: str
    rubric: str
    shipped: str = ""
    """Version of demur's own rubric, where that was shown."""


Labels = Mapping[tuple[str, str], BoundLabel]
"""(run's folder, ask) -> label; "" for a file that does not say of which run it is. Systems share the ids of asks."""


def read_labels(path: Path) -> dict[tuple[str, str], BoundLabel]:
    """Labels of a labelling task's folder, a run's folder, or a file of ``{"ask", "label"}`` lines.

    Raises:
        UsageError: no labels are there, or a labelling task has disagreements that nobody settled.
        BadInput: labels that are none, all of them.
    """
    if (path / "task.json").is_file():
        task, items = labelling.read_task(path)
        about = {item.id: item.about for item in items}
        settled = labelling.final_labels(path)
        given = labelling.rubrics(path)
        return {
            (str((path / about[item].get("run", "")).resolve()), about[item].get("ask", item)): BoundLabel(
                label, about[item].get("answer", ""), task.bound.get("judge", ""), task.bound.get("prompt_sha256", ""),
                given.get(item, ""), task.bound.get("shipped_rubric", ""),
            )
            for item, label in settled.items()
        }  # fmt: skip
    file = path / HUMAN if path.is_dir() else path
    if not file.is_file():
        raise UsageError("holds no labels", item=path, cure="label some: demur annotate RUN")
    problems = Problems()
    found: dict[tuple[str, str], BoundLabel] = {}
    of = str(file.resolve().parent) if is_run(file.resolve().parent) else ""
    for place, row in read_jsonl(file, problems):
        ask, label = str(row.get("ask", "")), str(row.get("label", "")).lower()
        if not ask or label not in LABELS:
            problems.add(f"{place} ({ask or 'no ask'})", f"label {label!r}; one of {', '.join(LABELS)}")
            continue
        texts = (str(row.get(k) or "") for k in ("answer", "judge", "prompt_sha256", "rubric", "shipped_rubric"))
        found[of, ask] = BoundLabel(LABELS[label].value, *texts)
    problems.settle()
    return found


def labels_of(run: Run, labels: Labels, *, alone: bool) -> dict[str, BoundLabel]:
    """Ask -> label, of one run.

    Args:
        alone: whether no other run is looked at, so that labels that name none must be its.

    Raises:
        UsageError: labels that name no run, and several runs.
    """
    if not alone and any(not of for of, _ in labels):
        raise UsageError(
            "labels that do not say of which run they are", item=run.name, cure="correct one run at a time"
        )
    mine = str(run.path.resolve())
    return {ask: label for (of, ask), label in labels.items() if of in ("", mine)}


def check_bound(run: Run, labels: Mapping[str, BoundLabel]) -> None:
    """See that labels hold for a run's answers and verdicts.

    Raises:
        Stale: another judge, prompt or rubric, or other answers.
    """
    mine = labels.keys() & set(run.rows.coded("ask").labels)
    used = [labels[ask] for ask in sorted(mine)]
    cure = "label a new draw: demur annotate RUN; or name the verdicts that were labelled with --verdicts"
    for what, now, then in (
        ("judge", ", ".join(run.judges), {one.judge for one in used} - {""}),
        ("judge's prompt", ", ".join(run.prompts), {one.prompt for one in used} - {""}),
        ("rubric", labelling.shipped_version(), {one.shipped for one in used} - {""}),
    ):
        if then - {now} and not any(now in one.split(", ") for one in then if now):
            raise Stale(f"stale labels: the {what} was {sorted(then)[0]!r}, now {now!r}", item=run.name, cure=cure)
    rubrics = {one.rubric for one in used} - {""}
    if len(rubrics) > 1:
        told = f"stale labels: given under {len(rubrics)} rubrics ({', '.join(sorted(rubrics))})"
        raise Stale(told, item=run.name, cure="label all of them under one rubric")
    place = run.rows.is_in("ask", mine)
    changed = [
        row.ask for row in run.rows.where(place)
        if labels[row.ask].answer and digest(row.answer, 16) != labels[row.ask].answer
    ]  # fmt: skip
    if changed:
        told = f"stale labels: {len(changed):,} answers are others than were labelled, such as {changed[0]}"
        raise Stale(told, item=run.name, cure="label the new answers")


class CorrectedCell(NamedTuple):
    """One system in one scenario; ``found`` is None where labels are too few, and ``labelled`` says how many."""

    run: str
    scenario: Scenario
    labelled: int
    answers: int
    found: Corrected | None
    items: dict[str, int]
    """Sample -> its row within the cell; for paired differences."""
    verdicts: Codes


def corrected_cells(
    data: ReportData, labels: Labels, *, population: Population = "super", head: Headline | None = None
) -> list[CorrectedCell]:
    """Every system and scenario of the headline, corrected where it has labels enough.

    Raises:
        Stale: the labels hold for something else.
    """
    head = head or headline(data.runs)
    cells = []
    for run in data.runs:
        given = labels_of(run, labels, alone=len(data.runs) == 1)
        check_bound(run, given)
        rows = head.where(run.rows)
        asks, samples, scenario = rows.coded("ask"), rows.coded("sample"), rows.coded("scenario")
        known = {ask: _CODES.get(one.label, -1) for ask, one in given.items()}
        label = np.array([known.get(ask, -1) for ask in asks.labels], dtype=np.int64)[asks.codes]
        for one in SCENARIOS:
            if one.value not in scenario.labels:
                continue
            place = scenario.codes == scenario.labels.index(one.value)
            verdict, mine = rows.result[place], label[place]
            answered = verdict <= 3
            n = int((mine[answered] >= 0).sum())
            found = None
            if n >= LEAST:
                found = corrected(verdict, mine, population=population, cluster=rows.cluster[place])
            items = {samples.labels[code]: i for i, code in enumerate(samples.codes[place])}
            cells.append(CorrectedCell(run.name, one, n, int(answered.sum()), found, items, verdict))
    return cells


def corrected_tables(cells: Sequence[CorrectedCell]) -> list[Table]:
    """The rates beside the judge's own, and the differences of systems that were asked the same."""
    rows: list[tuple[Any, ...]] = []
    rules: set[int] = set()
    names = list(CLASSES)
    for cell in cells:
        if cell.found is None:
            if cell.labelled:
                rules.add(len(rows))
                line = (cell.scenario.value, cell.run, f"too few labels ({LEAST} needed)", None, None, None)
                rows.append((*line, cell.labelled, cell.answers))
            continue
        rules.add(len(rows))
        found = cell.found
        head = (cell.scenario.value, cell.run)
        rows.append((*head, "as judged", *(found.naive[n] for n in names), None, cell.answers))
        rows.append(("", "", "corrected", *(found.rates[n] for n in names), found.labelled, found.answers))
    columns = titled(
        "<Scenario",
        "<System",
        "<Rates",
        *(Column(name.capitalize(), interval=True) for name in names),
        "labels",
        "answers",
    )
    caption = "Rates as labels correct them, in per cent"
    if not rows:
        return [
            Table("corrected", caption, columns, missing=f"{LEAST} labels of a system in a scenario: demur annotate")
        ]
    population = next((c.found.rates["accuracy"].interval for c in cells if c.found), "")
    notes = [
        "corrected: what people would have graded, from the verdicts of all answers and the labels of some; ungraded "
        f"answers are in it, those that failed are not. Intervals: {population or 'none'}."
    ]
    tables = [Table("corrected", caption, columns, tuple(rows), frozenset(rules), tuple(notes))]
    if (pairs := _differences(cells)).rows:
        tables.append(pairs)
    return tables


def _differences(cells: Sequence[CorrectedCell]) -> Table:
    rows: list[tuple[Any, ...]] = []
    by_place = {(c.run, c.scenario): c for c in cells}
    runs = list(dict.fromkeys(c.run for c in cells))
    for scenario in SCENARIOS:
        for i, one in enumerate(runs):
            for other in runs[i + 1 :]:
                first, second = by_place.get((one, scenario)), by_place.get((other, scenario))
                if first is None or second is None or first.found is None or second.found is None:
                    continue
                if sorted(first.items) != sorted(second.items) or len(first.items) != len(first.verdicts):
                    continue  # not the same questions, once each
                order = [second.items[sample] for sample in first.items]
                moved = second.found._replace(residual=second.found.residual[order])
                for d in differences(first.found, moved, (first.verdicts, second.verdicts[order])):
                    rows.append((
                        scenario.value, f"{other} - {one}", d.measure, 100 * d.naive,
                        100 * d.difference, 100 * d.low, 100 * d.high, d.pairs, d.both,
                    ))  # fmt: skip
    columns = titled(
        "<Scenario",
        "<Difference",
        "<Rate",
        Column("as judged", signed=True),
        Column("corrected", signed=True),
        Column("from", signed=True),
        Column("to", signed=True),
        "questions",
        "labelled both",
    )
    return Table("corrected_differences", "Paired differences, in points of per cent", columns, tuple(rows))


def agreement_of(files: Sequence[Path], *, seed: int = 0) -> tuple[list[Table], dict[str, Any]]:
    """How far labellers agree: tables, and the same as JSON.

    Args:
        files: as `read_ratings` takes them.
        seed: of the resamples.

    Raises:
        UsageError: nobody has labelled anything.
    """
    given = read_ratings(files)
    if not given:
        raise UsageError("holds no label yet", item=", ".join(map(str, files)), cure="label some: demur annotate RUN")
    found = agreed(given, seed=seed)
    return agreement_tables(found), {
        "agreement": {name: record(m) for name, m in found.figures.items()},
        "base_rates": {r: {k: record(m) for k, m in rates.items()} for r, rates in found.base_rates.items()},
        "consistency": {r: record(m) for r, m in found.consistency.items()},
        "confusion": [
            {"first": c.first, "second": c.second, "labels": found.labels, "table": c.table.astype(int).tolist()}
            for c in found.confusion
        ],
    }


def corrections_of(
    data: ReportData, labels: Path | None, *, finite: bool = False
) -> tuple[list[Table], dict[str, Any]]:
    """Rates as people's labels correct them: tables, and the same as JSON.

    Args:
        labels: a labelling folder, or lines of ask and label; ``labels.jsonl`` in the runs when None.
        finite: intervals for these very answers instead of for others like them.

    Raises:
        Stale: the labels were given beside another judge, prompt or rubric, or of other answers.
    """
    given = of_runs(data) if labels is None else read_labels(labels)
    check_labels(given, data)
    cells = corrected_cells(data, given, population="finite" if finite else "super")
    return corrected_tables(cells), {"corrected": [
        {
            "system": c.run, "scenario": c.scenario.value, "labels": c.labelled, "answers": c.answers,
            "rates": {k: record(m) for k, m in c.found.rates.items()} if c.found else None,
            "as_judged": {k: record(m) for k, m in c.found.naive.items()} if c.found else None,
        }
        for c in cells
    ]}  # fmt: skip


def of_runs(data: ReportData) -> dict[tuple[str, str], BoundLabel]:
    """The labels that lie in the runs' own folders; {} where there are none."""
    found: dict[tuple[str, str], BoundLabel] = {}
    for run in data.runs:
        if run.labels:
            found |= read_labels(run.path)
    return found


def record(measure: Measure) -> dict[str, Any]:
    """A measure for JSON."""
    return measure.model_dump(mode="json", exclude={"draws"})


def check_labels(labels: Labels, data: ReportData) -> None:
    """Refuse labels of which none is of these runs.

    Raises:
        DataError: so it is.
    """
    asks = {ask for run in data.runs for ask in run.rows.coded("ask").labels}
    runs = {"", *(str(run.path.resolve()) for run in data.runs)}
    if labels and not any(ask in asks and of in runs for of, ask in labels):
        raise DataError(f"none of {len(labels):,} labels is of these runs", cure="give the runs that were labelled")
