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


class Said(NamedTuple):
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
    several = list(items)
    if not several:
        raise UsageError("no items to label", item=str(folder), cure="draw at least one")
    if (folder / "task.json").exists():
        old, known = read_task(folder)
        if old != task or known != several:
            raise UsageError(
                "holds another task",
                item=str(folder),
                cure="choose another --out; labels stay there",
            )
        return
    write_records(folder / "items.jsonl", several)
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
    places = [Place(item, False) for _, _, item in sorted(turns)]
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
        self.others = everybody(folder) if adjudicate else {}
        path = folder / "labels" / f"{name}.jsonl"
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = locked(path.with_suffix(".lock"), f"labelling as {name} elsewhere")
        self._lock.__enter__()
        self._log = JsonlLog(path)
        try:
            self._told = Told(journal(path))
        except BaseException:
            self.close()
            raise

    def said(self, at: int) -> Said:
        """What stands at a place."""
        return self._told.said.get(self.places[at], Said())

    def act(
        self, do: str, at: int = 0, *, label: str = "", note: str = "", seconds: float = 0.0
    ) -> int | None:
        """File one action, then carry it out.

        Args:
            do: ``label``, ``note``, ``reveal``, ``skip`` or ``undo``.
            at: the place.
            label: for ``label``: a label's name, or `CANNOT`.
            note: for ``note``.
            seconds: since the item was shown.

        Returns:
            The place it was about; None where there was nothing to undo.

        Raises:
            UsageError: no such action, place or label.
        """
        if do not in ("label", "note", "reveal", "skip", "undo"):
            raise UsageError(f"action {do!r}", cure="label, note, reveal, skip, undo")
        if do == "undo" and not self._told.history:
            return None
        if not 0 <= at < len(self.places):
            raise UsageError(f"place {at} of {len(self.places)}", cure="reload the page")
        if do == "label" and label not in {CANNOT, *(one.name for one in self.task.labels)}:
            raise UsageError(
                f"label {label!r}", cure=f"one of {', '.join(one.name for one in self.task.labels)}"
            )
        line: dict[str, Any] = {"do": do, "at": round(time.time(), 3)}
        if do != "undo":
            place = self.places[at]
            line |= {
                "item": place.item,
                "again": place.again,
                "seconds": round(min(max(seconds, 0.0), 3600.0), 1),
            }
        if do == "label":
            line |= {"label": label, "rubric": self.task.version}
        if do == "note":
            line |= {"note": note}
        pressed = Pressed.model_validate(line)
        self._log.append(line)
        about = self._told.take(pressed)
        return self.places.index(about) if about in self.places else None

    def next(self, after: int = -1) -> int | None:
        """The first place without a label behind ``after``, else from the beginning; None when all have one."""
        open_ = [n for n in range(len(self.places)) if not self.said(n).label]
        return next((n for n in open_ if n > after), open_[0] if open_ else None)

    @property
    def done(self) -> int:
        """Places with a label."""
        return sum(bool(self.said(at).label) for at in range(len(self.places)))

    @property
    def per_minute(self) -> float | None:
        """Labels a minute over the last twenty, pauses of five minutes left out; None before the third."""
        gaps = [b - a for a, b in pairwise(self._told.times[-21:])]
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
    problems, found = Problems(), []
    for place, line in json_objects(io.BytesIO(data[: data.rfind(b"\n") + 1]), path.name, problems):
        try:
            found.append(Pressed.model_validate(line))
        except ValidationError as error:
            problems.add(place, why_invalid(error))
    problems.settle()
    return found


class Told:
    """What a journal comes to.

    Args:
        lines: in the order in which the keys were pressed.

    Attributes:
        said: place -> what was said there last.
        history: (place, what was said there before) of each label that is not undone, the newest last.
        times: of the labels, in seconds.
    """

    def __init__(self, lines: Iterable[Pressed]) -> None:
        self.said: dict[Place, Said] = {}
        self.history: list[tuple[Place, Said]] = []
        self.times: list[float] = []
        for line in lines:
            self.take(line)

    def take(self, line: Pressed) -> Place | None:
        """Take in one more line; the place that it is about, None where there was nothing to undo."""
        if line.do == "undo":
            if not self.history:
                return None
            place, was = (
                self.history.pop()
            )  # of the label alone: a note that came later stays, and what was seen
            self.said[place] = self.said[place]._replace(
                label=was.label, revealed=was.revealed, rubric=was.rubric
            )
            return place
        place = Place(line.item, line.again)
        before = self.said.get(place, Said())
        if line.do == "label":
            self.history.append((place, before))
            self.times.append(line.at)
            seen = before.seen or self.said.get(Place(line.item, not line.again), Said()).seen
            revealed = before.revealed or (seen and line.label != before.label)
            self.said[place] = before._replace(
                label=line.label, revealed=revealed, rubric=line.rubric
            )
        elif line.do == "note":
            self.said[place] = before._replace(note=line.note)
        elif line.do == "reveal":
            self.said[place] = before._replace(
                seen=True, revealed=before.revealed or not before.label
            )
        return place


class Last(NamedTuple):
    """An annotator's last word on an item."""

    label: str
    note: str
    again: str
    """Of its hidden repeat; "" where there was none."""
    revealed: bool
    rubric: str
    """Version of the rubric that it was given under."""


def last_labels(folder: Path, name: str) -> dict[str, Last]:
    """Item -> last word of one annotator; items without a label are left out."""
    said = Told(journal(folder / "labels" / f"{name}.jsonl")).said
    return {
        item: Last(
            now.label, now.note, said.get(Place(item, True), Said()).label, now.revealed, now.rubric
        )
        for (item, again), now in said.items()
        if now.label and not again
    }


def everybody(folder: Path) -> dict[str, dict[str, Last]]:
    """Annotator -> item -> last word; the adjudicator is none of them."""
    return {name: last_labels(folder, name) for name in annotators(folder)}


def disagreements(folder: Path) -> list[str]:
    """Items that two annotators labelled differently (can't tell beside a label is no disagreement), in their order."""
    task, items = read_task(folder)
    said: defaultdict[str, set[str]] = defaultdict(set)
    for words in everybody(folder).values():
        for item, last in words.items():
            if last.label != CANNOT:
                said[item].add(last.label)
    return [p.item for p in order(task, items) if not p.again and len(said[p.item]) > 1]


class Settled(NamedTuple):
    """What annotators came to."""

    labels: dict[str, str]
    """Item -> label: the adjudicator's, else what more than half of its annotators said, can't tell included."""
    open: list[str]
    """Items on which nobody settled the disagreement."""
    cannot: list[str]
    """Items of which the adjudicator, or half of its annotators or more, could not tell."""
    unlabelled: int


def settled(folder: Path) -> Settled:
    """The labels of a task, open disagreements left out."""
    _, items = read_task(folder)
    last_word = last_labels(folder, ADJUDICATED)
    said: defaultdict[str, list[str]] = defaultdict(list)
    for words in everybody(folder).values():
        for item, last in words.items():
            said[item].append(last.label)
    labels: dict[str, str] = {}
    open_, cannot, unlabelled = [], [], 0
    for one in items:
        given = Counter(label for label in said[one.id] if label != CANNOT)
        most = given.most_common(1)
        ruled = last_word[one.id].label if one.id in last_word else ""
        if ruled and ruled != CANNOT:
            labels[one.id] = ruled
        elif most and not ruled and most[0][1] > len(said[one.id]) / 2:
            labels[one.id] = most[0][0]
        elif len(given) > 1 and not ruled:
            open_.append(one.id)
        elif (
            said[one.id] or ruled
        ):  # one label that too few gave is no disagreement: there is nothing to decide
            cannot.append(one.id)
        else:
            unlabelled += 1
    return Settled(labels, open_, cannot, unlabelled)


def final_labels(folder: Path) -> dict[str, str]:
    """Item -> label, of a task without open disagreements: `settled`.

    Raises:
        UsageError: there are some. What people disagree on is what a judge gets wrong; labels without it flatter it.
    """
    came = settled(folder)
    if came.open:
        raise UsageError(
            f"{len(came.open):,} disagreements are not settled, and labels without them would flatter the judge",
            item=str(folder),
            cure=f"settle them: {command('annotate', '--out', folder, '--adjudicate')}",
        )
    return came.labels


def rubrics(folder: Path) -> dict[str, str]:
    """Item -> versions of the rubric that its labels were given under, with commas between."""
    given: defaultdict[str, set[str]] = defaultdict(set)
    for words in (*everybody(folder).values(), last_labels(folder, ADJUDICATED)):
        for item, last in words.items():
            given[item].add(last.rubric)
    return {item: ", ".join(sorted(versions - {""})) for item, versions in given.items()}


def ratings(folder: Path) -> list[Rating]:
    """Every annotator's labels and hidden repeats, as `demur.judge.measures.agreement` takes them; no can't-tell."""
    found = []
    for name, words in everybody(folder).items():
        for item, last in words.items():
            if last.label != CANNOT:
                found.append(Rating(item, name, last.label))
                if last.again and last.again != CANNOT:
                    found.append(Rating(item, name, last.again, again=True))
    return found


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
            before = session.said(at)
            if label and label != before.label:
                if place.item in looked and not place.again:
                    session.act("reveal", at)
                session.act("label", at, label=label)
                filed += not place.again
            if note and note != before.note:
                session.act("note", at, note=note)
        return filed
    finally:
        session.close()


def about_folder(folder: Path) -> str:
    """One line on where a task stands."""
    _, items = read_task(folder)
    told = (
        ", ".join(f"{name} {len(words):,}" for name, words in everybody(folder).items())
        or "nobody yet"
    )
    return f"{len(items):,} items; labelled: {told}; {len(disagreements(folder)):,} disagreements"


def as_json(value: Any) -> str:
    """JSON whose text could not end a script or become markup wherever it stood."""
    return (
        json.dumps(value, ensure_ascii=True)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )
