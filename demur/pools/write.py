"""Write a pool: records of several sources, one in memory at a time, and their counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from demur.answers import normalise
from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.records import Evidence, Record, Sample
from demur.core.store import (
    canonical,
    file_digest,
    replacing,
    storage_errors,
    write_atomic,
    write_json,
    write_records,
)
from demur.core.version import __version__
from demur.corpora.formats import Seen
from demur.corpora.leaks import unfit_reason
from demur.corpora.lineage import prefixed
from demur.pools.counts import PoolCounts, Tally, rounded_mean
from demur.pools.duplicates import DuplicateFinder, normalised_answers
from demur.pools.images import Copied, Images, Linked
from demur.sources import DEFECT, Source
from demur.sources.native import OnceEach

FORMAT = 2
"""Format of a pool. 2: evidence names its document and page (`demur.corpora.lineage`)."""
IMAGE_HASHES = "image-hashes.jsonl"
"""File of a pool for a release: hashes of the images that gold evidence and questions were compared by."""


class LeftOut(Record):
    """Something that is not in the pool, and why."""

    source: str
    sample: str = ""
    """Prefixed id, or the place of a row that has another's id; "" for anything but a sample."""
    reason: str


class DuplicateOf(Record):
    """Two samples with the same question about the same pictures."""

    sample: str
    first: str
    """The earlier one."""
    kind: str
    """same: they accept a common answer. conflict: they do not."""
    dropped: bool


def build(
    sources: Sequence[Source],
    out: Path,
    *,
    skip_bad: bool = False,
    drop_duplicates: bool = False,
    documents: bool = False,
    limit: int | None = None,
    for_release: bool = False,
) -> PoolCounts:
    """Join sources into one pool.

    Args:
        sources: adapters; their names become the prefixes of ids, so each name may occur once.
        out: the pool's folder; files of an earlier pool are replaced, images are kept.
        skip_bad: leave bad rows and defective samples out and count them, instead of refusing.
        drop_duplicates: leave out a sample with the same question and pictures as an earlier one and a common answer;
            duplicates with conflicting answers are reported and kept.
        documents: also write the knowledge bases.
        limit: at most so many samples (and documents) per source.
        for_release: write a pool to build a release from. Images are not copied; a source may occur several times with other options over one folder; samples that no release can hold
            (`demur.corpora.leaks.unfit_reason`) are left out as bad ones; duplicates are looked for later, among the
            sampled ones.

    Returns:
        The statistics in ``pool.json``.

    Raises:
        UsageError: two sources of one name, or ``out`` is the folder of a source.
        BadInput: there are problems and ``skip_bad`` is off; only images were written.
        StorageError: the folder cannot be written.
    """
    names = list(dict.fromkeys(source.name for source in sources))
    _check_folders(sources, out, for_release=for_release)
    images = Linked(out) if for_release else Copied(out)
    writer = _Writer(
        images,
        fit_only=for_release,
        finder=None if for_release else DuplicateFinder(),
        drop_duplicates=drop_duplicates,
        limit=limit,
    )
    parts = [_Part(source) for source in sources]
    with replacing(out / "samples.jsonl") as samples, ExitStack() as open_files:
        samples.writelines(line for part in parts for line in writer.samples(part))
        if documents:
            handle = open_files.enter_context(replacing(out / "documents.jsonl"))
            handle.writelines(line for part in parts for line in writer.documents(part))
        if any(map(len, writer.problems.values())) and not skip_bad:
            raise BadInput(
                [f"{name}: {line}" for name in names for line in writer.problems[name].lines],
                more=sum(noted.more for noted in writer.problems.values()),
            )
    if not documents:
        (out / "documents.jsonl").unlink(missing_ok=True)
    if for_release:
        write_atomic(out / IMAGE_HASHES, images.image_hashes.lines())
    write_records(out / "duplicates.jsonl", writer.duplicates_found)
    write_records(out / "left-out.jsonl", writer.all_left_out(names))
    counts = writer.counts(names)
    files = (path for path in sorted(out.glob("*.jsonl")) if not path.name.startswith("."))
    write_json(
        out / "pool.json",
        {
            "demur": __version__,
            "format": FORMAT,
            "counts": counts.model_dump(mode="json"),
            "parts": [part.as_json() for part in parts],
            "files": {path.name: file_digest(path) for path in files},
        },
    )
    return counts


def _check_folders(sources: Sequence[Source], out: Path, *, for_release: bool) -> None:
    """Make the pool's folder; refuse one that is a source's, and two sources of one name."""
    places = set((s.name, s.root.resolve()) for s in sources) if for_release else sources
    if len(places) > len({source.name for source in sources}):
        raise UsageError(
            f"two sources have the same name: {', '.join(s.name for s in sources)}",
            cure="pool them one at a time",
        )
    if source := next((s for s in sources if s.root.resolve() == out.resolve()), None):
        raise UsageError(
            f"the files of {source.name} are in this folder", item=out, cure="choose another --out"
        )
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)


@dataclass
class _Part:
    """A source, and how much of it the pool has so far."""

    source: Source
    samples: int = 0
    documents: int = 0
    texts: int = 0
    """Documents with text."""
    images: int = 0
    """Documents with an image."""
    hashes: dict[str, Any] = field(
        default_factory=lambda: {"documents": sha256(), "samples": sha256()}
    )
    noted: int = 0
    """Problems of the adapter that were copied."""
    counted: int = 0
    """Problems beyond the adapter's listed ones that were counted."""

    def as_json(self) -> dict[str, Any]:
        """The entry in ``pool.json``."""
        return {
            "source": self.source.name,
            "samples": self.samples,
            "documents": self.documents,
            "texts": self.texts,
            "images": self.images,
            **{f"sha256_of_{kind}": sha.hexdigest() for kind, sha in self.hashes.items()},
        }


@dataclass
class _Writer:
    """Turns the records of sources into lines of the pool, and counts."""

    images: Images
    fit_only: bool
    """Leave out what no release can hold."""
    finder: DuplicateFinder | None
    drop_duplicates: bool
    limit: int | None
    problems: dict[str, OnceEach] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    duplicates_found: list[DuplicateOf] = field(default_factory=list)
    _rows: dict[str, dict[str, LeftOut]] = field(default_factory=dict)
    """Source -> place -> the problem of a row without a sample so far."""
    _files: dict[str, set[str]] = field(default_factory=dict)
    """Source -> files with samples; rows of other files are documents."""
    _tallies: dict[str, Tally] = field(default_factory=dict)
    _sample_ids: Seen = field(default_factory=Seen)
    _document_ids: Seen = field(default_factory=Seen)
    _questions: Seen = field(default_factory=Seen)
    _images: Seen = field(default_factory=Seen)

    def samples(self, part: _Part) -> Iterator[bytes]:
        source = part.source
        tally = self._tallies.setdefault(source.name, Tally())
        noted = self.problems.setdefault(source.name, OnceEach())
        self.images.begin(source)
        rows = self._rows.setdefault(source.name, {})
        files = self._files.setdefault(source.name, set())
        for sample in islice(source.samples(), self.limit):
            self._copy_problems(part, rows)
            tally.read += 1
            rows.pop(sample.source_ref, None)
            files.add(sample.source_ref.rpartition(":")[0])
            if not self._sample_ids.add(f"{source.name}:{sample.id}"):
                noted.add(sample.source_ref, "two samples have this id", sample.id)
                self._leave_out(
                    source, f"{sample.source_ref} ({sample.id})", "two samples have this id"
                )
                continue
            try:
                pooled = self._into_pool(sample, source)
                line = _json_line(pooled)
            except (DataError, StorageError, ValueError) as error:
                noted.add(sample.source_ref, str(error), sample.id)
                self._leave_out(source, f"{self._prefix(source)}{sample.id}", str(error))
                continue
            if defect := sample.attributes.get(DEFECT, ""):
                tally.defective += 1
                if self.fit_only:
                    for statement in defect.split("; "):
                        noted.add(sample.source_ref, statement, sample.id)
                self.left_out.append(LeftOut(source=source.name, sample=pooled.id, reason=defect))
                continue
            if self.fit_only and (why := unfit_reason(pooled, self.images.image_hashes)):
                noted.add(sample.source_ref, why, sample.id)
                self._leave_out(source, pooled.id, why)
                continue
            if self._is_duplicate(pooled):
                tally.duplicates += 1
                continue
            tally.add(pooled)
            self._questions.add(normalise(pooled.question))
            for ref in pooled.images:
                self._images.add(ref.sha256)
            part.samples += 1
            part.hashes["samples"].update(line[:-1])
            yield line
        self._copy_problems(part, rows)

    def _leave_out(self, source: Source, sample: str, why: str) -> None:
        """List a sample that a release cannot hold. In a pool to keep, it is a problem only."""
        if self.fit_only:
            self.left_out.append(LeftOut(source=source.name, sample=sample, reason=why))

    def all_left_out(self, names: Sequence[str]) -> Iterator[LeftOut]:
        """Everything that is not in the pool: samples, rows without one, and other problems."""
        yield from self.left_out
        if self.fit_only:
            for name in names:
                yield from self._lost_rows(name)
        for name in names:
            for line in self.problems[name].summary():
                yield LeftOut(source=name, reason=line)

    def _lost_rows(self, source: str) -> Iterator[LeftOut]:
        """Rows of sample files that no sample could be made of, by id, or by place if another row has the id."""
        for place, row in self._rows.get(source, {}).items():
            if place.rpartition(":")[0] in self._files[source] or not self._files[source]:
                has_id = row.sample and self._sample_ids.add(f"{source}:{row.sample}")
                yield row.model_copy(
                    update={"sample": f"{source}:{row.sample if has_id else place}"}
                )

    def _is_duplicate(self, sample: Sample) -> bool:
        if self.finder is None:
            return False
        image_hashes = tuple(
            image_hash
            for ref in sample.images
            if (image_hash := self.images.image_hashes(ref)) is not None
        )
        earlier = self.finder.find_earlier(sample, image_hashes)
        if not earlier:
            return False
        own_answers = normalised_answers(sample)
        with_same_answer = next((other for other in earlier if other.answers & own_answers), None)
        kind = "same" if with_same_answer else "conflict"
        dropped = self.drop_duplicates and kind == "same"
        first = (with_same_answer or earlier[0]).id
        self.duplicates_found.append(
            DuplicateOf(sample=sample.id, first=first, kind=kind, dropped=dropped)
        )
        return dropped

    def documents(self, part: _Part) -> Iterator[bytes]:
        source = part.source
        noted, prefix = self.problems[source.name], self._prefix(source)
        for document in islice(source.documents(), self.limit):
            self._copy_problems(part)
            if not self._document_ids.add(f"{source.name}:{document.id}"):
                noted.add(f"document {document.id}", "two documents have this id")
                continue
            try:
                image = self.images.take(document.image, source) if document.image else None
                line = _json_line(prefixed(document.model_copy(update={"image": image}), prefix))
            except (DataError, StorageError, ValueError) as error:
                noted.add(f"document {document.id}", str(error))
                continue
            self._tallies[source.name].documents += 1
            part.documents += 1
            part.texts += bool(document.text and document.text.strip())
            part.images += document.image is not None
            part.hashes["documents"].update(line[:-1])
            yield line
        self._copy_problems(part)

    def _copy_problems(self, part: _Part, rows: dict[str, LeftOut] | None = None) -> None:
        """Copy the adapter's new problems; those of single rows go into ``rows`` too, by place."""
        source_problems, pool_problems = part.source.problems, self.problems[part.source.name]
        for problem in source_problems.first[part.noted :]:
            pool_problems.note(problem)
            if rows is not None and problem.is_of_row:
                row = LeftOut(source=part.source.name, sample=problem.id, reason=problem.reason)
                rows.setdefault(problem.place, row)
        pool_problems.count(source_problems.more - part.counted)
        part.noted, part.counted = len(source_problems.first), source_problems.more

    def _prefix(self, source: Source) -> str:
        return f"{source.name}:"

    def _into_pool(self, sample: Sample, source: Source) -> Sample:
        prefix = self._prefix(source)

        def evidence(item: Evidence) -> Evidence:
            image = self.images.take(item.image, source) if item.image else None
            return prefixed(item.model_copy(update={"image": image}), prefix)

        return sample.model_copy(
            update={
                "id": f"{prefix}{sample.id}",
                "source": source.name,
                "images": tuple(
                    self.images.take(ref, source, hashed=self.finder is not None)
                    for ref in sample.images
                ),
                "gold": tuple(map(evidence, sample.gold)),
                "negatives": tuple(map(evidence, sample.negatives)),
                "cluster": f"{prefix}{sample.cluster}" if sample.cluster else "",
            }
        )

    def counts(self, names: Sequence[str]) -> PoolCounts:
        rows = [self._tallies[name].counts(name, len(self.problems[name])) for name in names]
        total = sum(self._tallies.values(), Tally())
        return PoolCounts(
            sources=tuple(rows),
            samples=total.samples,
            unique_questions=len(self._questions),
            unique_images=len(self._images),
            question_words=rounded_mean(total.words, total.samples),
            gold=rounded_mean(total.gold, total.samples),
            negatives=rounded_mean(total.negatives, total.samples),
            with_image_negatives=rounded_mean(total.with_image_negatives, total.with_negatives),
            unanswerable=total.unanswerable,
            duplicate_pairs=len(self.duplicates_found),
            left_out=len(self.left_out),
        )


def _json_line(record: Record) -> bytes:
    """A line of JSON.

    Raises:
        DataError: the record holds half a surrogate pair, which no file can.
    """
    try:
        return (canonical(record) + "\n").encode()
    except UnicodeEncodeError as error:
        raise DataError(
            "it holds half a character (a lone surrogate)", cure="mend the row"
        ) from error
