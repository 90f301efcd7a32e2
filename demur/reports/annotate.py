"""Give responses to people to label, and read their labels back (VLM-DeflectionBench, appendix E).

In the paper a person labelled 100 responses per model, equally many of each scenario, for a comparison with the judge
(`Table 7`). The sheet is blind: it names neither the system nor the scenario nor the judge's verdict, and the systems
are shuffled. A key beside the sheet identifies the items when the labels come back.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DataError, UsageError
from demur.core.records import Measure, Outcome, Record, Row, Sample, Status
from demur.core.store import (
    Problems,
    canonical,
    digest,
    read_jsonl,
    read_records,
    read_text,
    seed_of,
    write_atomic,
    write_records,
)
from demur.corpora.formats import csv_rows
from demur.judge.annotation import task as labelling
from demur.judge.measures.corrected import LEAST
from demur.reports.cells import headline
from demur.reports.data import ReportData, Run, find_runs, load
from demur.reports.labels import HUMAN, LABELS
from demur.reports.paper_tables import table7
from demur.reports.tables import Table, harmless_field

COLUMNS = ("item", "question", "images", "accepted", "response", "label", "note")
"""Columns of a sheet; a person fills in ``label`` and, optionally, ``note``."""


class Item(NamedTuple):
    """One response to label."""

    id: str
    """Opaque, so that it does not reveal the system."""
    run: Run
    row: Row


class KeyLine(Record):
    """One line of a sheet's key."""

    item: str
    run: str
    """The run's folder, relative to the folder of the key."""
    ask: str
    answer: str
    """First 16 digits of the SHA-256 of the labelled response."""
    judge: str = ""
    """Of the run's verdicts when the response was drawn, like the next two."""
    judge_code: str = ""
    prompt_sha256: str = ""
    shipped_rubric: str = ""
    rubric: str = ""
    """Versions of demur's own rubric, and of that with the labels: a sheet shows no other."""

    @property
    def bound(self) -> dict[str, str]:
        """What a label of it holds for."""
        stated = self.model_dump(include={*labelling.BOUND, "shipped_rubric", "rubric"})
        return {key: value for key, value in stated.items() if value}


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


class DrawnSheet(NamedTuple):
    """A sheet to label."""

    key: Path
    """Identifies its items; stays hidden from the annotators."""
    counts: dict[str, dict[str, int]]
    """System -> scenario -> items."""


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
        items += [_drawn_item(run, row, seed) for row in in_turn[:share]]
    return items


def draw_items(data: ReportData, n: int = 100, *, seed: int = 0) -> list[Item]:
    """Draw responses of every run at random, equally many of each scenario, whatever the judge says, and shuffle them.

    Appendix E of VLM-DeflectionBench draws so: 100 a model, 25 of each of its four scenarios. Takes the headline prompt
    and contexts, and the same questions of every system where they have them. A scenario that has too few gives all it
    has, and no other makes up for it.

    Args:
        data: the runs.
        n: responses per run; 100 in the paper.
        seed: seed of the draw and of the order.

    Raises:
        UsageError: ``n`` is not positive, or a run has nothing to label.
    """
    items: list[Item] = []
    for run, rows, share in _rows_to_draw(data, n):
        drawn = sorted(
            rows, key=lambda r: (seed_of(seed, "annotate", r.sample, r.scenario.value), r.ask)
        )
        items += [_drawn_item(run, row, seed) for row in drawn[:share]]
    return sorted(items, key=lambda item: (seed_of(seed, "order", item.id), item.id))


def _drawn_item(run: Run, row: Row, seed: int) -> Item:
    return Item(digest([seed, run.name, row.ask], 12), run, row)


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
        items: responses, from `draw_balanced` or `draw_items`.
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


def _judge_provenance(run: Run) -> dict[str, str]:
    """The judge of a run's verdicts, with the keys `demur.judge.annotation.task.BOUND`."""
    return dict(
        zip(
            labelling.BOUND,
            (", ".join(run.judges), run.judge_code, ", ".join(run.prompts)),
            strict=True,
        )
    )


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
    _, question, images, accepted, response, *_ = _sheet_cells(
        data, item, folder / "images", plain_folder=True
    )
    row = item.row
    result = row.outcome.value if row.outcome else row.status.value
    hidden = (("Accepted", accepted), ("The judge", f"{result} ({row.reason})"))
    system = (("System and scenario", f"{item.run.name}, {row.scenario.value}"),)
    return labelling.Item(
        id=item.id,
        shown=(("Question", question), ("Answer", response)),
        images=tuple(filter(None, images.split("; "))),
        hidden=hidden + system,
        about={
            "scenario": row.scenario.value,
            "system": item.run.name,
            "outcome": result,
            "run": _relative_path(folder.resolve(), item.run.path),
            "ask": row.ask,
            "answer": digest(row.answer, 16),
        }
        | _judge_provenance(item.run),
    )


def take(path: Path) -> LabelsTaken:
    """Labels of a task's folder (`take_task`) or of a sheet (`take_labels`)."""
    return take_task(path) if path.is_dir() else take_labels(path)


def take_task(folder: Path) -> LabelsTaken:
    """Write the annotators' final labels into each run's ``labels.jsonl``; labels that they took back leave it.

    Raises:
        UsageError: the folder holds no task of responses, or unresolved disagreements.
        BadInput: responses that changed since they were labelled; names all of them.
    """
    task, items = labelling.read_task(folder)
    if not _are_responses(items):
        raise UsageError(
            "its items are not responses of runs", item=folder, cure="use: demur annotate export"
        )
    rubric_of_item = labelling.rubrics(
        folder
    )  # not the task's own, which may have been edited since
    line_of_item = {}
    for item in items:
        provenance = {key: item.about.get(key, "") for key in labelling.BOUND}
        line_of_item[item.id] = KeyLine(
            item=item.id,
            run=item.about["run"],
            ask=item.about["ask"],
            answer=item.about["answer"],
            **provenance,
            shipped_rubric=task.bound.get("shipped_rubric", ""),
            rubric=rubric_of_item.get(item.id, ""),
        )
    label_of_item: dict[str, Outcome | None] = {
        item: LABELS[label]
        for item, label in labelling.final_labels(folder).items()
        if label in LABELS
    }
    everybody = labelling.read_all_labels(folder).values()
    revealed = sum(
        any(
            item in labels_by_person and labels_by_person[item].revealed
            for labels_by_person in everybody
        )
        for item in label_of_item
    )
    label_of_item |= dict.fromkeys(labelling.settle_labels(folder).cannot)
    return _write_labels(folder, line_of_item, label_of_item, Problems())._replace(looked=revealed)


def _are_responses(items: Iterable[labelling.Item]) -> bool:
    """Whether items are responses of runs, whose labels `take_task` can write there."""
    return all({"run", "ask", "answer"} <= item.about.keys() for item in items)


def count_by_system(items: Sequence[Item]) -> dict[str, dict[str, int]]:
    """System -> scenario -> items."""
    count_of_scenario: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        count_of_scenario[item.run.name][item.row.scenario.value] += 1
    return {
        name: dict(sorted(counts.items())) for name, counts in sorted(count_of_scenario.items())
    }


def draw_sheet(
    runs: Sequence[Path],
    out: Path,
    *,
    n: int = 100,
    seed: int = 0,
    release: Path | None = None,
) -> DrawnSheet:
    """Write a blind sheet of random responses (`draw_items`, `write_sheet`).

    Args:
        runs: run folders, or folders that hold runs.
        out: the sheet, .csv or .jsonl; key and images go beside it.
        n: responses per system.
        seed: of the draw and the order.
        release: of the runs; None for the one beside the first.

    Raises:
        UsageError: the sheet exists already, or a run has nothing to label.
    """
    data = load(runs, release, needs_release=True)
    items = draw_items(data, n, seed=seed)
    return DrawnSheet(write_sheet(data, items, out), count_by_system(items))


def write_sheet(data: ReportData, items: Sequence[Item], out: Path) -> Path:
    """Write a sheet (CSV, or JSON lines where the name ends in ``.jsonl``), its images and its key; returns the key.

    Raises:
        UsageError: the sheet exists already, and may hold labels.
        StorageError: it cannot be written.
    """
    if out.exists():
        raise UsageError(
            "exists already, and may hold labels", item=out, cure="choose another --out"
        )
    rows = [dict(zip(COLUMNS, _sheet_cells(data, item, out), strict=True)) for item in items]
    if out.suffix == ".jsonl":
        text = "".join(canonical(row) + "\n" for row in rows)
    else:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([[harmless_field(row[c]) for c in COLUMNS] for row in rows])
        text = stream.getvalue()
    key = key_path_of(out)
    sheet_folder = out.resolve().parent
    version = labelling.Task(
        name="sheet", labels=ANSWER_LABELS, rubric=labelling.default_rubric()
    ).version
    rubric = {"shipped_rubric": labelling.shipped_version(), "rubric": version}
    write_records(
        key,
        (
            KeyLine(
                item=i.id,
                run=_relative_path(sheet_folder, i.run.path),
                ask=i.row.ask,
                answer=digest(i.row.answer, 16),
                **_judge_provenance(i.run),
                **rubric,
            )
            for i in items
        ),
    )
    write_atomic(out, text)
    return key


def key_path_of(sheet: Path) -> Path:
    """The key of a sheet."""
    return sheet.with_name(f"{sheet.stem}.key.jsonl")


def take_labels(sheet: Path) -> LabelsTaken:
    """Read a labelled sheet into each run's ``labels.jsonl``; labels that were cleared in it since leave that.

    Labels of other sheets and tasks stay unless given again.

    Raises:
        UsageError: the sheet's key is not beside it.
        BadInput: invalid labels, unknown or repeated items, responses that changed since; names all of them.
    """
    key = key_path_of(sheet)
    if not key.is_file():
        raise UsageError(
            "the key is not beside the sheet", item=key, cure="move it back beside the sheet"
        )
    problems = Problems()
    line_of_item = {line.item: line for line in read_records(key, KeyLine, problems)}
    label_of_item: dict[str, Outcome | None] = {}
    seen: set[str] = set()
    jsonl = sheet.suffix == ".jsonl"
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    rows = (
        read_jsonl(sheet, problems)
        if jsonl
        else csv_rows(sheet, problems, required=("item", "label"))
    )
    for place, row in rows:
        item, label = (
            str(row.get("item") or "").strip(),
            str(row.get("label") or "").strip().lower().replace(" ", "_"),
        )
        if item not in line_of_item:
            problems.add(place, f"{item or 'an empty item'} is not in the key of this sheet")
        elif item in seen:
            problems.add(place, f"{item} occurs twice")
        elif label == labelling.CANNOT:
            label_of_item[item] = None
        elif label and label not in LABELS:
            problems.add(
                f"{place} ({item})",
                f"label {label!r}; one of {', '.join([*LABELS, labelling.CANNOT])}",
            )
        elif label:
            label_of_item[item] = LABELS[label]
        seen.add(item)
    return _write_labels(sheet, line_of_item, label_of_item, problems)


def _write_labels(
    source: Path,
    line_of_item: Mapping[str, KeyLine],
    label_of_item: Mapping[str, Outcome | None],
    problems: Problems,
) -> LabelsTaken:
    """Write labels, and what each is bound to, into the runs that the key names relative to its folder.

    Args:
        source: the sheet or the task's folder. Each line names it, so that a label that is taken back leaves the run,
            and one of another source stays.
        label_of_item: None where people could not tell.
    """
    source_folder = (source if source.is_dir() else source.parent).resolve()
    paths = {line.run: (source_folder / line.run) for line in line_of_item.values()}
    data = load(find_runs(sorted(set(paths.values()))), None)
    runs = {run.path.resolve(): run for run in data.runs}
    of_run: defaultdict[Path, dict[str, KeyLine]] = defaultdict(dict)
    for line in line_of_item.values():
        of_run[paths[line.run].resolve()][line.ask] = line
    for path, lines in of_run.items():
        rows = runs[path].rows
        answers = {row.ask: row.answer for row in rows.where(rows.is_in("ask", lines))}
        for ask, line in lines.items():
            changed = ask not in answers or digest(answers[ask], 16) != line.answer
            if changed and label_of_item.get(line.item) is not None:
                problems.add(
                    f"{line.run} ({line.item})",
                    "the run's answer changed since the sheet was drawn",
                )
    problems.settle()
    labels_of_run: dict[str, int] = {}
    withdrawn = 0
    for path, lines in sorted(of_run.items()):
        written_lines: dict[str, Mapping[str, object]] = {}
        if runs[path].labels:
            written_lines = {
                str(line["ask"]): line for _, line in read_jsonl(path / HUMAN, Problems())
            }
        asks_before, source_path = set(written_lines), _relative_path(path, source)
        for ask, line in lines.items():
            label = label_of_item.get(line.item)
            if label is not None:
                written_lines[ask] = {
                    "ask": ask,
                    "label": label.value,
                    "answer": line.answer,
                    "from": source_path,
                } | line.bound
                labels_of_run[str(path)] = labels_of_run.get(str(path), 0) + 1
            elif (
                line.item in label_of_item or written_lines.get(ask, {}).get("from") == source_path
            ):
                written_lines.pop(ask, None)
        withdrawn += len(asks_before - written_lines.keys())
        if written_lines or asks_before:
            write_atomic(
                path / HUMAN,
                "".join(canonical(written_lines[ask]) + "\n" for ask in sorted(written_lines)),
            )
    cannot = sum(label is None for label in label_of_item.values())
    data_after = load([run.path for run in data.runs], None)
    return LabelsTaken(
        labels_of_run, len(line_of_item) - len(label_of_item), data_after, cannot, withdrawn
    )


def _sheet_cells(
    data: ReportData, item: Item, out: Path, *, plain_folder: bool = False
) -> tuple[str, ...]:
    """The columns of a sheet; images beside it, or in the folder ``out`` itself."""
    sample = data.samples.get(item.row.sample)
    if sample is None:
        raise DataError(
            "not in the release",
            item=item.row.sample,
            cure="give the release of the run with --release",
        )
    question = sample.question_with_turns
    if sample.answers.choices:
        question += " " + "; ".join(f"({label}) {text}" for label, text in sample.answers.choices)
    return (
        item.id,
        question,
        "; ".join(_write_images(data, sample, out, plain_folder)),
        _accepted_text(sample),
        item.row.answer,
        "",
        "",
    )


def _accepted_text(sample: Sample) -> str:
    spec = sample.answers
    forms = [" + ".join(parts) for parts in spec.accepted]
    if spec.number is not None:
        low, high = spec.number
        forms.append(f"{low:g}" if low == high else f"{low:g} to {high:g}")
    return " | ".join(dict.fromkeys([spec.display_form, *forms])) + (
        f" [{spec.unit}]" if spec.unit else ""
    )


def _write_images(data: ReportData, sample: Sample, out: Path, plain_folder: bool) -> Iterator[str]:
    """The names of a question's images, written beside the sheet, or into the folder ``out``."""
    if data.release is None:
        return
    folder = out if plain_folder else out.with_name(f"{out.stem}-images")
    for ref in sample.images:
        path = (
            folder / f"{ref.sha256[:16]}.{ref.media_type.partition('/')[2].replace('jpeg', 'jpg')}"
        )
        if not path.exists():
            write_atomic(path, data.release.read_image(ref))
        yield path.name if plain_folder else f"{folder.name}/{path.name}"


def _relative_path(folder: Path, path: Path) -> str:
    import os

    return os.path.relpath(path.resolve(), folder)
