"""A labelling task in a folder: items, their order for an annotator, and a journal that no crash can tear.

task.json           what is asked: labels with their keys, rubric, what the items are bound to
items.jsonl         `Item`, one a line; what is ``hidden`` or ``about`` an item is shown on request only
images/             what items show
labels/NAME.jsonl   one line per key press of that annotator, appended
"""

from __future__ import annotations

import io
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from demur.core.errors import UsageError
from demur.core.records import Record
from demur.core.store import (
    JsonlLog,
    Problems,
    digest,
    json_objects,
    locked,
    read_json,
    read_records,
    seed_of,
    storage_errors,
    why_invalid,
    write_json,
    write_records,
)
from demur.core.text import command
from demur.judge.measures.agreement import Rating

CANNOT = "cannot_tell"
"""Said with key 0: an opinion that no figure counts as a grade."""
ADJUDICATED = "adjudicated"
"""The annotator whose word settles a disagreement."""
BOUND = ("judge", "judge_code", "prompt_sha256")
"""Keys of ``about`` and of `Task.bound`: the judge beside whose verdicts a label holds."""
GAP = 15
"""Items between an item and its hidden repeat, at least."""
_NAME = re.compile(r"[\w.@-]{1,60}")


class Label(Record):
    """One answer that an annotator can give."""

    name: str = Field(min_length=1)
    """As it is filed."""
    text: str = ""
    """As it is shown; the name when empty."""


class Item(Record):
    """One thing to be labelled."""

    id: str = Field(min_length=1)
    """Opaque: it says nothing of who made it."""
    shown: tuple[tuple[str, str], ...]
    """(heading, text) in order: question, answer."""
    images: tuple[str, ...] = ()
    """Names of files in ``images/``."""
    hidden: tuple[tuple[str, str], ...] = ()
    """(heading, text), shown when asked for: what is right, what a judge said."""
    marks: tuple[tuple[str, str], ...] = ()
    """(heading, text): parts of what is shown under that heading, to be highlighted."""
    group: str = ""
    """Items of one group are shown together, in the order in which they are filed; "" for an item by itself."""
    about: dict[str, str] = Field(default_factory=dict)
    """Never shown: what the order is balanced over, and what leads back (run, ask)."""


class Task(Record):
    """What is asked of every item."""

    name: str
    labels: tuple[Label, ...] = Field(min_length=2, max_length=9)
    rubric: str = ""
    """Shown as plain text."""
    balance: tuple[str, ...] = ()
    """Keys of ``about`` that any beginning of the order holds in equal shares."""
    repeats: float = Field(default=0.05, ge=0, le=0.5)
    """Share of items that come a second time, unannounced."""
    closing: str = ""
    """A label that settles a group: its other items are not asked any more."""
    seed: int = 0
    bound: dict[str, str] = Field(default_factory=dict)
    """What labels hold for: judge, its code, prompt; see `demur.judge.measures.corrected`."""

    @property
    def version(self) -> str:
        """Of labels and rubric, 12 hex digits."""
        return digest([self.rubric, [label.name for label in self.labels]], 12)


class Place(NamedTuple):
    """A position in an annotator's order."""

    item: str
    again: bool


class PlaceState(NamedTuple):
    """What an annotator said last at a place; label "" while there is none."""

    label: str = ""
    note: str = ""
    revealed: bool = False
    """Whether hidden fields were looked at before the label was given, or changed."""
    rubric: str = ""
    """Version of the rubric that the label was given under."""
    seen: bool = False
    """Whether hidden fields were looked at, before the label or after."""


def default_rubric() -> str:
    """The shipped rubric for answers: correct, incorrect, deflected."""
    return files("demur.judge.annotation").joinpath("rubric.v1.md").read_text(encoding="utf-8")


def shipped_version() -> str:
    """Of the shipped rubric, 12 hex digits: labels that were given under it hold as long as it says the same."""
    return digest(default_rubric(), 12)


def write_task(folder: Path, task: Task, items: Iterable[Item]) -> None:
    """Make a task's folder.

    Raises:
        UsageError: there is another task in it.
    """
    all_items = list(items)
    if not all_items:
        raise UsageError("no items to label", item=str(folder), cure="draw at least one")
    if (folder / "task.json").exists():
        earlier_task, earlier_items = read_task(folder)
        if earlier_task != task or earlier_items != all_items:
            raise UsageError(
                "holds another task",
                item=str(folder),
                cure="choose another --out; labels stay there",
            )
        return
    write_records(folder / "items.jsonl", all_items)
    write_json(folder / "task.json", task.model_dump(mode="json"))


def read_task(folder: Path) -> tuple[Task, list[Item]]:
    """A task and its items.

    Raises:
        UsageError: there is none in the folder.
        BadInput: items that are none, or whose id comes twice, all of them told.
    """
    if not (folder / "task.json").is_file():
        raise UsageError(
            "holds no labelling task", item=str(folder), cure="make one: demur annotate RUN"
        )
    try:
        task = Task.model_validate(read_json(folder / "task.json"))
    except ValidationError as error:
        raise UsageError(
            why_invalid(error), item=str(folder / "task.json"), cure="make the task again"
        ) from error
    return task, read_items(folder / "items.jsonl")


def read_items(path: Path) -> list[Item]:
    """Items of a file; bad ones and ids that come twice are told together."""
    problems = Problems()
    items: dict[str, Item] = {}
    for item in read_records(path, Item, problems):
        if item.id in items:
            problems.add(f"{path.name} ({item.id})", "this id stands in an earlier line too")
        items[item.id] = item
    problems.settle()
    return list(items.values())


def order(task: Task, items: Sequence[Item]) -> list[Place]:
    """The order of a task: any beginning holds every combination of what is balanced in equal shares.

    The same for every annotator, so that those who stop early have labelled the same items.
    """
    groups: defaultdict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda i: seed_of(task.seed, "item", i.id)):
        groups[tuple(item.about.get(key, "") for key in task.balance)].append(item)
    turns: list[tuple[int, int, str]] = []
    for key, members in groups.items():
        turns += [
            (turn, seed_of(task.seed, "turn", turn, *key), item.id)
            for turn, item in enumerate(members)
        ]
    members_of: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        members_of[item.group or item.id].append(item.id)
    group_of = {item.id: item.group or item.id for item in items}
    in_turn = dict.fromkeys(group_of[item] for _, _, item in sorted(turns))
    places = [Place(item, False) for group in in_turn for item in members_of[group]]
    chosen = [
        p.item
        for p in places
        if seed_of(task.seed, "again", p.item) % 10_000 < task.repeats * 10_000
    ]
    for number, repeated in enumerate(chosen):
        first = next(i for i, p in enumerate(places) if p.item == repeated)
        if first + GAP < len(places):  # the last ones would come again while they are remembered
            at = first + GAP + seed_of(task.seed, "gap", number) % GAP
            places.insert(min(at, len(places)), Place(repeated, True))
    return places


def annotators(folder: Path) -> list[str]:
    """Who labelled, sorted; the adjudicator is none of them."""
    return sorted(p.stem for p in (folder / "labels").glob("*.jsonl") if p.stem != ADJUDICATED)


def wrong_name(name: str) -> str:
    """What to do about an annotator's name that no file can have; "" where one can."""
    return "" if _NAME.fullmatch(name) else "use letters, digits, dots and dashes: --as maria"


class Session:
    """One annotator at work: every key press is one appended line, and the state is those lines read again.

    Args:
        folder: of the task.
        name: of the annotator.
        adjudicate: ask the items that annotators disagree on, and file the answers as settled.

    Raises:
        UsageError: no such task, a name that no file can have, or the same annotator is at work elsewhere.
    """

    def __init__(self, folder: Path, name: str, *, adjudicate: bool = False) -> None:
        if why := wrong_name(name) or (
            "that name is for --adjudicate" if name == ADJUDICATED and not adjudicate else ""
        ):
            raise UsageError(f"annotator {name!r}", cure=why)
        self.folder, self.name = folder, name
        self.task, items = read_task(folder)
        self.items = {item.id: item for item in items}
        self.places = (
            [Place(item, False) for item in disagreements(folder)]
            if adjudicate
            else order(self.task, items)
        )
        self.others = read_all_labels(folder) if adjudicate else {}
        self._closing = "" if adjudicate else self.task.closing  # each disagreement is decided
        path = folder / "labels" / f"{name}.jsonl"
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = locked(path.with_suffix(".lock"), f"labelling as {name} elsewhere")
        self._lock.__enter__()
        self._log = JsonlLog(path)
        try:
            self._labelling = Labelling(journal(path))
        except BaseException:
            self.close()
            raise

    def state_at(self, place_number: int) -> PlaceState:
        """What stands at a place."""
        return self._labelling.state_at.get(self.places[place_number], PlaceState())

    def act(
        self,
        action: str,
        place_number: int = 0,
        *,
        label: str = "",
        note: str = "",
        seconds: float = 0.0,
    ) -> int | None:
        """File one action, then carry it out.

        Args:
            action: ``label``, ``note``, ``reveal``, ``skip`` or ``undo``.
            place_number: the place.
            label: for ``label``: a label's name, or `CANNOT`.
            note: for ``note``.
            seconds: since the item was shown.

        Returns:
            The place it was about; None where there was nothing to undo.

        Raises:
            UsageError: no such action, place or label.
        """
        if action not in ("label", "note", "reveal", "skip", "undo"):
            raise UsageError(f"action {action!r}", cure="label, note, reveal, skip, undo")
        if action == "undo" and not self._labelling.history:
            return None
        if not 0 <= place_number < len(self.places):
            raise UsageError(f"place {place_number} of {len(self.places)}", cure="reload the page")
        if action == "label" and label not in {
            CANNOT,
            *(known_label.name for known_label in self.task.labels),
        }:
            raise UsageError(
                f"label {label!r}",
                cure=f"one of {', '.join(known_label.name for known_label in self.task.labels)}",
            )
        line: dict[str, Any] = {"do": action, "at": round(time.time(), 3)}
        if action != "undo":
            place = self.places[place_number]
            line |= {
                "item": place.item,
                "again": place.again,
                "seconds": round(min(max(seconds, 0.0), 3600.0), 1),
            }
        if action == "label":
            line |= {"label": label, "rubric": self.task.version}
        if action == "note":
            line |= {"note": note}
        pressed = Pressed.model_validate(line)
        self._log.append(line)
        place_acted_on = self._labelling.take(pressed)
        return self.places.index(place_acted_on) if place_acted_on in self.places else None

    def together(self, place_number: int) -> list[int]:
        """The places of a place's group, itself among them, hidden repeats not."""
        place = self.places[place_number]
        group = self.items[place.item].group
        if not group or place.again:
            return [place_number]
        return [
            n
            for n, other in enumerate(self.places)
            if not other.again and self.items[other.item].group == group
        ]

    def _open_places(self) -> list[int]:
        """Places without a label, of groups that none settled."""
        labels = [self.state_at(n).label for n in range(len(self.places))]
        groups = [self.items[place.item].group for place in self.places]
        closed = {
            group
            for group, label in zip(groups, labels, strict=True)
            if group and label and label == self._closing
        }
        return [
            n
            for n, (group, label) in enumerate(zip(groups, labels, strict=True))
            if not label and group not in closed
        ]

    def next(self, after: int = -1) -> int | None:
        """The first place to be labelled behind ``after``, else from the beginning; None when none is open."""
        open_ = self._open_places()
        return next((n for n in open_ if n > after), open_[0] if open_ else None)

    @property
    def done(self) -> int:
        """Places with a label, or in a group that is settled."""
        return len(self.places) - len(self._open_places())

    @property
    def per_minute(self) -> float | None:
        """Labels a minute over the last twenty, pauses of five minutes left out; None before the third."""
        gaps = [b - a for a, b in pairwise(self._labelling.times[-21:])]
        gaps = [gap for gap in gaps if 0 < gap < 300]
        return 60 * len(gaps) / sum(gaps) if len(gaps) >= 2 else None

    def close(self) -> None:
        """Flush the journal and let others work."""
        self._log.close()
        self._lock.__exit__(None, None, None)


class Pressed(Record):
    """One line of a journal: a key that was pressed."""

    do: Literal["label", "note", "reveal", "skip", "undo"]
    at: float = 0.0
    """When, in seconds since 1970."""
    item: str = ""
    again: bool = False
    seconds: float = 0.0
    """Since the item was shown."""
    label: str = ""
    rubric: str = ""
    note: str = ""


def journal(path: Path) -> list[Pressed]:
    """The whole lines of a journal; a torn last line, of a crash or of who labels just now, is passed over.

    Raises:
        BadInput: other lines that cannot be read, all of them: without them labels would be missing from every figure.
    """
    if not path.exists():
        return []
    with storage_errors(path):
        data = path.read_bytes()
    problems, pressed_keys = Problems(), []
    for place, line in json_objects(io.BytesIO(data[: data.rfind(b"\n") + 1]), path.name, problems):
        try:
            pressed_keys.append(Pressed.model_validate(line))
        except ValidationError as error:
            problems.add(place, why_invalid(error))
    problems.settle()
    return pressed_keys


class Labelling:
    """What a journal comes to.

    Args:
        lines: in the order in which the keys were pressed.

    Attributes:
        state_at: place -> what was said there last.
        history: (place, what was said there before) of each label that is not undone, the newest last.
        times: of the labels, in seconds.
    """

    def __init__(self, lines: Iterable[Pressed]) -> None:
        self.state_at: dict[Place, PlaceState] = {}
        self.history: list[tuple[Place, PlaceState]] = []
        self.times: list[float] = []
        for line in lines:
            self.take(line)

    def take(self, line: Pressed) -> Place | None:
        """Take in one more line; the place that it is about, None where there was nothing to undo."""
        if line.do == "undo":
            if not self.history:
                return None
            place, earlier_state = (
                self.history.pop()
            )  # of the label alone: a note that came later stays, and what was seen
            self.state_at[place] = self.state_at[place]._replace(
                label=earlier_state.label,
                revealed=earlier_state.revealed,
                rubric=earlier_state.rubric,
            )
            return place
        place = Place(line.item, line.again)
        state = self.state_at.get(place, PlaceState())
        if line.do == "label":
            self.history.append((place, state))
            self.times.append(line.at)
            seen = (
                state.seen or self.state_at.get(Place(line.item, not line.again), PlaceState()).seen
            )
            revealed = state.revealed or (seen and line.label != state.label)
            self.state_at[place] = state._replace(
                label=line.label, revealed=revealed, rubric=line.rubric
            )
        elif line.do == "note":
            self.state_at[place] = state._replace(note=line.note)
        elif line.do == "reveal":
            self.state_at[place] = state._replace(
                seen=True, revealed=state.revealed or not state.label
            )
        return place


class LastLabel(NamedTuple):
    """An annotator's last word on an item."""

    label: str
    note: str
    again: str
    """Of its hidden repeat; "" where there was none."""
    revealed: bool
    rubric: str
    """Version of the rubric that it was given under."""


def last_labels(folder: Path, name: str) -> dict[str, LastLabel]:
    """Item -> last word of one annotator; items without a label are left out."""
    states = Labelling(journal(folder / "labels" / f"{name}.jsonl")).state_at
    return {
        item: LastLabel(
            state.label,
            state.note,
            states.get(Place(item, True), PlaceState()).label,
            state.revealed,
            state.rubric,
        )
        for (item, again), state in states.items()
        if state.label and not again
    }


def read_all_labels(folder: Path) -> dict[str, dict[str, LastLabel]]:
    """Annotator -> item -> last word; the adjudicator is none of them."""
    return {name: last_labels(folder, name) for name in annotators(folder)}


def disagreements(folder: Path) -> list[str]:
    """Items that two annotators labelled differently (can't tell beside a label is no disagreement), in their order."""
    task, items = read_task(folder)
    labels_by_item: defaultdict[str, set[str]] = defaultdict(set)
    for last_labels_of in read_all_labels(folder).values():
        for item, last in last_labels_of.items():
            if last.label != CANNOT:
                labels_by_item[item].add(last.label)
    return [p.item for p in order(task, items) if not p.again and len(labels_by_item[p.item]) > 1]


class SettledLabels(NamedTuple):
    """What annotators came to."""

    labels: dict[str, str]
    """Item -> label: the adjudicator's, else what more than half of its annotators said, can't tell included."""
    open: list[str]
    """Items on which nobody settled the disagreement."""
    cannot: list[str]
    """Items of which the adjudicator, or half of its annotators or more, could not tell."""
    unlabelled: int


def settle_labels(folder: Path) -> SettledLabels:
    """The labels of a task, open disagreements left out."""
    _, items = read_task(folder)
    last_word = last_labels(folder, ADJUDICATED)
    labels_by_item: defaultdict[str, list[str]] = defaultdict(list)
    for last_labels_of in read_all_labels(folder).values():
        for item, last in last_labels_of.items():
            labels_by_item[item].append(last.label)
    labels: dict[str, str] = {}
    open_, cannot, unlabelled = [], [], 0
    for task_item in items:
        votes = Counter(label for label in labels_by_item[task_item.id] if label != CANNOT)
        most_common = votes.most_common(1)
        adjudicated = last_word[task_item.id].label if task_item.id in last_word else ""
        if adjudicated and adjudicated != CANNOT:
            labels[task_item.id] = adjudicated
        elif (
            most_common
            and not adjudicated
            and most_common[0][1] > len(labels_by_item[task_item.id]) / 2
        ):
            labels[task_item.id] = most_common[0][0]
        elif len(votes) > 1 and not adjudicated:
            open_.append(task_item.id)
        elif (
            labels_by_item[task_item.id] or adjudicated
        ):  # one label that too few gave is no disagreement: there is nothing to decide
            cannot.append(task_item.id)
        else:
            unlabelled += 1
    return SettledLabels(labels, open_, cannot, unlabelled)


def final_labels(folder: Path) -> dict[str, str]:
    """Item -> label, of a task without open disagreements: `settle_labels`.

    Raises:
        UsageError: there are some. What people disagree on is what a judge gets wrong; labels without it flatter it.
    """
    settlement = settle_labels(folder)
    if settlement.open:
        raise UsageError(
            f"{len(settlement.open):,} disagreements are not settled, and labels without them would flatter the judge",
            item=str(folder),
            cure=f"settle them: {command('annotate', '--out', folder, '--adjudicate')}",
        )
    return settlement.labels


def rubrics(folder: Path) -> dict[str, str]:
    """Item -> versions of the rubric that its labels were given under, with commas between."""
    versions_by_item: defaultdict[str, set[str]] = defaultdict(set)
    for last_labels_of in (*read_all_labels(folder).values(), last_labels(folder, ADJUDICATED)):
        for item, last in last_labels_of.items():
            versions_by_item[item].add(last.rubric)
    return {item: ", ".join(sorted(versions - {""})) for item, versions in versions_by_item.items()}


def ratings(folder: Path) -> list[Rating]:
    """Every annotator's labels and hidden repeats, as `demur.judge.measures.agreement` takes them; no can't-tell."""
    all_ratings = []
    for name, last_labels_of in read_all_labels(folder).items():
        for item, last in last_labels_of.items():
            if last.label != CANNOT:
                all_ratings.append(Rating(item, name, last.label))
                if last.again and last.again != CANNOT:
                    all_ratings.append(Rating(item, name, last.again, again=True))
    return all_ratings


def put_labels(
    folder: Path,
    name: str,
    labels: Mapping[str, tuple[str, str]],
    *,
    again: Mapping[str, str] = MappingProxyType({}),
    looked: Container[str] = (),
) -> int:
    """File labels that were given elsewhere (a spreadsheet, Label Studio) as an annotator's.

    Those that are there already are not filed again.

    Args:
        labels: item -> (label, note).
        again: item -> label of its hidden repeat.
        looked: items that were labelled after a look at what is right.

    Returns:
        How many were filed.
    """
    session = Session(folder, name, adjudicate=name == ADJUDICATED)
    try:
        filed = 0
        # every item, also one that nobody disagrees on any more, and repeats that this task's own order has not
        session.places = [Place(item, twice) for twice in (False, True) for item in session.items]
        for at, place in enumerate(session.places):
            label, note = labels.get(place.item, ("", ""))
            if place.again:
                label, note = again.get(place.item, ""), ""
            state = session.state_at(at)
            if label and label != state.label:
                if place.item in looked and not place.again:
                    session.act("reveal", at)
                session.act("label", at, label=label)
                filed += not place.again
            if note and note != state.note:
                session.act("note", at, note=note)
        return filed
    finally:
        session.close()


def about_folder(folder: Path) -> str:
    """One line on where a task stands."""
    _, items = read_task(folder)
    progress = (
        ", ".join(f"{name} {len(words):,}" for name, words in read_all_labels(folder).items())
        or "nobody yet"
    )
    return (
        f"{len(items):,} items; labelled: {progress}; {len(disagreements(folder)):,} disagreements"
    )


def as_json(value: Any) -> str:
    """JSON whose text could not end a script or become markup wherever it stood."""
    return (
        json.dumps(value, ensure_ascii=True)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )
