"""Building a set: each answerable question with a twin that lost its answer, checked, balanced, and explained.

    pool -> classify -> select -> `twins` -> items, queue/ for people, tables, manifest

Every decision is one line of ``decisions.jsonl``: a build that was killed resumes, and ends in the same bytes. Pairs
are made several at once, in waves of `WAVE`: which transformations come first is decided for a whole wave before any of
it is made, so that the set is the same however many calls are in flight. Twins that two models disagree on are in
``queue/`` for people (``demur annotate --out DIR/queue``); the next build takes those that people call unanswerable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from demur.core.errors import DataError, MissingExtra, UsageError
from demur.core.store import (
    JsonlLog,
    canonical,
    digest,
    read_json,
    write_atomic,
    write_json,
)
from demur.indexing.encoders import open_encoder
from demur.models.names import revision_of
from demur.reports.tables import Table, texts, write_tables
from demur_suites.mm_aqa.build.decisions import DECISIONS, Decision, read_decisions
from demur_suites.mm_aqa.build.models import Models
from demur_suites.mm_aqa.build.ocr import Reader
from demur_suites.mm_aqa.build.people import queue
from demur_suites.mm_aqa.build.pool import Answerable, Pool, open_pool
from demur_suites.mm_aqa.build.selecting import Selected, select
from demur_suites.mm_aqa.build.twins import Begun, Maker
from demur_suites.mm_aqa.items import CATEGORIES, NAMES, Item, category_of
from demur_suites.tables import table

RECIPE = "recipe.json"
WAVE = 16
"""Pairs whose first transformations are decided together, and most that are made at once; the set depends on it."""


class Options(NamedTuple):
    """`demur_suites.mm_aqa.suite.MMAQA.build_options`."""

    pool: str
    pairs: int
    rewriter: str
    verifier: str
    panel: str
    meaning: str
    ocr: str
    plan: bool
    concurrency: int
    budget: float


def build(out: Path, seed: int, options: Options) -> Path:
    """Make a set of items in ``out``; with ``plan`` only ``plan.json``.

    Raises:
        UsageError: the pool holds nothing usable, ``panel`` names other than two models, or ``out`` holds another set.
    """
    panel = tuple(m.strip() for m in options.panel.split(",") if m.strip())
    if len(panel) not in (0, 2):
        raise UsageError(
            f"the panel needs two models, not {len(panel)}",
            cure="name two, joined by a comma, or none",
        )
    pool = open_pool(options.pool, seed, work=out)
    questions = pool.questions[: options.pairs]
    models = Models(
        options.rewriter,
        options.verifier,
        panel,
        ledger=out / "calls.sqlite",
        budget=options.budget or None,
        concurrency=options.concurrency,
    )
    if options.plan:
        known = read_decisions(out)
        plan = models.planned([a for a in questions if a.id not in known])
        write_json(out / "plan.json", plan.model_dump(mode="json"))
        return out / "plan.json"
    kept = ("pool", "pairs", "rewriter", "verifier", "panel", "ocr")
    recipe = {"seed": seed, **{name: getattr(options, name) for name in kept}}
    recipe["questions"] = digest(_made_of(questions, models), 16)
    similar = None
    if options.rewriter:
        recipe["meaning"], similar = meaning_by(options.meaning)
    _same(out, recipe)
    reader = Reader(ocr=options.ocr == "yes")
    with models:
        write_json(out / RECIPE, recipe)  # not before: an address may be corrected
        others = {
            subset: tuple(
                (a.question, a.answers.display_form) for a in questions if a.subset == subset
            )
            for subset in NAMES
        }
        maker = Maker(out, seed, models, reader, others, similar)
        decisions = _decide(out, maker, questions)
    _finish(out, recipe, pool, decisions)
    return out


def meaning_by(name: str) -> tuple[str, Callable[[str, str], float] | None]:
    """How to compare the meaning of two questions: (name, cosine of their embeddings, or None for their words).

    Without a name the offline encoder, where its extra is installed.
    """
    if name == "words":
        return name, None
    try:
        encoder = open_encoder(name or "offline")
    except MissingExtra:
        if name:
            raise
        return "words", None

    def similar(first: str, second: str) -> float:
        a, b = encoder.texts([first, second], "text")
        return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-9))

    return encoder.name, similar


def _same(out: Path, recipe: Mapping[str, Any]) -> None:
    """Raise UsageError where the folder holds a set of another recipe."""
    old = read_json(out / RECIPE) if (out / RECIPE).is_file() else recipe
    if old != recipe:
        other = ", ".join(k for k in recipe if old.get(k) != recipe[k])
        raise UsageError(
            f"holds a set with other options ({other})", item=str(out), cure="choose another --out"
        )


def _made_of(questions: Sequence[Answerable], models: Models) -> list[Any]:
    """What decisions depend on: questions, answers and images, and the code of models."""
    pairs = [[a.id, a.question, a.answers.model_dump(mode="json"), a.seen] for a in questions]
    return [pairs, [revision_of(name) for name in models.names]]


def _decide(out: Path, maker: Maker, questions: Sequence[Answerable]) -> list[Decision]:
    """One decision a pair, in the order of the pool; earlier decisions are kept."""
    path, known = out / DECISIONS, read_decisions(out)
    decided: list[Decision] = []
    pool = ThreadPoolExecutor(min(maker.models.concurrency, WAVE), thread_name_prefix="mm-aqa")
    try:
        with JsonlLog(path) as log:
            for start in range(0, len(questions), WAVE):
                wave = questions[start : start + WAVE]
                new = pool.map(maker.begin, [a for a in wave if a.id not in known])
                ordered = _ordered(wave, {b.question.id: b for b in new}, known, decided)
                for decision in pool.map(lambda pair: maker.decide(*pair), ordered):
                    log.append(decision.line)
                    known[decision.pair] = decision
                decided += [known[a.id] for a in wave]
                maker.models.forget_images()
                _check_any_made(decided, maker.faults, ended=len(decided) == len(questions))
    finally:
        pool.shutdown(cancel_futures=True)
    write_atomic(path, "".join(canonical(d.line) + "\n" for d in decided))
    return decided


def _ordered(
    wave: Sequence[Answerable],
    begun: Mapping[str, Begun],
    known: Mapping[str, Decision],
    decided: Sequence[Decision],
) -> list[tuple[Begun, Selected]]:
    """What each new pair of a wave tries, by how often each transformation was used.

    In earlier waves as it was made, in this one as it was first chosen.
    """
    names = [d.transform for d in decided if d.transform]
    ordered = []
    for a in wave:
        if a.id in begun:
            selected = select(begun[a.id].features, names)
            ordered.append((begun[a.id], selected))
            first = selected.order[0].name if selected.order else ""
        else:
            first = known[a.id].first
        names += [first] if first else []
    return ordered


def _check_any_made(
    decided: Sequence[Decision], faults: Sequence[Exception], *, ended: bool
) -> None:
    """End a build of which every pair failed: as soon as demur itself was at fault, else when all were tried."""
    if (faults or ended) and all(d.status == "failed" for d in decided):
        raise DataError(
            f"all {len(decided)} pairs so far failed, the first: {'; '.join(decided[0].told)}",
            item=decided[0].pair,
            cure="correct the cause and run the same build again",
        ) from next(iter(faults), None)


def _finish(
    out: Path, recipe: Mapping[str, Any], pool: Pool, decisions: Sequence[Decision]
) -> None:
    """Items, queue, tables of what was rejected, manifest."""
    human = queue(out, [d for d in decisions if d.status == "human"])
    items: list[Item] = []
    for d in decisions:
        if not d.source_images:
            continue
        shared: dict[str, Any] = {
            "pair": d.pair,
            "subset": d.subset,
            "topic": d.topic,
            "licence": d.licence,
            "answers": d.answers,
        }
        items.append(Item(id=d.pair, question=d.source_question, images=d.source_images, **shared))
        by_people = d.status == "human" and human.get(d.pair) == "unanswerable"
        if by_people or d.status in ("accepted", "unchecked"):
            items.append(
                Item(
                    id=f"{d.pair}~{d.transform}",
                    question=d.question,
                    images=d.images,
                    transform=d.transform,
                    checked_by="people" if by_people else "panel" if d.status == "accepted" else "",
                    params=d.params,
                    explanation=d.told,
                    **shared,
                )
            )
    lines = "".join(canonical(i.model_dump(mode="json")) + "\n" for i in items)
    write_atomic(out / "items.jsonl", lines)
    write_tables([rejections(decisions, human)], out)
    failed = Counter("; ".join(d.told) for d in decisions if d.status == "failed")
    write_json(
        out / "manifest.json",
        {
            "suite": "mm_aqa",
            **recipe,
            "items": len(items),
            "decisions": dict(Counter(d.status for d in decisions)),
            "left_out": {**pool.left_out, **dict(failed.most_common(3))},
        },
    )


def rejections(decisions: Sequence[Decision], human: Mapping[str, str]) -> Table:
    """Attempts by category, and how many checks, self-verification and the panel rejected (appendix F)."""
    rows = []
    attempts = [(category_of(t.transform), t) for d in decisions for t in d.attempts]
    for category in CATEGORIES:
        tried = [t for c, t in attempts if c == category]
        voted = sum(t.verifier is not None and bool(t.why) and not t.panel for t in tried)
        panel = Counter(t.consensus for t in tried if t.panel)
        share = 100 * panel["rejected"] / panel.total() if panel else None
        unmade = sum(bool(t.why) and t.verifier is None and not t.panel for t in tried)
        counts = (
            len(tried),
            unmade,
            voted,
            panel.total(),
            panel["rejected"],
            share,
            panel["human"],
        )
        rows.append((category, *counts))
    status = Counter(d.status for d in decisions)
    return table(
        "mm-aqa-rejections",
        "Attempts and rejections by category.",
        (
            *texts("Category"),
            "Attempts",
            "not feasible",
            "by self-verification",
            "judged by two",
            "rejected",
            "rejected (%)",
            "to people",
        ),
        rows,
        f"{status['rejected']} of {len(decisions)} pairs have no twin, {status['failed']} failed; "
        f"{status['unchecked']} twins are unchecked: there was no panel. {status['human']} went to people, who called "
        f"{sum(v == 'unanswerable' for v in human.values())} unanswerable.",
    )
