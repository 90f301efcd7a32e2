"""A release's questions as a file, for systems that demur does not run; `answers:FILE` reads what they said."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Ask, ImageRef, Modality, Record, Scenario
from demur.core.store import storage_errors, write_atomic, write_records
from demur.core.turns import as_messages
from demur.evaluation.asking import drawn, tasks_of
from demur.release import Release
from demur.release.corpora import Corpora
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.contexts import Recipe


class AskedEvidence(Record):
    """One piece of evidence of a question, in the order in which it is shown."""

    id: str
    modality: Modality
    title: str
    text: str | None = None
    image: str | None = None
    """Path, relative to the file of questions; ``sha256:...`` where images were not written."""


class AskLine(Record):
    """One line of what `demur asks` writes: a question as a system is to be asked it."""

    ask: str
    """Id of the question: a row with this and an ``answer`` is its answer."""
    sample: str
    scenario: Scenario
    """Not for the system to see, like the three that follow."""
    recipe: str
    k: int
    """Distractors among the evidence."""
    condition: str
    repeat: int
    question: str
    choices: tuple[tuple[str, str], ...] = ()
    """(letter, text) of a multiple-choice question."""
    images: tuple[str, ...] = ()
    """What the question is about; paths as in `AskedEvidence`."""
    evidence: tuple[AskedEvidence, ...] = ()
    corpus: str = ""
    """Of a system with a retriever of its own: the corpus to search (full, gold-removed, empty); "" where evidence is
    shown."""
    exclude: tuple[str, ...] = ()
    """Ids of that corpus that are not to be retrieved for it."""
    turns: tuple[dict[str, str], ...] = ()
    """What was said before the question, oldest first: ``{"role": "user" or "assistant", "content": ...}``."""


class Written(NamedTuple):
    """What was written."""

    asks: int
    samples: int
    images: int
    """Different images among them."""


def write_asks(
    release: Release,
    out: Path,
    *,
    recipes: Sequence[Recipe],
    conditions: Sequence[Condition],
    images: Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    repeat: int = 1,
    text_only: bool = False,
    corpora: Path | None = None,
    prompts: Prompts | None = None,
) -> Written:
    """Write the questions that `demur.evaluation.asking.ask` would ask with the same arguments.

    Args:
        release: opened.
        out: ``.jsonl``: one `AskLine` per line; ``.csv``: the same columns, lists as JSON.
        recipes: context sets.
        conditions: prompting conditions.
        images: folder that the images are written to, each once, by its SHA-256; None writes none.
        seed: as for `ask`.
        limit: as for `ask`.
        repeat: as for `ask`.
        text_only: as for `ask`.
        corpora: as for `ask`.
        prompts: the package's when None; they are part of a question's identity.

    Raises:
        UsageError: neither of these endings, or no sample can be asked this way.
        StorageError: something cannot be written.
    """
    if out.suffix.lower() not in (".jsonl", ".csv"):
        raise UsageError(f"{out.suffix or 'no ending'!r}", item=str(out), cure="end the name in .jsonl or .csv")
    samples = drawn(list(release.samples()), limit, seed, text_only=text_only)
    tasks = tasks_of(samples, recipes, conditions, prompts or Prompts(), seed, repeat,
                     None if corpora is None else Corpora(corpora, release.sha256))  # fmt: skip
    seen: set[str] = set()

    def place(ref: ImageRef) -> str:
        new = ref.sha256 not in seen
        seen.add(ref.sha256)
        if images is None:
            return f"sha256:{ref.sha256}"
        path = images / f"{ref.sha256[:32]}.{ref.media_type.rpartition('/')[2] or 'bin'}"
        if new and not _there(path, ref):
            write_atomic(path, release.read_image(ref))
        return Path(os.path.relpath(path, out.parent)).as_posix()

    lines = (_line(task.ask, place) for task in tasks)
    if out.suffix.lower() == ".jsonl":
        write_records(out, lines)
    else:
        write_atomic(out, _csv(lines))
    return Written(len(tasks), len({t.ask.sample for t in tasks}), len(seen))


def _there(path: Path, ref: ImageRef) -> bool:
    with storage_errors(path):
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == ref.sha256


def _line(ask: Ask, place: Callable[[ImageRef], str]) -> AskLine:
    return AskLine(
        ask=ask.id, sample=ask.sample, scenario=ask.scenario, recipe=ask.recipe, k=ask.k, condition=ask.condition,
        repeat=ask.repeat, question=ask.question, choices=ask.choices, images=tuple(map(place, ask.images)),
        evidence=tuple(
            AskedEvidence(
                id=e.id, modality=e.modality, title=e.title, text=e.text, image=place(e.image) if e.image else None
            )
            for e in ask.evidence
        ),
        corpus=ask.corpus, exclude=ask.exclude,
        turns=tuple(as_messages(ask.turns)),
    )  # fmt: skip


def _csv(lines: Iterator[AskLine]) -> str:
    out = io.StringIO()
    names = list(AskLine.model_fields)
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    for line in lines:
        values = line.model_dump(mode="json")
        cells = [v if isinstance(v, str | int) else json.dumps(v, ensure_ascii=False) for v in values.values()]
        table.writerow(cells)
    return out.getvalue()
