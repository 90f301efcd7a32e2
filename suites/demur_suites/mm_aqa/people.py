"""Labels of people for a set: they settle the panel's disagreements, and check a blind sample.

The sample (``demur suite export``) holds, of each subset, twins in proportion to their categories, as many answerable
questions, and every twin that the panel called answerable, in an order that does not reveal which is which. Several
people label it (``demur annotate``), the majority counts; a second export writes a table of their labels.
Source: "MM-AQA", appendix F.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.core.records import AnswerSpec, ImageRef
from demur.core.store import Problems, digest, read_jsonl, seed_of, write_atomic, write_records
from demur.core.uris import read_image
from demur.judge.annotation.task import Item as Shown
from demur.judge.annotation.task import Label, Task, settle_labels, write_task
from demur.judge.measures.rates import share_of
from demur.reports.tables import Column, Table, texts, write_tables
from demur_suites.mm_aqa.conditions import text
from demur_suites.mm_aqa.items import CATEGORIES, NAMES, Item, category_of
from demur_suites.tables import table

LABELS = ("unanswerable", "answerable")


def with_choices(question: str, answers: AnswerSpec) -> str:
    """A question with its choices below it."""
    return question + "".join(f"\n({label}) {words}" for label, words in answers.choices)


def queue(out: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the queue in a set's folder, new pairs included; pair -> label that most people gave it, where one has."""
    if not rows:
        return {}
    items = []
    for row in rows:
        votes = tuple(
            (f"model {n}", f"{v['says']} ({v['confidence']}): {v['justification']}")
            for n, v in enumerate(row["attempts"][-1]["panel"], start=1)
        )
        about = {"pair": row["pair"], "category": category_of(row["transform"])}
        question = with_choices(row["question"], AnswerSpec.model_validate(row["answers"]))
        refs = [ImageRef.model_validate(r) for r in row["images"]]
        items.append(_shown(out / "queue", out, question, refs, about, votes))
    _filed(out / "queue", items, ("category",))
    pairs = {item.id: item.about["pair"] for item in items}
    return {
        pairs[id]: label for id, label in settle_labels(out / "queue").labels.items() if id in pairs
    }


def _shown(
    folder: Path,
    root: Path,
    question: str,
    refs: Sequence[ImageRef],
    about: dict[str, str],
    hidden: tuple[tuple[str, str], ...] = (),
) -> Shown:
    """An item of a labelling task, its images in the task's folder; its id is a hash of what people see."""
    id = digest(["mm_aqa", about["pair"], question, [ref.sha256 for ref in refs]], 12)
    names = []
    for n, ref in enumerate(refs):
        names.append(f"{digest([id, n], 12)}{Path(ref.uri).suffix}")
        if not (folder / "images" / names[-1]).is_file():
            write_atomic(folder / "images" / names[-1], read_image(ref, root))
    return Shown(
        id=id, shown=(("question", question),), images=tuple(names), hidden=hidden, about=about
    )


def _filed(folder: Path, items: Sequence[Shown], balance: tuple[str, ...]) -> None:
    if (folder / "task.json").is_file():
        write_records(folder / "items.jsonl", items)  # labels are filed by item: none is lost
        return
    labels = tuple(Label(name=name) for name in LABELS)
    task = Task(
        name="mm_aqa", labels=labels, rubric=text("rubric.v1.md"), balance=balance, repeats=0.0
    )
    write_task(folder, task, items)


# --- a blind sample ---------------------------------------------------------------------------------


def sample(items: Sequence[Item], root: Path, out: Path, *, people: int, seed: int) -> Path:
    """Write the sample, and the table of people's labels so far.

    Args:
        items: of the set.
        root: its folder.
        out: of the labelling task.
        people: twins of each subset.
        seed: of the draw.
    """
    chosen: list[Shown] = []
    for subset in NAMES:
        twins = [i for i in items if i.subset == subset and not i.answerable]
        drawn = proportional(twins, people, seed)
        others = sorted(
            (i for i in items if i.subset == subset and i.answerable),
            key=lambda i: _place(seed, i.id),
        )
        for i, kind in [
            *((i, "twin") for i in drawn),
            *((i, "answerable") for i in others[: len(drawn)]),
        ]:
            about = {
                "pair": i.pair,
                "kind": kind,
                "subset": subset,
                "category": category_of(i.transform),
            }
            chosen.append(_shown(out, root, with_choices(i.question, i.answers), i.images, about))
    chosen = list(
        {item.id: item for item in [*chosen, *_rejected(root, out)]}.values()
    )  # the same twin, made twice
    _filed(out, chosen, ("subset", "kind"))
    write_tables([labels_table(out, chosen)], out)
    return out


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


def _rejected(root: Path, out: Path) -> Iterable[Shown]:
    """Twins that both of the panel called answerable."""
    path = root / "decisions.jsonl"
    for _, row in read_jsonl(path, Problems()) if path.is_file() else ():
        for t in row["attempts"]:
            if t.get("consensus") == "rejected" and "question" in t:
                about = {
                    "pair": row["pair"],
                    "kind": "rejected twin",
                    "subset": row["subset"],
                    "category": category_of(t["transform"]),
                }
                question = with_choices(t["question"], AnswerSpec.model_validate(row["answers"]))
                yield _shown(
                    out, root, question, [ImageRef.model_validate(r) for r in t["images"]], about
                )


def labels_table(folder: Path, chosen: Sequence[Shown]) -> Table:
    """By subset, kind and category: how many twins people have labelled, and the majority's label."""
    came = settle_labels(folder)
    rows = []
    order = [*CATEGORIES, ""]
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for item in chosen:
        groups[item.about["subset"], item.about["kind"], item.about["category"]].append(item.id)
    for (subset, kind, category), ids in sorted(
        groups.items(), key=lambda g: (g[0][:2], order.index(g[0][2]))
    ):
        labels = [came.labels[id] for id in ids if id in came.labels]
        share = share_of("unanswerable", labels.count("unanswerable"), len(labels))
        rows.append((NAMES[subset], kind, category, len(ids), len(labels), share))  # type: ignore[index]
    return table(
        "mm-aqa-people",
        "People's labels of a blind sample.",
        (
            *texts("Subset", "Kind", "Category"),
            "drawn",
            "labelled",
            Column("unanswerable (%)", interval=True),
        ),
        rows,
        f"By majority of those who labelled. {len(came.open)} are open disagreements, of {len(came.cannot)} nobody "
        f"could tell, {came.unlabelled} have no label yet.",
    )
