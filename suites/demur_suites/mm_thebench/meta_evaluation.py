"""Meta-evaluation of the judge of chains: a labelling task of its decisions. Do people decide alike?

The folder is one of `demur annotate page`: questions, chains and reference steps without the judge's decision. The
decisions are in ``judge.jsonl`` beside them, so that ``demur agree FOLDER FOLDER/judge.jsonl`` compares people with
each other and with the judge. The sample is drawn from all decisions alike, so agreement is that of ordinary use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Response
from demur.core.store import digest, seed_of, write_atomic
from demur.judge.annotation.task import Item as Shown
from demur.judge.annotation.task import Label, Task, write_task
from demur_suites.mm_thebench.annotation import pictures_of
from demur_suites.mm_thebench.items import Item
from demur_suites.mm_thebench.judging import ChainJudge, judge_all, right_answer
from demur_suites.mm_thebench.measures import Judged
from demur_suites.outputs import OpenedOutputs

Of = Literal["steps", "answers", "rubric"]
JUDGED_AS = "judge.jsonl"
LABELS: dict[Of, tuple[str, ...]] = {
    "steps": ("match", "partial", "mismatch"),
    "answers": ("match", "partial", "mismatch", "no_answer"),
    "rubric": ("yes", "no", "made_up"),
}
RUBRICS: dict[Of, str] = {
    "steps": """Is the reference step among the steps of the chain?
match: one of them says the same, or comes to the same result by the same kind of act, and is right.
partial: one of them says a part of it, or says it with a smaller mistake.
mismatch: none does, or those that try are wrong.""",
    "answers": """How does the answer that the reply ends with compare with the right one?
match: the same thing or value, however written. partial: a part is missing, or something wrong stands beside it.
mismatch: something else. no answer: it ends without naming anything.""",
    "rubric": """Does the chain do fully and rightly what the question asks for?
yes: it does. no: it leaves it out. made up: it states something on it that is not so.""",
}


class Decision(NamedTuple):
    """One decision of the judge, with the fields it is based on."""

    item: Item
    label: str
    shown: tuple[tuple[str, str], ...]


def decisions(item: Item, response: Response, judged: Judged, of: Of) -> Iterator[Decision]:
    """The decisions on one reply at one level; what could not be read is no decision."""
    about = (("question", item.question), ("right answer", right_answer(item)))
    chain = (
        "chain",
        "\n".join(f"{n}. {' '.join(s.split())}" for n, s in enumerate(judged.steps, 1)),
    )
    if of == "answers" and judged.answer is not None:
        yield Decision(
            item, judged.answer.value.lower().replace(" ", "_"), (*about, ("reply", response.text))
        )
    if of == "steps":
        content = {s.id: f"({', '.join(s.types)}) {s.content}" for s in item.steps}
        for match in judged.matches or ():
            if match.label is not None:
                yield Decision(
                    item,
                    match.label.value.lower(),
                    (*about, ("reference step", content[match.step]), chain),
                )
    if of == "rubric":
        reference = ("reference steps", "\n".join(f"{s.id}. {s.content}" for s in item.steps))
        for row, mark in zip(item.full_rubric, judged.marks or (), strict=False):
            if mark.satisfied is not None:
                label = "yes" if mark.satisfied else "made_up" if mark.hallucination else "no"
                yield Decision(
                    item, label, (*about, reference, chain, ("to be marked", row.question))
                )


def meta_task(
    given: OpenedOutputs,
    judge: ChainJudge,
    out: Path,
    *,
    of: Of = "steps",
    n: int = 300,
    seed: int = 0,
    progress: Callable[[int], None] = lambda n: None,
) -> tuple[int, Path]:
    """Judge outputs, then write a task of the judge's decisions; returns how many, and the file of them as labels.

    Args:
        given: items, and the outputs of models.
        judge: that is evaluated.
        out: the task's folder.
        of: the level.
        n: most decisions, drawn by their hash.
        seed: of the draw and the order.
        progress: called with the number of chains judged.

    Raises:
        UsageError: the judge decided nothing at that level.
    """
    loaded = given.loaded
    found: dict[str, tuple[Decision, str]] = {}
    for model, replies in given.outputs.items():
        judged = judge_all(judge, loaded.items, replies, progress)
        for item in loaded.items:
            if item.id in judged:
                for one in decisions(item, replies[item.id], judged[item.id], of):
                    found.setdefault(digest([model, item.id, one.shown], 16), (one, model))
    if not found:
        raise UsageError(
            f"the judge decided nothing about {of}",
            cure="give items with reference steps, and --judge",
        )
    drawn = sorted(found, key=lambda id: seed_of(seed, "meta", id))[:n]
    shown = []
    for id in drawn:
        one, model = found[id]
        about = {"model": model, "item": one.item.id}
        images = pictures_of(one.item, out, loaded.root)
        shown.append(Shown(id=id, shown=one.shown, images=images, about=about))
    labels = tuple(Label(name=name, text=name.replace("_", " ")) for name in LABELS[of])
    task = Task(
        name=f"{of} of chains",
        labels=labels,
        rubric=RUBRICS[of],
        balance=("model",),
        seed=seed,
        bound={"judge": judge.id},
    )
    write_task(out, task, shown)
    rows = ({"item": id, "label": found[id][0].label, "annotator": judge.id} for id in drawn)
    write_atomic(
        out / JUDGED_AS, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    )
    return len(drawn), out / JUDGED_AS
