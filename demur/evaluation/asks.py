"""Writes a release's questions to a file, for systems that demur does not run; `answers:FILE` reads their answers."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.core.errors import UsageError
from demur.core.records import Ask, ImageRef, Modality, Record, Scenario
from demur.core.store import write_atomic, write_records
from demur.core.turns import as_messages
from demur.evaluation import questions
from demur.evaluation.options import RunOptions
from demur.release import Release


class AskedEvidence(Record):
    """One piece of a question's evidence."""

    id: str
    modality: Modality
    title: str
    text: str | None = None
    image: str | None = None
    """Path, relative to the file of questions; ``sha256:...`` if images were not written."""


class AskLine(Record):
    """One line of the file: a question."""

    ask: str
    """Id of the question; add an ``answer`` to answer it."""
    sample: str
    scenario: Scenario
    """Not for the system, like the next three."""
    recipe: str
    k: int
    """Distractors among the evidence."""
    condition: str
    repeat: int
    question: str
    choices: tuple[tuple[str, str], ...] = ()
    """(letter, text) of a multiple-choice question."""
    images: tuple[str, ...] = ()
    """Query images; paths as in `AskedEvidence`."""
    evidence: tuple[AskedEvidence, ...] = ()
    corpus: str = ""
    """Corpus that a system with its own retriever must search (full, gold-removed, empty); else ""."""
    exclude: tuple[str, ...] = ()
    """Ids in that corpus that the retriever must leave out."""
    turns: tuple[dict[str, str], ...] = ()
    """The conversation before the question, oldest first: ``{"role": "user" or "assistant", "content": ...}``."""


class Written(NamedTuple):
    """Counts of what was written."""

    asks: int
    samples: int
    images: int
    """Distinct images."""


def write_asks(
    release: Release, out: Path, options: RunOptions, images: Path | None = None
) -> Written:
    """Write the questions that `demur.evaluation.asking.ask` would ask.

    Args:
        release: opened.
        out: ``.jsonl``: one `AskLine` per line; ``.csv``: the same columns, lists as JSON.
        options: what is asked.
        images: folder for the images, each written once under its SHA-256; None writes none.

    Raises:
        UsageError: another ending, or no sample can be asked this way.
        StorageError: a file cannot be written.
    """
    if out.suffix.lower() not in (".jsonl", ".csv"):
        raise UsageError(
            f"{out.suffix or 'no ending'!r}", item=str(out), cure="end the name in .jsonl or .csv"
        )
    tasks = questions.tasks(options, list(release.samples()), release.sha256)
    written_images: set[str] = set()

    def place(ref: ImageRef) -> str:
        new = ref.sha256 not in written_images
        written_images.add(ref.sha256)
        if images is None:
            return f"sha256:{ref.sha256}"
        path = images / f"{ref.sha256[:32]}.{ref.media_type.rpartition('/')[2] or 'bin'}"
        if new:
            write_atomic(path, release.read_image(ref))
        return Path(os.path.relpath(path, out.parent)).as_posix()

    lines = (_line(task.ask, place) for task in tasks)
    if out.suffix.lower() == ".jsonl":
        write_records(out, lines)
    else:
        write_atomic(out, _csv(lines))
    return Written(len(tasks), len({t.ask.sample for t in tasks}), len(written_images))


def _line(ask: Ask, place: Callable[[ImageRef], str]) -> AskLine:
    return AskLine(
        ask=ask.id,
        sample=ask.sample,
        scenario=ask.scenario,
        recipe=ask.recipe,
        k=ask.k,
        condition=ask.condition,
        repeat=ask.repeat,
        question=ask.question,
        choices=ask.choices,
        images=tuple(map(place, ask.images)),
        evidence=tuple(
            AskedEvidence(
                id=e.id,
                modality=e.modality,
                title=e.title,
                text=e.text,
                image=place(e.image) if e.image else None,
            )
            for e in ask.evidence
        ),
        corpus=ask.corpus,
        exclude=ask.exclude,
        turns=tuple(as_messages(ask.turns)),
    )


def _csv(lines: Iterator[AskLine]) -> str:
    out = io.StringIO()
    names = list(AskLine.model_fields)
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    for line in lines:
        values = line.model_dump(mode="json")
        cells = [
            v if isinstance(v, str | int) else json.dumps(v, ensure_ascii=False)
            for v in values.values()
        ]
        table.writerow(cells)
    return out.getvalue()
