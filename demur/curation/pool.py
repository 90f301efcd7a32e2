"""Pools: several sources joined into one folder of samples with prefixed ids and their images beside them.

A pool folder holds ``samples.jsonl`` (Sample), ``documents.jsonl`` (Document, when asked for), the images as
``images/ab/<sha256>.png``, ``duplicates.jsonl``, ``left-out.jsonl`` and ``pool.json``. It is deterministic: the same
sources give the same bytes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from demur import __version__
from demur.answers import normalise
from demur.curation.near import Look, look, same_look
from demur.curation.sources import DEFECT, Source
from demur.errors import BadInput, DataError, StorageError, UsageError
from demur.records import Document, Evidence, ImageRef, Modality, Record, Sample
from demur.store import (
    Problems,
    digest,
    file_digest,
    read_image,
    read_records,
    storage_errors,
    write_atomic,
    write_json,
    write_records,
)

SUFFIX = {"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/tiff": ".tif"}
BANDS = 5
"""The DCT hash is cut into so many bands: two hashes within 4 bits agree in at least one of them."""


class SourceCounts(Record):
    """One line of the pool's table, after Table 2 of VLM-DeflectionBench."""

    source: str
    read: int
    """Samples that the adapter yielded."""
    bad: int
    """Problems it noted."""
    defective: int
    """Samples left out because a picture or the gold evidence is missing."""
    duplicates: int
    """Samples left out as duplicates."""
    samples: int
    query: str
    """Dominant query: Multi (image and text) or Textual."""
    context: str
    """Dominant kind of evidence: Textual, Visual or Multi; None where there is none."""
    gold: float
    """Mean pieces of gold evidence per sample."""
    negatives: float
    """Mean native negatives per sample."""
    documents: int = 0


class PoolCounts(Record):
    """Statistics of a whole pool, after Tables 2 and 3 of VLM-DeflectionBench."""

    sources: tuple[SourceCounts, ...]
    samples: int
    unique_questions: int
    unique_images: int
    """Distinct query images, by hash."""
    question_words: float
    """Mean length of a question in words."""
    gold: float
    negatives: float
    with_image_negatives: float | None
    """Share of the samples with negatives that have a picture among them; None when none has negatives."""
    unanswerable: int
    duplicate_pairs: int
    left_out: int


class _Tally:
    """Running counts of the samples of one source."""

    def __init__(self) -> None:
        self.samples = self.gold = self.negatives = 0
        self.query: Counter[str] = Counter()
        self.context: Counter[str] = Counter()

    def add(self, sample: Sample) -> None:
        self.samples += 1
        self.gold += len(sample.gold)
        self.negatives += len(sample.negatives)
        self.query["Multi" if sample.images else "Textual"] += 1
        self.context.update(_kinds((*sample.gold, *sample.negatives)))


def _kinds(evidence: Iterable[Evidence]) -> list[str]:
    kinds = {item.modality for item in evidence}
    return ["Multi"] if len(kinds) > 1 else ["Textual" if kind is Modality.TEXT else "Visual" for kind in kinds]


class Twin(NamedTuple):
    """An earlier sample with the same question and images."""

    id: str
    answers: frozenset[str]


class Twins:
    """Finds samples that ask the same of the same pictures, whichever source they come from.

    Questions are compared normalised, pictures by `demur.curation.near.same_look` (re-encoded copies count as the
    same). Memory: about 1 kB per sample with images.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[tuple[Twin, tuple[Look, ...]]]] = {}

    def find(self, sample: Sample, looks: tuple[Look, ...]) -> Twin | None:
        """The first earlier twin that accepts a common answer, else the first of any answer, else None.

        The sample is remembered, unless a twin of the same answer is.
        """
        question = digest(normalise(sample.question).encode(), 16)
        keys = [(question, str(len(looks)), *band) for band in _bands(looks)]
        mine = Twin(sample.id, frozenset(normalise(" ".join(form)) for form in sample.answers.accepted))
        twin: Twin | None = None
        for key in keys:
            for other, other_looks in self._seen.get(key, ()):
                if all(map(same_look, looks, other_looks)):
                    if other.answers & mine.answers:
                        return other
                    twin = twin or other
        for key in keys:
            self._seen.setdefault(key, []).append((mine, looks))
        return twin


def _bands(looks: tuple[Look, ...]) -> list[tuple[str, ...]]:
    if not looks:
        return [()]
    first = looks[0]
    if first.spread < 1:
        return [("flat",)]
    width = -(-64 // BANDS)
    return [(str(band), str((first.dct >> (band * width)) & ((1 << width) - 1))) for band in range(BANDS)]


def build(
    sources: Sequence[Source],
    out: Path,
    *,
    skip_bad: bool = False,
    drop_duplicates: bool = False,
    documents: bool = False,
    limit: int | None = None,
) -> PoolCounts:
    """Join sources into one pool.

    Args:
        sources: adapters; their names become the prefixes of ids, so each name may occur once.
        out: the pool's folder; files of an earlier pool are replaced, images are kept.
        skip_bad: leave bad rows and defective samples out and count them, instead of refusing.
        drop_duplicates: leave out a sample that asks the same of the same pictures as an earlier one and accepts one
            of its answers; twins whose answers conflict are reported and kept.
        documents: also write the knowledge bases.
        limit: at most so many samples (and documents) per source.

    Returns:
        the statistics that ``pool.json`` holds.

    Raises:
        UsageError: two sources of one name.
        BadInput: there are problems and ``skip_bad`` is off; nothing is written but images.
        StorageError: the folder cannot be written.
    """
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise UsageError(f"two sources are named alike: {', '.join(names)}", cure="pool them one at a time")
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    writer = _Writer(out, skip_bad=skip_bad, drop_duplicates=drop_duplicates, limit=limit)
    drafts = {"samples.jsonl": out / f".samples.{os.getpid()}.jsonl"}
    if documents:
        drafts["documents.jsonl"] = out / f".documents.{os.getpid()}.jsonl"
    try:
        write_records(drafts["samples.jsonl"], (s for source in sources for s in writer.samples(source)))
        if documents:
            write_records(drafts["documents.jsonl"], (d for source in sources for d in writer.documents(source)))
        problems = [f"{name}: {line}" for name in names for line in writer.problems[name]]
        if problems and not skip_bad:
            raise BadInput(problems)
        for name, draft in drafts.items():
            draft.replace(out / name)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    if not documents:
        (out / "documents.jsonl").unlink(missing_ok=True)
    write_records(out / "duplicates.jsonl", writer.twins)
    left_out = [
        *writer.left_out,
        *(LeftOut(source=name, reason=line) for name in names for line in writer.problems[name]),
    ]
    write_records(out / "left-out.jsonl", left_out)
    counts = writer.counts(names)
    write_json(
        out / "pool.json",
        {
            "demur": __version__,
            "counts": counts.model_dump(mode="json"),
            "files": {
                path.name: file_digest(path) for path in sorted(out.glob("*.jsonl")) if not path.name.startswith(".")
            },
        },
    )
    return counts


class LeftOut(Record):
    """Why something is not in the pool."""

    source: str
    sample: str = ""
    """Prefixed id; "" for a row that no sample could be made of."""
    reason: str


class DuplicateOf(Record):
    """Two samples that ask the same of the same pictures."""

    sample: str
    first: str
    """The earlier one."""
    kind: str
    """same: they accept a common answer. conflict: they do not."""
    dropped: bool


class _Writer:
    """Turns the records of sources into those of the pool, and counts."""

    def __init__(self, out: Path, *, skip_bad: bool, drop_duplicates: bool, limit: int | None) -> None:
        self.out = out
        self.skip_bad = skip_bad
        self.drop_duplicates = drop_duplicates
        self.limit = limit
        self.problems: dict[str, list[str]] = {}
        self.left_out: list[LeftOut] = []
        self.twins: list[DuplicateOf] = []
        self._twins = Twins()
        self._tallies: dict[str, _Tally] = {}
        self._read: Counter[str] = Counter()
        self._defective: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._documents: Counter[str] = Counter()
        self._questions: set[str] = set()
        self._images: set[str] = set()
        self._stored: set[str] = set()
        self._looks: dict[str, Look] = {}
        self._words = self._unanswerable = self._with_negatives = self._with_image_negatives = 0

    def samples(self, source: Source) -> Iterator[Sample]:
        tally = self._tallies.setdefault(source.name, _Tally())
        ids: set[str] = set()
        noted = self.problems.setdefault(source.name, [])
        for sample in islice(source.samples(), self.limit):
            self._read[source.name] += 1
            defect = sample.attributes.get(DEFECT, "")
            if sample.id in ids:
                noted.append(f"{sample.source_ref} ({sample.id}): two samples have this id")
                continue
            ids.add(sample.id)
            try:
                pooled = self._pooled(sample, source)
            except (DataError, StorageError) as error:
                noted.append(f"{sample.source_ref} ({sample.id}): {error}")
                continue
            if defect:
                self._defective[source.name] += 1
                self.left_out.append(LeftOut(source=source.name, sample=pooled.id, reason=defect))
                continue
            if self._is_twin(pooled):
                self._dropped[source.name] += 1
                continue
            tally.add(pooled)
            self._count(pooled)
            yield pooled
        self._note(source)

    def _is_twin(self, sample: Sample) -> bool:
        twin = self._twins.find(sample, tuple(self._looks[ref.sha256] for ref in sample.images))
        if twin is None:
            return False
        mine = {normalise(" ".join(form)) for form in sample.answers.accepted}
        kind = "same" if mine & twin.answers else "conflict"
        dropped = self.drop_duplicates and kind == "same"
        self.twins.append(DuplicateOf(sample=sample.id, first=twin.id, kind=kind, dropped=dropped))
        return dropped

    def _count(self, sample: Sample) -> None:
        self._questions.add(digest(normalise(sample.question).encode(), 16))
        self._images.update(ref.sha256 for ref in sample.images)
        self._words += len(sample.question.split())
        self._unanswerable += not sample.answerable
        self._with_negatives += bool(sample.negatives)
        self._with_image_negatives += any(item.modality is Modality.IMAGE for item in sample.negatives)

    def documents(self, source: Source) -> Iterator[Document]:
        noted = self.problems[source.name]
        for document in islice(source.documents(), self.limit):
            try:
                image = self._stored_image(document.image, source) if document.image else None
            except (DataError, StorageError) as error:
                noted.append(f"document {document.id}: {error}")
                continue
            self._documents[source.name] += 1
            yield document.model_copy(
                update={
                    "id": f"{source.name}:{document.id}",
                    "page": f"{source.name}:{document.page}" if document.page else "",
                    "image": image,
                }
            )
        self._note(source)

    def _note(self, source: Source) -> None:
        """Take over what the adapter has noted since."""
        known = dict.fromkeys(self.problems[source.name])
        self.problems[source.name] += [line for line in dict.fromkeys(source.problems.lines) if line not in known]

    def _pooled(self, sample: Sample, source: Source) -> Sample:
        def evidence(item: Evidence) -> Evidence:
            image = self._stored_image(item.image, source) if item.image else None
            return item.model_copy(update={"id": f"{source.name}:{item.id}", "image": image})

        return sample.model_copy(
            update={
                "id": f"{source.name}:{sample.id}",
                "source": source.name,
                "images": tuple(self._stored_image(ref, source, look_at=True) for ref in sample.images),
                "gold": tuple(map(evidence, sample.gold)),
                "negatives": tuple(map(evidence, sample.negatives)),
                "cluster": f"{source.name}:{sample.cluster}" if sample.cluster else "",
            }
        )

    def _stored_image(self, ref: ImageRef, source: Source, *, look_at: bool = False) -> ImageRef:
        """The image in the pool's own store, named by its hash."""
        name = f"images/{ref.sha256[:2]}/{ref.sha256}{SUFFIX.get(ref.media_type, '.bin')}"
        need_look = look_at and ref.sha256 not in self._looks
        if ref.sha256 not in self._stored or need_look:
            data = read_image(ref, source.root)
            if ref.sha256 not in self._stored:
                path = self.out / name
                if not path.is_file() or path.stat().st_size != len(data):
                    write_atomic(path, data)
                self._stored.add(ref.sha256)
            if need_look:
                self._looks[ref.sha256] = look(data)
        return ref.model_copy(update={"uri": name})

    def counts(self, names: Sequence[str]) -> PoolCounts:
        rows = [self._source_counts(name) for name in names]
        total = sum(row.samples for row in rows)
        tallies = self._tallies.values()
        return PoolCounts(
            sources=tuple(rows),
            samples=total,
            unique_questions=len(self._questions),
            unique_images=len(self._images),
            question_words=_mean(self._words, total),
            gold=_mean(sum(tally.gold for tally in tallies), total),
            negatives=_mean(sum(tally.negatives for tally in tallies), total),
            with_image_negatives=(
                round(self._with_image_negatives / self._with_negatives, 4) if self._with_negatives else None
            ),
            unanswerable=self._unanswerable,
            duplicate_pairs=len(self.twins),
            left_out=len(self.left_out),
        )

    def _source_counts(self, name: str) -> SourceCounts:
        tally = self._tallies[name]
        return SourceCounts(
            source=name,
            read=self._read[name],
            bad=len(self.problems[name]),
            defective=self._defective[name],
            duplicates=self._dropped[name],
            samples=tally.samples,
            query=_dominant(tally.query),
            context=_dominant(tally.context),
            gold=_mean(tally.gold, tally.samples),
            negatives=_mean(tally.negatives, tally.samples),
            documents=self._documents[name],
        )


def _mean(total: float, n: int) -> float:
    return round(total / n, 4) if n else 0.0


def _dominant(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else "None"


class Pool:
    """A built pool as a source: its samples and documents, ids prefixed already.

    Args:
        folder: a pool folder.
        problems: where bad lines are noted.

    Raises:
        UsageError: the folder is no pool.
    """

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.name = "pool"
        self.root = Path(folder)
        self.problems = Problems() if problems is None else problems
        if not (self.root / "pool.json").is_file():
            raise UsageError(f"{self.root} holds no pool.json", cure="build it with 'demur pool build'")

    def _records(self, file: str, kind: type[Any]) -> Iterator[Any]:
        yield from read_records(self.root / file, kind, self.problems)

    def documents(self) -> Iterator[Document]:
        """Documents of every source, in the order of the build; empty when they were not asked for."""
        if (self.root / "documents.jsonl").is_file():
            yield from self._records("documents.jsonl", Document)

    def samples(self) -> Iterator[Sample]:
        """Samples of every source, in the order of the build."""
        yield from self._records("samples.jsonl", Sample)
