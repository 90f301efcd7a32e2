"""Agreement of labellers and judges, and rates corrected by labels: the tables of `demur agree`.

Stale labels (`demur.reports.labels`) are refused here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import DataError, UsageError
from demur.core.records import Outcome, Scenario
from demur.core.stats import Codes
from demur.core.store import Problems, read_jsonl
from demur.corpora.formats import csv_rows
from demur.judge.annotation import task as labelling
from demur.judge.bench import NOT_CORRECT
from demur.judge.measures.agreement import Agreed, Confusion, Rating, agreed
from demur.judge.measures.corrected import (
    CLASSES,
    LEAST,
    Corrected,
    Population,
    corrected,
)
from demur.judge.measures.table import FAILED, Flags
from demur.judge.measures.table import Table as Columns
from demur.reports.cells import SCENARIOS, headline
from demur.reports.data import ReportData, is_run, verdict_names, verdicts_file
from demur.reports.labels import CODES, HUMAN, LABELS, TWO_WAY, HumanLabel, check_bound, read_labels
from demur.reports.tables import Cell, Column, Table, numbers, section_starts, texts

# --- ratings from files ---------------------------------------------------------------------------


class Ratings(NamedTuple):
    """Labels and verdicts of the same items."""

    ratings: list[Rating]
    judges: frozenset[str]
    """Raters whose labels are a judge's verdicts."""


def read_ratings(paths: Sequence[Path]) -> Ratings:
    """Read labels and verdicts from files.

    Args:
        paths: folders of labelling tasks, whose items are the runs' asks where runs are among the paths; run folders
            (the judge's verdicts, those beside them by the names of their files, and people's ``labels.jsonl``); ``.jsonl`` or ``.csv`` files with ``item`` (or
            ``ask``, ``id``), ``label`` and, where they hold several labellers, ``annotator``; files of verdicts
            (``id``, ``outcome``, ``judge``).

    Raises:
        UsageError: a path holds no labels.
        BadInput: rows without an item; names all of them.
    """
    problems = Problems()
    ratings: list[Rating] = []
    judges: set[str] = set()
    run_folders = {path.resolve() for path in paths if _is_verdicts(path)}

    def id_with_run(run: Path, ask: str) -> str:
        """The id of an ask: systems share them, so the run is part of it, except of the only one."""
        return ask if run_folders == {run.resolve()} else f"{run.resolve()}/{ask}"

    for path in paths:
        if (path / "task.json").is_file():
            about = (
                {item.id: item.about for item in labelling.read_task(path)[1]}
                if run_folders
                else {}
            )
            asks = {
                item: id_with_run(path / a["run"], a["ask"])
                for item, a in about.items()
                if {"run", "ask"} <= a.keys()
            }
            ratings += [r._replace(item=asks.get(r.item, r.item)) for r in labelling.ratings(path)]
        elif _is_verdicts(path):
            ratings_of_run = _ratings_in(path / "verdicts.jsonl", problems)
            own_raters = {rating.rater for rating in ratings_of_run}
            for verdicts_name in verdict_names(path):
                judge, _, repeat = verdicts_name.partition("@")
                is_repeat = bool(repeat) or judge in own_raters  # the run's own judge, once more
                other_ratings = _ratings_in(verdicts_file(path, verdicts_name), problems)
                ratings_of_run += [r._replace(rater=judge, again=is_repeat) for r in other_ratings]
            judges |= {rating.rater for rating in ratings_of_run}
            if (path / HUMAN).is_file():
                ratings_of_run += [
                    r._replace(rater="people") for r in _ratings_in(path / HUMAN, problems)
                ]
            ratings += [r._replace(item=id_with_run(path, r.item)) for r in ratings_of_run]
        elif path.is_file():
            rows = _ratings_in(path, problems)
            ratings += rows
            judges |= _judges_in(path) & {rating.rater for rating in rows}
        else:
            cure = "give a labelling folder, a run, or a .jsonl or .csv file of labels"
            raise UsageError("has no labels", item=path, cure=cure)
    problems.settle()
    return Ratings(ratings, frozenset(judges))


def _judges_in(path: Path) -> set[str]:
    """Whose verdicts a file holds; nobody's where it holds labels."""
    if path.suffix != ".jsonl":
        return set()
    rows = (row for _, row in read_jsonl(path, Problems()))
    return {str(row["judge"]) for row in rows if row.get("judge") and "label" not in row}


def _is_verdicts(path: Path) -> bool:
    return (path / "verdicts.jsonl").is_file() and not (path / "task.json").is_file()


def _ratings_in(path: Path, problems: Problems) -> list[Rating]:
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    rows = read_jsonl(path, problems) if path.suffix == ".jsonl" else csv_rows(path, problems)
    ratings: list[Rating] = []
    times_rated: Counter[tuple[str, str]] = Counter()
    for place, row in rows:
        item = next((str(row[key]) for key in ("item", "ask", "id") if row.get(key)), "")
        label = str(row.get("label") or row.get("outcome") or "").strip().lower().replace(" ", "_")
        judge, is_label = (
            row.get("judge"),
            "label" in row or "outcome" not in row,
        )  # a bound label is still a person's
        rater = str(
            (row.get("annotator") or (not judge and row.get("rater")) if is_label else judge)
            or path.stem
        )
        if not item:
            problems.add(place, "no item, ask or id")
            continue
        if not label or label == labelling.CANNOT:
            continue  # unjudged, failed, blank: no label
        label = LABELS[label].value if label in LABELS else label
        times_rated[item, rater] += 1
        if times_rated[item, rater] <= 2:
            ratings.append(Rating(item, rater, label, again=times_rated[item, rater] == 2))
    return ratings


# --- tables of agreement --------------------------------------------------------------------------


def judges_against_people(ratings: Sequence[Rating], judges: Iterable[str], seed: int) -> Table:
    """How far each judge agrees with each person, on the items that both labelled; no rows without both."""
    ratings_of = defaultdict(list)
    for rating in ratings:
        ratings_of[rating.rater].append(rating)
    rows = []
    for judge in sorted(judges):
        for person in sorted(ratings_of.keys() - set(judges)):
            figures = agreed([*ratings_of[judge], *ratings_of[person]], seed=seed).figures
            raw, cohen = figures["raw"], figures["cohen"]
            if raw.n:
                rows.append((judge, person, raw, cohen.value, cohen.low, cohen.high, raw.n))
    columns = (
        *texts("Judge", "Person"),
        Column("Agreement", interval=True),
        *numbers("Cohen", "From", "To", decimals=3),
        *numbers("n"),
    )
    return Table("judges_people", "Each judge against each person", columns, tuple(rows))


def agreement_tables(agreement: Agreed, *, judged: bool = False) -> list[Table]:
    """Agreement measures, base rates with self-consistency, and a confusion matrix per pair of labellers.

    Args:
        judged: a run's judge is among the labellers.
    """
    return [
        _figures_table(agreement, judged),
        _base_rates_table(agreement),
        *(_confusion_table(agreement, pair) for pair in agreement.confusion[:MOST_PAIRS]),
    ]


MOST_PAIRS = 10
"""Pairs of labellers whose confusion is printed."""


def _figures_table(agreement: Agreed, judged: bool) -> Table:
    figures = agreement.figures
    rows = tuple((name, m.value, m.low, m.high, m.n) for name, m in figures.items())
    columns = (*texts("Measure"), *numbers("Value", "From", "To", decimals=3), *numbers("n"))
    notes = ["Intervals: 95 %, bootstrap over items. raw: share of equal pairs of labels."]
    if any(
        m.value is not None and not m.interval.startswith("bootstrap") for m in figures.values()
    ):
        notes.append("Where all resamples are equal: Wilson's interval of raw, none of the others.")
    if len(agreement.raters) > 2:
        notes.append("cohen: the unweighted mean over pairs of labellers.")
    if judged:
        notes.append(
            "Of the labelled items as they were drawn: drawn evenly over verdicts, they are not like the whole run "
            "(demur annotate take weights them)."
        )
    if agreement.single:
        notes.append(f"Not counted: {agreement.single:,} items with only one label.")
    return Table("agreement", "Agreement", columns, rows, notes=tuple(notes))


def _base_rates_table(agreement: Agreed) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for rater in agreement.raters:
        rates, consistency = agreement.base_rates[rater], agreement.consistency.get(rater)
        n = sum(round((rate.value or 0) * rate.n) for rate in rates.values())
        shares = (rates[label] for label in agreement.labels)
        rows.append((rater, *shares, n, consistency, consistency.n if consistency else 0))
    columns = (
        *texts("Labeller"),
        *numbers(*agreement.labels, interval=True),
        *numbers("n"),
        *numbers("Self-consistency", interval=True),
        *numbers("repeats"),
    )
    caption = "Base rates, in per cent, and self-consistency"
    return Table("base_rates", caption, columns, tuple(rows))


def _confusion_table(agreement: Agreed, pair: Confusion) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for label, line in zip(agreement.labels, pair.table, strict=True):
        rows.append((label, *(int(cell) for cell in line), int(line.sum())))
    columns = (*texts(""), *numbers(*agreement.labels, "all"))
    caption = f"Items by label: {pair.first} (rows) against {pair.second} (columns)"
    return Table(f"confusion-{pair.first}-{pair.second}", caption, columns, tuple(rows))


# --- rates, corrected -----------------------------------------------------------------------------


Labels = Mapping[tuple[str, str], HumanLabel]
"""(run folder, ask) -> label; "" for a file that names no run. Systems share the ids of asks."""


def labels_from(path: Path) -> Labels:
    """Labels of a labelling task's folder, a run's folder, or a file of ``{"ask", "label"}`` lines.

    ``not_correct`` is a label too: with it only accuracy can be corrected.

    Raises:
        UsageError: no labels, or a labelling task with unresolved disagreements.
        BadInput: invalid labels; names all of them.
    """
    if (path / "task.json").is_file():
        task, items = labelling.read_task(path)
        about = {item.id: item.about for item in items}
        settled = labelling.final_labels(path)
        rubric_of = labelling.rubrics(path)
        return {
            (
                str((path / about[item].get("run", "")).resolve()),
                about[item].get("ask", item),
            ): HumanLabel(
                TWO_WAY[label],
                label == NOT_CORRECT,
                about[item].get("answer", ""),
                task.bound.get("judge", ""),
                task.bound.get("prompt_sha256", ""),
                rubric_of.get(item, ""),
                task.bound.get("shipped_rubric", ""),
                task.bound.get("judge_code", ""),
            )
            for item, label in settled.items()
            if label in TWO_WAY
        }
    file = path / HUMAN if path.is_dir() else path
    if not file.is_file():
        raise UsageError("has no labels", item=path, cure="label some: demur annotate RUN")
    problems = Problems()
    run_folder = str(file.resolve().parent) if is_run(file.resolve().parent) else ""
    labels = {
        (run_folder, ask): label for ask, label in read_labels(file, problems, two_way=True).items()
    }
    problems.settle()
    return labels


class CorrectedCell(NamedTuple):
    """One system in one scenario; ``estimate`` is None where labels do not suffice, and ``missing`` says why."""

    run: str
    scenario: Scenario
    labelled: int
    answers: int
    estimate: Corrected | None
    missing: str


def corrected_cells(
    data: ReportData,
    labels: Labels,
    *,
    population: Population = "super",
) -> list[CorrectedCell]:
    """Every system and scenario of the headline, corrected where it has enough labels.

    Raises:
        Stale: the labels are stale.
        UsageError: labels that name no run, and several runs.
    """
    if len(data.runs) > 1 and any(not folder for folder, _ in labels):
        raise UsageError(
            "the labels name no run", item=data.runs[0].name, cure="correct one run at a time"
        )
    head = headline(data.runs)
    cells = []
    for run in data.runs:
        folders = ("", str(run.path.resolve()))
        labels_of_run = {ask: label for (folder, ask), label in labels.items() if folder in folders}
        check_bound(run, labels_of_run)
        rows = head.where(run.rows)
        asks = rows.coded("ask")
        code_of_ask = {ask: CODES[label.label] for ask, label in labels_of_run.items()}
        codes = np.array([code_of_ask.get(ask, -1) for ask in asks.labels], dtype=np.int64)
        two_way = any(label.two_way for label in labels_of_run.values())
        for scenario in SCENARIOS:
            place = rows.is_in("scenario", [scenario.value])
            if place.any():
                cell = _corrected_cell(rows, place, codes[asks.codes], population)
                cells.append(CorrectedCell(run.name, scenario, *cell))
                if two_way:
                    cells[-1] = _accuracy_alone(cells[-1])
    return cells


def _corrected_cell(
    rows: Columns, place: Flags, codes: Codes, population: Population
) -> tuple[int, int, Corrected | None, str]:
    """Labels, answers, the estimate and what it lacks, of some rows; ``codes`` are people's, -1 without a label."""
    verdicts, labels = rows.result[place], codes[place]
    answered = verdicts != FAILED
    labelled, answers = int((labels[answered] >= 0).sum()), int(answered.sum())
    if labelled < LEAST:
        return labelled, answers, None, f"too few labels ({LEAST} needed)"
    try:
        estimate = corrected(verdicts, labels, population=population, cluster=rows.cluster[place])
    except DataError as error:  # no label on the answers of one verdict
        return labelled, answers, None, error.message
    return labelled, answers, estimate, ""


def _accuracy_alone(cell: CorrectedCell) -> CorrectedCell:
    """The cell of labels that do not tell wrong from declined."""
    if cell.estimate is None:
        return cell
    rates = {"accuracy": cell.estimate.rates["accuracy"]}
    return cell._replace(estimate=cell.estimate._replace(rates=rates))


def corrected_table(cells: Sequence[CorrectedCell]) -> Table:
    """The corrected rates beside the judge's own; `demur compare` has those of two systems side by side."""
    columns = (
        *texts("Scenario", "System", "Rates"),
        *(Column(name.capitalize(), interval=True) for name in CLASSES),
        *numbers("labels", "graded", "answers"),
    )
    caption = "Rates corrected by labels, in per cent"
    rows = [row for cell in cells for row in _corrected_rows(cell)]
    missing = "" if rows else f"{LEAST} labels of a system in a scenario: demur annotate"
    rules = section_starts(rows, 2)
    notes = _notes_on_corrections(cells) if rows else ()
    return Table("corrected", caption, columns, tuple(rows), rules, tuple(notes), missing)


def _corrected_rows(cell: CorrectedCell) -> list[tuple[Cell, ...]]:
    """A cell as judged and as corrected; where it has too few labels, what is missing; nothing without labels."""
    names, place, estimate = list(CLASSES), (cell.scenario.value, cell.run), cell.estimate
    if estimate is None:
        dashes = (None,) * len(names)
        missing = (*place, cell.missing, *dashes, cell.labelled, None, cell.answers)
        return [missing] if cell.labelled else []
    judged = (estimate.naive[name] for name in names)
    corrected_rates = (estimate.rates.get(name) for name in names)
    graded = estimate.naive["accuracy"].n
    return [
        (*place, "as judged", *judged, None, graded, cell.answers),
        (*place, "corrected", *corrected_rates, estimate.labelled, None, estimate.answers),
    ]


def _notes_on_corrections(cells: Sequence[CorrectedCell]) -> Iterator[str]:
    estimates = [cell.estimate for cell in cells if cell.estimate]
    population = next((estimate.rates["accuracy"].interval for estimate in estimates), "none")
    yield (
        "Corrected: an estimate of people's grades, from the verdicts of all answers and the labels of some; it "
        f"includes unjudged answers, but not failed ones. Intervals: {population}. As judged: of the graded answers "
        "alone."
    )
    if any(c.missing and c.labelled >= LEAST for c in cells):
        yield "Labels of other verdicts tell nothing of those without: demur annotate RUN draws unjudged answers too."
    if blind := [
        f"{c.scenario.value}, {c.run}: {100 * c.estimate.blind:.1f} %"
        for c in cells
        if c.estimate and c.estimate.blind
    ]:
        yield (
            "No label has the verdict of some answers, which may be anything; the intervals are wider by their share "
            f"({'; '.join(blind)})."
        )
    if any(len(estimate.rates) < len(CLASSES) for estimate in estimates):
        yield "Labels that say only correct or not correct do not tell wrong from declined: accuracy alone."


def agreement_of(files: Sequence[Path], *, seed: int = 0) -> list[Table]:
    """Agreement of labellers; of two labels where somebody says ``not_correct``.

    Args:
        files: as `read_ratings` takes them.
        seed: seed of the bootstrap.

    Raises:
        UsageError: there are no labels.
        DataError: labels of several paths, of which no two share an item.
    """
    ratings, judges = read_ratings(files)
    if not ratings:
        raise UsageError(
            "has no labels yet",
            item=", ".join(map(str, files)),
            cure="label some: demur annotate RUN",
        )
    if any(
        r.label == NOT_CORRECT for r in ratings
    ):  # somebody did not tell wrong from declined: nobody's is told apart
        either = (Outcome.INCORRECT.value, Outcome.DEFLECTED.value)
        ratings = [r._replace(label=NOT_CORRECT) if r.label in either else r for r in ratings]
    agreement = agreed(ratings, seed=seed)
    if len(files) > 1 and len(agreement.raters) > 1 and not agreement.figures["raw"].n:
        disjoint = f"no item has labels of two of {', '.join(agreement.raters)}: the paths share no ids, such as {ratings[0].item!r}"
        cure = "give labels of the same items: a labelling folder with its own runs, or files with the ids of the asks"
        raise DataError(f"{disjoint} and {ratings[-1].item!r}", cure=cure)
    judge_table = judges_against_people(ratings, judges, seed)
    judged = any(_is_verdicts(path) for path in files)
    return [
        *([judge_table] if judge_table.rows else []),
        *agreement_tables(agreement, judged=judged),
    ]


def corrections_of(data: ReportData, labels: Path | None, *, finite: bool = False) -> Table:
    """Rates corrected by people's labels, beside the judge's own.

    Args:
        labels: a labelling folder, or lines of ask and label; ``labels.jsonl`` in the runs when None.
        finite: intervals for these answers only, not for similar ones.

    Raises:
        Stale: the labels are for another judge, prompt or rubric, or for other answers.
        DataError: none of them belongs to these runs.
    """
    human_labels = labels_of_runs(data) if labels is None else labels_from(labels)
    asks = {
        (folder, ask)
        for run in data.runs
        for ask in run.rows.coded("ask").labels
        for folder in ("", str(run.path.resolve()))
    }
    if human_labels and not asks & human_labels.keys():
        raise DataError(
            f"none of {len(human_labels):,} labels belongs to these runs",
            cure="give the labelled runs",
        )
    population: Population = "finite" if finite else "super"
    return corrected_table(corrected_cells(data, human_labels, population=population))


def labels_of_runs(data: ReportData) -> Labels:
    """The labels in the runs' own folders; {} without any."""
    return {
        (str(run.path.resolve()), ask): label
        for run in data.runs
        for ask, label in run.labels.items()
    }
