"""What the judge of chains decided, as a labelling task for its meta-evaluation: do people decide alike?

The folder is one of `demur annotate page`: questions, chains and reference steps without the judge's word. That lies in
``judge.jsonl`` beside them, so that ``demur agree FOLDER FOLDER/judge.jsonl`` compares people with each other and with
the judge. Drawn are the judge's decisions as they fall, so that agreement is that of its daily work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Response
from demur.core.store import digest, seed_of, write_atomic
from demur.core.uris import read_image
from demur.judge.annotation.task import Item as Shown
from demur.judge.annotation.task import Label, Task, write_task
from demur.suites.mm_thebench.annotating import pictures_of
from demur.suites.mm_thebench.items import Item
from demur.suites.mm_thebench.judging import ChainJudge, judge_all, right
from demur.suites.mm_thebench.measures import Judged
from demur.suites.outputs import Scored

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
    """One decision of the judge, and what it was made from."""

    item: Item
    label: str
    shown: tuple[tuple[str, str], ...]


def decisions(item: Item, response: Response, judged: Judged, of: Of) -> Iterator[Decision]:
    """What was decided of one reply at one level; what could not be read is no decision."""
    about = (("question", item.question), ("right answer", right(item)))
    chain = ("chain", "\n".join(f"{n}. {' '.join(s.split())}" for n, s in enumerate(judged.steps, 1)))
    if of == "answers" and judged.answer is not None:
        yield Decision(item, judged.answer.value.lower().replace(" ", "_"), (*about, ("reply", response.text)))
    if of == "steps":
        content = {s.id: f"({', '.join(s.types)}) {s.content}" for s in item.steps}
        for match in judged.matches or ():
            if match.label is not None:
                yield Decision(
                    item, match.label.value.lower(), (*about, ("reference step", content[match.step]), chain)
                )
    if of == "rubric":
        reference = ("reference steps", "\n".join(f"{s.id}. {s.content}" for s in item.steps))
        for row, mark in zip(item.full_rubric, judged.marks or (), strict=False):
            if mark.satisfied is not None:
                said = "yes" if mark.satisfied else "made_up" if mark.hallucination else "no"
                yield Decision(item, said, (*about, reference, chain, ("to be marked", row.question)))


class MetaTask(NamedTuple):
    """A labelling task of what a judge decided."""

    decisions: int
    judge: Path
    """What the judge said, as labels, for `demur agree`."""


def judged_task(
    found: Scored,
    judge: ChainJudge,
    out: Path,
    *,
    of: Of = "steps",
    n: int = 300,
    seed: int = 0,
    progress: Callable[[int], None] = lambda n: None,
) -> MetaTask:
    """Judge outputs, then write the task of `meta_task`; the arguments are its own."""
    judged = {model: judge_all(judge, found.loaded.items, said, progress) for model, said in found.outputs.items()}
    written = meta_task(
        found.loaded.items, found.outputs, judged, out, lambda ref: read_image(ref, found.loaded.root),
        judge=judge.id, of=of, n=n, seed=seed,
    )  # fmt: skip
    return MetaTask(written, out / JUDGED_AS)


def meta_task(
    items: Sequence[Item],
    outputs: Mapping[str, Mapping[str, Response]],
    judged: Mapping[str, Mapping[str, Judged]],
    out: Path,
    read: Callable[[Any], bytes],
    *,
    judge: str,
    of: Of = "steps",
    n: int = 300,
    seed: int = 0,
) -> int:
    """Write the task; returns how many decisions are in it.

    Args:
        items: of the suite.
        outputs: model -> item -> reply.
        judged: model -> item -> what the judge said.
        out: the task's folder.
        read: bytes of an item's picture.
        judge: who decided.
        of: the level.
        n: decisions at the most, drawn by their hash.
        seed: of the draw and the order.

    Raises:
        UsageError: the judge decided nothing at that level.
    """
    found: dict[str, tuple[Decision, str]] = {}
    for model, replies in judged.items():
        for item in items:
            if item.id in replies:
                for one in decisions(item, outputs[model][item.id], replies[item.id], of):
                    found.setdefault(digest([model, item.id, one.shown], 16), (one, model))
    if not found:
        raise UsageError(f"the judge decided nothing about {of}", cure="give items with reference steps, and --judge")
    drawn = sorted(found, key=lambda id: seed_of(seed, "meta", id))[:n]
    shown = []
    for id in drawn:
        one, model = found[id]
        about = {"model": model, "item": one.item.id}
        shown.append(Shown(id=id, shown=one.shown, images=pictures_of(one.item, out, read), about=about))
    labels = tuple(Label(name=name, text=name.replace("_", " ")) for name in LABELS[of])
    task = Task(
        name=f"{of} of chains", labels=labels, rubric=RUBRICS[of], balance=("model",), seed=seed, bound={"judge": judge}
    )
    write_task(out, task, shown)
    rows = ({"item": id, "label": found[id][0].label, "annotator": judge} for id in drawn)
    write_atomic(out / JUDGED_AS, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(drawn)
