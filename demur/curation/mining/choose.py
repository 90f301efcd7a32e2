"""Chooses distractors for one sample among search hits (VLM-DeflectionBench, section 3.2, equations 2 and 3).

Each distractor keeps how its hit was found: ``index_id``, ``mode``, ``rank``, ``score``. A hit becomes a distractor
unless, in this order, it is:

    unknown document         no document has that id
    empty                    a text without words, or of the wrong modality
    gold                     gold evidence, a part of it, or what contains it (`demur.corpora.lineage`)
    native                   a negative that the source ships
    already mined            a distractor that another kind of search found
    unreadable               (images only) the file is missing or has changed
    query image, near-duplicate of gold, near-duplicate of query, holds the answer
                             a leak (`demur.corpora.leaks`); native negatives are checked by the same rule
    same subject             (images only) the query image of a question of the same cluster
    gold page                an image on a page of gold evidence; with ``own_page: drop`` also its other passages
    page holds the answer    an image on a page that has a passage with the answer
    repeated                 same words or same look as another distractor of the sample

    within the margin of gold, scores too high, scores too low
                             by the margins and limits of the options
    page is full             the page has given ``per_page`` distractors
    rank                     skipped by ``range_min``, or not drawn
    less diverse             not picked by maximal marginal relevance (with ``diversity``)

Every hit that is left out is a `Drop` with that reason; hits after the last one needed are not examined. With
``diversity`` all hits up to ``range_max`` are examined, distractors stand in the order they were picked, and their
``mode`` shows it (``text->text mmr(0.5)``).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.core.records import Document, Drop, Evidence, Hit, ImageRef, Modality, Role, Sample
from demur.core.store import seed_of
from demur.corpora.leaks import STAGE, Leaks
from demur.corpora.lineage import Gold, IndexedDocuments, document_of, page_of
from demur.corpora.near_duplicates import IMAGE_THRESHOLDS, ImageHash, image_matcher, same_text
from demur.curation.mining.diversity import Similarity, marginal_relevance
from demur.curation.mining.options import MiningOptions, Pool

SUBJECTS = "subjects"
"""Attribute of query images in an index: the clusters of their questions, one per line."""
NO_LIMITS = dict.fromkeys(("max_score", "min_score", "absolute_margin", "relative_margin"))
"""Removes the score limits, which are about dense scores."""


class Mined(NamedTuple):
    """What was mined for one sample."""

    sample: str
    negatives: tuple[Evidence, ...]
    """Distractors by rank (with ``diversity`` as picked), ``origin="mined"``; ``score`` is the dense score if given."""
    drops: tuple[Drop, ...]
    """Hits that were left out, by rank."""


def mine(
    sample: Sample,
    hits: Mapping[Pool, Sequence[Hit]],
    documents: Mapping[str, Document],
    options: MiningOptions,
    *,
    similarity: Mapping[Pool, Similarity] | None = None,
    gold_scores: Mapping[Pool, float] | None = None,
    dense_scores: Mapping[str, float] | None = None,
    gold: Gold | None = None,
    **options_of_kind: Any,
) -> Mined:
    """Distractors of all kinds for one sample, in the order ``text``, ``lexical``, ``visual``; none twice.

    Args:
        hits: of each kind, by rank; a kind may be missing.
        options: a quota for each kind (no kind fills the quota of another), and which hits may be taken.
        similarity, gold_scores: kind -> the argument of `mine_kind`.
        dense_scores: of `mine_kind`, for the kind ``text``.
        options_of_kind: other arguments of `mine_kind`: image_hashes, shelf, seed.
    """
    gold = gold or Gold(sample.gold, documents)
    negatives: list[Evidence] = []
    drops: list[Drop] = []
    for kind in options.quotas:
        so_far = sample.model_copy(update={"negatives": (*sample.negatives, *negatives)})
        mined = mine_kind(
            kind,
            so_far,
            hits.get(kind, ()),
            documents,
            options,
            gold=gold,
            gold_score=(gold_scores or {}).get(kind),
            similarity=(similarity or {}).get(kind),
            dense_scores=dense_scores if kind == "text" else None,
            **options_of_kind,
        )
        negatives += mined.negatives
        drops += mined.drops
    return Mined(sample.id, tuple(negatives), tuple(drops))


def mine_kind(
    kind: Pool,
    sample: Sample,
    hits: Sequence[Hit],
    documents: Mapping[str, Document],
    options: MiningOptions | None = None,
    *,
    limit: int | None = None,
    image_hashes: Callable[[ImageRef], ImageHash | None] = lambda image: None,
    gold_score: float | None = None,
    dense_scores: Mapping[str, float] | None = None,
    similarity: Similarity | None = None,
    gold: Gold | None = None,
    shelf: IndexedDocuments | None = None,
    seed: int = 0,
) -> Mined:
    """Distractors of one kind for one sample, from hits, best first.

    Args:
        kind: ``text`` (dense) or ``lexical``: hits on passages; ``visual``: hits on images, of a search by the query
            image, or by the gold image if the question is text. Score limits do not apply to ``lexical``.
        documents: id -> document, of all hits and of gold evidence.
        options: None is the defaults.
        limit: most distractors; None is the kind's quota.
        image_hashes: `demur.corpora.near_duplicates.ImageHashes`; without it images are compared by their bytes.
        gold_score: the lowest score of gold evidence, from which margins are measured; None: of gold evidence among the
            hits. Without any, no margin applies. Gold evidence in several passages has the score of the best one.
        dense_scores: document -> score for margins and limits, if the hits have another kind of score (reciprocal
            ranks, BM25); a hit that is missing is left out. None uses the hits' scores.
        similarity: of documents, for ``options.diversity``; None picks by rank.
        gold: the sample's gold evidence among the documents, if it is known already.
        shelf: the index, which lists the passages of a page; None does not check pages of images for the answer.
        seed: of ``options.sampling: random``.
    """
    options = options or MiningOptions()
    visual, limit = kind == "visual", options.quotas[kind] if limit is None else limit
    if not limit:
        return Mined(sample.id, (), ())
    if kind == "lexical":
        options = options.model_copy(update=NO_LIMITS)
    gold, image_near = gold or Gold(sample.gold, documents), IMAGE_THRESHOLDS[options.same_image]
    leaks = Leaks(sample, image_hashes, image_near=image_near, gold=gold)
    holding = _find_passage_with_answer(leaks, shelf if options.answer_pages == "drop" else None)
    known_reason = _find_known_use(sample, gold)
    candidates: list[tuple[Hit, Document]] = []

    def repeats(document: Document, other: Document | Evidence) -> bool:
        if not visual:
            return bool(other.text) and same_text(str(document.text), str(other.text))
        shows = other.image is not None and image_matcher([other.image], image_hashes, image_near)
        return bool(shows and document.image is not None and shows(document.image))

    def objection(document: Document) -> tuple[str, str]:
        if visual and (document.image is None or document.modality is not Modality.IMAGE):
            return "empty", "not an image"
        if not visual and not (document.text or "").strip():
            return "empty", ""
        if reason := known_reason(document):
            return reason, ""
        if visual and document.image is not None and image_hashes(document.image) is None:
            return "unreadable", document.image.uri
        leak = leaks.of(document)
        if leak[0]:
            return leak
        if (
            visual
            and sample.cluster
            and sample.cluster.removeprefix(f"{sample.source}:") in subjects_of(document)
        ):
            return "same subject", ""
        if (visual or options.own_page == "drop") and gold.relation(document) == "gold page":
            return "gold page", page_of(document)
        if document.image is not None and (passage := holding(document)):
            return "page holds the answer", passage
        others: list[Document | Evidence] = [*sample.negatives, *(d for _, d in candidates)]
        twin = next((other.id for other in others if repeats(document, other)), "")
        return ("repeated", twin) if twin else ("", "")

    weight = options.diversity if similarity is not None else None
    positive = gold_score
    if positive is None and options.by_margin:
        scores = (
            {hit.document: hit.score for hit in reversed(hits)}
            if dense_scores is None
            else dense_scores
        )
        positive = lowest_gold(gold, scores, documents)
    most_candidates = options.range_max
    if options.sampling == "top" and weight is None:
        most_candidates = min(
            options.range_min + limit, most_candidates or options.range_min + limit
        )
    drops: list[tuple[Hit, str, str]] = []
    on_page: Counter[str] = Counter()
    seen: set[str] = set()
    for hit in hits:
        if most_candidates is not None and len(candidates) >= most_candidates:
            break
        if hit.document in seen:
            continue
        seen.add(hit.document)
        document = documents.get(hit.document)
        if document is None:
            drops.append((hit, "unknown document", ""))
            continue
        reason, detail = objection(document)
        score = hit.score if dense_scores is None else dense_scores.get(hit.document)
        if not reason and score is None:
            reason = "no dense score"
        elif not reason and score is not None:
            reason = options.objection(score, positive)
            detail = f"{score:.6g}" if reason else ""
        page = page_of(document)
        if not reason and options.per_page is not None and on_page[page] >= options.per_page:
            reason, detail = "page is full", page
        if reason:
            drops.append((hit, reason, detail))
            continue
        on_page[page] += 1
        candidates.append((hit, document))
    ranked = candidates[options.range_min :]
    if similarity is not None and weight is not None and ranked:
        alike = similarity([hit.document for hit, _ in ranked])
        places = marginal_relevance([hit.score for hit, _ in ranked], alike, weight, limit)
    elif options.sampling == "random":
        places = random_places(len(ranked), limit, seed, sample.id)
    else:
        places = list(range(min(len(ranked), limit)))
    picked = [ranked[place] for place in places]
    picked_ids = {hit.document for hit, _ in picked}
    drops += [(hit, "rank", "") for hit, _ in candidates[: options.range_min]]
    unpicked = "rank" if weight is None else "less diverse"
    drops += [(hit, unpicked, "") for hit, _ in ranked if hit.document not in picked_ids]
    drops.sort(key=lambda drop: drop[0].rank)
    negatives = tuple(
        Evidence.of(
            document,
            Role.DISTRACTOR,
            origin="mined",
            index_id=hit.index_id,
            mode=hit.mode if weight is None else f"{hit.mode} mmr({weight:g})",
            rank=hit.rank,
            score=hit.score if dense_scores is None else dense_scores[hit.document],
        )
        for hit, document in picked
    )
    left_out = tuple(
        Drop(sample=sample.id, evidence=hit.document, stage=STAGE, reason=reason, detail=detail)
        for hit, reason, detail in drops
    )
    return Mined(sample.id, negatives, left_out)


def random_places(count: int, limit: int, seed: int, query: str) -> list[int]:
    """``limit`` of ``count`` indices, ascending; they depend on the seed and the query alone."""
    if count <= limit:
        return list(range(count))
    return sorted(random.Random(seed_of(seed, query)).sample(range(count), limit))


def _find_passage_with_answer(
    leaks: Leaks, shelf: IndexedDocuments | None
) -> Callable[[Document], str]:
    """Document -> id of a passage on its page that holds the answer; "" if there is none, or no index."""
    passage_of_page: dict[str, str] = {}

    def answer_passage(document: Document) -> str:
        if shelf is None:
            return ""
        page = page_of(document)
        if page not in passage_of_page:
            passages = (shelf.documents[id] for id in shelf.on_page(page))
            passage_of_page[page] = next(
                (p.id for p in passages if p.text is not None and leaks.answer(p)), ""
            )
        return passage_of_page[page]

    return answer_passage


def _find_known_use(sample: Sample, gold: Gold) -> Callable[[Document], str]:
    """Document -> how the sample already uses it, or the document it was cut from; "" if not."""
    use_of_id = {
        e.id: "native" if e.origin == "native" else "already mined" for e in sample.negatives
    }

    def status(document: Document) -> str:
        if gold.parts(document):
            return "gold"
        return use_of_id.get(document.id) or use_of_id.get(document_of(document), "")

    return status


def lowest_gold(
    gold: Gold, scores: Mapping[str, float], documents: Mapping[str, Document]
) -> float | None:
    """The lowest score of gold evidence, each with the score of its best passage; None if none has a score.

    Args:
        scores: document -> score.
    """
    best: dict[str, float] = {}
    for id, score in scores.items():
        document = documents.get(id)
        for e in gold.parts(document) if document is not None else ():
            best[e.id] = max(score, best.get(e.id, score))
    return min(best.values(), default=None)


def subjects_of(document: Document) -> list[str]:
    """Clusters of the questions that ask about an image (`demur.curation.build.knowledge_bases.query_images`)."""
    return document.attributes.get(SUBJECTS, "").splitlines()
