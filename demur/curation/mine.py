"""Mining: hits of an index in, distractors for one sample out (VLM-DeflectionBench, section 3.2, equations 2 and 3).

Pure: hits and documents in, evidence out. Who asked the index, and how, stands in the hits and is kept in each
piece of evidence (``index_id``, ``mode``, ``rank``, ``score``).

A hit becomes a distractor unless it is, in this order of asking:

    unknown document         no document of that id
    empty                    a text without words, or an image where text was asked (and the other way)
    gold                     evidence that supports the answer, by id
    query image              the very image that is asked about, by id or bytes
    native                   already among the sample's negatives
    near-duplicate of gold   same words or same look as gold evidence
    near-duplicate of query  same look as the query image
    holds the answer         an answer or alias stands in it, type-aware (`demur.answers.holds`): a false negative
    gold page                (images only) it lies on the page of gold evidence: it shows the same thing
    repeated                 same words or same look as a distractor already taken

Every hit that is left out is a `Drop` with that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from demur.answers import holds
from demur.curation.near import IMAGE_NEAR, TEXT_NEAR, Look, same_look, same_text
from demur.records import Document, Drop, Evidence, Hit, ImageRef, Modality, Role, Sample

STAGE = "mine"


class Mined(NamedTuple):
    """What was mined for one sample."""

    sample: str
    negatives: tuple[Evidence, ...]
    """Distractors by rank: ``origin="mined"``, with index, mode, rank and score of the hit."""
    drops: tuple[Drop, ...]
    """Hits left out, in their order, each with its reason."""


def mine_text(
    sample: Sample,
    hits: Sequence[Hit],
    documents: Mapping[str, Document],
    *,
    limit: int = 20,
    near: float = TEXT_NEAR,
    answers: Callable[[str], bool] | None = None,
) -> Mined:
    """Text distractors from hits on passages, best first.

    Args:
        sample: with its gold evidence; its native negatives are not mined again.
        hits: documents by rank, from ``text->text``, ``lexical``, ``fused`` or ``.../text->text`` searches.
        documents: every document hit, by id.
        limit: distractors wanted at most.
        near: share of common five-grams from which two texts are near-duplicates; above 1 turns the check off.
        answers: whether a text holds the answer; ``demur.answers.holds`` of the sample's answers when None.
    """
    has_answer = answers or (lambda text: holds(sample.answers, text))
    gold = {e.id for e in sample.gold}
    native = {e.id for e in sample.negatives}
    gold_texts = [e.text for e in sample.gold if e.text]
    taken: list[Evidence] = []

    def objection(hit: Hit, document: Document | None) -> tuple[str, str]:
        if document is None:
            return "unknown document", ""
        text = document.text
        if text is None or not text.strip():
            return "empty", ""
        if hit.document in gold:
            return "gold", ""
        if hit.document in native:
            return "native", ""
        if any(same_text(text, other, near) for other in gold_texts):
            return "near-duplicate of gold", ""
        if has_answer(f"{document.title}\n{text}"):
            return "holds the answer", sample.answers.shown
        twin = next((e.id for e in taken if e.text and same_text(text, e.text, near)), "")
        return ("repeated", twin) if twin else ("", "")

    return _mine(sample, hits, documents, objection, taken, limit)


def mine_visual(
    sample: Sample,
    hits: Sequence[Hit],
    documents: Mapping[str, Document],
    *,
    looks: Callable[[ImageRef], Look | None],
    limit: int = 10,
    near: int = IMAGE_NEAR,
    gold_pages: Iterable[str] | None = None,
    answers: Callable[[str], bool] | None = None,
) -> Mined:
    """Image distractors from hits on images, best first.

    Args:
        sample: with its gold evidence and query images.
        hits: documents by rank, from an ``image->image`` search by the query image, or by the gold image where the
            question is text and its evidence an image.
        documents: every document hit, by id; gold documents too, so that their pages are known.
        looks: what an image looks like, see `demur.curation.near.looks_of`.
        limit: distractors wanted at most.
        near: bits, of 64, within which two images are near-duplicates; -1 turns the check off.
        gold_pages: pages whose images may show the answer; those of the gold documents when None.
        answers: whether a caption holds the answer; ``demur.answers.holds`` of the sample's answers when None.
    """
    has_answer = answers or (lambda text: holds(sample.answers, text))
    gold = {e.id for e in sample.gold}
    native = {e.id for e in sample.negatives}
    if gold_pages is None:
        gold_pages = (documents[id].page for id in gold if id in documents)
    pages = {page for page in gold_pages if page}
    gold_images = [e.image for e in sample.gold if e.image is not None]
    gold_looks = [look for image in gold_images if (look := looks(image))]
    query_looks = [look for image in sample.images if (look := looks(image))]
    query_bytes = {image.sha256 for image in sample.images}
    gold_bytes = {image.sha256 for image in gold_images}
    taken: list[Evidence] = []

    def alike(look: Look | None, others: Iterable[Look | None]) -> bool:
        return look is not None and near >= 0 and any(o is not None and same_look(look, o, near) for o in others)

    def objection(hit: Hit, document: Document | None) -> tuple[str, str]:
        if document is None:
            return "unknown document", ""
        if document.image is None or document.modality is not Modality.IMAGE:
            return "empty", "not an image"
        if hit.document in gold:
            return "gold", ""
        if document.image.sha256 in query_bytes:
            return "query image", ""
        if hit.document in native:
            return "native", ""
        look = looks(document.image)
        if look is None:
            return "empty", "the image cannot be read"
        if document.image.sha256 in gold_bytes or alike(look, gold_looks):
            return "near-duplicate of gold", ""
        if alike(look, query_looks):
            return "near-duplicate of query", ""
        if has_answer(document.title):
            return "holds the answer", sample.answers.shown
        if document.page in pages:
            return "gold page", document.page
        for other in taken:
            if other.image is not None and (
                other.image.sha256 == document.image.sha256 or alike(look, [looks(other.image)])
            ):
                return "repeated", other.id
        return "", ""

    return _mine(sample, hits, documents, objection, taken, limit)


def _mine(
    sample: Sample,
    hits: Sequence[Hit],
    documents: Mapping[str, Document],
    objection: Callable[[Hit, Document | None], tuple[str, str]],
    taken: list[Evidence],
    limit: int,
) -> Mined:
    drops, seen = [], set()
    for hit in hits:
        if len(taken) >= limit:
            break
        if hit.document in seen:
            continue
        seen.add(hit.document)
        document = documents.get(hit.document)
        reason, detail = objection(hit, document)
        if reason or document is None:
            drops.append(Drop(sample=sample.id, evidence=hit.document, stage=STAGE, reason=reason, detail=detail))
            continue
        taken.append(
            Evidence.of(
                document,
                Role.DISTRACTOR,
                origin="mined",
                index_id=hit.index_id,
                mode=hit.mode,
                rank=hit.rank,
                score=hit.score,
            )
        )
    return Mined(sample.id, tuple(taken), tuple(drops))
