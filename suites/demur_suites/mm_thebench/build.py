"""Making a set: items with frames of their videos, and drafts of the steps and rubrics that they lack.

    items -> frames of videos -> drafts by a model -> queue/ for people -> the same build again takes their labels

Without items of one's own these are the Atlas items: questions of the sample corpus with reference steps and a rubric,
written for demur; `data/atlas.jsonl` names the reviewer of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from demur.core.errors import DataError
from demur.core.records import ImageRef
from demur.core.store import Problems, digest, read_records, why_invalid, write_json
from demur.core.uris import read_image
from demur.judge.annotation.task import Label, Task, annotators
from demur.judge.base import JudgeContext
from demur.models import Budget
from demur.models.run import run_sync
from demur.sample import atlas as corpus
from demur_suites.grading import at_once
from demur_suites.labelling import Question, file_questions
from demur_suites.mm_thebench.items import SUBCATEGORIES, Item, plain_names, read, write_items
from demur_suites.mm_thebench.judging import ChainJudge, right_answer
from demur_suites.mm_thebench.video import with_frames

DRAFT_TOKENS = 2_048
AT_ONCE = 16
"""Items drafted at once; the model's endpoint has a limit of its own."""
SOUND, UNSOUND, TOO_COMPLEX = "sound", "unsound", "too_complex"
RUBRIC = """Look at the question, the right answer and the picture, then at each step in turn.
sound: every step is right, needed, in order and of the kinds that it names; no step is missing; every rubric item can \
be answered from a chain of thought alone and stands under the right dimension and subcategory.
unsound: something is wrong. Say what in the note; correct the item and build again.
too complex: after five minutes you cannot tell, or the question itself is wrong or ambiguous."""


def atlas() -> list[Item]:
    """The items that come with demur."""
    problems = Problems()
    place = Path(str(files(__package__).joinpath("data", "atlas.jsonl")))
    items = list(read_records(place, Item, problems))
    problems.settle()
    return items


def build(
    out: Path, *, items: str, drafter: str, ledger: str, concurrency: int, budget: float
) -> Path:
    """Make a set in ``out``; see `demur_suites.mm_thebench.suite.MMTheBench.build_options`.

    Raises:
        BadInput: items that are bad.
        DataError: no draft of the drafter's is usable.
    """
    if items:
        problems = Problems()
        loaded = read(Path(items), problems)
        problems.settle()
        listed, root = list(loaded.items), loaded.root
    else:
        listed, root = atlas(), corpus()
    sampled, left_out = with_frames(listed, root, out)
    write_items(out, sampled, root)
    bare = [i for i in sampled if not (i.steps and i.rubric)]
    if drafter and bare:
        calls = Path(ledger) if ledger else out / "calls.sqlite"
        bound = Budget(budget, calls, "drafts") if budget else None
        seen = "" if "?images=" in drafter else "?images=yes"
        context = JudgeContext(calls, concurrency, bound, read_image=lambda r: read_image(r, out))
        drafted, failed = draft(ChainJudge(drafter + seen, context), _with_pictures(out))
        if len(failed) == len(bare):
            id, why = next(iter(failed.items()))
            raise DataError(
                f"none of {len(bare)} drafts can be used: {why}",
                item=id,
                cure="name a stronger drafter",
            )
        left_out |= {id: f"no draft: {why}" for id, why in failed.items()}
        sampled = drafted
    reviewed, states = _reviewed(out, sampled)
    write_items(out, reviewed, out)
    write_json(
        out / "manifest.json",
        {
            "suite": "mm_thebench",
            "source": items or "atlas",
            "drafter": drafter,
            "items": len(reviewed),
            "items_sha256": digest([i.model_dump(mode="json") for i in reviewed], 64),
            "decisions": dict(states),
            "left_out": dict(Counter(left_out.values())),
        },
    )
    return out


def _with_pictures(out: Path) -> tuple[Item, ...]:
    problems = Problems()
    loaded = read(out, problems)
    problems.settle()
    return loaded.items


def draft(judge: ChainJudge, items: Sequence[Item]) -> tuple[list[Item], dict[str, str]]:
    """Let a model write the steps and rubrics that items lack; (items, item -> why its reply is no draft)."""
    kinds = "\n".join(f"{d.value}: {', '.join(subs)}" for d, subs in SUBCATEGORIES.items())
    failed: dict[str, str] = {}

    async def drafted(item: Item) -> Item:
        if item.steps and item.rubric:
            return item
        notes: set[str] = set()
        reply = await judge.reply(
            "draft-rubric" if item.steps else "draft",
            item.id,
            DRAFT_TOKENS,
            notes,
            pictures=item.pictures,
            question=item.question,
            answer=right_answer(item),
            kinds=kinds,
            steps=steps_of(item),
        )
        if not isinstance(reply, dict):
            failed[item.id] = "; ".join(sorted(notes)) or "the reply is not a JSON object"
            return item
        wrote = {name: reply.get(name) for name in ("steps", "rubric") if not getattr(item, name)}
        try:
            made = {**item.model_dump(), **wrote, "reviewed_by": ""}
            return Item.model_validate(plain_names(made, Counter()))
        except ValidationError as error:
            failed[item.id] = why_invalid(error)
            return item

    async def all_drafted() -> list[Item]:
        try:
            return await at_once([drafted(i) for i in items], AT_ONCE)
        finally:
            await judge.close()

    return run_sync(all_drafted()), failed


def steps_of(item: Item) -> str:
    """An item's steps in lines."""
    return "\n".join(
        f"{s.id}. ({', '.join(s.types)}{'' if s.necessary else '; can be left out'}) {s.content}"
        for s in item.steps
    )


def _reviewed(out: Path, items: Sequence[Item]) -> tuple[list[Item], Counter[str]]:
    """Items as people reviewed them; those that nobody has are in ``queue/``."""
    drafts = {i.id: i for i in items if i.steps and not i.reviewed_by}
    states = Counter(
        "reviewed" if i.steps else "without steps" for i in items if i.id not in drafts
    )
    if not drafts:
        return list(items), states
    labels = tuple(Label(name=name) for name in (SOUND, UNSOUND, TOO_COMPLEX))
    task = Task(name="steps and rubrics", labels=labels, rubric=RUBRIC, repeats=0.0)
    pictures: dict[str, tuple[ImageRef, ...]] = {i.id: i.pictures for i in _with_pictures(out)}
    questions = []
    for item in drafts.values():
        rubric = "\n".join(
            f"- [{r.dimension}, {r.subcategory}, {r.points} points] {r.question}"
            for r in item.rubric
        )
        about = (("question", item.question), ("right answer", right_answer(item)))
        shown = (*about, ("steps", steps_of(item)), ("rubric", rubric))
        questions.append(Question(item.id, shown, pictures[item.id]))
    settled = file_questions(out / "queue", out, task, questions)
    update: dict[str, dict[str, object]] = {
        SOUND: {"reviewed_by": ", ".join(annotators(out / "queue")), "too_complex": False},
        TOO_COMPLEX: {"too_complex": True},
    }
    states.update(settled.get(id, "not reviewed yet") for id in drafts)
    return [i.model_copy(update=update.get(settled.get(i.id, ""), {})) for i in items], states
