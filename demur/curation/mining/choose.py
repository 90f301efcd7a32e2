"""Chooses distractors for one sample among search hits (VLM-DeflectionBench, section 3.2, equations 2 and 3).

Each distractor keeps how its hit was found: ``index_id``, ``mode``, ``rank``, ``score``. A hit becomes a distractor
unless, in this order,

    unknown document         no document has that id
    ...                      an objection to the document holds (`demur.curation.mining.objections`)
    within the margin of gold, scores too high, scores too low
                             by the margins and limits of the options
    page is full             the page has given ``per_page`` distractors
    rank                     it is skipped by ``range_min``, or not drawn
    less diverse             it is not picked by maximal marginal relevance (with ``diversity``)

Every hit that is left out is a `Drop` with that reason; hits after the last one needed are not examined. With
``diversity`` all hits up to ``range_max`` are examined, distractors stand in the order they were picked, and their
``mode`` shows it (``text->text mmr(0.5)``).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from demur.core.records import Document, Drop, Evidence, Hit, Role, Sample
from demur.core.store import seed_of
from demur.corpora.leaks import STAGE
from demur.corpora.lineage import Gold, page_of
from demur.curation.mining.diversity import marginal_relevance
from demur.curation.mining.objections import Objection, Objections, Stock, objections_of
from demur.curation.mining.options import MiningOptions, Pool

NO_LIMITS = dict.fromkeys(("max_score", "min_score", "absolute_margin", "relative_margin"))
"""Removes the score limits, which are about dense scores."""


@dataclass(frozen=True)
class SearchResult:
    """What a search of one kind found for a sample."""

    hits: Sequence[Hit]
    """By rank."""
    gold_score: float | None = None
    """The lowest score of gold evidence, from which margins are measured; None: of gold evidence among the hits. Without
    any, no margin applies. Gold evidence in several passages has the score of the best one."""
    dense_scores: Mapping[str, float] | None = None
    """Document -> score for margins and limits, if the hits have another kind of score (reciprocal ranks, BM25); a hit
    that is missing is left out. None uses the hits' scores."""

    def score(self, hit: Hit) -> float | None:
        """The score of a hit for margins and limits; None if it has none."""
        return hit.score if self.dense_scores is None else self.dense_scores.get(hit.document)


class Mined(NamedTuple):
    """What was mined for one sample."""

    sample: str
    negatives: tuple[Evidence, ...]
    """Distractors by rank (with ``diversity`` as picked), ``origin="mined"``; ``score`` is the dense score if given."""
    drops: tuple[Drop, ...]
    """Hits that were left out, by rank."""


def mine(
    sample: Sample,
    results: Mapping[Pool, SearchResult],
    options: MiningOptions,
    stock: Stock,
    gold: Gold | None = None,
) -> Mined:
    """Distractors of all kinds for one sample, in the order ``text``, ``lexical``, ``visual``; none twice.

    Args:
        results: of each kind; one may be missing.
        options: a quota for each kind (no kind fills the quota of another), and which hits may be taken.
        gold: as of `mine_kind`.
    """
    gold = gold or Gold(sample.gold, stock.documents)
    negatives: list[Evidence] = []
    drops: list[Drop] = []
    for kind, quota in options.quotas.items():
        if not quota:
            continue
        so_far = sample.model_copy(update={"negatives": (*sample.negatives, *negatives)})
        result = results.get(kind, SearchResult(()))
        mined = mine_kind(kind, so_far, result, options, stock, gold)
        negatives += mined.negatives
        drops += mined.drops
    return Mined(sample.id, tuple(negatives), tuple(drops))


def mine_kind(
    kind: Pool,
    sample: Sample,
    result: SearchResult,
    options: MiningOptions,
    stock: Stock,
    gold: Gold | None = None,
) -> Mined:
    """Distractors of one kind for one sample, up to its quota.

    Args:
        kind: ``text`` (dense) or ``lexical``: hits on passages; ``visual``: hits on images, of a search by the query
            image, or by the gold image if the question is text. Score limits do not apply to ``options.unlimited``.
        sample: its negatives are not mined again.
        gold: the sample's gold evidence among the documents, if it is known already.
    """
    if not options.quotas[kind]:
        return Mined(sample.id, (), ())
    if kind == options.unlimited:
        options = options.model_copy(update=NO_LIMITS)
    choice = _Choice(
        kind, sample, result, options, stock, gold or Gold(sample.gold, stock.documents)
    )
    choice.examine_hits()
    return choice.mined()


class _Candidate(NamedTuple):
    """A hit that may become a distractor."""

    hit: Hit
    document: Document


@dataclass
class _Choice:
    """The choice among the hits of one kind for one sample."""

    kind: Pool
    sample: Sample
    result: SearchResult
    options: MiningOptions
    stock: Stock
    gold: Gold
    candidates: list[_Candidate] = field(default_factory=list)
    dropped: list[tuple[Hit, Objection]] = field(default_factory=list)

    def examine_hits(self) -> None:
        """Sort hits into candidates and dropped ones, until there are as many candidates as can be needed."""
        objections = objections_of(self.kind, self.sample, self.options, self.stock, self.gold)
        positive, most = self._gold_score(), self._most_candidates()
        on_page: Counter[str] = Counter()
        for hit in self._each_document_once():
            if most is not None and len(self.candidates) >= most:
                return
            document = self.stock.documents.get(hit.document)
            if document is None:
                self.dropped.append((hit, Objection("unknown document")))
                continue
            objection = self._objection(objections, hit, document, positive)
            page = page_of(document)
            per_page = self.options.per_page
            if objection is None and per_page is not None and on_page[page] >= per_page:
                objection = Objection("page is full", page)
            if objection is not None:
                self.dropped.append((hit, objection))
                continue
            on_page[page] += 1
            self.candidates.append(_Candidate(hit, document))
            objections.candidates.append(document)

    def mined(self) -> Mined:
        """The distractors that are picked among the candidates, and the drops."""
        skipped, ranked = (
            self.candidates[: self.options.range_min],
            self.candidates[self.options.range_min :],
        )
        picked = [ranked[place] for place in self._pick(ranked)]
        picked_ids = {candidate.hit.document for candidate in picked}
        unpicked = Objection("rank" if self._diversity is None else "less diverse")
        dropped = [
            *self.dropped,
            *((candidate.hit, Objection("rank")) for candidate in skipped),
            *((c.hit, unpicked) for c in ranked if c.hit.document not in picked_ids),
        ]
        dropped.sort(key=lambda hit_and_objection: hit_and_objection[0].rank)
        return Mined(
            self.sample.id,
            tuple(map(self._as_evidence, picked)),
            tuple(
                Drop(
                    sample=self.sample.id,
                    evidence=hit.document,
                    stage=STAGE,
                    reason=objection.reason,
                    detail=objection.detail,
                )
                for hit, objection in dropped
            ),
        )

    @property
    def _limit(self) -> int:
        return self.options.quotas[self.kind]

    @property
    def _diversity(self) -> float | None:
        """Weight of relevance in maximal marginal relevance; None picks by rank."""
        return self.options.diversity if self.kind in self.stock.similarity else None

    def _gold_score(self) -> float | None:
        if self.result.gold_score is not None or not self.options.by_margin:
            return self.result.gold_score
        scores = self.result.dense_scores
        if scores is None:
            scores = {hit.document: hit.score for hit in reversed(self.result.hits)}
        return lowest_gold(self.gold, scores, self.stock.documents)

    def _most_candidates(self) -> int | None:
        """Candidates after which no hit needs to be examined; None: all are."""
        if self.options.sampling != "top" or self._diversity is not None:
            return self.options.range_max
        needed = self.options.range_min + self._limit
        return min(needed, self.options.range_max or needed)

    def _each_document_once(self) -> Iterator[Hit]:
        seen: set[str] = set()
        for hit in self.result.hits:
            if hit.document not in seen:
                seen.add(hit.document)
                yield hit

    def _objection(
        self, objections: Objections, hit: Hit, document: Document, positive: float | None
    ) -> Objection | None:
        """The objection to a document, or else to its score."""
        if objection := objections.to(document):
            return objection
        score = self.result.score(hit)
        if score is None:
            return Objection("no dense score")
        reason = self.options.objection(score, positive)
        return Objection(reason, f"{score:.6g}") if reason else None

    def _pick(self, ranked: Sequence[_Candidate]) -> list[int]:
        """Places of the candidates that become distractors."""
        weight = self._diversity
        if weight is not None and ranked:
            similarity = self.stock.similarity[self.kind]([c.hit.document for c in ranked])
            scores = [c.hit.score for c in ranked]
            return marginal_relevance(scores, similarity, weight, self._limit)
        if self.options.sampling == "random":
            return random_places(len(ranked), self._limit, self.stock.seed, self.sample.id)
        return list(range(min(len(ranked), self._limit)))

    def _as_evidence(self, candidate: _Candidate) -> Evidence:
        hit, weight = candidate.hit, self._diversity
        return Evidence.of(
            candidate.document,
            Role.DISTRACTOR,
            origin="mined",
            index_id=hit.index_id,
            mode=hit.mode if weight is None else f"{hit.mode} mmr({weight:g})",
            rank=hit.rank,
            score=self.result.score(hit),
        )


def random_places(count: int, limit: int, seed: int, query: str) -> list[int]:
    """``limit`` of ``count`` indices, ascending; they depend on the seed and the query alone."""
    if count <= limit:
        return list(range(count))
    return sorted(random.Random(seed_of(seed, query)).sample(range(count), limit))


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
