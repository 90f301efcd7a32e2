"""Rows to train a retriever or a reranker with, in the formats of sentence-transformers' `mine_hard_negatives`.

triplet       one row per positive and negative: anchor, positive, negative
n-tuple       one row per positive that has all negatives asked for: anchor, positive, negative_1 ... negative_n
labeled-pair  one row per positive and per negative: anchor, its text, label 1 or 0
labeled-list  one row per positive that has a negative: anchor, its text and the negatives', labels
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from demur.core.errors import UsageError
from demur.core.records import Sample
from demur.curation.mining.choose import Mined

Format = Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"]
FORMATS: tuple[Format, ...] = get_args(Format)


def training_rows(
    anchor: str, positives: Sequence[str], negatives: Sequence[str], format: Format, *, wanted: int
) -> Iterator[dict[str, Any]]:
    """The rows of one anchor.

    Args:
        negatives: texts, nearest first.
        format: see the module.
        wanted: negatives of an n-tuple; an anchor with fewer gets no row.

    Raises:
        UsageError: there is no such format.

    >>> list(training_rows("q", ["yes"], ["no", "nor"], "labeled-list", wanted=2))
    [{'anchor': 'q', 'positive': ['yes', 'no', 'nor'], 'labels': [1, 0, 0]}]
    """
    if format not in FORMATS:
        raise UsageError(
            f"no format of rows named {format!r}", cure=f"choose from {', '.join(FORMATS)}"
        )
    if format == "labeled-pair":
        for label, texts in ((1, positives), (0, negatives)):
            yield from ({"anchor": anchor, "positive": text, "label": label} for text in texts)
        return
    for positive in positives:
        row = {"anchor": anchor, "positive": positive}
        if format == "triplet":
            yield from ({**row, "negative": negative} for negative in negatives)
        elif format == "n-tuple" and len(negatives) >= wanted:
            yield {**row, **{f"negative_{n}": text for n, text in enumerate(negatives[:wanted], 1)}}
        elif format == "labeled-list" and negatives:
            yield {**row, "positive": [positive, *negatives], "labels": [1] + [0] * len(negatives)}


def rows_of(
    sample: Sample, mined: Mined, format: Format, *, wanted: int
) -> Iterator[dict[str, Any]]:
    """The rows of one sample: its question, the texts of its gold evidence, the mined texts.

    The formats are of texts: images, and questions with one, give no rows.
    """
    gold_texts, mined_texts = (
        [e.text for e in group if e.text] for group in (sample.gold, mined.negatives)
    )
    if not sample.images:
        yield from training_rows(sample.question, gold_texts, mined_texts, format, wanted=wanted)
