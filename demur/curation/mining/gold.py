"""Gold evidence as documents of an index, so that gold and distractors differ in content, not in length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from demur.answers import holds
from demur.core.records import Document, Evidence, Role, Sample
from demur.corpora.leaks import Leaks
from demur.corpora.lineage import Gold, IndexedDocuments, document_of, page_of

NEAREST = 5
"""Chunks of a gold article that become gold if none holds the answer: those with most words of the question."""


def align_gold_of_sample(
    sample: Sample, documents: IndexedDocuments, leaks: Leaks, counted: Counter[str]
) -> Sample:
    """The sample with its text gold as documents of an index, see `align_gold`.

    Args:
        sample: with its gold as shipped.
        documents: of the index, or at least those that hold the gold.
        leaks: of the sample. A chunk loses its picture if that is the query image.
        counted: how gold was aligned -> pieces, to be increased.
    """
    gold_by_id: dict[str, Evidence] = {}
    for gold in sample.gold:
        ids = Gold([gold]).parts_in(documents) if gold.text else []
        parts = [part for id in ids if (part := documents.documents[id]).text]
        if not parts:
            counted["as shipped"] += 1
            gold_by_id.setdefault(gold.id, gold)
            continue
        chosen, way_found = _chunks_for(gold, parts, sample)
        counted[way_found] += 1
        for part in chosen:
            if part.image is not None and leaks.query(part):
                part = part.model_copy(
                    update={"id": f"{part.id}#text", "document": document_of(part), "image": None}
                )
            level = (
                gold.level
                if way_found == "nearest" or part.text == gold.text
                else _evidence_level(part)
            )
            gold_by_id.setdefault(part.id, Evidence.of(part, Role.GOLD, level=level))
    negatives = tuple(e for e in sample.negatives if e.id not in gold_by_id)
    return sample.model_copy(update={"gold": tuple(gold_by_id.values()), "negatives": negatives})


def _evidence_level(part: Document) -> Any:
    if part.document:
        return "passage"
    return "article" if page_of(part) == part.id else "section"


def _chunks_for(
    gold: Evidence, parts: Sequence[Document], sample: Sample
) -> tuple[list[Document], str]:
    """The chunks for a piece of gold, and how they were found."""
    if len(parts) == 1:
        return list(parts), "at the cut"
    inside = _squeeze_blanks(gold.text)
    part_with_all = next((part for part in parts if inside in _squeeze_blanks(part.text)), None)
    if part_with_all is not None:
        return [part_with_all], "at the cut"
    if answer := [part for part in parts if holds(sample.answers, f"{part.title}\n{part.text}")]:
        return answer, "at the cut"
    if gold.level in ("passage", "quote"):  # all parts: it is short
        return list(parts), "at the cut"
    question_words = _words_to_compare(sample.question)
    best = sorted(
        range(len(parts)),
        key=lambda n: (-len(question_words & _words_to_compare(parts[n].text)), n),
    )[:NEAREST]
    return [parts[n] for n in sorted(best)], "nearest"


def _squeeze_blanks(text: str | None) -> str:
    return " ".join((text or "").split())


def _words_to_compare(text: str | None) -> set[str]:
    return set(re.findall(r"\w{3,}", (text or "").casefold()))
