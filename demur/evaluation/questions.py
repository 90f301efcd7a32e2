"""Which questions of a release are asked: samples x scenarios x conditions x repeats."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from demur.core.errors import UsageError
from demur.core.records import Sample, Scenario
from demur.core.store import file_digest, seed_of
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.release import Release
from demur.release.corpora import Corpora
from demur.scenarios.contexts import Recipe, contexts
from demur.scenarios.contexts import context as context_of
from demur.scenarios.render import ask

MAX_QUESTIONS = 20_000_000
"""Most questions of a command; the tasks of more would fill the memory."""


def drawn(options: RunOptions, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that are asked, in the order of the release.

    Raises:
        UsageError: ``limit`` is below 1.
    """
    if options.limit is not None and options.limit < 1:
        raise UsageError(
            f"limit must be at least 1, not {options.limit}", cure="leave it out to ask all"
        )
    possible = [
        s
        for s in samples
        if not options.text_only or not (s.images or any(e.image for e in s.gold))
    ]
    if options.limit is None or options.limit >= len(possible):
        return possible
    random_order = random.Random(seed_of(options.seed, "limit"))
    chosen = {s.id for s in random_order.sample(possible, options.limit)}
    return [s for s in possible if s.id in chosen]


def tasks(options: RunOptions, samples: Sequence[Sample], release_sha256: str = "") -> list[Task]:
    """Every task, sample by sample: asks with the same images and evidence are neighbours, for the server's cache.

    Args:
        options: what is asked.
        samples: of the release.
        release_sha256: checked against that of the corpora.

    Raises:
        UsageError: no sample can be asked this way, or ``limit`` or ``repeat`` is below 1.
        DataError: the corpora are of another release.
    """
    if options.repeat < 1:
        raise UsageError(f"repeat {options.repeat}", cure="give 1 or more")
    samples = drawn(options, samples)
    sizes = (len(samples), len(options.recipes), len(options.conditions), options.repeat)
    total = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    if total > MAX_QUESTIONS:
        raise UsageError(
            "{:,} samples in {:,} scenarios, {:,} conditions and {:,} repeats".format(*sizes)
            + f" are {total:,} questions, more than {MAX_QUESTIONS:,}",
            cure="ask a part: --limit, fewer scenarios, fewer repeats",
        )
    corpora = None if options.corpora is None else Corpora.open(options.corpora, release_sha256)
    task_of_ask = {task.ask.id: task for task in _tasks(options, samples, corpora)}
    if not task_of_ask:
        raise UsageError(
            "no sample of the release can be asked this way",
            item=", ".join(map(str, options.recipes)),
            cure="choose other scenarios, fewer distractors or another modality",
        )
    return list(task_of_ask.values())


def _tasks(
    options: RunOptions, samples: Sequence[Sample], corpora: Corpora | None
) -> Iterator[Task]:
    """The tasks; one that several recipes give (a sweep and the four scenarios) comes several times."""
    prompts = options.prompt_texts
    for sample, context in contexts(samples, options.recipes, options.seed):
        exclude: tuple[str, ...] = ()
        if context.scenario is Scenario.GOLD_REMOVED:
            if corpora is not None and corpora.stated.get(sample.id):
                continue  # the answer is still in the corpus
            names_of_gold = dict.fromkeys(
                name for e in sample.gold for name in (e.id, e.document, e.page) if name
            )
            exclude = (
                tuple(names_of_gold) if corpora is None else corpora.excluded.get(sample.id, ())
            )
        for condition in options.conditions:
            for number in range(options.repeat):
                yield Task(
                    sample,
                    context,
                    ask(sample, context, condition, prompts, number, exclude),
                )


def left_out(options: RunOptions, samples: Sequence[Sample]) -> list[str]:
    """Scenarios that leave samples out, because no k of their distractors have every kind that gold has."""
    notes = []
    possible = [s for s in drawn(options, samples) if s.gold and s.negatives]
    for recipe in options.recipes:
        if recipe.k and recipe == Recipe(recipe.scenario, recipe.k, recipe.pick, recipe.order):
            missing = sum(context_of(s, recipe, options.seed) is None for s in possible)
            if missing:
                notes.append(
                    f"{recipe}: {missing:,} of {len(possible):,} samples are left out: the kinds shown, text or picture, "
                    "would tell where gold is (negatives=text or image asks them all the same)"
                )
    return notes


def about(options: RunOptions, release: Release) -> dict[str, Any]:
    """The part of a run's manifest that states its questions."""
    prompts = options.prompt_texts
    return {
        "release": {"name": release.name, "version": release.version, "sha256": release.sha256},
        "seed": options.seed,
        "limit": options.limit,
        "recipes": [str(r) for r in options.recipes],
        "conditions": [str(c) for c in options.conditions],
        **(
            {}
            if options.corpora is None
            else {"corpora": file_digest(options.corpora / "corpora.json")}
        ),
        "prompts": {str(c): prompts.used(c) for c in options.conditions},
        **({"repeat": options.repeat} if options.repeat > 1 else {}),
    }
