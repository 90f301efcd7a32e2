"""Statistics of a release's evidence, and how well shallow features tell sets with gold from sets without.

`card` and `demur release show` print these figures by source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any

from pydantic import Field

from demur.core.records import Evidence, Record, Sample
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


# --- told apart without being read

LIMIT = 0.65
"""Share of sets, decided rightly by shallow features alone, that no interval may lie wholly above; chance is 0.5."""
CURES = MappingProxyType(
    {
        "pictures": "mine distractors of gold's kind (retrieval.negatives: both; retrieval.text, visual)",
        "length": "cut gold and distractors alike (retrieval.chunk)",
        "title": "take distractors of gold's subject (retrieval.negatives: both; own_page: keep)",
        "origin": "take gold and distractors from one knowledge base (retrieval.negatives: mined)",
        "place": "look at the texts' lengths: the order is drawn",
    }
)
"""Feature -> what to change in a recipe."""


class ToldApart(Record):
    """How well a reader of shallow features tells sets with gold from sets without (`demur.scenarios.told_apart`)."""

    source: str
    """"" for all sources together."""
    n: int
    """Samples of which both sets are asked."""
    left_out: dict[str, int]
    """k -> samples with distractors, none of the first k of a kind that gold has: asked neither set."""
    right: float | None = None
    """Share of sets decided rightly, by all features but their number together; None below two samples."""
    low: float | None = None
    high: float | None = None
    """Wilson's 95 % interval of a share of n; that of a mean of values in [0, 1] is never wider."""
    by: dict[str, float] = Field(default_factory=dict)
    """Feature -> the share decided rightly by it alone."""

    @property
    def telling(self) -> bool:
        """Whether the sets are told apart beyond `LIMIT`, not by the chance of few samples."""
        return self.low is not None and self.low > LIMIT

    @property
    def findings(self) -> list[str]:
        """What is to be mended, and how."""
        left_out = self.left_out[max(self.left_out, key=int)]
        return [
            *([str(self)] if self.telling else []),
            *(
                [
                    f"{self.source or 'all'}: {left_out:,} samples are left out of Realistic and Adversarial, having no "
                    f"distractor of a kind that gold has: {CURES['pictures']}"
                ]
                if left_out
                else []
            ),
        ]

    def __str__(self) -> str:
        most = max(CURES, key=lambda feature: self.by.get(feature, 0))
        return (
            f"{self.source or 'all'}: that gold is there shows without reading in {100 * (self.right or 0):.0f} % of the "
            f"sets [{100 * (self.low or 0):.0f}, {100 * (self.high or 0):.0f}], n={self.n:,}, chance 50 %; most by "
            f"{most} ({100 * self.by.get(most, 0):.0f} %): {CURES[most]}"
        )
