"""Statistics of a pool, after Tables 2 and 3 of VLM-DeflectionBench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from demur.core.records import Evidence, Modality, Record, Sample


class SourceCounts(Record):
    """One line of the pool's table, after Table 2."""

    source: str
    read: int
    """Samples from the adapter."""
    bad: int
    """Problems that it noted."""
    defective: int
    """Samples left out because a picture or gold evidence is missing."""
    duplicates: int
    """Samples left out as duplicates."""
    samples: int
    query: str
    """Dominant query: Multi (image and text) or Textual."""
    context: str
    """Dominant kind of evidence: Textual, Visual or Multi; None without evidence."""
    gold: float | None
    """Mean pieces of gold evidence per sample."""
    negatives: float | None
    """Mean native negatives per sample."""
    documents: int = 0


class PoolCounts(Record):
    """Statistics of a whole pool."""

    sources: tuple[SourceCounts, ...]
    samples: int
    unique_questions: int
    unique_images: int
    """Distinct query images, by hash."""
    question_words: float | None
    """Mean length of a question in words."""
    gold: float | None
    negatives: float | None
    with_image_negatives: float | None
    """Share of samples with a picture among their negatives, of those with negatives; None if none has any."""
    unanswerable: int
    duplicate_pairs: int
    left_out: int


@dataclass
class Tally:
    """Running counts of one source, or of all."""

    read: int = 0
    defective: int = 0
    duplicates: int = 0
    documents: int = 0
    samples: int = 0
    gold: int = 0
    negatives: int = 0
    words: int = 0
    """Of the questions."""
    unanswerable: int = 0
    with_negatives: int = 0
    with_image_negatives: int = 0
    query: Counter[str] = field(default_factory=Counter)
    context: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Tally) -> Tally:
        """The counts of both."""
        return Tally(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(self)
            }
        )

    def add(self, sample: Sample) -> None:
        """Count one sample of the pool."""
        self.samples += 1
        self.gold += len(sample.gold)
        self.negatives += len(sample.negatives)
        self.words += len(sample.question.split())
        self.unanswerable += not sample.answerable
        self.with_negatives += bool(sample.negatives)
        self.with_image_negatives += any(
            item.modality is Modality.IMAGE for item in sample.negatives
        )
        self.query["Multi" if sample.images else "Textual"] += 1
        self.context.update(_evidence_kinds((*sample.gold, *sample.negatives)))

    def counts(self, source: str, bad: int) -> SourceCounts:
        """The line of the pool's table, with the number of problems."""
        return SourceCounts(
            source=source,
            read=self.read,
            bad=bad,
            defective=self.defective,
            duplicates=self.duplicates,
            samples=self.samples,
            query=_most_common(self.query),
            context=_most_common(self.context),
            gold=rounded_mean(self.gold, self.samples),
            negatives=rounded_mean(self.negatives, self.samples),
            documents=self.documents,
        )


def _evidence_kinds(evidence: Iterable[Evidence]) -> list[str]:
    kinds = {item.modality for item in evidence}
    return (
        ["Multi"]
        if len(kinds) > 1
        else ["Textual" if kind is Modality.TEXT else "Visual" for kind in kinds]
    )


def rounded_mean(total: float, n: int) -> float | None:
    """The mean to four decimals; None for n = 0."""
    return round(total / n, 4) if n else None


def _most_common(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else "None"
