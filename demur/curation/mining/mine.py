"""Samples and an index to distractors: ask in the modes chosen for each source, mine, keep provenance.

The route of a text distractor (VLM-DeflectionBench, section 3.2): a question with an image goes image -> pages -> their
passages, ranked by the question; a question without one goes straight to the passages. An image distractor is the
neighbour of the query image, or of the gold image where the question is text. Samples are taken in blocks, so that
memory does not grow with their number; what is mined does not depend on the size of a block. How the index is to be
asked is settled before (`demur.curation.mining.modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from demur.core.errors import MissingExtra, StorageError, UsageError
from demur.core.progress import QUIET, Progress
from demur.core.records import Drop, Hit, ImageRef, Modality, Sample
from demur.core.vision_ops import ensure_torchvision
from demur.corpora.leaks import STAGE, Leaks, adopted
from demur.corpora.lineage import Gold
from demur.corpora.near import NEAR_OF, REMEMBERED, ImageHash, ImageHashes
from demur.curation.mining.choose import CrossEncoder, Mined, mine
from demur.curation.mining.diversity import Similarity
from demur.curation.mining.modes import ChosenModes, can_score
from demur.curation.mining.options import MiningOptions, Pool
from demur.curation.mining.queries import READ, Unasked, blocks_of, embedded, hits_for, picture_of, shown_of
from demur.retrieval.search import Query, Searcher


def mine_samples(
    samples: Iterable[Sample],
    searcher: Searcher,
    root: Path | None,
    options: MiningOptions,
    chosen: ChosenModes,
    steps: Progress = QUIET,
    image_hashes: Callable[[ImageRef], ImageHash | None] | None = None,
    total: int = 0,
    *,
    seed: int = 0,
    cross_encoder: CrossEncoder | None = None,
) -> Iterator[tuple[Sample, Mined]]:
    """Each sample with its distractors, and what was mined for it.

    Args:
        image_hashes: as for `choose_modes`.
        total: how many samples there are, for `steps`; 0 where that is not known.
        cross_encoder: that of the options, opened already; opened by its name when None.

    Yields:
        (sample with native negatives, where they stay, then mined ones; what was mined). A native negative that leaks
        has left with a `Drop`, as hits that leak do. A sample whose image cannot be read, or that the encoder gives a
        vector for that is NaN, infinite or zero, gets none that need it, with a `Drop` of the sample that says so.

    Raises:
        UsageError: as `choose_modes`; or diversity is wanted of passages that have no vectors; MissingExtra and
            StorageError, as `open_cross_encoder`.
    """
    can_score(options, searcher)
    image_hashes = image_hashes or ImageHashes(root, most=REMEMBERED)
    if cross_encoder is None and options.cross_encoder is not None:
        cross_encoder = open_cross_encoder(options.cross_encoder)
    similarity = _similarity(options, searcher)
    near, alike = NEAR_OF[options.same_image], _Alike(searcher)
    done = 0
    for block in blocks_of(samples, searcher, options):
        cases = _cases(block, searcher, root, options, chosen)
        for pool, wanted in options.quotas.items():
            if wanted and pool == "visual":
                _ask_looks(cases, searcher, options)
            elif wanted:
                _ask_passages(cases, pool, searcher, options, chosen)
        for case in _with_hits(cases, searcher, options, chosen):
            sample = case.sample
            base, gone = (
                adopted(sample, Leaks(sample, image_hashes, image_near=near))
                if options.adopts
                else (sample.model_copy(update={"negatives": ()}), [])
            )
            mined = mine(
                base,
                case.hits,
                searcher.documents,
                options,
                image_hashes=image_hashes,
                cross_encoder=cross_encoder,
                similarity=similarity,
                gold_scores=case.golds,
                dense_scores=case.dense,
                gold=case.gold,
                shelf=searcher,
                seed=seed,
            )
            alike.see(mined, case.gold)
            if gone:  # each is told once, though a search may have found it again
                known = {drop.evidence for drop in gone}
                mined = mined._replace(drops=(*gone, *(drop for drop in mined.drops if drop.evidence not in known)))
            if options.by_margin and not _margin_holds(case):
                why = Drop(sample=sample.id, stage=STAGE, reason="no margin: the score of gold is not known")
                mined = mined._replace(drops=(why, *mined.drops))
            if case.unasked is not None:
                why = Drop(sample=sample.id, stage=STAGE, reason=case.unasked.reason, detail=case.unasked.detail)
                mined = mined._replace(drops=(why, *mined.drops))
            yield base.model_copy(update={"negatives": (*base.negatives, *mined.negatives)}), mined
            done += 1
            if done % READ == 0:
                steps.count("samples mined", done, total)
    steps.count("samples mined", done, total)
    if alike.warning:
        steps.warn(alike.warning)


class _Alike:
    """Counts the pictures met as distractors that were left out because they look the same as another.

    Those of gold's own page are none of them: they should look like what is asked about.
    """

    MOST = 0.05
    """Share of them from which it is worth a look whether they are."""
    FEWEST = 20

    def __init__(self, searcher: Searcher) -> None:
        self._documents = searcher.documents
        self._met: set[str] = set()
        self._same: set[str] = set()

    def see(self, mined: Mined, gold: Gold) -> None:
        """What was mined for one sample of that gold evidence."""
        self._met.update(e.id for e in mined.negatives if e.image is not None)
        for drop in mined.drops:
            if drop.reason in ("near-duplicate of query", "near-duplicate of gold", "repeated"):
                document = self._documents.get(drop.evidence)
                if document is not None and document.modality is Modality.IMAGE and not gold.relation(document):
                    self._same.add(drop.evidence)

    @property
    def warning(self) -> str:
        """What is to be said of them; "" of few."""
        met = len(self._met | self._same)
        if len(self._same) < self.MOST * met or met < self.FEWEST:
            return ""
        return (
            f"{len(self._same):,} of {met:,} pictures met as distractors were left out for one that they look the "
            "same as (drops.jsonl names them); where they differ, compare bytes alone: same_image: bytes, or "
            "--same-image bytes"
        )


def open_cross_encoder(name: str) -> CrossEncoder:
    """A sentence-transformers cross-encoder, by name or folder, as a function of (question, passages).

    Raises:
        MissingExtra: sentence-transformers is not installed.
        StorageError: there is no such model, or it cannot be loaded.
    """
    try:
        ensure_torchvision()
        from sentence_transformers import CrossEncoder as Model
    except ModuleNotFoundError as error:
        raise MissingExtra("a cross-encoder", extra="clip", module=str(error.name)) from error
    try:
        model = Model(name)
    except (OSError, ValueError) as error:
        why = (str(error).splitlines() or ["it cannot be loaded"])[0]
        raise StorageError(why, item=name, cure="check the name, or give a local folder") from error

    def scores(question: str, passages: Sequence[str]) -> list[float]:
        found: list[float] = model.predict([(question, passage) for passage in passages]).tolist()
        return found

    return scores


def _similarity(options: MiningOptions, searcher: Searcher) -> dict[Pool, Similarity]:
    """How alike those of each kind are, for variety: texts by the vectors of passages, images by those of looks."""
    if options.diversity is None:
        return {}
    parts: dict[Pool, str] = {"text": "passages", "lexical": "passages", "visual": "looks"}
    here = searcher.manifest["parts"]
    if options.lexical and "passages" not in here:
        raise UsageError(
            "the index has no vectors of passages that tell how alike they are",
            item=searcher.folder,
            cure="build it with a --text-encoder, or leave --diversity out",
        )
    return {pool: partial(searcher.cosines, part=part) for pool, part in parts.items() if part in here}


@dataclass
class _Case:
    """A sample while it is mined for."""

    sample: Sample
    gold: Gold
    """Its gold evidence, as it lies in the index."""
    query: Query | None = None
    """None where it cannot be asked."""
    shown: Query | None = None
    """What neighbours of its image are sought with: that image, or that of its gold evidence."""
    found: dict[Pool, Iterator[Sequence[Hit]]] = field(default_factory=dict)
    """What gives its hits next, after those of the cases before it."""
    hits: dict[Pool, Sequence[Hit]] = field(default_factory=dict)
    golds: dict[Pool, float] = field(default_factory=dict)
    """The lowest dense score of its gold evidence, by what the hits were sought with, found among them or not."""
    dense: Mapping[str, float] | None = None
    """Document -> dense score of the text hits, where the score they were found by is another."""
    unasked: Unasked | None = None
    """Why it, or the image of its gold evidence, is not asked about."""


def _cases(
    block: Sequence[Sample], searcher: Searcher, root: Path | None, options: MiningOptions, chosen: ChosenModes
) -> list[_Case]:
    """Samples with their questions embedded, each image read once."""
    cases = [_Case(sample, Gold(sample.gold, searcher.documents)) for sample in block]
    visual = bool(options.visual) and "image->image" in searcher.modes
    pools = [pool for pool, wanted in options.quotas.items() if wanted and pool != "visual"]
    by_modes: dict[tuple[str, ...], list[_Case]] = {}
    for case in cases:
        modes = [_mode(case.sample, pool, chosen) for pool in pools]
        if visual and case.sample.images:
            modes.append("image->image")
        if modes:
            by_modes.setdefault(tuple(modes), []).append(case)
    for asked_in, group in by_modes.items():
        wanted = [(case.sample.question, picture_of(case.sample)) for case in group]
        for case, made in zip(group, embedded(wanted, searcher, root, asked_in), strict=True):
            if isinstance(made, Unasked):
                case.unasked = made
            else:
                case.query = made
                case.shown = made if visual and case.sample.images else None
    if visual:
        group = [case for case in cases if not case.sample.images and shown_of(case.sample)]
        wanted = [(case.sample.question, shown_of(case.sample)) for case in group]
        for case, made in zip(group, embedded(wanted, searcher, root, ["image->image"]), strict=True):
            if isinstance(made, Unasked):
                case.unasked = made
            else:
                case.shown = made
    return cases


def _mode(sample: Sample, pool: Pool, chosen: ChosenModes) -> str:
    """How a sample finds passages: through pages where it has an image, straight where it has none."""
    by = "lexical" if pool == "lexical" else "text->text"
    by_page, by_text = chosen.pages.get(sample.source), chosen.passages.get(sample.source)
    if sample.images and by_page is not None:
        return f"{by_page.mode}/{by}"
    return by if pool == "lexical" or by_text is None else by_text.mode


def _ask_passages(
    cases: Sequence[_Case], pool: Pool, searcher: Searcher, options: MiningOptions, chosen: ChosenModes
) -> None:
    """Seek passages for every sample."""
    by_mode: dict[tuple[str, int], list[tuple[_Case, Query]]] = {}
    for case in cases:
        if case.query is not None:
            source = case.sample.source
            key = _mode(case.sample, pool, chosen), chosen.pages_of.get(source, options.pages)
            by_mode.setdefault(key, []).append((case, case.query))
    for (mode, pages), asked in by_mode.items():
        if mode.partition("/")[0] in searcher.modes:
            found = searcher.iter_search([query for _, query in asked], mode, hits_for(options, pool), pages=pages)
            for case, _ in asked:
                case.found[pool] = found


def _ask_looks(cases: Sequence[_Case], searcher: Searcher, options: MiningOptions) -> None:
    """Seek images near the query image; near the gold image where the question is text."""
    asked = [(case, case.shown) for case in cases if case.shown is not None]
    found = searcher.iter_search([query for _, query in asked], "image->image", hits_for(options, "visual"))
    for case, _ in asked:
        case.found["visual"] = found


def _with_hits(
    cases: Sequence[_Case], searcher: Searcher, options: MiningOptions, chosen: ChosenModes
) -> Iterator[_Case]:
    """Each case with its hits, and the scores that limits and margins compare; made for `READ` of them at a time."""
    for start in range(0, len(cases), READ):
        some = cases[start : start + READ]
        for case in some:
            case.hits = {pool: next(lines) for pool, lines in case.found.items()}
        texts = [(case, case.query) for case in some if case.query is not None and case.hits.get("text")]
        if options.by_score:
            by_words = [both for both in texts if not _mode(both[0].sample, "text", chosen).endswith("text->text")]
            _score_hits(by_words, "text", searcher)
        if options.by_margin:
            pictures = [(case, case.shown) for case in some if case.shown is not None and "visual" in case.hits]
            _score_gold(texts, "text", "text->text", searcher)
            _score_gold(pictures, "visual", "image->image", searcher)
        for case in some:
            yield case
            case.hits, case.dense = {}, None


def _score_hits(asked: Sequence[tuple[_Case, Query]], pool: Pool, searcher: Searcher) -> None:
    """Dense scores for hits found by words or fused: no margin is to be measured in reciprocal ranks."""
    lists = [[hit.document for hit in case.hits[pool]] for case, _ in asked]
    if not asked:
        return
    found = searcher.rerank([query for _, query in asked], lists, max(map(len, lists)) or 1)
    for (case, _), line in zip(asked, found, strict=True):
        case.dense = {hit.document: hit.score for hit in line}


def _score_gold(asked: Sequence[tuple[_Case, Query]], pool: Pool, by: str, searcher: Searcher) -> None:
    if not asked:
        return
    pieces = [case.gold.scored_in(searcher, by_image=by == "image->image") for case, _ in asked]
    lists = [list(dict.fromkeys(id for ids in each for id in ids)) for each in pieces]
    found = searcher.rerank([query for _, query in asked], lists, max(map(len, lists)) or 1, by=by)
    for (case, _), each, line in zip(asked, pieces, found, strict=True):
        scores = {hit.document: hit.score for hit in line}
        best = [max(scores[id] for id in ids if id in scores) for ids in each if scores.keys() & set(ids)]
        if best:
            case.golds[pool] = min(best)


def _margin_holds(case: _Case) -> bool:
    """Whether the score of gold is known in every search by scores that found something."""
    by_score: tuple[Pool, ...] = ("text", "visual")
    return all(pool in case.golds for pool in by_score if case.hits.get(pool))
