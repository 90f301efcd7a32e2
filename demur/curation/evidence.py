"""What evidence of a release is like, source by source: by whom distractors were found, how long texts are.

A release whose gold is told from its distractors by length, or whose distractors come by another way than was meant,
measures something else than reading. These figures are what shows it; `card` and `demur release show` print them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from demur.records import Evidence, Record, Sample


class SourceEvidence(Record):
    """The evidence of one source's samples."""

    source: str
    samples: int
    gold_texts: int
    gold_words: float | None
    """Median words of a gold text; None where all gold is images."""
    distractor_texts: int
    distractor_words: float | None
    """Median words of a text distractor."""
    gold_images: int
    distractor_images: int
    origins: dict[str, int]
    """``native``, or the mode that a mined distractor was found by -> how many."""
    chosen: tuple[str, ...]
    """Modes that were chosen by recall of gold."""


def evidence_by_source(samples: Sequence[Sample], recall: Sequence[Mapping[str, Any]]) -> list[SourceEvidence]:
    """One entry a source, in the order of their names; evidence counts as often as samples show it.

    Args:
        samples: of a release.
        recall: the rows of its ``recall.json``.
    """
    found = []
    for source in sorted({s.source for s in samples}):
        own = [s for s in samples if s.source == source]
        gold = [e for s in own for e in s.gold]
        others = [e for s in own for e in s.negatives]
        found.append(
            SourceEvidence(
                source=source,
                samples=len(own),
                gold_texts=len(_words(gold)),
                gold_words=_median(gold),
                distractor_texts=len(_words(others)),
                distractor_words=_median(others),
                gold_images=sum(e.image is not None for e in gold),
                distractor_images=sum(e.image is not None for e in others),
                origins=dict(sorted(Counter(_origin(e) for e in others).items())),
                chosen=tuple(
                    str(row.get("mode", ""))
                    for row in recall
                    if row.get("chosen") and str(row.get("queries", "")).partition(":")[0] == source
                ),
            )
        )
    return found


def evidence_table(found: Sequence[SourceEvidence]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table that card and terminal show."""
    head = ["source", "words of gold", "words of distractors", "images", "distractors by origin"]
    return head, [
        [
            one.source,
            _told(one.gold_words, one.gold_texts),
            _told(one.distractor_words, one.distractor_texts),
            f"{one.gold_images} gold, {one.distractor_images} distractors",
            "; ".join(
                f"{origin} {100 * n / sum(one.origins.values()):.0f} % ({n})" for origin, n in one.origins.items()
            )
            or "-",
        ]
        for one in found
    ]


def _words(evidence: Sequence[Evidence]) -> list[int]:
    return [len(e.text.split()) for e in evidence if e.text]


def _median(evidence: Sequence[Evidence]) -> float | None:
    words = _words(evidence)
    return float(median(words)) if words else None


def _told(words: float | None, n: int) -> str:
    return "-" if words is None else f"{words:g} (median of {n})"


def _origin(evidence: Evidence) -> str:
    return evidence.origin if evidence.origin == "native" else evidence.mode or "mined"
