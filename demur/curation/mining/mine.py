"""Samples and an index to distractors: ask in the modes chosen for each source, mine, keep provenance.

Text distractors (VLM-DeflectionBench, section 3.2): a question with an image searches pages by the image and ranks
their passages by the question; a question without one searches passages directly. Image distractors are neighbours of
the query image, or of the gold image if the question is text. Samples are mined in blocks, so that memory does not grow
with their number; the result does not depend on the block size. `demur.curation.mining.modes` chooses the modes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from demur.core.errors import UsageError
from demur.core.records import Drop, Hit, ImageRef, Modality, Sample
from demur.corpora.leaks import STAGE, Leaks, adopt_negatives
from demur.corpora.lineage import Gold
from demur.corpora.near_duplicates import IMAGE_THRESHOLDS, ImageHash
from demur.curation.mining.choose import Mined, SearchResult, mine
from demur.curation.mining.diversity import Similarity
from demur.curation.mining.modes import ChosenModes, can_score
from demur.curation.mining.objections import Stock
from demur.curation.mining.options import MiningOptions, Pool
from demur.curation.mining.queries import (
    READ,
    Mining,
    Unsearchable,
    blocks_of,
    embed_questions,
    hits_for,
    image_to_match,
    query_image,
)
from demur.indexing.parts import passage_text
from demur.retrieval.cross_encoder import CrossEncoder
from demur.retrieval.modes import Query
from demur.retrieval.search import Searcher

SAME_SHARE = 0.05
"""Warn from this share of candidate images left out as the same as another."""
SAME_FROM = 20
"""Warn from this number of candidate images."""


def mine_samples(
    samples: Iterable[Sample], mining: Mining, chosen: ChosenModes, *, total: int = 0, seed: int = 0
) -> Iterator[tuple[Sample, Mined]]:
    """Each sample with its distractors, and what was mined for it.

    Args:
        total: number of samples, for the progress; 0 if unknown.
        seed: of ``sampling: random``.

    Yields:
        (sample with its native negatives, then the mined ones; what was mined). Native negatives that leak become a
        `Drop`, like hits that leak. If the image of a sample cannot be read, or its vector is NaN, infinite or zero,
        the sample gets no distractors that need it, and a `Drop` without evidence says why.

    Raises:
        UsageError: see `choose_modes`; or the options want diversity, and passages have no vectors.
    """
    searcher, options = mining.searcher, mining.options
    can_score(options, searcher)
    similarity = _similarity_of_kind(options, searcher)
    stock = Stock(searcher.documents, searcher, mining.image_hashes, similarity, seed)
    pictured_ids: set[str] = set()
    same_pictures: set[str] = set()
    done = 0
    for block in blocks_of(samples, searcher, options):
        cases = _embed_questions(block, mining, chosen)
        _search(cases, mining, chosen)
        for case in _with_hits(cases, mining, chosen):
            base, adopt_drops = adopt_own_negatives(case.sample, options, mining.image_hashes, seed)
            mined = mine(base, case.search_results(), options, stock, case.gold)
            pictured_ids.update(e.id for e in mined.negatives if e.image is not None)
            same_pictures |= _same_pictures(mined, searcher, case.gold)
            dropped_ids = {drop.evidence for drop in adopt_drops}  # a search may find them again
            mine_drops = [drop for drop in mined.drops if drop.evidence not in dropped_ids]
            drops = (*_unsearched(case, options), *adopt_drops, *mine_drops)
            negatives = (*base.negatives, *mined.negatives)
            yield base.model_copy(update={"negatives": negatives}), mined._replace(drops=drops)
            done += 1
            if done % READ == 0:
                mining.steps.count("samples mined", done, total)
    mining.steps.count("samples mined", done, total)
    if warning := same_picture_warning(pictured_ids, same_pictures):
        mining.steps.warn(warning)


def adopt_own_negatives(
    sample: Sample,
    options: MiningOptions,
    image_hashes: Callable[[ImageRef], ImageHash | None],
    seed: int,
) -> tuple[Sample, list[Drop]]:
    """The sample with those of its own negatives that become distractors, and drops of those that leak."""
    if not options.adopts:
        return sample.model_copy(update={"negatives": ()}), []
    near = IMAGE_THRESHOLDS[options.same_image]
    return adopt_negatives(sample, Leaks(sample, image_hashes, image_near=near), seed)


def same_picture_warning(pictured: Collection[str], same_pictures: Collection[str]) -> str:
    """Warn if `SAME_SHARE` of the images or more were left out because they look the same as another; else "".

    Args:
        pictured: ids of image distractors.
        same_pictures: ids of images that were left out for one that looks the same.
    """
    met = len({*pictured, *same_pictures})
    if len(same_pictures) < SAME_SHARE * met or met < SAME_FROM:
        return ""
    return (
        f"{len(same_pictures):,} of {met:,} candidate images were left out because they look the same as another image "
        "(see drops.jsonl). If they differ, compare their bytes alone: same_image: bytes, or --same-image bytes"
    )


def _same_pictures(mined: Mined, searcher: Searcher, gold: Gold) -> set[str]:
    """Images that were left out for one that looks the same; those on gold's own page should look so, and are none."""
    reasons = ("near-duplicate of query", "near-duplicate of gold", "repeated")
    documents = {
        d.evidence: searcher.documents.get(d.evidence) for d in mined.drops if d.reason in reasons
    }
    return {
        id
        for id, document in documents.items()
        if document is not None
        and document.modality is Modality.IMAGE
        and not gold.relation(document)
    }


def _similarity_of_kind(options: MiningOptions, searcher: Searcher) -> dict[Pool, Similarity]:
    """Similarity of distractors of each kind, for diversity: by the vectors of passages or of images."""
    if options.diversity is None:
        return {}
    parts: dict[Pool, str] = {"text": "passages", "lexical": "passages", "visual": "looks"}
    index_parts = searcher.manifest["parts"]
    if options.lexical and "passages" not in index_parts:
        raise UsageError(
            "diversity needs vectors of passages, which the index does not have",
            item=searcher.folder,
            cure="build it with a --text-encoder, or leave --diversity out",
        )
    return {
        pool: partial(searcher.cosines, part=part)
        for pool, part in parts.items()
        if part in index_parts
    }


@dataclass
class _Case:
    """A sample while it is mined."""

    sample: Sample
    gold: Gold
    """Its gold evidence in the index."""
    query: Query | None = None
    """None if it cannot be searched with."""
    image_query: Query | None = None
    """The query for image distractors: its image, or that of its gold evidence."""
    results: dict[Pool, Iterator[Sequence[Hit]]] = field(default_factory=dict)
    """Iterators over hits; each gives the hits of the cases in their order."""
    hits: dict[Pool, Sequence[Hit]] = field(default_factory=dict)
    golds: dict[Pool, float] = field(default_factory=dict)
    """The lowest dense score of its gold evidence in each search, whether or not it is among the hits."""
    dense: Mapping[str, float] | None = None
    """Document -> dense score of the text hits, if their own score is of another kind."""
    unasked: Unsearchable | None = None
    """Why it, or the image of its gold evidence, cannot be searched with."""

    def search_results(self) -> dict[Pool, SearchResult]:
        """The result of each search, as `mine` takes it."""
        return {
            pool: SearchResult(hits, self.golds.get(pool), self.dense if pool == "text" else None)
            for pool, hits in self.hits.items()
        }


def _embed_questions(block: Sequence[Sample], mining: Mining, chosen: ChosenModes) -> list[_Case]:
    """Embed the questions of samples; each image is read once."""
    searcher, options = mining.searcher, mining.options
    cases = [_Case(sample, Gold(sample.gold, searcher.documents)) for sample in block]
    visual = bool(options.visual) and "image->image" in searcher.modes
    pools = [pool for pool, quota in options.quotas.items() if quota and pool != "visual"]
    by_modes: dict[tuple[str, ...], list[_Case]] = {}
    for case in cases:
        modes = [_passage_mode(case.sample, pool, chosen) for pool in pools]
        if visual and case.sample.images:
            modes.append("image->image")
        if modes:
            by_modes.setdefault(tuple(modes), []).append(case)

    def embed(
        group: Sequence[_Case], image: Callable[[Sample], ImageRef | None], modes: Sequence[str]
    ) -> None:
        questions = [(case.sample.question, image(case.sample)) for case in group]
        for case, query_or_fault in zip(
            group, embed_questions(questions, searcher, mining.root, modes), strict=True
        ):
            if isinstance(query_or_fault, Unsearchable):
                case.unasked = query_or_fault
                continue
            if image is query_image:
                case.query = query_or_fault
            if visual and image(case.sample):
                case.image_query = query_or_fault

    for modes_asked, group in by_modes.items():
        embed(group, query_image, modes_asked)
    if visual:
        of_text = [case for case in cases if not case.sample.images and image_to_match(case.sample)]
        embed(of_text, image_to_match, ["image->image"])
    return cases


def _passage_mode(sample: Sample, pool: Pool, chosen: ChosenModes) -> str:
    """The mode that finds passages for a sample: through pages if it has an image."""
    mode = "lexical" if pool == "lexical" else "text->text"
    by_page, by_text = chosen.pages.get(sample.source), chosen.passages.get(sample.source)
    if sample.images and by_page is not None:
        return f"{by_page.mode}/{mode}"
    return mode if pool == "lexical" or by_text is None else by_text.mode


def _search(cases: Sequence[_Case], mining: Mining, chosen: ChosenModes) -> None:
    """Start the searches of every kind that is wanted."""
    for pool, quota in mining.options.quotas.items():
        if quota and pool == "visual":
            _search_images(cases, mining)
        elif quota:
            _search_passages(cases, pool, mining, chosen)


def _search_passages(
    cases: Sequence[_Case], pool: Pool, mining: Mining, chosen: ChosenModes
) -> None:
    """Search passages for every sample."""
    searcher, options = mining.searcher, mining.options
    by_mode: dict[tuple[str, int], list[tuple[_Case, Query]]] = {}
    for case in cases:
        if case.query is not None:
            source = case.sample.source
            key = (
                _passage_mode(case.sample, pool, chosen),
                chosen.pages_of.get(source, options.pages),
            )
            by_mode.setdefault(key, []).append((case, case.query))
    for (mode, pages), cases_and_queries in by_mode.items():
        if mode.partition("/")[0] in searcher.modes:
            results = searcher.iter_search(
                [query for _, query in cases_and_queries],
                mode,
                hits_for(options, pool),
                pages=pages,
            )
            for case, _ in cases_and_queries:
                case.results[pool] = results


def _search_images(cases: Sequence[_Case], mining: Mining) -> None:
    """Search images near the query image, or near the gold image if the question is text."""
    cases_and_queries = [(case, case.image_query) for case in cases if case.image_query is not None]
    results = mining.searcher.iter_search(
        [query for _, query in cases_and_queries],
        "image->image",
        hits_for(mining.options, "visual"),
    )
    for case, _ in cases_and_queries:
        case.results["visual"] = results


def _with_hits(cases: Sequence[_Case], mining: Mining, chosen: ChosenModes) -> Iterator[_Case]:
    """Each case with its hits and the scores that limits and margins compare; `READ` cases at a time."""
    searcher, options = mining.searcher, mining.options
    for start in range(0, len(cases), READ):
        read_cases = cases[start : start + READ]
        for case in read_cases:
            case.hits = {pool: next(lines) for pool, lines in case.results.items()}
        texts = [
            (case, case.query)
            for case in read_cases
            if case.query is not None and case.hits.get("text")
        ]
        if mining.cross_encoder is not None:
            _rank_again(read_cases, mining.cross_encoder, searcher)
        if options.by_score and mining.cross_encoder is None:
            by_words = [
                case_and_query
                for case_and_query in texts
                if not _passage_mode(case_and_query[0].sample, "text", chosen).endswith(
                    "text->text"
                )
            ]
            hits = [[hit.document for hit in case.hits["text"]] for case, _ in by_words]
            # of lexical or fused searches: margins cannot compare reciprocal ranks
            for (case, _), scores in zip(
                by_words, _dense_scores(by_words, hits, searcher), strict=True
            ):
                case.dense = scores
        if options.by_margin and mining.cross_encoder is None:
            pictures = [
                (case, case.image_query)
                for case in read_cases
                if case.image_query is not None and "visual" in case.hits
            ]
            _score_gold(texts, "text", "text->text", searcher)
            _score_gold(pictures, "visual", "image->image", searcher)
        if options.adopts:
            _rank_shipped(read_cases, searcher)
        for case in read_cases:
            yield case
            case.hits, case.dense = {}, None


def _rank_again(cases: Sequence[_Case], cross_encoder: CrossEncoder, searcher: Searcher) -> None:
    """Order the passages that were found for some cases by a cross-encoder, which also scores their gold evidence."""
    pairs: list[tuple[str, str]] = []
    for case in cases:
        question = case.sample.question
        golds = [passage_text(e.title, e.text) for e in case.sample.gold if e.text]
        pairs += [(question, text) for text in golds]
        for pool in _passage_pools(case):
            found = (searcher.documents[hit.document] for hit in case.hits[pool])
            pairs += [(question, passage_text(d.title, d.text or "")) for d in found]
    scores = iter(cross_encoder.scores(pairs))
    for case in cases:
        of_gold = [next(scores) for e in case.sample.gold if e.text]
        for pool in _passage_pools(case):
            hits = [(next(scores), hit) for hit in case.hits[pool]]
            hits.sort(key=lambda scored: (-scored[0], scored[1].rank))
            case.hits[pool] = [
                hit.model_copy(update={"score": s, "rank": n, "mode": f"{hit.mode} reranked"})
                for n, (s, hit) in enumerate(hits, 1)
            ]
            if of_gold:
                case.golds[pool] = min(of_gold)


def _passage_pools(case: _Case) -> list[Pool]:
    return [pool for pool in case.hits if pool != "visual"]


def _dense_scores(
    cases_and_queries: Sequence[tuple[_Case, Query]],
    lists: Sequence[Sequence[str]],
    searcher: Searcher,
    mode: str = "text->text",
) -> list[dict[str, float]]:
    """Document -> dense score, of the documents listed for each case."""
    queries, most = [query for _, query in cases_and_queries], max(map(len, lists), default=0)
    rankings = searcher.rerank(queries, lists, most or 1, by=mode) if queries else ()
    return [{hit.document: hit.score for hit in line} for line in rankings]


def _score_pieces(
    queries_and_golds: Sequence[tuple[tuple[_Case, Query], Gold]], mode: str, searcher: Searcher
) -> list[list[float | None]]:
    """The dense score of each piece of evidence, by the best of its passages; None where the index lacks it."""
    pieces = [
        evidence.scored_in(searcher, by_image=mode == "image->image")
        for _, evidence in queries_and_golds
    ]
    lists = [list(dict.fromkeys(id for ids in each for id in ids)) for each in pieces]
    scores_of_cases = _dense_scores([pair for pair, _ in queries_and_golds], lists, searcher, mode)
    return [
        [max((scores[id] for id in ids if id in scores), default=None) for ids in each]
        for each, scores in zip(pieces, scores_of_cases, strict=True)
    ]


def _score_gold(
    cases_and_queries: Sequence[tuple[_Case, Query]], pool: Pool, mode: str, searcher: Searcher
) -> None:
    golds = [(pair, pair[0].gold) for pair in cases_and_queries]
    for (case, _), scores in zip(
        cases_and_queries, _score_pieces(golds, mode, searcher), strict=True
    ):
        if known := [score for score in scores if score is not None]:
            case.golds[pool] = min(known)


def _rank_shipped(cases: Sequence[_Case], searcher: Searcher) -> None:
    """Rank the negatives that a source ships without ranks as a search for their kind ranks them."""
    for modality, mode in ((Modality.TEXT, "text->text"), (Modality.IMAGE, "image->image")):
        if mode not in searcher.modes:
            continue
        shipped = []
        for case in cases:
            query = case.query if modality is Modality.TEXT else case.image_query
            unranked = [
                e for e in case.sample.negatives if e.modality is modality and e.rank is None
            ]
            if query is not None and unranked:
                shipped.append(((case, query), Gold(unranked, searcher.documents)))
        for ((case, _), evidence), scores in zip(
            shipped, _score_pieces(shipped, mode, searcher), strict=True
        ):
            by_score = sorted(
                (-score, e.id)
                for e, score in zip(evidence.evidence, scores, strict=True)
                if score is not None
            )
            ranks = {id: rank for rank, (_, id) in enumerate(by_score, 1)}
            negatives = (
                e.model_copy(update={"rank": ranks[e.id]}) if e.id in ranks else e
                for e in case.sample.negatives
            )
            case.sample = case.sample.model_copy(update={"negatives": tuple(negatives)})


def _unsearched(case: _Case, options: MiningOptions) -> list[Drop]:
    """Drops without evidence, which say why a sample could not be searched for or compared with gold."""
    reasons = [] if case.unasked is None else [case.unasked]
    if options.by_margin and not _margin_holds(case, options.unlimited):
        reasons.append(Unsearchable("no margin: the score of gold is not known", ""))
    return [
        Drop(sample=case.sample.id, stage=STAGE, reason=why, detail=detail)
        for why, detail in reasons
    ]


def _margin_holds(case: _Case, unlimited: Pool) -> bool:
    """Whether the score of gold is known in every search that has hits and limits."""
    pools: tuple[Pool, ...] = ("text", "lexical", "visual")
    return all(pool in case.golds for pool in pools if pool != unlimited and case.hits.get(pool))
