"""Give responses to people to label, and read their labels back (VLM-DeflectionBench, appendix E).

In the paper a person labelled 100 responses per model, equally many of each scenario, for a comparison with the judge
(`Table 7`). The responses are a task (`demur.judge.annotation`), labelled on its page or in a spreadsheet. Both are
blind: they show neither the system nor the scenario nor the judge's verdict, and the items are shuffled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DataError, UsageError
from demur.core.records import Measure, Outcome, Row, Sample, Status
from demur.core.store import (
    Problems,
    canonical,
    digest,
    read_jsonl,
    read_text,
    seed_of,
    write_atomic,
)
from demur.judge.annotation import task as labelling
from demur.judge.annotation.exchange import export_labels
from demur.judge.measures.corrected import LEAST
from demur.reports.cells import headline
from demur.reports.data import ReportData, Run, find_runs, load
from demur.reports.labels import HUMAN, LABELS
from demur.reports.paper_tables import table7
from demur.reports.tables import Table

SHEET = "sheet.csv"
"""File in a task folder: its items for a spreadsheet."""


class Item(NamedTuple):
    """One response to label."""

    id: str
    """Opaque, so that it does not reveal the system."""
    run: Run
    row: Row


class OpenedTask(NamedTuple):
    """A task that can be labelled."""

    folder: Path
    of_runs: bool
    """Whether `take` can write its labels into runs."""
    too_few: list[str]
    """Notes on draws that are too small for `demur judge correct`."""

    @property
    def about(self) -> str:
        """One line on where it stands."""
        return labelling.about_folder(self.folder)

    @property
    def disagreements(self) -> list[str]:
        """Items that annotators labelled differently."""
        return labelling.disagreements(self.folder)


class LabelsTaken(NamedTuple):
    """The result of reading labels back."""

    labels: dict[str, int]
    """Run folder -> labels written to its ``labels.jsonl``."""
    blank: int
    """Items that nobody has labelled yet."""
    data: ReportData
    """The runs with their labels."""
    cannot: int = 0
    """Items that people could not tell; no figure counts them."""
    withdrawn: int = 0
    """Labels that were taken from here before, are no longer given, and left the runs."""
    looked: int = 0
    """Labels that somebody gave after a look at what is right."""

    @property
    def agreement(self) -> Table:
        """Of the judge with the labels, by system."""
        return table7(self.data)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        rows = [
            {"system": name, "agreement": share.value, "kappa": kappa, "n": share.n}
            for name, share, kappa, _ in self.agreement.rows
            if isinstance(share, Measure)
        ]
        counts = {name: getattr(self, name) for name in ("labels", "blank", "withdrawn", "looked")}
        return counts | {"cannot_tell": self.cannot, "agreement": rows}


ANSWER_LABELS = tuple(
    labelling.Label(name=outcome.value, text=outcome.value) for outcome in Outcome
)


def draw_balanced(data: ReportData, n: int = 100, *, seed: int = 0) -> list[Item]:
    """Draw responses of every run, equally many of each scenario and, within it, of each outcome, unjudged included.

    For correcting a judge: within one scenario and outcome all responses are equally likely, and rare outcomes get
    enough labels to estimate the judge's errors there (`demur.judge.measures.corrected`). A group that has too few
    gives all it has, and the others of its scenario make up for it.

    Args:
        n: responses per run.

    Raises:
        UsageError: ``n`` is not positive, or a run has nothing to label.
    """
    items: list[Item] = []
    for run, rows, share in _rows_to_draw(data, n):
        drawn: defaultdict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: (seed_of(seed, "label", run.name, r.ask), r.ask)):
            drawn[row.outcome.value if row.outcome else "unjudged"].append(row)
        in_turn = [
            row
            for rows in zip_longest(*(drawn[o] for o in sorted(drawn)))
            for row in rows
            if row is not None
        ]
        items += [Item(digest([seed, run.name, row.ask], 12), run, row) for row in in_turn[:share]]
    return items


def _rows_to_draw(data: ReportData, n: int) -> Iterator[tuple[Run, list[Row], int]]:
    """Per run and scenario: the responses to headline questions that a person can label, and how many of them to draw.

    One response per question; ``n`` per run.
    """
    if n < 1:
        raise UsageError(f"{n} responses", cure="give a positive number")
    head = headline(data.runs)
    for run in data.runs:
        rows_of_scenario: defaultdict[str, list[Row]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        for row in head.where(run.rows):
            place = (row.scenario.value, row.context)
            if place not in seen and row.status is not Status.FAILED:
                seen.add(place)
                rows_of_scenario[row.scenario.value].append(row)
        if not rows_of_scenario:
            raise UsageError("no answer to label", item=run.path, cure="name a finished run")
        for number, scenario in enumerate(sorted(rows_of_scenario)):
            yield (
                run,
                rows_of_scenario[scenario],
                n // len(rows_of_scenario) + (number < n % len(rows_of_scenario)),
            )


def open_task(
    folder: Path,
    runs: Sequence[Path] = (),
    *,
    items: Path | None = None,
    labels: str = "yes,no",
    rubric: Path | None = None,
    n: int = 100,
    seed: int = 0,
    repeats: float = 0.05,
    release: Path | None = None,
) -> OpenedTask:
    """Make a labelling task from runs or from given items; without either, continue an existing task.

    Args:
        folder: task folder.
        runs: run folders, from each of which ``n`` responses are drawn.
        items: file of items to label instead.
        labels: labels for ``items``, separated by commas.
        rubric: text file shown beside the items; the shipped one when None.
        n: responses per system.
        seed: seed of the draw and the order.
        repeats: share of hidden repeats.
        release: release of the runs; the one beside the first when None.

    Raises:
        UsageError: both runs and items, fewer than two labels, or nothing to label.
    """
    text = read_text(rubric) if rubric else ""
    if items:
        if runs:
            raise UsageError("both runs and --items given", cure="give one of them")
        allowed_labels = tuple(
            labelling.Label(name=name.strip()) for name in labels.split(",") if name.strip()
        )
        if not 2 <= len({label.name for label in allowed_labels}) == len(allowed_labels) <= 9:
            raise UsageError(
                f"--labels {labels!r}", cure="give two to nine different ones: --labels yes,no"
            )
        given_items = labelling.read_items(items)
        keys = tuple(sorted({key for item in given_items for key in item.about}))
        task = labelling.Task(
            name=items.stem,
            labels=allowed_labels,
            rubric=text,
            balance=keys,
            repeats=repeats,
            seed=seed,
        )
        labelling.write_task(folder, task, given_items)
    elif runs:
        data = load(runs, release, needs_release=True)
        make_task(
            data, draw_balanced(data, n, seed=seed), folder, seed=seed, rubric=text, repeats=repeats
        )
    elif not (folder / "task.json").is_file():
        raise UsageError(
            "nothing to label", cure="name a run: demur annotate RUN; or a task folder with --out"
        )
    _, items_of_task = labelling.read_task(folder)
    return OpenedTask(folder, _are_responses(items_of_task), _notes_on_small_draws(items_of_task))


def make_task(
    data: ReportData,
    items: Sequence[Item],
    folder: Path,
    *,
    seed: int = 0,
    rubric: str = "",
    repeats: float = 0.05,
) -> None:
    """Make a labelling task of responses, which `demur annotate` serves; an existing one continues.

    Args:
        data: the runs.
        items: responses, from `draw_balanced`.
        rubric: plain text; the shipped one when empty.
        repeats: share of hidden repeats.

    Raises:
        UsageError: the folder holds another task.
        DataError: a question is not in the release.
    """
    judges = sorted({judge for item in items for judge in item.run.judges})
    prompts = sorted({prompt for item in items for prompt in item.run.prompts})
    codes = sorted({item.run.judge_code for item in items} - {""})
    task = labelling.Task(
        name="demur annotate: answers",
        labels=ANSWER_LABELS,
        rubric=rubric or labelling.default_rubric(),
        balance=("scenario", "system", "outcome"),
        repeats=repeats,
        seed=seed,
        bound={
            "judge": ", ".join(judges),
            "judge_code": ", ".join(codes),
            "prompt_sha256": ", ".join(prompts),
        }
        | ({} if rubric else {"shipped_rubric": labelling.shipped_version()}),
    )
    labelling.write_task(folder, task, [_labelled_item(data, item, folder) for item in items])


def _notes_on_small_draws(items: Iterable[labelling.Item]) -> list[str]:
    """What to say of a draw that is too small for `demur judge correct`, per system; nothing where it is not."""
    drawn: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        if {"run", "system", "scenario"} <= item.about.keys():
            drawn[item.about["system"]][item.about["scenario"]] += 1
    notes = []
    for system, counts in sorted(drawn.items()):
        if too_few := ", ".join(
            f"{n} {scenario}" for scenario, n in sorted(counts.items()) if n < LEAST
        ):
            notes.append(
                f"note: {too_few} of {system}: 'demur judge correct' needs {LEAST} labels in a scenario; "
                f"where the run has as many answers, draw again with -n {LEAST * len(counts)} and another --out"
            )
    return notes


def _labelled_item(data: ReportData, item: Item, folder: Path) -> labelling.Item:
    row, run = item.row, item.run
    sample = data.samples.get(row.sample)
    if sample is None:
        raise DataError(
            "not in the release", item=row.sample, cure="give the release of the run with --release"
        )
    question = sample.question_with_turns
    if sample.answers.choices:
        question += " " + "; ".join(f"({label}) {text}" for label, text in sample.answers.choices)
    result = row.outcome.value if row.outcome else row.status.value
    judge = ", ".join(run.judges), run.judge_code, ", ".join(run.prompts)
    return labelling.Item(
        id=item.id,
        shown=(
            ("Question", question),
            ("Answer", row.answer),
            ("Accepted", _accepted_text(sample)),
        ),
        images=tuple(_write_images(data, sample, folder / "images")),
        hidden=(
            ("The judge", f"{result} ({row.reason})"),
            ("System and scenario", f"{run.name}, {row.scenario.value}"),
        ),
        about={
            "scenario": row.scenario.value,
            "system": run.name,
            "outcome": result,
            "run": _relative_path(folder.resolve(), run.path),
            "ask": row.ask,
            "answer": digest(row.answer, 16),
        }
        | dict(zip(labelling.BOUND, judge, strict=True)),
    )


def write_sheet(folder: Path) -> Path:
    """Write the items of a task as a spreadsheet into its folder.

    Raises:
        UsageError: the sheet exists already, and may hold labels.
    """
    sheet = folder / SHEET
    if sheet.exists():
        raise UsageError(
            "exists already, and may hold labels", item=sheet, cure="choose another --out"
        )
    export_labels(folder, "csv", sheet)
    return sheet


def draw_sheet(
    runs: Sequence[Path],
    folder: Path,
    *,
    n: int = 100,
    seed: int = 0,
    release: Path | None = None,
) -> tuple[Path, list[str]]:
    """Open a task (`open_task`) and write its sheet; returns the sheet, and what is too little for a balanced draw."""
    opened = open_task(folder, runs, n=n, seed=seed, release=release)
    return write_sheet(folder), opened.too_few


def take(folder: Path) -> LabelsTaken:
    """Write the annotators' final labels into each run's ``labels.jsonl``; labels that they took back leave it.

    Labels of other tasks stay unless given again.

    Raises:
        UsageError: the folder holds no task of responses, or unresolved disagreements.
        BadInput: responses that changed since they were labelled; names all of them.
    """
    task, items = labelling.read_task(folder)
    if not _are_responses(items):
        raise UsageError(
            "its items are not responses of runs", item=folder, cure="use: demur annotate export"
        )
    labels: dict[str, Outcome | None] = {
        item: LABELS[label]
        for item, label in labelling.final_labels(folder).items()
        if label in LABELS
    }
    everybody = labelling.read_all_labels(folder).values()
    revealed = sum(
        any(item in by_person and by_person[item].revealed for by_person in everybody)
        for item in labels
    )
    labels |= dict.fromkeys(labelling.settle_labels(folder).cannot)
    of_run: defaultdict[Path, list[labelling.Item]] = defaultdict(list)
    for item in items:
        of_run[(folder / item.about["run"]).resolve()].append(item)
    data = load(find_runs(sorted(of_run)), None)
    runs = {run.path.resolve(): run for run in data.runs}
    problems = Problems()
    for path, items_of_run in of_run.items():
        _check_answers(runs[path], items_of_run, labels, problems)
    problems.settle()
    rubrics = labelling.rubrics(folder)  # not the task's own, which may have been edited since
    written: dict[str, int] = {}
    withdrawn = 0
    for path, items_of_run in sorted(of_run.items()):
        lines = {
            item.about["ask"]: _label_line(task, item, rubrics, label, _relative_path(path, folder))
            for item in items_of_run
            if (label := labels.get(item.id)) is not None
        }
        cannot = {item.about["ask"] for item in items_of_run if item.id in labels} - lines.keys()
        withdrawn += _file_labels(path, lines, cannot, _relative_path(path, folder))
        if lines:
            written[str(path)] = len(lines)
    return LabelsTaken(
        written,
        len(items) - len(labels),
        load([run.path for run in data.runs], None),
        sum(label is None for label in labels.values()),
        withdrawn,
        revealed,
    )


def _check_answers(
    run: Run,
    items: Sequence[labelling.Item],
    labels: Mapping[str, Outcome | None],
    problems: Problems,
) -> None:
    """Note the labelled responses that changed in the run since they were drawn."""
    asks = [item.about["ask"] for item in items]
    answers = {row.ask: row.answer for row in run.rows.where(run.rows.is_in("ask", asks))}
    for item in items:
        ask = item.about["ask"]
        changed = ask not in answers or digest(answers[ask], 16) != item.about["answer"]
        if changed and labels.get(item.id) is not None:
            problems.add(
                f"{item.about['run']} ({item.id})", "the run's answer changed since it was drawn"
            )


def _label_line(
    task: labelling.Task,
    item: labelling.Item,
    rubrics: Mapping[str, str],
    label: Outcome,
    source: str,
) -> dict[str, str]:
    """A line of ``labels.jsonl``: the label, its task, and what it holds for."""
    bound = {key: item.about.get(key, "") for key in labelling.BOUND}
    bound["shipped_rubric"] = task.bound.get("shipped_rubric", "")
    bound["rubric"] = rubrics.get(item.id, "")
    line = {"ask": item.about["ask"], "label": label.value, "answer": item.about["answer"]}
    return line | {"from": source} | {key: value for key, value in bound.items() if value}


def _file_labels(
    run: Path, lines: Mapping[str, Mapping[str, str]], cannot: Collection[str], source: str
) -> int:
    """Write labels of one task into a run; returns how many of its earlier ones leave it.

    Args:
        lines: ask -> its label.
        cannot: asks of which people could not tell.
        source: the task, as its lines name it.
    """
    file = run / HUMAN
    before = read_jsonl(file, Problems()) if file.is_file() else ()
    earlier = {str(line["ask"]): line for _, line in before}
    others = {
        ask: line
        for ask, line in earlier.items()
        if line.get("from") != source and ask not in cannot
    }
    labels = {**others, **lines}
    if labels or earlier:
        write_atomic(file, "".join(canonical(labels[ask]) + "\n" for ask in sorted(labels)))
    return len(earlier.keys() - labels.keys())


def _are_responses(items: Iterable[labelling.Item]) -> bool:
    """Whether items are responses of runs, whose labels `take` can write there."""
    return all({"run", "ask", "answer"} <= item.about.keys() for item in items)


def _accepted_text(sample: Sample) -> str:
    spec = sample.answers
    forms = [" + ".join(parts) for parts in spec.accepted]
    if spec.number is not None:
        low, high = spec.number
        forms.append(f"{low:g}" if low == high else f"{low:g} to {high:g}")
    return " | ".join(dict.fromkeys([spec.display_form, *forms])) + (
        f" [{spec.unit}]" if spec.unit else ""
    )


def _write_images(data: ReportData, sample: Sample, folder: Path) -> Iterator[str]:
    """The names of a question's images, written into a folder."""
    if data.release is None:
        return
    for ref in sample.images:
        suffix = ref.media_type.partition("/")[2].replace("jpeg", "jpg")
        path = folder / f"{ref.sha256[:16]}.{suffix}"
        if not path.exists():
            write_atomic(path, data.release.read_image(ref))
        yield path.name


def _relative_path(folder: Path, path: Path) -> str:
    import os

    return os.path.relpath(path.resolve(), folder)
