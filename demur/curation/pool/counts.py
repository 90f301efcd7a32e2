"""Statistics of a pool, after Tables 2 and 3 of VLM-DeflectionBench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from demur.core.records import Evidence, Modality, Record, Sample


class SourceCounts(Record):
    """One line of the pool's table, after Table 2."""

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
    """Share of the samples with negatives that have a picture among them; None when none has negatives."""
    unanswerable: int
    duplicate_pairs: int
    left_out: int


class Tally:
    """Running counts of the samples of one source."""

    def __init__(self) -> None:
        self.samples = self.gold = self.negatives = 0
        self.query: Counter[str] = Counter()
        self.context: Counter[str] = Counter()

    def add(self, sample: Sample) -> None:
        """Count one sample."""
        self.samples += 1
        self.gold += len(sample.gold)
        self.negatives += len(sample.negatives)
        self.query["Multi" if sample.images else "Textual"] += 1
        self.context.update(_kinds((*sample.gold, *sample.negatives)))


def _kinds(evidence: Iterable[Evidence]) -> list[str]:
    kinds = {item.modality for item in evidence}
    return ["Multi"] if len(kinds) > 1 else ["Textual" if kind is Modality.TEXT else "Visual" for kind in kinds]


def mean(total: float, n: int) -> float | None:
    """To four decimals; None of nothing."""
    return round(total / n, 4) if n else None


def dominant(counts: Counter[str]) -> str:
    """What was counted most; ``None``, in words, where nothing was."""
    return counts.most_common(1)[0][0] if counts else "None"
