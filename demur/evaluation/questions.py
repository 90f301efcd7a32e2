"""Which questions of a release are asked: samples x scenarios x conditions x repeats."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Sample, Scenario
from demur.core.store import file_digest, seed_of
from demur.evaluation.run_folder import Task
from demur.release import Release
from demur.release.corpora import Corpora
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.contexts import Recipe, contexts
from demur.scenarios.render import ask

MAX_QUESTIONS = 20_000_000
"""Most questions of a command; the tasks of more would fill the memory."""


class Questions(NamedTuple):
    """What is asked of every system, and how the questions are drawn.

    Attributes:
        recipes: context sets.
        conditions: prompting conditions.
        seed: of every random choice.
        limit: number of samples, drawn by the seed; None for all.
        text_only: draw only samples that a text-only model can be asked in every scenario.
        repeat: independent answers to each question.
        corpora: folder written by `demur.release.corpora.export`, for the scenarios full, gold-removed and empty.
            Without it, gold-removed excludes the gold alone, and asks also where other documents state the answer.
        prompts: texts; the package's if None.
    """

    recipes: Sequence[Recipe]
    conditions: Sequence[Condition]
    seed: int = 0
    limit: int | None = None
    text_only: bool = False
    repeat: int = 1
    corpora: Path | None = None
    prompts: Prompts | None = None

    def drawn(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples that are asked, in the order of the release.

        Raises:
            UsageError: ``limit`` is below 1.
        """
        if self.limit is not None and self.limit < 1:
            raise UsageError(
                f"limit must be at least 1, not {self.limit}", cure="leave it out to ask all"
            )
        possible = [
            s
            for s in samples
            if not self.text_only or not (s.images or any(e.image for e in s.gold))
        ]
        if self.limit is None or self.limit >= len(possible):
            return possible
        chosen = {
            s.id for s in random.Random(seed_of(self.seed, "limit")).sample(possible, self.limit)
        }
        return [s for s in possible if s.id in chosen]

    def tasks(self, samples: Sequence[Sample], release_sha256: str = "") -> list[Task]:
        """Every task, sample by sample: asks with the same images and evidence are neighbours, for the server's cache.

        Args:
            samples: of the release.
            release_sha256: checked against that of the corpora.

        Raises:
            UsageError: no sample can be asked this way, or ``limit`` or ``repeat`` is below 1.
            DataError: the corpora are of another release.
        """
        if self.repeat < 1:
            raise UsageError(f"repeat {self.repeat}", cure="give 1 or more")
        samples = self.drawn(samples)
        sizes = (len(samples), len(self.recipes), len(self.conditions), self.repeat)
        total = sizes[0] * sizes[1] * sizes[2] * sizes[3]
        if total > MAX_QUESTIONS:
            raise UsageError(
                "{:,} samples in {:,} scenarios, {:,} conditions and {:,} repeats".format(*sizes)
                + f" are {total:,} questions, more than {MAX_QUESTIONS:,}",
                cure="ask a part: --limit, fewer scenarios, fewer repeats",
            )
        corpora = None if self.corpora is None else Corpora.open(self.corpora, release_sha256)
        tasks = list({task.ask.id: task for task in self._tasks(samples, corpora)}.values())
        if not tasks:
            raise UsageError(
                "no sample of the release can be asked this way",
                item=", ".join(map(str, self.recipes)),
                cure="choose other scenarios, fewer distractors or another modality",
            )
        return tasks

    def _tasks(self, samples: Sequence[Sample], corpora: Corpora | None) -> Iterator[Task]:
        """The tasks; one that several recipes give (a sweep and the four scenarios) comes several times."""
        prompts = self.prompts or Prompts()
        for sample, context in contexts(samples, self.recipes, self.seed):
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
            for condition in self.conditions:
                for number in range(self.repeat):
                    yield Task(
                        sample,
                        context,
                        ask(sample, context, condition, prompts, number, exclude),
                    )

    def about(self, release: Release) -> dict[str, Any]:
        """The part of a run's manifest that states its questions."""
        prompts = self.prompts or Prompts()
        return {
            "release": {"name": release.name, "version": release.version, "sha256": release.sha256},
            "seed": self.seed,
            "limit": self.limit,
            "recipes": [str(r) for r in self.recipes],
            "conditions": [str(c) for c in self.conditions],
            **(
                {}
                if self.corpora is None
                else {"corpora": file_digest(self.corpora / "corpora.json")}
            ),
            "prompts": {str(c): prompts.used(c) for c in self.conditions},
            **({"repeat": self.repeat} if self.repeat > 1 else {}),
        }
