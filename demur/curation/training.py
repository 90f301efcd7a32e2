"""Rows to train a retriever or a reranker with, in the formats of sentence-transformers' `mine_hard_negatives`.

    triplet       one row per positive and negative: anchor, positive, negative
    n-tuple       one row per positive that has all negatives asked for: anchor, positive, negative_1 ... negative_n
    labeled-pair  one row per positive and per negative: anchor, its text, label 1 or 0
    labeled-list  one row per positive that has a negative: anchor, its text and the negatives', labels

With scores, ``scores`` stands beside triplets and tuples, ``score`` in place of ``label``, ``scores`` of ``labels``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from demur.curation.mine import Mined
from demur.errors import UsageError
from demur.records import Sample

Format = Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Scored(NamedTuple):
    """A text, and how near it is to the anchor."""

    text: str
    score: float = 0.0


def training_rows(
    anchor: str,
    positives: Sequence[Scored],
    negatives: Sequence[Scored],
    format: Format,
    *,
    wanted: int,
    scores: bool = False,
    columns: tuple[str, str] = ("anchor", "positive"),
) -> Iterator[dict[str, Any]]:
    """The rows of one anchor.

    Args:
        anchor: the question.
        positives: texts that answer it.
        negatives: texts that do not, nearest first.
        format: see the module.
        wanted: negatives of an n-tuple; a positive that has fewer gets no row there.
        scores: whether scores are among the columns.
        columns: names of the first two; the second holds the texts of labelled rows, positive or not.

    Raises:
        UsageError: no such format.

    >>> list(training_rows("q", [Scored("yes")], [Scored("no"), Scored("nor")], "labeled-list", wanted=2))
    [{'anchor': 'q', 'positive': ['yes', 'no', 'nor'], 'labels': [1, 0, 0]}]
    """
    if format not in FORMATS:
        raise UsageError(f"no format of rows named {format!r}", cure=f"choose from {', '.join(FORMATS)}")
    first, second = columns
    if format == "labeled-pair":
        for label, group in ((1, positives), (0, negatives)):
            for one in group:
                yield {first: anchor, second: one.text, **({"score": one.score} if scores else {"label": label})}
        return
    for positive in positives:
        row = {first: anchor, second: positive.text}
        both = [positive, *negatives]
        if format == "triplet":
            for negative in negatives:
                own = {"scores": [positive.score, negative.score]} if scores else {}
                yield {**row, "negative": negative.text, **own}
        elif format == "n-tuple" and len(negatives) >= wanted:
            chosen = negatives[:wanted]
            named = {f"negative_{n}": one.text for n, one in enumerate(chosen, 1)}
            yield {**row, **named, **({"scores": [one.score for one in (positive, *chosen)]} if scores else {})}
        elif format == "labeled-list" and negatives:
            told = {"scores": [b.score for b in both]} if scores else {"labels": [1] + [0] * len(negatives)}
            yield {**row, second: [one.text for one in both], **told}


def rows_of(sample: Sample, mined: Mined, format: Format, *, wanted: int) -> Iterator[dict[str, Any]]:
    """The rows of one sample: its question, the texts of its gold evidence, the texts mined for it.

    Images, and questions that lean on one, give none: the formats are of texts. Rows have no scores, as gold need not
    have been found.

    Args:
        sample: with its gold evidence.
        mined: what was mined for it.
        format: see the module.
        wanted: negatives of an n-tuple.
    """
    gold, found = ([Scored(e.text) for e in group if e.text] for group in (sample.gold, mined.negatives))
    if not sample.images:
        yield from training_rows(sample.question, gold, found, format, wanted=wanted)
