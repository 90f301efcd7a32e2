"""Statistics of a release's evidence, and whether a shallow feature separates gold from distractors.

If length, modality or origin alone tells gold from distractors, a system can do well without reading: it picks "the
short passage" or "the image". `card` and `demur release show` print these figures by source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from demur.core.records import Evidence, Modality, Record, Sample
from demur.core.stats import wilson
from demur.release.layout import tally


class SourceEvidence(Record):
    """The evidence of one source's samples."""

    source: str
    samples: int
    gold_texts: int
    gold_words: float | None
    """Median words of a gold text; None without gold texts."""
    distractor_texts: int
    distractor_words: float | None
    """Median words of a text distractor; None without any."""
    gold_images: int
    distractor_images: int
    origins: dict[str, int]
    """Retrieval mode of mined distractors, or ``native`` -> number."""
    chosen: tuple[str, ...]
    """Retrieval modes chosen by recall of gold."""


def evidence_by_source(
    samples: Sequence[Sample], recall: Sequence[Mapping[str, Any]]
) -> list[SourceEvidence]:
    """One entry per source, by name; evidence counts once per sample."""
    entries = []
    for source in sorted({s.source for s in samples}):
        samples_of_source = [s for s in samples if s.source == source]
        others = [e for s in samples_of_source for e in s.negatives]
        modes = [
            row
            for row in recall
            if str(row.get("queries", "")).partition(":")[0] == source and row.get("chosen")
        ]
        entries.append(
            SourceEvidence(
                source=source,
                samples=len(samples_of_source),
                **_amount_fields("gold", [e for s in samples_of_source for e in s.gold]),
                **_amount_fields("distractor", others),
                origins=tally(map(_origin_of, others)),
                chosen=tuple(str(row.get("mode", "")) for row in modes),
            )
        )
    return entries


def _amount_fields(role: str, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """The fields of `SourceEvidence` about gold or distractors."""
    words = [len(e.text.split()) for e in evidence if e.text]
    images = sum(e.image is not None for e in evidence)
    middle = float(median(words)) if words else None
    return {f"{role}_texts": len(words), f"{role}_words": middle, f"{role}_images": images}


def evidence_table(entries: Sequence[SourceEvidence]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table in card and terminal."""
    head = ["source", "words of gold", "words of distractors", "images", "distractors by origin"]
    return head, [
        [
            entry.source,
            _median_text(entry.gold_words, entry.gold_texts),
            _median_text(entry.distractor_words, entry.distractor_texts),
            f"{entry.gold_images} gold, {entry.distractor_images} distractors",
            "; ".join(
                f"{origin} {100 * n / sum(entry.origins.values()):.0f} % ({n})"
                for origin, n in entry.origins.items()
            )
            or "-",
        ]
        for entry in entries
    ]


def _median_text(words: float | None, n: int) -> str:
    return "-" if words is None else f"{words:g} (median of {n})"


def _origin_of(evidence: Evidence) -> str:
    return evidence.origin if evidence.origin == "native" else evidence.mode or "mined"


# --- separation by one feature
#
# The area under the ROC curve per feature and source: the probability that a piece of gold has a higher value than a
# distractor of the same sample, ties counting half (Hanley and McNeil, Radiology 1982). Every sample has equal weight.
#
#     length      words of title and text
#     modality    1 for text, 0 for an image
#     position    place in the order of the context
#     origin      1 if from the knowledge base, 0 if shipped with the question

TELLING = 0.15
"""A feature separates gold from distractors if its whole interval is further than this from 0.5."""


class Separation(Record):
    """How well one feature alone separates gold from distractors."""

    source: str
    """"" for all sources together."""
    feature: str
    auc: float | None
    """In [0, 1]; above 0.5 gold has higher values. None if no sample has both gold and distractors."""
    n: int
    """Samples with gold and distractors that have the feature."""
    low: float | None = None
    high: float | None = None
    """Wilson's 95 % interval of a share of n; that of a mean of values in [0, 1] is never wider."""
    gold: float | None = None
    """Mean of the feature over gold."""
    distractors: float | None = None
    """Mean of it over distractors."""

    @property
    def telling(self) -> bool:
        """Whether the feature separates gold from distractors beyond chance."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0.5 + TELLING or self.high < 0.5 - TELLING

    def __str__(self) -> str:
        if self.auc is None or self.low is None or self.high is None:
            return f"{self.source or 'all'}: {self.feature}: no sample has both gold and distractors with it"
        return (
            f"{self.source or 'all'}: {self.feature} alone separates gold from distractors with AUC {self.auc:.2f} "
            f"[{self.low:.2f}, {self.high:.2f}], n={self.n:,}"
        )


def measure_separation(
    samples: Iterable[Sample], evidence_order: Callable[[Sample], Sequence[str]] | None = None
) -> list[Separation]:
    """Every feature of every source, and of all sources together if there are several.

    Args:
        samples: of a release.
        evidence_order: returns the ids of a sample's evidence in the order of the context; without it there is no ``position``.
    """
    aucs: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    sides: defaultdict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for sample in samples:
        for feature, value in _features(sample, evidence_order).items():
            gold, others = (
                _feature_values(sample.gold, value),
                _feature_values(sample.negatives, value),
            )
            if not gold or not others:
                continue
            wins = sum((g > d) + 0.5 * (g == d) for g in gold for d in others)
            for source in ("", sample.source):
                aucs[source, feature].append(wins / (len(gold) * len(others)))
                sides[source, feature, True] += gold
                sides[source, feature, False] += others
    sources = sorted({source for source, _ in aucs if source})
    order = [*([""] if len(sources) > 1 else []), *sources]
    features = [
        f
        for f in ("length", "modality", "position", "origin")
        if any(name == f for _, name in aucs)
    ]
    return [
        _separation_row(
            source,
            feature,
            aucs[source, feature],
            sides[source, feature, True],
            sides[source, feature, False],
        )
        for source in order
        for feature in features
    ]


def _features(
    sample: Sample, evidence_order: Callable[[Sample], Sequence[str]] | None
) -> dict[str, Callable[[Evidence], float | None]]:
    value_of_feature: dict[str, Callable[[Evidence], float | None]] = {
        "length": lambda e: (
            float(len(f"{e.title} {e.text}".split())) if e.text is not None else None
        ),
        "modality": lambda e: float(e.modality is Modality.TEXT),
        "origin": lambda e: float(bool(e.index_id)),
    }
    if evidence_order is not None:
        places = {id: float(place) for place, id in enumerate(evidence_order(sample))}
        value_of_feature["position"] = lambda e: places.get(e.id)
    return value_of_feature


def _feature_values(
    evidence: Sequence[Evidence], value: Callable[[Evidence], float | None]
) -> list[float]:
    return [number for e in evidence if (number := value(e)) is not None]


def _separation_row(
    source: str, feature: str, aucs: list[float], gold: list[float], others: list[float]
) -> Separation:
    if not aucs:
        return Separation(source=source, feature=feature, auc=None, n=0)
    n, p = len(aucs), sum(aucs) / len(aucs)
    low, high = wilson(sum(aucs), n) or (0.0, 1.0)
    return Separation(
        source=source,
        feature=feature,
        auc=round(p, 6),
        n=n,
        low=round(low, 6),
        high=round(high, 6),
        gold=round(sum(gold) / len(gold), 4),
        distractors=round(sum(others) / len(others), 4),
    )
