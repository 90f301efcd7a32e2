"""Check a source: read it once and report everything that would silently change a benchmark."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from demur.answers import normalise
from demur.core.errors import by_cause
from demur.core.records import Document, Evidence, ImageRef, Modality, Record, Sample
from demur.core.store import digest
from demur.corpora.formats import Seen
from demur.corpora.leaks import unfit_reason
from demur.corpora.lineage import document_of
from demur.corpora.near_duplicates import HASHES_IN_MEMORY, ImageHashes
from demur.sources import DEFECT, Source
from demur.sources.cards import Pin, find_mismatches

NAMED = 20
"""Ids listed for each count of samples."""


class Rendered(Record):
    """One sample as a reader sees it."""

    id: str
    place: str
    question: str
    images: tuple[str, ...]
    answer: str
    accepted: tuple[tuple[str, ...], ...]
    gold: tuple[str, ...]
    negatives: tuple[str, ...]


class Checked(Record):
    """The result of a check."""

    source: str
    folder: str
    limited: bool
    """Whether ``--limit`` ended the reading early; gold is then not looked up in the knowledge base."""
    samples: int
    splits: dict[str, int]
    topics: dict[str, int]
    unanswerable: int
    answers: dict[str, int]
    """Samples by kind of answer."""
    gold: dict[str, int]
    """Pieces of gold evidence by ``modality/level``."""
    negatives: dict[str, int]
    """Native negatives by modality."""
    without_gold: int
    documents: int
    images: int
    """Distinct pictures, all decoded."""
    defective: int
    """Samples yielded with a ``defect``."""
    findings: tuple[str, ...]
    """Problems and everything else that would silently change a benchmark, one for each cause
    (`demur.core.errors.by_cause`); empty for a sound source."""
    untold: int = 0
    """Problems after the first thousand, which are not among the findings."""
    notes: dict[str, int]
    """Harmless peculiarities, counted."""
    named: dict[str, tuple[str, ...]]
    """Ids of the first `NAMED` samples of each count: ``unanswerable``, ``defective``, ``without_gold``,
    ``not_for_a_release``."""
    not_for_a_release: int = 0
    """Samples without gold by their nature, which no release can hold: unanswerable ones, and all of a source without
    evidence. They can be asked without evidence."""
    shown: tuple[Rendered, ...]


def check(source: Source, pins: tuple[Pin, ...] = (), limit: int | None = None) -> Checked:
    """Read a source once; report what it holds and what a build would refuse (`demur.corpora.leaks.unfit_reason`).

    Args:
        source: an adapter over a folder.
        limit: read at most so many samples and documents, and skip the checks that need all of them.

    Memory: a few strings per sample; documents are streamed.
    """
    survey = _Survey(ImageHashes(Path(source.root), most=HASHES_IN_MEMORY))
    for sample in islice(source.samples(), limit):
        survey.add(sample)
    samples, counted = survey.samples, survey.counted
    if not samples and not len(source.problems):
        survey.findings.append("no sample could be read")
    documents = survey.add_documents(islice(source.documents(), limit), whole=limit is None)
    if survey.gold or (documents and getattr(source, "names_gold", True)):
        survey.findings += survey.goldless
    else:  # a source without evidence: MMMU, SimpleQA, CRAG-MM
        counted["not_for_a_release"] += len(survey.goldless)
    problems = list(dict.fromkeys(source.problems.lines))
    mismatches = find_mismatches(Path(source.root), pins)
    return Checked(
        source=source.name,
        folder=str(source.root),
        limited=limit is not None,
        samples=samples,
        splits=dict(survey.splits),
        topics=dict(survey.topics.most_common()),
        unanswerable=counted["unanswerable"],
        answers=dict(survey.answers),
        gold=dict(survey.gold),
        negatives=dict(survey.negatives),
        without_gold=counted["without_gold"],
        documents=documents,
        images=len(survey.images),
        defective=counted["defective"],
        findings=tuple(by_cause(problems + survey.findings) + mismatches),
        untold=source.problems.more,
        notes={name: n for name, n in getattr(source, "notes", {}).items() if n},
        named={trait: tuple(ids) for trait, ids in survey.named.items()},
        not_for_a_release=counted["not_for_a_release"],
        shown=survey.examples(),
    )


@dataclass
class _Survey:
    """What was read of a source so far."""

    image_hashes: ImageHashes
    samples: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    gold: Counter[str] = field(default_factory=Counter)
    negatives: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    """Trait -> samples that have it."""
    named: dict[str, list[str]] = field(default_factory=dict)
    """Trait -> the first `NAMED` of them."""
    findings: list[str] = field(default_factory=list)
    goldless: list[str] = field(default_factory=list)
    """Findings about samples without gold, if the source has evidence at all."""
    images: set[str] = field(default_factory=set)
    gold_documents: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id of gold evidence -> its document, and one of its samples."""
    _sample_of_question: dict[str, str] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _examples: list[tuple[int, int, Sample]] = field(default_factory=list)
    """A heap of the samples with the smallest digests of their ids."""

    def add(self, sample: Sample) -> None:
        """Take a sample into account."""
        self.samples += 1
        self.splits[sample.split or "(none)"] += 1
        self.topics[sample.topic or "(none)"] += 1
        self.answers[sample.answers.kind] += 1
        self.images.update(ref.sha256 for ref in pictures_of(sample))
        for evidence in sample.gold:
            self.gold[f"{evidence.modality}/{evidence.level}"] += 1
            self.gold_documents.setdefault(evidence.id, (document_of(evidence), sample.id))
        for evidence in sample.negatives:
            self.negatives[str(evidence.modality)] += 1
        if not sample.answerable:
            self._count("unanswerable", sample)
        if not sample.gold:
            self._count("without_gold", sample)
        if DEFECT in sample.attributes:
            self._count("defective", sample)
        else:
            self._ask_a_build(sample)
        self._look_for_repeats(sample)
        # the number of the sample parts equal ids
        example = (-int(digest(sample.id, 12), 16), -self.samples, sample)
        (heapq.heappush if len(self._examples) < 5 else heapq.heappushpop)(self._examples, example)

    def add_documents(self, documents: Iterable[Document], *, whole: bool) -> int:
        """Look for gold among the documents, and for repeated ids; the number of documents.

        Args:
            whole: these are all; else gold is not missed.
        """
        missing = dict(self.gold_documents)
        ids = Seen()
        number = 0
        for document in documents:
            number += 1
            if document.image is not None:
                self.images.add(document.image.sha256)
            if not ids.add(document.id):
                self.findings.append(f"document {document.id}: two documents have this id")
            missing.pop(document.id, None)
            missing.pop(document.page, None)
        if number and whole:
            self.findings += [
                f"gold ({sample}): not in the knowledge base: {evidence}"
                for evidence, (of, sample) in missing.items()
                if of not in ids
            ]
        return number

    def examples(self) -> tuple[Rendered, ...]:
        """Some samples, drawn by the digests of their ids."""
        return tuple(render_sample(sample) for _, _, sample in sorted(self._examples, reverse=True))

    def _count(self, trait: str, sample: Sample) -> None:
        self.counted[trait] += 1
        if self.counted[trait] <= NAMED:
            self.named.setdefault(trait, []).append(sample.id)

    def _ask_a_build(self, sample: Sample) -> None:
        """Note why a build would refuse a sample."""
        reason = unfit_reason(sample, self.image_hashes)
        if not reason:
            return
        line = f"{sample.source_ref} ({sample.id}): {reason} (a build refuses it)"
        if sample.gold:
            self.findings.append(line)
        elif not sample.answerable:
            self._count("not_for_a_release", sample)
        else:
            self.goldless.append(line)

    def _look_for_repeats(self, sample: Sample) -> None:
        place = f"{sample.source_ref} ({sample.id})"
        if sample.id in self._ids:
            self.findings.append(f"{place}: two samples have this id")
        self._ids.add(sample.id)
        images = sorted(ref.sha256 for ref in sample.images)
        key = digest([normalise(sample.question), images, sample.cluster], 16)
        if key in self._sample_of_question:
            first = self._sample_of_question[key]
            self.findings.append(f"{place}: the question and images of another sample: {first}")
        self._sample_of_question.setdefault(key, sample.id)


def pictures_of(sample: Sample) -> Iterator[ImageRef]:
    """Every picture of a sample: of the question, then of its evidence."""
    yield from sample.images
    for evidence in (*sample.gold, *sample.negatives):
        if evidence.image is not None:
            yield evidence.image


def render_sample(sample: Sample) -> Rendered:
    """A sample as text."""

    def line(evidence: Evidence) -> str:
        heading = f"[{evidence.level}] {evidence.title}".rstrip()
        if evidence.modality is Modality.IMAGE and evidence.image is not None:
            return (
                f"{heading} <{evidence.image.width}x{evidence.image.height} {evidence.image.uri}>"
            )
        text = " ".join((evidence.text or "").split())
        return f"{heading}: {text[:160]}{'...' if len(text) > 160 else ''}"

    return Rendered(
        id=sample.id,
        place=sample.source_ref,
        question=sample.question,
        images=tuple(f"{ref.width}x{ref.height} {ref.uri}" for ref in sample.images),
        answer=sample.answers.display_form,
        accepted=sample.answers.accepted[:6],
        gold=tuple(line(evidence) for evidence in sample.gold[:3]),
        negatives=tuple(line(evidence) for evidence in sample.negatives[:3]),
    )
