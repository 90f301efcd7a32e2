"""Does the judge of chains decide as people do? A labelling task of its decisions (`demur_suites.labelling`).

People see questions, chains and reference steps without the judge's decision. The sample is drawn from all decisions
alike, so agreement is that of ordinary use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Response
from demur.core.store import digest, seed_of
from demur.judge.annotation.task import Label, Task
from demur_suites.labelling import Question, file_questions
from demur_suites.mm_thebench.items import Item
from demur_suites.mm_thebench.judging import right_answer
from demur_suites.mm_thebench.measures import Judged
from demur_suites.scoring import Result

Of = Literal["steps", "answers", "rubric"]


class Asked(NamedTuple):
    """Labels and rubric of one level."""

    labels: tuple[str, ...]
    rubric: str


ASKED: dict[Of, Asked] = {
    "steps": Asked(
        ("match", "partial", "mismatch"),
        """Is the reference step among the steps of the chain?
match: one of them says the same, or comes to the same result by the same kind of act, and is right.
partial: one of them says a part of it, or says it with a smaller mistake.
mismatch: none does, or those that try are wrong.""",
    ),
    "answers": Asked(
        ("match", "partial", "mismatch", "no_answer"),
        """How does the answer that the reply ends with compare with the right one?
match: the same thing or value, however written. partial: a part is missing, or something wrong stands beside it.
mismatch: something else. no answer: it ends without naming anything.""",
    ),
    "rubric": Asked(
        ("yes", "no", "made_up"),
        """Does the chain do fully and rightly what the question asks for?
yes: it does. no: it leaves it out. made up: it states something on it that is not so.""",
    ),
}


def decisions(
    item: Item, response: Response, judged: Judged, of: Of
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """(label, what it is based on) of each decision at one level; what could not be read is no decision."""
    about = (("question", item.question), ("right answer", right_answer(item)))
    lines = (f"{n}. {' '.join(s.split())}" for n, s in enumerate(judged.steps, 1))
    chain = ("chain", "\n".join(lines))
    if of == "answers" and judged.answer is not None:
        label = judged.answer.value.lower().replace(" ", "_")
        yield label, (*about, ("reply", response.text))
    if of == "steps":
        content = {s.id: f"({', '.join(s.types)}) {s.content}" for s in item.steps}
        for match in judged.matches or ():
            if match.label is not None:
                step = ("reference step", content[match.step])
                yield match.label.value.lower(), (*about, step, chain)
    if of == "rubric":
        reference = ("reference steps", "\n".join(f"{s.id}. {s.content}" for s in item.steps))
        for row, mark in zip(item.full_rubric, judged.marks or (), strict=False):
            if mark.satisfied is not None:
                label = "yes" if mark.satisfied else "made_up" if mark.hallucination else "no"
                yield label, (*about, reference, chain, ("to be marked", row.question))


def meta_task(
    results: Sequence[Result], root: Path, out: Path, *, of: Of, n: int, seed: int
) -> Path:
    """File a draw of what a judge decided at one level.

    Args:
        results: of the models, graded by the judge.
        root: folder that image paths are relative to.
        out: folder of the task.
        of: the level.
        n: decisions to draw.
        seed: of the draw.

    Raises:
        UsageError: the judge decided nothing at that level.
    """
    questions: dict[str, Question] = {}
    for model, scored, score in results:
        replies = {s.question.id: s.response for s in scored}
        for item, judged in score.pairs:
            response = replies[item.id]
            for label, shown in decisions(item, response, judged, of) if response else ():
                key = digest([model, item.id, shown], 16)
                about = {"model": model, "item": item.id}
                questions[key] = Question(key, shown, item.pictures, (), about, label)
    if not questions:
        raise UsageError(
            f"the judge decided nothing about {of}",
            cure="give --outputs of systems, items with reference steps, and --judge",
        )
    labels = tuple(Label(name=name, text=name.replace("_", " ")) for name in ASKED[of].labels)
    judge = results[0].score.judge
    task = Task(
        name=f"{of} of chains",
        labels=labels,
        rubric=ASKED[of].rubric,
        balance=("model",),
        seed=seed,
        bound={"judge": judge},
    )
    drawn = sorted(questions, key=lambda key: seed_of(seed, "meta", key))[:n]
    file_questions(out, root, task, [questions[key] for key in drawn], judge)
    return out
