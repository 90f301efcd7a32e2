"""Check a source: read it once and report everything that would silently change a benchmark."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from demur.answers import normalise
from demur.core.errors import by_cause
from demur.core.records import Evidence, ImageRef, Modality, Record, Sample
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
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("splits", "topics", "answers", "gold", "negatives")
    }
    findings: list[str] = []
    ids: set[str] = set()
    images: set[str] = set()
    gold_documents: dict[str, tuple[str, str]] = {}
    examples: list[tuple[int, int, Sample]] = []
    answers_of: dict[str, str] = {}
    named: dict[str, list[str]] = {}
    goldless: list[str] = []
    image_hashes = ImageHashes(Path(source.root), most=HASHES_IN_MEMORY)
    samples = 0
    counted = Counter[str]()

    def count(trait: str, sample: Sample) -> None:
        counted[trait] += 1
        if counted[trait] <= NAMED:
            named.setdefault(trait, []).append(sample.id)

    for sample in islice(source.samples(), limit):
        samples += 1
        counts["splits"][sample.split or "(none)"] += 1
        counts["topics"][sample.topic or "(none)"] += 1
        counts["answers"][sample.answers.kind] += 1
        if not sample.answerable:
            count("unanswerable", sample)
        if not sample.gold:
            count("without_gold", sample)
        if DEFECT in sample.attributes:
            count("defective", sample)
        for evidence in sample.gold:
            counts["gold"][f"{evidence.modality}/{evidence.level}"] += 1
            gold_documents.setdefault(evidence.id, (document_of(evidence), sample.id))
        for evidence in sample.negatives:
            counts["negatives"][str(evidence.modality)] += 1
        images.update(ref.sha256 for ref in pictures_of(sample))
        if sample.id in ids:
            findings.append(f"{sample.source_ref} ({sample.id}): two samples have this id")
        ids.add(sample.id)
        key = digest(
            [
                normalise(sample.question),
                sorted(ref.sha256 for ref in sample.images),
                sample.cluster,
            ],
            16,
        )
        if key in answers_of:
            findings.append(
                f"{sample.source_ref} ({sample.id}): the question and images of another sample: {answers_of[key]}"
            )
        answers_of.setdefault(key, sample.id)
        refused = "" if DEFECT in sample.attributes else unfit_reason(sample, image_hashes)
        line = f"{sample.source_ref} ({sample.id}): {refused} (a build refuses it)"
        if refused and sample.gold:
            findings.append(line)
        elif refused and not sample.answerable:
            count("not_for_a_release", sample)
        elif refused:
            goldless.append(line)
        rank = (
            -int(digest(sample.id, 12), 16),
            -samples,
        )  # the number of the sample parts equal ids
        (heapq.heappush if len(examples) < 5 else heapq.heappushpop)(examples, (*rank, sample))
    if not samples and not len(source.problems):
        findings.append("no sample could be read")
    documents, document_images = _check_documents(source, gold_documents, findings, limit)
    images |= document_images
    if counts["gold"] or documents:
        findings += goldless
    else:  # a source without evidence: MMMU, SimpleQA
        counted["not_for_a_release"] += len(goldless)
    problems = list(dict.fromkeys(source.problems.lines))
    return Checked(
        source=source.name,
        folder=str(source.root),
        limited=limit is not None,
        samples=samples,
        unanswerable=counted["unanswerable"],
        without_gold=counted["without_gold"],
        documents=documents,
        images=len(images),
        defective=counted["defective"],
        findings=tuple(by_cause(problems + findings) + find_mismatches(Path(source.root), pins)),
        untold=source.problems.more,
        notes={name: n for name, n in getattr(source, "notes", {}).items() if n},
        named={trait: tuple(ids) for trait, ids in named.items()},
        not_for_a_release=counted["not_for_a_release"],
        **{
            name: dict(counter.most_common() if name == "topics" else counter)
            for name, counter in counts.items()
        },
        shown=tuple(render_sample(sample) for _, _, sample in sorted(examples, reverse=True)),
    )


def _check_documents(
    source: Source,
    gold_documents: dict[str, tuple[str, str]],
    findings: list[str],
    limit: int | None,
) -> tuple[int, set[str]]:
    """Number of documents, and their pictures; gold without a document and repeated ids become findings.

    Args:
        gold_documents: id of gold evidence -> its document, and one of its samples.
    """
    missing = dict(gold_documents)
    ids = Seen()
    images: set[str] = set()
    number = 0
    for document in islice(source.documents(), limit):
        number += 1
        if document.image is not None:
            images.add(document.image.sha256)
        if not ids.add(document.id):
            findings.append(f"document {document.id}: two documents have this id")
        missing.pop(document.id, None)
        missing.pop(document.page, None)
    if number and limit is None:
        for evidence, (of, sample) in missing.items():
            if of not in ids:
                findings.append(f"gold ({sample}): not in the knowledge base: {evidence}")
    return number, images


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
