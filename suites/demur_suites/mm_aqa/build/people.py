"""What people decide of a set: the twins that the panel disagrees on, and a blind sample of both kinds of question.

Source: "MM-AQA", appendix F.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from demur.core.records import AnswerSpec
from demur.core.store import seed_of
from demur.judge.annotation.task import Label, Task
from demur_suites.labelling import Question, file_questions
from demur_suites.mm_aqa.build.decisions import Decision
from demur_suites.mm_aqa.conditions import text
from demur_suites.mm_aqa.items import NAMES, Item, category_of

LABELS = ("unanswerable", "answerable")


def with_choices(question: str, answers: AnswerSpec) -> str:
    """A question with its choices below it."""
    return question + "".join(f"\n({label}) {words}" for label, words in answers.choices)


def _task(*balance: str) -> Task:
    labels = tuple(Label(name=name) for name in LABELS)
    return Task(
        name="mm_aqa", labels=labels, rubric=text("rubric.v1.md"), balance=balance, repeats=0.0
    )


def queue(out: Path, decisions: Sequence[Decision]) -> dict[str, str]:
    """File twins in a set's ``queue/``; pair -> label that most people gave it, where one has."""
    questions = []
    for d in decisions:
        votes = tuple(
            (f"model {n}", f"{v.says} ({v.confidence}): {v.justification}")
            for n, v in enumerate(d.attempts[-1].panel, start=1)
        )
        shown = (("question", with_choices(d.question, d.answers)),)
        about = {"category": category_of(d.transform)}
        questions.append(Question(d.pair, shown, d.images, votes, about))
    return file_questions(out / "queue", out, _task("category"), questions) if decisions else {}


def sample(
    items: Sequence[Item],
    decisions: Sequence[Decision],
    root: Path,
    out: Path,
    people: int,
    seed: int,
) -> Path:
    """File a blind sample: twins of each subset in proportion to their categories, and as many answerable questions.

    Beside them stand the twins that both of the panel called answerable.

    Args:
        items: of the set.
        decisions: of its build, as far as it is known.
        root: its folder.
        out: of the labelling task.
        people: twins of each subset.
        seed: of the draw.
    """
    questions = []
    for subset in NAMES:
        twins = [i for i in items if i.subset == subset and not i.answerable]
        others = [i for i in items if i.subset == subset and i.answerable]
        others.sort(key=lambda i: _place(seed, i.id))
        drawn = proportional(twins, people, seed)
        for i in (*drawn, *others[: len(drawn)]):
            about = {"subset": subset, "category": category_of(i.transform)}
            shown = (("question", with_choices(i.question, i.answers)),)
            questions.append(Question(i.id, shown, i.images, (), about, LABELS[i.answerable]))
    questions += _rejected(decisions)
    file_questions(out, root, _task("subset", "category"), questions)
    return out


def _rejected(decisions: Sequence[Decision]) -> Iterator[Question]:
    """Twins that both of the panel called answerable."""
    for d in decisions:
        for n, t in enumerate(d.attempts):
            if t.consensus == "rejected":
                shown = (("question", with_choices(t.question, d.answers)),)
                about = {"subset": d.subset, "category": category_of(t.transform)}
                yield Question(f"{d.pair}#{n}", shown, t.images, (), about, "answerable")


def _place(seed: int, id: str) -> int:
    return seed_of(seed, "people", id)


def proportional(twins: Sequence[Item], many: int, seed: int) -> list[Item]:
    """``many`` twins, each category in proportion, the largest remainders first."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for twin in sorted(twins, key=lambda i: _place(seed, i.id)):
        groups[category_of(twin.transform)].append(twin)
    many = min(many, len(twins))
    due = {name: many * len(group) / len(twins) for name, group in groups.items()}
    taken = {name: int(share) for name, share in due.items()}
    for name in sorted(due, key=lambda n: (taken[n] - due[n], n))[: many - sum(taken.values())]:
        taken[name] += 1
    return [twin for name, group in groups.items() for twin in group[: taken[name]]]
