"""How items get their steps and rubrics: a model drafts, people review in the labelling page, an audit samples.

    draft      a model that sees the pictures writes steps and rubric, or only the rubric of an item that has steps
    review     people label each draft in the page of `demur annotate`: sound, unsound (with a note), too complex
    take       the labels go into the items: sound ones are reviewed, unsound ones stay drafts
    quality    an auditor checks a tenth of each annotator's items: below 10 % unqualified the mistakes found are
               corrected and the rest accepted; up to 30 % the annotator revises all and is sampled again; above, all
               are discarded and labelled again

An annotator may label an item too complex after five minutes; earlier ones are reported.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from demur.core.errors import UsageError
from demur.core.stats import wilson
from demur.core.store import digest, seed_of, why_invalid, write_atomic
from demur.core.uris import read_image
from demur.judge.annotation.task import (
    CANNOT,
    Label,
    LastLabel,
    Task,
    journal,
    last_labels,
    read_all_labels,
    read_task,
    write_task,
)
from demur.judge.annotation.task import Item as Shown
from demur.models.run import run_sync
from demur_suites.mm_thebench.items import SUBCATEGORIES, Item, plain_names
from demur_suites.mm_thebench.judging import ChainJudge, all_of, right_answer

SOUND, UNSOUND, TOO_COMPLEX = "sound", "unsound", "too_complex"
PATIENCE_S = 300
"""Seconds with an item after which it may be called too complex."""
AUDITED = 0.1
"""Share of each annotator's items that are looked at a second time."""
RUBRIC = """Look at the question, the right answer and the picture, then at each step in turn.
sound: every step is right, needed, in order and of the kinds that it names; no step is missing; every rubric item can \
be answered from a chain of thought alone and stands under the right dimension and subcategory.
unsound: something is wrong. Say what in the note; the item will be corrected from it.
too complex: after five minutes you cannot tell, or the question itself is wrong or ambiguous."""


# --- drafts ----------------------------------------------------------------------------------------


class Drafted(NamedTuple):
    """Items after drafting: those that have steps now, and why others have none."""

    items: tuple[Item, ...]
    failed: dict[str, str]


def draft(
    judge: ChainJudge, items: Sequence[Item], progress: Callable[[int], None] = lambda n: None
) -> Drafted:
    """Let a model write the steps and rubric that items lack; ``failed`` holds the replies that make no valid item."""
    kinds = "\n".join(f"{d.value}: {', '.join(subs)}" for d, subs in SUBCATEGORIES.items())
    failed: dict[str, str] = {}

    async def one(item: Item) -> Item:
        if item.steps and item.rubric:
            return item
        notes: set[str] = set()
        stand = "\n".join(f"{s.id}. ({', '.join(s.types)}) {s.content}" for s in item.steps)
        reply = await judge.reply(
            "draft-rubric" if item.steps else "draft",
            item.id,
            2048,
            notes,
            pictures=item.pictures,
            question=item.question,
            answer=right_answer(item),
            kinds=kinds,
            steps=stand,
        )
        if not isinstance(reply, dict):
            called = not any("failed" in note for note in notes)
            failed[item.id] = (
                "the model's reply is not a JSON object"
                if called
                else "the call to the model failed"
            )
            return item
        try:
            wrote = {
                name: reply.get(name)
                for name in (("rubric",) if item.steps else ("steps", "rubric"))
            }
            made = {**item.model_dump(), **wrote, "reviewed_by": ""}
            return Item.model_validate(plain_names(made, Counter()))
        except ValidationError as error:
            failed[item.id] = why_invalid(error)
            return item

    found = run_sync(all_of(judge, [one(i) for i in items], progress))
    return Drafted(tuple(found), failed)


# --- review ----------------------------------------------------------------------------------------


def review_task(items: Sequence[Item], out: Path, root: Path, *, seed: int = 0) -> Path:
    """Make a labelling task of drafts, for ``demur annotate page --out FOLDER``.

    Args:
        items: those with steps are in the task.
        out: the task's folder.
        root: folder of the items' pictures.
        seed: of the order.

    Raises:
        UsageError: no item has steps.
    """
    shown = []
    for item in items:
        if not item.steps:
            continue
        names = pictures_of(item, out, root)
        steps = "\n".join(
            f"{s.id}. [{', '.join(s.types)}{'' if s.necessary else '; can be left out'}] {s.description}: {s.content}"
            for s in item.steps
        )
        rubric = "\n".join(
            f"- [{r.dimension}, {r.subcategory}, {r.points} points, about {_of(r.steps)}] {r.question}"
            for r in item.rubric
        )
        about = (
            ("question", item.question),
            ("right answer", right_answer(item)),
            ("steps", steps),
            ("rubric", rubric),
        )
        shown.append(Shown(id=item.id, shown=about, images=names, about={"source": item.source}))
    choices = (Label(name=SOUND), Label(name=UNSOUND), Label(name=TOO_COMPLEX, text="too complex"))
    task = Task(
        name="steps and rubrics",
        labels=choices,
        rubric=RUBRIC,
        balance=("source",),
        repeats=0.0,
        seed=seed,
    )
    write_task(out, task, shown)
    return out


def _of(steps: Sequence[int]) -> str:
    return (
        f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"
        if steps
        else "the whole chain"
    )


def pictures_of(item: Item, out: Path, root: Path) -> tuple[str, ...]:
    """Put an item's pictures into a labelling task's folder; returns their names there."""
    names = []
    for picture in item.pictures:
        names.append(
            f"{picture.sha256[:24]}.{picture.media_type.partition('/')[2].replace('jpeg', 'jpg')}"
        )
        write_atomic(out / "images" / names[-1], read_image(picture, root))
    return tuple(names)


class Reviewed(NamedTuple):
    """Items after a review.

    Attributes:
        items: with ``reviewed_by`` and ``too_complex`` as reviewed.
        to_mend: unsound item -> the reviewers' notes.
        hasty: items called too complex before five minutes had passed.
        open: items on which reviewers differ, or which nobody reviewed.
    """

    items: tuple[Item, ...]
    to_mend: dict[str, str]
    hasty: tuple[str, ...]
    open: tuple[str, ...]


def take_reviews(items: Sequence[Item], folder: Path, auditor: str = "") -> Reviewed:
    """Items with the reviews of a task's folder; the auditor's labels are no reviews."""
    read_task(folder)
    people = {name: labels for name, labels in read_all_labels(folder).items() if name != auditor}
    reviews: defaultdict[str, dict[str, LastLabel]] = defaultdict(dict)
    for name, given in people.items():
        for id, last in given.items():
            if last.label != CANNOT:
                reviews[id][name] = last
    hasty = tuple(sorted(_hasty(folder, people)))
    made, to_mend, open_ = [], {}, []
    for item in items:
        labels = {last.label for last in reviews[item.id].values()}
        if len(labels) != 1:
            open_.append(item.id)
        elif labels == {SOUND}:
            item = item.model_copy(
                update={"reviewed_by": ", ".join(sorted(reviews[item.id])), "too_complex": False}
            )
        else:
            if labels == {UNSOUND}:
                to_mend[item.id] = (
                    "; ".join(last.note for last in reviews[item.id].values() if last.note)
                    or "no note"
                )
            item = item.model_copy(
                update={"reviewed_by": "", "too_complex": labels == {TOO_COMPLEX}}
            )
        made.append(item)
    return Reviewed(tuple(made), to_mend, hasty, tuple(open_))


def _hasty(folder: Path, people: Iterable[str]) -> set[str]:
    spent: defaultdict[tuple[str, str], float] = defaultdict(float)
    found = set()
    for name in people:
        for line in journal(folder / "labels" / f"{name}.jsonl"):
            if line.do == "label":
                key = name, line.item
                spent[key] += line.seconds
                if line.label == TOO_COMPLEX and spent[key] < PATIENCE_S:
                    found.add(line.item)
    return found


# --- quality control -------------------------------------------------------------------------------

Decision = Literal[
    "correct the sampled ones and accept", "revise all, then sample again", "discard and label anew"
]


def decision(unqualified: int, n: int) -> Decision:
    """The consequence of an audit: below 10 %, up to 30 %, above.

    >>> [decision(k, 30)[:6] for k in (2, 3, 9, 10)]
    ['correc', 'revise', 'revise', 'discar']
    """
    if 10 * unqualified < n:
        return "correct the sampled ones and accept"
    return (
        "revise all, then sample again" if 10 * unqualified <= 3 * n else "discard and label anew"
    )


class Quality(NamedTuple):
    """The audit of one annotator.

    Attributes:
        name: of the annotator.
        labelled: items that they reviewed as sound.
        sampled: those of them that the auditor must check.
        looked: those checked so far.
        unqualified: those that the auditor calls unsound.
        decision: None until the sample is complete.
        ends: Wilson's 95 % interval of the unqualified share.
    """

    name: str
    labelled: int
    sampled: tuple[str, ...]
    looked: int
    unqualified: int
    decision: Decision | None
    ends: tuple[float, float] | None


def quality(folder: Path, auditor: str, *, share: float = AUDITED, seed: int = 0) -> list[Quality]:
    """The audit of every annotator: the auditor's labels of a tenth of the items that they passed.

    Revised items make a task of their own (`review_task`), from which a new sample is drawn.

    Raises:
        UsageError: nobody but the auditor has labelled.
    """
    _, items = read_task(folder)
    shown = {item.id: digest(item.shown, 16) for item in items}  # a revised item is drawn anew
    audits, found = last_labels(folder, auditor), []
    for name, labels in read_all_labels(folder).items():
        if name == auditor:
            continue
        passed = sorted(i for i, last in labels.items() if last.label == SOUND)
        drawn = sorted(passed, key=lambda i: seed_of(seed, "audit", name, i, shown.get(i, "")))
        drawn = drawn[: math.ceil(share * len(passed))]
        looked = [i for i in drawn if i in audits and audits[i].label != CANNOT]
        bad = sum(audits[i].label != SOUND for i in looked)
        done = bool(drawn) and len(looked) == len(drawn)
        decided = decision(bad, len(looked)) if done else None
        found.append(
            Quality(
                name, len(passed), tuple(drawn), len(looked), bad, decided, wilson(bad, len(looked))
            )
        )
    if not found:
        raise UsageError(
            "nobody has reviewed anything",
            item=str(folder),
            cure="demur annotate page --out FOLDER --as NAME",
        )
    return found
